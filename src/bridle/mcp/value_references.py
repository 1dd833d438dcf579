"""`${NAME}` and `${NAME:-otherwise}` in what settings say of a server: what they stand for is filled in at its launch.

The definition keeps the references: digests, lists and questions are about what is written, and a value is nowhere but
in the launch itself. `$${` is a plain `${`. Pure but for `ReferenceValues`, which looks values up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from bridle.mcp.server_definitions import ServerDefinition

_REFERENCE = re.compile(r"\$?\$\{([^}]*)\}")
_WORDS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NEVER = "BRIDLE_"
"""Nobody else's business: among them is what opens the credential store."""


class BadReference(ValueError):
    """What is no reference, or has no value. The text is the end of a sentence, without any value."""


class MissingValue(BadReference):
    """A name that nobody gave a value."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} has no value: set that variable, or store one with: bridle mcp secret {name}"
        )
        self.name = name


class ReferenceValues(Protocol):
    """Where values of references come from."""

    async def find(self, names: Collection[str], *, of_project: bool) -> Mapping[str, str]:
        """The values there are of these. `of_project`: a file of the workspace named them, so that it gets what its
        commands see and nothing else. Raises `BridleError` where stored ones cannot be looked at."""
        ...


class FilledLaunch(NamedTuple):
    """A definition as it is launched, and the values in it that no log may hold."""

    definition: ServerDefinition
    secrets: tuple[str, ...]


def reference_names(definition: ServerDefinition) -> tuple[str, ...]:
    """The names that its values refer to, in their order, each once. Raises `BadReference`."""
    return tuple(dict.fromkeys(name for text in _texts(definition) for name, _default in _references(text)))


async def filled_launch(definition: ServerDefinition, values: ReferenceValues | None) -> FilledLaunch:
    """The definition with what its references stand for. Raises `BadReference`, and what `find` raises."""
    names = reference_names(definition)
    found: Mapping[str, str] = {}
    if names and values is not None:
        found = await values.find(names, of_project=definition.of_project)
    try:
        launched = _filled(definition, found)
    except MissingValue as missing:
        if not definition.of_project:
            raise
        raise BadReference(
            f"{missing.name} has no value here: a server of a project gets what commands see. "
            "Name it in your own settings, where it may have more"
        ) from None
    return FilledLaunch(launched, (*launched.env.values(), *launched.headers.values(), *found.values()))


def _filled(definition: ServerDefinition, found: Mapping[str, str]) -> ServerDefinition:
    program, *words = definition.argv or ("",)
    return msgspec.structs.replace(
        definition,
        argv=(program, *(fill(word, found) for word in words)) if definition.argv else (),
        env={name: fill(value, found) for name, value in definition.env.items()},
        url=_address(definition.url, found),
        headers={name: _header(name, fill(value, found)) for name, value in definition.headers.items()},
    )


def fill(text: str, found: Mapping[str, str]) -> str:
    """The text with every reference filled. Raises `BadReference` for one that has neither value nor default."""
    if "${" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        name, default = _parts(match[1])
        if name in found:
            return found[name]
        if default is None:
            raise MissingValue(name)
        return default

    return _REFERENCE.sub(value, text)


def _address(url: str, found: Mapping[str, str]) -> str:
    address = fill(url, found)
    if address != url and not address.startswith(("http://", "https://")):
        raise BadReference("its url is no address that begins with http:// or https:// once it is filled")
    return address


def _header(name: str, value: str) -> str:
    if not value.isprintable():
        raise BadReference(f"its header {name} has a line break or another character no header can have")
    return value


def _texts(definition: ServerDefinition) -> Iterator[str]:
    yield from definition.argv[1:]
    yield from definition.env.values()
    yield definition.url
    yield from definition.headers.values()


def _references(text: str) -> Iterator[tuple[str, str | None]]:
    if "${" in text:
        for match in _REFERENCE.finditer(text):
            if not match[0].startswith("$$"):
                yield _parts(match[1])


def _parts(words: str) -> tuple[str, str | None]:
    """The name and what holds where it has no value."""
    match = _WORDS.fullmatch(words)
    if match is None:
        raise BadReference("${…} takes the name of a variable, or NAME:-otherwise; a plain ${ is written $${")
    if match[1].upper().startswith(_NEVER):
        raise BadReference(f"{match[1]} is Bridle's own, and no server gets it")
    return match[1], match[2]
