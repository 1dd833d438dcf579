"""`bridle undo`: preview and undo file changes of a turn, a call or a session."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import closing

from bridle.app.records.session_undo import StoredUndo, stored_undo
from bridle.app.user.stored_keys import session_store, store_to_look
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_lines, tell
from bridle.cli.sessions.session_changes import short
from bridle.cli.stdin import sessions_unlocked, typed_answer
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.questions.change_forms import conflict_words, undo_headline, undo_lines
from bridle.clients.interaction.render.event_rows import Wording, undone_lines
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.events import ContextAdded
from bridle.protocol.messages import TextBlock
from bridle.sessions.store import SessionRow, SessionStore
from bridle.undo import undo_words as words
from bridle.undo.undo_commands import diff_before, shown_before
from bridle.undo.undo_plan import Plan, Step
from bridle.undo.undo_service import SESSION
from bridle.undo.undo_words import conflict

EXIT_STOPPED = 1


def undo(parsed: Args, env: Env) -> int:
    """Returns 0 when it was done or there was nothing to do, 1 when it was not done."""
    env = sessions_unlocked(env)
    with store_to_look(env) if parsed.dry_run else closing(session_store(env)) as store:
        row, what = _meant(store, parsed)
        with stored_undo(store, env, row.id, add_dirs=parsed.add_dir) as stored:
            for cut_off in asyncio.run(stored.work.cut_off()):
                tell(words.interrupted(cut_off))
            plan = asyncio.run(stored.work.redo_plan() if parsed.redo else stored.work.plan(what))
            if plan is None:
                return say(_nothing(row, redo=parsed.redo))
            named = f" --session {short(row.id)}" if parsed.session or what == SESSION else ""
            return _carry_out(stored, plan, what, parsed, f"bridle undo --redo{named}")


def _meant(store: SessionStore, parsed: Args) -> tuple[SessionRow, str]:
    """The session, and the turn or call in it; a name that is neither is that of a session, and means all of it."""
    here = os.path.realpath(parsed.cwd)
    if parsed.redo and parsed.what:
        raise UsageError("--redo takes back the last undo. Of which session: --redo --session ID")
    what = parsed.what or ""
    if what and not (what.isascii() and what.isdigit()) and not what.startswith("call_"):
        if parsed.session:
            raise UsageError(f'"{what}" is neither a turn nor a call')
        return store.find(what, cwd=here), SESSION
    row = store.find(parsed.session, cwd=here) if parsed.session else store.newest(here)
    return row, what


def _nothing(row: SessionRow, *, redo: bool) -> str:
    title = visible_line(row.title)
    named = f' "{title}"' if title else ""
    verb, another = ("redo", "bridle undo --redo --session ID") if redo else ("undo", "bridle undo ID")
    nothing = f"There is nothing to {verb} in {row.id}{named}."
    return f"{nothing} For another session: {another}; list them: bridle sessions\n"


def _carry_out(stored: StoredUndo, plan: Plan, what: str, parsed: Args, redo: str) -> int:
    """`redo` is what to type to have it back."""
    work = stored.work
    shown = asyncio.run(shown_before(work, plan, what, now_ms=_now_ms()))
    lines = undo_lines(shown)
    failed = say_lines((undo_headline(shown), *lines))
    if parsed.dry_run:
        return failed or say("Nothing was changed (--dry-run).\n")
    if not plan.does_something:
        return failed or say("Nothing can be put back.\n" if lines else "Everything is as it was already.\n")
    if not parsed.yes and not sys.stdin.isatty():
        raise CommandRefused("NoApprover", tool="undo", hint="Let it with -y.")
    if not parsed.yes and not _agreed(stored, plan):
        return failed or say("Nothing was changed.\n")
    overwrite = _overwritten(stored, plan, parsed.conflicts or ("stop" if parsed.yes else "ask"))
    if overwrite is None:
        say(
            "Nothing was changed. Leave such files as they are: --conflicts skip   Or: --conflicts overwrite\n"
        )
        return EXIT_STOPPED
    applied = asyncio.run(work.apply(plan, overwrite=overwrite))
    if applied is None:
        why = words.not_done(plan, undo="bridle undo", redo=redo)
        return failed or say(f"{why}\n")
    told = ContextAdded(source="undo", content=(TextBlock(text=words.for_the_model(applied, plan)),))
    stored.journal.emit(told)
    stored.journal.emit(applied)
    lines = undone_lines(applied, Wording(undo="bridle undo", redo=redo))
    return failed or say_lines(lines)


def _agreed(stored: StoredUndo, plan: Plan) -> bool:
    verb = "redo" if plan.is_redo else "undo"
    while True:
        match typed_answer(f"y {verb} · d diff · Enter keep › "):
            case "y":
                return True
            case "d":
                say(asyncio.run(diff_before(stored.work, plan, hides=stored.hides)) + "\n")
            case _:
                return False


def _overwritten(stored: StoredUndo, plan: Plan, decided: str) -> set[str] | None:
    """The files in conflict that shall be written over; None stops everything."""
    overwrite: set[str] = set()
    for step in plan.of("conflict"):
        choice = _asked(stored, plan, step) if decided == "ask" else decided
        if choice == "stop":
            return None
        if choice == "overwrite":
            overwrite.add(step.path)
    return overwrite


def _asked(stored: StoredUndo, plan: Plan, step: Step) -> str:
    found = conflict(step, plan, shown=stored.work.shown, now_ms=_now_ms())
    say(f"{conflict_words(found)}.\n")
    kept = "not kept" if plan.is_redo else "kept for --redo"
    answer = typed_answer(f"s skip it · o overwrite (your version is {kept}) · Enter stop › ")
    return {"s": "skip", "o": "overwrite"}.get(answer, "stop")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
