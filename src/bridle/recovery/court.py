"""The crash court: what may or may not have happened is put to a person, call by call, before anything else runs.

A question and its answer are events like any others, so who said what stands in the log; the judgement is the call's
one result. Nobody's silence is a judgement: a call that nobody judged stays open, and nothing goes on without it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.fs.files import read_limited
from bridle.base.git.git_calls import GitRefused
from bridle.base.git.git_repository import Commit, GitFailed, Repository
from bridle.base.process.escapees import left_behind
from bridle.base.text.terminal_text import visible
from bridle.base.threads import to_the_end
from bridle.engine.conversation import OpenCall
from bridle.engine.journal import Journal
from bridle.engine.open_questions import GivenAnswer
from bridle.engine.resume import Judgement, journal_of, judged, orphans
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Notice, UndoApplied
from bridle.protocol.questions import OrphanAnswer, OrphanQuestion
from bridle.shell.command_facts import Understanding

LOOK_S = 5.0
"""Longer than this nobody waits for a look; what was found until then is shown."""
_MOST_LINES = 8
_COMPARED_BYTES = 1 << 20
_SHORT_COMMIT = 7
_TICK_S = 0.01
"""File systems read a clock that stands still between ticks: what was just written may look this much older."""
_NOTHING = "nothing here shows whether it happened"
_ITS_OWN_WORDS = frozenset(
    {"--force", "-f", "--force-with-lease", "-u", "--set-upstream", "--tags", "-q", "-v"}
)


class InterruptedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that stopped without an end, and the means to look at what it left.

    `created_ms` is when its session was made, `stopped_ms` when it was last heard of. `understand` reads a command in a
    folder, `repository_at` gives the repository around one, `files_of_patch` the files a patch names. `folders` are
    those of agents that were sent, by invocation.
    """

    cwd: str
    folders: Mapping[str, str] = {}
    created_ms: int
    stopped_ms: int
    understand: Callable[[str, str], Understanding]
    repository_at: Callable[[str], Repository]
    files_of_patch: Callable[[str], tuple[str, ...]]


async def findings(call: OpenCall, run: InterruptedRun) -> list[str]:
    """What is there now, in short lines; one that says so where nothing can be found out."""
    found: list[str] = []
    there = msgspec.structs.replace(run, cwd=run.folders.get(call.invocation.id or "", run.cwd))

    async def look() -> None:
        async for line in _looked(call, there):
            found.append(visible(line, newlines=False))  # noqa: PERF401  kept also when time runs out

    try:
        async with asyncio.timeout(LOOK_S):
            await look()
    except TimeoutError:
        found.append("looking took too long")
    return found[:_MOST_LINES] or [_NOTHING]


async def _looked(call: OpenCall, run: InterruptedRun) -> AsyncIterator[str]:
    given, since_s = input_of(call), call.started_ms / 1000
    match call.call.tool, given:
        case "write_file", {"path": str(path), "content": str(content)}:
            yield _of_content(run.cwd, path, content, since_s)
        case "edit_file", {"path": str(path), "old_string": str(old), "new_string": str(new)}:
            yield _of_edit(run.cwd, path, old, new, since_s)
        case "apply_patch", {"patch": str(patch)}:
            for path in run.files_of_patch(patch):
                yield _of_time(run.cwd, path, since_s)
        case "bash", {"command": str(command)}:
            async for line in _of_command(command, given, run, since_s):
                yield line
        case _:
            return


def input_of(call: OpenCall) -> dict[str, Any]:
    return call.started.input if call.started is not None else call.call.input


# Files


def _of_content(cwd: str, path: str, content: str, since_s: float) -> str:
    text = _text(cwd, path)
    if text == content:
        return f"{path} holds exactly this: it looks done"
    return _of_time(cwd, path, since_s)


def _of_edit(cwd: str, path: str, old: str, new: str, since_s: float) -> str:
    text = _text(cwd, path)
    if text is not None and new and new in text and (old in new or old not in text):
        return f"{path} holds the new text: it looks done"
    if text is not None and old in text and (not new or new not in text):
        return f"{path} holds the old text: it looks not done"
    return _of_time(cwd, path, since_s)


def _of_time(cwd: str, path: str, since_s: float) -> str:
    try:
        changed_s = os.stat(os.path.join(cwd, path)).st_mtime
    except OSError:
        return f"{path} is not there"
    when = _hours(round(changed_s * 1000))
    if changed_s >= since_s - _TICK_S:
        return f"{path} was changed at {when}, after this began"
    return f"{path} was last changed at {when}, before this began: it looks not done"


