"""The command line: `main(argv)`, and one module per verb, imported when it is used.

Owns      parsing, exit codes, signals, what a terminal is told.
Imports   everything below it; never the engine directly: a run goes through a `Connection`.
Start at  `main` here, then `run.py`.
Is not    a second home for behaviour: a verb reads its arguments and calls one thing.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the real one would import typing
    from collections.abc import Callable
    from types import ModuleType
    from typing import TextIO

YOUNG_OBJECTS = 50_000
"""How many new objects make a collection worth while. Python's 700 collects hundreds of times while modules load."""


def main(argv: list[str] | None = None) -> None:
    """Runs one command and exits with its code. Version and help answer without importing anything else."""
    arguments = sys.argv[1:] if argv is None else argv
    gc.set_threshold(YOUNG_OBJECTS)
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_missing()
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = 130
    code = _flushed(code)
    gc.freeze()  # nothing is worth collecting on the way out
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-v"]):
        from bridle._version import __version__

        return say(f"bridle {__version__}\n")
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        from bridle.cli.help import page

        text, code = page(arguments[1:])
        if code:
            tell(text)
            return code
        return say_raw(text)  # a page is our own words, and is looked at for nothing
    _leave_on_ctrl_c()
    _put_off_slow_imports()
    from bridle.cli.verbs import run_verb

    return run_verb(arguments)


def _put_off_slow_imports() -> None:
    """Spares every command what libraries import and hardly ever use.

    msgspec looks for `typing_extensions` and does without: what it would take from there is in `typing` since Python
    3.11. The others are there, and loaded when they are used.
    """
    import importlib

    from bridle.cli.lazy_imports import import_less

    import_less()
    if "msgspec" not in sys.modules and "typing_extensions" not in sys.modules:
        hidden: dict[str, ModuleType | None] = sys.modules  # pyright: ignore[reportAssignmentType]  None means hidden
        hidden["typing_extensions"] = None
        importlib.import_module("msgspec")
        del sys.modules["typing_extensions"]


def _leave_on_ctrl_c() -> None:
    """Until a verb has its own way to stop, nothing has begun, and an exception would leave modules half imported."""
    import os
    import signal

    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(130))


def say(text: str) -> int:
    """Writes text for people to stdout: a terminal obeys nothing in it. The exit code is that of `say_raw`."""
    return say_raw(safe(text))


def say_json(value: object) -> int:
    """Writes one line of JSON for programs to stdout. A terminal obeys nothing in it."""
    from bridle.base.json_line import json_line

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
    from bridle.base.visible import visible

    return visible(text)


def unwritten(problem: OSError) -> int:
    """The exit code where stdout cannot be written: its reader, the terminal or the room for it has gone."""
    import errno

    silence_stdout()
    if isinstance(problem, BrokenPipeError):
        return 141
    if problem.errno == errno.EIO:
        return 129
    tell(f"The output cannot be written ({problem.strerror})")
    return 1


def _open_missing() -> None:
    """Started with a stream closed: what it gets goes nowhere, and into none of our files. Lowest number first."""
    import os

    for name, flags, mode in (
        ("stdin", os.O_RDONLY, "r"),
        ("stdout", os.O_WRONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8", closefd=False)  # noqa: SIM115  as long as we live
            setattr(sys, name, stream)


def _flushed(code: int) -> int:
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
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
