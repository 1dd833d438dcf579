"""`bridle sessions`: list, show, search, export and compare stored sessions."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import takewhile
from typing import Any

from msgspec import Raw, structs

from bridle.app.queries.query_answers import FOUND_MAX, search_hits
from bridle.app.user.stored_keys import session_store, store_to_look
from bridle.base.fs.files import write_atomic
from bridle.base.ids import list_place
from bridle.base.text.phrases import age, counted
from bridle.base.text.terminal_text import escaped, visible, visible_line
from bridle.cli.console import say, say_json, say_lines, unwritten
from bridle.cli.sessions.session_changes import (
    branch,
    day,
    delete,
    dismiss_notices,
    import_session,
    notes,
    pin,
    prune,
    rename,
    short,
    title_words,
)
from bridle.cli.stdin import sessions_unlocked, typed_line
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.dotted_events import chain_lines, events_lines
from bridle.clients.interaction.cells import cut, width_of
from bridle.clients.interaction.render.progress_text import tree_lines
from bridle.clients.interaction.render.session_fold import Changes, FileChange, changes_of
from bridle.clients.interaction.render.session_pages import html, markdown
from bridle.clients.replay import frames, transcript_lines
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import UsageError
from bridle.protocol.events import InputAccepted, text_of
from bridle.protocol.queries import SearchHit
from bridle.sessions.archive.export import clean, jsonl
from bridle.sessions.archive.stored_archive import StoredArchive
from bridle.sessions.repair import repair
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionRow, SessionStore


def diff(store: SessionStore, parsed: Args) -> int:
    row = store.find(parsed.id)
    changes = changes_of(store.events(row.id))
    if parsed.other is None:
        if parsed.json:
            return say_json({"session": row.id, **_for_programs(changes)})
        return say(_one(row, changes, whole=not parsed.stat))
    other = store.find(parsed.other)
    others = changes_of(store.events(other.id))
    if parsed.json:
        shown = [{"session": one.id, **_for_programs(did)} for one, did in ((row, changes), (other, others))]
        return say_json(shown)
    return say(_two(store, (row, changes), (other, others)))


def _one(row: SessionRow, changes: Changes, *, whole: bool) -> str:
    if row.expired_ms is not None:
        return "What this session did has expired and is not kept any more.\n"
    lines = [_line(file) for file in changes.files.values()] or ["No edit of this session is in force."]
    if whole:
        lines += [text for file in changes.files.values() for text in ("", *_diffs(file))]
    return "\n".join([*lines, *_beyond(row, changes)]) + "\n"


def _two(store: SessionStore, first: tuple[SessionRow, Changes], second: tuple[SessionRow, Changes]) -> str:
    names = [visible_line(row.title or row.id) for row, _ in (first, second)]
    common = _common_turns(store, first[0], second[0])
    lines = [f"Both begin with the same {counted(common, 'input')}."] if common else []
    for (_, changes), (_, others), name in (
        (first, second, f"Only in {names[0]}"),
        (second, first, f"Only in {names[1]}"),
    ):
        only = [file for path, file in changes.files.items() if path not in others.files]
        lines += [name, *(f"  {_line(file)}" for file in only)] if only else []
    both = [path for path in first[1].files if path in second[1].files]
    for path in both:
        one, other = first[1].files[path], second[1].files[path]
        same = "the same in both" if one.diffs == other.diffs else f"{_size(one)} against {_size(other)}"
        lines.append(f"{visible_line(path)}   {same}")
    return "\n".join(lines or ["Neither changed a file."]) + "\n"


def _common_turns(store: SessionStore, first: SessionRow, second: SessionRow) -> int:
    """The number of inputs that both sessions begin with: a branch shares those of its parent."""
    said = [
        [text_of(one.event.content) for one in store.events(row.id) if isinstance(one.event, InputAccepted)]
        for row in (first, second)
    ]
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*said, strict=False)))


def _line(file: FileChange) -> str:
    note = "  created" if file.created else "  deleted" if file.deleted else ""
    return f"{visible_line(file.path)}   {_size(file)}{note}"


def _size(file: FileChange) -> str:
    return f"+{file.added} -{file.removed}"


def _diffs(file: FileChange) -> list[str]:
    return [visible(one).rstrip("\n") for one in file.diffs]


def _beyond(row: SessionRow, changes: Changes) -> list[str]:
    """Changes that these lines do not show."""
    lines: list[str] = []
    if changes.commands:
        what = f"{counted(changes.commands, 'command')} may have changed more"
        lines.append(f"{what}: bridle undo {row.id} --dry-run")
    if changes.undone:
        lines.append(f"{counted(changes.undone, 'edit')} taken back again and left out here.")
    return ["", *lines] if lines else []


def _for_programs(changes: Changes) -> dict[str, object]:
    files = list(changes.files.values())
    return {"files": files, "commands": changes.commands, "undone": changes.undone}


ENDINGS = {".jsonl": "jsonl", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


def export(store: SessionStore, parsed: Args) -> int:
    text = parsed.id or parsed.id_option
    if not text:
        raise UsageError("Which session? bridle sessions export ID")
    row = store.find(text)
    form = _format(parsed)
    parts = _parts(store, row, form)
    if parsed.output is None:
        return _to_stdout(_for_a_terminal(parts, form) if sys.stdout.isatty() else parts)
    if os.path.lexists(parsed.output) and not parsed.force:
        raise UsageError(f"{parsed.output} is there already. Write over it: --force")
    try:
        write_atomic(parsed.output, b"".join(parts))
    except OSError as problem:
        raise UsageError(f"{parsed.output} cannot be written ({problem.strerror})") from None
    return say(f"Written: {parsed.output}\n")


def _format(parsed: Args) -> str:
    """The requested format, else that of the file name."""
    if parsed.format is not None:
        return "markdown" if parsed.format == "md" else parsed.format
    ending = os.path.splitext(parsed.output or "")[1].lower()
    return ENDINGS.get(ending, "jsonl")


def _parts(store: SessionStore, row: SessionRow, form: str) -> Iterator[bytes]:
    records = store.records(row.id)
    match form:
        case "markdown":
            return _encoded(markdown(row.title, _facts(row), clean(records)))
        case "html":
            return _encoded(html(row.title, _facts(row), clean(records)))
        case "events":
            return events_lines(clean(records))
        case "chain":
            return chain_lines(clean(records))
        case _:
            return jsonl(records)


def _encoded(parts: Iterable[str]) -> Iterator[bytes]:
    return (part.encode("utf-8", "backslashreplace") for part in parts)


def _facts(row: SessionRow) -> list[str]:
    cost = f" · ${row.usd:.2f}" if row.usd else ""
    return [
        f"{day(row.created_ms)} · {counted(row.turns, 'turn')} · {row.model or 'no model'}{cost}",
        f"{row.id} · {row.cwd}",
    ]


def _for_a_terminal(parts: Iterable[bytes], form: str) -> Iterator[bytes]:
    """Escape control characters for a terminal. Files keep the exact bytes, so that a chain can be checked."""
    harmless = visible if form in ("markdown", "html") else escaped
    return (harmless(part.decode()).encode() for part in parts)


def _to_stdout(parts: Iterable[bytes]) -> int:
    try:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    except OSError as problem:
        return unwritten(problem)
    return 0


COLUMNS = 80
"""A line of the list is no wider; programs read --json."""
FOLDER_COLUMNS = 20
PAGE = 30
"""So many sessions are listed where nobody says how many; programs get all of them."""


def sessions(parsed: Args, env: Env) -> int:
    env = sessions_unlocked(env)
    with store_to_look(env) if parsed.action == "search" else closing(session_store(env)) as store:
        match parsed.action:
            case "show":
                if parsed.tree:
                    return _show_tree(store, parsed.id, as_json=parsed.json)
                return _show_json(store, parsed.id) if parsed.json else _show(store, parsed.id)
            case "export":
                return export(store, parsed)
            case "search":
                return search_verb(store, parsed)
            case "replay":
                return replay(store, parsed)
            case "diff":
                return diff(store, parsed)
            case "repair":
                return repair_store(store, parsed)
            case "backup":
                return back_up(store, parsed)
            case "rekey":
                return rekey(store)
            case "branch":
                return branch(store, parsed, env)
            case "import":
                return import_session(store, parsed)
            case "rename":
                return rename(store, parsed)
            case "pin":
                return pin(store, parsed)
            case "dismiss":
                return dismiss_notices(store, parsed, env)
            case "delete":
                return delete(store, parsed, env)
            case "prune":
                return prune(store, parsed, env)
            case _:
                return _list(store, parsed)


def _list(store: SessionStore, parsed: Args) -> int:
    cwd = None if parsed.all else os.path.realpath(".")
    if parsed.json:
        rows = store.list(cwd=cwd, after=parsed.after, limit=parsed.limit)
        return say_json([_with_place(row) for row in rows])
    lines = session_lines(store, cwd, after=parsed.after, limit=parsed.limit or PAGE)
    if lines:
        return say_lines(lines)
    if parsed.after:
        return say("No more sessions.\n")
    where, elsewhere = ("", "") if parsed.all else (" here", "   Elsewhere: bridle sessions list --all")
    return say(f"No sessions{where} yet. Start one: bridle run PROMPT{elsewhere}\n")


def _with_place(row: SessionRow) -> dict[str, Any]:
    """A session for programs: what is behind it in the list is asked for with its `after`."""
    return {**structs.asdict(row), "after": list_place(*row.place)}


def session_lines(
    store: SessionStore, cwd: str | None, *, after: tuple[int, str] | None = None, limit: int = PAGE
) -> list[str]:
    """The sessions of a folder or of all, newest first, one a line with the beginning of its id that names it.

    Where there are more, the last line says how many, and how to see them.
    """
    now_ms = time.time() * 1000
    rows = store.list(cwd=cwd, after=after, limit=limit)
    short = store.short_ids([row.id for row in rows]) if rows else {}
    widest = max(map(len, short.values()), default=0)
    lines = [_row(row, f"{short[row.id]:<{widest}}", now_ms, everywhere=cwd is None) for row in rows]
    if len(rows) == limit and (more := store.count(cwd=cwd, after=(last := rows[-1]).place)):
        lines.append(f"… {more} more: --after {list_place(*last.place)}, or --limit N")
    return lines


def _row(row: SessionRow, own_id: str, now_ms: float, *, everywhere: bool) -> str:
    """One line of 80 columns: what is too long loses its end, a folder its beginning."""
    star = "★" if row.pinned else " "
    facts = f"{age(now_ms - row.updated_ms):>12}   {counted(row.turns, 'turn'):>8}"
    where = f"   {_end_of(visible_line(row.cwd), FOLDER_COLUMNS)}" if everywhere else ""
    room = COLUMNS - len(own_id) - 4 - width_of(facts) - (FOLDER_COLUMNS + 3 if everywhere else 0)
    title = title_words(row)
    if special := notes(row):
        about = f" ({', '.join(special)})"
        title = cut(title, max(8, room - len(about))) + about
    title = cut(title, room)
    return f"{own_id} {star} {title}{' ' * (room - width_of(title))} {facts}{where}".rstrip()


def _end_of(path: str, columns: int) -> str:
    while width_of(path) > columns:
        path = "…" + path[2:]
    return path


def _show(store: SessionStore, text: str) -> int:
    row = store.find(text)
    lines = [
        f"{row.id}   {visible_line(row.title or '')}",
        f"in {visible_line(row.cwd)}{_with_profile(row.profile)}",
        "",
    ]
    if row.expired_ms is not None:
        lines += [f"What was said expired on {day(row.expired_ms)} and is not kept any more.", ""]
    lines += transcript_lines(store.events(row.id))
    return say("\n".join(lines) + "\n")


def _show_tree(store: SessionStore, text: str, *, as_json: bool) -> int:
    """The agents that were sent in a session, each below whoever sent it."""
    row, tree = store.find(text), ChildTree()
    for envelope in store.events(row.id):
        tree.take(envelope)
    if as_json:
        return say_json({"session": row, "agents": list(tree.entries.values())})
    lines = tree_lines(tree, ids=True) or ["No agent was sent in this session."]
    title = visible_line(row.title or "")
    return say_lines((f"{row.id}   {title}".rstrip(), *lines))


def _with_profile(profile: str) -> str:
    return "" if profile == "default" else f", with the profile {visible_line(profile)}"


def _show_json(store: SessionStore, text: str) -> int:
    row = store.find(text)
    shown = {"session": row, "events": [Raw(encode_envelope(one)) for one in store.events(row.id)]}
    return say_json(shown)


def replay(store: SessionStore, parsed: Args) -> int:
    watched = sys.stdout.isatty()
    if parsed.step and not (watched and sys.stdin.isatty()):
        raise UsageError("--step waits for your Enter, and there is no terminal here")
    row = store.find(parsed.id)
    waits = parsed.pace is not None or (watched and not parsed.step)
    for frame in frames(clean(store.records(row.id)), pace=parsed.pace or 1.0):
        if waits and frame.pause_s:
            time.sleep(frame.pause_s)
        if code := say(frame.text):
            return code
        if parsed.step and frame.rests and not _goes_on():
            return 0
    return 0


def _goes_on() -> bool:
    try:
        return typed_line("Enter next · q leave › ").strip().lower() != "q"
    except EOFError:
        return False


def search_verb(store: SessionStore, parsed: Args) -> int:
    """Exit 0 when something was found, 1 when not, as grep does."""
    words = " ".join(parsed.words)
    if not words.strip():
        raise UsageError("Search for what? bridle sessions search WORDS")
    rows = {row.id: row for row in store.list()}
    found = search_hits(StoredArchive(store).search(words, limit=FOUND_MAX), rows.values())
    here = os.path.realpath(".")
    wanted = found if parsed.all else [hit for hit in found if rows[hit.session].cwd == here]
    if parsed.json:
        say_json(wanted)
    elif wanted:
        say("".join(_shown(hit, rows[hit.session], everywhere=parsed.all) for hit in wanted[: parsed.limit]))
        if len(wanted) > parsed.limit:
            say(f"… {len(wanted) - parsed.limit} more: --limit N\n")
    else:
        elsewhere = f" {counted(len(found), 'place')} in other folders: --all" if found else ""
        say(f"Nobody said that here.{elsewhere}\n")
    return 0 if wanted else 1


def _shown(hit: SearchHit, row: SessionRow, *, everywhere: bool) -> str:
    title = title_words(row)
    where = f"   {visible_line(row.cwd)}" if everywhere else ""
    when = age(time.time() * 1000 - hit.ts_ms)
    turn = f"   turn {hit.turn}" if hit.turn is not None else ""
    excerpt = " ".join(visible_line(hit.excerpt).split())
    return f"{short(row.id)}   {title}   {when}{turn}{where}\n    {hit.who}: {excerpt}\n"


EXIT_DAMAGED = 1


def repair_store(store: SessionStore, parsed: Args) -> int:
    """Exit code 1 when something was damaged, repaired or not: whoever asked has something to read."""
    report = StoredArchive(store).repair(only_look=parsed.check)
    code = 0 if report.whole else EXIT_DAMAGED
    if parsed.json:
        say_json({"whole": report.whole, "report": report})
        return code
    lines = [visible_line(line) for line in repair.words(report)]
    if parsed.check and not report.whole:
        lines.append("Nothing was changed. Save what is whole: bridle sessions repair")
    elif report.without_tip:
        lines.append("They are taken as they are from now on.")
    return say_lines(lines) or code


def rekey(store: SessionStore) -> int:
    return say(f"Everything is encrypted with a new key: {visible(StoredArchive(store).rekey())}\n")


def back_up(store: SessionStore, parsed: Args) -> int:
    made = asyncio.run(SqliteStore(store).back_up(parsed.file))
    if parsed.json:
        return say_json(made)
    path, key = visible_line(made.path), visible_line(made.key_path)
    return say(
        f"{path}   {counted(made.sessions, 'session')}, {made.events:,} events, read back and whole.\n"
        f"{key}   its key, locked as it is here. Keep both. In again: bridle sessions import {path}\n"
    )
