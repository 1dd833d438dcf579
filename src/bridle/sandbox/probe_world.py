"""A small world for probes: everything in it was made to be attacked, so that nothing else has to be.

A home with secrets that are none, a workspace with a repository, a neighbour outside, sockets that answer nobody, a
process to trace and to end. What a probe did to it is seen by comparing it with what it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

import msgspec

from bridle.base.clock import SystemClock
from bridle.base.processes import Processes, ProcessGroup
from bridle.base.stand_ins import is_stand_in
from bridle.base.web import connect_to
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.proxy import OutsideNetwork

TEMPORARY = "/tmp"  # noqa: S108  a folder of our own in it
SHARED_MEMORY = "/dev/shm"  # noqa: S108  a file of our own in it
_TEST_NETWORK = ("192.0.2.1", 53)
"""An address nobody has; asking for the way to it sends nothing."""
_PUBLIC = "93.184.215.14"
"""Stands for any address of the world; nobody goes there."""
ALLOWED_HOSTS: Mapping[str, list[list[str]]] = {
    "allowed.test": [[_PUBLIC]],
    "near.test": [["10.0.0.1"]],
    "mapped.test": [["::ffff:127.0.0.1"]],
    "both.test": [[_PUBLIC, "127.0.0.1"]],
    "turning.test": [[_PUBLIC], ["127.0.0.1"]],
}
"""The hosts that rules of this world allow, and where each name leads, the first time it is asked for and later."""
_LONGEST_S = "600"
_GONE_WITHIN_S = 2.0
_LOOK_S = 0.01
_MAX_BYTES = 4_096

_SETTINGS = (
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
    "[extensions]\n\tworktreeConfig = true\n"
)
_PROTECTED = (
    ".git/config", ".git/hooks", ".git/commondir", ".git/worktrees/side/commondir", ".git/worktrees/side/gitdir",
    ".git/config.worktree", "AGENTS.md", ".mcp.json", ".vscode", ".bridle", ".claude", "src/AGENTS.md", "src/.vscode",
)  # fmt: skip
"""What a command must leave as it is in the workspace, there or not."""


class ProbePaths(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    temporary: str
    """A folder of our own in the machine's temporary folder."""

    @property
    def home(self) -> str:
        return f"{self.root}/home"

    @property
    def work(self) -> str:
        return f"{self.root}/work"

    @property
    def outside(self) -> str:
        return f"{self.root}/out"

    @property
    def own(self) -> Mapping[str, str]:
        """Bridle's own folders; the last one is missing."""
        return {
            "config": f"{self.home}/.config/bridle",
            "data": f"{self.home}/.local/share/bridle",
            "runtime": f"{self.home}/.run/bridle",
            "state": f"{self.home}/.local/state/bridle",
        }


