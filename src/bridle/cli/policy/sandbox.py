"""`bridle sandbox`: show the sandbox and run a command in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from bridle.app.user.settings import session_settings
from bridle.base.process.processes import CannotStart, Processes
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say_json, say_lines, tell, unwritten
from bridle.cli.option_values import added_folders, settings_here
from bridle.cli.policy.sandbox_actions import (
    SandboxContext,
    give_back,
    probe,
    until_stopped,
    version_of,
    why_not,
)
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.render.start_info import CONFINED_WORDS, folder_words
from bridle.config.folders import folders, home_of
from bridle.config.tiers import Tiers
from bridle.engine.ports import Process
from bridle.protocol.commands import SessionOptions
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.safety.sandboxed import makes_a_repository
from bridle.sandbox.adapters.adapter import OPEN_FILES, UNLIMITED
from bridle.sandbox.adapters.adapter_choice import GAPS, Chooser, ChosenAdapter
from bridle.sandbox.adapters.container import container_around
from bridle.sandbox.adapters.control_group import SharedLimits, memory_mib, writable_parents
from bridle.sandbox.confinement import Confinement, confinement_of
from bridle.sandbox.plain_spawn import OWN_NETWORK
from bridle.sandbox.sandbox_settings import SandboxSettings
from bridle.sandbox.session_border import claimed_spawn, is_unfiltered, left_behind, machine_spawn, records_of

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
MOST_INPUT_BYTES = 64 * 1024 * 1024
FIRST_BYTE_S = 3.0
_TAIL_BYTES = 4_096
_LABEL, _VALUE = 9, 25
_NO_PLACE = "the state folder cannot be written"

Status = Literal["ok", "warn", "fail"]


def sandbox(parsed: Args, env: Env) -> int:
    if parsed.action == "give-back":
        return give_back(parsed.path, os.getcwd())
    here = _here(parsed, env)
    try:
        match parsed.action:
            case "run":
                return _run(parsed.command, here)
            case "probe":
                return probe(parsed, here)
            case _:
                return _show(parsed, here)
    except CannotStart as problem:  # that says nothing about what would hold
        raise UsageError(
            f"What holds commands here cannot be tried: {problem.reason}. It is {here.where.state}"
            if problem.reason == _NO_PLACE
            else f"What holds commands here cannot be tried now: {problem.reason}"
        ) from None


def _here(parsed: Args, env: Env) -> SandboxContext:
    cwd = os.path.realpath(os.path.join(os.getcwd(), getattr(parsed, "cwd", ".")))
    if not os.path.isdir(cwd):
        raise UsageError(f"{parsed.cwd} is not a folder")
    options = SessionOptions(
        config_file=parsed.config,
        sets=tuple(parsed.set),
        add_dirs=added_folders(getattr(parsed, "add_dir", ())),
        sandbox=getattr(parsed, "mode", None),
        network=getattr(parsed, "network", None),
        allow_hosts=tuple(getattr(parsed, "allow_host", ())),
    )
    where = folders(env)
    settings = session_settings(options, where=where, cwd=cwd, env=env, profile=parsed.profile)
    return SandboxContext(cwd, where, env, settings)


# Running


def _run(command: Sequence[str], here: SandboxContext) -> int:
    if not command:
        raise UsageError("What is to be run? bridle sandbox run -- ls -l")
    if problem := _unstartable(command[0], here):
        text, code = problem
        tell(visible_line(text))
        return code
    return asyncio.run(_confined(command, here, _input()))


def _unstartable(program: str, here: SandboxContext) -> tuple[str, int] | None:
    """Why there is nothing to start, as a shell would put it. Asked first: later only the sandbox would know."""
    path = here.env.get("PATH", os.defpath)
    named = os.path.join(here.cwd, program) if "/" in program else program
    if shutil.which(named, path=path) is not None:
        return None
    if "/" in program and os.path.exists(named):
        return f"{program}: not executable", EXIT_NOT_EXECUTABLE
    return f"{program}: command not found", EXIT_NOT_FOUND


async def _confined(command: Sequence[str], here: SandboxContext, stdin: bytes | None) -> int:
    processes = Processes(adopts_orphans=True, records=records_of(here.where))
    machine = machine_spawn(processes, where=here.where, home=home_of(here.env), env=here.env)
    policy = here.policy
    spawn, end = claimed_spawn(machine, "", lambda degraded: _warn(degraded.message)), _End()
    if makes_a_repository(command):
        policy = msgspec.structs.replace(policy, new_repository=True)
    for notice in await left_behind(policy.workspace, here.where):
        tell(visible_line(notice.message))
    try:
        if policy.mode == "off":
            tell('not sandboxed: sandbox.mode = "off"')
        elif is_unfiltered(policy, await machine.held_by()):
            raise CommandRefused("NoNetworkFilter")
        process = await spawn(
            command,
            cwd=here.cwd,
            env=here.env,
            policy=policy,
            call_id="call_sandbox_run",
            on_output=end.passing_on(sys.stdout.buffer.write, sys.stdout.buffer.flush),
            on_error=end.passing_on(sys.stderr.buffer.write, sys.stderr.buffer.flush),
            stdin=stdin,
        )
        stopped = await _until_over(process)
        if stopped is not None:
            for notice in process.put_aside:
                tell(visible_line(notice.message))
            return stopped
        code = process.returncode or 0
        for note in process.blocked(end.text).splitlines():
            tell(visible_line(_without_advice(note)))
        return code if code >= 0 else 128 - code
    except CannotStart as problem:
        if problem.reason == "no sandbox":
            raise CommandRefused("SandboxRequired") from None
        if problem.reason == _NO_PLACE:
            raise
        if problem.reason == "sandbox lost":
            raise CommandRefused("SandboxLost", sandbox=spawn.adapter) from None
        tell(visible_line(f"{command[0]}: {problem.reason}"))
        return EXIT_NOT_EXECUTABLE
    except BrokenPipeError as gone:
        return unwritten(gone)
    finally:
        await processes.close()
        machine.close()


async def _until_over(process: Process) -> int | None:
    """Waits for the end. The exit code of a signal that ended it early, else None."""

    async def wait() -> None:
        await process.wait()

    try:
        return await until_stopped(wait())
    finally:
        await process.stop()


class _End:
    """Keeps the end of what passes."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")

    def passing_on(
        self, write: Callable[[bytes], object], flush: Callable[[], object]
    ) -> Callable[[bytes], None]:
        def passed(data: bytes) -> None:
            self._data += data
            del self._data[:-_TAIL_BYTES]
            write(data)
            flush()

        return passed


