"""What the model is sent, folded from events: how large its parts are. Tokens are estimates and are called that."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridle.base.visible import visible
from bridle.clients.tally import input_tokens, short_number
from bridle.protocol import events as e
from bridle.protocol.messages import TextBlock

CHARACTERS_PER_TOKEN: Final = 4
_INSTRUCTIONS: Final = re.compile(r"^# Instructions from (.+)$", re.MULTILINE)
_NAME_COLUMNS: Final = 24


class Contents:
    """The parts of the next request, in characters."""

    def __init__(self) -> None:
        self._prefix: e.PrefixSet | None = None
        self._not_used: dict[str, str] = {}
        self._characters = 0
        self._attempt = 0
        self.last_tokens = 0

    def take(self, event: e.AnyEvent) -> None:
        match event:
            case e.PrefixSet():
                self._prefix = event
            case e.Notice(reason="NotTrusted", data=data, message=message):
                self._not_used[str(data.get("path", ""))] = message
            case e.InputAccepted(content=content) | e.ContextAdded(content=content):
                self._characters += sum(len(block.text) for block in content if isinstance(block, TextBlock))
            case e.StepStarted():
                self._attempt = 0
            case e.TextDelta(text=text):
                self._characters += len(text)
                self._attempt += len(text)
            case e.StepFailed():
                self._characters -= self._attempt
                self._attempt = 0
            case e.StepEnded(calls=calls, usage=usage):
                self._attempt = 0
                self._characters += sum(len(msgspec.json.encode(call.input)) for call in calls)
                self.last_tokens = input_tokens(usage) + usage.output_tokens
            case e.ToolResult(content=content):
                self._characters += len(content)
            case e.Compacted(summary=summary):
                self._characters = len(summary)
            case _:
                pass

    def lines(self, window: int | None) -> list[str]:
        """The parts as a person reads them. `window` is how many tokens the model takes, where that is known."""
        if self._prefix is None:
            return ["Nothing has been sent to a model yet.", *self._left_out()]
        system, tools = self._prefix.system, self._prefix.tools
        sizes = {schema.name: len(msgspec.json.encode(schema)) for schema in tools}
        lines = ["In every request. Tokens are estimates: 4 characters each."]
        lines.append(_line("instructions of Bridle", len(system) - sum(map(len, _files(system).values()))))
        lines += [_line(f"  {name}", len(text), "in use") for name, text in _files(system).items()]
        lines += self._left_out()
        lines.append(_line(f"{len(tools)} tools", sum(sizes.values())))
        lines += [_line(f"  {name}", size) for name, size in sorted(sizes.items(), key=lambda item: -item[1])]
        lines.append(_line("conversation", self._characters))
        if self.last_tokens:
            of = f" of {short_number(window)}" if window else ""
            lines.append(
                f"The last request and its answer had {short_number(self.last_tokens)} tokens{of}, counted."
            )
        return lines

    def share(self, window: int | None) -> float | None:
        """How much of the window the last request and its answer took, where both are known."""
        return self.last_tokens / window if window and self.last_tokens else None

    def _left_out(self) -> list[str]:
        return [
            f"  {visible(path, newlines=False):<{_NAME_COLUMNS}} not in use: not trusted"
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


def _line(name: str, characters: int, state: str = "") -> str:
    tokens = max(1, round(characters / CHARACTERS_PER_TOKEN)) if characters else 0
    return f"{name:<{_NAME_COLUMNS + 2}} {characters:>8,} characters   about {tokens:,} tokens   {state}".rstrip()
