"""`bridle sessions`: what is stored, looked at and put in order. What changes something is in `session_changes`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from msgspec import Raw, structs

from bridle.app.machine_store import session_store, store_to_look
from bridle.base.ids import list_place
from bridle.base.phrases import age, counted
from bridle.base.visible import visible
from bridle.cli.console import say, say_json
from bridle.cli.session_words import day, notes, title_words
from bridle.cli.unlock import sessions_unlocked
from bridle.clients.interaction.cells import fitting, width_of
from bridle.clients.interaction.story import Story
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope, is_expired
from bridle.sessions.store import SessionRow, SessionStore

COLUMNS = 80
"""A line of the list is no wider; programs read --json."""
FOLDER_COLUMNS = 20
PAGE = 30
"""So many sessions are listed where nobody says how many; programs get all of them."""
CHANGING = frozenset({"branch", "import", "rename", "pin", "dismiss", "delete", "prune"})


def sessions(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    env = sessions_unlocked(env)
    with store_to_look(env) if parsed.action == "search" else closing(session_store(env)) as store:
        match parsed.action:
            case "show":
                if parsed.tree:
                    return _show_tree(store, parsed.id, as_json=parsed.json)
                return _show_json(store, parsed.id) if parsed.json else _show(store, parsed.id)
            case "export":
                from bridle.cli.session_export import export

                return export(store, parsed)
            case "search":
                from bridle.cli.session_search import search_verb

                return search_verb(store, parsed)
            case "replay":
                from bridle.cli.session_replay import replay

                return replay(store, parsed)
            case "diff":
                from bridle.cli.session_diff import diff

                return diff(store, parsed)
            case "repair":
                from bridle.cli.session_repair import repair

                return repair(store, parsed)
            case "backup":
                from bridle.cli.session_repair import back_up

                return back_up(store, parsed)
            case "rekey":
                from bridle.cli.session_repair import rekey

                return rekey(store)
            case action if action in CHANGING:
                from bridle.cli.session_changes import change

                return change(store, parsed, env)
            case _:
                return _list(store, parsed)


def _list(store: SessionStore, parsed: argparse.Namespace) -> int:
    cwd = None if parsed.all else os.path.realpath(".")
    if parsed.json:
        rows = store.list(cwd=cwd, after=parsed.after, limit=parsed.limit)
        return say_json([_with_place(row) for row in rows])
    lines = session_lines(store, cwd, after=parsed.after, limit=parsed.limit or PAGE)
    if lines:
        return say("\n".join(lines) + "\n")
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
    where = f"   {_end_of(visible(row.cwd, newlines=False), FOLDER_COLUMNS)}" if everywhere else ""
    room = COLUMNS - len(own_id) - 4 - width_of(facts) - (FOLDER_COLUMNS + 3 if everywhere else 0)
    title = title_words(row)
    if special := notes(row):
        about = f" ({', '.join(special)})"
        title = _cut(title, max(8, room - len(about))) + about
    title = _cut(title, room)
    return f"{own_id} {star} {title}{' ' * (room - width_of(title))} {facts}{where}".rstrip()


def _cut(text: str, columns: int) -> str:
    return text if width_of(text) <= columns else text[: fitting(text, columns - 1)] + "…"


def _end_of(path: str, columns: int) -> str:
    while width_of(path) > columns:
        path = "…" + path[2:]
    return path


def _show(store: SessionStore, text: str) -> int:
    row = store.find(text)
    story = Story(diffs=True, outputs=True, child_words="all")
    lines = [
        f"{row.id}   {visible(row.title or '', newlines=False)}",
        f"in {visible(row.cwd, newlines=False)}{_with_profile(row.profile)}",
        "",
    ]
    if row.expired_ms is not None:
        lines += [f"What was said expired on {day(row.expired_ms)} and is not kept any more.", ""]
    said: list[str] = []
    for envelope in store.events(row.id):
        match envelope.event:
            case event if is_expired(event):
                pass
            case _ if not e.concerns(envelope):
                lines += [f"  {line}" for line in story.nested(envelope)]
            case e.InputAccepted(content=content, goal=None, child=""):
                lines += ["you", *_indented(e.text_of(content))]
            case e.StepStarted() | e.StepFailed():
                said.clear()
                lines += [f"  {line}" for line in story.nested(envelope)]
            case e.TextDelta(text=delta):
                said.append(delta)
            case e.StepEnded():
                if said:
                    lines += ["bridle", *_indented("".join(said))]
                said.clear()
            case e.TurnEnded(stop=stop, message=message) if stop != "end_turn":
                lines += [f"  ended: {visible(message or stop)}"]
            case _:
                lines += [f"  {line}" for line in story.nested(envelope)]
    return say("\n".join(lines) + "\n")


def _show_tree(store: SessionStore, text: str, *, as_json: bool) -> int:
    """The agents that were sent in a session, each below whoever sent it."""
    from bridle.clients.interaction.child_lines import tree_lines
    from bridle.protocol.child_tree import ChildTree

    row, tree = store.find(text), ChildTree()
    for envelope in store.events(row.id):
        tree.take(envelope)
    if as_json:
        return say_json({"session": row, "agents": list(tree.entries.values())})
    lines = tree_lines(tree, ids=True) or ["No agent was sent in this session."]
    title = visible(row.title or "", newlines=False)
    return say("\n".join((f"{row.id}   {title}".rstrip(), *lines)) + "\n")


def _with_profile(profile: str) -> str:
    return "" if profile == "default" else f", with the profile {visible(profile, newlines=False)}"


def _show_json(store: SessionStore, text: str) -> int:
    row = store.find(text)
    shown = {"session": row, "events": [Raw(encode_envelope(one)) for one in store.events(row.id)]}
    return say_json(shown)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in visible(text).splitlines()]