def _without_advice(note: str) -> str:
    """Return what was blocked, without the hint for the model how to leave the sandbox."""
    whole = note.strip("[]")
    happened, _, advice = whole.partition(". ")
    return happened if "escalate: " in advice else whole


def _input() -> bytes | None:
    """What stands on stdin, to its end. A terminal stays with the person."""
    if sys.stdin.isatty():
        return None
    fd = sys.stdin.fileno()
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    if not stat.S_ISREG(mode) and not select.select([fd], [], [], FIRST_BYTE_S)[0]:
        tell("stdin is open and empty; went on without it")
        return None
    data = sys.stdin.buffer.read(MOST_INPUT_BYTES + 1)
    if len(data) > MOST_INPUT_BYTES:
        raise UsageError(f"The text on stdin is longer than {MOST_INPUT_BYTES // 1024**2} MiB")
    return data


def _warn(text: str) -> None:
    first, *rest = text.splitlines()
    print(f"! {first}", *(f"  {line}" for line in rest), sep="\n", file=sys.stderr, flush=True)


# Showing


def _show(parsed: Args, here: SandboxContext) -> int:
    chosen, version = asyncio.run(_found(here.where.state))
    tiers = settings_here(parsed, here.env, cwd=here.cwd)
    if parsed.json:
        return say_json(_data(here, chosen, version))
    lines = [*_lines(here, chosen, version, tiers), "", _next(chosen)]
    return say_lines(lines)


