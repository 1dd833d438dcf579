"""`bridle sessions diff`: what a session changed, or what two of them changed differently."""

from __future__ import annotations

import argparse
from itertools import takewhile

from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.cli.console import say, say_json
from bridle.clients.interaction.file_changes import Changes, FileChange, changes_of
from bridle.protocol.events import InputAccepted, text_of
from bridle.sessions.store import SessionRow, SessionStore


def diff(store: SessionStore, parsed: argparse.Namespace) -> int:
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
    names = [visible(row.title or row.id, newlines=False) for row, _ in (first, second)]
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
        lines.append(f"{visible(path, newlines=False)}   {same}")
    return "\n".join(lines or ["Neither changed a file."]) + "\n"


def _common_turns(store: SessionStore, first: SessionRow, second: SessionRow) -> int:
    """How many inputs both sessions begin with: a branch shares those of its parent."""
    said = [
        [text_of(one.event.content) for one in store.events(row.id) if isinstance(one.event, InputAccepted)]
        for row in (first, second)
    ]
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*said, strict=False)))


def _line(file: FileChange) -> str:
    note = "  created" if file.created else "  deleted" if file.deleted else ""
    return f"{visible(file.path, newlines=False)}   {_size(file)}{note}"


def _size(file: FileChange) -> str:
    return f"+{file.added} -{file.removed}"


def _diffs(file: FileChange) -> list[str]:
    return [visible(one).rstrip("\n") for one in file.diffs]


def _beyond(row: SessionRow, changes: Changes) -> list[str]:
    """What these lines do not show."""
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
