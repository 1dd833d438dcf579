"""The addresses of what an outer agent can read: `bridle-v1://session/sess_…/events`. Pure.

Written in one way. Read in the older spellings too, of which `harness/v1://` is no legal URI.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args
from urllib.parse import parse_qs, quote, unquote

import msgspec

from bridle.protocol.errors import CommandRefused
from bridle.protocol.handshake import RESOURCE_URI_SCHEME

Kind: TypeAlias = Literal[
    "sessions", "profiles", "providers", "tools", "skills", "runtime",
    "session", "session/events", "session/log", "profile", "provider/models", "skill",
]  # fmt: skip
"""The first six have no name; of the others one is named behind the first word."""

KINDS: tuple[Kind, ...] = get_args(Kind)
NAMED: frozenset[Kind] = frozenset(KINDS[6:])
_SPELLINGS = (f"{RESOURCE_URI_SCHEME}://", "bridle/v1://", "harness-v1://", "harness/v1://")
_LONGEST_NAME = 200


class ResourceAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What is meant. `since` is the event behind which events begin, where they are asked for."""

    kind: Kind
    name: str = ""
    since: int = 0


def read_uri(uri: str) -> ResourceAddress:
    """What an address means. Raises `UnknownResource`."""
    opening = next((one for one in _SPELLINGS if uri.startswith(one)), None)
    if opening is None:
        raise unknown_resource(uri)
    path, _, query = uri.removeprefix(opening).partition("?")
    first, *rest = path.rstrip("/").split("/")
    named = rest[:1]
    kind = "/".join((first, *rest[1:]))
    name = unquote(named[0]) if named else ""
    known = kind in KINDS and bool(name) == (kind in NAMED) and len(name) <= _LONGEST_NAME
    since = parse_qs(query).get("since", ["0"])[-1] if query else "0"
    if not known or not (since.isascii() and since.isdigit() and len(since) < 16):
        raise unknown_resource(uri)
    return ResourceAddress(kind=cast("Kind", kind), name=name, since=int(since))


def uri_of(kind: Kind, name: str = "", *, since: int = 0) -> str:
    """The address of something, as we write it."""
    first, _, last = kind.partition("/")
    place = "/".join(filter(None, (first, quote(name, safe=""), last)))
    return f"{RESOURCE_URI_SCHEME}://{place}{f'?since={since}' if since else ''}"


def uri_template(kind: Kind) -> str:
    """The same with a hole for its name, as RFC 6570 writes one."""
    first, _, last = kind.partition("/")
    return f"{RESOURCE_URI_SCHEME}://" + "/".join(filter(None, (first, "{name}", last)))


def unknown_resource(uri: str) -> CommandRefused:
    return CommandRefused("UnknownResource", uri=uri[:200])
