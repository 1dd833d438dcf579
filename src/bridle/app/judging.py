"""What a person is shown of a call that may or may not have happened: the call, when it began, what is there now.

Everything here only looks: at files, at the repository (hardened, read-only calls, no network), at processes. What
cannot be found out is said to be unknown.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.files import read_limited
from bridle.base.visible import visible
from bridle.engine.conversation import OpenCall
from bridle.engine.court import CrashCourt
from bridle.engine.journal import Journal
from bridle.engine.open_questions import Questions
from bridle.engine.ports import Spawn
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.questions import OrphanQuestion
from bridle.shell.command_facts import Understanding

if TYPE_CHECKING:
    from bridle.base.git_repository import Commit, Repository
    from bridle.sessions.undo_plan import Plan
    from bridle.sessions.undo_service import Undo

LOOK_S = 5.0
"""Longer than this nobody waits for a look; what was found until then is shown."""
_MOST_LINES = 8
_COMPARED_BYTES = 1 << 20
_SHORT_COMMIT = 7
_NOTHING = "nothing here shows whether it happened"
_ITS_OWN_WORDS = frozenset(
    {"--force", "-f", "--force-with-lease", "-u", "--set-upstream", "--tags", "-q", "-v"}
)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look: the folder of the session, when it was made, when its last run was last heard of."""

    cwd: str
    env: Mapping[str, str]
    spawn: Spawn
    understand: Callable[[str, str], Understanding]
    created_ms: int
    stopped_ms: int


async def refusal(calls: Sequence[OpenCall], scene: Scene, *, session: str) -> CommandRefused:
    """Why a session does not go on where nobody shall be asked: the orphans, in words and as data."""
    return CommandRefused(
        "OrphanedCalls",
        count=len(calls),
        calls="; ".join(f"{call.call.tool} {msgspec.json.encode(_input(call)).decode()}" for call in calls),
        id=session,
        orphans=[
            {
                "call_id": call.call.call_id,
                "tool": call.call.tool,
                "input": _input(call),
                "started": iso_ms(call.started_ms),
                "now": await findings(call, scene),
            }
            for call in calls
        ],
    )


def crash_court(
    journal: Journal, questions: Questions, scene: Scene, undo_work: Callable[[], Undo]
) -> CrashCourt:
    """The court of a session. `undo_work` makes what knows which files a call changed."""

    async def present(call: OpenCall, number: int, count: int) -> OrphanQuestion:
        return OrphanQuestion(
            tool=call.call.tool,
            input=_input(call),
            started_ms=call.started_ms,
            stopped_ms=max(scene.stopped_ms, call.started_ms),
            number=number,
            count=count,
            now=tuple(await findings(call, scene)),
            not_undoable=await asyncio.to_thread(_not_undoable, undo_work(), call),
        )

    async def undo(call_id: str) -> None:
        """Recorded whatever happens to whoever asked for it: files that were put back are in the log."""
        from bridle.sessions.undoable import to_the_end

        async def apply() -> None:
            work = undo_work()
            plan = await asyncio.to_thread(_plan, work, call_id)
            applied = None if plan is None else await asyncio.to_thread(work.apply, plan)
            if applied is None:
                raise BridleError("NotUndoable", problem="nothing it changed is known")
            journal.emit(applied)

        await to_the_end(apply())

    return CrashCourt(journal, ask=questions.ask_whom, present=present, undo=undo)


def _not_undoable(work: Undo, call: OpenCall) -> str:
    """Why a call cannot be undone, in a few words; empty where it can."""
    command = _input(call).get("command")
    if call.call.tool == "bash" and isinstance(command, str) and "push" in command.split():
        return "for a push"
    plan = _plan(work, call.call.call_id)
    if plan is None:
        return "here: it changed no file that is known"
    if plan.of("conflict") or plan.of("impossible"):
        return "here: its files changed since"
    return "" if plan.does_something else "here: everything is as it was before"


def _plan(work: Undo, call_id: str) -> Plan | None:
    try:
        return work.plan(call_id)
    except BridleError:
        return None


async def findings(call: OpenCall, scene: Scene) -> list[str]:
    """What is there now, in short lines; one that says so where nothing can be found out."""
    found: list[str] = []

    async def look() -> None:
        async for line in _looked(call, scene):
            found.append(visible(line, newlines=False))  # noqa: PERF401  kept also when time runs out

    try:
        await asyncio.wait_for(look(), LOOK_S)
    except TimeoutError:
        found.append("looking took too long")
    return found[:_MOST_LINES] or [_NOTHING]


