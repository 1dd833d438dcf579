"""Tool calls that a weak local model writes into its text, taken out of it as the text streams by. Pure.

    <tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>
    <function_call>…</function_call>
    [TOOL_CALLS] [{"name": …, "arguments": …}, …]       to the end of the answer

What looks like a call and is none stays text, every character of it. Only where an endpoint's quirks ask for it: a
model that can make real calls may well want to write about these marks.
"""

from __future__ import annotations

from typing import Any, Final, cast

from bridle.engine.sizes import AnswerRoom
from bridle.providers.answers import PartialCall

_TO_THE_END: Final = "[TOOL_CALLS]"
_MARKS: Final = {"<tool_call>": "</tool_call>", "<function_call>": "</function_call>", _TO_THE_END: ""}


class TextCalls:
    """Reads the text of one answer. What it gives depends on the text alone, not on how it was cut."""

    def __init__(self, room: AnswerRoom) -> None:
        self.calls: list[PartialCall] = []
        self._room = room
        self._rest = ""
        self._mark = ""  # the mark that is open; `_rest` begins after it
        self._looked = 0  # how much of `_rest` has been looked at for the end of the open mark
        self._after_call = False

    def feed(self, text: str) -> str:
        """Takes the next text and returns what of it is certainly no call."""
        self._room.take(len(text))
        self._rest += text
        return self._read_on([])

    def finish(self) -> str:
        """The answer ended: a call whose end mark is missing counts if it is whole; the rest was text."""
        said: list[str] = []
        while self._mark:
            self._close(said)
            self._read_on(said)
        self._say(self._rest, said)
        self._rest = ""
        return "".join(said)

    def _read_on(self, said: list[str]) -> str:
        while self._within(said) if self._mark else self._outside(said):
            pass
        return "".join(said)

    def _outside(self, said: list[str]) -> bool:
        """Up to the next mark. False when more text is needed."""
        places = {mark: place for mark in _MARKS if (place := self._rest.find(mark)) >= 0}
        if not places:
            certain = len(self._rest) - _beginning_of_a_mark(self._rest)
            self._say(self._rest[:certain], said)
            self._rest = self._rest[certain:]
            return False
        mark = min(places, key=places.__getitem__)
        self._say(self._rest[: places[mark]], said)
        self._rest = self._rest[places[mark] + len(mark) :]
        self._mark, self._looked = mark, 0
        return True

    def _within(self, said: list[str]) -> bool:
        """From an open mark to its end. False when more text is needed."""
        end_mark = _MARKS[self._mark]
        end = self._rest.find(end_mark, self._looked) if end_mark else -1
        if end < 0:
            self._looked = max(self._looked, len(self._rest) - len(end_mark))
            return False
        body = self._rest[:end]
        if _is_inside_a_string(body):
            self._looked = end + 1
            return True
        found = _read(body, self._room)
        if found is None or body[found[1] :].strip():
            self._take_back(said)
        else:
            self._take(found[0], self._rest[end + len(end_mark) :])
        return True

    def _close(self, said: list[str]) -> None:
        """The end of the answer inside an open mark."""
        found = _read(self._rest, self._room)
        if found is None:
            self._take_back(said)
            return
        after = self._rest[found[1] :]
        cut = after.strip() and _MARKS[self._mark].startswith(after.strip())
        self._take(found[0], "" if cut else after)

    def _take(self, calls: list[PartialCall], rest: str) -> None:
        self.calls += calls
        self._after_call = True
        self._mark, self._rest = "", rest

    def _take_back(self, said: list[str]) -> None:
        """The open mark was text. What follows it may still hold a call."""
        self._say(self._mark, said)
        self._mark = ""

    def _say(self, text: str, said: list[str]) -> None:
        if self._after_call:
            text = text.lstrip()  # the blanks after a call are not something the model said
            self._after_call = not text
        if text:
            said.append(text)


def _beginning_of_a_mark(text: str) -> int:
    """How many characters at the end may yet become a mark. Every mark has one bracket that opens, its first letter."""
    start = max(text.rfind("<"), text.rfind("["))
    if start < 0 or not any(mark.startswith(text[start:]) for mark in _MARKS):
        return 0
    return len(text) - start


def _is_inside_a_string(body: str) -> bool:
    """Whether JSON that begins like this is in the middle of a string: then a mark in it is data."""
    inside = escaped = False
    for character in body:
        if escaped:
            escaped = False
        elif character == '"':
            inside = not inside
        elif character == "\\":
            escaped = inside
    return inside and body.lstrip()[:1] in {"{", "["}


def _read(body: str, room: AnswerRoom) -> tuple[list[PartialCall], int] | None:
    """The calls a text begins with and where they end, or None if it begins with something else."""
    import json  # few endpoints need any of this, and every run with a model over HTTP imports this module

    start = len(body) - len(body.lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(body, start)
    except (ValueError, RecursionError):
        return None
    rows = cast("list[Any]", value) if isinstance(value, list) else [value]
    calls = [_call(row, room) for row in rows]
    made = [call for call in calls if call is not None]
    return (made, end) if made and len(made) == len(calls) else None


def _call(row: Any, room: AnswerRoom) -> PartialCall | None:
    if not isinstance(row, dict):
        return None
    given = cast("dict[str, Any]", row)
    if isinstance(given.get("function"), dict):
        given = cast("dict[str, Any]", given["function"])
    name = given.get("name")
    arguments: Any = given.get("arguments", given.get("parameters", ""))
    if not isinstance(name, str) or not name or not isinstance(arguments, dict | str):
        return None
    call = PartialCall(room)
    call.name("", name)
    call.add(cast("dict[str, Any] | str", arguments))
    return call
