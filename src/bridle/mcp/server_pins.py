"""The pins of servers in the user's state folder: what each starts and what tools it has, as the user approved it.

Each server has one small file; the text of its tools stands beside it, so that a change can be shown. A file that
cannot be read approves nothing and is not the same as none: the user is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.files import FileLock, private_folder, read_trusted, repository_root, write_atomic
from bridle.base.fs.paths import is_beneath
from bridle.mcp.launch_pins import LaunchPin
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.tool_lists import ListedTool, ToolList


class ToolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What of a list was agreed to, and the names of what was not: `changed` and `new` ones wait for a person.
    `gone` are those that were agreed to and are not offered."""

    agreed: tuple[ListedTool, ...] = ()
    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def held_back(self) -> tuple[str, ...]:
        return (*self.changed, *self.new)


def judge_tools(
    pinned: Mapping[str, str], listed: Iterable[ListedTool], uses: Callable[[str], bool] = lambda _name: True
) -> ToolVerdict:
    """What of a list has the digests that were agreed to. Of tools that nobody uses nothing is said."""
    tools = {tool.name: tool for tool in listed}
    same = [name for name, tool in tools.items() if pinned.get(name) == tool.digest()]
    others = [name for name in tools if name not in set(same) and uses(name)]
    return ToolVerdict(
        agreed=tuple(tools[name] for name in same),
        changed=tuple(name for name in others if name in pinned),
        new=tuple(name for name in others if name not in pinned),
        gone=tuple(name for name in pinned if name not in tools and uses(name)),
    )


def tool_digests(tools: Iterable[ListedTool]) -> dict[str, str]:
    return {tool.name: tool.digest() for tool in tools}


def tools_text(tools: Iterable[ListedTool]) -> str:
    """Tools for people, so that two lists can be compared line by line: all that the model would be told, as it is."""
    return "".join(f"{line}\n" for tool in sorted(tools, key=lambda one: one.name) for line in _lines(tool))


def _lines(tool: ListedTool) -> Iterator[str]:
    yield f"tool {tool.name}"
    hints = tool.hints
    if hints.title:
        yield f"  title: {hints.title}"
    for line in tool.description.split("\n"):
        yield f"  says: {line}".rstrip()
    claims = {
        "changes nothing": hints.read_only,
        "can destroy": hints.destructive,
        "may be repeated": hints.idempotent,
        "reaches out": hints.open_world,
    }
    for claim, value in claims.items():
        if value is not None:
            yield f"  claims: {claim}: {'yes' if value else 'no'}"
    schema = msgspec.json.format(msgspec.json.encode(tool.input_schema, order="sorted"), indent=2).decode()
    for line in schema.split("\n"):
        yield f"  input: {line}"


_MOST_BYTES: Final = 1 << 20
_FORMAT: Final = 1
MOST_TOOL_BYTES: Final = 8 << 20
_LOCK_S: Final = 5.0


