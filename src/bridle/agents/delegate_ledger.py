"""Earlier results of agents fold into a ledger: a line each, within a budget, while the last ones stay as they came.

It is an event like a compaction, so requests stay a pure function of the log. It happens only when more of them stand
there raw than the ledger itself may hold: in between, the beginning of every request stays the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridle.agents.agent_settings import DelegateResults
from bridle.agents.delegation import DELEGATE
from bridle.base.text.phrases import counted, one_line
from bridle.base.text.token_estimate import CHARACTERS_PER_TOKEN, estimated_tokens
from bridle.base.text.untrusted import unwrapped
from bridle.engine.conversation import COMPACTED, NO_EVENT, ledger_text
from bridle.engine.features import PlacedRequestLayer
from bridle.engine.journal import Journal
from bridle.engine.sizes import block_tokens, request_tokens
from bridle.engine.steps import AskModel, Reply, Step
from bridle.protocol.events import ChildEnded, Compacted
from bridle.protocol.messages import Message, ToolResultBlock, ToolUseBlock

# The last line is ours and says who answered, what it did and how the whole can be read. Earlier results
# become lines of a ledger, which have their place to read the whole from that line.


BRIEF_SHARE: Final = 4
"""A brief answer has this part of the room that one has."""
MOST_BYTES: Final = 30_000
"""No answer has more room: it passes whole where outputs are cut."""

_NAMED: Final = 5
_NAMED_CHARACTERS: Final = 200
_TASK_CHARACTERS: Final = 80
_ANSWER_CHARACTERS: Final = 200
_WHOLE: Final = "whole answer: "
_FACTS: Final = "agent "
_BETWEEN: Final = " · "


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where the whole of an answer is kept: a path that `read_file` opens, or why it is nowhere."""

    path: str = ""
    problem: str = ""


class DelegateResult(msgspec.Struct, frozen=True):
    """The text for whoever sent the agent. `is_cut`: some of the answer is left out."""

    text: str
    is_cut: bool


