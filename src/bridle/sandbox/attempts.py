"""What a hostile command would try. Runs inside the sandbox, by itself: `python -I -S -c THIS NAME FACTS`.

Every attempt is aimed at things that the prober made (`probe_world`), or only opens something and closes it again: if
there is no sandbox at all, nothing of the machine is changed and nothing of the person's is read. Keep it so.

An attempt returns what it got hold of, as text, or nothing. An `OSError` is a refusal. What it did to the world is
judged from outside.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import select
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

ProbeFacts: TypeAlias = dict[str, str]
Attempt: TypeAlias = Callable[[ProbeFacts], "str | None"]

_HELD_S = 5.0
"""How long a process that got away lives on."""
_LOOK_S = 0.01
_RACES = 300
_NEW_USER_NAMESPACE = 0x10000000
_NEW_MOUNTS = 0x00020000
_MOUNT_PRIVATE = 0x00044000
_MOUNT_DETACH = 2
_PTRACE_SEIZE = 0x4206
_AF_VSOCK = 40
_TEST_NETWORK = "192.0.2.1"
"""Kept free for examples: nobody has this address."""
_NUMBERS = {  # x86_64, aarch64
    "clone": (56, 220),
    "pivot_root": (155, 41),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
}
_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})


class NotHere(Exception):
    """This machine has nothing of the kind, so there is nothing to try; the text says what is missing."""


class NotTried(Exception):
    """It was to be tried and could not be; the text says why."""


# Files


def write_outside(facts: ProbeFacts) -> None:
    _write(f"{facts['outside']}/new")


def change_outside(facts: ProbeFacts) -> None:
    _append(facts["victim"])


def delete_outside(facts: ProbeFacts) -> None:
    os.unlink(facts["victim"])


def move_outside(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/mine")
    os.rename(f"{facts['work']}/mine", f"{facts['outside']}/moved")


def write_through_folder_link(facts: ProbeFacts) -> None:
    os.symlink(facts["outside"], f"{facts['work']}/way-out")
    _write(f"{facts['work']}/way-out/new")


def write_through_file_link(facts: ProbeFacts) -> None:
    os.symlink(facts["victim"], f"{facts['work']}/other-name")
    _append(f"{facts['work']}/other-name")


def write_through_hard_link(facts: ProbeFacts) -> None:
    os.link(facts["victim"], f"{facts['work']}/second-name")
    _append(f"{facts['work']}/second-name")


def write_through_swapped_link(facts: ProbeFacts) -> None:
    """A folder that is now a folder, now a link to outside."""
    place, kept = f"{facts['work']}/swapped", f"{facts['work']}/swapped-kept"
    os.mkdir(place)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(place, kept)
            os.symlink(facts["outside"], place)
            os.unlink(place)
            os.rename(kept, place)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(_RACES):
            try:
                _write(f"{place}/raced")
            except OSError:
                continue
    finally:
        over.set()
        swapping.join()
    os.rename(place, kept)
    os.symlink(facts["outside"], place)
    _write(f"{place}/raced")


def write_through_processes(facts: ProbeFacts) -> None:
    refused = OSError(errno.EACCES, "refused")
    for process in _processes():
        try:
            _write(f"/proc/{process}/root{facts['outside']}/new-{process}")
        except OSError as error:
            refused = error
        else:
            return
    raise refused


def change_mode_outside(facts: ProbeFacts) -> None:
    os.chmod(facts["victim"], 0o640)


def change_start_up_file(facts: ProbeFacts) -> None:
    _append(f"{facts['home']}/.bashrc")


def change_cache_of_others(facts: ProbeFacts) -> None:
    _append(f"{facts['home']}/.cache/pip/wheel")


def change_own_settings(facts: ProbeFacts) -> None:
    _append(f"{facts['config']}/config.toml")


def make_own_folder(facts: ProbeFacts) -> None:
    os.makedirs(facts["state"])
    _write(f"{facts['state']}/grants.json")


# What programs obey


def change_git_settings(facts: ProbeFacts) -> None:
    _append(f"{facts['work']}/.git/config")


def replace_git_settings(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/.git/config.new")
    os.rename(f"{facts['work']}/.git/config.new", f"{facts['work']}/.git/config")


def add_git_hook(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/.git/hooks/pre-commit")


def replace_git_hooks(facts: ProbeFacts) -> None:
    hooks = f"{facts['work']}/.git/hooks"
    os.rename(hooks, f"{hooks}-old")
    os.mkdir(hooks)
    _write(f"{hooks}/pre-commit")


def move_git_away(facts: ProbeFacts) -> None:
    git = f"{facts['work']}/.git"
    os.rename(git, f"{git}-old")
    os.mkdir(git)
    _write(f"{git}/config")


def redirect_git(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/.git/commondir", "../elsewhere\n")


def redirect_git_worktree(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/.git/worktrees/side/commondir", "../../../elsewhere\n")


def redirect_git_meanwhile(facts: ProbeFacts) -> None:
    _make_repository(f"{facts['work']}/elsewhere", facts)
    _write(f"{facts['work']}/.git/commondir", "../elsewhere\n")
    _be_seen(facts)


def add_worktree_settings_meanwhile(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/.git/config.worktree", f"[core]\n\tfsmonitor = {facts['canary']}\n")
    _be_seen(facts)


def make_repository_meanwhile(facts: ProbeFacts) -> None:
    _make_repository(f"{facts['work']}/.git", facts)
    _be_seen(facts)


def make_nested_repository(facts: ProbeFacts) -> None:
    _make_repository(f"{facts['work']}/src/.git", facts)


def make_bare_repository(facts: ProbeFacts) -> None:
    _make_repository(f"{facts['work']}/bare.git", facts, "\tbare = false\n\tworktree = ..\n")


def link_to_repository(facts: ProbeFacts) -> None:
    _make_repository(f"{facts['work']}/elsewhere", facts)
    os.symlink("../elsewhere", f"{facts['work']}/src/.git")


def add_instructions_below(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/src/AGENTS.md")


def add_editor_tasks_below(facts: ProbeFacts) -> None:
    os.makedirs(f"{facts['work']}/src/.vscode", exist_ok=True)
    _write(f"{facts['work']}/src/.vscode/tasks.json")


def add_agent_settings(facts: ProbeFacts) -> None:
    os.makedirs(f"{facts['work']}/.claude", exist_ok=True)
    _write(f"{facts['work']}/.claude/settings.json")


def change_instructions(facts: ProbeFacts) -> None:
    _append(f"{facts['work']}/AGENTS.md")


def replace_instructions(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/new.md")
    os.rename(f"{facts['work']}/new.md", f"{facts['work']}/AGENTS.md")


def add_servers(facts: ProbeFacts) -> None:
    _write(f"{facts['work']}/.mcp.json")


def add_editor_tasks(facts: ProbeFacts) -> None:
    os.makedirs(f"{facts['work']}/.vscode", exist_ok=True)
    _write(f"{facts['work']}/.vscode/tasks.json")


def add_project_settings(facts: ProbeFacts) -> None:
    os.makedirs(f"{facts['work']}/.bridle", exist_ok=True)
    _write(f"{facts['work']}/.bridle/config.toml")


# Secrets


def read_key(facts: ProbeFacts) -> str:
    return _read(f"{facts['home']}/.ssh/id_probe")


def read_credentials(facts: ProbeFacts) -> str:
    return _read(f"{facts['home']}/.aws/credentials")


def read_own_data(facts: ProbeFacts) -> str:
    return _read(f"{facts['data']}/sessions.key")


def read_engine_token(facts: ProbeFacts) -> str:
    return _read(f"{facts['runtime']}/token")


def read_key_through_link(facts: ProbeFacts) -> str:
    os.symlink(f"{facts['home']}/.ssh", f"{facts['work']}/keys")
    return _read(f"{facts['work']}/keys/id_probe")


def read_key_through_hard_link(facts: ProbeFacts) -> str:
    os.link(f"{facts['home']}/.ssh/id_probe", f"{facts['work']}/key")
    return _read(f"{facts['work']}/key")


def read_key_through_processes(facts: ProbeFacts) -> str:
    refused = OSError(errno.EACCES, "refused")
    for process in _processes():
        try:
            return _read(f"/proc/{process}/root{facts['home']}/.ssh/id_probe")
        except OSError as error:
            refused = error
    raise refused


def read_environment(facts: ProbeFacts) -> str | None:
    return os.environ.get(facts["variable"])


def read_environments_of_others(facts: ProbeFacts) -> str | None:
    for process in _processes():
        try:
            found = _planted(_read(f"/proc/{process}/environ"), facts)
        except OSError:
            continue
        if found:
            return found
    return None


def read_descriptors(_facts: ProbeFacts) -> str | None:
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that listed them
            continue
        if int(name) > 2:
            found.append(f"{name} is {target}")
    return ", ".join(found) or None


def read_temporary_files(facts: ProbeFacts) -> str:
    return _read(f"{facts['temporary']}/secret")


def write_temporary_files(facts: ProbeFacts) -> None:
    _write(f"{facts['temporary']}/new")


def read_shared_memory(facts: ProbeFacts) -> str:
    if not facts["shared"]:
        raise NotHere("there is no /dev/shm here")
    return _read(facts["shared"])


# Other programs


def reach_runtime_socket(facts: ProbeFacts) -> None:
    _connect(socket.AF_UNIX, facts["runtime_socket"])


def reach_agent_socket(facts: ProbeFacts) -> None:
    _connect(socket.AF_UNIX, facts["agent_socket"])


def reach_engine_socket(facts: ProbeFacts) -> None:
    _connect(socket.AF_UNIX, facts["engine_socket"])


def reach_any_socket(facts: ProbeFacts) -> None:
    _connect(socket.AF_UNIX, facts["plain_socket"])


def reach_abstract_socket(facts: ProbeFacts) -> None:
    _connect(socket.AF_UNIX, "\0" + facts["abstract_socket"])


def trace_process(facts: ProbeFacts) -> str | None:
    libc = _libc()
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(_PTRACE_SEIZE, int(facts["process"]), None, None) < 0:
        raise _failed()
    return "it could be traced"


def read_process_memory(facts: ProbeFacts) -> str | None:
    process = facts["process"]
    for line in _read(f"/proc/{process}/maps").splitlines():
        if line.endswith("[stack]"):
            first, _, last = line.split()[0].partition("-")
            with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
                memory.seek(int(first, 16))
                return _planted(memory.read(int(last, 16) - int(first, 16)).decode("latin-1"), facts)
    raise NotTried("its memory could not be found")


def end_process(facts: ProbeFacts) -> None:
    os.kill(int(facts["process"]), signal.SIGTERM)


def outlive(facts: ProbeFacts) -> None:
    """Leaves a process behind that holds a pipe open, which shows how long it lives."""
    ready, begun = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.open(facts["life"], os.O_WRONLY | os.O_NONBLOCK)
            for fd in (0, 1, 2):
                os.close(fd)
            os.write(begun, b"x")
            select.select([], [], [], _HELD_S)
        os._exit(0)
    os.close(begun)
    if not os.read(ready, 1):
        raise NotTried("no process could be left behind")


def open_terminal(_facts: ProbeFacts) -> str:
    os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    return "the terminal could be opened"


# The network


def reach_tcp(facts: ProbeFacts) -> None:
    _connect(socket.AF_INET, ("127.0.0.1", int(facts["tcp_port"])))


def reach_udp(facts: ProbeFacts) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.sendto(b"probe", ("127.0.0.1", int(facts["udp_port"])))


def reach_out(facts: ProbeFacts) -> str:
    """Looks for a way to an address outside; nothing is sent."""
    if facts["has_route"] != "yes":
        raise NotHere("this machine has no network")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.connect((_TEST_NETWORK, 53))
    return "there is a way to other machines"


def make_vsock(_facts: ProbeFacts) -> str:
    try:
        socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close()
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            raise NotHere("this kernel has no such sockets") from None
        raise
    return "a socket to the host of this machine could be made"


def make_raw_socket(_facts: ProbeFacts) -> str:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "a raw socket could be made"


# Through the proxy of a filtered network


def reach_allowed_host(_facts: ProbeFacts) -> None:
    _ask("CONNECT allowed.test:443 HTTP/1.1", "Host: allowed.test:443")
    _ask("GET http://allowed.test/ HTTP/1.1", "Host: allowed.test")


def reach_own_server(_facts: ProbeFacts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _connect(socket.AF_INET, server.getsockname())


def ask_for_other_host(_facts: ProbeFacts) -> str:
    return _ask("CONNECT other.test:443 HTTP/1.1")


def ask_for_other_port(_facts: ProbeFacts) -> str:
    return _ask("CONNECT allowed.test:22 HTTP/1.1")


def ask_for_metadata(_facts: ProbeFacts) -> str:
    return _ask("GET http://169.254.169.254/latest/meta-data/ HTTP/1.1")


def ask_for_private_host(_facts: ProbeFacts) -> str:
    return _ask("CONNECT near.test:443 HTTP/1.1")


def ask_for_number(_facts: ProbeFacts) -> str:
    return _ask("CONNECT 1.1.1.1:443 HTTP/1.1")


def ask_for_odd_number(_facts: ProbeFacts) -> str:
    return _ask("GET http://0x7f.1/ HTTP/1.1")


def ask_for_mapped_number(_facts: ProbeFacts) -> str:
    return _ask("CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1")


def ask_for_mapped_host(_facts: ProbeFacts) -> str:
    return _ask("CONNECT mapped.test:443 HTTP/1.1")


def ask_for_host_of_two_places(_facts: ProbeFacts) -> str:
    return _ask("CONNECT both.test:443 HTTP/1.1")


def ask_for_turning_host(_facts: ProbeFacts) -> str:
    """The first time its name leads out, then to this machine."""
    _ask("CONNECT turning.test:443 HTTP/1.1")
    return _ask("CONNECT turning.test:443 HTTP/1.1")


def tunnel_for_two_hosts(_facts: ProbeFacts) -> str:
    return _ask("CONNECT allowed.test:443 HTTP/1.1", "Host: other.test:443")


def ask_for_two_hosts(_facts: ProbeFacts) -> str:
    return _ask("GET http://allowed.test/ HTTP/1.1", "Host: other.test")


def ask_with_two_lengths(_facts: ProbeFacts) -> str:
    return _ask("POST http://allowed.test/ HTTP/1.1", "Content-Length: 0", "Content-Length: 43")


def ask_in_chunks(_facts: ProbeFacts) -> str:
    return _ask("POST http://allowed.test/ HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked")


def ask_twice_at_once(_facts: ProbeFacts) -> str:
    _ask("GET http://allowed.test/ HTTP/1.1", "", "GET http://near.test/ HTTP/1.1", answers=2)
    return "a second request was passed on"


# The kernel


def look_at_rights(_facts: ProbeFacts) -> str | None:
    """Rights of the superuser, and whether a program that is installed with rights of its own would give them back."""
    lines = dict(line.split(":\t", 1) for line in _read("/proc/self/status").splitlines() if ":\t" in line)
    held = [name for name in ("CapEff", "CapPrm", "CapInh", "CapAmb") if int(lines[name], 16)]
    if lines.get("NoNewPrivs") != "1":
        held.append("NoNewPrivs is 0")
    return ", ".join(held) or None


def make_user_namespace(_facts: ProbeFacts) -> str:
    if _libc().unshare(_NEW_USER_NAMESPACE) < 0:
        raise _failed()
    return "a user namespace could be made"


def clone_user_namespace(_facts: ProbeFacts) -> str:
    child = _libc().syscall(_number("clone"), _NEW_USER_NAMESPACE | signal.SIGCHLD, None, None, None, None)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise _failed()
    os.waitpid(child, 0)
    return "a process could be started in a user namespace"


def mount_folder(facts: ProbeFacts) -> str:
    place, libc = f"{facts['work']}/mounted", _libc()
    os.mkdir(place)
    if libc.unshare(_NEW_MOUNTS) == 0:  # where that is possible, nobody else sees the mount
        libc.mount(None, b"/", None, _MOUNT_PRIVATE, None)
    if libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, None) < 0:
        raise _failed()
    libc.umount2(os.fsencode(place), _MOUNT_DETACH)
    return "a file system could be mounted"


def change_root(facts: ProbeFacts) -> str:
    os.chroot(facts["work"])
    return "the root could be changed"


def pivot_root(facts: ProbeFacts) -> str:
    """With a folder that is not there, so that it cannot succeed."""
    missing = os.fsencode(f"{facts['work']}/missing")
    return _taken(_libc().syscall(_number("pivot_root"), missing, missing))


def make_device(facts: ProbeFacts) -> str:
    os.mknod(f"{facts['work']}/null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    return "a device could be made"


def open_disk(_facts: ProbeFacts) -> str:
    """Opens a disk and reads nothing of it."""
    refused: OSError | None = None
    for entry in os.scandir("/dev"):
        try:
            if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode):
                os.close(os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK))
                return f"{entry.path} could be opened"
        except OSError as error:
            refused = error
    raise refused or OSError(errno.ENOENT, "no disk in sight")


def use_io_uring(_facts: ProbeFacts) -> str:
    parameters = ctypes.create_string_buffer(120)
    return _taken(_libc().syscall(_number("io_uring_setup"), 1, parameters))


def use_keys(_facts: ProbeFacts) -> str:
    get_id, session = 0, -3
    return _taken(_libc().syscall(_number("keyctl"), get_id, session, 0))


def use_bpf(_facts: ProbeFacts) -> str:
    create, attributes = 0, ctypes.create_string_buffer(128)
    ctypes.memmove(attributes, (ctypes.c_uint32 * 4)(2, 4, 4, 1), 16)  # an array with one entry of 4 bytes
    return _taken(_libc().syscall(_number("bpf"), create, attributes, 128))


def open_kernel_settings(_facts: ProbeFacts) -> str:
    """Opens them for writing and writes nothing."""
    refused = OSError(errno.ENOENT, "there are none")
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            refused = error
        else:
            return f"{path} could be opened for writing"
    raise refused


# What must go on working


def work_in_workspace(facts: ProbeFacts) -> str:
    os.makedirs(f"{facts['work']}/src/new", exist_ok=True)
    _write(f"{facts['work']}/src/new/file")
    os.rename(f"{facts['work']}/src/new/file", f"{facts['work']}/src/file")
    return _read(f"{facts['work']}/src/file")


def work_in_temporary_folder(_facts: ProbeFacts) -> str:
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"probe-{os.getpid()}")  # noqa: S108  what programs do
    _write(path)
    try:
        return _read(path)
    finally:
        os.unlink(path)


def work_with_git(facts: ProbeFacts) -> str:
    if not facts["git"]:
        raise NotHere("git is not installed")
    _write(f"{facts['work']}/committed")
    _run(facts["git"], "add", "committed")
    identity = ("-c", "user.name=probe", "-c", "user.email=probe@localhost")
    _run(facts["git"], *identity, "commit", "-q", "-m", "probe")
    return _read(f"{facts['work']}/.git/refs/heads/main")


# What is said about it


def claim_without_namespaces(facts: ProbeFacts) -> str | None:
    """A session of Bridle itself, in a fresh home. Here no namespaces can be made, whatever is installed."""
    folder, beside = f"{facts['work']}/claim", f"{facts['work']}/beside"
    home = f"{facts['work']}/fresh-home"
    for made in (folder, beside, home):
        os.mkdir(made)
    _write(f"{folder}/go", "touch ../beside/it\nexit 0\n")
    _write(f"{folder}/it.script", 'call bash {"command": "sh ./go"}\n---\nsay Done.\n')
    os.chdir(folder)
    words = "run -y --stream-json -m demo:it.script go"
    said = [(os.POSIX_SPAWN_OPEN, fd, f"{home}/{fd}", os.O_WRONLY | os.O_CREAT, 0o600) for fd in (1, 2)]
    child = os.posix_spawn(
        facts["python"],
        [facts["python"], "-m", facts["module"], *words.split()],
        {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": facts["packages"]},
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), *said],
    )
    os.waitpid(child, 0)
    events = [json.loads(line) for line in _read(f"{home}/1").splitlines()]
    told = {event["eventType"]: event["event"]["payload"] for event in events if "event" in event}
    if "ToolResult" not in told:
        raise NotTried(_read(f"{home}/2").strip().rpartition("\n")[2] or "no session began")
    claimed = told["SessionCreated"].get("sandbox", "")
    held_by = told["ToolResult"].get("shown", {}).get("sandbox", "")
    if claimed != held_by:
        return f"{claimed} was claimed, and {held_by} held the command"
    got_out = os.path.exists(f"{beside}/it")
    return f"{claimed} was claimed, and held nothing" if got_out and claimed != "env-only" else None


# What the attempts are made of


def _make_repository(path: str, facts: ProbeFacts, more: str = "") -> None:
    """One that makes git run the canary when somebody only looks."""
    if not facts["git"]:
        raise NotTried("git is not installed")
    for name in ("objects", "refs/heads"):
        os.makedirs(f"{path}/{name}", exist_ok=True)
    _write(f"{path}/HEAD", "ref: refs/heads/main\n")
    _write(
        f"{path}/config", f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {facts['canary']}\n{more}"
    )


def _be_seen(facts: ProbeFacts) -> None:
    """Holds on to what was planted until somebody outside has looked."""
    _write(facts["planted"])
    for _ in range(int(_HELD_S / _LOOK_S)):
        if os.path.exists(facts["looked"]):
            return
        select.select([], [], [], _LOOK_S)


def _write(path: str, text: str = "probe\n") -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _append(path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("# probe\n")


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(64 * 1024).decode("latin-1")


def _planted(text: str, facts: ProbeFacts) -> str | None:
    """The value of the variable that the prober planted; nothing else of what was read is kept."""
    _, found, rest = text.partition(f"{facts['variable']}=")
    return rest.partition("\0")[0] if found else None


def _processes() -> Iterator[str]:
    """The numbers of all processes in sight, the first and those around us included, and not our own."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            yield name


