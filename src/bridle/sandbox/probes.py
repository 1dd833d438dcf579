"""Does the sandbox of this machine hold? Each probe is one thing a hostile command would try, and is tried for real.

Start at  `PROBES`, then `run_probes`. The attempts are in `attempts`, what they are aimed at in `probe_world`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.base.processes import CannotStart, Processes
from bridle.base.visible import visible
from bridle.engine.ports import Process, SpawnPolicy
from bridle.sandbox.confinement import Confinement, Network
from bridle.sandbox.probe_world import ALLOWED_HOSTS, ProbeWorld, probe_world

_OWN_PLACES = (
    os.path.realpath(os.path.join(os.path.dirname(__file__), *[".."] * 3)),
    os.path.realpath(sys.prefix),
)
"""Where Bridle itself is and its Python: the tries are made with it inside."""
ProbeOutcome: TypeAlias = Literal[
    "blocked", "leaks", "works", "broken", "not covered", "not here", "not tried"
]
StartProbe: TypeAlias = Callable[..., Awaitable[Process]]
"""Called like a `Spawn`."""
StartFor: TypeAlias = Callable[[ProbeWorld], StartProbe]
"""Starts commands as the engine would for the person of that world."""

TIMEOUT_S = 15.0
_AT_ONCE = 4
_MOST_BYTES = 256 * 1024
_MOST_DETAIL = 120
_FIELDS = frozenset(Confinement.__struct_fields__)
_RARELY_COVERED = frozenset({"modes"})
"""Parts beyond a `Confinement` that an adapter holds only if it says so; the others every adapter must."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt by its name in `attempts`.

    `part` is what it is a test of: a field of `Confinement`, or one of `environment processes leftovers privileges
    kernel terminal modes claims hosts`. `tells`: what the attempt returns is the leak itself; otherwise only a planted
    secret in it or a change outside counts. `looks` are folders about which git is asked from outside, as an editor
    does: once the command is over, or `meanwhile`. `repository`: the workspace is one. `network`: it can only be
    stopped where the network is limited. `must_work`: the other way round, a sandbox that stops this is of no use.
    """

    name: str
    tries: str
    part: str
    tells: bool = False
    looks: tuple[str, ...] = ()
    meanwhile: bool = False
    repository: bool = True
    network: bool = False
    must_work: bool = False


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a probe. `detail` is one line: how it was refused, what leaked, or why it was not tried.

    `not here`: this machine has nothing of the kind. `not tried`: it could not be, so nothing is known about it.
    """

    name: str
    tries: str
    part: str
    outcome: ProbeOutcome
    detail: str = ""

    @property
    def is_problem(self) -> bool:
        return self.outcome in {"leaks", "broken", "not tried"}


def _probe(part: str, name: str, tries: str) -> Probe:
    return Probe(name=name, tries=tries, part=part)


def _found_by_git(name: str, tries: str, folder: str) -> Probe:
    return Probe(name=name, tries=tries, part="folders", looks=(folder,))


