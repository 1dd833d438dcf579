"""`bridle sessions`: look at what is stored. Nothing here changes a session."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping

from msgspec import Raw

from bridle.app.engine import session_store
from bridle.base.visible import visible
from bridle.cli import say, say_json, unwritten
from bridle.clients.story import Story
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import UsageError
from bridle.sessions.export import jsonl
from bridle.sessions.store import SessionRow, SessionStore


def sessions(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    store = session_store(env)
    try:
        match parsed.action:
            case "show":
                return _show_json(store, parsed.id) if parsed.json else _show(store, parsed.id)
            case "export":
                return _export(store, parsed.id or parsed.id_option)
            case _:
                return _list(store, everywhere=parsed.all, as_json=parsed.json)
    finally:
        store.close()


def _list(store: SessionStore, *, everywhere: bool, as_json: bool) -> int:
    if as_json:
        rows = store.list(cwd=None if everywhere else os.path.realpath("."))
        return say_json(rows)
    lines = session_lines(store, everywhere=everywhere)
    if not lines:
        return say(
            "No sessions here yet. Start one: bridle run PROMPT   Elsewhere: bridle sessions list --all\n"
        )
    return say("\n".join(lines) + "\n")


def session_lines(store: SessionStore, *, everywhere: bool) -> list[str]:
    """The sessions of this folder or of all, newest first, one a line with its id."""
    now_ms = time.time() * 1000
    rows = store.list(cwd=None if everywhere else os.path.realpath("."))
    return [_row(row, now_ms, everywhere=everywhere) for row in rows]


def _row(row: SessionRow, now_ms: float, *, everywhere: bool) -> str:
    title = visible(row.title or "(no words yet)", newlines=False)
    title = title if len(title) <= 44 else title[:43] + "…"
    turns = f"{row.turns} turn" + ("" if row.turns == 1 else "s")
    place = f"   {visible(row.cwd, newlines=False)}" if everywhere else ""
    return f"{row.id}   {title:<44}   {age(now_ms - row.updated_ms):>12}   {turns:>8}{place}"


def age(age_ms: float) -> str:
    minutes = int(age_ms // 60_000)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    if minutes < 48 * 60:
        return f"{minutes // 60} h ago"
    return f"{minutes // (24 * 60)} days ago"


def _show(store: SessionStore, text: str) -> int:
    row = store.find(text)
    story = Story(diffs=True)
    lines = [f"{row.id}   {visible(row.title or '', newlines=False)}", f"in {visible(row.cwd, newlines=False)}", ""]
    said: list[str] = []
    for envelope in store.events(row.id):
        match envelope.event:
            case e.InputAccepted(content=content):
                lines += ["you", *_indented(e.text_of(content))]
            case e.StepStarted() | e.StepFailed():
                said.clear()
                lines += [f"  {line}" for line in story.lines(envelope.event)]
            case e.TextDelta(text=delta):
                said.append(delta)
            case e.StepEnded():
                if said:
                    lines += ["bridle", *_indented("".join(said))]
                said.clear()
            case e.TurnEnded(stop=stop, message=message) if stop != "end_turn":
                lines += [f"  ended: {visible(message or stop)}"]
            case event:
                lines += [f"  {line}" for line in story.lines(event)]
    return say("\n".join(lines) + "\n")


def _show_json(store: SessionStore, text: str) -> int:
    row = store.find(text)
    shown = {"session": row, "events": [Raw(encode_envelope(one)) for one in store.events(row.id)]}
    return say_json(shown)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in visible(text).splitlines()]


def _export(store: SessionStore, text: str | None) -> int:
    if not text:
        raise UsageError("Which session? bridle sessions export ID")
    lines = jsonl(store.records(store.find(text).id))
    try:
        for line in lines:
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except OSError as problem:
        return unwritten(problem)
    return 0
