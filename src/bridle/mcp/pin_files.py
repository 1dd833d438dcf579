"""The files that pins stand in, and what one says of tools. Nothing here looks at what a server launches: the first
request of a session needs no more than this.

One small file for each server says what counts; the words of its tools stand beside it, so that a change can be shown.
A file that cannot be read agrees to nothing, and is not the same as none: a person is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from bridle.base.files import read_trusted, repository_root
from bridle.base.paths import is_beneath
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.tool_lists import ToolList
from bridle.mcp.tool_pins import ToolVerdict, judge_tools

MOST_BYTES: Final = 1 << 20
FORMAT: Final = 1


class ToolPins(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was agreed to of a server's tools: digests by name, None before the first list. `about` is what the server
    said it is for."""

    tools: dict[str, str] | None = None
    tools_ms: int = 0
    tools_agreed: bool = False
    about: str = ""


class PinsUnreadable(Exception):
    """Something stands there, and it is no pin: why, as the end of a sentence."""


Pins = TypeVar("Pins", bound=ToolPins)


def pins_folder(state_folder: str) -> str:
    return os.path.join(state_folder, "mcp", "pins")


def pin_place(definition: ServerDefinition, folder: str = "") -> str:
    """Where the pins of a server are kept: another one for another command, address or name. Values of variables and
    headers are no part of it: they change, and what runs stays. `folder` is the project, for what runs code of it."""
    launch = (
        definition.name,
        definition.transport,
        definition.argv,
        definition.folder,
        definition.url,
        folder,
    )
    return sha256(msgspec.json.encode(launch)).hexdigest()


def pin_path(folder: str, place: str) -> str:
    return os.path.join(folder, f"{place}.json")


def read_pins(path: str, kind: type[Pins]) -> Pins | None:
    """What was agreed to; None where nothing was. Raises `PinsUnreadable`."""
    try:
        data = read_trusted(path, MOST_BYTES).data
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise PinsUnreadable(f"its pins cannot be read ({problem.strerror})") from None
    try:
        version, pins = msgspec.json.decode(data, type=tuple[int, kind])
    except msgspec.DecodeError:
        raise PinsUnreadable("its pins are damaged") from None
    if version != FORMAT:
        raise PinsUnreadable("its pins are of another version of Bridle")
    return pins


def foreign_root(cwd: str, env: Mapping[str, str]) -> str:
    """The project around a folder, whose code is not the person's; empty where it is their home, or above that."""
    root = os.path.realpath(repository_root(os.path.realpath(cwd)))
    home = env.get("HOME", "")
    return "" if home and is_beneath(os.path.realpath(home), root) else root


class AgreedOffer(msgspec.Struct, frozen=True):
    """What of a list was agreed to, and what was found of the rest."""

    offer: ToolList
    verdict: ToolVerdict


def agreed_offer(offer: ToolList, definition: ServerDefinition, pins: ToolPins) -> AgreedOffer:
    """What of a list may be used. Pure."""
    verdict = judge_tools(pins.tools or {}, offer.tools, definition.uses)
    return AgreedOffer(msgspec.structs.replace(offer, tools=verdict.agreed, about=pins.about), verdict)


def kept_part(offer: ToolList, definition: ServerDefinition, folder: str, root: str) -> AgreedOffer | None:
    """What of a list that an earlier run kept may be used; None where nothing was agreed to. Reads one small file.

    `folder` is where pins are; `root` the project they may be for.
    """
    for project in dict.fromkeys((root, "")):
        try:
            pins = read_pins(pin_path(folder, pin_place(definition, project)), ToolPins)
        except PinsUnreadable:
            return None
        if pins is not None and pins.tools is not None:
            return agreed_offer(offer, definition, pins)
    return None
