"""A fork server for `bridle`: it imports everything once, and each command is a fork of it.

It reads orders from the socket on its stdin. `{"argv", "cwd", "env", "terminal"}` with three file descriptors starts a
command and is answered with its pid. `{"wait": pid}` is answered with the exit code of one that has ended.
"""

import atexit
import importlib
import io
import json
import os
import pkgutil
import socket
import sys
import threading
from typing import Any

NOT_IMPORTED = ("bridle.__main__", "bridle.conformance")
"""Modules that run something when imported, or that no command of a user needs."""
MAX_ORDER_BYTES = 1 << 20


def main() -> None:
    del sys.path[0]  # the folder of the tests, which no program has
    sys.dont_write_bytecode = False
    import_everything()
    with socket.socket(fileno=os.dup(0)) as orders:
        while take_order(orders):
            pass


def take_order(orders: socket.socket) -> bool:
    """Carry out one order; False when there will be no more."""
    data, fds, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, 3)
    if data:
        order = json.loads(data)
        if "wait" in order:
            code = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
            orders.send(str(code).encode())
        elif (pid := os.fork()) == 0:
            orders.close()
            run(order, fds)
        else:
            orders.send(str(pid).encode())
            for fd in fds:
                os.close(fd)
    return bool(data)


def import_everything() -> None:
    import bridle

    for module in pkgutil.walk_packages(bridle.__path__, "bridle."):
        if not module.name.startswith(NOT_IMPORTED):
            importlib.import_module(module.name)
    for name in (
        "uvicorn.protocols.http.httptools_impl",
        "uvicorn.protocols.websockets.websockets_sansio_impl",
    ):
        importlib.import_module(name)


def run(order: dict[str, Any], fds: list[int]) -> None:
    """Become the command: its streams, folder, environment and arguments. Never returns."""
    import fcntl
    import termios

    from bridle.cli import main as bridle

    if order["own_session"]:
        os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    os.closerange(3, 256)
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.stdin = _stream(0, "r", "surrogateescape")
    sys.stdout = _stream(1, "w", "surrogateescape")
    sys.stderr = _stream(2, "w", "backslashreplace", line_buffering=True)
    sys.argv = ["bridle", *order["argv"]]
    sys.path.insert(0, order["cwd"])  # as for `python -m bridle`
    code: object = 1
    try:
        bridle()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001  as Python does it
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _stream(fd: int, mode: str, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """Return a standard stream as Python opens it in the locale of the tests."""
    raw = io.FileIO(fd, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered, "utf-8", errors, line_buffering=line_buffering or (mode == "w" and raw.isatty())
    )


main()
