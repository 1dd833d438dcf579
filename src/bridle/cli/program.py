"""One command from its arguments to its exit code."""

from __future__ import annotations

import gc
import sys

from bridle._version import __version__
from bridle.cli.console import flush_streams, leave_on_ctrl_c, open_missing_streams, say, say_raw, tell


def run_program(arguments: list[str]) -> int:
    """Run one command and return its exit code. Version and help need few imports."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        open_missing_streams()
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = 130
    code = flush_streams(code)
    gc.freeze()  # collect nothing on the way out
    return code


def _run(arguments: list[str]) -> int:
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
