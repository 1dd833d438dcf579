"""`bridle sandbox probe`: try a dozen escapes from the sandbox."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable

from bridle.base.fs.files import private_folder
from bridle.base.process.processes import Processes
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say, say_json, tell
from bridle.cli.policy.sandbox_context import SandboxContext, version_of, why_not
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.sandbox.adapters.adapter import Adapter
from bridle.sandbox.adapters.adapter_choice import Chooser, ChosenAdapter
from bridle.sandbox.adapters.container import container_around
from bridle.sandbox.probe import ProbeOutcome, ProbeWorld, Result, StartProbe, checks_for, run_probe
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import is_unfiltered

EXIT_LEAKS = 1
_WORDS: dict[ProbeOutcome, str] = {
    "leaks": "leak",
    "broken": "broken",
    "blocked": "blocked",
    "works": "work",
    "not covered": "not covered",
    "not here": "not here",
    "not tried": "not tried",
}
"""How many of each, in the order of the last line."""
_NETWORK_WORDS = {"inherit": "not limited", "filtered": "filtered", "deny": "denied"}


def probe(parsed: argparse.Namespace, here: SandboxContext) -> int:
    try:
        return asyncio.run(_probe(here, only=parsed.adapter, as_json=parsed.json))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        where = visible(str(error.filename or ""), newlines=False)
        tell(f"there is no place to try it: {where} {error.strerror or error}")
        return EXIT_LEAKS


async def _probe(here: SandboxContext, *, only: str | None, as_json: bool) -> int:
    processes = Processes(adopts_orphans=True)
    try:
        chooser = Chooser(processes, state=here.where.state, only=only)  # pyright: ignore[reportArgumentType]  a choice of the parser
        chosen = await chooser.choose()
        if chosen.adapter is None or chosen.way is None:
            tell(_nothing_to_probe(only, chosen))
            return EXIT_LEAKS
        if is_unfiltered(here.policy, chosen.way.name):
            if only is not None:
                raise UsageError(f"{only} cannot filter the network; bubblewrap and unshare can")
            raise CommandRefused("NoNetworkFilter")
        version = await version_of(chosen, processes)
        network = here.settings.sandbox.network
        container = container_around(here.env)
        if not as_json:
            inside = "" if container == "none" else f" · inside {container}"
            limited = _NETWORK_WORDS[network]
            if code := say(f"{chosen.way.name} {version}".rstrip() + f" · network {limited}{inside}\n\n"):
                return code
        results = await run_probe(
            _start_for(chosen.adapter, processes),
            folder=private_folder(here.where.cache),
            processes=processes,
            network=network,
            covers=getattr(chosen.adapter, "covers", None),
        )
        problems = any(result.is_problem for result in results)
        if any(result.outcome == "not tried" for result in results):
            tell("some of it could not be tried, so nothing is said about that")
        if not as_json:
            lines = "".join(f"{_line(result)}\n" for result in results)
            return say(f"{lines}\n{_summary(results)}\n") or (EXIT_LEAKS if problems else 0)
        report = {
            "ok": not problems,
            "adapter": chosen.way.name,
            "variant": chosen.way.variant,
            "version": version,
            "network": network,
            "container": container,
            "counts": Counter(result.outcome for result in results),
            "results": results,
        }
        return say_json(report) or (EXIT_LEAKS if problems else 0)
    finally:
        await processes.close()


def _start_for(adapter: Adapter, processes: Processes) -> Callable[[ProbeWorld], StartProbe]:
    async def choose() -> Adapter:
        return adapter

    return lambda world: SandboxSpawn(
        processes, place=lambda: world.place, choose=choose, outside=world.network
    )


def _nothing_to_probe(only: str | None, chosen: ChosenAdapter) -> str:
    if only is None:
        return sentence("NoSandbox", {})
    return f"{only} does not work here: {dict(why_not(chosen.attempts)).get(only, 'it is not there')}"


_WIDTH = max(len(check.tries) for check in checks_for("filtered"))


def _line(result: Result) -> str:
    return visible(
        f"{result.outcome:<11}  {result.tries:<{_WIDTH}}  {result.detail}".rstrip(), newlines=False
    )


def _summary(results: list[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    told = [
        f"{counts[outcome]} {word}"
        for outcome, word in _WORDS.items()
        if counts[outcome] or outcome == "leaks"
    ]
    return f"{len(results)} tries: {', '.join(told)}."
