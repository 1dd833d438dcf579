"""Agents in git worktrees of their own, killed while one is made, used, committed, merged or taken away.

Afterwards nothing an agent was told it wrote is gone, everything that stands is said or listed, a merge is taken back
whole however far it came, and once a person has dropped what they do not want nothing is left on the disk.
"""

# The points lie inside: no public door leads to the moment between two commands of git.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from typing import Any, Literal

import traps
from case import GONE_S, Place, Result, Unhurried, check_log, forked, new_session, to_session, until_turn_end

from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.base.git.own_worktrees import BRANCHES, OwnTrees
from bridle.commands.git_work import GitWork
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerQuestion, RunSlash
from bridle.protocol.questions import GitAnswer, GitQuestion, UndoAnswer, UndoQuestion
from bridle.providers.script import call, say

APART = AgentDelegation(invocation="allow", worktree=True)
WRITER = AgentDefinition(name="writer", description="Writes.", mode="subagent", delegation=APART)
READER = AgentDefinition(name="reader", description="Reads.", mode="subagent", delegation=APART)
COMMITTED = "as it was committed\n"
CHANGED = "as the agent wants it\n"
FILES = {"kept.txt": CHANGED, "new.txt": CHANGED, "deep/other.txt": CHANGED}
"""What the writer changes."""
NONE = "No agent has left a worktree here."


def before_git(*words: str) -> traps.Set:
    """Bridle is about to say this to git about a worktree."""
    return _around_git(words, "before")


def during_git(*words: str) -> traps.Set:
    """Git is at it."""
    return _around_git(words, "during")


def after_git(*words: str) -> traps.Set:
    """Git has done it, and nobody knows yet."""
    return _around_git(words, "after")


def _around_git(words: tuple[str, ...], moment: Literal["before", "during", "after"]) -> traps.Set:
    def set_trap(trap: traps.Trap, chance: float) -> None:
        def made(inner: Any) -> Any:
            async def run(self: Any, *given: Any, **more: Any) -> Any:
                said: tuple[str, ...] = given[0] if isinstance(given[0], tuple) else given
                is_it = said[1 : len(words) + 1] == words
                if is_it and moment == "before":
                    trap.spring()
                elif is_it and moment == "during":
                    trap.spring_after(chance * 0.01)
                ended = await inner(self, *given, **more)
                if is_it and moment == "after":
                    trap.spring()
                return ended

            return run

        traps.replace(OwnTrees, "_write", made)
        traps.replace(GitWork, "run", made)

    return set_trap


POINTS: dict[str, traps.Set] = {
    "worktree, before add": before_git("worktree", "add"),
    "worktree, during add": during_git("worktree", "add"),
    "worktree, added": after_git("worktree", "add"),
    "worktree, during checkout": during_git("reset"),
    "worktree, checked out": after_git("reset"),
    "worktree, begun": traps.committed("ChildStarted"),
    "worktree, before intent": traps.before("Intent", of_child=True),
    "worktree, intent committed": traps.committed("Intent", of_child=True),
    "worktree, outcome appended": traps.appended("ToolResult", of_child=True),
    "worktree, before commit": before_git("add"),
    "worktree, during commit": during_git("commit"),
    "worktree, committed": after_git("commit"),
    "worktree, ended": traps.before("ChildEnded"),
    "worktree, before removal": before_git("worktree", "remove"),
    "worktree, half removed": before_git("branch"),
    "merge, before": before_git("apply"),
    "merge, during": during_git("apply"),
    "merge, done": after_git("apply"),
}
"""The points in the order they are passed: a writer, a reader that leaves nothing, a merge, a drop."""

FEW = ("worktree, added", "worktree, intent committed", "worktree, half removed", "merge, during")
"""Those of a short run."""

TWICE = frozenset(
    {"worktree, before add", "worktree, during add", "worktree, added", "worktree, during checkout"}
    | {"worktree, checked out", "worktree, begun", "worktree, before removal", "worktree, half removed"}
)
"""Points that are passed for both agents, or by an agent and by the person."""


def killed_worktree(place: Place, result: Result, point: str) -> None:
    """Dies at a point, comes back, and what is there is looked at, used and taken away."""
    chance = random.Random(f"{point} {result.seed}")
    times = chance.randint(1, 2) if point in TWICE else 1
    _repository(place)

    def dying() -> None:
        POINTS[point](traps.Trap(times), chance.random())
        asyncio.run(_work(place, result.seed))

    ended, said = forked(dying)
    result.killed = os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL
    if said.get("failed"):
        result.broken.append(f"the run failed by itself: {said['message']}")
    _check_nothing_runs(place, result)
    standing = _standing(place)
    ended, back = forked(lambda: asyncio.run(_come_back(place, result.seed)))
    if back.get("failed") or ended != 0:
        result.broken.append(f"coming back failed: {back.get('message', ended)}")
        return
    _check(place, result, standing, back)


