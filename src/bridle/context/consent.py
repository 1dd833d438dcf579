"""Consent to instruction files: asked once per content, never assumed.

A person's own global file needs none. Any other is used when its very bytes were approved before, or when a person
says so now. Where nobody can answer it is left out, and that is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from bridle.context.instruction_files import InstructionFile
from bridle.engine.ports import AskPerson
from bridle.protocol.events import Notice
from bridle.protocol.questions import TrustAnswer, TrustQuestion

AT_A_DESK = "To use it: bridle trust ack"
IN_CI = "To use it: commit approved.lock (bridle trust ack --emit-lockfile) and name it with --lockfile FILE"
"""What to do about a file nobody agreed to: where a person could, and where none ever sits."""


def agreed_and_waiting(
    files: Sequence[InstructionFile], is_approved: Callable[[InstructionFile], bool]
) -> tuple[list[InstructionFile], list[InstructionFile]]:
    """The instruction files that are used without a question, and those that wait for a person's word."""
    used = [file for file in files if not file.problem and (file.scope == "global" or is_approved(file))]
    return used, [file for file in files if file not in used]


class TrustPort(msgspec.Struct, frozen=True, kw_only=True):
    """What the person approved before, and what they are asked about a file they did not."""

    is_approved: Callable[[InstructionFile], bool]
    approve: Callable[[InstructionFile], None]
    question: Callable[[InstructionFile], TrustQuestion]
    approved_ms: Callable[[InstructionFile], int | None]


class Consent:
    """Decides which instruction files may be used in a session. What a person refused there is not asked again.

    `ask` puts a question and gives None when nobody can answer; `notice` records what was left out, and `how` says
    what would let it in.
    """

    def __init__(
        self, trust: TrustPort, *, ask: AskPerson, notice: Callable[[Notice], object], how: str = AT_A_DESK
    ) -> None:
        self._trust = trust
        self._ask = ask
        self._notice = notice
        self._how = how
        self._refused: set[tuple[str, str]] = set()

    async def usable(
        self,
        files: Iterable[InstructionFile],
        brings: Callable[[InstructionFile], Iterable[InstructionFile]] = lambda _file: (),
    ) -> list[InstructionFile]:
        """Those of the files that may be used, each followed by what it `brings` along, which is asked about too."""
        used: list[InstructionFile] = []
        for file in files:
            if await self.may_use(file):
                used += (file, *await self.usable(brings(file), brings))
        return used

    async def may_use(self, file: InstructionFile) -> bool:
        if (file.path, file.sha256) in self._refused:
            return False
        if file.problem:
            self._leave_out(file, f"{file.shown} {file.problem} and was not used.")
            return False
        if file.scope == "global" or self._trust.is_approved(file):
            return True
        answer = await self.answer(file, self._trust.question(file))
        if answer is None:
            self._leave_out(file, f"{file.shown} is not trusted here and was not used. {self._how}")
        return bool(answer)

    async def answer(self, file: InstructionFile, question: TrustQuestion) -> bool | None:
        """What a person says to this question about the file; None where nobody can. A yes is remembered."""
        answer = await self._ask(f"trust-{file.sha256[:16]}", question)
        if not isinstance(answer, TrustAnswer):
            return None
        if answer.use:
            self._trust.approve(file)
        else:
            self._refused.add((file.path, file.sha256))
        return answer.use

    def _leave_out(self, file: InstructionFile, message: str) -> None:
        self._refused.add((file.path, file.sha256))
        data = {"path": file.shown, "sha256": file.sha256}
        self._notice(Notice(reason="NotTrusted", message=message, data=data))
