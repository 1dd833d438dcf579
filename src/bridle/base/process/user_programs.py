"""Run programs that the user asked for: an editor in the terminal, a browser beside it.

They stay out of the groups that `processes` answers for: an editor's keys have to reach it, a browser outlives us.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from bridle.base.process.processes import cannot_start


async def run_in_foreground(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: int | None = None
) -> int:
    """Lets a program have our terminal until it ends; raises `CannotStart`.

    With `stdin` it reads that descriptor, and finds the terminal by itself as pagers do.
    Returns its exit code; 128 and the number of the signal that ended it, as a shell would. Ctrl-C and Ctrl-\\ are for
    the program alone meanwhile, SIGTERM is passed on to it, and the event loop goes on. Afterwards the terminal is as
    it was. Call it from the main thread; stop reading the terminal first.
    """
    if not argv:
        raise ValueError("argv needs at least the program")
    with _TerminalLent() as lent:
        program = _spawn_in_foreground(argv, cwd, env, stdin)
        lent.to(program)
        try:
            code = await asyncio.to_thread(program.wait)
        except asyncio.CancelledError:
            program.terminate()
            program.wait()
            raise
    return code if code >= 0 else 128 - code


async def read_output(
    argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, max_bytes: int
) -> tuple[int, bytes]:
    """Runs a program that a person asked for and reads what it prints: its exit code, and the bytes, one more than
    `max_bytes` at most. One that takes longer is ended. Raises `CannotStart`."""
    try:
        program = await asyncio.create_subprocess_exec(
            *argv,
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        raise cannot_start(argv[0], error, cwd="/") from error
    assert program.stdout is not None
    data = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while len(data) <= max_bytes and (more := await program.stdout.read(max_bytes + 1 - len(data))):
                data += more
            if len(data) <= max_bytes:
                return await program.wait(), bytes(data)
    except TimeoutError:
        pass
    finally:
        if program.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            await program.wait()
    return (0, bytes(data)) if len(data) > max_bytes else (1, b"")


class _TerminalLent:
    """Our terminal while somebody else has it: its state is kept, and what it sends to us is not for us."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._terminated = False
        self._modes: dict[int, list[Any]] = {}
        self._blocking: dict[int, bool] = {}
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "_TerminalLent":
        for fd in (0, 1, 2):
            with contextlib.suppress(OSError, termios.error):  # closed, or no terminal
                self._modes[fd] = termios.tcgetattr(fd)
                self._blocking[fd] = os.get_blocking(fd)
        for fd in self._blocking:
            os.set_blocking(fd, True)  # the program shares it with us and expects to wait
        # Handlers that do nothing: what is ignored would stay so in the program.
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for fd, modes in self._modes.items():
            with contextlib.suppress(OSError, termios.error):  # it has gone meanwhile
                termios.tcsetattr(fd, termios.TCSADRAIN, modes)
                os.set_blocking(fd, self._blocking[fd])

    def to(self, program: "subprocess.Popen[bytes]") -> None:
        """This program has it now; a termination that came while it was being started is for it too."""
        self._program = program
        if self._terminated:
            program.terminate()

    def _take(self, number: int, _frame: object) -> None:
        if number != signal.SIGTERM:  # the terminal sent it to the program as well
            return
        self._terminated = True
        if self._program is not None:
            self._program.terminate()


def _spawn_in_foreground(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: int | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdin)
    except (OSError, ValueError) as error:
        raise cannot_start(argv[0], error, cwd=cwd) from error


def start_detached(argv: Sequence[str], *, env: Mapping[str, str]) -> None:
    """Start a program that a person asked for and that is theirs from then on, such as a browser; raises `CannotStart`.

    It gets nothing of ours but `env`: no terminal, no folder, no pipe. Nobody waits for it.
    """
    devnull = subprocess.DEVNULL
    try:
        program = subprocess.Popen(
            argv, cwd="/", env=env, stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise cannot_start(argv[0], error, cwd="/") from error
    threading.Thread(target=program.wait, daemon=True).start()  # nothing of it stays behind when it ends
