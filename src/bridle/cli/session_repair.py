"""`bridle sessions repair`, `backup` and `rekey`: the whole database looked at and saved, copied, or encrypted anew."""

from __future__ import annotations

import argparse
import asyncio

from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.cli.console import say, say_json
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore
from bridle.sessions.stored_archive import StoredArchive

EXIT_DAMAGED = 1


def repair(store: SessionStore, parsed: argparse.Namespace) -> int:
    """Exit code 1 when something was damaged, repaired or not: whoever asked has something to read."""
    from bridle.sessions import repair

    report = StoredArchive(store).repair(only_look=parsed.check)
    code = 0 if report.whole else EXIT_DAMAGED
    if parsed.json:
        say_json({"whole": report.whole, "report": report})
        return code
    lines = [visible(line, newlines=False) for line in repair.words(report)]
    if parsed.check and not report.whole:
        lines.append("Nothing was changed. Save what is whole: bridle sessions repair")
    elif report.without_tip:
        lines.append("They are taken as they are from now on.")
    return say("".join(f"{line}\n" for line in lines)) or code


def rekey(store: SessionStore) -> int:
    return say(f"Everything is encrypted with a new key: {visible(StoredArchive(store).rekey())}\n")


def back_up(store: SessionStore, parsed: argparse.Namespace) -> int:
    made = asyncio.run(SqliteStore(store).back_up(parsed.file))
    if parsed.json:
        return say_json(made)
    path, key = visible(made.path, newlines=False), visible(made.key_path, newlines=False)
    return say(
        f"{path}   {counted(made.sessions, 'session')}, {made.events:,} events, read back and whole.\n"
        f"{key}   its key, locked as it is here. Keep both. In again: bridle sessions import {path}\n"
    )
