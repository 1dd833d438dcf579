"""Words that are not shown: typed at the terminal with the echo off, or piped in. Never a command's words."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Mapping

from bridle.protocol.errors import UsageError

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
