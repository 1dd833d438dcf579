"""Collect the file changes of a session from its edits.

Commands can change files too; what they did is known to undo, not to the events. What an agent did in a worktree of its
own is on a branch, and not in the folder of the session.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridle.clients.interaction.render.story import edited_files
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.display_values import EditedFile


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
    tree = ChildTree()
    for envelope in envelopes:
        tree.take(envelope)
        if tree.is_apart(envelope.invocation):
            continue
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
        edits = edited_files(result)
        if edits and call_id in undone:
            changes.undone += 1
        elif edits:
            _add(changes, edits)
        elif result.tool == "bash" and call_id in mutating and call_id not in undone:
            changes.commands += 1
    return changes


def _add(changes: Changes, edits: Iterable[EditedFile]) -> None:
    for edit in edits:
        file = changes.files.setdefault(edit.path, FileChange(path=edit.path))
        file.added += edit.added
        file.removed += edit.removed or 0
        file.created = file.created or edit.kind == "create"
        file.deleted = edit.kind == "delete"
        if edit.diff:
            file.diffs.append(edit.diff)
