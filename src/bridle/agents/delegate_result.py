"""What whoever sent an agent gets back: its answer within a budget, and where the rest is. Pure.

The last line is ours and says who answered, what it did and how the whole can be read. Earlier results become lines of
a ledger, which have their place to read the whole from that line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridle.base.phrases import counted, one_line
from bridle.base.token_estimate import CHARACTERS_PER_TOKEN
from bridle.protocol.events import ChildEnded

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
