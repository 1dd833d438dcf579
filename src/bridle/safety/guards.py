"""Guards on paths: what no rule, answer or flag can lift.

They look at the subjects of a call before anybody is asked, and once more just before it runs. A path outside
the workspace that is only read is not refused here: it is never quiet, so the rules and the mode decide.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from bridle.base.files import read_limited
from bridle.engine.tools import RunTool, Subject, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import sentence
from bridle.protocol.events import Evidence
from bridle.safety.closed import check_failed, fail_closed
from bridle.safety.paths import (
    PathRefused,
    SessionFolders,
    is_beneath_any,
    is_inside_same_folder,
    is_process_state,
    resolve,
)

PathMode: TypeAlias = Literal["workspace", "allowlist", "off"]

SOURCE = "path_guard"
MAX_COMPARED_BYTES = 1 << 20
_PREVIEW_CHARACTERS = 200


class PathPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What file tools may touch.

    `workspace`: writes stay in the session's folders. `allowlist`: reads and writes stay in `allowed` and the
    added folders. `off`: anywhere. In every mode `protected` folders (Bridle's own) stay closed. `allowed`
    holds resolved paths. `clear` is a folder known to lie in no protected one: what is above it is looked at once.
    """

    folders: SessionFolders
    mode: PathMode = "workspace"
    allowed: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    clear: str = ""


def workspace_policy(folders: SessionFolders, protected: tuple[str, ...]) -> PathPolicy:
    """The default policy of a session, with what can be known at its start."""
    outside = not is_inside_same_folder(folders.workspace, protected)
    return PathPolicy(folders=folders, protected=protected, clear=folders.workspace if outside else "")


class Blocked(Exception):
    """A guard says no. `problem` is the end of the sentence of `PathNotAllowed`."""

    def __init__(self, reason: str, rule: str, problem: str = "") -> None:
        super().__init__(f"{rule}: {problem}")
        self.reason = reason
        self.rule = rule
        self.problem = problem


def guarded(policy: PathPolicy) -> ToolLayer:
    """Fills the call's subjects, paths resolved, or blocks it. Whatever goes wrong in here blocks it too."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        found = _inspect(call, policy)
        if isinstance(found, ToolOutput):
            return found
        return await proceed(msgspec.structs.replace(call, subjects=found))

    return fail_closed(SOURCE, layer)


def rechecked(policy: PathPolicy) -> Callable[[ToolCall], ToolOutput | None]:
    """Looks again just before the call runs; an output means it must not.

    Time has passed since the first look, a person may have thought it over: a path that leads elsewhere now
    is not the one that was allowed.
    """

    def recheck(call: ToolCall) -> ToolOutput | None:
        try:
            found = _inspect(call, policy)
            if isinstance(found, ToolOutput):
                return found
            return _moved(call, found)
        except Exception as problem:  # noqa: BLE001  fail closed: no fault of a check may let a call pass
            return check_failed(SOURCE, call, problem)

    return recheck


def _inspect(call: ToolCall, policy: PathPolicy) -> tuple[Subject, ...] | ToolOutput:
    found: list[Subject] = []
    subjects = call.definition.subjects(call.args)
    starts_command = any(subject.access == "run" for subject in subjects)
    for subject in subjects:
        if subject.kind != "path":
            found.append(subject)
            continue
        resolved = ""
        try:
            resolved = resolve(subject.value, policy.folders.workspace)
            _check(subject, resolved, policy, starts_command=starts_command)
        except PathRefused as refused:
            return _blocked(subject, resolved, Blocked("PathNotAllowed", "path", refused.problem))
        except Blocked as blocked:
            return _blocked(subject, resolved, blocked)
        content = _content_digest(resolved) if subject.access == "write" else ""
        found.append(msgspec.structs.replace(subject, resolved=resolved, content=content))
    return tuple(found)


def _check(subject: Subject, resolved: str, policy: PathPolicy, *, starts_command: bool) -> None:
    if is_inside_same_folder(resolved, policy.protected, clear=policy.clear):
        raise Blocked("PathNotAllowed", "protected", "Bridle keeps its own settings and records there")
    if is_process_state(resolved):
        raise Blocked("PathNotAllowed", "process", "it shows the inside of a running process")
    match policy.mode:
        case "workspace":
            _check_workspace(subject, resolved, policy.folders, starts_command=starts_command)
        case "allowlist":
            if not is_beneath_any(resolved, (*policy.allowed, *policy.folders.added)):
                raise Blocked("PathNotAllowed", "allowlist", "only the allowed folders may be used")
        case "off":
            pass


def _check_workspace(
    subject: Subject, resolved: str, folders: SessionFolders, *, starts_command: bool
) -> None:
    if folders.place(resolved) != "outside":
        return
    if starts_command:
        raise Blocked("PathNotAllowed", "workspace", "commands start inside the workspace")
    if subject.access != "read":
        raise Blocked("PathOutsideWorkspace", "workspace")


def _moved(call: ToolCall, found: tuple[Subject, ...]) -> ToolOutput | None:
    before = {(subject.kind, subject.value): subject for subject in call.subjects}
    for subject in found:
        seen = before.get((subject.kind, subject.value))
        if seen is None or seen.resolved != subject.resolved:
            moved = Blocked("PathNotAllowed", "moved", "it leads elsewhere since it was checked")
            return _blocked(subject, subject.resolved, moved)
        if seen.content != subject.content:
            return _blocked(subject, subject.resolved, Blocked("ChangedSinceApproval", "changed"))
    return None


def _content_digest(resolved: str) -> str:
    """What a file holds, as far as a question would show it; empty for one that is not there or is no plain file."""
    try:
        return sha256(read_limited(resolved, MAX_COMPARED_BYTES).data).hexdigest()
    except OSError:
        return ""


def _blocked(subject: Subject, resolved: str, blocked: Blocked) -> ToolOutput:
    data = {"path": _preview(subject.value), "problem": blocked.problem}
    return ToolOutput(
        outcome="blocked",
        reason=blocked.reason,
        content=sentence(blocked.reason, data),
        evidence=Evidence(
            source=SOURCE, rule=blocked.rule, matched=_preview(resolved), preview=_preview(subject.value)
        ),
    )


def _preview(text: str) -> str:
    """Short enough to show, and encodable whatever the model wrote."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _PREVIEW_CHARACTERS else text[:_PREVIEW_CHARACTERS] + "…"
