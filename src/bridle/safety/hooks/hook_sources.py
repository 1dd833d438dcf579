"""Where hooks come from: entries of settings files, and programs in the two `hooks` folders.

A folder holds programs named for their moment: `PreToolUse`, `PreToolUse.sh` (any ending), and every program in
`PreToolUse.d/`, by name. The person's own folder is trusted. A project's hooks count only with `--allow-project-hooks`
and once the person has approved the content of the file each one stands in. What does not count is named.

Hooks of a project come first and the person's own after them: whoever patches, the person's own look last.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from bridle.base.fs.files import first_entries, read_limited
from bridle.base.text.terminal_text import visible
from bridle.protocol.errors import BridleError, sentence
from bridle.safety.hooks.definitions import (
    EVENTS,
    MAX_BYTES,
    BadHook,
    Hook,
    HookDefaults,
    HookEvent,
    IsTrusted,
    Scope,
    event_named,
    hook_from,
    unapproved,
)
from bridle.safety.trust.approvals import content_digest
from bridle.safety.trust.trust_items import TrustItem
from bridle.safety.trust.trust_questions import ReviewedText

FOLDER = "hooks"
NOT_ALLOWED = "add --allow-project-hooks"
NOT_APPROVED = "not approved yet"


class WrittenHook(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `[[hooks]]` with values of the right types. `path` is its file, `where` its place for people.

    `confined`: it runs like the commands of the session, although the person agreed to it.
    """

    value: Mapping[str, Any]
    scope: Scope
    where: str
    path: str = ""
    confined: bool = False


class IgnoredHook(NamedTuple):
    """A hook that does not count, and why. `hook` is None where it could not even be read."""

    where: str
    why: str
    hook: Hook | None = None


class FoundHooks(NamedTuple):
    hooks: tuple[Hook, ...]
    ignored: tuple[IgnoredHook, ...]

    @property
    def notice(self) -> str | None:
        """One sentence about everything that was left out."""
        if not self.ignored:
            return None
        named = ", ".join(
            f"{visible(one.where, newlines=False)} ({visible(one.why, newlines=False)})"
            for one in self.ignored
        )
        return sentence("HooksIgnored", {"hooks": named})


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The project a session works in: its root, and its `.bridle` folder where it has one."""

    root: str
    folder: str | None = None


def find_hooks(
    written: Iterable[WrittenHook],
    *,
    config_folder: str,
    project: Project,
    cwd: str,
    is_trusted: IsTrusted,
    allow_project_hooks: bool,
    defaults: HookDefaults | None = None,
) -> FoundHooks:
    """Every hook that counts, in the order they run, and those that do not.

    Raises `BadConfig` for an entry of the person's own that means nothing: a gate must not get lost in silence.
    """
    defaults = defaults or HookDefaults()
    modules = os.path.join(config_folder, FOLDER)
    entries = list(written)
    found: list[Hook] = []
    ignored: list[IgnoredHook] = []
    for one in (
        *_from_entries((entry for entry in entries if entry.scope == "project"), project, defaults, ""),
        *_from_folder("project", project.folder, project, defaults),
        *_from_entries((entry for entry in entries if entry.scope == "user"), project, defaults, modules),
        *_from_folder("user", config_folder, project, defaults),
    ):
        if isinstance(one, IgnoredHook):
            ignored.append(one)
        elif one.scope == "project" and (
            why := _why_not(one, cwd, project, is_trusted, allowed=allow_project_hooks)
        ):
            ignored.append(IgnoredHook(_named(one), why, one))
        else:
            found.append(one)
    return FoundHooks(tuple(found), tuple(ignored))


def _named(hook: Hook) -> str:
    return hook.where if hook.where == hook.shown else f"{hook.where} {hook.shown}"


def _why_not(hook: Hook, cwd: str, project: Project, is_trusted: IsTrusted, *, allowed: bool) -> str:
    """What is still missing before a project's hook counts; empty if nothing is."""
    reasons = [] if allowed else [NOT_ALLOWED]
    path = unapproved(hook, cwd=cwd, workspaces=(project.root,), is_trusted=is_trusted)
    if path is not None:
        name = os.path.relpath(path, project.root)
        reasons.append(NOT_APPROVED if path in hook.approved else f"{name} is {NOT_APPROVED}")
    return "; ".join(reasons)