def _ability(part: str, name: str, tries: str) -> Probe:
    return Probe(name=name, tries=tries, part=part, tells=True)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="work_in_workspace",
        tries="write, move and read in the workspace",
        part="writable",
        must_work=True,
    ),
    Probe(name="work_in_temporary_folder", tries="use a temporary file", part="temporary", must_work=True),
    Probe(name="work_with_git", tries="git add and git commit", part="writable", must_work=True),
    _probe("writable", "write_outside", "make a file outside the workspace"),
    _probe("writable", "change_outside", "add to a file outside"),
    _probe("writable", "delete_outside", "delete a file outside"),
    _probe("writable", "move_outside", "move a file out of the workspace"),
    _probe("writable", "write_through_folder_link", "write through a link to a folder outside"),
    _probe("writable", "write_through_file_link", "write through a link to a file outside"),
    _probe("writable", "write_through_hard_link", "write through a second name of a file outside"),
    _probe("writable", "write_through_swapped_link", "write while a folder becomes a link and back"),
    _probe("writable", "write_through_processes", "write through the root folder of other processes"),
    _probe("modes", "change_mode_outside", "change the mode of a file outside"),
    _probe("writable", "change_start_up_file", "add to the shell's start-up file"),
    _probe("writable", "change_cache_of_others", "change another project's cache"),
    _probe("writable", "change_own_settings", "change Bridle's settings"),
    _probe("writable", "make_own_folder", "make Bridle's state folder where it is missing"),
    _probe("read_only", "change_git_settings", "change .git/config"),
    _probe("read_only", "replace_git_settings", "move a new file over .git/config"),
    _probe("read_only", "add_git_hook", "add a git hook"),
    _probe("read_only", "replace_git_hooks", "put another folder in place of .git/hooks"),
    _probe("held", "move_git_away", "put another folder in place of .git"),
    _probe("unwanted", "redirect_git", "lead git elsewhere with .git/commondir"),
    Probe(
        name="redirect_git_meanwhile",
        tries="lead git elsewhere while the command runs",
        part="filled",
        looks=(".",),
        meanwhile=True,
    ),
    Probe(
        name="add_worktree_settings_meanwhile",
        tries="add .git/config.worktree while the command runs",
        part="filled",
        looks=(".",),
        meanwhile=True,
    ),
    Probe(
        name="make_repository_meanwhile",
        tries="make the workspace a repository while the command runs",
        part="absent",
        looks=(".",),
        meanwhile=True,
        repository=False,
    ),
    _found_by_git("make_nested_repository", "leave a repository that runs a program", "src"),
    _found_by_git("make_bare_repository", "leave one without a working tree", "bare.git"),
    _found_by_git("link_to_repository", "leave a link to one", "src"),
    _probe("folders", "add_instructions_below", "make src/AGENTS.md"),
    _probe("folders", "add_editor_tasks_below", "make src/.vscode/tasks.json"),
    _probe("folders", "add_agent_settings", "make .claude/settings.json"),
    _probe("kept", "redirect_git_worktree", "lead git elsewhere with .git/worktrees"),
    _probe("read_only", "change_instructions", "change AGENTS.md"),
    _probe("read_only", "replace_instructions", "move a new file over AGENTS.md"),
    _probe("absent", "add_servers", "make .mcp.json"),
    _probe("absent", "add_editor_tasks", "make .vscode/tasks.json"),
    _probe("absent", "add_project_settings", "make .bridle/config.toml"),
    _probe("hidden", "read_key", "read an SSH key"),
    _probe("hidden", "read_credentials", "read stored credentials"),
    _probe("hidden", "read_own_data", "read Bridle's own files"),
    _probe("hidden", "read_engine_token", "read the token of an engine that listens"),
    _probe("hidden", "read_key_through_link", "read a key through a link"),
    _probe("hidden", "read_key_through_hard_link", "read a key through a second name"),
    _probe("hidden", "read_key_through_processes", "read a key through the root folder of other processes"),
    _probe("environment", "read_environment", "find a secret in the environment"),
    _probe("processes", "read_environments_of_others", "find a secret in the environment of other processes"),
    _ability("environment", "read_descriptors", "use files that were left open"),
    _probe("temporary", "read_temporary_files", "read the temporary files of others"),
    _probe("temporary", "write_temporary_files", "write among the temporary files of others"),
    _probe("temporary", "read_shared_memory", "read the shared memory of others"),
    _probe("emptied", "reach_runtime_socket", "talk to a program of the desktop"),
    _probe("emptied", "reach_agent_socket", "talk to the SSH agent"),
    _probe("emptied", "reach_engine_socket", "talk to an engine that listens"),
    Probe(name="reach_any_socket", tries="talk to a socket in any folder", part="network", network=True),
    Probe(
        name="reach_abstract_socket", tries="talk to a socket without a path", part="network", network=True
    ),
    _ability("processes", "trace_process", "trace a process outside"),
    _probe("processes", "read_process_memory", "read the memory of a process outside"),
    _probe("processes", "end_process", "end a process outside"),
    _probe("leftovers", "outlive", "leave a process running"),
    _ability("terminal", "open_terminal", "open the terminal"),
    Probe(name="reach_tcp", tries="reach a server on this machine", part="network", network=True),
    Probe(name="reach_udp", tries="send a datagram to this machine", part="network", network=True),
    Probe(name="reach_out", tries="find a way to other machines", part="network", network=True, tells=True),
    Probe(
        name="make_vsock",
        tries="talk to the host of a virtual machine",
        part="network",
        network=True,
        tells=True,
    ),
    _ability("privileges", "make_raw_socket", "make a raw socket"),
    _ability("privileges", "look_at_rights", "keep or gain the superuser's rights"),
    _ability("privileges", "make_user_namespace", "make a user namespace"),
    _ability("privileges", "clone_user_namespace", "start a process in a user namespace"),
    _ability("privileges", "mount_folder", "mount a file system"),
    _ability("privileges", "change_root", "change the root folder"),
    _ability("privileges", "pivot_root", "swap the root folder"),
    _ability("privileges", "make_device", "make a device"),
    _ability("privileges", "open_disk", "open a disk"),
    _ability("kernel", "use_io_uring", "use io_uring"),
    _ability("kernel", "use_keys", "use the kernel's keys"),
    _ability("kernel", "use_bpf", "use BPF"),
    _ability("kernel", "open_kernel_settings", "open the kernel's settings for writing"),
    _ability("claims", "claim_without_namespaces", "be told of a sandbox that is not there"),
)


