"""Read secrets without echo, and ask for the passphrase of stored keys and sessions."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Mapping

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.cli.console import tell
from bridle.config.folders import folders
from bridle.protocol.errors import BridleError, UsageError
from bridle.providers import DEMO

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


def new_passphrase(env: Mapping[str, str], prompt: str) -> str:
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


def unlocked(env: Mapping[str, str], *, model: str | None) -> Mapping[str, str]:
    """The environment for a session with a model, with the passphrase that a person typed.

    As it was where none is needed or nobody is there. What is wrong is left for whoever needs what is locked.
    """
    return _unlocked(env, keys=(model or "").partition(":")[0] != DEMO)


def sessions_unlocked(env: Mapping[str, str]) -> Mapping[str, str]:
    """The same for a command that only looks at stored sessions: it needs no key of a provider."""
    return _unlocked(env, keys=False)


def _unlocked(env: Mapping[str, str], *, keys: bool) -> Mapping[str, str]:
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


def _with_passphrase(env: Mapping[str, str], *, log: bool, keys: bool) -> Mapping[str, str]:

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


def _stored(env: Mapping[str, str]) -> StoredKeys:
    return StoredKeys(where=folders(env), env=env, clock=SystemClock())
