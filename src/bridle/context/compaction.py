"""What of a conversation stays when it becomes too long, and what gives way to a summary. Pure.

The unit is a group: one message, or a call of the model with its results, which never part. The end stays as it is, as
much of it as there is room for; before it stay pinned words and what people asked for; the rest gives way. Before
anything gives way, the results of old calls do, where that is enough. Tokens are estimates throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

import msgspec

from bridle.engine.conversation import COMPACTED, NO_EVENT, Entry, compacted
from bridle.engine.sizes import block_tokens, messages_tokens
from bridle.protocol.events import Compacted, Stretch
from bridle.protocol.messages import ToolResultBlock, ToolUseBlock

RECENT_CALLS: Final = 5
"""So many of the last groups with calls keep their results while older ones are cleared."""
LARGE_RESULT: Final = 100
"""A result with fewer tokens is not worth clearing."""

Group: TypeAlias = tuple[Entry, ...]


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What the messages shall come to, in tokens.

    `tokens` is what they may have afterwards, the summary of `summary_tokens` included. At most the last
    `recent_turns` stay as they are, and at most `recent_messages` messages where that is set; then no earlier request
    stays for its own sake. `most_tokens` is what fits at all: where even the last group is larger, its own largest
    results give way.
    """

    tokens: int
    summary_tokens: int
    most_tokens: int
    recent_turns: int = 6
    recent_messages: int | None = None


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction will do. `dropped` and `kept` are the entries as they are now, in order."""

    kept_from: int
    also_kept: tuple[int, ...]
    cleared: tuple[str, ...]
    dropped: tuple[Entry, ...]
    kept: tuple[Entry, ...]

    @property
    def pins(self) -> int:
        return sum(entry.mark.source == "pin" for entry in self.kept)

    def event(self, entries: Sequence[Entry], summary: str) -> Compacted:
        """The event that carries it out, with what it comes to; the tokens are those of the messages alone."""
        made = Compacted(
            summary=summary,
            kept_from=self.kept_from,
            also_kept=self.also_kept,
            cleared=self.cleared,
            dropped=_stretch(self.dropped),
            kept=_stretch(self._tail()),
            pins=self.pins,
        )
        after = compacted(entries, made)
        return msgspec.structs.replace(
            made,
            tokens_before=tokens(entries),
            tokens_after=tokens(after),
            summary_tokens=tokens(entry for entry in after if entry.mark.source == "summary"),
        )

    def _tail(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.kept if entry.mark.event >= self.kept_from)


def tokens(entries: Iterable[Entry]) -> int:
    return messages_tokens(entry.message for entry in entries)


def grouped(entries: Sequence[Entry]) -> list[Group]:
    """The entries in order, each call with its results and with what came in together with them."""
    groups: list[Group] = []
    for entry in entries:
        if groups and _belongs(groups[-1], entry):
            groups[-1] = (*groups[-1], entry)
        else:
            groups.append((entry,))
    return groups


def plan_clearing(entries: Sequence[Entry], goal: Goal) -> CompactionPlan | None:
    """Clears the large results of all but the last calls; None where that is not enough."""
    with_calls = [group for group in grouped(entries) if any(map(_calls, group))]
    old = [entry for group in with_calls[:-RECENT_CALLS] for entry in group]
    cleared = tuple(block.wire_id for block in _results(old) if block_tokens(block) > LARGE_RESULT)
    made = CompactionPlan(kept_from=NO_EVENT, also_kept=(), cleared=cleared, dropped=(), kept=tuple(entries))
    return made if cleared and made.event(entries, "").tokens_after <= goal.tokens else None


def plan_summary(entries: Sequence[Entry], goal: Goal) -> CompactionPlan | None:
    """Gives up everything but the end, pinned words and what people asked for; None where nothing could go.

    What a running turn was asked for stays in any case, and so does the last group.
    """
    pinned = [entry for entry in entries if entry.mark.source == "pin"]
    room = goal.tokens - goal.summary_tokens - tokens(pinned)
    groups = grouped(entries)
    tail = _tail(groups, room, goal)
    first = len(groups) - len(tail)
    before = [entry for group in groups[:first] for entry in group]
    if not any(entry.mark.source not in ("pin", "summary") for entry in before):
        return None
    after = [entry for group in tail for entry in group]
    room = min(goal.tokens // 4, room - tokens(after)) if goal.recent_messages is None else 0
    words = _words(before, room=room, running=not _has_request(after))
    also = frozenset(entry.mark.event for entry in (*words, *(e for e in before if e.mark.source == "pin")))
    front = [entry for entry in before if entry.mark.event in also]
    dropped = tuple(entry for entry in before if entry.mark.event not in also)
    if not any(entry.mark.source != "summary" for entry in dropped):
        return None
    kept = (*front, *after)
    return CompactionPlan(
        kept_from=after[0].mark.event,
        also_kept=tuple(entry.mark.event for entry in front),
        cleared=_cleared_to_fit(kept, goal.most_tokens - goal.summary_tokens),
        dropped=dropped,
        kept=kept,
    )


def _tail(groups: list[Group], room: int, goal: Goal) -> list[Group]:
    """The last groups that fit, at least one; it ends where an earlier summary stands."""
    newest = groups[-1][-1].mark.turn if groups else 0
    request = _newest_request(groups)
    tail: list[Group] = []
    used = messages = 0
    for group in reversed(groups):
        needed = used + tokens(group) + (0 if request is None else tokens(request))
        if group is request:
            request, needed = None, used + tokens(group)
        messages += len(group)
        too_old = group[0].mark.turn <= newest - goal.recent_turns
        too_many = goal.recent_messages is not None and messages > goal.recent_messages
        if group[0].mark.source == "summary" or (tail and (too_old or too_many or needed > room)):
            break
        tail.insert(0, group)
        used += tokens(group)
    return tail


def _newest_request(groups: list[Group]) -> Group | None:
    return next((group for group in reversed(groups) if group[0].mark.source == "input"), None)


def _has_request(entries: Iterable[Entry]) -> bool:
    return any(entry.mark.source == "input" for entry in entries)


def _words(before: list[Entry], *, room: int, running: bool) -> list[Entry]:
    """What people asked for that stays, the newest first, as far as there is room.

    The newest stays in any case where it is `running`: what is being done right now was asked for there.
    """
    kept: list[Entry] = []
    for entry in reversed([entry for entry in before if entry.mark.source == "input"]):
        size = tokens((entry,))
        if (running and not kept) or size <= room:
            kept.append(entry)
            room -= size
        running = running and not kept
    return kept


def _cleared_to_fit(kept: Sequence[Entry], most_tokens: int) -> tuple[str, ...]:
    """The largest results, one after the other until the rest fits; mostly none."""
    over = tokens(kept) - most_tokens
    cleared: list[str] = []
    for block in sorted(_results(kept), key=block_tokens, reverse=True):
        if over <= 0 or block_tokens(block) <= LARGE_RESULT:
            break
        over -= block_tokens(block) - block_tokens(msgspec.structs.replace(block, text=COMPACTED))
        cleared.append(block.wire_id)
    return tuple(cleared)


def _belongs(group: Group, entry: Entry) -> bool:
    """Results belong to their calls, and what waited for them came with the same event."""
    last = group[-1]
    if entry.mark.source == "results":
        return last.mark.source == "answer" and _calls(last)
    return entry.mark.event == last.mark.event != NO_EVENT


def _calls(entry: Entry) -> bool:
    return any(isinstance(block, ToolUseBlock) for block in entry.message.content)


def _results(entries: Iterable[Entry]) -> list[ToolResultBlock]:
    return [
        block
        for entry in entries
        for block in entry.message.content
        if isinstance(block, ToolResultBlock) and block.text != COMPACTED
    ]


def _stretch(entries: Sequence[Entry]) -> Stretch:
    """What a part comes to. Its turns are those since the last summary, where there is one in it."""
    events = [entry.mark.event for entry in entries if entry.mark.event != NO_EVENT]
    since = takewhile(lambda entry: entry.mark.source != "summary", reversed(entries))
    turns = [entry.mark.turn for entry in since] or [entry.mark.turn for entry in entries]
    return Stretch(
        first_event=min(events, default=0),
        last_event=max(events, default=0),
        first_turn=min(turns, default=0),
        last_turn=max(turns, default=0),
        messages=len(entries),
        results=sum(
            isinstance(block, ToolResultBlock) for entry in entries for block in entry.message.content
        ),
        tokens=tokens(entries),
    )
