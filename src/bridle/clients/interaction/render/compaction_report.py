"""Report what a compaction dropped and kept."""

from __future__ import annotations

import re
from typing import Final

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.protocol import events as e

WHERE_IT_WENT: Final = "/context shows what went."
_INSTRUCTIONS: Final = r"^# Instructions from (.+)$"


def compacted_lines(event: e.Compacted, prefix: e.PrefixSet | None, *, hint: str = "") -> list[str]:
    """What happened in one line; when a person asked for it, a second one with the counts."""
    kept = [*_instructions(prefix), *_kept(event)]
    staying = f" Kept: {', '.join(kept)}." if kept else ""
    line = f"{_what(event)}.{staying}{hint and ' '}{hint}"
    return [line, _counts(event)] if event.why == "asked" else [line]


def what_went(event: e.Compacted) -> list[str]:
    """What is no longer sent, and what stands in its place."""
    lines = [f"{_what(event)}. {_counts(event)}"]
    if written := event.summary or "\n".join(event.ledger):
        who = "The model" if event.by == "model" else "Bridle"
        lines += [
            f"{who} wrote in its place:",
            *(f"  {line}" for line in visible(written).splitlines()),
        ]
    return lines


def short_tokens(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.0f}k"


def _what(event: e.Compacted) -> str:
    if not event.summary:
        sizes = f"{short_tokens(event.tokens_before)} → {short_tokens(event.tokens_after)}"
        if event.why == "ledger":
            return f"Put earlier results of agents into a list: {sizes}"
        return f"Left out {counted(len(event.cleared), 'old tool result')}: {sizes}"
    sizes = f"{short_tokens(event.dropped.tokens)} → {short_tokens(event.summary_tokens)}"
    return f"Summarised {_turns(event)}: {sizes}"


def _turns(event: e.Compacted) -> str:
    """`turns 1-9`; the turn that was cut through is named by itself."""
    first, last = event.dropped.first_turn, event.dropped.last_turn
    if last != event.kept.first_turn:
        return _range(first, last)
    begun = f"the beginning of turn {last}"
    return begun if first == last else f"{_range(first, last - 1)} and {begun}"


def _range(first: int, last: int) -> str:
    return f"turn {first}" if first == last else f"turns {first}-{last}"


def _kept(event: e.Compacted) -> list[str]:
    kept = [counted(event.pins, "pinned rule")] if event.pins else []
    if not event.summary:
        return [*kept, "everything that was said"]
    first, last = event.kept.first_turn, event.kept.last_turn
    whole = last - first + (event.dropped.last_turn != first)
    if whole > 0:
        kept.append("the last turn" if whole == 1 else f"the last {whole} turns")
    elif event.kept.messages:
        kept.append(f"the end of turn {last}")
    return kept


def _counts(event: e.Compacted) -> str:
    """The counts behind it. What is dropped counts messages; a summary is none of them."""
    sizes = (
        f"About {short_tokens(event.tokens_before)} → {short_tokens(event.tokens_after)} tokens in a request"
    )
    if not event.summary:
        return f"{sizes}."
    kept = event.kept.messages + len(event.also_kept)
    return (
        f"{sizes}; {counted(event.dropped.messages, 'message')} dropped, {kept} kept, "
        f"the summary has about {short_tokens(event.summary_tokens)}."
    )


def _instructions(prefix: e.PrefixSet | None) -> list[str]:
    found = re.findall(_INSTRUCTIONS, prefix.system if prefix is not None else "", re.MULTILINE)
    return [visible(str(name), newlines=False) for name in found]
