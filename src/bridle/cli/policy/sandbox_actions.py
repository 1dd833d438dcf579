"""Actions of `bridle sandbox`: probe the sandbox, restore quarantined files, and the context both run in."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from shlex import quote
from typing import NamedTuple, TypeVar

from bridle.app.user.settings import SessionSettings
from bridle.base.fs.files import files_below, private_folder, read_limited
from bridle.base.fs.paths import session_folders
from bridle.base.git.git_config import MAX_CONFIG_BYTES, unproven_settings
from bridle.base.process.processes import CannotStart, Processes
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, say_lines, tell
from bridle.cli.policy.trust import typed_line
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import Folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.sandbox.adapters.adapter import Adapter
from bridle.sandbox.adapters.adapter_choice import ORDER, Chooser, ChosenAdapter, TriedAdapter, find_program
from bridle.sandbox.adapters.container import container_around
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.policy_files.policy_snapshot import PolicyChange
from bridle.sandbox.policy_files.quarantine import PUT_ASIDE, quarantine
from bridle.sandbox.probe import ProbeOutcome, ProbeWorld, Result, StartProbe, checks_for, run_probe
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import is_unfiltered, session_policy, this_place

T = TypeVar("T")
_VERSION_S = 5.0


class SandboxContext(NamedTuple):
    """Where a command would run, and what the settings say there."""

    cwd: str
    where: Folders
    env: Env
    settings: SessionSettings

    @property
    def policy(self) -> SpawnPolicy:
        options = self.settings.options
        return session_policy(
            self.settings.sandbox,
            session_folders(self.cwd, options.add_dirs),
            env=self.env,
            scratch="",
            shown=self.settings.skills.readable_folders(self.where.config),
        )

    @property
    def place(self) -> HostContext:
        """Without the caches, which would be made by asking."""
        return this_place(self.where, self.env, home=home_of(self.env))


STOPPING = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


async def until_stopped(work: Awaitable[T]) -> T | int:
    """The result of the work, or the exit code of a signal that ended it early."""
    loop, codes = asyncio.get_running_loop(), list[int]()
    working = asyncio.ensure_future(work)

    def interrupt(code: int) -> None:
        codes.append(code)
        working.cancel()

    for number, code in STOPPING.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, interrupt, code)
    try:
        return await working
    except asyncio.CancelledError:
        if not codes:
            raise
        return codes[0]


async def version_of(chosen: ChosenAdapter, processes: Processes) -> str:
    """The version of what holds commands, as far as it tells one."""
    program = {"bubblewrap": "bwrap", "unshare": "unshare"}.get(chosen.way.name if chosen.way else "")
    path = find_program(program) if program else None
    if path is None:
        return ""
    try:
        done = await processes.run(
            [path, "--version"], cwd="/", env={"LANG": "C"}, timeout_s=_VERSION_S, max_output_bytes=200
        )
    except CannotStart:
        return ""
    words = done.output.decode("utf-8", "replace").split()
    return words[-1] if done.returncode == 0 and words else ""


def why_not(attempts: Sequence[TriedAdapter]) -> Iterator[tuple[str, str]]:
    """For each way to confine that does not work here, why; the strongest variant of each speaks for it."""
    told = {attempt.way.name: attempt.problem for attempt in reversed(attempts) if attempt.problem}
    for name in ORDER:
        if name != "sandbox-exec" or sys.platform == "darwin":
            yield name, told.get(name, "it is not there")


_NAME = re.compile(rf"(.+){re.escape(PUT_ASIDE)}-\d+")
_MOST_LINES = 200
_MOST_BYTES = 64 * 1024
_MOST_FILES = 50


def give_back(paths: Sequence[str], cwd: str) -> int:
    """Show each file and ask. A file in its place is quarantined in turn, so that nothing is lost."""
    for path in paths:
        aside = os.path.join(cwd, path)
        shown = visible_line(path)
        name = _NAME.fullmatch(os.path.basename(aside))
        if name is None:
            raise UsageError(
                f"{shown} is not a quarantined file: their names end in {PUT_ASIDE}-1, {PUT_ASIDE}-2 …"
            )
        if not os.path.lexists(aside):
            raise UsageError(f"There is no file {shown}. Quarantined files: find . -name '*{PUT_ASIDE}-*'")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CommandRefused("GiveBackRefused", path=quote(shown))
        try:
            _give_back(aside, os.path.join(os.path.dirname(aside), name[1]), cwd)
        except OSError as problem:
            raise UsageError(
                f"{shown} cannot be restored ({problem.strerror}); it stays in quarantine"
            ) from None
    return 0


def _give_back(aside: str, place: str, cwd: str) -> None:
    seen = _state(aside)
    say_lines(_shown(aside))
    try:
        answer = typed_line(f"Restore it as {visible_line(os.path.relpath(place, cwd))}? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        say("It stays in quarantine.\n")
        return
    if _state(aside) != seen:
        raise CommandRefused("GiveBackChanged", path=quote(visible_line(os.path.relpath(aside, cwd))))
    quarantine(PolicyChange(place, "makes room"))
    os.rename(aside, place)
    say(f"Restored {visible_line(os.path.relpath(place, cwd))}.\n")


def _state(path: str) -> list[tuple[str, int, int]]:
    """Return the inode and change time of each file. No command can set the change time."""
    return [
        (file, status.st_ino, status.st_ctime_ns)
        for file in (path, *files_below(path))
        if (status := os.lstat(file))
    ]


def _shown(path: str) -> Iterator[str]:
    """Yield its kind and its first lines or files."""
    if os.path.islink(path):
        yield f"{path} is a link to {os.readlink(path)}"
        return
    if os.path.isdir(path):
        yield f"{path} is a folder:"
        yield from _folder(path)
        return
    contents = read_limited(path, _MOST_BYTES)
    yield f"{path}:"
    if os.path.basename(path).startswith("HEAD."):  # of a repository that has no other folder
        yield from _programs(os.path.dirname(path))
    lines = os.fsdecode(contents.data).splitlines()
    yield from (f"    {line}" for line in lines[:_MOST_LINES])
    if contents.truncated or len(lines) > _MOST_LINES:
        yield "    … and more: open the file to see all of it"


def _folder(path: str) -> Iterator[str]:
    yield from _programs(path)
    files = [*files_below(path)]
    if len(files) > _MOST_FILES:
        yield f"    {len(files)} files"
    else:
        yield from (f"    {os.path.relpath(file, path)}" for file in sorted(files))


def _programs(git_dir: str) -> Iterator[str]:
    """Settings of a repository that may name programs."""
    config = os.path.join(git_dir, "config")
    if os.path.isfile(config):
        settings = unproven_settings(os.fsdecode(read_limited(config, MAX_CONFIG_BYTES).data))
        yield from (f"    config: {setting}" for setting in sorted(settings))


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


def probe(parsed: Args, here: SandboxContext) -> int:
    try:
        return asyncio.run(_probe(here, only=parsed.adapter, as_json=parsed.json))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        where = visible_line(str(error.filename or ""))
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
    return visible_line(f"{result.outcome:<11}  {result.tries:<{_WIDTH}}  {result.detail}".rstrip())


def _summary(results: list[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    told = [
        f"{counts[outcome]} {word}"
        for outcome, word in _WORDS.items()
        if counts[outcome] or outcome == "leaks"
    ]
    return f"{len(results)} tries: {', '.join(told)}."