def _through_proxy(name: str, tries: str) -> Probe:
    return Probe(name=name, tries=tries, part="hosts", network=True, tells=True)


PROXY_PROBES: tuple[Probe, ...] = (
    Probe(name="reach_allowed_host", tries="reach a host that is allowed", part="hosts", must_work=True),
    Probe(name="reach_own_server", tries="reach a server of its own", part="hosts", must_work=True),
    _through_proxy("ask_for_other_host", "have the proxy reach another host"),
    _through_proxy("ask_for_other_port", "have the proxy reach another port"),
    _through_proxy("ask_for_metadata", "have the proxy reach a cloud's metadata"),
    _through_proxy("ask_for_private_host", "have the proxy reach a private address by name"),
    _through_proxy("ask_for_number", "have the proxy reach an address in numbers"),
    _through_proxy("ask_for_odd_number", "have the proxy reach this machine in odd numbers"),
    _through_proxy("ask_for_mapped_number", "have the proxy reach this machine as IPv4 in IPv6"),
    _through_proxy("ask_for_mapped_host", "the same by name"),
    _through_proxy("ask_for_host_of_two_places", "have the proxy reach a name that also leads here"),
    _through_proxy("ask_for_turning_host", "turn a name around between two lookups"),
    _through_proxy("tunnel_for_two_hosts", "name one host in CONNECT and another in Host"),
    _through_proxy("ask_for_two_hosts", "name one host in the address and another in Host"),
    _through_proxy("ask_with_two_lengths", "smuggle a request with two lengths"),
    _through_proxy("ask_in_chunks", "smuggle a request with a length and chunks"),
    _through_proxy("ask_twice_at_once", "send a second request behind the first"),
)
"""Only for a filtered network: the others have no proxy."""


def probes_for(network: Network) -> tuple[Probe, ...]:
    return (*PROBES, *PROXY_PROBES) if network == "filtered" else PROBES


