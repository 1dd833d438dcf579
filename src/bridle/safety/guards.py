"""The guards as a layer: subjects are looked at before anybody is asked, and once more just before the call runs.

What they refuse no rule, answer or flag can lift. `path_guard`, `check_command` here and `addresses` say what that is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import islice

import msgspec

from bridle.base.fs.files import read_limited
from bridle.base.fs.paths import (
    PathRefused,
    PathTarget,
    find,
    find_entry,
    is_beneath,
    is_beneath_any,
    leads_into_process,
)
from bridle.base.net.addresses import metadata_problem
from bridle.engine.tools import RunTool, Subject, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import CommandPart, Evidence
from bridle.safety.call_risk import shown_parts
from bridle.safety.path_guard import (
    Blocked,
    FileAccess,
    NamedByUser,
    PathMode,
    PathPolicy,
    check_not_secret,
    check_own,
    check_place,
)
from bridle.shell.command_facts import SEVERITY, Part, PathUse, Understand, Understanding

MAX_MATCHES = 1000

# fmt: off
_OWN_STREAMS = frozenset({
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/stdin", "/dev/stdout",
    "/dev/stderr", "/dev/fd",
})
# fmt: on
_TAKES_LINKS_THEMSELVES = frozenset({"rm", "rmdir", "unlink", "mv", "git"})


class CheckedCommand(msgspec.Struct, frozen=True):
    """What later layers may know of a command. `only_reads`: proven, with every path it uses known."""

    parts: tuple[CommandPart, ...]
    named: tuple[Subject, ...]
    only_reads: bool


NO_COMMAND = CheckedCommand((), (), only_reads=False)


def nothing_known(command: str, _cwd: str) -> Understanding:
    """For who has no parser: a command of which nothing is known is never quiet."""
    return Understanding(command=command, shape="compound", parts=(), command_class="unparseable")


def check_command(understood: Understanding, *, cwd: str, policy: PathPolicy) -> CheckedCommand:
    """Raises `Blocked` for what must never run. `cwd` is the resolved folder the command starts in."""
    if understood.refused is not None:
        rule = understood.refused_rule or "command"
        raise Blocked("NeverAllowed", rule, understood.refused, matched=_worst(understood))
    return CheckedCommand(
        parts=shown_parts(understood),
        named=tuple(named for part in understood.parts for named in _named(part, cwd, policy)),
        only_reads=understood.read_only and all(_only_reads(part) for part in understood.parts),
    )


def _worst(understood: Understanding) -> str:
    """The part a refusal is most likely about."""
    worst = max(understood.parts, key=lambda part: SEVERITY.index(part.command_class), default=None)
    return worst.text if worst is not None else understood.command


def _only_reads(part: Part) -> bool:
    return all(use.path is not None and use.access in {"read", "run"} for use in part.uses)


def _named(part: Part, cwd: str, policy: PathPolicy) -> Iterator[Subject]:
    for url in part.urls:
        _check_address(url, part)
        yield Subject(kind="url", access="fetch", value=url)
    for use in part.uses:
        if use.path is None:
            continue
        for match in _matches(use.path, cwd) if use.pattern else ():
            _checked(match, use, part, cwd, policy)
        yield Subject(
            kind="path",
            access="write" if use.access in {"write", "delete"} else "read",
            value=use.path,
            resolved=_checked(use.path, use, part, cwd, policy),
        )


def _check_address(url: str, part: Part) -> None:
    if (problem := metadata_problem(url)) is not None:
        raise Blocked("NeverAllowed", "address", problem, matched=part.text)


def _matches(pattern: str, cwd: str) -> Iterator[str]:
    """The files a pattern means now, as far as they can be looked at in reasonable time."""
    from glob import iglob

    return islice(iglob(pattern, root_dir=cwd), MAX_MATCHES)


def _checked(path: str, use: PathUse, part: Part, cwd: str, policy: PathPolicy) -> str:
    """Where the path leads, if the command may use it so."""
    absolute = os.path.normpath(os.path.join(cwd, path))
    if use.access != "delete" and (absolute in _OWN_STREAMS or os.path.dirname(absolute) == "/dev/fd"):
        return absolute  # its own stream, and not ours, whatever the link says here
    if leads_into_process(absolute):
        problem = "it shows the inside of a running process"
        raise Blocked("PathNotAllowed", "process", problem, path=path, matched=part.text)
    try:
        target = _target(path, use, part, cwd)
        check_own(target, policy, reads=use.access in {"read", "run"})
        if use.access in {"write", "delete"}:
            check_not_secret(path, target, policy, cwd)
    except PathRefused as refused:
        raise Blocked("PathNotAllowed", "path", refused.problem, path=path, matched=part.text) from None
    except Blocked as blocked:
        blocked.path, blocked.matched = path, part.text
        raise
    if use.access == "delete" or (part.command_class == "destructive" and use.access == "write"):
        _check_destroyed(path, target, part, policy)
    return target.path


def _target(path: str, use: PathUse, part: Part, cwd: str) -> PathTarget:
    program = os.path.basename((part.words[0] if part.words else None) or "")
    if use.access == "delete" and program in _TAKES_LINKS_THEMSELVES:
        return find_entry(path, cwd)
    return find(path, cwd)


def _check_destroyed(path: str, target: PathTarget, part: Part, policy: PathPolicy) -> None:
    """What is destroyed belongs to the session, wholly."""
    if policy.folders.place(target.path) == "outside" and not _is_scratch(target, policy.scratch):
        problem = f"it deletes or destroys what is outside the workspace ({path})"
        raise Blocked("NeverAllowed", "outside", problem, path=path, matched=part.text)
    if any(is_beneath(os.path.realpath(folder), target.path) for folder in policy.protected):
        problem = "Bridle keeps its own settings and records below it"
        raise Blocked("PathNotAllowed", "protected", problem, path=path, matched=part.text)


def _is_scratch(target: PathTarget, folders: tuple[str, ...]) -> bool:
    """A file in a folder for temporary ones, or what is not there yet and so must be made by the command itself.

    Deleting those follows the mode: commands tidy up behind themselves. A folder that stands there already is
    somebody's, and how much is below it nobody has seen.
    """
    if not is_beneath_any(target.path, folders) or target.path in folders:
        return False
    return target.status is None or not stat.S_ISDIR(target.status.st_mode)


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


__all__ = ["FileAccess", "NamedByUser", "PathMode", "PathPolicy", "Understand", "guarded", "rechecked"]

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
