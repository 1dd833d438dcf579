"""The pins of servers: what each launches and what tools it has, as a person agreed to it. In their state folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from bridle.base.clock import Clock
from bridle.base.file_digests import FileDigests
from bridle.base.files import FileLock, private_folder, read_trusted, write_atomic
from bridle.mcp.launch_pins import LaunchPin
from bridle.mcp.pin_files import FORMAT, PinsUnreadable, ToolPins, pin_path, pins_folder, read_pins
from bridle.mcp.tool_lists import ListedTool
from bridle.mcp.tool_pins import tool_digests

MOST_TOOL_BYTES: Final = 8 << 20
_LOCK_S: Final = 5.0


class ServerPins(ToolPins, frozen=True, kw_only=True, omit_defaults=True):
    """What was agreed to of one server. `folder` is the project it is pinned for; empty where it is the same in all.

    `launch` at `launch_ms`: by a person where `launch_agreed`, else by its first use. `instead_of` is the digest that
    settings expect and that the person let this program stand for.
    """

    name: str
    folder: str = ""
    launch: LaunchPin | None = None
    launch_ms: int = 0
    launch_agreed: bool = False
    instead_of: str = ""


class PinStore:
    """The pins of a person. Several processes may write at once."""

    def __init__(self, state_folder: str, clock: Clock) -> None:
        self.folder = pins_folder(state_folder)
        self._digests = digests_path(state_folder)
        self._clock = clock

    def digests(self) -> FileDigests:
        """Digests of files, those known from before included; for one thread."""
        return FileDigests(self._digests, self._clock)

    def read(self, place: str) -> ServerPins | None:
        """What was agreed to; None where nothing was. Raises `PinsUnreadable`."""
        return read_pins(pin_path(self.folder, place), ServerPins)

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
        self,
        place: str,
        tools: Sequence[ListedTool],
        *,
        name: str,
        folder: str,
        agreed: bool,
        about: str,
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
            write_atomic(pin_path(self.folder, place), msgspec.json.encode((FORMAT, changed)))
            return changed

    def _tools_path(self, place: str) -> str:
        return os.path.join(self.folder, f"{place}.tools")


def digests_path(state_folder: str) -> str:
    """Where digests of programs are remembered."""
    return os.path.join(state_folder, "mcp", "digests.json")
