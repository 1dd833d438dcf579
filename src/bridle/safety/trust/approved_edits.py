"""Edits of instruction files that a person said yes to: what the question showed is trusted once it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from bridle.base.files import repository_root
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.protocol.events import GrantAdded, Notice, PermissionDecided
from bridle.safety.trust.approvals import Approvals, content_digest

Recorded: TypeAlias = PermissionDecided | GrantAdded | Notice


class ApprovedEdits:
    """What a person said yes to in an edit question is trusted already; nobody is asked twice for the same bytes.

    Only their own answer to that very change counts; a rule, a grant or `--yes` has read nothing. What was shown is
    approved, not what is in the file: should the two differ, the file is asked about.
    """

    def __init__(self, approvals: Approvals, *, cwd: str, sources: Sequence[str]) -> None:
        self._approvals = approvals
        self._cwd = cwd
        self._root = repository_root(cwd)
        self._sources = frozenset(sources)
        self._agreed: set[str] = set()

    def hearing(self, record: Callable[[Recorded], object]) -> Callable[[Recorded], object]:
        """The same record of decisions, with an ear for a person's own yes."""

        def record_and_note(event: Recorded) -> object:
            if isinstance(event, PermissionDecided) and event.verdict == "allow" and event.answered_by:
                self._agreed.add(event.call_id)
            return record(event)

        return record_and_note

    async def layer(self, call: ToolCall, proceed: RunTool) -> ToolOutput:
        """The layer around a tool: once it has made the change a person agreed to, that content is trusted."""
        output = await proceed(call)
        if call.id in self._agreed and output.outcome == "ok":
            self._written(call.name, call.input)
        self._agreed.discard(call.id)
        return output

    def _written(self, tool: str, given: Mapping[str, Any]) -> None:
        path = given.get("path")
        if not isinstance(path, str) or os.path.basename(path) not in self._sources:
            return
        match tool, given:
            case "write_file", {"content": str(content)}:
                self.approve_written(path, content)
            case "edit_file", {"old_string": str(old), "new_string": str(new)}:
                before = self._approved_text(path)
                everywhere = given.get("replace_all") is True
                if before is not None and (before.count(old) == 1 or (everywhere and old in before)):
                    self.approve_written(path, before.replace(old, new))
            case _:
                pass

    def approve_written(self, path: str, content: str) -> None:
        """A person read this content, whole, and agreed that it is written to this instruction file."""
        data = content.encode("utf-8", "replace")
        self._approvals.add(self._relative(path), content_digest(data), root=self._root, text=data)

    def _approved_text(self, path: str) -> str | None:
        last = self._approvals.last(kind="instructions", root=self._root, path=self._relative(path))
        return None if last is None else self._approvals.text_of(last)

    def _relative(self, path: str) -> str:
        return os.path.relpath(os.path.join(self._cwd, path), self._root)
