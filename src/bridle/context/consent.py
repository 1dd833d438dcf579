"""Consent to instruction files: asked once per content, never assumed.

A person's own global file needs none. Any other is used when its very bytes were approved before, or when a person
says so now. Where nobody can answer it is left out, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bridle.context.instruction_files import InstructionFile
from bridle.engine.ports import AskPerson
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.protocol.questions import TrustQuestion

AT_A_DESK = "To use it: bridle trust ack"
IN_CI = "To use it: commit approved.lock (bridle trust ack --emit-lockfile) and name it with --lockfile FILE"
"""What to do about a file nobody agreed to: where a person could, and where none ever sits."""


def agreed_and_waiting(
    files: Sequence[InstructionFile], is_approved: Callable[[InstructionFile], bool]
) -> tuple[list[InstructionFile], list[InstructionFile]]:
    """The instruction files that are used without a question, and those that wait for a person's word."""
    used = [file for file in files if not file.outside and (file.scope == "global" or is_approved(file))]
    return used, [file for file in files if file not in used]


class Consent:
    """Decides which instruction files may be used in a session.

    `is_approved` and `approve` reach what the person approved before; `question` is what is asked; `ask` puts it and
    gives None when nobody can answer; `notice` records what was left out, and `how` says what would let it in.
    """

    def __init__(
        self,
        *,
        is_approved: Callable[[str], bool],
        approve: Callable[[str, str], None],
        ask: AskPerson,
        notice: Callable[[Notice], object],
        question: Callable[[InstructionFile], TrustQuestion],
        how: str = AT_A_DESK,
    ) -> None:
        self._how = how
        self._is_approved = is_approved
        self._approve = approve
        self._ask = ask
        self._notice = notice
        self._question = question

    async def usable(self, files: Sequence[InstructionFile]) -> list[InstructionFile]:
        return [file for file in files if await self._may_use(file)]

    async def _may_use(self, file: InstructionFile) -> bool:
        if file.outside:
            self._leave_out(file, f"{file.shown} is a link that leads out of this project and was not used.")
            return False
        if file.scope == "global" or self._is_approved(file.sha256):
            return True
        from bridle.protocol.questions import TrustAnswer  # not before something is to be asked

        answer = await self._ask(f"trust-{file.sha256[:16]}", self._question(file))
        if isinstance(answer, TrustAnswer) and answer.use:
            self._approve(file.path, file.sha256)
            return True
        if answer is None:
            self._leave_out(file, f"{file.shown} is not trusted here and was not used. {self._how}")
        return False

    def _leave_out(self, file: InstructionFile, message: str) -> None:
        data = {"path": file.shown, "sha256": file.sha256}
        self._notice(Notice(reason="NotTrusted", message=message, data=data))
