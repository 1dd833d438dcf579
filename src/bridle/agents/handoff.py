"""What a child is told: the task and what belongs to it, within a budget, and never the conversation it comes from.

Pure. Ids are for the log: a child reads names, paths and words.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridle.agents.child_memory import memory_text, memory_within
from bridle.base.text.token_estimate import CHARACTERS_PER_TOKEN, estimated_tokens
from bridle.protocol.events import ChildMemory

CUT = " […]"
_NOTES = (
    "When you are done, answer whoever sent you: what it comes to, briefly, with files and lines. Lines that begin "
    "with Finding:, Decision: or Question: are remembered should you be sent again."
)


_TASK, _REQUEST, _CONTEXT = "Task:", "What the person asked for:", "Context:"
_CONSTRAINTS, _FILES, _REFERENCES = "Keep to this:", "Files that matter:", "Where to read more:"
_EXPECTED = "What is expected:"
_HEADS = frozenset(
    head.casefold() for head in (_TASK, _REQUEST, _CONTEXT, _CONSTRAINTS, _FILES, _REFERENCES, _EXPECTED)
)


class HandoffPacket(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent hands over to another."""

    request: str
    parent: str
    child: str
    cwd: str
    task: str
    context: str = ""
    references: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    expected: str = ""
    memory: ChildMemory = ChildMemory()
    is_brief: bool = False
    has_worktree: bool = False


def handoff_text(packet: HandoffPacket, *, most_tokens: int, context_tokens: int) -> str:
    """The packet as a child reads it. The task always stands whole; of the rest the least needed gives way first."""
    context = cut_to(packet.context, context_tokens)
    parts = [
        ("task", f"You are the agent {packet.child}, {_sent(packet)}\n\n{_TASK}\n{_written(packet.task)}"),
        ("request", f"{_REQUEST}\n{packet.request}" if packet.request else ""),
        ("context", f"{_CONTEXT}\n{_written(context)}" if context else ""),
        ("constraints", _listed(_CONSTRAINTS, packet.constraints)),
        ("files", _listed(_FILES, packet.files)),
        ("references", _listed(_REFERENCES, packet.references)),
        ("memory", memory_text(packet.memory)),
        ("expected", f"{_EXPECTED}\n{_written(packet.expected)}" if packet.expected else ""),
        ("notes", "Answer in a few sentences. " * packet.is_brief + _NOTES),
    ]
    texts = {name: text for name, text in parts if text}
    for name in ("memory", "references", "request", "context", "files", "constraints", "expected"):
        over = estimated_tokens(sum(len(text) + 2 for text in texts.values())) - most_tokens
        if over <= 0:
            break
        if name == "memory" and name in texts:
            texts[name] = memory_within(packet.memory, estimated_tokens(len(texts[name])) - over - 1)
        elif name in texts:
            room = len(texts[name]) - over * CHARACTERS_PER_TOKEN - len(CUT)
            texts[name] = f"{texts[name][:room]}{CUT}" if room > 0 else ""
    return "\n\n".join(filter(None, texts.values()))


def _sent(packet: HandoffPacket) -> str:
    if not packet.has_worktree:
        return f"sent by {packet.parent} in {packet.cwd}."
    return (
        f"sent by {packet.parent}. You work in a git worktree of your own with what was committed last; other agents "
        "may work in theirs. Name files relative to it. Do not commit: what you leave is committed when you end."
    )


def cut_to(text: str, most_tokens: int) -> str:
    """As much of the beginning of a text as so many tokens are estimated to hold."""
    most = (most_tokens - 1) * CHARACTERS_PER_TOKEN
    return text if len(text) <= most else f"{text[: max(0, most - len(CUT))]}{CUT}"


def _listed(head: str, items: Sequence[str]) -> str:
    return "\n".join((head, *(f"- {' '.join(item.split())}" for item in items))) if items else ""


def _written(text: str) -> str:
    """What the sender wrote. A line of it that looks like one of our headings is quoted: what the person asked for is
    theirs to say."""
    return "\n".join(f"> {line}" if _is_head(line) else line for line in text.split("\n"))


def _is_head(line: str) -> bool:
    seen = "".join(filter(str.isprintable, line)).strip(" #*_`").casefold()
    return seen in _HEADS
