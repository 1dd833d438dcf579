"""Change stored sessions, describe them in a few words, and announce content that expires soon.

A user dismisses announcements of some sessions: a file for each, so that two terminals never undo what the other
noted. It applies until that session is due no more: gone, pinned, or used again.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

from bridle.app.records.housekeeping import days_kept
from bridle.base.fs import files
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, tell
from bridle.cli.stdin import typed_answer
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.queries import ListSessions, SessionInfo
from bridle.sessions.archive.backup import is_backup
from bridle.sessions.archive.beside_store import copy_outputs, forget_beside
from bridle.sessions.archive.import_session import UnreadableLine
from bridle.sessions.archive.stored_archive import StoredArchive
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionRow, SessionStore, one_line


def branch(store: SessionStore, parsed: Args, env: Env) -> int:
    row = kept(store.find(parsed.id))
    made = StoredArchive(store).branch(row.id, turn=parsed.at)
    copy_outputs(folders(env).state, row.id, made)
    if parsed.name:
        store.rename(made, parsed.name)
    if parsed.json:
        return say_json({"session": made, "branch_of": row.id})
    return say(f"{made}   branched from {_named(row)}   Go on with it: bridle -r {short(made)}\n")


def import_session(store: SessionStore, parsed: Args) -> int:
    here = os.path.realpath(parsed.cwd)
    rest = ""
    if parsed.file == "-":
        made, rest = _import_lines(store, sys.stdin.buffer.readlines(), here, "import.rest")
    else:
        try:
            if _is_backup(parsed.file):
                return _restore(store, parsed)
            with open(parsed.file, "rb") as lines:
                made, rest = _import_lines(store, lines.readlines(), here, parsed.file + ".rest")
        except OSError as problem:
            raise UsageError(
                f"{problem.filename or parsed.file} cannot be used ({problem.strerror})"
            ) from None
        except UsageError as refused:
            raise UsageError(f"{parsed.file}: {refused.message}") from None
    if parsed.json:
        return say_json({"session": made, "rest": rest or None})
    row = store.find(made)
    turns = counted(row.turns, "turn")
    torn = f" Its end could not be read; that part is in {visible_line(rest)}." if rest else ""
    return say(
        f"{made}   imported: {_named(row)}, {turns}. It belongs to this folder; nothing in it was run.{torn}\n"
    )


def _import_lines(store: SessionStore, lines: list[bytes], here: str, rest: str) -> tuple[str, str]:
    """The session, and where the part went that could not be read; empty where there is none.

    A file whose first line is no event is refused: nothing says that it was ever an export.
    """
    try:
        return StoredArchive(store).import_lines(lines, cwd=here, profile="default"), ""
    except UnreadableLine as torn:
        whole = torn.place - 1
        if not b"".join(lines[:whole]).strip():
            raise
    missing = f"The file this session was imported from could not be read from line {whole + 1} on."
    with open(os.open(rest, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as kept_beside:
        kept_beside.writelines(lines[whole:])
    made = StoredArchive(store).import_lines(lines[:whole], cwd=here, profile="default", missing=missing)
    store.rename(made, f'part of "{store.find(made).title}"')
    return made, os.path.abspath(rest)


def _is_backup(path: str) -> bool:
    return os.path.isfile(path) and is_backup(path)


def _restore(store: SessionStore, parsed: Args) -> int:
    work = SqliteStore(store).restore(parsed.file, cwd=os.path.realpath(parsed.cwd), notice=tell)
    came = asyncio.run(work)
    if parsed.json:
        return say_json(came)
    left = f" {came.left_out} left out: here already, or nothing in them." if came.left_out else ""
    return say(f"{counted(len(came.sessions), 'session')} came in.{left} Nothing in them was run.\n")


def rename(store: SessionStore, parsed: Args) -> int:
    row, title = store.find(parsed.id), one_line(" ".join(parsed.title))
    store.rename(row.id, title)
    if not title:
        return say(f"{row.id} has no title any more; the next thing you say in it names it.\n")
    return say(f"{row.id}   {visible_line(title)}\n")


def pin(store: SessionStore, parsed: Args) -> int:
    row = store.find(parsed.id)
    if parsed.off:
        store.pin(row.id, pinned=False)
        return say(f"{_named(row)} is not pinned any more; its content expires like that of others.\n")
    kept(row)
    store.pin(row.id, pinned=True)
    return say(f"★ {_named(row)} is kept until you unpin it: bridle sessions pin --off {short(row.id)}\n")


def dismiss_notices(store: SessionStore, parsed: Args, env: Env) -> int:
    """The notice before content goes is not given any more for these; it still goes."""
    where = folders(env)
    until_ms = time.time_ns() // 1_000_000 + NOTICE_DAYS * 24 * 3600 * 1000
    due = StoredArchive(store).expiring(days_kept(where, env, os.path.realpath(".")), until_ms=until_ms)
    going = {one.id: one for one in due}
    named = [store.find(text) for text in parsed.id]
    for row in named:
        if row.id not in going:
            raise UsageError(
                f"{_named(row)} loses no content within {NOTICE_DAYS} days: nobody is told of it"
            )
    meant = list(dict.fromkeys(row.id for row in named)) or list(going)
    if not meant:
        return say(f"No session loses its content within {NOTICE_DAYS} days.\n")
    try:
        dismiss(where.state, meant)
    except OSError as problem:
        raise UsageError(f"{problem.filename or where.state} cannot be used ({problem.strerror})") from None
    these = "that of 1 session goes" if len(meant) == 1 else f"that of {len(meant)} sessions goes"
    return say(f"You are not told again; {these} all the same. Keep one: bridle sessions pin ID\n")


def delete(store: SessionStore, parsed: Args, env: Env) -> int:
    rows = list({row.id: row for row in (store.find(text) for text in parsed.id)}.values())
    if not parsed.yes and not _agreed(rows):
        return say("Nothing was deleted.\n")
    where = folders(env)
    for row in rows:
        StoredArchive(store).delete(row.id, beside=forget_beside(where.state))
        say(f"Deleted: {_named(row)}\n")
    return 0


def _agreed(rows: list[SessionRow]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("Nobody is here to ask, so nothing was deleted. Delete without a question: -y")
    for row in rows:
        star = "★ " if row.pinned else ""
        say(f"  {row.id}   {star}{_named(row)}   {counted(row.turns, 'turn')}\n")
    these = "this session" if len(rows) == 1 else f"these {len(rows)} sessions"
    say(f"Delete {these} for good, with everything that was said and done in it?\n")
    return typed_answer("y delete · Enter keep › ") == "y"


def prune(store: SessionStore, parsed: Args, env: Env) -> int:
    where = folders(env)
    days_of = days_kept(where, env, os.path.realpath("."))
    if parsed.dry_run:
        due = StoredArchive(store).expiring(days_of, until_ms=time.time_ns() // 1_000_000)
        lines = [f"{one.id}   {visible_line(one.title)}\n" for one in due]
        return say("".join(lines) or "Nothing is due.\n")
    expired = StoredArchive(store).expire(days_of, beside=forget_beside(where.state))
    if expired.busy:
        say(f"{counted(len(expired.busy), 'session')} in use and left alone.\n")
    if not expired.sessions:
        return say("Nothing was due.\n")
    return say(
        f"The content of {counted(len(expired.sessions), 'session')} is gone; titles, costs and chains stay.\n"
    )


def kept(row: SessionRow) -> SessionRow:
    """The session, if there is still something in it to go on with."""
    if row.expired_ms is not None:
        raise CommandRefused("SessionExpired", session=row.id, day=day(row.expired_ms))
    return row


def _named(row: SessionRow) -> str:
    return f'"{visible_line(row.title)}"' if row.title else row.id


def notes(row: SessionRow) -> list[str]:
    """What is special about a session, in a few words each."""
    return [
        *(["imported"] if row.imported_ms is not None else []),
        *([f"branch of {short(row.branch_of)}"] if row.branch_of is not None else []),
        *(["content expired"] if row.expired_ms is not None else []),
    ]


def title_words(row: SessionRow) -> str:
    return visible_line(row.title or ("(no title)" if row.turns else "(no words yet)"))


def short(session: str) -> str:
    """The beginning of an id, as people type it; two sessions of one moment have the same."""
    return session.removeprefix("sess_")[:10]


def minute(ts_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ts_ms / 1000))


def day(ts_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(ts_ms / 1000))


_DAY_MS = 24 * 3600 * 1000
NOTICE_DAYS = 7


async def expiry_notice(connection: Connection, state: str, *, now_ms: int) -> str | None:
    """The words, where something goes soon and nobody was told today."""
    marker = os.path.join(state, "expiry-told")
    last_ms = files.marked_ms(marker)
    if last_ms is not None and 0 <= now_ms - last_ms < _DAY_MS:
        return None
    sessions = (await connection.ask(ListSessions())).sessions
    due = {one.id: one for one in sessions if one.expires_ms is not None}
    dismissed = _dismissed(state, due)
    found = sorted(
        ((one.expires_ms, one) for one in due.values() if one.expires_ms and one.id not in dismissed),
        key=_when,
    )
    if not files.mark_ms(marker, now_ms) or not found:
        return None
    at_ms, first = found[0]
    name = f'"{first.title}"' if first.title else first.id
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    these = "1 session loses its" if len(found) == 1 else f"{len(found)} sessions lose their"
    when = time.strftime("%Y-%m-%d", time.localtime(at_ms / 1000))
    return (
        f"{these} content within {NOTICE_DAYS} days: {name} on {when}{more}. Keep one: bridle sessions pin ID. "
        "Hear no more of them: bridle sessions dismiss"
    )


def dismiss(state: str, sessions: Iterable[str]) -> None:
    """From now on nobody is told that these go soon. Raises `OSError`."""
    folder = files.private_folder(_folder(state))
    for session in sessions:
        files.write_atomic(os.path.join(folder, session), b"", durable=False)


def _dismissed(state: str, due: Iterable[str]) -> frozenset[str]:
    """Those of the `due` that were dismissed. What is noted of others is forgotten."""
    folder, kept = _folder(state), frozenset(due)
    try:
        noted = os.listdir(folder)
    except OSError:
        return frozenset()
    for session in noted:
        if session not in kept:
            with suppress(OSError):
                os.unlink(os.path.join(folder, session))
    return kept.intersection(noted)


def _folder(state: str) -> str:
    return os.path.join(state, "expiry-dismissed")


def _when(expiring: tuple[int, SessionInfo]) -> int:
    return expiring[0]
