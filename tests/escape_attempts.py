"""Attempts to get out of a sandbox, beyond those of `bridle sandbox probe`.

Runs inside: `python -I -S THIS FACTS NAME…`.

Every attempt is aimed at what the test made, or opens something and closes it again. Without a sandbox, nothing of the
machine is changed. Keep it so.
"""

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
import sys
import threading

if __name__ == "__main__":
    sys.path.insert(0, json.loads(sys.argv[1])["source"])

from bridle.sandbox.probe_script import NotHere, connect, main, read, run_attempt, write

NEW_USER_NAMESPACE, NEW_MOUNTS, MOUNT_PRIVATE, MOUNT_DETACH = 0x10000000, 0x00020000, 0x00044000, 2
AF_VSOCK = 40
NUMBERS = {  # x86_64, aarch64
    "clone": (56, 220),
    "pivot_root": (155, 41),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
}


def libc():
    return ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """Return the result of a system call."""
    machines = ("x86_64", "aarch64")
    if platform.machine() not in machines:
        raise NotHere(f"unknown numbers on {platform.machine()}")
    return libc().syscall(NUMBERS[name][machines.index(platform.machine())], *arguments)


def taken_call(name, *arguments):
    return taken(call(name, *arguments))


def make_user_namespace(_facts):
    if libc().unshare(NEW_USER_NAMESPACE) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "a user namespace could be made"


def taken(result):
    """The kernel took the call, whatever it made of it. Raise where the kernel or a filter refused it."""
    if result < 0 and ctypes.get_errno() in {errno.EPERM, errno.EACCES, errno.ENOSYS}:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "the kernel took it"


def link_then(name, target, then):
    """Try a symbolic link and a hard link: `then` gets the path."""

    def attempt(facts):
        path = f"{facts['work']}/{name}"
        (os.symlink if name.startswith("sym") else os.link)(target(facts), path)
        return then(path)

    return attempt


def through_processes(then):
    """Try the root folder of every visible process."""

    def attempt(facts):
        refused = OSError(errno.EACCES, "refused")
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    return then(facts, f"/proc/{name}/root")
                except OSError as error:
                    refused = error
        raise refused

    return attempt


def replace(name):
    def attempt(facts):
        write(f"{facts['work']}/new-file")
        os.rename(f"{facts['work']}/new-file", f"{facts['work']}/{name}")

    return attempt


def replace_folder(name):
    def attempt(facts):
        path = f"{facts['work']}/{name}"
        os.rename(path, f"{path}-old")
        os.mkdir(path)
        write(f"{path}/pre-commit")

    return attempt


def make(name, text="probe\n"):
    def attempt(facts):
        path = f"{facts['work']}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, text)

    return attempt


def swap_link(facts):
    """Write into a folder that becomes a link to outside and back."""
    place, kept = f"{facts['work']}/swapped", f"{facts['work']}/swapped-kept"
    os.mkdir(place)
    over = threading.Event()

    def swap():
        while not over.is_set():
            os.rename(place, kept)
            os.symlink(facts["outside"], place)
            os.unlink(place)
            os.rename(kept, place)

    swapping = threading.Thread(target=swap)
    swapping.start()
    for _ in range(300):
        try:
            write(f"{place}/raced")
        except OSError:
            continue
    over.set()
    swapping.join()
    os.rename(place, kept)
    os.symlink(facts["outside"], place)
    write(f"{place}/raced")


def read_descriptors(_facts):
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that listed them
            continue
        if int(name) > 2 and not target.startswith("pipe:"):
            found.append(f"{name} is {target}")
    return ", ".join(found)


def read_memory(facts):
    for line in read(f"/proc/{facts['process']}/maps").splitlines():
        if line.endswith("[stack]"):
            first, _, last = line.split()[0].partition("-")
            with open(f"/proc/{facts['process']}/mem", "rb", buffering=0) as memory:
                memory.seek(int(first, 16))
                return memory.read(int(last, 16) - int(first, 16)).decode("latin-1")
    raise OSError(errno.ENOENT, "no stack in sight")


def look_at_rights(_facts):
    lines = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
    held = [name for name in ("CapEff", "CapPrm", "CapInh", "CapAmb") if int(lines[name], 16)]
    return ", ".join([*held, *(["NoNewPrivs is 0"] if lines.get("NoNewPrivs") != "1" else [])])


def send_datagram(facts):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.sendto(b"probe", ("127.0.0.1", int(facts["udp_port"])))
    return "it was sent"


def make_socket(family, kind, protocol=0):
    def attempt(_facts):
        try:
            socket.socket(family, kind, protocol).close()
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:
                raise NotHere("this kernel has no such sockets") from None
            raise
        return "a socket could be made"

    return attempt


def clone_user_namespace(_facts):
    child = call("clone", NEW_USER_NAMESPACE | signal.SIGCHLD, None, None, None, None)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), "refused")
    os.waitpid(child, 0)
    return "a process could be started in a user namespace"


def use_bpf(_facts):
    attributes = ctypes.create_string_buffer(128)
    ctypes.memmove(attributes, (ctypes.c_uint32 * 4)(2, 4, 4, 1), 16)  # an array with one entry of 4 bytes
    return taken(call("bpf", 0, attributes, 128))


def mount_folder(facts):
    place = os.fsencode(f"{facts['work']}/mounted")
    os.mkdir(place)
    if libc().unshare(NEW_MOUNTS) == 0:  # then nobody else sees the mount
        libc().mount(None, b"/", None, MOUNT_PRIVATE, None)
    if libc().mount(b"none", place, b"tmpfs", 0, None) < 0:
        raise OSError(errno.EPERM, "refused")
    libc().umount2(place, MOUNT_DETACH)
    return "a file system could be mounted"


