"""The command line: `main(argv)`, and one module per verb, imported when it is used.

Owns      the table of verbs (`verbs`), parsing, exit codes, signals, what a terminal is told.
Imports   everything below it; never the engine directly: a run goes through a `Connection`.
Start at  `main` here, then `command_line.py` and `run/run.py`.
Is not    a second home for behaviour: a verb reads its arguments and calls one thing.
"""

import gc
import os
import sys

from bridle._version import __version__

YOUNG_OBJECTS = 100_000
"""The number of new objects that starts a collection. A start makes about 50,000, nearly all of which stay: with
Python's default, 700, hundreds of collections would look at them."""


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    gc.set_threshold(YOUNG_OBJECTS)
    _leave_out_working_folder()
    from bridle.cli.console import flush_streams, open_missing_streams

    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        open_missing_streams()
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        code = 130
    code = flush_streams(code)
    gc.freeze()  # collect nothing on the way out
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code. Version and help need few imports."""
    from bridle.cli.console import leave_on_ctrl_c, say, say_raw, tell

    if arguments[:1] in (["--version"], ["-v"]):
        return say(f"bridle {__version__}\n")
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        from bridle.cli.help import page

        text, code = page(arguments[1:])
        if code:
            tell(text)
            return code
        return say_raw(text)
    leave_on_ctrl_c()
    from bridle.cli.command_line import run_verb

    return run_verb(arguments)


def _leave_out_working_folder() -> None:
    """Remove the working folder from `sys.path`, before anything is imported that is not frozen into Python.

    `python -m bridle` and an empty entry in PYTHONPATH put it before the standard library: a project with a file
    `json.py` would run inside Bridle. It stays if Python or Bridle itself is installed there. Only `bridle` or
    `python -P -m bridle` keep out what Python imports before this, and a folder called `bridle`.
    """
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    ours = {os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))}
    if here not in ours:
        sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]
