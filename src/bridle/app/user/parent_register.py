"""The register of programs that may use Bridle as a tool.

A program is known by how it is called and by what is in its file: one that was replaced is another one, and waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.files import FileLock, private_folder, read_trusted, write_atomic
from bridle.base.process.peer_process import ParentProgram
from bridle.protocol.errors import CommandRefused

_LIMIT = 1024 * 1024
_LOCK_WAIT_S = 5.0
MOST_WAITING = 50
"""Of those nobody answered; the oldest goes."""


class KnownParent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that asked, and what a person said. With `auto_attach` they want to see its sessions at once."""

    id: str
    program: ParentProgram
    state: Literal["waiting", "allowed"] = "waiting"
    since_ms: int
    auto_attach: bool = False


class _Register(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    parents: tuple[KnownParent, ...] = ()


class ParentRegister:
    """The file. What another process wrote is seen with the next question."""

    def __init__(self, config: str, clock: Clock) -> None:
        self.path = os.path.join(config, "mcp-parents.lock")
        self._clock = clock

    def parents(self) -> tuple[KnownParent, ...]:
        """Every program there is, the newest last. Raises `ParentsUnusable`."""
        return self._read().parents

    def find(self, beginning: str) -> KnownParent:
        """The one whose id begins so. Raises `UnknownParent`."""
        fitting = [one for one in self.parents() if beginning and one.id.startswith(beginning)]
        if len(fitting) != 1:
            raise CommandRefused("UnknownParent", id=beginning)
        return fitting[0]

    def ask(self, program: ParentProgram) -> KnownParent:
        """What is known of a program; one that nobody knows waits from now on."""
        known = next((one for one in self.parents() if one.id == program.id), None)
        if known is not None and known.state == "allowed":
            return known
        asked = KnownParent(id=program.id, program=program, since_ms=self._clock.now_ms())

        def added(kept: tuple[KnownParent, ...]) -> tuple[KnownParent, ...]:
            rest = [one for one in kept if one.id != program.id]
            waiting = [one for one in rest if one.state == "waiting"]
            gone = {one.id for one in waiting[: max(0, len(waiting) - MOST_WAITING + 1)]}
            return (*(one for one in rest if one.id not in gone), asked)

        self._change(added)
        return asked

    def allow(self, parent: KnownParent, *, auto_attach: bool) -> None:
        allowed = msgspec.structs.replace(
            parent, state="allowed", auto_attach=auto_attach, since_ms=self._clock.now_ms()
        )
        self._change(lambda kept: (*(one for one in kept if one.id != parent.id), allowed))

    def forget(self, parent: KnownParent) -> None:
        """It has to ask again."""
        self._change(lambda kept: tuple(one for one in kept if one.id != parent.id))

    def _read(self) -> _Register:
        try:
            return msgspec.json.decode(read_trusted(self.path, _LIMIT).data, type=_Register)
        except FileNotFoundError:
            return _Register()
        except (OSError, ValueError) as problem:
            raise self._unusable(problem) from None

    def _change(self, change: Callable[[tuple[KnownParent, ...]], tuple[KnownParent, ...]]) -> None:
        try:
            private_folder(os.path.dirname(self.path))
            lock = FileLock(f"{self.path}.lock")
            if not lock.acquire(timeout_s=_LOCK_WAIT_S):
                raise OSError("another Bridle keeps it locked")
            with lock:
                kept = self._read()
                changed = msgspec.structs.replace(kept, parents=change(kept.parents))
                write_atomic(self.path, msgspec.json.format(msgspec.json.encode(changed), indent=2) + b"\n")
        except OSError as problem:
            raise self._unusable(problem) from None

    def _unusable(self, problem: Exception) -> CommandRefused:
        why = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
        return CommandRefused("ParentsUnusable", path=self.path, problem=why)
