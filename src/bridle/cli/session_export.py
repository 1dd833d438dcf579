"""`bridle sessions export`: a session as JSON lines, as a transcript or as a page; to stdout or into a file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator

from bridle.base.files import write_atomic
from bridle.base.json_line import escaped
from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.cli.console import say, unwritten
from bridle.cli.session_words import day
from bridle.clients.as_chain import chain_lines
from bridle.clients.as_events import events_lines
from bridle.clients.interaction.as_html import html
from bridle.clients.interaction.as_markdown import markdown
from bridle.protocol.errors import UsageError
from bridle.sessions.export import clean, jsonl
from bridle.sessions.store import SessionRow, SessionStore

ENDINGS = {".jsonl": "jsonl", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


def export(store: SessionStore, parsed: argparse.Namespace) -> int:
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


def _format(parsed: argparse.Namespace) -> str:
    """What was asked for, else what the name of the file says."""
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
    """The same, and nothing in it is obeyed. Only here: who checks a chain wants its bytes."""
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
