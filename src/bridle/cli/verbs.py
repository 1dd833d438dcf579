"""From words to a verb: the one argument parser, and where failures become one sentence and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, get_args

from bridle.cli.help import PAGES
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.events import Mode

VERBS = ("run", "demo", "sessions", "help")


class _Parser(argparse.ArgumentParser):
    """Argument errors in our words; help pages instead of generated lists."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # a fixed width: asking the terminal would import `shutil` for lists that are never shown
        super().__init__(
            *arguments, formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100), **options
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See: bridle help {self._topic}".rstrip())

    def format_help(self) -> str:
        return PAGES[self._topic]

    @property
    def _topic(self) -> str:
        """The help page of this verb; `sessions list` has that of `sessions`."""
        return next((word for word in self.prog.split() if word in PAGES), "")


def run_verb(arguments: list[str]) -> int:
    try:
        words = [
            os.fsencode(word).decode("utf-8", "replace") for word in arguments
        ]  # bytes of any kind arrive
        parsed = _parser().parse_args(_without_habits(words))
        match parsed.verb:
            case "run":
                from bridle.cli.run import run

                return run(parsed, os.environ)
            case "demo":
                from bridle.cli.demo import demo

                return demo(os.environ)
            case _:
                from bridle.cli.sessions import sessions

                return sessions(parsed, os.environ)
    except BridleError as failure:
        print(f"bridle: {failure.message}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        from bridle.cli import silence_stdout

        silence_stdout()
        return 141


def _without_habits(arguments: list[str]) -> list[str]:
    """What other tools taught people to type, and a word that is no verb."""
    first = arguments[0]
    if first in ("-p", "--print", "exec"):
        return ["run", *arguments[1:]]
    if first in VERBS:
        return arguments
    if first.startswith("-"):
        raise UsageError(f"A command comes before {first}. See: bridle help")
    from difflib import get_close_matches

    near = get_close_matches(first, VERBS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(f'No command "{first}".{hint} As a prompt: bridle run {_quoted(arguments)}')


def _quoted(arguments: Sequence[str]) -> str:
    import shlex

    return shlex.quote(" ".join(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bridle", add_help=False)
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=_Parser)

    run = verbs.add_parser("run")
    run.add_argument("prompt", nargs="*")
    run.add_argument("-m", "--model")
    run.add_argument("-y", "--yes", action="store_true")
    run.add_argument("--mode", choices=get_args(Mode))
    run.add_argument("-C", "--cwd", default=".")
    run.add_argument("-c", "--continue", dest="resume_newest", action="store_true")
    run.add_argument("-r", "--resume", metavar="ID")
    run.add_argument("--json", action="store_true")
    run.add_argument("--stream-json", action="store_true")
    run.add_argument("-q", "--quiet", action="store_true")
    run.add_argument("--allow", action="append", default=[], metavar="RULE")
    run.add_argument("--deny", action="append", default=[], metavar="RULE")
    run.add_argument("--max-steps", "--max-turns", type=_positive)
    run.add_argument("--config", metavar="FILE")
    run.add_argument("--profile", metavar="NAME")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    run.add_argument("--timeout", type=_seconds, metavar="S")
    run.add_argument("--on-ask", choices=("deny", "fail", "wait"), default="deny")
    run.add_argument("--dry-run", action="store_true")
    run.add_argument("--add-dir", action="append", default=[], metavar="DIR")
    run.add_argument("-i", "--image", action="append", default=[], metavar="FILE")
    run.add_argument("--prompt-file", metavar="FILE")
    run.add_argument("--output-schema", metavar="FILE")
    run.add_argument("-o", "--output", metavar="FILE")
    run.add_argument("--on-orphan", choices=("fail", "mark-unknown"), default="fail")

    verbs.add_parser("demo")

    sessions = verbs.add_parser("sessions")
    actions = sessions.add_subparsers(dest="action", parser_class=_Parser)
    listed = actions.add_parser("list")
    listed.add_argument("--all", action="store_true")
    listed.add_argument("--json", action="store_true")
    actions.add_parser("show").add_argument("id")
    export = actions.add_parser("export")
    export.add_argument("id", nargs="?")
    export.add_argument("--session", dest="id_option")
    export.add_argument("--format", choices=("jsonl",), default="jsonl")
    return parser


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 1e7:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of seconds')
    return number


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number above 0')
    return number
