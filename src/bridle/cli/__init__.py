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

YOUNG_OBJECTS = 20_000
"""How many new objects make a collection worth while. Python's 700 collects hundreds of times while modules load."""


def main(argv: list[str] | None = None) -> None:
    """Runs one command and exits with its code. Version and help answer without importing anything else."""
    arguments = sys.argv[1:] if argv is None else argv
    gc.set_threshold(YOUNG_OBJECTS)
    if sys.stdout is None:  # started with it closed: what we print goes nowhere, and into none of our files
        import os

        nowhere = os.open(os.devnull, os.O_WRONLY)
        sys.stdout = open(nowhere, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  as long as we live
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = 130
    gc.freeze()  # nothing is worth collecting on the way out
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-v"]):
        from bridle._version import __version__

        return say(f"bridle {__version__}\n")
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        from bridle.cli.help import page

        text, code = page(arguments[1:])
        return say(text) or code
    _put_off_slow_imports()
    from bridle.cli.verbs import run_verb

    return run_verb(arguments)


def _put_off_slow_imports() -> None:
    """Spares every command two modules that libraries import and hardly ever use.

    asyncio wants `inspect` for its debug mode only: it is loaded with its first attribute. msgspec looks for
    `typing_extensions` and does without: what it would take from there is in `typing` since Python 3.11.
    """
    import importlib.util

    found = importlib.util.find_spec("inspect")
    if "inspect" not in sys.modules and found is not None and found.loader is not None:
        found.loader = importlib.util.LazyLoader(found.loader)
        sys.modules["inspect"] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules["inspect"])
    if "msgspec" not in sys.modules and "typing_extensions" not in sys.modules:
        hidden: dict[str, ModuleType | None] = sys.modules  # pyright: ignore[reportAssignmentType]  None means hidden
        hidden["typing_extensions"] = None
        importlib.import_module("msgspec")
        del sys.modules["typing_extensions"]


def say(text: str) -> int:
    """Writes to stdout; a reader that went away is no error of ours (141, as a shell would report it)."""
    tolerate_characters()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return 141
    return 0


def tolerate_characters() -> None:
    """A character the terminal's encoding does not have is written as its code, not as a failure."""
    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """Lets the interpreter's last flush go nowhere instead of failing with a message."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