def _text(cwd: str, path: str) -> str | None:
    try:
        found = read_limited(os.path.join(cwd, path), _COMPARED_BYTES)
        return None if found.truncated else found.data.decode()
    except (OSError, ValueError):
        return None


# Commands


async def _of_command(
    command: str, given: Mapping[str, Any], run: InterruptedRun, since_s: float
) -> AsyncIterator[str]:
    workdir = given.get("workdir")
    cwd = os.path.join(run.cwd, workdir) if isinstance(workdir, str) else run.cwd
    for process in await asyncio.to_thread(left_behind, cwd, since_s=since_s - 2):
        yield f"process {process.pid} still runs: {process.command}"
    parts = (await asyncio.to_thread(run.understand, command, cwd)).parts
    for part in parts:
        words = [word for word in part.words if word is not None]
        if words[:1] == ["git"] and "commit" in words:
            yield await _committed(run, cwd, since_s)
        elif words[:1] == ["git"] and "push" in words:
            yield await _pushed(run, cwd, words[words.index("push") + 1 :])
        for use in part.uses:
            if use.path is not None and not use.pattern and use.access in ("write", "delete"):
                yield _of_use(cwd, use.path, use.access, since_s)


def _of_use(cwd: str, path: str, access: str, since_s: float) -> str:
    shown = os.path.relpath(path, cwd) if path.startswith(f"{cwd}/") else path
    if access == "delete":
        return f"{shown} is still there" if os.path.lexists(os.path.join(cwd, path)) else f"{shown} is gone"
    return _of_time(cwd, shown, since_s)


async def _committed(run: InterruptedRun, cwd: str, since_s: float) -> str:
    head = await _asked(run, cwd, lambda repository: repository.commit("HEAD"))
    if head is None:
        return "there is no commit here"
    when = _hours(head.made_s * 1000)
    if head.made_s >= int(since_s):
        return f"HEAD is at {head.name[:_SHORT_COMMIT]}, made at {when}, after this began: it looks done"
    return f"HEAD is at {head.name[:_SHORT_COMMIT]}, made at {when}, before this began: it looks not done"


async def _pushed(run: InterruptedRun, cwd: str, words: list[str]) -> str:
    """Compares what is here with the remote as this machine last saw it; nothing is sent or fetched."""
    named = [word for word in words if word not in _ITS_OWN_WORDS and not word.startswith("-")]
    remote = named[0] if named else "origin"
    source, _, target = (named[1] if len(named) > 1 else "").partition(":")
    branch = target or source.lstrip("+") or await _asked(run, cwd, lambda repository: repository.branch())
    if not branch:
        return _NOTHING
    there = await _asked(run, cwd, lambda repository: repository.commit(f"refs/remotes/{remote}/{branch}"))
    here = await _asked(run, cwd, lambda repository: repository.commit(source.lstrip("+") or "HEAD"))
    name = f"{remote}/{branch}"
    if there is None or here is None:
        return f"{name} was never seen from here: it looks not done"
    at = f"{name} is at {there.name[:_SHORT_COMMIT]}"
    if there.name != here.name:
        return f"{at}, here is {here.name[:_SHORT_COMMIT]}: it looks not done"
    return f"{at}, {_made(here, run)}: it looks done"


def _made(commit: Commit, run: InterruptedRun) -> str:
    made_here = commit.made_s >= run.created_ms // 1000
    return "the commit made in this session" if made_here else "the commit that is here"


async def _asked(run: InterruptedRun, cwd: str, question: Callable[[Repository], Any]) -> Any:
    try:
        return await question(run.repository_at(cwd))
    except (GitFailed, GitRefused, BridleError):
        return None


def _hours(ms: int) -> str:
    """The time of day where the person is."""
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000))


JUDGEMENTS: dict[str, Judgement] = {
    "happened": "happened",
    "did_not": "did not happen",
    "unknown": "unknown",
    "undo": "undone",
}

AskWhom = Callable[[Journal, str, OrphanQuestion], Awaitable[GivenAnswer | None]]
"""Puts a question in the name of whose journal it is."""


class UndoPlan(Protocol):
    """How far a call can be undone."""

    @property
    def does_something(self) -> bool: ...

    def of(self, fate: Literal["conflict", "impossible"], /) -> Sequence[object]:
        """The files whose way back is blocked so."""
        ...


