"""Measure the parts of the model's context, and list instruction files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.text.terminal_text import visible
from bridle.base.text.token_estimate import CHARACTERS_PER_TOKEN, IMAGE_TOKENS, estimated_tokens
from bridle.clients.interaction.render.compaction_report import what_went
from bridle.clients.interaction.render.tally import input_tokens, short_number
from bridle.protocol import events as e
from bridle.protocol.messages import ImageBlock, InputBlock, TextBlock

NAME_COLUMNS: Final = 24


def instruction_rows(told: Mapping[str, Any]) -> list[str]:
    """One line a file, as the engine described them (`instructions.files`). Whatever it said, these are lines."""
    rows = [_row(file) for file in _tables(told.get("files"))]
    return [*rows, *(_other(one) for one in _tables(told.get("others")))]


def _row(file: Mapping[str, Any]) -> str:
    name = visible(str(file.get("path", "")), newlines=False)
    if file.get("state") == "left out":
        return f"  {name:<{NAME_COLUMNS}} not in use: {visible(str(file.get('why', '')), newlines=False)}"
    characters, tokens = _number(file.get("characters")), _number(file.get("tokens"))
    notes = ["in use" if file.get("state") == "in use" else "added when a file of its folder was touched"]
    if by := file.get("imported_by"):
        notes.append(f"imported by {visible(str(by), newlines=False)}")
    if trusted := _number(file.get("trusted_ms")):
        notes.append(f"trusted {iso_ms(trusted)[:10]}")
    return (
        f"  {name:<{NAME_COLUMNS}} {characters:>8,} characters   about {tokens:,} tokens   {', '.join(notes)}"
    )


def _other(one: Mapping[str, Any]) -> str:
    name = visible(str(one.get("path", "")), newlines=False)
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
        """How much of the window is used: as counted with the last answer, else as estimated."""
        return self.tokens / window if window and self._prefix is not None else None

    @property
    def is_counted(self) -> bool:
        """Whether a provider counted all of it. Else it is an estimate, as a whole or of what came since."""
        return bool(self.last_tokens) and not self._since

    @property
    def tokens(self) -> int:
        """What the next request has so far."""
        if self.last_tokens:
            return self.last_tokens + (estimated_tokens(self._since) if self._since else 0)
        prefix = self._prefix
        if prefix is None:
            return 0
        sizes = [len(prefix.system), *(len(msgspec.json.encode(tool)) for tool in prefix.tools)]
        parts = sum(map(estimated_tokens, (*sizes, self._characters)))
        return parts + self._images * IMAGE_TOKENS

    def _left_out(self) -> list[str]:
        return [
            f"  {visible(path, newlines=False):<{NAME_COLUMNS}} not in use: not trusted"
            for path in self._not_used
        ]


def _files(system: str) -> dict[str, str]:
    """The instruction files in the system text, each with its part of it."""
    begins = list(_INSTRUCTIONS.finditer(system))
    ends = [*(found.start() for found in begins[1:]), len(system)]
    return {
        visible(found[1], newlines=False): system[found.start() : end]
        for found, end in zip(begins, ends, strict=False)
    }


def _characters(content: tuple[InputBlock, ...]) -> int:
    return sum(len(block.text) for block in content if isinstance(block, TextBlock))


def _line(name: str, characters: int, state: str = "") -> str:
    tokens = estimated_tokens(characters) if characters else 0
    return (
        f"{name:<{NAME_COLUMNS + 2}} {characters:>8,} characters   about {tokens:,} tokens   {state}".rstrip()
    )