async def _found(state: str) -> tuple[ChosenAdapter, str]:
    """What holds commands here, tried now where nothing does, so that the reasons can be told."""
    async with contextlib.AsyncExitStack() as stack:
        processes = Processes(adopts_orphans=True)
        stack.push_async_callback(processes.close)
        chooser = Chooser(processes, state=state)
        chosen = await chooser.choose()
        if chosen.adapter is None and not chosen.attempts:
            chooser.drop()
            chosen = await chooser.choose()
        return chosen, await version_of(chosen, processes)


def _lines(here: SandboxContext, chosen: ChosenAdapter, version: str, tiers: Tiers) -> Iterator[str]:
    settings, policy = here.settings.sandbox, here.policy
    if policy.mode == "off":
        yield _line(
            "sandbox", "off", f'{CONFINED_WORDS["off"]}: sandbox.mode = "off"{_from(tiers, "sandbox.mode")}'
        )
    elif chosen.way is None:
        yield _line("sandbox", "none", "commands run with your rights; only the environment is cleaned")
        yield from (_line("", name, problem) for name, problem in why_not(chosen.attempts))
    else:
        weaker = f" ({chosen.way.variant})" if chosen.way.variant not in {"", "full"} else ""
        yield _line("sandbox", f"{chosen.way.name} {version}".rstrip() + weaker, CONFINED_WORDS[policy.mode])
        yield _line("mode", policy.mode, f'sandbox.mode = "{settings.mode}"{_from(tiers, "sandbox.mode")}')
        yield from _writable(confinement_of(policy, here.place), here, chosen)
        if chosen.way.name in GAPS:
            yield _line("but", "not covered", GAPS[chosen.way.name])
    if policy.mode != "off" and chosen.way is not None:
        yield _line("network", *_network(settings, tiers))
        if is_unfiltered(policy, chosen.way.name):
            yield _line("", "", sentence("NoNetworkFilter", {}))
        yield _line("limits", *_limits(settings))
    container = container_around(here.env)
    if container != "none":
        yield _line("inside", container, "the sandbox holds here as anywhere else")
    yield _line("required", *_required(settings))


def _writable(confinement: Confinement, here: SandboxContext, chosen: ChosenAdapter) -> Iterator[str]:
    covers = getattr(chosen.adapter, "covers", None)
    kept = covers is None or "read_only" in covers
    note = "policy files are read-only" if kept else "policy files too"
    label = "write"
    for path in confinement.writable:
        shown = folder_words(path, here.env.get("HOME", ""))
        yield _line(label, shown, note if path == here.cwd else "")
        label = ""
    for path in confinement.left_out:
        why = "is reached through a link in the workspace: name the folder itself"
        if not os.path.exists(path):
            why = "is not there, so it cannot be written"
        yield _line(label, folder_words(path, here.env.get("HOME", "")), why)
        label = ""
    yield _line("hidden", f"{len(confinement.hidden)} places", "keys, credentials, Bridle's own folders")


def _network(settings: SandboxSettings, tiers: Tiers) -> tuple[str, str]:
    origin = _from(tiers, "sandbox.network")
    if settings.network == "deny":
        return "none", f'sandbox.network = "deny"{origin}'
    if settings.network == "filtered":
        return "filtered", f"only {', '.join(settings.hosts) or 'what sandbox.hosts names: nothing'}{origin}"
    return "not limited", f'no single address can be refused: sandbox.network = "inherit"{origin}'


