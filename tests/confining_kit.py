"""A scratch world for attempts to escape: a workspace, a home with planted secrets, an outside, listeners.

Everything an attempt may hurt is made here and thrown away afterwards.
"""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
NOBODY = 65534
SECRET = "what the test planted"


class Result(NamedTuple):
    code: int | None
    output: str
    tampered: list[str]


class User(NamedTuple):
    """Who runs the engine: the prefix that becomes them, and a Python they can start."""

    name: str
    uid: int
    prefix: tuple[str, ...]
    python: str


@functools.cache
def users() -> tuple[User, ...]:
    """Whoever runs the tests; and an ordinary user, where that is root."""
    found = [User("whoever-tests", os.getuid(), (), sys.executable)]
    setpriv = shutil.which("setpriv")
    if os.getuid() == 0 and setpriv:
        # What setpriv starts itself is still found with the rights of root; what a shell starts then is not.
        shell = ("/bin/sh", "-c", 'exec "$0" "$@"')
        prefix = (
            setpriv,
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            "--inh-caps=-all",
            *shell,
        )
        for python in (sys.executable, "/usr/bin/python3"):
            if _can_import(prefix, python):
                found.append(User("ordinary-user", NOBODY, prefix, python))
                break
    return tuple(found)


def _can_import(prefix: tuple[str, ...], python: str) -> bool:
    try:
        probe = subprocess.run(
            [*prefix, python, "-c", "import msgspec, bridle.engine.ports"],
            env=_python_environment(),
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return probe.returncode == 0


def _python_environment() -> dict[str, str]:
    path = os.pathsep.join([str(REPOSITORY / "src"), sysconfig.get_path("platlib")])
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "ENGINE_SECRET": SECRET,
    }


class Ground:
    """The scratch world of one attempt."""

    def __init__(self, base: Path, user: User, adapter: str) -> None:
        self.base = base
        self.user = user
        self.adapter = adapter
        self.variant = "full"
        self.workspace = base / "ws"
        self.home = base / "home"
        self.outside = base / "outside"
        self.host_tmp = base / "hosttmp"
        self.own = base / "own"
        self.caches = base / "caches"
        self.scratch = base / "state" / "scratch"
        self.run_folder = base / "run"
        self.network = "inherit"
        self.mode = "workspace-write"
        self.writable: list[str] = []
        self.gently = False
        self.temporary = [str(self.host_tmp)]
        for folder in (
            self.workspace / "src",
            self.home,
            self.outside,
            self.host_tmp,
            self.own,
            self.run_folder,
        ):
            folder.mkdir(parents=True)
        self.scratch.mkdir(parents=True)
        (self.workspace / "src" / "a.txt").write_text("a\n")
        (self.outside / "victim.txt").write_text("untouched\n")
        (self.host_tmp / "host.txt").write_text(SECRET)
        (self.own / "config.toml").write_text(SECRET)
        for name in (".ssh/id_test", ".netrc", ".config/gh/hosts.yml", ".bash_history"):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SECRET)

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Git as the test uses it: to make the repository, before anything untrusted has run."""
        identity = {
            f"GIT_{who}_{what}": "t@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.base),
            "GIT_CONFIG_NOSYSTEM": "1",
            **identity,
        }
        folder = cwd or self.workspace
        command = ["git", "-c", "safe.directory=*", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def repository(self, folder: Path | None = None) -> None:
        self.git("init", "-q", "-b", "main", ".", cwd=folder)
        self.git("config", "user.name", "t", cwd=folder)
        self.git("config", "user.email", "t@example.org", cwd=folder)
        self.git("add", "-A", cwd=folder)
        self.git("commit", "-q", "--allow-empty", "-m", "first", cwd=folder)

    def bash(self, script: str, **step: object) -> Result:
        return self.run([{"argv": ["/bin/bash", "-c", script], **step}])[0]

    def run(self, steps: list[dict]) -> list[Result]:
        """Each step in a sandbox of its own, all by one engine of this user."""
        self._give_away()
        program = shutil.which("bwrap") or "bwrap"
        plan = {
            "adapter": self.adapter,
            "program": program,
            "variant": self.variant,
            "home": str(self.home),
            "own": [str(self.own), str(self.scratch.parent)],
            "caches": str(self.caches),
            "place_env": {"SSH_AUTH_SOCK": str(self.run_folder / "agent.sock")},
            "temporary": self.temporary,
            "policy": {
                "mode": self.mode,
                "workspace": str(self.workspace),
                "writable": self.writable,
                "network": self.network,
                "scratch": str(self.scratch),
            },
            "env": {
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.home),
                "OUT": str(self.outside),
                "WS": str(self.workspace),
                "HOST_TMP": str(self.host_tmp),
                "OWN": str(self.own),
                "SOCK": str(self.run_folder / "agent.sock"),
                "PY": self.user.python,
                "ENGINE_PID": str(os.getpid()),
            },
            "steps": steps,
            "gently": self.gently,
        }
        done = subprocess.run(
            [*self.user.prefix, self.user.python, str(REPOSITORY / "tests" / "confining_driver.py")],
            input=json.dumps(plan),
            env=_python_environment(),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [Result(**result) for result in json.loads(done.stdout)]

    def _give_away(self) -> None:
        if self.user.uid != os.getuid():
            for folder, _, names in os.walk(self.base):
                for path in (folder, *(os.path.join(folder, name) for name in names)):
                    os.lchown(path, self.user.uid, self.user.uid)

    def is_untouched(self) -> bool:
        """Whether the outside is as it was."""
        files = sorted(path.name for path in self.outside.iterdir())
        return files == ["victim.txt"] and (self.outside / "victim.txt").read_text() == "untouched\n"


@contextmanager
def ground(user: User, adapter: str) -> Iterator[Ground]:
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="bridle-ground-")))
    base.chmod(0o755)
    try:
        yield Ground(base, user, adapter)
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def listening(family: socket.AddressFamily, address: object) -> Iterator[tuple[object, list[bytes]]]:
    """A listener that notes everybody who comes; yields its address and the notes."""
    came: list[bytes] = []
    with socket.socket(family) as server:
        server.bind(address)
        server.listen()
        bound = server.getsockname()

        def accept() -> None:
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                with visitor:
                    if visitor.recv(1) != b"q":
                        came.append(b"came")
                        continue
                return

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield bound, came
        finally:
            with socket.socket(family) as last:
                last.connect(bound)
                last.sendall(b"q")
            thread.join()


def processes_with(marker: str) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if marker.encode() in (process / "cmdline").read_bytes():
                    found.append(process.name)
            except OSError:
                continue
    return found
