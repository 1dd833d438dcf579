"""The guards as a layer: subjects are looked at before anybody is asked, and once more just before the call runs.

What they refuse no rule, answer or flag can lift. `path_guard`, `command_guard` and `addresses` say what that is.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec

from bridle.base.fs.files import read_limited
from bridle.base.fs.paths import PathRefused, find
from bridle.engine.tools import RunTool, Subject, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import Evidence
from bridle.safety.command_guard import NO_COMMAND, CheckedCommand, check_command, nothing_known
from bridle.safety.path_guard import (
    Blocked,
    FileAccess,
    NamedByUser,
    PathMode,
    PathPolicy,
    check_not_secret,
    check_place,
)
from bridle.shell.command_facts import Understand


def fail_closed(name: str, layer: ToolLayer) -> ToolLayer:
    """The layer, with one promise added: an exception of its own becomes a blocked call.

    What the layers behind it raise passes unchanged, and so does a log that cannot be written: that ends the
    turn.
    """

    async def closed(call: ToolCall, proceed: RunTool) -> ToolOutput:
        decided = False

        async def onward(call: ToolCall) -> ToolOutput:
            nonlocal decided
            decided = True
            return await proceed(call)

        try:
            return await layer(call, onward)
        except StoreError:
            raise
        except Exception as problem:
            if decided:
                raise
            return check_failed(name, call, problem)

    return closed


def check_failed(name: str, call: ToolCall, problem: Exception) -> ToolOutput:
    """The result of a call whose check `name` broke."""
    shown = f"{type(problem).__name__}: {problem}"
    return ToolOutput(
        outcome="blocked",
        reason="CheckFailed",
        content=sentence("CheckFailed", {"tool": call.name, "problem": shown}),
        evidence=Evidence(source=name, rule="fail closed", matched=type(problem).__name__),
    )


__all__ = [
    "FileAccess",
    "NamedByUser",
    "PathMode",
    "PathPolicy",
    "Understand",
    "guarded",
    "rechecked",
]

SOURCES = {"path": "path_guard", "command": "command_guard", "url": "address_guard"}
MAX_COMPARED_BYTES = 1 << 20
_PREVIEW_CHARACTERS = 200


class _Found(msgspec.Struct, frozen=True):
    subjects: tuple[Subject, ...]
    command: CheckedCommand


def guarded(policy: PathPolicy, understand: Understand = nothing_known) -> ToolLayer:
    """Fills the call's subjects, paths resolved, and what is known of its command, or blocks it.

    A command that is proven to only read makes the call one that changes nothing. Whatever goes wrong in here blocks
    the call too.
    """

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        found = _inspect(call, policy, understand)
        if isinstance(found, ToolOutput):
            return found
        command = found.command
        return await proceed(
            msgspec.structs.replace(
                call,
                subjects=found.subjects,
                parts=command.parts,
                named=command.named,
                mutating=call.mutating and not command.only_reads,
            )
        )

    return fail_closed(SOURCES["path"], layer)


def rechecked(
    policy: PathPolicy, understand: Understand = nothing_known
) -> Callable[[ToolCall], ToolOutput | None]:
    """Looks again just before the call runs; an output means it must not.

    Time has passed since the first look, a person may have thought it over: a path that leads elsewhere now
    is not the one that was allowed.
    """

    def recheck(call: ToolCall) -> ToolOutput | None:
        try:
            found = _inspect(call, policy, understand)
            if isinstance(found, ToolOutput):
                return found
            return _moved(call, found)
        except Exception as problem:  # noqa: BLE001  fail closed: no fault of a check may let a call pass
            return check_failed(SOURCES["path"], call, problem)

    return recheck


def _inspect(call: ToolCall, policy: PathPolicy, understand: Understand) -> _Found | ToolOutput:
    found: list[Subject] = []
    command = NO_COMMAND
    subjects = call.definition.subjects(call.args)
    starts_command = any(subject.kind == "command" for subject in subjects)
    cwd = policy.folders.workspace
    for subject in subjects:
        try:
            match subject.kind:
                case "path":
                    found.append(_checked_path(subject, policy, starts_command=starts_command))
                    cwd = found[-1].resolved if starts_command else cwd
                case "command":
                    command = check_command(understand(subject.value, cwd), cwd=cwd, policy=policy)
                    found.append(subject)
                case "url":
                    _check_url(subject.value, policy)
                    found.append(subject)
                case "agent":
                    found.append(subject)
        except Blocked as blocked:
            return _blocked(subject, blocked)
    return _Found(tuple(found), command)


def _checked_path(subject: Subject, policy: PathPolicy, *, starts_command: bool) -> Subject:
    workspace = policy.folders.workspace
    access: FileAccess = "write" if subject.access == "write" else "read"
    try:
        target = find(subject.value, workspace)
    except PathRefused as refused:
        raise Blocked("PathNotAllowed", "path", refused.problem) from None
    try:
        check_place(target, policy, access, starts_command=starts_command)
        if access == "read":
            return msgspec.structs.replace(subject, resolved=target.path)
        check_not_secret(subject.value, target, policy, workspace)
    except Blocked as blocked:
        blocked.matched = target.path
        raise
    return msgspec.structs.replace(subject, resolved=target.path, content=_content_digest(target.path))


def _check_url(url: str, policy: PathPolicy) -> None:
    if (problem := policy.judge_url(url)) is not None:
        raise Blocked("NeverAllowed", "address", problem, matched=problem)


def _moved(call: ToolCall, found: _Found) -> ToolOutput | None:
    before = {(subject.kind, subject.value): subject for subject in call.subjects}
    for subject in found.subjects:
        seen = before.get((subject.kind, subject.value))
        if seen is None or seen.resolved != subject.resolved:
            problem = "it leads elsewhere since it was checked"
            return _blocked(subject, Blocked("PathNotAllowed", "moved", problem, matched=subject.resolved))
        if seen.content != subject.content:
            changed = Blocked("ChangedSinceApproval", "changed", matched=subject.resolved)
            return _blocked(subject, changed)
        if subject.kind == "command" and not _is_as_before(call, found.command):
            problem = "it would do something else than when it was checked"
            return _blocked(subject, Blocked("NeverAllowed", "moved", problem, matched=subject.value))
    return None


def _is_as_before(call: ToolCall, command: CheckedCommand) -> bool:
    """Whether a command still means what it meant, and still only reads where the call relies on that."""
    relies_on_reading = not call.mutating and call.definition.mutating(call.args)
    return (call.parts, call.named) == (command.parts, command.named) and (
        command.only_reads or not relies_on_reading
    )


def _content_digest(resolved: str) -> str:
    """What a file holds, as far as a question would show it; empty for one that is not there or is no plain file."""
    try:
        return sha256(read_limited(resolved, MAX_COMPARED_BYTES).data).hexdigest()
    except OSError:
        return ""


def _blocked(subject: Subject, blocked: Blocked) -> ToolOutput:
    """One sentence for the person and the model, and the facts behind it."""
    data = {"path": _preview(blocked.path or subject.value), "problem": _preview(blocked.problem)}
    return ToolOutput(
        outcome="blocked",
        reason=blocked.reason,
        content=sentence(blocked.reason, data),
        evidence=Evidence(
            source=SOURCES[subject.kind],
            rule=blocked.rule,
            matched=_preview(blocked.matched),
            preview=_preview(_without_password(subject)),
        ),
    )


def _without_password(subject: Subject) -> str:
    """An address is shown without what stands before its `@`."""
    if subject.kind != "url":
        return subject.value
    scheme, slashes, rest = subject.value.partition("//")
    return scheme + slashes + rest.rpartition("@")[2]


def _preview(text: str) -> str:
    """Short enough to show, and encodable whatever the model wrote."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _PREVIEW_CHARACTERS else text[:_PREVIEW_CHARACTERS] + "…"