class ServerPins(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was approved of one server. `folder` is the project it is pinned for; empty if it is the same in all.

    `launch` at `launch_ms`: by the user if `launch_agreed`, else by its first use. `instead_of` is the digest that
    settings expect and that the user let this program stand for. `tools` are digests by name, None before the first
    list; `about` is what the server said it is for.
    """

    name: str
    folder: str = ""
    launch: LaunchPin | None = None
    launch_ms: int = 0
    launch_agreed: bool = False
    instead_of: str = ""
    tools: dict[str, str] | None = None
    tools_ms: int = 0
    tools_agreed: bool = False
    about: str = ""


class PinsUnreadable(Exception):
    """A file of pins cannot be read; the message is the end of a sentence."""


class PinStore:
    """The pins of a person. Several processes may write at once."""

    def __init__(self, state_folder: str, clock: Clock) -> None:
        self.folder = os.path.join(state_folder, "mcp", "pins")
        self._clock = clock

    def read(self, place: str) -> ServerPins | None:
        """What was agreed to; None where nothing was. Raises `PinsUnreadable`."""
        try:
            data = read_trusted(pin_path(self.folder, place), _MOST_BYTES).data
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise PinsUnreadable(f"its pins cannot be read ({problem.strerror})") from None
        try:
            version, pins = msgspec.json.decode(data, type=tuple[int, ServerPins])
        except msgspec.DecodeError:
            raise PinsUnreadable("its pins are damaged") from None
        if version != _FORMAT:
            raise PinsUnreadable("its pins are of another version of Bridle")
        return pins

    def everything(self) -> Iterator[tuple[str, ServerPins]]:
        """Every pin that can be read, with its place, by the name of its server."""
        found: list[tuple[str, ServerPins]] = []
        with suppress(OSError):
            for name in os.listdir(self.folder):
                place, end = os.path.splitext(name)
                with suppress(PinsUnreadable):
                    if end == ".json" and (pins := self.read(place)) is not None:
                        found.append((place, pins))
        yield from sorted(found, key=lambda one: (one[1].name, one[0]))

    def agreed_tools(self, place: str, pins: ServerPins) -> tuple[ListedTool, ...]:
        """The words of the tools that were agreed to, as far as a faithful copy of them is left."""
        try:
            data = read_trusted(self._tools_path(place), MOST_TOOL_BYTES).data
            kept = msgspec.json.decode(data, type=tuple[ListedTool, ...])
        except (OSError, msgspec.DecodeError):
            return ()
        return tuple(tool for tool in kept if (pins.tools or {}).get(tool.name) == tool.digest())

    def pin_launch(
        self, place: str, launch: LaunchPin, *, name: str, folder: str, agreed: bool, instead_of: str = ""
    ) -> ServerPins:
        """Pins a launch; what else is pinned there stays. Raises OSError."""

        def change(pins: ServerPins) -> ServerPins:
            return msgspec.structs.replace(
                pins,
                launch=launch,
                launch_ms=self._clock.now_ms(),
                launch_agreed=agreed,
                instead_of=instead_of,
            )

        return self._change(place, ServerPins(name=name, folder=folder), change)

    def learn_launch(self, place: str, launch: LaunchPin) -> None:
        """Adds to a pin what has become known of it; when and by whom it was agreed to stays."""
        with suppress(OSError, PinsUnreadable):
            if (pins := self.read(place)) is not None and pins.launch != launch:
                self._change(place, pins, lambda now: msgspec.structs.replace(now, launch=launch))

    def pin_tools(
        self, place: str, tools: Sequence[ListedTool], *, name: str, folder: str, agreed: bool, about: str
    ) -> ServerPins:
        """Pins tools beside those that were: one that comes back as it was needs no new word. Raises OSError."""

        def change(pins: ServerPins) -> ServerPins:
            kept = {tool.name: tool for tool in (*self.agreed_tools(place, pins), *tools)}
            data = msgspec.json.encode(tuple(kept[one] for one in sorted(kept)))
            if len(data) <= MOST_TOOL_BYTES:
                write_atomic(self._tools_path(place), data)
            return msgspec.structs.replace(
                pins,
                tools={**(pins.tools or {}), **tool_digests(tools)},
                tools_ms=self._clock.now_ms(),
                tools_agreed=agreed,
                about=about,
            )

        return self._change(place, ServerPins(name=name, folder=folder), change)

    def forget(self, place: str) -> None:
        """Drops a pin: the next use of the server is a first one. Raises OSError."""
        for path in (pin_path(self.folder, place), self._tools_path(place)):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _change(
        self, place: str, fresh: ServerPins, change: Callable[[ServerPins], ServerPins]
    ) -> ServerPins:
        private_folder(self.folder)
        with FileLock(os.path.join(self.folder, "lock")) as lock:
            if not lock.acquire(timeout_s=_LOCK_S):
                raise TimeoutError(None, "another Bridle keeps the pins locked")
            try:
                pins = self.read(place) or fresh
            except PinsUnreadable:  # what else was agreed to is not known any more: that is no first use
                pins = msgspec.structs.replace(fresh, tools={})
            changed = change(pins)
            write_atomic(pin_path(self.folder, place), msgspec.json.encode((_FORMAT, changed)))
            return changed

    def _tools_path(self, place: str) -> str:
        return os.path.join(self.folder, f"{place}.tools")


def pin_place(definition: ServerDefinition, folder: str = "") -> str:
    """Return the name under which the pins of a server are stored. It depends on its name, command and address. Values
    of variables and headers are no part of it: they change. `folder` is the project of a server that runs its code."""
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


def foreign_root(cwd: str, env: Mapping[str, str]) -> str:
    """Return the project around a folder; empty if that is the user's home or above it."""
    root = os.path.realpath(repository_root(os.path.realpath(cwd)))
    home = env.get("HOME", "")
    return "" if home and is_beneath(os.path.realpath(home), root) else root


class AgreedOffer(msgspec.Struct, frozen=True):
    """The approved part of a list, and the verdict on the rest."""

    offer: ToolList
    verdict: ToolVerdict


def agreed_offer(offer: ToolList, definition: ServerDefinition, pins: ServerPins) -> AgreedOffer:
    """Return what of a list may be used. Pure."""
    verdict = judge_tools(pins.tools or {}, offer.tools, definition.uses)
    return AgreedOffer(msgspec.structs.replace(offer, tools=verdict.agreed, about=pins.about), verdict)


def kept_part(
    offer: ToolList, definition: ServerDefinition, store: PinStore, root: str
) -> AgreedOffer | None:
    """Return what of a list of an earlier run may be used; None if nothing was approved. `root` is the project that the
    pins may be for. Reads one small file."""
    for project in dict.fromkeys((root, "")):
        try:
            pins = store.read(pin_place(definition, project))
        except PinsUnreadable:
            return None
        if pins is not None and pins.tools is not None:
            return agreed_offer(offer, definition, pins)
    return None
