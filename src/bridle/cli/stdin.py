"""Text from stdin: the prompt of a run, which never waits for ever, and a line that a person types."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable

import msgspec

from bridle.base.fs.files import read_limited
from bridle.protocol.errors import UsageError

PROMPT_BYTES = 2 * 1024 * 1024
FIRST_BYTE_S = 3.0
POLL_S = 0.2


class GivenPrompt(msgspec.Struct, frozen=True):
    """The prompt of a run in the order it is sent: what was typed, between text from a file or from stdin."""

    before: str = ""
    typed: str = ""
    after: str = ""


def prompt_of(words: list[str], prompt_file: str | None, say: Callable[[str], None]) -> GivenPrompt:
    """The whole prompt. Raises `UsageError` when there is none or it cannot be read."""
    if prompt_file is not None and words != ["-"]:
        return GivenPrompt(before=_checked(_file(prompt_file)), typed=" ".join(words))
    if not words or words == ["-"]:
        if _is_terminal():
            raise UsageError('A run needs a prompt: bridle run "what to do", or text on stdin')
        text = _checked(_text(_read_to_end()))
        return GivenPrompt(text if prompt_file is None else f"{_checked(_file(prompt_file))}\n\n{text}")
    prompt = _checked(" ".join(words))
    piped = _text(_waiting_data(say))
    return GivenPrompt(typed=prompt, after=f"```\n{piped}\n```" if piped else "")


def typed_line(prompt: str) -> str:
    """A line that a person types at the terminal; raises EOFError when there will be none.

    Like `input`, which can miss a Ctrl-C that arrives just before it begins to wait.
    """
    print(prompt, end="", flush=True)
    while not select.select([sys.stdin], [], [], POLL_S)[0]:
        continue
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _checked(prompt: str) -> str:
    if not prompt.strip():
        raise UsageError('The prompt is empty. Give one: bridle run "what to do"')
    return prompt


def _file(path: str) -> str:
    try:
        contents = read_limited(path, PROMPT_BYTES)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"The prompt file {path} cannot be read ({reason})") from None
    if contents.truncated:
        raise UsageError(f"The prompt file {path} is longer than 2 MiB")
    return _text(contents.data)


def _is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _read_to_end() -> bytes:
    data = sys.stdin.buffer.read(PROMPT_BYTES + 1)
    return _bounded(data)


def _bounded(data: bytes) -> bytes:
    if len(data) > PROMPT_BYTES:
        raise UsageError("The text on stdin is longer than 2 MiB")
    return data


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def _waiting_data(say: Callable[[str], None]) -> bytes:
    """What stands on stdin beside a given prompt: a file whole, a pipe if something comes within 3 s."""
    if _is_terminal():
        return b""
    fd = sys.stdin.fileno()
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return _read_to_end()
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return b""
    data = bytearray()
    deadline = time.monotonic() + FIRST_BYTE_S
    while (left := deadline - time.monotonic()) > 0 and select.select([fd], [], [], left)[0]:
        chunk = os.read(fd, 65536)
        if not chunk:
            return _bounded(bytes(data))
        data += chunk
        if len(data) > PROMPT_BYTES:
            return _bounded(bytes(data))
        deadline = time.monotonic() + FIRST_BYTE_S
    if not data:
        say("stdin is open and empty; went on without it")
    return bytes(data)
