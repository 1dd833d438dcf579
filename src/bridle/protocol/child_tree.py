"""The children of a session: who was sent by whom, for what, and what came of it. One fold for every client and the
engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.protocol import events as e

_ID_CHARACTERS: Final = 4
"""Less of an id could be a name."""

ChildState: TypeAlias = Literal["working", "waiting", "done", "failed", "stopped"]


class ChildEntry(msgspec.Struct, kw_only=True):
    """An agent that was sent. `parent` is the invocation that sent it, None the main one; `path` the names from there.

    `label` is its name, with a number where another of that name works beside it. It is `waiting` while a person is
    asked. `usd` is None where a price is not known; what those came to that it sent is not in it. `why` says what
    became of one that is not done. One that works in a `worktree` of its own does so on `branch`, which is empty once
    it has ended and left nothing there.
    """

    invocation: str
    parent: str | None = None
    agent: str
    path: tuple[str, ...]
    label: str
    task: str
    state: ChildState = "working"
    steps: int = 0
    usd: float | None = 0.0
    provider: str = ""
    model: str = ""
    call_id: str = ""
    background: bool = False
    started_ms: int = 0
    ended_ms: int | None = None
    tools_used: tuple[str, ...] = ()
    stopped_by: str = ""
    why: str = ""
    worktree: str = ""
    branch: str = ""

    @property
    def is_over(self) -> bool:
        return self.state not in ("working", "waiting")


class ChildTree:
    """The fold. `entries` stand in the order in which they began."""

    def __init__(self) -> None:
        self.entries: dict[str, ChildEntry] = {}
        self._asked: dict[str, str] = {}
        """Which child each open question is of."""

    def take(self, envelope: e.Envelope) -> None:
        """One more event of the session, whoever's it is."""
        event = envelope.event
        if isinstance(event, e.ChildStarted):
            self._start(event, envelope)
        elif isinstance(event, e.ChildEnded):
            self._end(event, envelope.ts_ms)
        elif (child := self.entries.get(envelope.invocation or "")) is not None:
            self._take_own(child, event)

    @property
    def working(self) -> list[ChildEntry]:
        """Those that have not come to an end."""
        return [one for one in self.entries.values() if not one.is_over]

    @property
    def waited_for(self) -> list[ChildEntry]:
        """Those that work while whoever sent them, a turn or a command, waits."""
        return [one for one in self.working if self.beside(one.invocation) is None]

    def beside(self, invocation: str | None) -> ChildEntry | None:
        """The child that works in the background and of whose work this invocation is part; None for any other."""
        child = self.entries.get(invocation or "")
        while child is not None and not child.background:
            child = self.entries.get(child.parent or "")
        return child

    def in_worktree(self, invocation: str | None) -> bool:
        """Whether this invocation, or one it works for, has a worktree: then what it changes is not in the folder."""
        child = self.entries.get(invocation or "")
        while child is not None and not child.worktree:
            child = self.entries.get(child.parent or "")
        return child is not None

    def below(self, parent: str | None) -> Iterator[ChildEntry]:
        """Those that an invocation sent; None is the main one."""
        return (one for one in self.entries.values() if one.parent == parent)

    def walk(self, parent: str | None = None, depth: int = 0) -> Iterator[tuple[int, ChildEntry]]:
        """All of them, each with how deep it is, and behind it those that it sent."""
        for one in self.below(parent):
            yield depth, one
            yield from self.walk(one.invocation, depth + 1)

    def named(self, word: str) -> ChildEntry | None:
        """The child meant by a label, a name or the beginning of an id: one that works, or else the last."""
        labelled = next((one for one in self.working if one.label == word), None)
        latest = reversed(self.entries.values())
        return labelled or next((one for one in latest if one.agent == word or _has_id(one, word)), None)

    def _start(self, event: e.ChildStarted, envelope: e.Envelope) -> None:
        taken = {one.label for one in self.working}
        label, number = event.agent, 2
        while label in taken:
            label, number = f"{event.agent} {number}", number + 1
        self.entries[event.invocation] = ChildEntry(
            invocation=event.invocation,
            parent=envelope.invocation,
            agent=event.agent,
            path=(*envelope.agent_path, event.agent),
            label=label,
            task=event.task,
            provider=event.provider,
            model=event.model,
            call_id=event.call_id,
            background=event.background,
            started_ms=envelope.ts_ms,
            worktree=event.worktree,
            branch=event.branch,
        )

    def _end(self, event: e.ChildEnded, ts_ms: int) -> None:
        child = self.entries.get(event.invocation)
        if child is None:
            return
        stopped = event.stop in ("cancelled", "interrupted")
        child.state = "done" if event.ok else "stopped" if stopped else "failed"
        child.ended_ms, child.branch = ts_ms, event.branch
        child.steps = max(child.steps, event.steps)
        child.tools_used, child.stopped_by = event.tools_used, event.stopped_by
        if not event.ok:
            child.why = child.why or event.result

    def _take_own(self, child: ChildEntry, event: e.AnyEvent) -> None:
        match event:
            case e.StepEnded():
                child.steps += 1
            case e.CostIncremented(usd=usd, local=False):
                child.usd = None if usd is None or child.usd is None else child.usd + usd
            case e.PermissionRequested(call_id=question) | e.QuestionAsked(question_id=question):
                self._asked[question] = child.invocation
                child.state = "waiting"
            case e.PermissionDecided(call_id=question) | e.QuestionAnswered(question_id=question):
                if self._asked.pop(question, None) is not None:
                    child.state = "working"
            case e.TurnEnded(message=str(why)):
                child.why = why
            case _:
                pass


def _has_id(child: ChildEntry, word: str) -> bool:
    bare = word.removeprefix("inv_")
    return len(bare) >= _ID_CHARACTERS and child.invocation.removeprefix("inv_").startswith(bare)
