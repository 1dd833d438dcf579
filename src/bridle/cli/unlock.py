"""The passphrase of stored keys and sessions, asked for at a terminal where nobody gave it yet."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.cli.console import tell
from bridle.config.folders import folders
from bridle.protocol.errors import BridleError
from bridle.providers import DEMO

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
    from bridle.cli.hidden_input import hidden_line

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