def open_disk(_facts):
    """Open a disk and read nothing of it."""
    for entry in os.scandir("/dev"):
        if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode):
            os.close(os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK))
            return f"{entry.path} could be opened"
    raise OSError(errno.ENOENT, "no disk in sight")


def open_kernel_settings(_facts):
    """Open them for writing and write nothing."""
    refused = OSError(errno.ENOENT, "there are none")
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            refused = error
        else:
            return f"{path} could be opened for writing"
    raise refused


def victim(facts):
    return f"{facts['outside']}/victim"


def key(facts):
    return f"{facts['home']}/.ssh/id_probe"


def append(path):
    write(path, mode="a")


FILES = {
    "change outside": lambda facts: append(victim(facts)),
    "write through a folder link": link_then(
        "sym-folder", lambda facts: facts["outside"], lambda path: write(f"{path}/n")
    ),
    "write through a file link": link_then("sym-file", victim, append),
    "write through a hard link": link_then("hard-file", victim, append),
    "write through a swapped link": swap_link,
    "write through processes": through_processes(lambda facts, root: write(f"{root}{facts['outside']}/proc")),
    "change a start-up file": lambda facts: append(f"{facts['home']}/.bashrc"),
    "change a cache of others": lambda facts: append(f"{facts['home']}/.cache/pip/wheel"),
    "make the folder of settings": lambda facts: os.makedirs(f"{facts['home']}/.config/bridle"),
    "write among temporary files": lambda facts: write(f"{facts['temporary']}/new"),
    "move out": lambda facts: os.rename(f"{facts['work']}/mine", f"{facts['outside']}/moved"),
    "delete outside": lambda facts: os.unlink(victim(facts)),
}
MODES = {"change the mode outside": lambda facts: os.chmod(facts["outside"], 0o711)}
GIT = {
    "replace .git/config": replace(".git/config"),
    "redirect git": make(".git/commondir", "../elsewhere\n"),
    "add settings of a worktree": make(".git/config.worktree", "[core]\n\tfsmonitor = x\n"),
    "replace AGENTS.md": replace("AGENTS.md"),
    "replace .git/hooks": replace_folder(".git/hooks"),
    "replace .git": replace_folder(".git"),
}
PLANTED = {
    name: make(f"{name}")
    for name in (".mcp.json", ".vscode/tasks.json", ".bridle/config.toml", "src/AGENTS.md", "src/.vscode/tasks.json",
                 ".claude/settings.json")
} | {"src/.git": make("src/.git/config", "[core]\n\tfsmonitor = x\n")}  # fmt: skip
"""May be made, where the sandbox cannot tell beforehand; they must be gone afterwards."""
SECRETS = {
    "read credentials": lambda facts: read(f"{facts['home']}/.aws/credentials"),
    "read a key through a link": link_then("sym-key", key, read),
    "read a key through a hard link": link_then("hard-key", key, read),
    "read a key through processes": through_processes(lambda facts, root: read(f"{root}{key(facts)}")),
    "read temporary files": lambda facts: read(f"{facts['temporary']}/secret"),
    "read shared memory": lambda facts: read(facts["shared"]),
}
PROCESSES = {"read the memory of a process": read_memory}
SOCKETS = {
    "reach a socket of the desktop": lambda facts: connect(socket.AF_UNIX, facts["desktop_socket"]),
    "reach the socket of an engine": lambda facts: connect(socket.AF_UNIX, facts["engine_socket"]),
}
NETWORK = {
    "reach any socket": lambda facts: connect(socket.AF_UNIX, facts["plain_socket"]),
    "reach an abstract socket": lambda facts: connect(socket.AF_UNIX, "\0" + facts["abstract_socket"]),
    "send a datagram": send_datagram,
    "make a VM socket": make_socket(AF_VSOCK, socket.SOCK_STREAM),
}
ABILITIES = {
    "use open files": read_descriptors,
    "open the terminal": lambda _facts: f"{os.open('/dev/tty', os.O_RDWR | os.O_NOCTTY)} is open",
}
POWERS = {
    "make a raw socket": make_socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "keep the rights of root": look_at_rights,
    "make a user namespace": make_user_namespace,
    "clone a user namespace": clone_user_namespace,
    "mount": mount_folder,
    "change the root": lambda facts: os.chroot(facts["work"]) or "changed",
    "pivot the root": lambda _facts: taken_call("pivot_root", b"/missing", b"/missing"),
    "make a device": lambda facts: os.mknod(f"{facts['work']}/null", 0o600 | stat.S_IFCHR, os.makedev(1, 3)) or "made",
    "open a disk": open_disk,
    "use io_uring": lambda _facts: taken_call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
    "use kernel keys": lambda _facts: taken_call("keyctl", 0, -3, 0),
    "use BPF": use_bpf,
    "open kernel settings": open_kernel_settings,
}  # fmt: skip
ATTEMPTS = FILES | MODES | SECRETS | PROCESSES | SOCKETS | NETWORK | ABILITIES | POWERS | PLANTED | GIT


def in_a_process(attempt):
    """Run an attempt in a child process: a system call filter may end it."""

    def attempted(facts):
        inlet, outlet = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(outlet, json.dumps(run_attempt(attempt, facts)).encode())
            os._exit(0)
        os.close(outlet)
        with open(inlet) as answer:
            said = answer.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        outcome, text = (
            json.loads(said) if said else ("refused" if code == -signal.SIGSYS else "failed", str(code))
        )
        if outcome == "refused":
            raise OSError(errno.EPERM, text)
        if outcome == "not here":
            raise NotHere(text)
        return text if outcome == "got" else f"failed with {text}"

    return attempted


if __name__ == "__main__":
    main({name: in_a_process(attempt) for name, attempt in ATTEMPTS.items()})
