"""Something of a project that wants to be obeyed: what it is now, whether a person agreed to it, how they are asked.

item = hook_item(path, …) or launch_item(kind, …) or a `TrustItem` of a file
item.is_trusted(approvals), item.question(approvals, now_ms), item.approve(approvals)
programs = Programs(approvals, root=…, ask=…, notice=…)      # one consent per launch, for hooks and servers
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from bridle.base.files import read_limited
from bridle.engine.ports import AskPerson
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Notice
from bridle.safety.trust.approvals import Approvals, content_digest
from bridle.safety.trust.lockfile import Kind
from bridle.safety.trust.trust_questions import Before, Reviewed, file_question, launch_question

if TYPE_CHECKING:
    from bridle.protocol.questions import TrustQuestion
    from bridle.safety.trust.launches import Launch

State: TypeAlias = Literal["trusted", "changed", "new"]


class TrustItem(msgspec.Struct, frozen=True, kw_only=True):
    """One such thing, as it is now: a file, or a program to start."""

    kind: Kind
    root: str
    path: str
    shown: str
    digest: str
    data: bytes = b""
    reviewed: Reviewed | None = None
    launch: Launch | None = None
    when: str = "Bridle starts"
    private: bool = False
    """Its content stays where it is: no copy is kept, and no lock file that travels names it."""

    def is_trusted(self, approvals: Approvals) -> bool:
        return approvals.holds(self.digest, kind=self.kind, root=self.root, path=self.path)

    def state(self, approvals: Approvals) -> State:
        if self.is_trusted(approvals):
            return "trusted"
        return "new" if approvals.last(kind=self.kind, root=self.root, path=self.path) is None else "changed"

    def question(self, approvals: Approvals, now_ms: int) -> TrustQuestion:
        """What a person is shown before they agree, compared with what they agreed to last."""
        last = approvals.last(kind=self.kind, root=self.root, path=self.path)
        if self.launch is not None:
            return launch_question(
                self.launch,
                kind=self.kind,
                name=self.shown,
                when=self.when,
                trusted_ms=None if last is None else last.approved_ms,
                now_ms=now_ms,
            )
        assert self.reviewed is not None, "what is no program is a file"
        before = None
        if last is not None:
            before = Before(approved_ms=last.approved_ms, text=approvals.text_of(last))
        reviewed = msgspec.structs.replace(self.reviewed, before=before)
        return file_question(reviewed, sha256=self.digest, now_ms=now_ms)

    def approve(self, approvals: Approvals) -> None:
        """A person has seen all of it and said yes. The bytes they saw count, whatever the file holds by now."""
        text = self.data if self.launch is None and not self.private else None
        approvals.add(self.path, self.digest, kind=self.kind, root=self.root, text=text)


class Programs:
    """Consent to programs that a project wants to start: each by itself, never a folder at once."""

    def __init__(
        self, approvals: Approvals, *, root: str, ask: AskPerson, notice: Callable[[Notice], object]
    ) -> None:
        self._approvals = approvals
        self._root = root
        self._ask = ask
        self._notice = notice

    async def may_start(
        self, kind: Literal["hook", "mcp_server", "plugin"], name: str, launch: Launch, *, when: str
    ) -> bool:
        """Whether a person agreed to this very launch, asked now if need be.

        `name` is the setting that wants it; `when` goes on after "wants to run a program when". Raises
        `CommandRefused` where nobody can be asked: a program that somebody relies on does not go missing in silence.
        """
        item = launch_item(kind, self._root, name, launch, when)
        if item.is_trusted(self._approvals):
            return True
        from bridle.protocol.questions import TrustAnswer

        changed = item.state(self._approvals) == "changed"
        answer = await self._ask(f"trust-{item.digest[:16]}", item.question(self._approvals, now_ms=0))
        if answer is None:
            if changed:
                raise CommandRefused("HookHashChanged", path=launch.shown)
            raise CommandRefused("NonInteractiveAckRefused", kind=kind.replace("_", " "))
        if isinstance(answer, TrustAnswer) and answer.use:
            item.approve(self._approvals)
            return True
        message = f"{name} is not trusted here and was not started."
        self._notice(Notice(reason="NotTrusted", message=message, data={"path": name, "sha256": item.digest}))
        return False


def server_launch(server: Mapping[str, Any], *, root: str, search_path: str) -> Launch:
    """What an MCP server of the project's settings would run."""
    from bridle.safety.trust.launches import launch_of

    env = cast("Mapping[str, str]", server.get("env") or {})
    return launch_of(_words(server), root=root, cwd=root, env=env, search_path=search_path)


def launch_item(kind: Kind, root: str, name: str, launch: Launch, when: str) -> TrustItem:
    return TrustItem(
        kind=kind, root=root, path=name, shown=name, digest=launch.digest, launch=launch, when=when
    )


def hook_item(path: str, root: str, command: str, when: str) -> Iterator[TrustItem]:
    from bridle.safety.hooks.trusted import MAX_BYTES

    try:
        contents = read_limited(path, MAX_BYTES)
    except OSError:
        return
    shown = os.path.relpath(path, root)
    binary = b"\0" in contents.data
    text = (
        f"(a program of {len(contents.data)} bytes)" if binary else contents.data.decode("utf-8", "replace")
    )
    yield TrustItem(
        kind="hook",
        root=root,
        path=shown,
        shown=shown,
        digest=content_digest(contents.data),
        data=contents.data,
        reviewed=Reviewed(shown=shown, text=text, kind="hook", runs=command, when=when),
    )


def _words(entry: Mapping[str, Any]) -> str | tuple[str, ...]:
    command: Any = entry["command"]
    more = tuple(cast("Sequence[str]", entry.get("args") or ()))
    if isinstance(command, str):
        return (command, *more) if more else command
    return (*cast("Sequence[str]", command), *more)
