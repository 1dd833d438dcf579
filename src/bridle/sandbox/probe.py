"""Check whether the sandbox of this machine holds. One command tries a dozen escapes, all against things made for it.

`probe_script` has the attempts, `ProbeWorld` their targets, `run_probe` starts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn, TypeAlias, cast

import msgspec

from bridle.base.clock import SystemClock
from bridle.base.process.processes import CannotStart, Processes, ProcessGroup
from bridle.base.text.terminal_text import visible
from bridle.engine.ports import Process, SpawnPolicy
from bridle.sandbox import probe_script
from bridle.sandbox.confinement import Confinement, HostContext, Network
from bridle.sandbox.network.proxy import OutsideNetwork
from bridle.sandbox.session_border import own_programs

ProbeOutcome: TypeAlias = Literal[
    "blocked", "leaks", "works", "broken", "not covered", "not here", "not tried"
]
StartProbe: TypeAlias = Callable[..., Awaitable[Process]]
"""A function that is called like a `Spawn`."""
Answer: TypeAlias = tuple[str, str]
"""The outcome of an attempt, as `probe_script` sees it, and a text."""

TIMEOUT_S = 15.0
_GONE_WITHIN_S = 2.0
_ENDED_WITHIN_S = 0.5
_MOST_DETAIL = 120
_FIELDS = frozenset(Confinement.__struct_fields__)


class Check(NamedTuple):
    """One check, named as in `probe_script`.

    `part` is the field of `Confinement` that it tests, or another part of the sandbox. `target` is the file that it
    attacks, relative to the root of the world. `network`: it needs a limited network.
    """

    name: str
    tries: str
    part: str
    target: str = ""
    network: bool = False

    @property
    def must_work(self) -> bool:
        return self.name.startswith("work_")


CHECKS = (
    Check("work_in_workspace", "write in the workspace", "writable"),
    Check("work_with_git", "git add and git commit", "writable"),
    Check("write_outside", "write outside the workspace", "writable", "out/new"),
    Check("change_git_hooks", "add a git hook", "read_only", "work/.git/hooks/pre-commit"),
    Check("change_git_config", "change .git/config", "read_only", "work/.git/config"),
    Check("change_instructions", "change AGENTS.md", "read_only", "work/AGENTS.md"),
    Check("read_key", "read an SSH key", "hidden"),
    Check("read_own_state", "read Bridle's state", "hidden"),
    Check("read_engine_token", "read the token of a running engine", "hidden"),
    Check("read_environment", "find a secret in the environment", "environment"),
    Check("reach_local_server", "reach a server on this machine", "network", network=True),
    Check("reach_agent_socket", "use the socket of another program", "emptied"),
    Check("trace_process", "trace another process", "processes"),
    Check("signal_process", "send a signal to another process", "processes"),
    Check("outlive_session", "leave a process running", "leftovers"),
)
METADATA = Check("reach_metadata", "reach the metadata address of a cloud", "hosts", network=True)
"""Only for a filtered network. Other networks have no proxy."""


def checks_for(network: Network) -> tuple[Check, ...]:
    return (*CHECKS, METADATA) if network == "filtered" else CHECKS


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check, with one line about it.

    `not here`: the machine has nothing of the kind. `not tried`: the check could not be made, so its result is unknown.
    """

    name: str
    tries: str
    part: str
    outcome: ProbeOutcome
    detail: str = ""

    @property
    def is_problem(self) -> bool:
        return self.outcome in {"leaks", "broken", "not tried"}


