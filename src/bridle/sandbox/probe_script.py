"""The checks of `bridle sandbox probe` that run inside the sandbox: `python -I -S THIS FACTS NAME…`.

A check attacks only what the probe made. It returns the text it got hold of, or nothing. An `OSError` is a
refusal. Each check prints one JSON line: its name, its outcome and a text.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

Facts: TypeAlias = Mapping[str, str]
Attempt: TypeAlias = Callable[[Facts], "str | None"]

HELD_S = 5.0
"""How long a process that got away stays alive."""
_PTRACE_SEIZE = 0x4206


class NotHere(Exception):
    """The machine lacks the thing to attack."""


def work_with_git(facts: Facts) -> None:
    if not os.access(facts["git"], os.X_OK):
        raise NotHere("git is not installed")
    write(f"{facts['work']}/committed")
    identity = ("-c", "user.name=probe", "-c", "user.email=probe@localhost")
    for words in (("add", "committed"), (*identity, "commit", "-q", "-m", "probe")):
        child = os.posix_spawn(facts["git"], ["git", "-C", facts["work"], *words], os.environ)
        if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise OSError(errno.EIO, f"git ended with {status}")


def find_variable(facts: Facts) -> str | None:
    """Look for the planted variable in all visible processes."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError):
            _, found, rest = read(f"/proc/{name}/environ").partition(f"{facts['variable']}=")
            if found:
                return rest.partition("\0")[0]
    return os.environ.get(facts["variable"])


def trace_process(facts: Facts) -> str:
    if sys.platform != "linux":
        raise NotHere("only Linux has it")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(_PTRACE_SEIZE, int(facts["process"]), None, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "it could be traced"


def outlive_session(facts: Facts) -> None:
    """Leave a process behind that holds a pipe open. The pipe shows how long the process lives."""
    ready, begun = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(os.open(facts["life"], os.O_WRONLY | os.O_NONBLOCK), 0)
            os.write(begun, b"x")
            os.closerange(1, 256)
            select.select([], [], [], HELD_S)
        os._exit(0)
    os.close(begun)
    if not os.read(ready, 1):
        raise OSError(errno.EPERM, "no process could be left behind")


ATTEMPTS: Mapping[str, Attempt] = {
    "work_in_workspace": lambda facts: write(f"{facts['work']}/file"),
    "work_with_git": work_with_git,
    "write_outside": lambda facts: write(f"{facts['outside']}/new"),
    "change_git_hooks": lambda facts: write(f"{facts['work']}/.git/hooks/pre-commit"),
    "change_git_config": lambda facts: write(f"{facts['work']}/.git/config", mode="a"),
    "change_instructions": lambda facts: write(f"{facts['work']}/AGENTS.md", mode="a"),
    "read_key": lambda facts: read(f"{facts['home']}/.ssh/id_probe"),
    "read_own_state": lambda facts: read(f"{facts['state']}/sessions.key"),
    "read_engine_token": lambda facts: read(f"{facts['runtime']}/token"),
    "read_environment": find_variable,
    "reach_local_server": lambda facts: connect(socket.AF_INET, ("127.0.0.1", int(facts["port"]))),
    "reach_agent_socket": lambda facts: connect(socket.AF_UNIX, facts["socket"]),
    "trace_process": trace_process,
    "signal_process": lambda facts: os.kill(int(facts["process"]), signal.SIGTERM),
    "reach_metadata": lambda _facts: ask_proxy("GET http://169.254.169.254/latest/meta-data/ HTTP/1.1"),
    "outlive_session": outlive_session,
}


def write(path: str, text: str = "# probe\n", *, mode: str = "w") -> None:
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)


def read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(64 * 1024).decode("latin-1")


def connect(family: int, address: str | tuple[str, int]) -> None:
    if isinstance(address, str) and address.startswith("/"):
        os.chdir(os.path.dirname(address))  # a socket address has at most 107 characters
        address = os.path.basename(address)
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.settimeout(2)
        door.connect(address)


def ask_proxy(request: str) -> str:
    """Send a request to the network proxy. Raise `OSError` if the proxy refuses to reach the host."""
    host, _, port = os.environ["HTTPS_PROXY"].removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as proxy:
        proxy.sendall(f"{request}\r\n\r\n".encode())
        status = proxy.recv(4096).partition(b"\r\n")[0].decode()
    if not status or status.startswith("HTTP/1.1 403"):
        raise OSError(errno.EACCES, status or "it was not answered")
    return f"it was passed on: {status}"


def run_attempt(attempt: Attempt, facts: Facts) -> tuple[str, str]:
    """Return the outcome of an attempt and a text."""
    try:
        return "got", attempt(facts) or ""
    except NotHere as reason:
        return "not here", str(reason)
    except OSError as error:
        return "refused", error.strerror or str(error)


def main(attempts: Mapping[str, Attempt]) -> None:
    facts = json.loads(sys.argv[1])
    for name in sys.argv[2:]:
        print(json.dumps([name, *run_attempt(attempts[name], facts)]), flush=True)  # noqa: T201  its answer


if __name__ == "__main__":
    main(ATTEMPTS)
