"""The command line: `main(argv)`, and one module per verb, imported when it is used.

Owns      parsing, exit codes, signals, what a terminal is told.
Imports   everything below it; never the engine directly: a run goes through a `Connection`.
Start at  `main` here, then `run.py`.
Is not    a second home for behaviour: a verb reads its arguments and calls one thing.
"""

import gc
import sys

from bridle.cli.console import flush_streams, leave_on_ctrl_c, open_missing_streams, say, say_raw, tell

YOUNG_OBJECTS = 50_000
"""How many new objects make a collection worth while. Python's 700 collects hundreds of times while modules load."""


def main(argv: list[str] | None = None) -> None:
    """Runs one command and exits with its code. Version and help answer without importing anything else."""
    arguments = sys.argv[1:] if argv is None else argv
    _import_nothing_from_here()
    gc.set_threshold(YOUNG_OBJECTS)
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        open_missing_streams()
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = 130
    code = flush_streams(code)
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
    leave_on_ctrl_c()
    from bridle.cli.verbs import run_verb

    return run_verb(arguments)


def _import_nothing_from_here() -> None:
    """Takes the working folder out of where modules come from, before anything of it can be one.

    `python -m bridle` and an empty entry in PYTHONPATH put it before the standard library: a project with a file
    `json.py` would run inside Bridle. Where Python or Bridle itself lies in it, it stays. What Python loads before us,
    and a folder `bridle` in such a place, only `bridle` or `python -P -m bridle` keep out.
    """
    import os

    try:
        here = os.getcwd()
    except OSError:
        here = ""
    ours = {os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))}
    if here not in ours:
        sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]
