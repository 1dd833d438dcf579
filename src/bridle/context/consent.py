"""Consent to instruction files: asked once per content, never assumed.

A person's own global file needs none. Any other is used when its very bytes were approved before, or when a person
says so now. Where nobody can answer it is left out, and that is said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from bridle.base.visible import hidden_characters, visible
from bridle.context.sources import InstructionFile
from bridle.protocol.events import Notice

USE, NOT_NOW = "use it", "not now"
SHOWN_LINES = 400

Ask: TypeAlias = Callable[[str, str, tuple[str, ...]], Awaitable[str | None]]


class Consent:
    """Decides which instruction files may be used in a session.

    `is_approved` and `approve` reach what the person approved before; `ask` puts a question and gives None when
    nobody can answer; `notice` records what was left out.
    """

    def __init__(
        self,
        *,
        is_approved: Callable[[str], bool],
        approve: Callable[[str, str], None],
        ask: Ask,
        notice: Callable[[Notice], object],
    ) -> None:
        self._is_approved = is_approved
        self._approve = approve
        self._ask = ask
        self._notice = notice

    async def usable(self, files: Sequence[InstructionFile]) -> list[InstructionFile]:
        return [file for file in files if await self._may_use(file)]

    async def _may_use(self, file: InstructionFile) -> bool:
        if file.scope == "global" or self._is_approved(file.sha256):
            return True
        answer = await self._ask(f"trust-{file.sha256[:16]}", question(file), (USE, NOT_NOW))
        if answer == USE:
            self._approve(file.path, file.sha256)
            return True
        if answer is None:
            self._notice(
                Notice(
                    reason="NotTrusted",
                    message=f"{file.shown} is not trusted here and was not used.",
                    data={"path": file.shown, "sha256": file.sha256},
                )
            )
        return False


def question(file: InstructionFile) -> str:
    """What the person is asked: who wants what, the whole text with its line numbers, and what hides in it."""
    lines = visible(file.text).splitlines()
    count = f"{len(lines)} line" + ("" if len(lines) == 1 else "s")
    shown = [f"{number:5}  {line}" for number, line in enumerate(lines[:SHOWN_LINES], 1)]
    if len(lines) > SHOWN_LINES:
        shown.append(f"    …  {len(lines) - SHOWN_LINES} more lines; read the file before you say yes")
    hidden = sorted({line for line, _ in hidden_characters(file.text)})
    if hidden:
        where = ", ".join(map(str, hidden[:10]))
        shown.append(f"! line {where} has hidden characters (shown as ⟨U+…⟩)")
    head = f"{file.shown} wants to tell the model how to work here. It is new to you.  {count}"
    return "\n".join((head, *shown))
