"""Before a session begins at a terminal: the passphrase of the stored keys, if they have one and nobody gave it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from bridle.app.models import DEMO
from bridle.app.stored_keys import StoredKeys, store_path
from bridle.base.clock import SystemClock
from bridle.cli import tell
from bridle.config.folders import folders
from bridle.protocol.errors import BridleError

TRIES = 3
_VARIABLE = "BRIDLE_PASSPHRASE"


def unlocked(env: Mapping[str, str], *, model: str | None) -> Mapping[str, str]:
    """The environment, with the passphrase that a person typed. As it was where none is needed or nobody is there.

    What is wrong with the store is left for whoever needs a key of it.
    """
    where = folders(env)
    if (
        env.get(_VARIABLE)
        or (model or "").partition(":")[0] == DEMO
        or not os.path.lexists(store_path(where))
    ):
        return env
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        return env
    from bridle.cli.hidden import hidden_line

    clock = SystemClock()
    try:
        if StoredKeys(where=where, env=env, clock=clock).encrypted.lock_kind() != "passphrase":
            return env
        for _ in range(TRIES):
            phrase = hidden_line("Passphrase for your stored keys (hidden; Enter goes on without) › ")
            if not phrase:
                return env
            given = {**env, _VARIABLE: phrase}
            try:
                StoredKeys(where=where, env=given, clock=clock).encrypted.unlock()
            except BridleError as failure:
                if failure.reason != "CredentialsWrongKey":
                    raise
                tell("That is not it.")
            else:
                return given
    except (BridleError, EOFError):
        return env
    return env