def delegate_result(
    answer: str, ended: ChildEnded, kept: KeptAnswer, *, most_tokens: int, is_brief: bool = False
) -> DelegateResult:
    """As much of an answer as has room, and the line about it; together within `most_tokens`."""
    room = min((most_tokens - 1) * CHARACTERS_PER_TOKEN, MOST_BYTES)
    facts = _cut(_facts(ended, kept), room // 2)
    left = (room // BRIEF_SHARE if is_brief else room) - _size(facts) - 2
    if _size(answer) <= left:
        return DelegateResult(f"{answer}\n\n{facts}", is_cut=False)
    note = f"\n[… cut; {_where(kept)}]"
    begun = _cut(answer, left - _size(note))
    return DelegateResult(f"{begun}{note}\n\n{facts}" if begun else facts, is_cut=True)


def ledger_line(agent: str, task: str, text: str) -> str:
    """A result in one line: who was sent, where the answer can be read, for what, and how it begins."""
    answer, _, facts = text.rpartition("\n\n")
    if not facts.startswith(_FACTS):
        answer, facts = text, ""
    path = facts.partition(_WHOLE)[2].partition(_BETWEEN)[0]
    where = f" ({path})" if path else ""
    return f"- {agent}{where}, {one_line(task, _TASK_CHARACTERS)}: {one_line(answer, _ANSWER_CHARACTERS)}"


def _facts(ended: ChildEnded, kept: KeptAnswer) -> str:
    known = [path for path in ended.files if path not in ended.changed]
    parts = (
        f"{_WHOLE}{kept.path}" if kept.path else kept.problem,
        f"left on branch {ended.branch}; a person decides what becomes of it (/worktrees)"
        if ended.branch
        else "",
        counted(ended.steps, "step"),
        _named("used ", ended.tools_used),
        _named("changed ", ended.changed),
        _named("knew ", known),
    )
    return f"{_FACTS}{ended.agent}: {_BETWEEN.join(filter(None, parts))}"


def _named(lead: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{lead}{one_line(', '.join(names[:_NAMED]), _NAMED_CHARACTERS)}{more}"


def _where(kept: KeptAnswer) -> str:
    return f'read_file with path "{kept.path}" shows all of it' if kept.path else kept.problem


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _cut(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", "replace")[: max(0, most_bytes)].decode("utf-8", "ignore")


def names_of(paths: Iterable[str], cwd: str) -> tuple[str, ...]:
    """Paths as people and models read them: below the folder without it."""
    inside = cwd.rstrip("/") + "/"
    return tuple(path.removeprefix(inside) for path in paths)


SHORT_LINE: Final = 120
LEFT_OUT: Final = "- (what came before is left out)"


def delegate_ledger(journal: Journal, settings: DelegateResults) -> PlacedRequestLayer:
    """Keeps what agents came to short in the conversation of whoever sent them."""
    return PlacedRequestLayer("delegate_ledger", DelegateLedger(journal, settings).layer)


class RawResult(msgspec.Struct, frozen=True):
    """A result of an agent that stands in a conversation as it came, and the call it belongs to."""

    block: ToolResultBlock
    call: ToolUseBlock

    def line(self) -> str:
        agent, task = self.call.input.get("agent"), self.call.input.get("task")
        return ledger_line(str(agent), str(task), unwrapped("tool-result", self.block.text))


class DelegateLedger:
    def __init__(self, journal: Journal, settings: DelegateResults) -> None:
        self._journal = journal
        self._settings = settings
        self._read = (-1, 0)  # of which epoch, so many messages
        self._calls: dict[str, ToolUseBlock] = {}
        self._raw: list[RawResult] = []
        self._ledger: list[ToolResultBlock] = []

    async def layer(self, step: Step, proceed: AskModel) -> Reply:
        """Folds what is too much before the next request."""
        self._read_new()
        old = self._raw[: max(0, len(self._raw) - self._settings.kept_raw)]
        if sum(block_tokens(one.block) for one in old) > self._settings.ledger_tokens:
            self._journal.emit(self._fold(old))
        return await proceed(step)

    def _read_new(self) -> None:
        """Looks at the messages that came since the last request. Costs what is new."""
        conversation = self._journal.conversation
        epoch, count = self._read
        if epoch != conversation.epoch:
            self._calls, self._raw, self._ledger, count = {}, [], [], 0
        ledger = ledger_text(conversation.ledger) if conversation.ledger and not count else ""
        for message in conversation.messages[count:]:
            self._read_message(message, ledger)
        self._read = (conversation.epoch, len(conversation.messages))

    def _read_message(self, message: Message, ledger: str) -> None:
        for block in message.content:
            if isinstance(block, ToolUseBlock) and block.tool == DELEGATE:
                self._calls[block.wire_id] = block
            elif isinstance(block, ToolResultBlock) and block.wire_id in self._calls:
                call = self._calls.pop(block.wire_id)
                if block.text == ledger:
                    self._ledger.append(block)
                elif block.text != COMPACTED:
                    self._raw.append(RawResult(block, call))

    def _fold(self, old: Sequence[RawResult]) -> Compacted:
        conversation = self._journal.conversation
        lines = fitted_lines(
            (*conversation.ledger, *(one.line() for one in old)), self._settings.ledger_tokens
        )
        cleared = (*self._ledger, *(one.block for one in old))
        before = request_tokens(conversation)
        texts = (*(COMPACTED for _ in cleared[1:]), ledger_text(lines) if lines else COMPACTED)
        gone = sum(map(block_tokens, cleared)) - sum(estimated_tokens(len(text)) for text in texts)
        return Compacted(
            summary="",
            kept_from=NO_EVENT,
            cleared=tuple(block.wire_id for block in cleared),
            ledger=lines,
            tokens_before=before,
            tokens_after=before - gone,
            why="ledger",
        )


def fitted_lines(lines: Sequence[str], most_tokens: int) -> tuple[str, ...]:
    """The lines within a budget: shorter where not all have room, then without the oldest, and that is said."""
    if _tokens(lines) <= most_tokens:
        return tuple(lines)
    short = [one_line(line, SHORT_LINE) for line in lines if line != LEFT_OUT]
    kept = short if len(short) == len(lines) else [LEFT_OUT, *short]
    while kept and _tokens(kept) > most_tokens:
        short = short[1:]
        kept = [LEFT_OUT, *short] if short or len(kept) > 1 else []
    return tuple(kept)


def _tokens(lines: Sequence[str]) -> int:
    return estimated_tokens(len(ledger_text(lines)))
