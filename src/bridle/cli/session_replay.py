"""`bridle sessions replay`: a session as it went, to be watched. Nothing of it is run again."""

from __future__ import annotations

import argparse
import sys
import time

from bridle.cli.console import say
from bridle.cli.stdin import typed_line
from bridle.clients.replay import frames
from bridle.protocol.errors import UsageError
from bridle.sessions.export import clean
from bridle.sessions.store import SessionStore


def replay(store: SessionStore, parsed: argparse.Namespace) -> int:
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