async def _looked(call: OpenCall, scene: Scene) -> AsyncIterator[str]:
    given, since_s = _input(call), call.started_ms / 1000
    match call.call.tool, given:
        case "write_file", {"path": str(path), "content": str(content)}:
            yield _of_content(scene.cwd, path, content, since_s)
        case "edit_file", {"path": str(path), "old_string": str(old), "new_string": str(new)}:
            yield _of_edit(scene.cwd, path, old, new, since_s)
        case "apply_patch", {"patch": str(patch)}:
            for path in _patched(patch):
                yield _of_time(scene.cwd, path, since_s)
        case "bash", {"command": str(command)}:
            async for line in _of_command(command, given, scene, since_s):
                yield line
        case _:
            return


def _input(call: OpenCall) -> dict[str, Any]:
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
    if changed_s >= since_s:
        return f"{path} was changed at {when}, after this began"
    return f"{path} was last changed at {when}, before this began: it looks not done"


def _text(cwd: str, path: str) -> str | None:
    try:
        found = read_limited(os.path.join(cwd, path), _COMPARED_BYTES)
        return None if found.truncated else found.data.decode()
    except (OSError, ValueError):
        return None


def _patched(patch: str) -> tuple[str, ...]:
    from bridle.tools.patches import BadPatch, parse_patch  # not before there is one to look at

    try:
        changes = parse_patch(patch)
    except BadPatch:
        return ()
    return tuple(dict.fromkeys(path for change in changes for path in change.paths))


# Commands


async def _of_command(
    command: str, given: Mapping[str, Any], scene: Scene, since_s: float
) -> AsyncIterator[str]:
    from bridle.base.surviving_processes import left_behind

    workdir = given.get("workdir")
    cwd = os.path.join(scene.cwd, workdir) if isinstance(workdir, str) else scene.cwd
    for process in await asyncio.to_thread(left_behind, cwd, since_s=since_s - 2):
        yield f"process {process.pid} still runs: {process.command}"
    parts = (await asyncio.to_thread(scene.understand, command, cwd)).parts
    for part in parts:
        words = [word for word in part.words if word is not None]
        if words[:1] == ["git"] and "commit" in words:
            yield await _committed(scene, cwd, since_s)
        elif words[:1] == ["git"] and "push" in words:
            yield await _pushed(scene, cwd, words[words.index("push") + 1 :])
        for use in part.uses:
            if use.path is not None and not use.pattern and use.access in ("write", "delete"):
                yield _of_use(cwd, use.path, use.access, since_s)


def _of_use(cwd: str, path: str, access: str, since_s: float) -> str:
    shown = os.path.relpath(path, cwd) if path.startswith(f"{cwd}/") else path
    if access == "delete":
        return f"{shown} is still there" if os.path.lexists(os.path.join(cwd, path)) else f"{shown} is gone"
    return _of_time(cwd, shown, since_s)


async def _committed(scene: Scene, cwd: str, since_s: float) -> str:
    head = await _asked(scene, cwd, lambda repository: repository.commit("HEAD"))
    if head is None:
        return "there is no commit here"
    when = _hours(head.made_s * 1000)
    if head.made_s >= int(since_s):
        return f"HEAD is at {head.name[:_SHORT_COMMIT]}, made at {when}, after this began: it looks done"
    return f"HEAD is at {head.name[:_SHORT_COMMIT]}, made at {when}, before this began: it looks not done"


async def _pushed(scene: Scene, cwd: str, words: list[str]) -> str:
    """Compares what is here with the remote as this machine last saw it; nothing is sent or fetched."""
    named = [word for word in words if word not in _ITS_OWN_WORDS and not word.startswith("-")]
    remote = named[0] if named else "origin"
    source, _, target = (named[1] if len(named) > 1 else "").partition(":")
    branch = target or source.lstrip("+") or await _asked(scene, cwd, lambda repository: repository.branch())
    if not branch:
        return _NOTHING
    there = await _asked(scene, cwd, lambda repository: repository.commit(f"refs/remotes/{remote}/{branch}"))
    here = await _asked(scene, cwd, lambda repository: repository.commit(source.lstrip("+") or "HEAD"))
    name = f"{remote}/{branch}"
    if there is None or here is None:
        return f"{name} was never seen from here: it looks not done"
    at = f"{name} is at {there.name[:_SHORT_COMMIT]}"
    if there.name != here.name:
        return f"{at}, here is {here.name[:_SHORT_COMMIT]}: it looks not done"
    return f"{at}, {_made(here, scene)}: it looks done"


def _made(commit: Commit, scene: Scene) -> str:
    made_here = commit.made_s >= scene.created_ms // 1000
    return "the commit made in this session" if made_here else "the commit that is here"


async def _asked(scene: Scene, cwd: str, question: Callable[[Repository], Any]) -> Any:
    from bridle.base.git import GitRefused
    from bridle.base.git_repository import GitFailed
    from bridle.sandbox.read_only_git import repository_of

    try:
        return await question(repository_of(scene.spawn, cwd=cwd, env=scene.env))
    except (GitFailed, GitRefused, BridleError):
        return None


def _hours(ms: int) -> str:
    """The time of day where the person is."""
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000))
