"""What a session did to files, as its own edits tell it. Pure.

Commands can change files too; what they did is known to undo, not to the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from bridle.protocol import events as e


class FileChange(msgspec.Struct, kw_only=True):
    """One file: lines added and removed by every edit of it, and the edits themselves in order."""

    path: str
    added: int = 0
    removed: int = 0
    created: bool = False
    deleted: bool = False
    diffs: list[str] = []


class Changes(msgspec.Struct, kw_only=True):
    """`commands` counts calls that may have changed more; `undone` the edits that were taken back again."""

    files: dict[str, FileChange] = {}
    commands: int = 0
    undone: int = 0


def changes_of(envelopes: Iterable[e.Envelope]) -> Changes:
    """Every edit that succeeded and was not taken back."""
    results: dict[str, e.ToolResult] = {}
    undone: set[str] = set()
    mutating: set[str] = set()
    for envelope in envelopes:
        match envelope.event:
            case e.ToolCallStarted(call_id=call_id, mutating=True):
                mutating.add(call_id)
            case e.ToolResult(outcome="ok" | "error" | "timeout" | "unknown") as result:
                results[result.call_id] = result
            case e.UndoApplied(calls=calls, redone=redone):
                undone = undone - set(calls) if redone else undone | set(calls)
            case _:
                pass
    changes = Changes()
    for call_id, result in results.items():
        edits = _edits(result)
        if edits and call_id in undone:
            changes.undone += 1
        elif edits:
            _add(changes, edits, result.metadata)
        elif result.tool == "bash" and call_id in mutating and call_id not in undone:
            changes.commands += 1
    return changes


def _edits(result: e.ToolResult) -> list[dict[str, Any]]:
    """The files a call changed, each with what its tool says about it."""
    metadata = result.metadata
    if result.outcome != "ok":
        return []
    files = metadata.get("files")
    if isinstance(files, list):
        return [file for file in cast("list[Any]", files) if isinstance(file, dict) and "path" in file]
    return [metadata] if isinstance(metadata.get("path"), str) and "added" in metadata else []


def _add(changes: Changes, edits: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
    diff = metadata.get("diff")
    for index, edit in enumerate(edits):
        path = str(edit["path"])
        file = changes.files.setdefault(path, FileChange(path=path))
        file.added += _number(edit.get("added"))
        file.removed += _number(edit.get("removed"))
        file.created = file.created or edit.get("created") is True
        file.deleted = edit.get("deleted") is True
        if index == 0 and isinstance(diff, str) and diff:
            file.diffs.append(diff)


def _number(value: object) -> int:
    return value if type(value) is int else 0