def _from_entries(
    entries: Iterable[WrittenHook], project: Project, defaults: HookDefaults, modules: str
) -> Iterator[Hook | IgnoredHook]:
    for entry in entries:
        foreign = entry.scope == "project"
        try:
            hook = hook_from(
                entry.value,
                scope=entry.scope,
                where=entry.where,
                folder=project.root if foreign else "",
                modules=modules,
                approved=(entry.path,) if foreign else (),
                defaults=defaults,
            )
            yield msgspec.structs.replace(hook, confined=foreign or entry.confined)
        except BadHook as bad:
            if not foreign:
                raise BridleError("BadConfig", where=entry.where, problem=bad.problem) from None
            yield IgnoredHook(entry.where, bad.problem)


def _from_folder(
    scope: Scope, folder: str | None, project: Project, defaults: HookDefaults
) -> Iterator[Hook | IgnoredHook]:
    if folder is None:
        return
    root = os.path.join(folder, FOLDER)
    for path in _programs(root):
        name = os.path.relpath(path, root)
        where = f".bridle/{FOLDER}/{name}" if scope == "project" else f"{FOLDER}/{name}"
        event = _event_of(name)
        why = _unusable(path, scope)
        if event is None:
            if not why:  # a program that would never run; a README is no such thing
                yield IgnoredHook(where, f"named for no event ({', '.join(EVENTS)})")
        elif why:
            yield IgnoredHook(where, why)
        else:
            hook = hook_from({"event": event, "command": [path]}, scope=scope, defaults=defaults)
            yield msgspec.structs.replace(
                hook,
                shown=where,
                where=where,
                folder=project.root if scope == "project" else "",
                approved=(path,) if scope == "project" else (),
            )


MAX_PROGRAMS = 500
"""So many files of a folder can be hooks."""


def _programs(root: str) -> Iterator[str]:
    """What stands in the folder and in its `.d` folders, by name."""
    for name in _names(root):
        path = os.path.join(root, name)
        if name.endswith(".d") and os.path.isdir(path):
            yield from (os.path.join(path, inner) for inner in _names(path))
        elif not os.path.isdir(path):
            yield path


def _names(folder: str) -> list[str]:
    try:
        return [one.name for one in first_entries(folder, MAX_PROGRAMS) if not one.name.startswith(".")]
    except OSError:
        return []


def _event_of(name: str) -> HookEvent | None:
    return event_named(name.split("/", 1)[0].split(".", 1)[0])


def _unusable(path: str, scope: Scope) -> str:
    """Why a file is not run; empty if it may be."""
    try:
        status = os.lstat(path) if scope == "project" else os.stat(path)
    except OSError as problem:
        return (problem.strerror or "unreadable").lower()
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "not a file"
    if not os.access(path, os.X_OK):
        return "not executable"
    return "others can write it" if scope == "user" and status.st_mode & 0o002 else ""


def hook_items(
    written: Sequence[WrittenHook], *, project: Project, config_folder: str, cwd: str
) -> Iterator[TrustItem]:
    """Yield the project's files that hooks would run. Its settings file is an item of its own."""
    found = find_hooks(
        written,
        config_folder=config_folder,
        project=project,
        cwd=cwd,
        is_trusted=lambda _path, _digest: True,
        allow_project_hooks=True,
    )
    seen = {hook.path for hook in written}
    for hook in found.hooks:
        needed: list[str] = []

        def note(path: str, _digest: str, needed: list[str] = needed) -> bool:
            needed.append(path)
            return True

        unapproved(hook, cwd=cwd, workspaces=(project.root,), is_trusted=note)
        for path in needed:
            if path not in seen:
                seen.add(path)
                yield from _hook_item(path, project.root, hook)


def _hook_item(path: str, root: str, hook: Hook) -> Iterator[TrustItem]:
    try:
        data = read_limited(path, MAX_BYTES).data
    except OSError:
        return
    shown, when = os.path.relpath(path, root), f"{hook.event} happens"
    text = f"(a program of {len(data)} bytes)" if b"\0" in data else data.decode("utf-8", "replace")
    reviewed = ReviewedText(shown=shown, text=text, kind="hook", runs=hook.shown, when=when)
    digest = content_digest(data)
    yield TrustItem(
        kind="hook", root=root, path=shown, shown=shown, digest=digest, data=data, reviewed=reviewed
    )
