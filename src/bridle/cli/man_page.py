"""`bridle help man`: the manual page, made from the help pages and the table of options, so it cannot lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridle._version import __version__
from bridle.cli.option_page import OPTIONS, RUN_OPTIONS


def man_page(pages: Mapping[str, str]) -> str:
    """A page for `man`, from the help pages by name; the overview has the empty name."""
    overview, *rest = pages[""].splitlines()
    name, _, does = overview.partition(" — ")
    lines = [
        f'.TH BRIDLE 1 "" "Bridle {__version__}" ""',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(does)}",
        ".SH SYNOPSIS",
        *_as_it_stands(rest),
        ".SH OPTIONS",
        *_listed(OPTIONS),
        ".SH OPTIONS OF A RUN",
        *_listed(RUN_OPTIONS),
    ]
    seen = {pages[""]}
    for topic, text in pages.items():
        if text not in seen:
            seen.add(text)
            lines += [f".SH {_escaped(topic.upper())}", *_as_it_stands(text.splitlines())]
    return "\n".join(lines) + "\n"


def _listed(options: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for spelling, does in options:
        yield from (".TP", f"\\fB{_escaped(spelling)}\\fR", _escaped(does))


def _as_it_stands(lines: list[str]) -> Iterator[str]:
    yield ".nf"
    yield from map(_escaped, lines)
    yield ".fi"


def _escaped(line: str) -> str:
    """Text that troff prints as it is: no command, no escape, no typographic dash."""
    text = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith(".") else text
