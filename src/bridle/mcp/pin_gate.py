"""The gate before one server: whether it may start, and which of its tools may be used, by what was agreed to.

The first use of a server of the person's own settings agrees for them: they wrote it there. From then on another
program, script, package, or description of a tool waits for a person. What would run code of the workspace, and is
named by the person's own settings, waits for them the first time too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from bridle.base.text.phrases import counted
from bridle.mcp.launch_pins import (
    LaunchPin,
    is_of_folder,
    launch_changes,
    launch_pin,
    launch_text,
    unpinned_words,
    with_filled,
)
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_pins import (
    PinStore,
    PinsUnreadable,
    ServerPins,
    ToolVerdict,
    agreed_offer,
    foreign_root,
    kept_part,
    pin_place,
    tool_digests,
    tools_text,
)
from bridle.mcp.server_state import PinState
from bridle.mcp.tool_lists import ListedTool, ToolList
from bridle.protocol.errors import sentence

NOBODY_AGREED: Final = "nobody has agreed to what it starts"
_SHORT: Final = 12


class PinReview(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a person. `before` is what was agreed to at `agreed_ms`, as text; None where nothing was.

    `reason` and `data` are the notice of it. `launch` or `tools` are pinned by a yes, just as they were shown.
    """

    subject: str
    after: str
    before: str | None = None
    agreed_ms: int | None = None
    reason: str = ""
    data: Mapping[str, str] = {}
    launch: LaunchPin | None = None
    tools: tuple[ListedTool, ...] = ()

    @property
    def message(self) -> str:
        return sentence(self.reason, self.data)


