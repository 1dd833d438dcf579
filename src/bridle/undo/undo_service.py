"""Undo and redo for one session: plan first, then apply what a person agreed to.

A file is touched only while it is what the plan was made for. What is about to be overwritten or removed is stored
first, so everything an undo does can be taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from bridle.base.threads import blocking
from bridle.engine.store_ports import UndoStore
from bridle.engine.undo_records import ActionRow, CallRow, Change, Item, Lost, State
from bridle.protocol.errors import UsageError
from bridle.protocol.events import UndoApplied
from bridle.undo.file_states import actions_in, is_own_file, merged, rows_in, same
from bridle.undo.file_tree import Keep, Keeping, WatchedFolders, look_at, opened_folder, shown_below
from bridle.undo.keeper import Content, settle
from bridle.undo.object_links import ObjectLinks
from bridle.undo.undo_plan import (
    Plan,
    Present,
    Step,
    last_unit,
    lost_by,
    missed_by,
    redo_steps,
    undo_steps,
)

CHANGED = "it changed just now"
"""Why a path that is not what it was when the plan was made was left alone."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Failed(OSError):
    """The path stays as it is. `problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def put_all(
    items: Sequence[Item], content: Content, *, after_each: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Makes every path what it shall be, as far as that can be done; returns the paths that stayed, and why.

    What goes is taken away from the inside out, what comes is made from the outside in. A path that is not what it was
    when the plan was made is left alone.
    """
    left: dict[str, str] = {}

    def attempt(item: Item, work: Callable[[Item], None]) -> None:
        try:
            work(item)
        except OSError as problem:
            left[item.name] = getattr(problem, "problem", "") or problem.strerror or str(problem)

    for item in items:
        if _is_folder(item.before) and _is_folder(item.after):
            attempt(item, lambda item: _set_mode(item, also=0o700))
    for item in _inside_out(items):
        if item.before is not None and (item.after is None or item.before.kind != item.after.kind):
            attempt(item, _remove)
            after_each()
    for item in reversed(_inside_out(items)):
        if item.name not in left and item.after is not None and not _both_folders(item):
            attempt(item, lambda item: _make(item, content))
            after_each()
    for item in _inside_out(items):
        if item.name not in left and _is_folder(item.after):
            attempt(item, _set_mode)
    return left


def _inside_out(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.path.count(b"/"), item.path), reverse=True)


def _is_folder(state: State | None) -> bool:
    return state is not None and state.kind == "folder"


def _both_folders(item: Item) -> bool:
    return _is_folder(item.before) and _is_folder(item.after)


def _remove(item: Item) -> None:
    _check_unchanged(item)
    folder, name = os.path.split(item.name)
    with opened_folder(folder) as where:
        if _is_folder(item.before):
            os.rmdir(name, dir_fd=where)
        else:
            os.unlink(name, dir_fd=where)


def _make(item: Item, content: Content) -> None:
    state = item.after
    assert state is not None
    replaces = item.before is not None and item.before.kind == state.kind
    _check_unchanged(item if replaces else Item(item.path, None, state))
    folder, name = os.path.split(item.name)
    with opened_folder(folder) as where:
        match state.kind:
            case "folder":
                os.mkdir(name, state.mode | 0o700, dir_fd=where)
            case "link":
                _replace(name, where, lambda temporary: os.symlink(state.target, temporary, dir_fd=where))
            case _:
                data = content(state.sha256)
                if data is None:
                    raise Failed("its content is no longer stored")
                _replace(name, where, lambda temporary: _write(temporary, where, data, state.mode))


def _replace(name: str, where: int, make: Callable[[str], None]) -> None:
    temporary = f".{os.urandom(12).hex()}.tmp"
    try:
        make(temporary)
        os.replace(temporary, name, src_dir_fd=where, dst_dir_fd=where)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=where)
        raise


def _write(name: str, where: int, data: bytes, mode: int) -> None:
    fd = os.open(name, _NEW, 0o600, dir_fd=where)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _set_mode(item: Item, also: int = 0) -> None:
    assert item.after is not None
    with opened_folder(item.name) as fd:
        if stat.S_IMODE(os.fstat(fd).st_mode) != item.after.mode | also:
            os.fchmod(fd, item.after.mode | also)


def _check_unchanged(item: Item) -> None:
    """What is about to be replaced or removed is still what the plan was made for."""
    now = look_at(item.name, keep=lambda _digest, _data: None).state
    if _is_folder(now) and _is_folder(item.before):
        return
    if now != item.before:
        raise Failed(CHANGED)


SESSION = "session"

MayWrite = Callable[[str], str | None]
"""Why a path must not be written, as the end of a sentence; None where it may be."""


class CutOff(msgspec.Struct, frozen=True, kw_only=True):
    """An undo or redo that Bridle did not finish: which files are there already and which are not."""

    turn: int | None
    is_redo: bool
    done: tuple[str, ...]
    open: tuple[str, ...]


