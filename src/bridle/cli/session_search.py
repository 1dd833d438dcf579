"""`bridle sessions search`: where something was said."""

from __future__ import annotations

import argparse
import os
import time

from bridle.app.query_answers import FOUND_MAX, search_hits
from bridle.base.phrases import age, counted
from bridle.base.visible import visible
from bridle.cli.console import say, say_json
from bridle.cli.session_words import short, title_words
from bridle.protocol.errors import UsageError
from bridle.protocol.queries import SearchHit
from bridle.sessions.store import SessionRow, SessionStore
from bridle.sessions.stored_archive import StoredArchive


def search_verb(store: SessionStore, parsed: argparse.Namespace) -> int:
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
    where = f"   {visible(row.cwd, newlines=False)}" if everywhere else ""
    when = age(time.time() * 1000 - hit.ts_ms)
    turn = f"   turn {hit.turn}" if hit.turn is not None else ""
    excerpt = " ".join(visible(hit.excerpt, newlines=False).split())
    return f"{short(row.id)}   {title}   {when}{turn}{where}\n    {hit.who}: {excerpt}\n"
