"""`/undo` and `/redo`: shown first, then asked, then done; conflicts are asked about one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from bridle.base.text.line_diff import diff_of
from bridle.base.threads import blocking
from bridle.engine.ports import AskPerson
from bridle.engine.slash_command import SlashEvent
from bridle.engine.undo_records import Change
from bridle.protocol.display_values import EditedFile
from bridle.protocol.events import ContextAdded, DurableEvent, Notice
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import SessionChanges
from bridle.protocol.questions import (
    ConflictAnswer,
    ConflictQuestion,
    UndoAnswer,
    UndoPreview,
    UndoQuestion,
)
from bridle.undo import undo_words as words
from bridle.undo.undo_plan import Plan
from bridle.undo.undo_service import Undo
from bridle.undo.undo_words import conflict, is_text, masked, preview


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """How the commands speak: `ask` gives None when nobody can answer.

    `committed` returns when what was emitted is in the database, where the next plan reads it. `hides` says whether
    the content of an absolute path must not be shown. `undo` and `redo` are what a person types for them, `where` is
    what they take back in.
    """

    ask: AskPerson
    emit: Callable[[DurableEvent], object]
    committed: Callable[[], Awaitable[None]]
    new_id: Callable[[], str]
    now_ms: Callable[[], int]
    hides: Callable[[str], bool]
    undo: str = "/undo"
    redo: str = "/redo"
    where: str = "this session"


async def run_undo(work: Undo, arguments: str, talk: Talk) -> SlashEvent:
    await talk.committed()
    what = arguments.strip()
    plan = await work.plan(what)
    if plan is None:
        return Notice(reason="NothingToUndo", message=f"There is nothing to undo in {talk.where}.")
    return await _carry_out(work, plan, what, talk)


async def run_redo(work: Undo, talk: Talk) -> SlashEvent:
    await talk.committed()
    plan = await work.redo_plan()
    if plan is None:
        return Notice(reason="NothingToRedo", message="There is no undo to take back.")
    return await _carry_out(work, plan, "", talk)


async def _carry_out(work: Undo, plan: Plan, what: str, talk: Talk) -> SlashEvent:
    shown = await shown_before(work, plan, what, now_ms=talk.now_ms())
    if not plan.does_something:
        return _nothing(shown)
    if not await _agreed(work, plan, shown, talk):
        return Notice(reason="NotUndone", message="Nothing was changed.")
    overwrite: set[str] = set()
    for step in plan.of("conflict"):
        found = conflict(step, plan, shown=work.shown, now_ms=talk.now_ms())
        answer = await talk.ask(f"undo-conflict-{talk.new_id()}", ConflictQuestion(conflict=found))
        match answer:
            case ConflictAnswer(choice="skip"):
                pass
            case ConflictAnswer(choice="overwrite"):
                overwrite.add(step.path)
            case _:
                return Notice(reason="NotUndone", message="Stopped. Nothing was changed.")

    async def apply() -> SlashEvent:
        applied = await work.apply(plan, overwrite=overwrite)
        if applied is None:
            return Notice(reason="NotUndone", message=words.not_done(plan, undo=talk.undo, redo=talk.redo))
        talk.emit(ContextAdded(source="undo", content=(TextBlock(text=words.for_the_model(applied, plan)),)))
        return applied

    return await _done_anyway(asyncio.ensure_future(apply()))


async def shown_before(work: Undo, plan: Plan, what: str, *, now_ms: int) -> UndoPreview:
    contents = blocking(work.contents)
    return await asyncio.to_thread(preview, plan, what, contents=contents, shown=work.shown, now_ms=now_ms)


async def diff_before(work: Undo, plan: Plan, *, hides: Callable[[str], bool]) -> str:
    contents = blocking(work.contents)
    return await asyncio.to_thread(words.diff, plan, contents=contents, shown=work.shown, hides=hides)


async def _done_anyway(work: asyncio.Future[SlashEvent]) -> SlashEvent:
    """The result, even if somebody cancels meanwhile: what was done to the files is recorded."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        return work.result()


def _nothing(preview: UndoPreview) -> Notice:
    """Why an undo would change nothing, with what stands in the way."""
    in_the_way = preview.done or preview.conflicts or preview.impossible or preview.missed
    message = "Nothing can be put back." if in_the_way else "Everything is as it was already."
    data = {"preview": msgspec.to_builtins(preview)} if in_the_way else {}
    return Notice(reason="NothingToUndo", message=message, data=data)


async def _agreed(work: Undo, plan: Plan, preview: UndoPreview, talk: Talk) -> bool:
    while True:
        answer = await talk.ask(f"undo-{talk.new_id()}", UndoQuestion(preview=preview))
        if not isinstance(answer, UndoAnswer) or answer.choice != "diff":
            return isinstance(answer, UndoAnswer) and answer.choice == "go"
        text = await diff_before(work, plan, hides=talk.hides)
        talk.emit(Notice(reason="UndoDiff", message=text or "Only modes, links or folders change."))


MAX_FILES: Final = 200
MAX_CHARACTERS: Final = 400_000
"""The diffs share so many; a file whose diff has no room says so."""


async def list_changes(work: Undo, what: str, *, hides: Callable[[str], bool]) -> SessionChanges:
    """What an undo of `what` would take back. Of a file that `hides` names nothing is shown, of others no secrets."""
    deeds = await work.deeds(what)
    if deeds is None:
        return SessionChanges()
    room = MAX_CHARACTERS
    files: list[EditedFile] = []
    hidden: list[str] = []
    for change in deeds.changes[:MAX_FILES]:
        path = work.shown(change.name)
        if hides(change.name):
            hidden.append(path)
            continue
        file = await asyncio.to_thread(_file, change, path, *await work.held(change))
        room -= len(file.diff)
        files.append(file if room >= 0 else msgspec.structs.replace(file, diff="", cut=True))
    return SessionChanges(
        turn=deeds.turn,
        title=deeds.title,
        files=tuple(files),
        hidden=tuple(hidden),
        more_files=max(0, len(deeds.changes) - MAX_FILES),
    )


def _file(change: Change, path: str, before: bytes | None, after: bytes | None) -> EditedFile:
    kind: Literal["create", "change", "delete"] = (
        "create" if change.before is None else "delete" if change.after is None else "change"
    )
    if not (is_text(before) and is_text(after)) or (before is None and after is None):
        return EditedFile(path=path, kind=kind, removed=None)
    old, new = (None if data is None else _text(data) for data in (masked(before), masked(after)))
    diff = diff_of(path, old, new or "")
    return EditedFile(path=path, kind=kind, diff=diff.text, added=diff.added, removed=diff.removed)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
