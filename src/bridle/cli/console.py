"""The standard streams of a command: text and JSON on stdout, remarks on stderr, and what happens when nobody reads or
somebody presses Ctrl-C before there is anything to stop."""

# Loaded before Ctrl-C is taken care of, so it imports little.
from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO


def say(text: str) -> int:
    """Writes text for people to stdout: a terminal obeys nothing in it. The exit code is that of `say_raw`."""
    return say_raw(safe(text))


def say_line(line: str) -> int:
    """Writes one line for people to stdout; see `say`."""
    return say(f"{line}\n")


def say_lines(lines: Iterable[str]) -> int:
    """Writes lines for people to stdout. A line feed within one is written out, so no line is forged."""
    return say("".join(f"{safe_line(line)}\n" for line in lines))


def say_json(value: object) -> int:
    """Writes one line of JSON for programs to stdout. A terminal obeys nothing in it."""
    from bridle.base.text.terminal_text import json_line

    return say_raw(json_line(value))


def say_raw(text: str) -> int:
    """Writes to stdout; a reader that went away is no error of ours (141, as a shell would report it)."""
    tolerate_characters()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        return unwritten(problem)
    return 0


def terminal_columns() -> int:
    """How wide the terminal on stdout is; 0 where there is none, or none that says so."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def tell(line: str) -> None:
    """One line on stderr; nobody reading it is no reason to stop."""
    try:
        print(f"bridle: {safe(line)}", file=sys.stderr, flush=True)
    except OSError:
        return


def safe(text: str) -> str:
    """`text` as a terminal may get it. What is plain already, which is nearly everything, needs no look at it."""
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    from bridle.base.text.terminal_text import visible

    return visible(text)


def safe_line(text: str) -> str:
    """The same on one line."""
    return safe(text).replace("\n", "⟨LF⟩")


def aligned(rows: Iterable[Sequence[str]], gap: str = "   ") -> list[str]:
    """Rows as lines in columns, each but the last as wide as its longest cell."""
    cells = [[safe_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths[-1:] = [0]
    return (
        [
            gap.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        if cells
        else []
    )


def unwritten(problem: OSError) -> int:
    """The exit code where stdout cannot be written: its reader, the terminal or the room for it has gone."""
    silence_stdout()
    if isinstance(problem, BrokenPipeError):
        return 141
    if problem.errno == errno.EIO:
        return 129
    tell(f"The output cannot be written ({problem.strerror})")
    return 1


def open_missing_streams() -> None:
    """Started with a stream closed: what it gets goes nowhere, and into none of our files. Lowest number first."""
    for name, flags, mode in (
        ("stdin", os.O_RDONLY, "r"),
        ("stdout", os.O_WRONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8", closefd=False)  # noqa: SIM115  as long as we live
            setattr(sys, name, stream)


def leave_on_ctrl_c() -> None:
    """Until a verb has its own way to stop, nothing has begun, and an exception would leave modules half imported."""
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(130))


def flush_streams(code: int) -> int:
    """The exit code when everything is written; what cannot be is not tried again by the interpreter."""
    try:
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)
    try:
        sys.stdout.flush()
    except OSError as problem:
        failed = unwritten(problem)
        return code or failed
    return code


def tolerate_characters() -> None:
    """A character the terminal's encoding does not have is written as its code, not as a failure."""
    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """Lets the interpreter's last flush go nowhere instead of failing with a message."""
    _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
