"""Scripts: what the scripted model answers, as a small text file and as data.

A script is a list of answers with a line `---` between them. Lines that begin with `#` are comments. An
answer is a list of statements, one a line:

    say TEXT                    indented lines below continue the text
    think TEXT                  the same, as reasoning
    call TOOL {"path": "a"}     a tool call with its input as JSON, or with one indented line a value:
        path: a.txt             JSON if it reads as JSON, else the text itself
        content: <<END          text up to a line END; the indentation of that line is taken off every line
        one line
        END
    wait SECONDS                nothing happens for a while
    fail REASON                 the request fails: rate_limited, overloaded, unreachable, bad_credentials,
                                garbage, or cut (the stream just ends); options: retry_after=SECONDS,
                                status=CODE, and once or times=N: fail so often, then go on
    yield                       the model hands the turn back
    stop max_tokens             why the answer ends: also content_filter, or end_turn for an empty answer
    usage in=10 out=20          what the answer costs; also cache_read= and cache_write=
    pace N                      deltas a second for the text from here on, 0 for as fast as possible
    chunk N                     characters a delta for the text from here on

A line `=== NAME` begins the answers of the agent of that name, should it be sent.

Reading a script touches no file but in `find_script`; every problem is a `BadScript` with its line.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec

from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.messages import Usage

FailReason: TypeAlias = Literal[
    "rate_limited", "overloaded", "unreachable", "bad_credentials", "cut", "garbage"
]
ScriptedStop: TypeAlias = Literal["end_turn", "max_tokens", "content_filter"]


class Say(msgspec.Struct, frozen=True):
    """Text, in deltas of `chunk` characters, `pace` of them a second. A pace of 0 does not wait at all."""

    text: str
    pace: int = 0
    chunk: int | None = None


class Think(msgspec.Struct, frozen=True):
    """Reasoning a person may read; paced like `Say`."""

    text: str
    pace: int = 0
    chunk: int | None = None


class ScriptCall(msgspec.Struct, frozen=True):
    tool: str
    input: dict[str, Any]


class Wait(msgspec.Struct, frozen=True):
    seconds: float


class Fail(msgspec.Struct, frozen=True):
    """The request fails here: the first `times` times the answer gets this far, or always (None)."""

    reason: FailReason
    times: int | None = None
    retry_after_s: float | None = None
    status: int | None = None


class Yield(msgspec.Struct, frozen=True):
    """The model hands the turn back."""


class Stop(msgspec.Struct, frozen=True):
    """Why an answer without calls ends; one with calls always ends in `tool_use`."""

    reason: ScriptedStop


class Spend(msgspec.Struct, frozen=True):
    usage: Usage


Statement: TypeAlias = Say | Think | ScriptCall | Wait | Fail | Yield | Stop | Spend


class ScriptAnswer(msgspec.Struct, frozen=True):
    """What the model does with one request."""

    statements: tuple[Statement, ...]


class Script(msgspec.Struct, frozen=True):
    """The answers in order, and those of other agents. `path` is what a person knows the script by."""

    path: str
    answers: tuple[ScriptAnswer, ...]
    agents: Mapping[str, tuple[ScriptAnswer, ...]] = {}


# Scripts in code


def say(text: str, *, pace: int = 0, chunk: int | None = None) -> Say:
    return Say(text, pace, chunk)


def think(text: str, *, pace: int = 0, chunk: int | None = None) -> Think:
    return Think(text, pace, chunk)


def call(tool: str, /, **values: Any) -> ScriptCall:
    return ScriptCall(tool, values)


def wait(seconds: float) -> Wait:
    return Wait(seconds)


def fail(
    reason: FailReason,
    *,
    times: int | None = None,
    retry_after_s: float | None = None,
    status: int | None = None,
) -> Fail:
    return Fail(reason, times, retry_after_s, status)


def answer(*statements: Statement) -> ScriptAnswer:
    return ScriptAnswer(statements)


# Scripts in files

_SUFFIX: Final = ".script"
_MAX_BYTES: Final = 1_000_000
_MAX_WAIT_S: Final = 86_400
_STATEMENTS: Final = ("say", "think", "call", "wait", "fail", "yield", "stop", "usage", "pace", "chunk")
_FAIL_REASONS: Final[tuple[FailReason, ...]] = get_args(FailReason)
_FAIL_OPTIONS: Final = ("once", "times", "retry_after", "status")
_STOPS: Final[tuple[ScriptedStop, ...]] = get_args(ScriptedStop)
_USAGE: Final = {
    "in": "input_tokens",
    "out": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
}
_AGENT: Final = "==="
_END_WORD: Final = re.compile(r"<<([A-Za-z_][A-Za-z0-9_]*)\Z")


def find_script(name_or_path: str, *, folder: str = "") -> tuple[str, str]:
    """A shipped script by its name, or a script file by its path: what to call it in `folder`, and its text.

    A shipped name wins over a file of that name in the current folder; `./name` is always a file. Raises
    `UsageError` when there is no such script or it cannot be read, `BadScript` when it is not UTF-8.
    """
    shipped = shipped_scripts()
    if name_or_path in shipped:
        return name_or_path, shipped[name_or_path]
    try:
        with open(name_or_path, "rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        known = ", ".join(shipped)
        raise UsageError(
            f'There is no script "{name_or_path}". Give the path of a file, or one of: {known}.'
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a name the system cannot even look up
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"The script {name_or_path} cannot be read ({problem}).") from None
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"The script {name_or_path} is longer than {_MAX_BYTES // 1000} KB.")
    shown = _shown(name_or_path, folder)
    return shown, _as_text(raw, shown)


def _shown(path: str, folder: str) -> str:
    """The path as people read it: relative below their folder, else as it is."""
    relative = os.path.relpath(path, folder or None) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def script_name(name_or_path: str, *, folder: str = "") -> str:
    """What a session remembers: a shipped script's name, or the absolute path of a file that was named in `folder`."""
    if os.path.exists(os.path.join(shipped_folder(), name_or_path + _SUFFIX)):
        return name_or_path
    return os.path.abspath(os.path.join(folder, name_or_path))


