"""Count tokens and cost, measure the model's context, and report compactions.

An unknown price or size is never a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.text.phrases import counted, dollars
from bridle.base.text.terminal_text import visible, visible_line
from bridle.base.text.token_estimate import CHARACTERS_PER_TOKEN, IMAGE_TOKENS, estimated_tokens
from bridle.protocol import events as e
from bridle.protocol.messages import ImageBlock, InputBlock, TextBlock, Usage

WHERE_IT_WENT: Final = "/context shows what went."


def compacted_lines(event: e.Compacted, prefix: e.PrefixSet | None, *, hint: str = "") -> list[str]:
    """A compaction in one line, and a second line with counts if the user asked for it."""
    kept = [*_instructions(prefix), *_kept(event)]
    staying = f" Kept: {', '.join(kept)}." if kept else ""
    line = f"{_what(event)}.{staying}{hint and ' '}{hint}"
    return [line, _counts(event)] if event.why == "asked" else [line]


def what_went(event: e.Compacted) -> list[str]:
    """The messages that are no longer sent, and their replacement."""
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
    found = _INSTRUCTIONS.findall(prefix.system if prefix is not None else "")
    return [visible_line(str(name)) for name in found]


# What is not known is never a number.


UNKNOWN_COST = "cost unknown for this model"
LOCAL = "local"


class Tally(msgspec.Struct):
    """The tokens and cost of a turn or a session, `by_model` too. `usd` is None as soon as one price is unknown.

    `local`: something was used, and every request of it stayed on the engine's machine, by what the events say.
    """

    usage: Usage = Usage()
    usd: float | None = 0.0
    by_model: dict[str, float | None] = {}
    local: bool = False

    def add(self, cost: e.CostIncremented) -> None:
        before, added = msgspec.structs.asdict(self.usage), msgspec.structs.asdict(cost.usage)
        self.usage = Usage(**{name: tokens + added[name] for name, tokens in before.items()})
        self.local = cost.local and (self.local or not self.by_model)
        self.usd = _sum(self.usd, cost.usd)
        model = f"{cost.provider}:{cost.model}"
        self.by_model[model] = _sum(self.by_model.get(model, 0.0), cost.usd)

    def is_local(self, is_local: Callable[[str], bool]) -> bool:
        """Return True if every model that was asked runs on this machine."""
        return bool(self.by_model) and all(map(is_local, self.by_model))


def cost_words(
    turn: Tally,
    session: Tally,
    *,
    local: bool = False,
    context: float | None = None,
    estimated: bool = False,
) -> list[str]:
    """Tokens, money, and how full the context is, each as far as it is known.

    `local` says that the model runs on this machine; `context` is the used share of its window, `estimated` if nobody
    counted it.
    """
    share = [] if context is None else [f"context {'about ' if estimated else ''}{round(100 * context)}%"]
    if turn.usage == Usage():
        return [*([UNKNOWN_COST] if turn.usd is None and not local else []), *share]
    return [*token_words(turn.usage), *money_words(turn, session, local=local), *share]


def token_words(usage: Usage) -> list[str]:
    total = input_tokens(usage)
    cached = f" ({round(100 * usage.cache_read_tokens / total)}% cached)" if usage.cache_read_tokens else ""
    return [f"{short_number(total)} in{cached}", f"{short_number(usage.output_tokens)} out"]


def money_words(turn: Tally, session: Tally, *, local: bool) -> list[str]:
    if local:
        return [LOCAL]
    if turn.usd is None:
        return [UNKNOWN_COST if len(turn.by_model) < 2 else f"cost unknown{_split(turn)}"]
    paid = f"{dollars(turn.usd)}{_split(turn)}"
    return [paid] if session.usd is None else [paid, f"session {dollars(session.usd)}"]


def _split(tally: Tally) -> str:
    """The cost by model, if there was more than one."""
    if len(tally.by_model) < 2:
        return ""
    shares = [f"{model} {paid_words(usd)}" for model, usd in tally.by_model.items()]
    return f" ({', '.join(shares)})"


def paid_words(usd: float | None) -> str:
    return "unknown" if usd is None else dollars(usd)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def input_tokens(usage: Usage) -> int:
    """Everything that was sent, cached or not."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def short_number(number: int) -> str:
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


NAME_COLUMNS: Final = 24


def instruction_rows(told: Mapping[str, Any]) -> list[str]:
    """One line a file, as the engine described them (`instructions.files`). Whatever it said, these are lines."""
    rows = [_row(file) for file in _tables(told.get("files"))]
    return [*rows, *(_other(one) for one in _tables(told.get("others")))]


def _row(file: Mapping[str, Any]) -> str:
    name = visible_line(str(file.get("path", "")))
    if file.get("state") == "left out":
        return f"  {name:<{NAME_COLUMNS}} not in use: {visible_line(str(file.get('why', '')))}"
    characters, tokens = _number(file.get("characters")), _number(file.get("tokens"))
    notes = ["in use" if file.get("state") == "in use" else "added when a file of its folder was touched"]
    if by := file.get("imported_by"):
        notes.append(f"imported by {visible_line(str(by))}")
    if trusted := _number(file.get("trusted_ms")):
        notes.append(f"trusted {iso_ms(trusted)[:10]}")
    return (
        f"  {name:<{NAME_COLUMNS}} {characters:>8,} characters   about {tokens:,} tokens   {', '.join(notes)}"
    )


def _other(one: Mapping[str, Any]) -> str:
    name = visible_line(str(one.get("path", "")))
    why = "you said no here" if one.get("word") == "declined" else "name it in context.sources"
    return f"  {name:<{NAME_COLUMNS}} not in use: for another agent, {why}"


