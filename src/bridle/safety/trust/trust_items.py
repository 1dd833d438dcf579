"""Something of a project that wants to be obeyed: what it is now, whether a person agreed to it, how they are asked.

item = launch_item(kind, …) or a `TrustItem` of a file
item.is_trusted(approvals), item.question(approvals, now_ms), item.approve(approvals)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from bridle.protocol.errors import CommandRefused
from bridle.safety.trust.approvals import Approvals, TrustedKind, content_digest
from bridle.safety.trust.launches import launch_of
from bridle.safety.trust.trust_questions import ApprovedBefore, ReviewedText, file_question, launch_question

if TYPE_CHECKING:
    from bridle.protocol.questions import TrustQuestion
    from bridle.safety.trust.launches import ProgramLaunch

State: TypeAlias = Literal["trusted", "changed", "new"]


class TrustItem(msgspec.Struct, frozen=True, kw_only=True):
    """One such thing, as it is now: a file, or a program to start."""

    kind: TrustedKind
    root: str
    path: str
    shown: str
    digest: str
    data: bytes = b""
    reviewed: ReviewedText | None = None
    launch: ProgramLaunch | None = None
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
            before = ApprovedBefore(approved_ms=last.approved_ms, text=approvals.text_of(last))
        reviewed = msgspec.structs.replace(self.reviewed, before=before)
        return file_question(reviewed, sha256=self.digest, now_ms=now_ms)

    def approve(self, approvals: Approvals) -> None:
        """A person has seen all of it and said yes. The bytes they saw count, whatever the file holds by now."""
        text = self.data if self.launch is None and not self.private else None
        approvals.add(self.path, self.digest, kind=self.kind, root=self.root, text=text)


def server_launch(server: Mapping[str, Any], *, root: str, cwd: str, search_path: str) -> ProgramLaunch:
    """What an MCP server of the project's settings would run in a session of the folder `cwd`. It is no line for a
    shell."""
    env = cast("Mapping[str, str]", server.get("env") or {})
    return launch_of(
        _words(server),
        root=root,
        cwd=os.path.join(cwd, server.get("cwd") or ""),
        env=env,
        search_path=env.get("PATH", search_path),
    )


def launch_item(kind: TrustedKind, root: str, name: str, launch: ProgramLaunch, when: str) -> TrustItem:
    return TrustItem(
        kind=kind, root=root, path=name, shown=name, digest=launch.digest, launch=launch, when=when
    )


def secrets_item(root: str, path: str, data: bytes, names: Iterable[str], text: str) -> TrustItem:
    """The secrets file of a project; a person is shown the names in it and no value."""
    reviewed = ReviewedText(
        shown=path, text=text, kind="config", wishes=tuple(f"give the key {name}" for name in names)
    )
    digest = content_digest(data)
    return TrustItem(
        kind="config", root=root, path=path, shown=path, digest=digest, reviewed=reviewed, private=True
    )


def refuse_unseen(approvals: Approvals, wanted: Iterable[tuple[str, TrustItem | None]]) -> None:
    """For `--require-trust`: refuses to begin while anything waits for a person. None is what nobody can agree to."""
    for name, item in wanted:
        if item is None or not item.is_trusted(approvals):
            raise CommandRefused("NonInteractiveAckRefused", kind=name)


def _words(entry: Mapping[str, Any]) -> tuple[str, ...]:
    command: Any = entry["command"]
    more = tuple(cast("Sequence[str]", entry.get("args") or ()))
    return (command, *more) if isinstance(command, str) else (*cast("Sequence[str]", command), *more)