def shipped_scripts() -> Mapping[str, str]:
    """The scripts that come with Bridle: name to text, in order of name."""
    folder = shipped_folder()
    names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    texts: dict[str, str] = {}
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            texts[name.removesuffix(_SUFFIX)] = file.read()
    return texts


def shipped_folder() -> str:
    """Where the shipped scripts lie. `importlib.resources` would cost more than the rest of a short run."""
    return os.path.join(os.path.dirname(__file__), "scripts")


def parse_script(text: str, *, path: str) -> Script:
    """Reads a script. Raises `BadScript` with the line for anything that is not one, and nothing else."""
    lone = next((at for at, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
    if lone is not None:
        raise _bad(path, text.count("\n", 0, lone) + 1, "half of a surrogate pair is not a character")
    return _Parser(text, path).script()


def _as_text(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _bad(path, line, f"byte 0x{raw[error.start]:02x} is not UTF-8 text") from None


def _bad(path: str, line: int, problem: str) -> BridleError:
    return BridleError("BadScript", path=path, line=line, problem=problem)


class _Parser:
    """Reads lines from top to bottom. `_line` is the number of the line read last, counted from 1."""

    def __init__(self, text: str, path: str) -> None:
        self._lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
        self._path = path
        self._line = 0
        self._pace = 0
        self._chunk: int | None = None

    def script(self) -> Script:
        agent = ""
        answers: dict[str, list[ScriptAnswer]] = {agent: []}
        statements: list[Statement] = []
        first_line = 1
        while (line := self._peek()) is not None:
            self._line += 1
            if line.rstrip() == "---" or line.startswith(_AGENT):
                answers[agent].append(self._finished(statements, first_line))
                statements, first_line = [], self._line
                if line.startswith(_AGENT):
                    agent = self._agent(line, answers)
            elif line.strip() and not line.startswith("#"):
                statements += self._statement(line)
        if not answers[agent] and not statements:
            raise self._bad("the script has no answers; begin with: say TEXT", line=first_line)
        answers[agent].append(self._finished(statements, first_line))
        main, *others = ((name, tuple(given)) for name, given in answers.items())
        return Script(self._path, main[1], dict(others))

    def _agent(self, line: str, answers: dict[str, list[ScriptAnswer]]) -> str:
        """Whose answers follow."""
        name = line.removeprefix(_AGENT).strip()
        if not name or name in answers:
            raise self._bad(f"{_AGENT} needs the name of an agent that has no answers yet")
        answers[name] = []
        return name

    def _finished(self, statements: list[Statement], first_line: int) -> ScriptAnswer:
        if not statements:
            raise self._bad(
                "the answer here is empty; for one without text write: stop end_turn", line=first_line
            )
        kinds = {type(statement) for statement in statements}
        if ScriptCall in kinds and Stop in kinds:
            raise self._bad("an answer with calls has no stop statement of its own", line=first_line)
        return ScriptAnswer(tuple(statements))

    def _statement(self, line: str) -> list[Statement]:
        """The statement that begins on this line; none for a setting of the text that follows."""
        if line[0].isspace():
            raise self._bad("this indented line belongs to no statement")
        word, *rest = line.split(maxsplit=1)
        argument = rest[0].rstrip() if rest else ""
        match word:
            case "say":
                return [Say(self._text(word, argument), self._pace, self._chunk)]
            case "think":
                return [Think(self._text(word, argument), self._pace, self._chunk)]
            case "call":
                return [self._call(argument)]
            case "wait":
                return [Wait(self._seconds(word, argument))]
            case "fail":
                return [self._fail(argument.split())]
            case "yield":
                self._nothing_after(word, argument)
                return [Yield()]
            case "stop":
                return [Stop(self._stop(argument))]
            case "usage":
                return [Spend(self._usage(argument.split()))]
            case "pace":
                self._pace = self._whole(word, argument, least=0, most=10_000)
                return []
            case "chunk":
                self._chunk = self._whole(word, argument, least=1, most=1_000_000)
                return []
            case _:
                raise self._bad(f"there is no statement {_quoted(word)}{_nearest(word, _STATEMENTS)}")

    # One method a statement, in the order of the page above

    def _text(self, word: str, first: str) -> str:
        line = self._line
        below = _dedented(self._block()).strip("\n")
        text = "\n".join(part for part in (first, below) if part)
        if not text:
            raise self._bad(f"{word} needs a text", line=line)
        return text

    def _call(self, argument: str) -> ScriptCall:
        if not argument:
            raise self._bad("call needs the name of a tool")
        tool, *rest = argument.split(maxsplit=1)
        return ScriptCall(tool, self._json_object(rest[0]) if rest else self._values())

    def _json_object(self, text: str) -> dict[str, Any]:
        try:
            value: object = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._bad(f"the input of the call is not JSON ({_short(str(error))})") from None
        if not isinstance(value, dict):
            raise self._bad('the input of a call is a JSON object, like {"path": "a.txt"}')
        return cast("dict[str, Any]", value)

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while (line := self._peek()) is not None and (not line.strip() or line[0].isspace()):
            self._line += 1
            entry = line.strip()
            if not entry or entry.startswith("#"):
                continue
            name, colon, value = entry.partition(":")
            name = name.rstrip()
            if not colon or not name or name.split() != [name]:
                raise self._bad("a value of a call is written as: name: value")
            if name in values:
                raise self._bad(f"{_quoted(name)} is given twice")
            values[name] = self._value(value.strip())
        return values

    def _value(self, text: str) -> Any:
        if end := _END_WORD.match(text):
            return self._text_until(end[1])
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text

    def _text_until(self, end: str) -> str:
        opened = self._line
        taken: list[str] = []
        while (line := self._peek()) is not None:
            self._line += 1
            if line.strip() == end:
                indentation = line[: len(line) - len(line.lstrip())]
                return "".join(
                    self._without(indentation, text, opened + number) + "\n"
                    for number, text in enumerate(taken, start=1)
                )
            taken.append(line)
        raise self._bad(f"the text that begins here has no line {end} after it", line=opened)

    def _without(self, indentation: str, text: str, line: int) -> str:
        if text.startswith(indentation):
            return text[len(indentation) :]
        if not text.strip():
            return ""
        raise self._bad("this line is indented less than the line that ends the text", line=line)

    def _seconds(self, what: str, text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= _MAX_WAIT_S:
            raise self._bad(f"{what} needs a number of seconds from 0 to {_MAX_WAIT_S}, not {_quoted(text)}")
        return seconds

    def _fail(self, words: list[str]) -> Fail:
        made = Fail(self._fail_reason(words[0] if words else ""))
        for name, value in (self._option(word) for word in words[1:]):
            match name:
                case "once":
                    self._nothing_after(name, value)
                    made = msgspec.structs.replace(made, times=1)
                case "times":
                    made = msgspec.structs.replace(made, times=self._whole(name, value, least=1, most=1000))
                case "retry_after":
                    made = msgspec.structs.replace(made, retry_after_s=self._seconds(name, value))
                case "status":
                    made = msgspec.structs.replace(made, status=self._whole(name, value, least=100, most=599))
                case _:
                    raise self._bad(f"fail has no option {_quoted(name)}{_nearest(name, _FAIL_OPTIONS)}")
        return made

    def _fail_reason(self, given: str) -> FailReason:
        for known in _FAIL_REASONS:
            if given == known:
                return known
        raise self._bad(f"fail has no reason {_quoted(given)}{_nearest(given, _FAIL_REASONS)}")

    def _stop(self, argument: str) -> ScriptedStop:
        for known in _STOPS:
            if argument == known:
                return known
        raise self._bad(f"stop has no reason {_quoted(argument)}{_nearest(argument, _STOPS)}")

    def _usage(self, words: list[str]) -> Usage:
        if not words:
            raise self._bad("usage needs numbers, like: usage in=10 out=20")
        tokens: dict[str, int] = {}
        for name, value in (self._option(word) for word in words):
            if name not in _USAGE:
                raise self._bad(f"usage has no {_quoted(name)}{_nearest(name, tuple(_USAGE))}")
            tokens[_USAGE[name]] = self._whole(name, value, least=0, most=1_000_000_000)
        return Usage(**tokens)

    # What they share

    def _peek(self) -> str | None:
        return self._lines[self._line] if self._line < len(self._lines) else None

    def _block(self) -> list[str]:
        """The indented lines that follow, with the blank ones between them."""
        taken: list[str] = []
        while (line := self._peek()) is not None and (not line.strip() or line[0].isspace()):
            self._line += 1
            taken.append(line.rstrip())
        return taken

    def _option(self, word: str) -> tuple[str, str]:
        name, _, value = word.partition("=")
        return name, value

    def _whole(self, what: str, text: str, *, least: int, most: int) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else -1
        if not least <= number <= most:
            raise self._bad(f"{what} needs a whole number from {least} to {most}, not {_quoted(text)}")
        return number

    def _nothing_after(self, word: str, argument: str) -> None:
        if argument:
            raise self._bad(f"nothing follows {word}")

    def _bad(self, problem: str, *, line: int | None = None) -> BridleError:
        return _bad(self._path, self._line if line is None else line, problem)


def _quoted(text: str) -> str:
    return f'"{_short(text)}"'


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _dedented(lines: list[str]) -> str:
    """The lines without the white space that all of them begin with. Blank ones are empty already."""
    written, margin = [line for line in lines if line], 0
    while len({line[margin] for line in written}) == 1 and written[0][margin].isspace():
        margin += 1
    return "\n".join(line[margin:] for line in lines)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    """A hint for a misspelt word: the known one it resembles, else all of them."""
    from difflib import get_close_matches

    close = get_close_matches(word[:60], known, n=1)
    return f"; the nearest is {close[0]}" if close else f"; known: {', '.join(known)}"
