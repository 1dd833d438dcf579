"""Secrets that stand in the settings of a server: taken out, and a reference written in their place. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from bridle.base.secrets.redact import redact

_SECRET_NAME = re.compile(
    r"(?i)(?:^|.*[_-])(?:(?:api|access|private|secret|auth)?[_-]?key|apikey|token|secret|password|passwd|pwd|"
    r"credentials?|authorization|auth|cookie|pat)"
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_][^}]*\}")
_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token)?\s*")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")


class SecretInTheWay(ValueError):
    """A secret that cannot be told apart from what surrounds it. The text is a clause."""


class WithoutSecrets(NamedTuple):
    """A table of settings, and what stood in it, by the names that stand there now."""

    table: dict[str, Any]
    secrets: Mapping[str, str]


def without_secrets(server: str, table: Mapping[str, Any], is_taken: Callable[[str], bool]) -> WithoutSecrets:
    """The settings of a server without secrets. `is_taken`: that name means something already.

    Raises `SecretInTheWay`.
    """
    taking = _Taking(server, is_taken)
    clean = dict(table)
    for key in ("env", "headers"):
        if key in table:
            clean[key] = {name: taking.named(name, value) for name, value in table[key].items()}
    for key in ("command", "args"):
        if isinstance(table.get(key), list):
            clean[key] = taking.words(table[key])
    if "url" in table:
        clean["url"] = taking.address(table["url"])
    return WithoutSecrets(clean, taking.secrets)


class _Taking:
    def __init__(self, server: str, is_taken: Callable[[str], bool]) -> None:
        self.secrets: dict[str, str] = {}
        self._server = server
        self._is_taken = is_taken

    def named(self, name: str, value: str) -> str:
        """The value of a variable or a header."""
        literal = _REFERENCE.sub("", value)
        if _SCHEME.fullmatch(literal) or not _is_secret(name, literal):
            return value
        if literal != value:
            raise SecretInTheWay(f"{name} mixes a secret with a reference: store it whole")
        scheme = _SCHEME.match(value)
        head = scheme[0] if scheme and scheme[0].strip() else ""
        return f"{head}{self._reference(name, value[len(head) :])}"

    def words(self, words: list[str]) -> list[str]:
        """The words of a command: a secret stands by itself, behind an option, or behind its `=`."""
        done: list[str] = []
        option = ""
        for word in words:
            name, equals, value = word.partition("=")
            if option and _is_secret(option, _REFERENCE.sub("", word)) and not word.startswith("-"):
                done.append(self._reference(option, word))
            elif equals and value and _is_secret(name.lstrip("-"), _REFERENCE.sub("", value)):
                done.append(f"{name}={self._reference(name.lstrip('-'), value)}")
            elif redact(word) != word:
                done.append(self._reference("key", word))
            else:
                done.append(word)
            option = word.lstrip("-") if word.startswith("-") and not equals else ""
        return done

    def address(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            password = parts.password
        except ValueError:
            return url
        if password is not None:
            raise SecretInTheWay("its url has a password in it: send it as a header")
        query = parts.query
        for name, value in parse_qsl(query):
            if _is_secret(name, _REFERENCE.sub("", value)):
                written = next((one for one in (value, quote(value, safe="")) if f"={one}" in query), None)
                if written is None:
                    raise SecretInTheWay("its url has a secret in it: send it as a header")
                query = query.replace(f"={written}", f"={self._reference(name, written)}")
        clean = urlunsplit(parts._replace(query=query)) if query != parts.query else url
        bare = _REFERENCE.sub("", clean)
        if redact(bare) != bare:
            raise SecretInTheWay("its url has a secret in it: send it as a header")
        return clean

    def _reference(self, hint: str, secret: str) -> str:
        own = _word(self._server)
        name = _word(hint)
        name = name if name.startswith(f"{own}_") else f"{own}_{name}"
        if name[0].isdigit() or name.startswith("BRIDLE_"):
            name = f"MCP_{name}"
        known = next((there for there, value in self.secrets.items() if value == secret), None)
        if known is not None:
            return f"${{{known}}}"
        number, free = 1, name
        while free in self.secrets or self._is_taken(free):
            number += 1
            free = f"{name}_{number}"
        self.secrets[free] = secret
        return f"${{{free}}}"


def _word(text: str) -> str:
    return _NO_NAME.sub("_", text).strip("_").upper() or "X"


def _is_secret(name: str, literal: str) -> bool:
    if not literal.strip():
        return False
    return _SECRET_NAME.fullmatch(name) is not None or any(
        redact(text) != text for text in (literal, f"{name}={literal}")
    )