class ProbeWorld:
    """The world while it lives. Made by `probe_world`."""

    def __init__(
        self,
        paths: ProbePaths,
        *,
        variable: str,
        token: str,
        process: ProcessGroup,
        doors: OtherSockets,
        shared: str,
    ) -> None:
        self.paths = paths
        self.token = token
        self._process = process
        self._doors = doors
        self._shared = shared
        self._variable = variable
        self._life = os.open(f"{paths.work}/life", os.O_RDONLY | os.O_NONBLOCK)
        # What a careless engine would leave open for its commands.
        self._careless = os.open(f"{paths.home}/.ssh/id_probe", os.O_RDONLY)
        os.set_inheritable(self._careless, True)
        self._before = dict(self._seen())

    def close(self) -> None:
        os.close(self._careless)
        os.close(self._life)

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the person in this world, with a secret in it."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": self.paths.home,
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": f"{self.paths.root}/run",
            "SSH_AUTH_SOCK": f"{self.paths.root}/ssh/s",
            self._variable: self.token,
        }

    @property
    def place(self) -> HostContext:
        """The world as the sandbox is told of it."""
        return HostContext(
            home=self.paths.home,
            own=tuple(self.paths.own.values()),
            caches=f"{self.paths.root}/caches",
            env=self.env,
        )

    @property
    def network(self) -> OutsideNetwork:
        """The network around this world, for whoever lets commands into it. Only one address leads to a stranger: all
        others to a server on this machine."""
        answers = {name: [*each] for name, each in ALLOWED_HOSTS.items()}

        async def resolve(host: str) -> list[str]:
            first, *later = answers.get(host, [[]])
            answers[host] = later or [first]
            return first

        async def connect(address: str, _port: int) -> socket.socket:
            if address != _PUBLIC:
                return await connect_to("127.0.0.1", int(self._doors.facts["tcp_port"]))
            ours, theirs = socket.socketpair()
            with theirs:
                theirs.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            ours.setblocking(False)
            return ours

        return OutsideNetwork(SystemClock(), resolve, connect)

    @property
    def facts(self) -> Mapping[str, str]:
        """What an attempt must know to try: where everything is, and none of the secrets."""
        paths = self.paths
        return {
            "home": paths.home,
            "work": paths.work,
            "outside": paths.outside,
            "victim": f"{paths.outside}/victim",
            **paths.own,
            "variable": self._variable,
            "temporary": paths.temporary,
            "shared": self._shared,
            "process": str(self._process.pid),
            "life": f"{paths.work}/life",
            "git": shutil.which("git") or "",
            "canary": f"{paths.outside}/canary",
            "planted": f"{paths.work}/planted",
            "looked": f"{paths.work}/looked",
            "python": sys.executable,
            "module": "bridle",
            "packages": os.pathsep.join(filter(os.path.isabs, sys.path)),
            "has_route": "yes" if _has_route() else "no",
            **self._doors.facts,
        }

    async def planted(self) -> None:
        """Returns once an attempt has planted something, and holds on to it."""
        while not os.path.exists(f"{self.paths.work}/planted"):  # noqa: ASYNC110, ASYNC240  only a file says so
            await asyncio.sleep(_LOOK_S)

    async def look(self, folders: Sequence[str], processes: Processes) -> None:
        """What an editor does all the time: asks git about these folders, as the person."""
        git = shutil.which("git")
        for folder in folders:
            cwd = os.path.join(self.paths.work, folder)
            if git is not None and os.path.isdir(cwd):  # noqa: ASYNC240  nothing else waits
                env = {"PATH": os.path.dirname(git), "HOME": self.paths.home, "GIT_CONFIG_NOSYSTEM": "1"}
                async with await processes.start(
                    [git, "status"], cwd=cwd, env=env, on_output=lambda _data: None
                ) as process:
                    await process.wait()
        os.close(os.open(f"{self.paths.work}/looked", os.O_WRONLY | os.O_CREAT, 0o600))

    def changes(self) -> list[str]:
        """What is not as it was, in words; each thing that happened at a socket is told once."""
        now = dict(self._seen())
        changed = sorted(name for name in {*now, *self._before} if now.get(name) != self._before.get(name))
        first = [name for name in changed if not any(name.startswith(f"{above}/") for above in changed)]
        told = [f"{self._shown(name)} was {_fate(name, self._before, now)}" for name in first]
        if self._process.returncode is not None:
            told.append("a process outside was ended")
        return [*told, *self._doors.visits()]

    def _shown(self, path: str) -> str:
        if path.startswith(f"{self.paths.temporary}/"):
            return f"{os.path.basename(path)} in the temporary folder"
        return os.path.relpath(path, self.paths.root)

    async def is_left_alone(self) -> bool:
        """Whether nothing of the last command lives any more, now or a moment later."""
        return await asyncio.to_thread(self._ends)

    def _ends(self) -> bool:
        ready, _, _ = select.select([self._life], [], [], _GONE_WITHIN_S)
        return bool(ready) and os.read(self._life, 1) == b""

    def _seen(self) -> Iterator[tuple[str, object]]:
        """Everything a command must not change, with what it is."""
        paths = self.paths
        roots = [paths.home, paths.outside, paths.temporary, f"{paths.root}/run", f"{paths.root}/ssh"]
        roots += [f"{paths.work}/{name}" for name in _PROTECTED]
        for root in (*roots, *filter(None, [self._shared])):
            yield from _below(root)
        with contextlib.suppress(OSError):
            yield f"{paths.work}/.git", os.lstat(f"{paths.work}/.git").st_ino


@contextlib.asynccontextmanager
async def probe_world(
    folder: str, processes: Processes, *, temporary: str = TEMPORARY, repository: bool = True
) -> AsyncGenerator[ProbeWorld]:
    """Makes a world in a new folder inside `folder`, and takes it away again.

    The names in it are short: the path of a socket has at most 107 characters. `temporary` is the temporary folder of
    the machine; a world inside it would hardly be seen by a command at all, so `folder` is better somewhere else.
    """
    paths = ProbePaths(root=_new_folder("p-", folder), temporary=_new_folder("bridle-probe-", temporary))
    variable, token = f"PROBE_{os.urandom(4).hex().upper()}_API_KEY", os.urandom(16).hex()
    shared = _plant_shared(token)
    try:
        _furnish(paths, token)
        if not repository:
            shutil.rmtree(f"{paths.work}/.git")
        with contextlib.closing(OtherSockets(paths)) as doors:
            process = await processes.start(
                ["sleep", _LONGEST_S],
                cwd="/",
                env={"PATH": "/usr/bin:/bin", variable: token},
                on_output=lambda _data: None,
            )
            async with process:
                world = ProbeWorld(
                    paths, variable=variable, token=token, process=process, doors=doors, shared=shared
                )
                with contextlib.closing(world):
                    yield world
    finally:
        for path in (paths.root, paths.temporary):
            shutil.rmtree(path, ignore_errors=True)
        if shared:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(shared)


