"""Cut command output to a short excerpt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.protocol import events as e
from bridle.protocol.display_values import ShownCommand

LIVE_LINES: Final = 5
"""So many of a command that runs are drawn in place."""

_LINES = 2, 2
_LINES_OF_FAILURE = 3, 11
_LEFT_OUT = r"\n\[… ([0-9]+) bytes left out; [^\n]*\]\n"
_COLOUR = r"\x1b\[([0-9;:]*)m"


def excerpt(result: e.ToolResult, *, more: str = "") -> list[str]:
    """The first and the last lines as they were printed, more of them where it failed.

    Between them stands how many there were, and `more`: where to see them. What only says to the model how it ended is
    left out; a person is told that beside.
    """
    shown = result.shown if isinstance(result.shown, ShownCommand) else None
    lines = output_lines(printed_text(result))
    if lines == [""]:
        return []
    failed = result.outcome != "ok" or (shown is not None and shown.exit_code not in (0, None))
    first, last = _LINES_OF_FAILURE if failed else _LINES
    if len(lines) <= first + last + 1:
        return lines
    total = max(len(lines), shown.lines if shown else 0)
    return [*lines[:first], f"… {counted(total, 'line')}{more}", *lines[-last:]]


def printed_text(result: e.ToolResult) -> str:
    """What a command printed, without what is only for the model: how it ended, and how to read what was left out."""
    shown = result.shown
    text = _without_end(result.content, shown) if isinstance(shown, ShownCommand) else result.content
    return (
        re.sub(_LEFT_OUT, r"\n… \1 bytes more: /output\n", text) if "truncated" in result.metadata else text
    )


def _without_end(text: str, shown: ShownCommand) -> str:
    """The text without the line that says how it ended; what the sandbox said behind it stays."""
    code = shown.exit_code or 0
    begin = f"[exit code {code}]\n" if code > 0 else "[killed by " if code < 0 else "[no output]\n"
    at = text.rfind(begin)
    if at < 0 or (code == 0 and shown.lines):
        return text
    return text[:at] + text[at:].partition("\n")[2]


def output_lines(text: str) -> list[str]:
    """The lines of an output, whatever ends them; one empty line where there is none."""
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")


def last_lines(text: str) -> list[str]:
    """The end of what a command has printed so far, in plain words."""
    return [plain_line(line) for line in output_lines(text)[-LIVE_LINES:]] if text.strip() else []


def plain_line(line: str) -> str:
    """A line of output without its colours; whatever else a terminal would obey is written out."""
    return visible("".join(text for text, _ in coloured_parts(line)), newlines=False)


def coloured_parts(line: str) -> Iterator[tuple[str, str]]:
    """A line in pieces of one look, each with the codes that give it: colours of letters, bold, italic, underlined.

    Codes for other looks are dropped, as some hide text; whatever else a terminal would obey is still in the text.
    """
    at, look = 0, list[str]()
    for code in re.finditer(_COLOUR, line):
        if code.start() > at:
            yield line[at : code.start()], ";".join(look)
        at = code.end()
        look = _changed(look, code[1].replace(":", ";").split(";"))
    if at < len(line):
        yield line[at:], ";".join(look)


def _changed(look: list[str], numbers: list[str]) -> list[str]:
    """The look after one code."""
    look = list(look)
    while numbers:
        number = numbers.pop(0).lstrip("0")
        if number == "":
            look.clear()
        elif number in ("38", "48", "58"):
            taken = 2 if numbers[:1] == ["5"] else 4 if numbers[:1] == ["2"] else 0
            if number == "38" and len(numbers) >= taken > 0:
                look = [*_colourless(look), ";".join((number, *numbers[:taken]))]
            del numbers[:taken]
        elif number == "39":
            look = _colourless(look)
        elif _is_colour(number):
            look = [*_colourless(look), number]
        elif number in ("1", "2", "3", "4") and number not in look:
            look.append(number)
        elif number in ("22", "23", "24"):
            gone = {"22": ("1", "2"), "23": ("3",), "24": ("4",)}[number]
            look = [one for one in look if one not in gone]
    return look


def _is_colour(number: str) -> bool:
    return len(number) == 2 and number[0] in "39" and number[1] in "01234567"


def _colourless(look: list[str]) -> list[str]:
    return [one for one in look if one in ("1", "2", "3", "4")]