def _tables(value: object) -> Iterator[Mapping[str, Any]]:
    for one in cast("Sequence[object]", value) if isinstance(value, list | tuple) else ():
        if isinstance(one, Mapping):
            yield cast("Mapping[str, Any]", one)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


_INSTRUCTIONS: Final = re.compile(r"^# Instructions from (.+)$", re.MULTILINE)


class Contents:
    """The parts of the next request, in characters."""

    def __init__(self) -> None:
        self._prefix: e.PrefixSet | None = None
        self._not_used: dict[str, str] = {}
        self._characters = 0
        self._attempt = 0
        self._images = 0
        self._compacted: e.Compacted | None = None
        self._since = 0  # characters behind what was counted last
        self.last_tokens = 0

    def take(self, event: e.AnyEvent) -> None:
        match event:
            case e.PrefixSet():
                self._prefix = event
            case e.Notice(reason="NotTrusted", data=data, message=message):
                self._not_used[str(data.get("path", ""))] = message
            case e.InputAccepted(content=content) | e.ContextAdded(content=content):
                self._add(_characters(content))
                self._images += sum(isinstance(block, ImageBlock) for block in content)
            case e.StepStarted():
                self._attempt = 0
            case e.TextDelta(text=text):
                self._add(len(text))
                self._attempt += len(text)
            case e.StepFailed():
                self._add(-self._attempt)
                self._attempt = 0
            case e.StepEnded(calls=calls, usage=usage):
                self._attempt = 0
                self._add(sum(len(msgspec.json.encode(call.input)) for call in calls))
                self.last_tokens = input_tokens(usage) + usage.output_tokens
                self._since = 0 if self.last_tokens else self._since
            case e.ToolResult(content=content):
                self._add(len(content))
            case e.Compacted(tokens_after=tokens):
                self._compacted = event
                self._characters = self._since = max(
                    0, tokens * CHARACTERS_PER_TOKEN - self._prefix_characters()
                )
                self._images = self.last_tokens = 0
            case _:
                pass

    def _prefix_characters(self) -> int:
        prefix = self._prefix
        if prefix is None:
            return 0
        return len(prefix.system) + sum(len(msgspec.json.encode(tool)) for tool in prefix.tools)

    def _add(self, characters: int) -> None:
        self._characters += characters
        self._since += characters

    def lines(self, window: int | None, files: Sequence[str] | None = None) -> list[str]:
        """The parts as a person reads them. `window` is how many tokens the model takes, where that is known.

        `files` are the lines about instruction files where the engine told of them; else they are read from events.
        """
        if self._prefix is None:
            return ["Nothing has been sent to a model yet.", *(self._left_out() if files is None else files)]
        system, tools = self._prefix.system, self._prefix.tools
        sizes = {schema.name: len(msgspec.json.encode(schema)) for schema in tools}
        lines = ["In every request. Tokens are estimates: 4 characters each."]
        lines.append(_line("instructions of Bridle", len(system) - sum(map(len, _files(system).values()))))
        if files is None:
            lines += [_line(f"  {name}", len(text), "in use") for name, text in _files(system).items()]
            lines += self._left_out()
        else:
            lines += files
        lines.append(_line(f"{len(tools)} tools", sum(sizes.values())))
        lines += [_line(f"  {name}", size) for name, size in sorted(sizes.items(), key=lambda item: -item[1])]
        lines.append(_line("conversation", self._characters))
        if self.last_tokens:
            of = f" of {short_number(window)}" if window else ""
            lines.append(
                f"The last request and its answer had {short_number(self.last_tokens)} tokens{of}, counted."
            )
        share = self.share(window)
        if share is not None:
            about = "" if self.is_counted else "about "
            sizes = f"{short_number(self.tokens)} of {short_number(window or 0)}"
            lines.append(f"Context {about}{round(100 * share)}% full ({sizes}).")
        elif window is None:
            lines.append(
                'How much this model takes is unknown. Say it: models."PROVIDER:MODEL".context_tokens'
            )
        return lines if self._compacted is None else [*lines, *what_went(self._compacted)]

    def share(self, window: int | None) -> float | None:
        """The used share of the window: as counted with the last answer, else as estimated."""
        return self.tokens / window if window and self._prefix is not None else None

    @property
    def is_counted(self) -> bool:
        """True if a provider counted all of it. Otherwise it is an estimate, in whole or in part."""
        return bool(self.last_tokens) and not self._since

    @property
    def tokens(self) -> int:
        """The tokens of the next request so far."""
        if self.last_tokens:
            return self.last_tokens + (estimated_tokens(self._since) if self._since else 0)
        prefix = self._prefix
        if prefix is None:
            return 0
        sizes = [len(prefix.system), *(len(msgspec.json.encode(tool)) for tool in prefix.tools)]
        parts = sum(map(estimated_tokens, (*sizes, self._characters)))
        return parts + self._images * IMAGE_TOKENS

    def _left_out(self) -> list[str]:
        return [f"  {visible_line(path):<{NAME_COLUMNS}} not in use: not trusted" for path in self._not_used]


def _files(system: str) -> dict[str, str]:
    """The instruction files in the system text, each with its part of it."""
    begins = list(_INSTRUCTIONS.finditer(system))
    ends = [*(found.start() for found in begins[1:]), len(system)]
    return {
        visible_line(found[1]): system[found.start() : end] for found, end in zip(begins, ends, strict=False)
    }


def _characters(content: tuple[InputBlock, ...]) -> int:
    return sum(len(block.text) for block in content if isinstance(block, TextBlock))


def _line(name: str, characters: int, state: str = "") -> str:
    tokens = estimated_tokens(characters) if characters else 0
    return (
        f"{name:<{NAME_COLUMNS + 2}} {characters:>8,} characters   about {tokens:,} tokens   {state}".rstrip()
    )