def torn_merge(place: Place, result: Result) -> None:
    """What an agent changed does not fit what was committed meanwhile: nothing changes, and nothing goes."""
    _repository(place)

    async def merge() -> dict[str, Any]:
        async with Person(place, result.seed, _model(result.seed), resumes=False) as person:
            await person.ask("go")
            (name,) = _names(place)
            (place.work / "kept.txt").write_text("as the person wants it\n")
            _git(place, "commit", "-q", "-a", "-m", "the person's")
            torn = await person.worktrees(f"merge {name}")
            return {"reason": torn.reason, "name": name}

    _, said = forked(lambda: asyncio.run(merge()))
    if said.get("reason") != "WorktreeConflict":
        result.broken.append(f"a merge that does not fit ended with {said}")
        return
    if _git(place, "status", "--porcelain") or (place.work / "new.txt").exists():
        result.broken.append("a merge that does not fit changed something")
    if _git(place, "show", f"{BRANCHES}{said['name']}:new.txt") != CHANGED:
        result.broken.append("a merge that does not fit took something away")


# The run that dies, and the one that comes back


class Person:
    """A session of a case, and a person who gives commands and says yes."""

    def __init__(self, place: Place, seed: int, model: Any, *, resumes: bool) -> None:
        self._place, self._seed, self._model, self._resumes = place, seed, model, resumes
        self._engine = Engine(
            where=folders(place.env),
            env=place.env,
            clock=SystemClock(),
            model=model,
            adopts_orphans=True,
            agents=(WRITER, READER),
        )
        self._connection = self._engine.connect(name="faults", answers=True)
        self._session, self._last = "", 0

    async def __aenter__(self) -> Person:
        place = self._place
        resume = self._engine.store.newest(str(place.work.resolve())).id if self._resumes else None
        options = {"agent_mode": "multi", "on_orphan": "mark-unknown"}
        name = f"{self._model.name}:scripted"
        created = await self._connection.send(
            new_session(place, self._seed, options, model=name, resume=resume)
        )
        self._session, self._last = created.session, created.event or 0
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._engine.close()

    async def ask(self, words: str) -> None:
        sent = await self._connection.send(to_session(self._session, words))
        await until_turn_end(self._connection, self._session, sent.event or 0)

    async def worktrees(self, words: str = "") -> e.GitEnded:
        ended = await self.command("worktrees", words)
        assert isinstance(ended, e.GitEnded)
        return ended

    async def command(self, name: str, words: str = "") -> e.GitEnded | e.UndoApplied | e.Notice:
        """What a slash command comes to."""
        session, connection = self._session, self._connection
        await connection.send(RunSlash(session=session, name=name, arguments=words))
        async for envelope in connection.events(session, since=self._last):
            self._last = envelope.id or self._last
            match envelope.event:
                case e.QuestionAsked(question_id=number, question=GitQuestion()):
                    await self._answer(number, GitAnswer(choice="go"))
                case e.QuestionAsked(question_id=number, question=UndoQuestion()):
                    await self._answer(number, UndoAnswer(choice="go"))
                case e.GitEnded() | e.UndoApplied() as ended:
                    return ended
                case e.Notice(reason="NothingToUndo" | "NotUndone") as ended:
                    return ended
                case _:
                    pass
        raise AssertionError("the session ended")

    async def _answer(self, number: str, answer: GitAnswer | UndoAnswer) -> None:
        await self._connection.send(AnswerQuestion(session=self._session, question_id=number, answer=answer))


def _model(seed: int) -> Any:
    files = list(FILES.items())
    random.Random(seed).shuffle(files)
    read = call("read_file", path="kept.txt")
    writes = [call("write_file", path=path, content=content) for path, content in files]
    return scripted(
        call("delegate_agent", agent="writer", task="Write."),
        call("delegate_agent", agent="reader", task="Read."),
        say("Done."),
        agents={"writer": [read, *writes, say("Wrote.")], "reader": [read, say("Read.")]},
        clock=Unhurried(),
    )


async def _work(place: Place, seed: int) -> None:
    async with Person(place, seed, _model(seed), resumes=False) as person:
        await person.ask("go")
        for name in _names(place):
            await person.worktrees(f"merge {name}")
            await person.worktrees(f"drop {name}")