class PinGate:
    """The gate before a server that is started in the folder `cwd` with the variables `env`. What reads files says so:
    it is for a thread beside."""

    def __init__(
        self, definition: ServerDefinition, *, cwd: str, env: Mapping[str, str], store: PinStore
    ) -> None:
        self._definition = definition
        self.launched = definition
        """The same with its values filled in, as it is started."""
        self._cwd = cwd
        self._env = env
        self._store = store
        self._root = foreign_root(cwd, env)
        self._folder = ""
        self._unkept: ServerPins | None = None
        self.state: PinState = ""
        self.unpinned = ""
        self.launch_review: PinReview | None = None
        self.tools_review: PinReview | None = None
        self.verdict = ToolVerdict()

    # What it launches

    def check_launch(self) -> PinReview | None:
        """What keeps it from being started; None where it may. Reads files: programs may be large."""
        self.launch_review = self._checked_launch() if self._is_pinned else None
        return self.launch_review

    def note_unpinned(self) -> None:
        """Finds out what of it is not pinned, where nobody has looked at the launch yet. Reads files."""
        if not self.unpinned:
            self.unpinned = unpinned_words(self._definition, cwd=self._cwd, env=self._env)

    def unseen_launch(self) -> PinReview | None:
        """What of this launch waits for a person, where nothing is to be agreed to by being used; None where nothing
        does. Reads files, and keeps nothing."""
        if not self._is_pinned:
            return None
        found = self._look()
        try:
            pins = self._store.read(self._place)
        except PinsUnreadable as problem:
            return self._review(found, None, str(problem))
        if self._mismatches(found, pins):
            return self._review(found, pins)
        if pins is None or pins.launch is None:
            return None if self._definition.of_project else self._review(found, None, NOBODY_AGREED)
        return self._changed(found, pins, pins.launch)

    def launch_shown(self) -> PinReview | None:
        """The launch as it is now, beside what was agreed to, to be pinned anew; None for what is not started here and
        has an address of its own."""
        if not self._is_pinned:
            return None
        review = self._review(self._look(), self._pins_or_none())
        if review.before == review.after:  # there is no change to show, so all of it is
            return msgspec.structs.replace(review, before=None, agreed_ms=None)
        return review

    def agree_launch(self, review: PinReview) -> None:
        """A person saw this launch and agreed. Raises OSError where that cannot be kept."""
        assert review.launch is not None, "it is about a launch"
        self._store.pin_launch(
            self._place,
            review.launch,
            name=self._definition.name,
            folder=self._folder,
            agreed=True,
            instead_of=self._instead_of(review.launch),
        )
        self.launch_review = None

    @property
    def _is_pinned(self) -> bool:
        """Whether there is more to agree to than what is written: a program, or an address with values in it."""
        return self._definition.transport == "stdio" or self.launched.url != self._definition.url

    def _checked_launch(self) -> PinReview | None:
        found = self._look()
        try:
            pins = self._store.read(self._place)
        except PinsUnreadable as problem:
            self.state = "changed"
            return self._review(found, None, str(problem))
        pinned = pins.launch if pins is not None else None
        if self._mismatches(found, pins):
            self.state = "mismatch"
            return self._review(found, pins)
        if pins is None or pinned is None:
            return self._first_launch(found)
        if (review := self._changed(found, pins, pinned)) is not None:
            self.state = "changed"
            return review
        self._store.learn_launch(self._place, with_filled(pinned, found))
        self.state = "agreed" if pins.launch_agreed else "first use"
        return None

    def _changed(self, found: LaunchPin, pins: ServerPins, pinned: LaunchPin) -> PinReview | None:
        changes = launch_changes(pinned, found)
        if not changes:
            return None
        return self._review(found, pins, f"not as it was when it was pinned: {', '.join(changes)}")

    def _first_launch(self, found: LaunchPin) -> PinReview | None:
        if self._folder and not self._definition.of_project:
            self.state = "new"
            return self._review(
                found, None, "it would run code of this folder, and nobody has agreed to that"
            )
        if not found.program and not found.is_address:  # there is nothing to agree to
            return None
        with suppress(OSError):  # where nothing can be kept every use is a first one
            self._store.pin_launch(
                self._place, found, name=self._definition.name, folder=self._folder, agreed=False
            )
        self.state = "first use"
        return None

    def _look(self) -> LaunchPin:
        found = launch_pin(self._definition, self.launched, cwd=self._cwd, env=self._env)
        self.unpinned = found.unpinned
        self._folder = self._root if self._root and is_of_folder(found, self._root) else ""
        return found

    def _mismatches(self, found: LaunchPin, pins: ServerPins | None) -> bool:
        """Whether settings expect another program, and no person let this one stand for it."""
        expected = self._definition.sha256
        if not expected or found.sha256 == expected:
            return False
        if pins is None or pins.launch is None or pins.instead_of != expected:
            return True
        return not pins.launch.sha256 == found.sha256 != ""

    def _instead_of(self, found: LaunchPin) -> str:
        expected = self._definition.sha256
        return expected if expected and found.sha256 != expected else ""

    def _review(self, found: LaunchPin, pins: ServerPins | None, problem: str = "") -> PinReview:
        name, expected = self._definition.name, self._definition.sha256
        pinned = pins.launch if pins is not None else None
        if pinned is not None:
            found = with_filled(pinned, found)
        data = {"name": name, "problem": problem}
        reason = "MCPServerChanged"
        if self._mismatches(found, pins):
            reason = "MCPServerSHA256Mismatch"
            data = {
                "name": name,
                "path": found.program or self._definition.argv[0],
                "expected": expected[:_SHORT],
                "found": found.sha256[:_SHORT] or "nothing that can be read",
            }
        expects = f"settings expect sha256 {expected}\n" if self._instead_of(found) else ""
        return PinReview(
            subject=f"MCP server {name}",
            after=launch_text(found) + expects,
            before=None if pinned is None else launch_text(pinned),
            agreed_ms=None if pins is None or pinned is None else pins.launch_ms,
            reason=reason,
            data=data,
            launch=found,
        )

    # What it offers

    def agreed_part(self, offer: ToolList | None) -> ToolList | None:
        """What of a list that was kept may be used; None where nothing was agreed to. Reads one small file."""
        found = None
        if offer is not None:
            found = kept_part(offer, self._definition, self._store, self._root)
        if found is None:
            return None
        self.verdict = found.verdict
        return found.offer

    def judge_offer(self, offer: ToolList) -> ToolList:
        """What of a list may be used; what may not is in `tools_review`. The first list is pinned."""
        self.tools_review, self.verdict = None, ToolVerdict()
        name = self._definition.name
        try:
            pins = self._store.read(self._place)
            if pins is None or pins.tools is None:
                pins = self._unkept or self._pin_tools(offer.tools, offer.about, agreed=False)
        except PinsUnreadable:
            pins = ServerPins(name=name, tools={})
        except OSError:  # where nothing can be kept every run begins with a first list
            pins = self._unkept = ServerPins(name=name, tools=tool_digests(offer.tools), about=offer.about)
        judged = self._filtered(offer, pins)
        if self.verdict.held_back:
            self.tools_review = self._tools_review(offer, pins)
        elif not self.state:
            self.state = "agreed" if pins.tools_agreed else "first use"
        return judged

    def agree_tools(self, review: PinReview) -> None:
        """A person saw these tools and agreed. Raises OSError where that cannot be kept."""
        self._pin_tools(review.tools, review.data.get("about", ""), agreed=True)
        self.tools_review = None

    def _pin_tools(self, tools: tuple[ListedTool, ...], about: str, *, agreed: bool) -> ServerPins:
        return self._store.pin_tools(
            self._place, tools, name=self._definition.name, folder=self._folder, agreed=agreed, about=about
        )

    def _filtered(self, offer: ToolList, pins: ServerPins) -> ToolList:
        judged = agreed_offer(offer, self._definition, pins)
        self.verdict = judged.verdict
        return judged.offer

    def _tools_review(self, offer: ToolList, pins: ServerPins) -> PinReview:
        verdict = self.verdict
        named = {*verdict.held_back, *verdict.gone}
        before = [tool for tool in self._store.agreed_tools(self._place, pins) if tool.name in named]
        waiting = tuple(tool for tool in offer.tools if tool.name in set(verdict.held_back))
        sorts = (("changed", verdict.changed), ("new", verdict.new), ("gone", verdict.gone))
        which = "; ".join(f"{sort}: {', '.join(names)}" for sort, names in sorts if names)
        return PinReview(
            subject=f"What MCP server {self._definition.name} says of its tools",
            after=tools_text(waiting),
            before=tools_text(before) if pins.tools else None,
            agreed_ms=pins.tools_ms if pins.tools else None,
            reason="MCPToolsChanged",
            data={
                "name": self._definition.name,
                "count": counted(len(verdict.held_back), "tool"),
                "problem": which,
                "about": offer.about,
            },
            tools=waiting,
        )

    # Where

    @property
    def _place(self) -> str:
        return pin_place(self._definition, self._folder)

    def _pins_or_none(self) -> ServerPins | None:
        try:
            return self._store.read(self._place)
        except PinsUnreadable:
            return None