async def run_probes(
    start_for: StartFor,
    *,
    folder: str,
    processes: Processes,
    network: Network = "deny",
    covers: Collection[str] | None = None,
    probes: Sequence[Probe] | None = None,
) -> AsyncGenerator[Result]:
    """Tries them all, a few at a time, each in a world of its own inside `folder`; tells in order what became of each.

    `covers` are the parts the adapter says it holds; None: all of them.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def result_of(probe: Probe) -> Result:
        why_not = _not_covered(probe, network, covers)
        if why_not:
            return _result(probe, "not covered", why_not)
        async with room, probe_world(folder, processes, repository=probe.repository) as world:
            return await _tried(probe, world, start_for(world), network, processes)

    trying = [asyncio.create_task(result_of(probe)) for probe in probes or probes_for(network)]
    try:
        for task in trying:
            yield await task
    finally:
        for task in trying:
            task.cancel()
        await asyncio.gather(*trying, return_exceptions=True)


def _not_covered(probe: Probe, network: str, covers: Collection[str] | None) -> str:
    if probe.network and network == "inherit":
        return 'the network is not limited (sandbox.network = "inherit")'
    limited = probe.part in _FIELDS or probe.part in _RARELY_COVERED
    if covers is not None and limited and probe.part not in covers and not probe.must_work:
        return "this kind of sandbox cannot stop it"
    return ""


async def _tried(
    probe: Probe, world: ProbeWorld, start: StartProbe, network: Network, processes: Processes
) -> Result:
    output, error = _Beginning(), _Beginning()
    policy = SpawnPolicy(
        mode="workspace-write",
        workspace=world.paths.work,
        readable=_OWN_PLACES,
        network=network,
        hosts=tuple(ALLOWED_HOSTS),
    )
    facts = msgspec.json.encode(world.facts).decode()
    try:
        process = await start(
            [sys.executable, "-I", "-S", "-c", _attempts(), probe.name, facts],
            cwd=world.paths.work,
            env=world.env,
            policy=policy,
            call_id="call_probe",
            on_output=output.add,
            on_error=error.add,
        )
    except CannotStart as problem:
        return _result(probe, "not tried", str(problem))
    watching = asyncio.create_task(_watch(probe, world, processes))
    timed_out = await _ended(process)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    if probe.looks and not probe.meanwhile:
        await world.look(probe.looks, processes)
    said = output.data.decode("utf-8", "replace")
    if leaks := await _leaks(probe, world, said):
        return _result(probe, "leaks", leaks)
    if timed_out:
        return _result(probe, "not tried", f"it did not end within {TIMEOUT_S:.0f} s")
    return _judged(probe, process.returncode or 0, said, error.data.decode("utf-8", "replace"))


async def _watch(probe: Probe, world: ProbeWorld, processes: Processes) -> None:
    """Looks while the attempt holds on to what it planted."""
    if probe.meanwhile:
        await world.planted()
        await world.look(probe.looks, processes)


async def _ended(process: Process) -> bool:
    """Waits for the end; true if it had to be brought about."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        return True
    finally:
        await process.stop()
    return False


async def _leaks(probe: Probe, world: ProbeWorld, said: str) -> str:
    """What got out, in words; empty if nothing did."""
    told = world.changes()
    if world.token in said:
        told.insert(0, "a secret could be read")
    if probe.part == "leftovers" and _answer(said).got_through and not await world.is_left_alone():
        told.append("a process lives on")
    return "; ".join(told)


class _Answer(msgspec.Struct, frozen=True):
    """The one line an attempt prints."""

    got: str | None = None
    refused: str | None = None
    not_here: str | None = None
    untried: str | None = None

    @property
    def got_through(self) -> bool:
        return self.refused is None and self.not_here is None and self.untried is None


def _answer(said: str) -> _Answer:
    try:
        return msgspec.json.decode(said, type=_Answer)
    except (msgspec.DecodeError, UnicodeError):
        return _Answer(untried="it gave no answer")


def _judged(probe: Probe, exit_code: int, said: str, error: str) -> Result:
    if exit_code == -signal.SIGSYS and not probe.must_work:
        return _result(probe, "blocked", "killed by the system call filter")
    if exit_code:
        said_last = error.strip().rpartition("\n")[2] or f"it ended with {exit_code}"
        return _result(probe, "not tried", said_last)
    answer = _answer(said)
    if answer.not_here is not None:
        return _result(probe, "not here", answer.not_here)
    if answer.untried is not None:
        return _result(probe, "not tried", answer.untried)
    if probe.must_work:
        if answer.refused is not None:
            return _result(probe, "broken", answer.refused)
        return _result(probe, "works")
    if probe.tells and answer.got is not None:
        return _result(probe, "leaks", answer.got)
    return _result(probe, "blocked", answer.refused or "nothing came of it")


def _result(probe: Probe, outcome: ProbeOutcome, detail: str = "") -> Result:
    line = visible(" ".join(detail.split()), newlines=False)
    shown = line if len(line) <= _MOST_DETAIL else f"{line[: _MOST_DETAIL - 1]}…"
    return Result(name=probe.name, tries=probe.tries, part=probe.part, outcome=outcome, detail=shown)


class _Beginning:
    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, chunk: bytes) -> None:
        self.data += chunk[: _MOST_BYTES - len(self.data)]


def _attempts() -> str:
    """The attempts as text: where Bridle is installed may be out of a command's sight."""
    path = os.path.join(os.path.dirname(__file__), "attempts.py")
    with open(path, encoding="utf-8") as file:
        return file.read()