class OtherSockets:
    """Sockets of other programs: nobody has any business at them."""

    def __init__(self, paths: ProbePaths) -> None:
        self._abstract = f"bridle-probe-{os.urandom(8).hex()}" if sys.platform == "linux" else ""
        self._open: list[tuple[str, socket.socket]] = []
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._udp.setblocking(False)
        self._tcp = self._listen("a server on this machine", socket.AF_INET, ("127.0.0.1", 0))
        self._unix = {
            "runtime_socket": f"{paths.root}/run/s",
            "agent_socket": f"{paths.root}/ssh/s",
            "engine_socket": f"{paths.own['runtime']}/engine.sock",
            "plain_socket": f"{paths.outside}/s",
        }
        for name, path in self._unix.items():
            self._listen(f"the {name.replace('_', ' ')}", socket.AF_UNIX, path)
        if self._abstract:
            self._listen("an abstract socket", socket.AF_UNIX, "\0" + self._abstract)

    @property
    def facts(self) -> Mapping[str, str]:
        return {
            "tcp_port": str(self._tcp.getsockname()[1]),
            "udp_port": str(self._udp.getsockname()[1]),
            "abstract_socket": self._abstract,
            **self._unix,
        }

    def visits(self) -> list[str]:
        """Who came since the last time."""
        told: list[str] = []
        for name, door in self._open:
            with contextlib.suppress(BlockingIOError):
                while True:
                    door.accept()[0].close()
                    told.append(f"{name} was reached")
        with contextlib.suppress(BlockingIOError):
            while self._udp.recv(64):
                told.append("a datagram arrived outside")
        return told

    def close(self) -> None:
        for _, door in self._open:
            door.close()
        self._udp.close()

    def _listen(self, name: str, family: int, address: str | tuple[str, int]) -> socket.socket:
        door = socket.socket(family, socket.SOCK_STREAM)
        self._open.append((name, door))
        if isinstance(address, str) and address.startswith("/"):
            _bind_in_folder(door, address)
        else:
            door.bind(address)
        door.listen()
        door.setblocking(False)
        return door


def _bind_in_folder(door: socket.socket, path: str) -> None:
    """The name of a socket has room for 107 characters; its folder may have a longer one."""
    folder, name = os.path.split(path)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        door.bind(f"/proc/self/fd/{opened}/{name}" if sys.platform == "linux" else path)
    finally:
        os.close(opened)


def _furnish(paths: ProbePaths, token: str) -> None:
    files = {
        f"{paths.home}/.ssh/id_probe": token,
        f"{paths.home}/.aws/credentials": token,
        f"{paths.home}/.bashrc": "",
        f"{paths.home}/.cache/pip/wheel": "of another project\n",
        f"{paths.own['config']}/config.toml": 'mode = "default"\n',
        f"{paths.own['data']}/sessions.key": token,
        f"{paths.own['runtime']}/token": token,
        f"{paths.outside}/victim": "as it was\n",
        f"{paths.outside}/canary": f"#!/bin/sh\n: > '{paths.outside}/sang'\n",
        f"{paths.temporary}/secret": token,
        f"{paths.work}/AGENTS.md": "Be kind.\n",
        f"{paths.work}/.git/HEAD": "ref: refs/heads/main\n",
        f"{paths.work}/.git/config": _SETTINGS,
        f"{paths.work}/.git/hooks/pre-commit.sample": "#!/bin/sh\n",
        f"{paths.work}/.git/worktrees/side/commondir": "../..\n",
        f"{paths.work}/.git/worktrees/side/gitdir": f"{paths.outside}/side/.git\n",
        f"{paths.work}/.git/worktrees/side/HEAD": "ref: refs/heads/side\n",
    }
    for path, text in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    for name in ("run", "ssh", "work/src", "work/.git/objects", "work/.git/refs/heads"):
        os.makedirs(f"{paths.root}/{name}")
    os.mkfifo(f"{paths.work}/life")
    os.chmod(f"{paths.outside}/canary", 0o700)


def _new_folder(prefix: str, folder: str) -> str:
    return os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=folder))


def _plant_shared(token: str) -> str:
    try:
        fd, path = tempfile.mkstemp(prefix="bridle-probe-", dir=SHARED_MEMORY)
    except OSError:  # there is none
        return ""
    with os.fdopen(fd, "w") as file:
        file.write(token)
    return path


def _has_route() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        try:
            door.connect(_TEST_NETWORK)
        except OSError:
            return False
    return True


def _fate(name: str, before: Mapping[str, object], now: Mapping[str, object]) -> str:
    if name not in now:
        return "removed"
    return "changed" if name in before else "made"


def _below(path: str) -> Iterator[tuple[str, object]]:
    """A path and everything beneath it; nothing for one that is not there, or that only keeps it missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    if is_stand_in(path):
        return
    yield path, (status.st_mode, _content(path, status))
    if stat.S_ISDIR(status.st_mode):
        for name in sorted(os.listdir(path)):
            yield from _below(f"{path}/{name}")


def _content(path: str, status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(os.readlink(path))
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    return b""