class Deeds(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of a turn or several did to files, by their paths. `turn` is None for more than one."""

    turn: int | None
    title: str
    changes: tuple[Change, ...]


class Undo:
    """`may_write` is the guard of file tools; `now_ms` the time. In the `worktree` of an agent, `label` stands before
    the paths people read, as git writes it: the branch and a colon. An undo there that names nothing means all of it.
    """

    def __init__(
        self,
        store: UndoStore,
        *,
        ground: WatchedFolders,
        may_write: MayWrite,
        now_ms: Callable[[], int],
        worktree: str = "",
        label: str = "",
    ) -> None:
        self._store = store
        self._ground = ground
        self._may_write = may_write
        self._now_ms = now_ms
        self._worktree = worktree
        self._label = label

    def shown(self, path: str) -> str:
        return f"{self._label}{shown_below(path, self._ground.roots)}"

    async def plan(self, what: str = "") -> Plan | None:
        """The undo of a turn (a number), a call (its id or the beginning of it), the `SESSION`, or the last change.

        None where nothing is left to undo. Raises `UsageError` for a turn or call that is not there.
        """
        store = self._store
        await settle(store, self._ground, self._now_ms())
        rows = rows_in(await store.calls(), self._ground.place)
        wanted = _wanted(rows, what or SESSION * bool(self._worktree))
        if not any(row.kept.has_changes for row in wanted):
            return None
        calls = tuple(row.call_id for row in wanted)
        cut_off = _unfinished(await actions_in(store, self._ground.place), calls)
        last = wanted[-1].number
        keep = Keeping(store, self._now_ms())

        def look() -> tuple[tuple[Step, ...], tuple[Lost, ...]]:
            steps = undo_steps(
                wanted,
                (row for row in rows if row.number > last and not row.undone),
                lambda path: _present(path, keep),
                {item.name: item for item in cut_off.items} if cut_off else {},
            )
            return tuple(steps), _still_lost(wanted)

        steps, lost = await asyncio.to_thread(look)
        await keep.flush()
        turns = {row.turn for row in wanted}
        turn = wanted[-1].turn if len(turns) == 1 and (what or not self._worktree) else None
        return Plan(
            calls=calls,
            turn=turn,
            title=await self._title(wanted, turn, what),
            steps=steps,
            missed=missed_by(wanted),
            lost=lost,
            continues=cut_off.number if cut_off else None,
        )

    async def redo_plan(self) -> Plan | None:
        """The way back from the last undo that was not taken back yet; None where there is none."""
        actions = await actions_in(self._store, self._ground.place)
        undone = [row for row in actions if row.done and row.redo_of is None and not row.reversed]
        if not undone:
            return None
        action = undone[-1]
        keep = Keeping(self._store, self._now_ms())
        steps = await asyncio.to_thread(lambda: tuple(redo_steps(action, lambda path: _present(path, keep))))
        await keep.flush()
        rows = [row for row in await self._store.calls() if row.call_id in action.calls]
        cut_off = _unfinished(actions, action.calls, redo_of=action.number)
        return Plan(
            calls=action.calls,
            turn=action.turn,
            title=await self._title(rows, action.turn, "") if rows else "",
            steps=steps,
            redo_of=action.number,
            continues=cut_off.number if cut_off else None,
        )

    async def apply(
        self,
        plan: Plan,
        *,
        overwrite: Collection[str] = (),
        after_each: Callable[[], None] = lambda: None,
    ) -> UndoApplied | None:
        """Does what the plan says, with the conflicts in `overwrite` too; returns the event that records it.

        The event has to be recorded: until then the undo counts as cut off. None when no file was changed.
        """
        store = self._store
        items, left = await asyncio.to_thread(self._permitted, plan, overwrite)
        if not (items or plan.lost) and plan.continues is None:
            return None
        number = await store.begin_action(
            (*items, *_finished_before(plan)),
            calls=plan.calls,
            turn=plan.turn,
            redo_of=plan.redo_of,
            started_ms=self._now_ms(),
        )
        if plan.continues is not None:
            await store.close_action(plan.continues)
        content = blocking(store.content)
        left |= await asyncio.to_thread(put_all, items, content, after_each=after_each)
        changed = all(left.get(item.name) == CHANGED for item in items)
        if changed and not plan.lost and plan.continues is None:
            await store.close_action(number)  # it took nothing back, so it must not count as an undo
            return None
        objects = ObjectLinks(self._ground.kept_objects)
        for lost in plan.lost:
            spoiled = await asyncio.to_thread(objects.put_back, lost)
            left |= {os.path.join(lost.name, name): "spoiled" for name in spoiled}
        done = [item.name for item in items if item.name not in left]
        done += [lost.name for lost in plan.lost]
        return UndoApplied(
            turn=plan.turn or 0,
            paths=tuple(self.shown(path) for path in done),
            redone=plan.is_redo,
            calls=plan.calls,
            left=tuple(self.shown(path) for path in sorted(left)),
            action=number,
            worktree=self._worktree,
        )

    def _permitted(self, plan: Plan, overwrite: Collection[str]) -> tuple[list[Item], dict[str, str]]:
        left = {step.path: step.why for step in plan.of("impossible")}
        left |= {step.path: "" for step in plan.of("conflict") if step.path not in overwrite}
        items: list[Item] = []
        for step in plan.steps:
            if step.fate == "goes" or step.path in overwrite:
                problem = self._may_write(step.path)
                if problem is None:
                    items.append(step.item)
                else:
                    left[step.path] = problem
        return items, left

    async def cut_off(self) -> list[CutOff]:
        actions = await actions_in(self._store, self._ground.place)

        def look(action: ActionRow) -> CutOff:
            names = {self.shown(item.name): _is_done(item) for item in action.items}
            return CutOff(
                turn=action.turn,
                is_redo=action.redo_of is not None,
                done=tuple(name for name, done in names.items() if done),
                open=tuple(name for name, done in names.items() if not done),
            )

        return [await asyncio.to_thread(look, action) for action in actions if not action.done]

    async def contents(self, step: Step) -> tuple[bytes | None, bytes | None]:
        """What the file of a step held before and after the calls, for a diff; None where it is no file."""
        return await self.held(step.did)

    async def held(self, change: Change) -> tuple[bytes | None, bytes | None]:
        async def content(state: State | None) -> bytes | None:
            return await self._store.content(state.sha256) if state is not None and state.sha256 else None

        return await content(change.before), await content(change.after)

    async def deeds(self, what: str = "") -> Deeds | None:
        """Return what the calls of `what` did together; None where they did nothing. Nothing is compared with what
        is there now. Raises `UsageError` for an unknown turn or call."""
        wanted = _wanted(rows_in(await self._store.calls(), self._ground.place), what)
        changes, _ = merged(wanted)
        own = tuple(change for _, change in sorted(changes.items()) if is_own_file(change))
        if not own:
            return None
        turns = {row.turn for row in wanted}
        turn = wanted[-1].turn if len(turns) == 1 else None
        return Deeds(turn=turn, title=await self._title(wanted, turn, what), changes=own)

    async def _title(self, rows: Sequence[CallRow], turn: int | None, what: str) -> str:
        if turn is None and self._worktree:
            return self._label.partition(":")[0]
        if turn is not None and len(rows) == 1 and what:
            return rows[0].does
        if turn is not None:
            return await self._store.title_of(turn)
        return rows[0].does if len(rows) == 1 else ""


def _still_lost(rows: Sequence[CallRow]) -> tuple[Lost, ...]:
    found = list[Lost]()
    for lost in lost_by(rows):
        names = tuple(name for name in lost.names if not os.path.lexists(os.path.join(lost.name, name)))
        found += [Lost(lost.objects, names)] if names else []
    return tuple(found)


def _wanted(rows: Sequence[CallRow], what: str) -> list[CallRow]:
    if not what:
        return last_unit(rows)
    if what == SESSION:
        return [row for row in rows if not row.undone]
    if what.isascii() and what.isdigit():
        found = [row for row in rows if row.turn == int(what)]
        if not found:
            raise UsageError(f"Turn {what} changed no files that undo knows of.")
        return found
    wanted = what.removeprefix("call_").upper()
    found = [row for row in rows if wanted and row.call_id.removeprefix("call_").upper().startswith(wanted)]
    if len(found) != 1:
        which = "more than one call" if found else "no call that changed files"
        raise UsageError(f'"{what}" names {which} of this session.')
    return found


def _unfinished(
    actions: Sequence[ActionRow], calls: Sequence[str], *, redo_of: int | None = None
) -> ActionRow | None:
    """An undo of the same calls, or a redo of the same undo, that was begun and not finished."""
    return next(
        (row for row in actions if not row.done and row.redo_of == redo_of and row.calls == tuple(calls)),
        None,
    )


def _finished_before(plan: Plan) -> list[Item]:
    """What a cut-off attempt had done already: a redo takes it back too."""
    if plan.continues is None:
        return []
    return [step.item for step in plan.of("already") if not same(step.item.before, step.item.after)]


def _present(path: str, keep: Keep) -> Present:
    try:
        seen = look_at(path, keep=keep)
        changed_ms = os.lstat(path).st_mtime_ns // 1_000_000 if seen.state is not None else None
    except OSError:
        return Present(State("other"))
    return Present(seen.state, changed_ms)


def _is_done(item: Item) -> bool:
    try:
        now = look_at(item.name, keep=lambda _digest, _data: None).state
    except OSError:
        return False
    return same(now, item.after)
