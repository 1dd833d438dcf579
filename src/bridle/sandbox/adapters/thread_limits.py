"""Give up privileges in a thread before it starts a process.

Capabilities, the promise to gain no privileges, a Landlock domain and system call filters belong to a thread. A thread
that gives something up and then starts a process leaves our own process as it was: no second interpreter, no helper
program, nothing that runs between fork and exec.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from bridle.base.threads import start_thread

if TYPE_CHECKING:
    import subprocess  # noqa: TID251  the type of what is handed on

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION = 1
_LANDLOCK_BENEATH = 1
_PR_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITIES_VERSION = 0x20080522


def _nothing() -> None:
    pass


class HeldThread:
    """A thread that has given something up, starts one process, and stays its parent until it is told to end."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._asked: SimpleQueue[int | Callable[[], None]] = SimpleQueue()
        self._answers: SimpleQueue[subprocess.Popen[bytes] | BaseException | bool] = SimpleQueue()
        self._runs = False

    def __call__(self, starting: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Raises what giving up or starting raises; the thread is gone then."""
        start_thread(self._run, starting)
        started = self._answers.get()
        if isinstance(started, BaseException):
            raise started
        assert not isinstance(started, bool)
        self._runs = True
        return started

    def end(self, last: Callable[[], None] = _nothing) -> None:
        """Harmless when called again, and when nothing was started. The thread still does what is `last`; where it
        does not run, that is done here."""
        if self._runs:
            self._asked.put(last)
            self._runs = False
        else:
            last()

    def _run(self, starting: Callable[[], subprocess.Popen[bytes]]) -> None:
        try:
            self._give_up()
            self._answers.put(starting())
        except BaseException as error:  # noqa: BLE001  handed to whoever waits
            self._answers.put(error)
            return
        while isinstance(asked := self._asked.get(), int):
            self._answers.put(_may_signal(asked))
        asked()


class WitnessThread(HeldThread):
    """One that has given up to signal anybody but the processes of its making. So it knows which these are."""

    def claims(self, pid: int) -> bool:
        # Our own parent is certainly not of its making: if it could be signalled, nothing is held.
        return self._runs and not self._ask(os.getppid()) and self._ask(pid)

    def _ask(self, pid: int) -> bool:
        self._asked.put(pid)
        return self._answers.get() is True


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def gain_no_privileges() -> None:
    """From here on no program makes this thread more powerful than it is."""
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities() -> None:
    """Root becomes an ordinary owner of root's files. Does not last without `gain_no_privileges`."""
    _checked(_libc().capset(struct.pack("=Ii", _CAPABILITIES_VERSION, 0), bytes(24)))


def filter_system_calls(program: bytes) -> None:
    """Needs `gain_no_privileges` first."""
    import ctypes

    instructions = ctypes.create_string_buffer(program, len(program))
    _checked(_libc().prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, _with_length(program, instructions), 0, 0))


def _with_length(program: bytes, instructions: Any) -> bytes:
    import ctypes

    return struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))


def landlock_version() -> int:
    """What this kernel's Landlock can do; 0: nothing."""
    return max(0, _libc().syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION, 0))


def landlock_ruleset(*, files: int, ports: int, scopes: int) -> int:
    """The descriptor of a new set of rules; what it handles is refused until a rule allows it."""
    # An older kernel takes zeros for what it does not know.
    handled = struct.pack("=QQQ", files, ports, scopes)
    return _checked(_libc().syscall(_LANDLOCK_CREATE_RULESET, handled, len(handled), 0, 0))


def landlock_allow(ruleset: int, opened: int, rights: int) -> None:
    """Allows `rights` for what `opened` refers to, and everything below it."""
    rule = struct.pack("=Qi", rights, opened)
    _checked(_libc().syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_BENEATH, rule, 0))


def landlock_enter(ruleset: int) -> None:
    """Needs `gain_no_privileges` first."""
    _checked(_libc().syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0, 0))


@cache
def _libc() -> Any:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_void_p  # takes numbers, bytes and None, and is as wide as the kernel expects
    libc.prctl.argtypes = [ctypes.c_int, word, word, word, word]
    libc.syscall.argtypes = [ctypes.c_long, word, word, word, word]
    libc.syscall.restype = ctypes.c_long
    return libc


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