def _limits(settings: SandboxSettings) -> tuple[str, str]:
    size = (
        f"{settings.max_file_mib / 1024:g} GiB"
        if settings.max_file_mib >= 1024
        else f"{settings.max_file_mib} MiB"
    )
    together = UNLIMITED
    if writable_parents() is not None:
        most = memory_mib(SharedLimits(settings.max_processes, settings.max_memory_mib))
        together = f"of all commands together {settings.max_processes:,} processes and {most:,} MiB of memory"
    return f"no file above {size}", f"at most {OPEN_FILES:,} open files; {together}"


def _required(settings: SandboxSettings) -> tuple[str, str]:
    if settings.required:
        return "yes", "nothing runs where the sandbox cannot hold it"
    if settings.network == "filtered":
        return "no", "but nothing runs where the network cannot be filtered"
    return "no", "where nothing can hold a command it runs all the same; refuse: sandbox.required = true"


def _from(tiers: Tiers, key: str) -> str:
    origin = tiers.origin(key)
    return f" ({origin.shown})" if origin is not None else ""


def _line(label: str, value: str, about: str) -> str:
    return f"{label:<{_LABEL}}{value:<{_VALUE - 2}}  {about}".rstrip()


def _next(chosen: ChosenAdapter) -> str:
    if chosen.way is None:
        return "Fix: install bubblewrap."
    return "Check it: bridle sandbox probe        Try it: bridle sandbox run -- CMD"


def _data(here: SandboxContext, chosen: ChosenAdapter, version: str) -> dict[str, object]:
    policy = here.policy
    confinement = None if policy.mode == "off" else confinement_of(policy, here.place)
    return {
        "adapter": chosen.way.name if chosen.way else None,
        "variant": chosen.way.variant if chosen.way else "",
        "version": version,
        "mode": policy.mode,
        "network": policy.network,
        "hosts": policy.hosts,
        "required": policy.required,
        "container": container_around(here.env),
        "writable": [] if confinement is None else confinement.writable,
        "hidden": [] if confinement is None else confinement.hidden,
        "gaps": GAPS.get(chosen.way.name, "") if chosen.way else "",
        "problems": {} if chosen.way else dict(why_not(chosen.attempts)),
    }


# For `bridle doctor`


def sandbox_row(tiers: Tiers, env: Env) -> tuple[Status, str]:
    """Whether commands are held here, tried now; nothing is kept of it."""
    with tempfile.TemporaryDirectory(prefix="bridle-") as state:
        chosen, _version = asyncio.run(_found(state))
    settings = tiers.section("sandbox", SandboxSettings)
    return row_of(
        chosen,
        mode=settings.mode,
        network=settings.network,
        required=settings.required,
        container=container_around(env),
        counted=writable_parents() is not None,
    )


def row_of(
    chosen: ChosenAdapter, *, mode: str, network: str, required: bool, container: str, counted: bool = False
) -> tuple[Status, str]:
    """`counted`: memory and processes of commands are."""
    inside = "" if container == "none" else f", inside {container}"
    if mode == "off":
        return "warn", 'off: commands run with your rights (sandbox.mode = "off")'
    if chosen.way is None:
        problems = "; ".join(f"{name}: {problem}" for name, problem in why_not(chosen.attempts))
        if required:
            return "fail", f"nothing can hold commands here{inside} ({problems}), and sandbox.required = true"
        return "warn", f"none{inside}: commands run with your rights ({problems}). Install bubblewrap"
    if network == "filtered" and chosen.way.name not in OWN_NETWORK:
        return "fail", sentence("NoNetworkFilter", {})
    is_weak = chosen.way.name in GAPS
    said = (GAPS.get(chosen.way.name, ""), "" if counted else UNLIMITED)
    gaps = "".join(f"; {words}" for words in said if words)
    if network == "inherit":
        return (
            "warn",
            f'{chosen.way.name} works{inside}; network is not limited (sandbox.network = "inherit"){gaps}',
        )
    reach = "no network" if network == "deny" else "a filtered network"
    return "warn" if is_weak else "ok", f"{chosen.way.name} works{inside}; commands have {reach}{gaps}"
