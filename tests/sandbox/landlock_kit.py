"""A scratch world for commands held by Landlock, an engine that holds them, and attempts to get out.

python landlock_kit.py engine     reads one JSON object from stdin, runs its command, prints what came of it
python landlock_kit.py attempts   what a command may try: prints for every attempt "ok" or the name of its error
python landlock_kit.py unheld     those of them that are harmless where nothing holds them
"""

import ctypes
import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"


class Result(NamedTuple):
    code: int
    output: str


class World:
    """Folders that stand for a workspace, its surroundings and a secret, all of one owner."""

    def __init__(self, root: Path, *, as_user: bool) -> None:
        self.root = root
        self.workspace, self.outside, self.secrets = root / "shop", root / "outside", root / "secrets"
        self.scratch, self.home = root / "scratch", root / "home"
        self.as_user = as_user
        for folder in (self.workspace, self.outside, self.secrets, self.scratch, self.home):
            folder.mkdir()
        for name in ("kept", "moved", "removed"):
            (self.outside / name).write_text("precious")
        (self.secrets / "token").write_text("planted")
        (self.workspace / "mine").write_text("mine")
        (self.workspace / "peek").symlink_to(self.secrets / "token")
        (self.workspace / "out").symlink_to(self.outside)
        if as_user:
            root.chmod(0o755)
            for path in (root, *root.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def confinement(self, **changes):
        return {
            "writable": [str(self.workspace)],
            "hidden": [str(self.secrets)],
            "scratch": str(self.scratch),
        } | changes

    def run(self, *argv, version=None, **changes) -> Result:
        """Runs a command in the workspace, as the owner of this world, and waits for it."""
        order = {"argv": argv, "cwd": str(self.workspace), "confinement": self.confinement(**changes)}
        order |= {"version": version, "env": engine_environment(self.home) | {"PLANTED": ""}}
        answer = subprocess.run(
            self._as_owner(SYSTEM_PYTHON if self.as_user else sys.executable, "-B", __file__, "engine"),
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=60,
            env=engine_environment(self.home),
        )
        assert answer.returncode == 0, answer.stderr
        return Result(*json.loads(answer.stdout))

    def shell(self, script, **changes) -> Result:
        return self.run("bash", "-c", script, **changes)

    def attempts(self, **changes) -> dict[str, str]:
        """What came of every attempt, by its name."""
        script = [SYSTEM_PYTHON if self.as_user else sys.executable, "-B", __file__, "attempts"]
        result = self.run(*script, str(self.root), **changes)
        assert result.code == 0, result.output
        return json.loads(result.output)

    def unheld(self) -> dict[str, str]:
        """The attempts on files and other processes, by a process that nothing holds."""
        python = SYSTEM_PYTHON if self.as_user else sys.executable
        script = '"$0" -B "$1" unheld "$2"; exit $?'  # the shell stands for the engine
        command = self._as_owner("sh", "-c", script, python, __file__, str(self.root))
        env = engine_environment(self.home) | {"TMPDIR": str(self.scratch)}
        answer = subprocess.run(
            command, cwd=self.workspace, capture_output=True, text=True, timeout=60, env=env
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def _as_owner(self, *command):
        ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"] if self.as_user else []
        return [*(["setpriv", *ids] if ids else []), *command]


def engine_environment(home) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PLANTED": "planted",
    }


def can_run_as_user() -> bool:
    """Whether we may become somebody else who can read what is needed."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or not os.path.exists(SYSTEM_PYTHON):
        return False
    command = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        SYSTEM_PYTHON,
        "-B",
        "-c",
    ]
    check = "import sys; assert sys.version_info >= (3, 11); import msgspec, bridle.base.process.processes"
    return subprocess.run([*command, check], capture_output=True, env=engine_environment("/")).returncode == 0


# The engine


def engine() -> None:
    import asyncio

    import msgspec

    from bridle.base.process.processes import Processes
    from bridle.sandbox.adapters.adapter_start import start
    from bridle.sandbox.adapters.landlock import Landlock
    from bridle.sandbox.confinement import Confinement

    async def main(order):
        output = bytearray()
        processes = Processes(adopts_orphans=True)
        adapter = Landlock(version=order["version"])
        confinement = msgspec.convert(order["confinement"], Confinement)
        launch = adapter.confined(order["argv"], cwd=order["cwd"], confinement=confinement)
        process = await start(
            processes,
            launch,
            cwd=order["cwd"],
            env={**order["env"], **adapter.variables(confinement)},
            on_output=output.extend,
            ended=launch.ended,
        )
        code = await process.wait()
        await processes.close()
        return code, output.decode("utf-8", "backslashreplace")

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(abstract_name(os.getpid()))
    listener.listen()
    print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))


def abstract_name(pid) -> str:
    return f"\0bridle-test-{pid}"


# The attempts

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, SIGCHLD, TIOCSTI, AF_ALG, AF_VSOCK, NETLINK_KOBJECT_UEVENT = 0x10000000, 17, 0x5412, 38, 40, 15
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def system_call(name, *arguments):
    from bridle.sandbox.adapters import seccomp

    number = seccomp.REFUSED[name][0 if os.uname().machine == "x86_64" else 1]
    return checked(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def write(path):
    with open(path, "w") as file:
        file.write("written")


def read(path):
    with open(path, "rb") as file:
        assert file.read(1)


def connect(family, kind, address):
    with socket.socket(family, kind) as sock:
        sock.connect(address)


def bind(family, kind, address):
    with socket.socket(family, kind) as sock:
        sock.bind(address)


def new_user_namespace_by_clone():
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    pid = checked(libc.syscall(ctypes.c_long(number), ctypes.c_long(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def type_into_terminal():
    checked(libc.ioctl(0, ctypes.c_ulong(TIOCSTI), b"x"))


def threads_and_children():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert subprocess.run(["true"]).returncode == 0


def pair():
    one, other = socket.socketpair()
    one.send(b"x")
    assert other.recv(1) == b"x"
    one.close()
    other.close()


def rename_between_folders(workspace):
    (workspace / "a").mkdir()
    (workspace / "b").mkdir()
    (workspace / "a" / "file").write_text("x")
    os.link(workspace / "a" / "file", workspace / "b" / "linked")
    os.rename(workspace / "a" / "file", workspace / "b" / "file")
    shutil.rmtree(workspace / "a")
    shutil.rmtree(workspace / "b")


def temporary_file():
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(b"x")


def has_no_capabilities():
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    assert (int(status["CapEff"], 16), status["NoNewPrivs"]) == (0, "1")


def as_engine_sees_us(name):
    """What the kernel lets us see of the process that started us."""
    return f"/proc/{os.getppid()}/{name}"


HARMLESS = re.compile(
    r"outside|secret|move|link|engine's (environment|descriptors)|signal|pair|Unix|bind|datagram"
)


def attempts(root: Path, only=re.compile("")) -> dict[str, str]:
    workspace, outside, secrets = root / "shop", root / "outside", root / "secrets"
    engine_pid = os.getppid()
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    tries = {
        # must work
        "write in the workspace": lambda: write(workspace / "new"),
        "move and link in the workspace": lambda: rename_between_folders(workspace),
        "truncate in the workspace": lambda: os.truncate(workspace / "mine", 4),
        "make a temporary file": temporary_file,
        "read outside": lambda: read(outside / "kept"),
        "list the folder above": lambda: os.listdir(root),
        "write to /dev/null": lambda: write("/dev/null"),
        "read random bytes": lambda: read("/dev/urandom"),
        "start threads and children": threads_and_children,
        "talk over a pair of sockets": pair,
        "list its own descriptors": lambda: os.listdir("/proc/self/fd"),
        "signal its own children": lambda: os.kill(os.getpid(), 0),
        # must be refused
        "create outside": lambda: write(outside / "new"),
        "create outside through a link": lambda: write(workspace / "out" / "new"),
        "append outside": lambda: os.close(os.open(outside / "kept", os.O_WRONLY | os.O_APPEND)),
        "truncate outside": lambda: os.truncate(outside / "kept", 0),
        "truncate outside by opening": lambda: os.close(os.open(outside / "kept", os.O_RDONLY | os.O_TRUNC)),
        "truncate outside by opening for nothing": lambda: os.close(
            os.open(outside / "kept", 3 | os.O_TRUNC)
        ),
        "link from outside": lambda: os.link(outside / "kept", workspace / "hard"),
        "move in from outside": lambda: os.rename(outside / "moved", workspace / "moved"),
        "move out": lambda: os.rename(workspace / "mine", outside / "mine"),
        "remove outside": lambda: os.unlink(outside / "removed"),
        "make a folder outside": lambda: os.mkdir(outside / "folder"),
        "make a device": lambda: os.mknod(workspace / "disk", 0o60600, os.makedev(254, 0)),
        "read a secret": lambda: read(secrets / "token"),
        "read a secret through a link": lambda: read(workspace / "peek"),
        "read a secret through /proc": lambda: read(f"/proc/self/root{secrets}/token"),
        "link to a secret": lambda: os.link(secrets / "token", workspace / "token"),
        "read the engine's environment": lambda: read(as_engine_sees_us("environ")),
        "read the engine's memory": lambda: os.close(os.open(as_engine_sees_us("mem"), os.O_RDONLY)),
        "see the engine's descriptors": lambda: os.readlink(as_engine_sees_us("fd/0")),
        "go where the engine is": lambda: os.listdir(as_engine_sees_us("cwd/")),
        "signal the engine": lambda: os.kill(engine_pid, 0),
        "trace the engine": lambda: system_call("ptrace", PTRACE_SEIZE, engine_pid, 0, 0),
        "copy the engine's memory": lambda: system_call("process_vm_readv", engine_pid, 0, 0, 0, 0, 0),
        "take the engine's descriptors": lambda: system_call("pidfd_getfd", os.pidfd_open(engine_pid), 0, 0),
        "connect to the engine": lambda: connect(socket.AF_UNIX, stream, abstract_name(engine_pid)),
        "make a Unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "make a user namespace": lambda: system_call("unshare", CLONE_NEWUSER),
        "make a user namespace by clone": new_user_namespace_by_clone,
        "mount": lambda: system_call("mount", 0, 0, 0, 0, 0),
        "use io_uring": lambda: system_call("io_uring_setup", 0, 0),
        "use keys": lambda: system_call("keyctl", 0, -3, 0),
        "load a kernel program": lambda: system_call("bpf", 0, 0, 0),
        "handle page faults": lambda: system_call("userfaultfd", 0),
        "measure the machine": lambda: system_call("perf_event_open", 0, 0, 0, 0, 0),
        "open by handle": lambda: system_call("open_by_handle_at", -100, 0, 0),
        "type into a terminal": type_into_terminal,
        "use the kernel's ciphers": lambda: socket.socket(AF_ALG, socket.SOCK_SEQPACKET).close(),
        "reach the host of a virtual machine": lambda: socket.socket(AF_VSOCK, stream).close(),
        "hear of devices": lambda: socket.socket(socket.AF_NETLINK, datagram, NETLINK_KOBJECT_UEVENT).close(),
        # by the network's setting
        "bind a TCP port": lambda: bind(socket.AF_INET, stream, ("127.0.0.1", 0)),
        "bind a TCP port of IPv6": lambda: socket.socket(socket.AF_INET6, stream).close(),
        "send a datagram": lambda: connect(socket.AF_INET, datagram, ("127.0.0.1", 9)),
        "ask for addresses": lambda: socket.socket(socket.AF_NETLINK, datagram, 0).close(),
        "have capabilities": has_no_capabilities,
    }
    return {name: outcome(attempt) for name, attempt in tries.items() if only.search(name)}


def outcome(attempt) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except AssertionError:
        return "wrong"
    return "ok"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["engine"]:
            engine()
        case ["attempts", root]:
            print(json.dumps(attempts(Path(root))))
        case ["unheld", root]:
            print(json.dumps(attempts(Path(root), HARMLESS)))
