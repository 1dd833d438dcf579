"""Events as other versions write them, read as this one has them. The bytes of a log stay as they are.

Until 0.2 questions and answers were texts, and a result told by loose keys of its metadata what there is to show. What
a memory is found by was its `key`, which every look for secrets stopped at.
A later version may show a result in a way that is not known here: then its text is all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bridle.protocol import display_values as shown
from bridle.protocol import events
from bridle.protocol.questions import OpenQuestion, WordsAnswer


def _asked_in_words(payload: dict[str, Any]) -> events.QuestionAsked:
    question = OpenQuestion(text=str(payload["question"]), choices=tuple(payload.get("choices", ())))
    return events.QuestionAsked(question_id=str(payload["question_id"]), question=question)


def _answered_in_words(payload: dict[str, Any]) -> events.QuestionAnswered:
    return events.QuestionAnswered(
        question_id=str(payload["question_id"]),
        answer=WordsAnswer(text=str(payload["answer"])),
        answered_by=str(payload["answered_by"]),
    )


def _as_plain(payload: dict[str, Any]) -> events.ToolResult:
    return msgspec.convert({**payload, "shown": None}, events.ToolResult)


def _found_by_key(payload: dict[str, Any]) -> events.ChildMemoryUpdated:
    return msgspec.convert({**payload, "memory_id": payload.get("key")}, events.ChildMemoryUpdated)


READERS: dict[str, Callable[[dict[str, Any]], events.AnyEvent]] = {
    "ChildMemoryUpdated": _found_by_key,
    "QuestionAsked": _asked_in_words,
    "QuestionAnswered": _answered_in_words,
    "ToolResult": _as_plain,
}
"""For payloads that do not fit the type of their kind. Raise `msgspec.ValidationError` where nothing fits."""


def with_shown(result: events.ToolResult) -> events.ToolResult:
    """The result with what its metadata says for people as a value; as it is where that says nothing."""
    try:
        value = _value(result.tool, result.metadata)
    except (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError):  # somebody else's keys
        return result
    return result if value is None else msgspec.structs.replace(result, shown=value)


def _value(tool: str, told: dict[str, Any]) -> shown.AnyShown | None:
    if "judged" in told:
        return _shown_as("judgement", judgement=told["judged"], by=told.get("judged_by", ""))
    if "timeout_s" in told:
        return _shown_as("wait", waited_s=told["timeout_s"])
    if tool == "bash" and ("exit_code" in told or "sandbox" in told):
        return _shown_as("command", **told, **told.get("hosts", {}))
    if tool == "read_file" and "last_line" in told:
        return _shown_as("read", **told) if told["last_line"] else shown.ShownRead()
    if tool == "grep" and "matches" in told:
        return _shown_as("search", found=told["matches"], files=told["files"], more=told["more"])
    if tool in ("glob", "ls") and "more" in told:
        return _shown_as("search", found=told["files" if tool == "glob" else "entries"], more=told["more"])
    if "diff" in told and tool in ("write_file", "edit_file", "apply_patch"):
        files: list[dict[str, Any]] = told.get("files", [told])
        given = [_file(file) for file in files]
        diffs = _parts(told["diff"], given)
        return _shown_as("edit", files=[{**file, "diff": diffs[at]} for at, file in enumerate(given)])
    return None


def _shown_as(tag: str, **fields: Any) -> shown.AnyShown:
    return msgspec.convert({**fields, "as": tag}, shown.AnyShown)


def _parts(diff: str, files: list[dict[str, Any]]) -> list[str]:
    """The diffs of the files, which were one text; a file without changes in its lines has none."""
    starts: list[int] = []
    for file in files:
        old = "/dev/null" if file["kind"] == "create" else f"a/{file.get('moved_from', file['path'])}"
        new = "/dev/null" if file["kind"] == "delete" else f"b/{file['path']}"
        starts.append(diff.find(f"--- {old}\n+++ {new}\n@@ ", max(starts, default=0)))
    if max(starts) < 0:
        starts[0] = 0  # whoever wrote it, it is shown
    ends = [min((other for other in starts if other > start), default=len(diff)) for start in starts]
    return [diff[start:end] if start >= 0 else "" for start, end in zip(starts, ends, strict=True)]


def _file(told: dict[str, Any]) -> dict[str, Any]:
    if told.get("created"):
        kind = "create"
    elif told.get("deleted"):
        kind = "delete"
    else:
        kind = "move" if "moved_from" in told else "change"
    return {**told, "kind": kind}
