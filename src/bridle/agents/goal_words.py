"""The words of `/goal`: options first, as a shell would read them, then the goal as it was written. Pure."""

from __future__ import annotations

import io
import math
import shlex
from typing import Final

import msgspec

from bridle.protocol.errors import BridleError

MOST_ROUNDS: Final = 1_000
MOST_SECONDS: Final = 7 * 24 * 3600
USAGE: Final = "/goal --check 'COMMAND' [--rounds N] [--timeout SECONDS] what is to be reached"
_OPTIONS: Final = ("--check", "--check-agent", "--rounds", "--timeout")


class GoalWords(msgspec.Struct, frozen=True, kw_only=True):
    """A goal as somebody gave it; what they did not say is None."""

    text: str
    command: str = ""
    agent: str = ""
    rounds: int | None = None
    time_s: float | None = None


def parse_goal(words: str) -> GoalWords:
    """The goal that `/goal words` gives. Raises `BridleError` for options that mean nothing."""
    options, text = _options(words)
    return GoalWords(
        text=text,
        command=options.get("--check", ""),
        agent=options.get("--check-agent", ""),
        rounds=_whole(options),
        time_s=_seconds(options),
    )


def _options(words: str) -> tuple[dict[str, str], str]:
    """The options by name, and everything behind them as it stands; `--` ends them."""
    options: dict[str, str] = {}
    stream = io.StringIO(words)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    while True:
        at = stream.tell()
        rest = words[at:].lstrip()
        if not rest.startswith("--"):
            return options, rest.strip()
        name, equals, value = _word(lexer).partition("=")
        if name == "--":
            return options, words[stream.tell() :].strip()
        if name not in _OPTIONS:
            raise _not_begun(f'there is no option "{name}". It is written {USAGE}')
        if name in options:
            raise _not_begun(f"{name} is given twice")
        options[name] = value if equals else _word(lexer)
        if not options[name].strip():
            raise _not_begun(f"{name} needs a value. It is written {USAGE}")


def _word(lexer: shlex.shlex) -> str:
    try:
        return lexer.get_token() or ""
    except ValueError:
        raise _not_begun("a quote is not closed") from None


def _whole(options: dict[str, str]) -> int | None:
    if "--rounds" not in options:
        return None
    given = options["--rounds"]
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= MOST_ROUNDS:
        raise _not_begun(f"--rounds is a number from 1 to {MOST_ROUNDS:,}")
    return int(given)


def _seconds(options: dict[str, str]) -> float | None:
    if "--timeout" not in options:
        return None
    try:
        seconds = float(options["--timeout"])
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MOST_SECONDS:
        raise _not_begun(f"--timeout is a number of seconds, {MOST_SECONDS:,} at most")
    return seconds


def _not_begun(problem: str) -> BridleError:
    return BridleError("GoalNotBegun", problem=problem)
