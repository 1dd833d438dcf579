"""The command line: `main(argv)`, and one module per verb, imported when it is used.

Owns      parsing, exit codes, signals, what a terminal is told.
Imports   everything below it; never the engine directly: a run goes through a `Connection`.
Start at  `main` here, then `program.py` and `run.py`.
Is not    a second home for behaviour: a verb reads its arguments and calls one thing.
"""

import gc
import os
import sys

YOUNG_OBJECTS = 100_000
"""The number of new objects that starts a collection. A start makes about 50,000, nearly all of which stay: with
Python's default, 700, hundreds of collections would look at them."""


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    gc.set_threshold(YOUNG_OBJECTS)
    _leave_out_working_folder()
    from bridle.cli.program import run_program

    sys.exit(run_program(sys.argv[1:] if argv is None else argv))


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