def _connect(family: int, address: str | tuple[str, int]) -> None:
    if isinstance(address, str) and address.startswith("/"):
        os.chdir(os.path.dirname(address))  # the name of a socket has room for 107 characters
        address = os.path.basename(address)
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.settimeout(2)
        door.connect(address)


def _ask(*lines: str, answers: int = 1) -> str:
    """Says this to the proxy. Raises where it does not answer as often with success."""
    host, _, port = os.environ.get("HTTPS_PROXY", "").removeprefix("http://").partition(":")
    if not port:
        raise NotTried("there is no proxy")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=5) as proxy:
        proxy.sendall("\r\n".join((*lines, "", "")).encode())
        while data := proxy.recv(4096):
            answer += data
    if answer.count(b"HTTP/1.1 200") < answers:
        raise OSError(errno.EACCES, answer.partition(b"\r\n")[0].decode() or "it was not answered")
    return "it was passed on"


def _run(*argv: str) -> None:
    child = os.posix_spawn(argv[0], argv, os.environ)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(errno.EIO, f"{os.path.basename(argv[0])} ended with {status}")


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise NotHere("only Linux has it")
    return ctypes.CDLL(None, use_errno=True)


def _number(call: str) -> int:
    machines = ("x86_64", "aarch64")
    if platform.machine() not in machines:
        raise NotTried(f"not known how to try it on {platform.machine()}")
    return _NUMBERS[call][machines.index(platform.machine())]


def _failed() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _taken(result: int) -> str:
    """The kernel took the call, whatever it made of it. Raises where it was refused."""
    if result < 0 and ctypes.get_errno() in _REFUSALS:
        raise _failed()
    return "the kernel took it"


def main(name: str, facts: ProbeFacts) -> dict[str, str | None]:
    try:
        attempt: Attempt = globals()[name]
        return {"got": attempt(facts)}
    except NotHere as reason:
        return {"not_here": str(reason)}
    except NotTried as reason:
        return {"untried": str(reason)}
    except OSError as error:
        return {"refused": error.strerror or str(error)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
