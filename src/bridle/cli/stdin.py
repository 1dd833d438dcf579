"""What comes from stdin: prompts, which are never waited for endlessly, typed lines, secrets, and text to redact."""

from __future__ import annotations

import codecs
import os
import select
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable, Mapping

import msgspec

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.fs.files import read_limited
from bridle.base.process.escapees import recording_processes
from bridle.base.secrets.redact import StreamRedactor
from bridle.base.secrets.secret_shapes import kinds
from bridle.cli.console import aligned, say_lines, tell, unwritten
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import Folders, folders
from bridle.config.tiers import Tiers
from bridle.credentials.credential_settings import CredentialSettings
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.providers import DEMO
from bridle.sandbox.session_border import records_of

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


def typed_answer(prompt: str) -> str:
    """A short answer that a person types, in small letters; empty where they leave instead."""
    try:
        return typed_line(prompt).strip().lower()
    except EOFError:
        print()
        return ""


def is_agreed(prompt: str) -> bool:
    return typed_answer(prompt) in ("y", "yes")


def refuse_tool_calls(where: Folders) -> None:
    """Raise `NotAClient` in a process that a tool, a hook or a server started: a terminal is no proof of a person."""
    from bridle.base.process.peer_process import comes_from_a_call  # few verbs need it

    if comes_from_a_call(os.getpid(), recording_processes(records_of(where))):
        raise CommandRefused("NotAClient")


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


MAX_SECRET_BYTES = 64 * 1024


def hidden_line(prompt: str) -> str:
    """A line typed at the terminal, which shows nothing of it; empty when there will be none.

    Raises `UsageError` for what is no text.
    """
    import getpass

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the echo comes back before we leave
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it would show what is typed
            return getpass.getpass(prompt, stream=sys.stdout if sys.stdout.isatty() else None)
    except EOFError:
        return ""
    except UnicodeDecodeError:
        raise UsageError("What was typed is not UTF-8 text; nothing was changed") from None
    finally:
        signal.signal(signal.SIGINT, before)


def secret_from(prompt: str, *, what: str) -> str:
    """A secret: piped in whole, or else typed. Raises `UsageError` where nothing comes."""
    if sys.stdin.isatty():
        secret = hidden_line(prompt)
    else:
        data = sys.stdin.buffer.read(MAX_SECRET_BYTES + 1)
        if len(data) > MAX_SECRET_BYTES:
            raise UsageError(f"What came in is too long for {what}")
        secret = data.decode("utf-8", "replace")
    if not secret.strip():
        raise UsageError(f"No {what} was given; nothing was stored")
    return secret.strip()


def new_passphrase(env: Env, prompt: str) -> str:
    """A passphrase to lock something with: from the environment, or typed twice."""
    if phrase := env.get("BRIDLE_PASSPHRASE"):
        return phrase
    if not sys.stdin.isatty():
        raise UsageError("A passphrase is needed: set BRIDLE_PASSPHRASE, or do this at a terminal")
    phrase = hidden_line(prompt)
    if not phrase:
        raise UsageError("An empty passphrase locks nothing")
    if hidden_line("The same again › ") != phrase:
        raise UsageError("The two were not the same; nothing was changed")
    return phrase


TRIES = 3
_VARIABLE = "BRIDLE_PASSPHRASE"
_WRONG = frozenset({"CredentialsWrongKey", "SessionsWrongKey"})
_KEYS = "Passphrase for your stored keys (hidden; Enter goes on without) › "
_SESSIONS = "Passphrase for your sessions (hidden) › "


def unlocked(env: Env, *, model: str | None) -> Mapping[str, str]:
    """The environment for a session with a model, with the passphrase that a person typed.

    As it was where none is needed or nobody is there. What is wrong is left for whoever needs what is locked.
    """
    return _unlocked(env, keys=(model or "").partition(":")[0] != DEMO)


def sessions_unlocked(env: Env) -> Mapping[str, str]:
    """The same for a command that only looks at stored sessions: it needs no key of a provider."""
    return _unlocked(env, keys=False)


def _unlocked(env: Env, *, keys: bool) -> Mapping[str, str]:
    if env.get(_VARIABLE) or not sys.stdin.isatty() or not sys.stderr.isatty():
        return env
    stored = _stored(env)
    try:
        log_has_one = stored.log_key.lock_kind() == "passphrase"
        keys_have_one = keys and not stored.is_empty and stored.encrypted.lock_kind() == "passphrase"
        if log_has_one or keys_have_one:
            return _with_passphrase(env, log=log_has_one, keys=keys_have_one)
    except (BridleError, OSError):
        return env
    return env


def _with_passphrase(env: Env, *, log: bool, keys: bool) -> Mapping[str, str]:

    for _ in range(TRIES):
        phrase = hidden_line(_SESSIONS if log else _KEYS)
        if not phrase:
            return env
        given = {**env, _VARIABLE: phrase}
        stored = _stored(given)
        try:
            if log:
                stored.log_key.unlock()
            if keys:
                stored.encrypted.unlock()
        except BridleError as failure:
            if failure.reason not in _WRONG:
                raise
            tell("That is not it.")
        else:
            return given
    return env


def _stored(env: Env) -> StoredKeys:
    return StoredKeys(where=folders(env), env=env, clock=SystemClock())


_READ_BYTES = 64 * 1024


def redact_verb(parsed: Args, _env: Env) -> int:
    if parsed.kinds:
        return say_lines(aligned(kinds().items()))
    return _filter(sys.stdin.fileno())


def _filter(source: int) -> int:
    """Copies `source` to stdout. Bytes that are no text pass unchanged; every read is passed on at once."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    stream = StreamRedactor()
    while data := os.read(source, _READ_BYTES):
        if failed := _written(stream.feed(decode(data))):
            return failed
    return _written(stream.feed(decode(b"", True)) + stream.flush())


def _written(text: str) -> int:
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except OSError as problem:
        return unwritten(problem)
    return 0


def stored_keys(tiers: Tiers, env: Env) -> StoredKeys:
    """The user's credential store. At a terminal they are asked for its passphrase, if it has one."""
    ask = (lambda: hidden_line("Passphrase (hidden) › ")) if sys.stdin.isatty() else None
    back_end = tiers.section("credentials", CredentialSettings).store
    return StoredKeys(
        where=folders(env), env=env, clock=SystemClock(), ask=ask, notice=tell, back_end=back_end
    )