class ProbeWorld:
    """Files, sockets and a process that were made to be attacked. Create it with `probe_world`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.home, self.work, self.outside = (f"{root}/{name}" for name in ("home", "work", "out"))
        self.own = {name: f"{self.home}/.bridle-{name}" for name in ("state", "runtime")}
        self.token = os.urandom(16).hex()
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "SSH_AUTH_SOCK": f"{root}/ssh/s",
            f"PROBE_{os.urandom(4).hex().upper()}_API_KEY": self.token,
        }
        self.place = HostContext(
            home=self.home, own=tuple(self.own.values()), caches=f"{root}/caches", env=self.env
        )
        self.network = OutsideNetwork(SystemClock(), _refuse, _refuse)
        self.process: ProcessGroup | None = None
        self._make_files()
        self._life = os.open(f"{self.work}/life", os.O_RDONLY | os.O_NONBLOCK)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(f"{root}/ssh", os.O_RDONLY)  # whose name may be too long for the address of a socket
        self._agent.bind(f"/proc/self/fd/{folder}/s" if sys.platform == "linux" else f"{root}/ssh/s")
        os.close(folder)
        self._agent.listen()
        self._before = {check.target: self._content(check.target) for check in CHECKS}

    def close(self) -> None:
        self._server.close()
        self._agent.close()
        os.close(self._life)
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def facts(self) -> Mapping[str, str]:
        """What an attempt must know, without the secrets."""
        return {
            "home": self.home,
            "work": self.work,
            "outside": self.outside,
            **self.own,
            "variable": list(self.env)[-1],
            "git": shutil.which("git", path=self.env["PATH"]) or "",
            "port": str(self._server.getsockname()[1]),
            "socket": self.env["SSH_AUTH_SOCK"],
            "process": str(self.process.pid) if self.process else "",
            "life": f"{self.work}/life",
        }

    async def leak(self, check: Check, answer: Answer) -> str:
        """Return what the check got, as a clause; empty if it got nothing."""
        outcome, text = answer
        got = outcome == "got"
        if self.token in text:
            return "a secret could be read"
        if check.target and self._content(check.target) != self._before[check.target]:
            return f"{check.target} was {'changed' if self._before[check.target] else 'made'}"
        match check.name:
            case "reach_local_server" if _was_reached(self._server):
                return "the server was reached"
            case "reach_agent_socket" if _was_reached(self._agent):
                return "the socket was reached"
            case "trace_process" | "reach_metadata" if got:
                return text
            case "signal_process" if got and await self._has_ended():
                return "a process outside was ended"
            case "outlive_session" if got and await asyncio.to_thread(self._is_held):
                return "a process lives on"
            case _:
                return ""

    async def _has_ended(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDED_WITHIN_S):
                if self.process is not None:
                    await self.process.wait()
                    return True
        return False

    def _is_held(self) -> bool:
        """Return whether a process still has the pipe open."""
        ready, _, _ = select.select([self._life], [], [], _GONE_WITHIN_S)
        return not ready or os.read(self._life, 1) != b""

    def _content(self, target: str) -> bytes | None:
        path = Path(self.root, target)
        return path.read_bytes() if path.is_file() else None

    def _make_files(self) -> None:
        files = {
            f"{self.home}/.ssh/id_probe": self.token,
            f"{self.own['state']}/sessions.key": self.token,
            f"{self.own['runtime']}/token": self.token,
            f"{self.outside}/neighbour": "",
            f"{self.work}/AGENTS.md": "Be kind.\n",
            f"{self.work}/.git/HEAD": "ref: refs/heads/main\n",
            f"{self.work}/.git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
            f"{self.work}/.git/hooks/pre-commit.sample": "#!/bin/sh\n",
        }
        for path, text in files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        for name in ("ssh", "work/.git/objects", "work/.git/refs/heads"):
            os.makedirs(f"{self.root}/{name}")
        os.mkfifo(f"{self.work}/life")


@contextlib.asynccontextmanager
async def probe_world(folder: str, processes: Processes) -> AsyncGenerator[ProbeWorld]:
    """Make a world in a new folder inside `folder`, and remove it at the end."""
    with contextlib.closing(ProbeWorld(os.path.realpath(tempfile.mkdtemp("", "p-", folder)))) as world:  # noqa: ASYNC240
        process = await processes.start(
            ["sleep", "600"], cwd="/", env=world.env, on_output=lambda _data: None
        )
        async with process:
            world.process = process
            yield world


async def run_probe(
    start_for: Callable[[ProbeWorld], StartProbe],
    *,
    folder: str,
    processes: Processes,
    network: Network = "deny",
    covers: Collection[str] | None = None,
) -> list[Result]:
    """Make all checks in one command and return a result for each.

    `start_for` returns how commands start for the user of a world. `covers` are the parts of a confinement that the
    adapter enforces; None: all of them.
    """
    checks = checks_for(network)
    left_out = {check.name: why for check in checks if (why := _why_left_out(check, network, covers))}
    names = [check.name for check in checks if check.name not in left_out]
    async with probe_world(folder, processes) as world:
        answers = await run_script(probe_script.__file__, names, world, start_for(world), network=network)
        answers |= {name: ("not covered", why) for name, why in left_out.items()}
        return [await _judge(check, answers[check.name], world) for check in checks]


async def run_script(
    script: str,
    names: Sequence[str],
    world: ProbeWorld,
    start: StartProbe,
    *,
    network: Network,
    facts: Mapping[str, str] | None = None,
    programs: tuple[str, ...] = (),
) -> dict[str, Answer]:
    """Run attempts of a script in one command, and return the answer of each."""
    output, error = bytearray(), bytearray()
    told = msgspec.json.encode(facts or world.facts).decode()
    try:
        process = await start(
            [sys.executable, "-I", "-S", script, told, *names],
            cwd=world.work,
            env=world.env,
            policy=SpawnPolicy(
                mode="workspace-write",
                workspace=world.work,
                programs=(*own_programs(), *programs),
                network=network,
                hosts=("*",),
            ),
            call_id="call_probe",
            on_output=output.extend,
            on_error=error.extend,
        )
    except CannotStart as problem:
        return dict.fromkeys(names, ("not tried", str(problem)))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            code = await process.wait()
        why = error.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"it ended with {code}"
    except TimeoutError:
        why = f"it did not end within {TIMEOUT_S:.0f} s"
    finally:
        await process.stop()
    answers: dict[str, Answer] = dict.fromkeys(names, ("not tried", why))
    for line in output.splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            name, outcome, text = msgspec.json.decode(line, type=tuple[str, str, str])
            answers[name] = (outcome, text)
    return answers


async def _refuse(*_address: object) -> NoReturn:
    """Stand for the network around the sandbox. Nothing is sent to it."""
    raise ConnectionRefusedError


def _why_left_out(check: Check, network: Network, covers: Collection[str] | None) -> str:
    """Return why this sandbox does not promise to stop a check; empty if it does."""
    if check.network and network == "inherit":
        return 'the network is not limited (sandbox.network = "inherit")'
    if covers is not None and check.part in _FIELDS and check.part not in covers and not check.must_work:
        return "this kind of sandbox cannot stop it"
    return ""


async def _judge(check: Check, answer: Answer, world: ProbeWorld) -> Result:
    outcome, detail = answer
    if leak := await world.leak(check, answer):
        outcome, detail = "leaks", leak
    elif check.must_work and outcome in {"got", "refused"}:
        outcome = "works" if outcome == "got" else "broken"
    elif outcome in {"got", "refused"}:
        outcome, detail = "blocked", detail or "nothing came of it"
    line = visible(" ".join(detail.split()), newlines=False)
    shown = line if len(line) <= _MOST_DETAIL else f"{line[: _MOST_DETAIL - 1]}…"
    return Result(
        name=check.name,
        tries=check.tries,
        part=check.part,
        outcome=cast("ProbeOutcome", outcome),
        detail=shown,
    )


def _was_reached(server: socket.socket) -> bool:
    return bool(select.select([server], [], [], 0)[0])