PlanT = TypeVar("PlanT", bound=UndoPlan)


class CallUndo(Protocol[PlanT]):
    """What knows the files a call changed."""

    async def plan(self, what: str, /) -> PlanT | None:
        """The undo of the call of this id; None where it changed nothing. Raises `BridleError` for one not known."""
        ...

    async def apply(self, plan: PlanT, /) -> UndoApplied | None:
        """Puts the files back; the event that records it, None where none was changed."""
        ...


class CrashCourt(Generic[PlanT]):
    """The orphans of one session. `sit` once, before the session takes up work; `undo_work` makes what undoes the calls
    of whoever worked in a folder."""

    def __init__(
        self,
        journal: Journal,
        *,
        run: InterruptedRun,
        ask: AskWhom,
        undo_work: Callable[[str], CallUndo[PlanT]],
    ) -> None:
        self._journal = journal
        self._run = run
        self._ask = ask
        self._undo_work = undo_work

    async def sit(self) -> bool:
        """Asks about every orphan in order; False when one was left for later, or nobody can answer."""
        found = orphans(self._journal.conversation)
        for number, call in enumerate(found, 1):
            if not await self._judge(call, number, len(found)):
                return False
        await self._journal.durable()
        return True

    async def _judge(self, call: OpenCall, number: int, count: int) -> bool:
        asked, journal = 0, journal_of(call, self._journal)
        while True:
            asked += 1
            question = await self._question(call, number, count)
            name = f"orphan-{call.call.call_id}" + (f"-{asked}" if asked > 1 else "")
            given = await self._ask(journal, name, question)
            if (
                given is None
                or not isinstance(given.answer, OrphanAnswer)
                or given.answer.judgement == "later"
            ):
                return False
            if given.answer.judgement == "undo":
                try:
                    await to_the_end(self._undo(call))
                except BridleError as failure:
                    self._journal.emit(Notice(reason=failure.reason, message=failure.message))
                    continue
            result = judged(call, JUDGEMENTS[given.answer.judgement], by=given.by, note=given.answer.note)
            journal.emit(result, originator=given.by)
            return True

    async def _question(self, call: OpenCall, number: int, count: int) -> OrphanQuestion:
        return OrphanQuestion(
            tool=call.call.tool,
            input=input_of(call),
            started_ms=call.started_ms,
            stopped_ms=max(self._run.stopped_ms, call.started_ms),
            number=number,
            count=count,
            now=tuple(await findings(call, self._run)),
            not_undoable=await _not_undoable(self._work_of(call), call),
        )

    def _work_of(self, call: OpenCall) -> CallUndo[PlanT]:
        return self._undo_work(journal_of(call, self._journal).conversation.cwd)

    async def _undo(self, call: OpenCall) -> None:
        """Not to be cut short: files that were put back are in the log."""
        work = self._work_of(call)
        plan = await _plan(work, call.call.call_id)
        applied = None if plan is None else await work.apply(plan)
        if applied is None:
            raise BridleError("NotUndoable", problem="nothing it changed is known")
        self._journal.emit(applied)


async def refusal(calls: Sequence[OpenCall], run: InterruptedRun, *, session: str) -> CommandRefused:
    """Why a session does not go on where nobody shall be asked: the orphans, in words and as data."""
    return CommandRefused(
        "OrphanedCalls",
        count=len(calls),
        calls="; ".join(f"{call.call.tool} {msgspec.json.encode(input_of(call)).decode()}" for call in calls),
        id=session,
        orphans=[
            {
                "call_id": call.call.call_id,
                "tool": call.call.tool,
                "input": input_of(call),
                "started": iso_ms(call.started_ms),
                "now": await findings(call, run),
            }
            for call in calls
        ],
    )


async def _not_undoable(work: CallUndo[PlanT], call: OpenCall) -> str:
    """Why a call cannot be undone, in a few words; empty where it can."""
    command = input_of(call).get("command")
    if call.call.tool == "bash" and isinstance(command, str) and "push" in command.split():
        return "for a push"
    plan = await _plan(work, call.call.call_id)
    if plan is None:
        return "here: it changed no file that is known"
    if plan.of("conflict") or plan.of("impossible"):
        return "here: its files changed since"
    return "" if plan.does_something else "here: everything is as it was before"


async def _plan(work: CallUndo[PlanT], call_id: str) -> PlanT | None:
    try:
        return await work.plan(call_id)
    except BridleError:
        return None