async def _come_back(place: Place, seed: int) -> dict[str, Any]:
    """Opens the session again, looks at what is there, takes back what was merged, and throws the rest away."""
    async with Person(place, seed, scripted(say("I am back.")), resumes=True) as person:
        listed = (await person.worktrees()).data.get("told", "")
        saved = {name: _on_branch(place, name) for name in _names(place)}
        if any(_content(place, path) == CHANGED for path in FILES):
            await person.command("undo")
        after_undo = {path: _content(place, path) for path in FILES}
        for name in _names(place):
            await person.worktrees(f"drop {name}")
        left = (await person.worktrees()).data.get("told", "")
        await person.ask("go on")
    return {"listed": listed, "saved": saved, "after_undo": after_undo, "left": left}


# What must be true


def _check(place: Place, result: Result, standing: set[str], back: dict[str, Any]) -> None:
    check_log(place, result, [])
    store = place.store()
    try:
        (row,) = store.list()
        events = [one.event for one in store.events(row.id)]
    finally:
        store.close()
    said = {name for data in _notices(events, "WorktreeCutOff") for name in data["names"].split(", ")}
    said |= {one.branch.removeprefix(BRANCHES) for one in events if isinstance(one, e.ChildEnded)}
    unsaid = [name for name in standing if name not in said or name not in back["listed"]]
    if unsaid:
        result.broken.append(f"it stands and nobody says so: {unsaid}")
    begun_drop = any("worktree remove" in data["command"] for data in _notices(events, "GitRunning"))
    lost = [path for path in _written(events) if not any(path in one for one in back["saved"].values())]
    if lost and not begun_drop:
        result.lost += len(lost)
        result.broken.append(f"an agent wrote it and it is gone: {lost}")
    if back["after_undo"] != {path: COMMITTED if path == "kept.txt" else None for path in FILES}:
        result.broken.append(f"the folder is not what it was: {back['after_undo']}")
    trees = _git(place, "worktree", "list").splitlines()
    left = [name for name in os.listdir(_folder(place)) if name != ".lock"]
    if back["left"] != NONE or len(trees) != 1 or _names(place) or left:
        what = (back["left"], trees, _names(place), left)
        result.broken.append(f"something is left after everything was dropped: {what}")
    result.seen = len(events)


def _notices(events: list[e.AnyEvent], reason: str) -> list[dict[str, Any]]:
    return [one.data for one in events if isinstance(one, e.Notice) and one.reason == reason]


def _written(events: list[e.AnyEvent]) -> list[str]:
    """What the writer was told that it wrote."""
    asked = {one.call_id: str(one.input.get("path")) for one in events if isinstance(one, e.ToolCallStarted)}
    results = [one for one in events if isinstance(one, e.ToolResult) and one.tool == "write_file"]
    return [asked[one.call_id] for one in results if one.outcome == "ok"]


def _check_nothing_runs(place: Place, result: Result) -> None:
    """No git of the run that died goes on."""
    until = time.monotonic() + GONE_S
    while running := [pid for pid in filter(str.isdigit, os.listdir("/proc")) if _works_in(place, pid)]:
        if time.monotonic() > until:
            result.orphans += 1
            result.broken.append(f"{len(running)} processes still run {GONE_S:g} s after the end")
            return
        time.sleep(0.02)


def _works_in(place: Place, pid: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd").startswith(f"{place.root.resolve()}/")
    except OSError:
        return False


def _repository(place: Place) -> None:
    _git(place, "init", "-q", "-b", "trunk")
    (place.work / "kept.txt").write_text(COMMITTED)
    _git(place, "add", "kept.txt", "long.txt")
    _git(place, "commit", "-q", "-m", "begin")


def _folder(place: Place) -> str:
    folder = folders(place.env).worktrees
    os.makedirs(folder, exist_ok=True)
    return folder


def _names(place: Place) -> list[str]:
    """The branches of agents."""
    told = _git(place, "for-each-ref", "--format=%(refname:lstrip=2)", f"refs/heads/{BRANCHES}")
    return [name.removeprefix(BRANCHES) for name in told.split()]


def _standing(place: Place) -> set[str]:
    """What a killed run left: folders and branches of agents."""
    with os.scandir(_folder(place)) as entries:
        return {entry.name for entry in entries if entry.is_dir()} | set(_names(place))


def _on_branch(place: Place, name: str) -> list[str]:
    """The files that hold on a branch what the writer wrote."""
    told = _git(place, "ls-tree", "-r", "--name-only", f"{BRANCHES}{name}").split()
    return [path for path in told if _git(place, "show", f"{BRANCHES}{name}:{path}") == CHANGED]


def _content(place: Place, path: str) -> str | None:
    try:
        return (place.work / path).read_text()
    except FileNotFoundError:
        return None


def _git(place: Place, *words: str) -> str:
    env = {"PATH": os.defpath, "HOME": str(place.person), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(
        ["git", *who, *words], cwd=place.work, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout
