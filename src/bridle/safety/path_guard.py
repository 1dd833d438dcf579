"""What no rule, answer or flag can lift about a path: where the session ends, what is Bridle's own, what is secret.

Blocked   the guard says no

A path outside the workspace that is only read is not refused here: it is never quiet, so the rules and the mode decide.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.paths import (
    PathTarget,
    SessionFolders,
    is_beneath_any,
    is_inside_same_folder,
    is_process_state,
    is_second_name,
    second_names,
)
from bridle.base.fs.private_places import PrivatePlaces
from bridle.base.secrets.secret_files import SECRET_FILES, is_secret_like, secret_matcher
from bridle.engine.tools import Sight
from bridle.safety.safety_settings import PathMode
from bridle.safety.url_rules import fetch_problem

FileAccess: TypeAlias = Literal["read", "write"]
NamedByUser: TypeAlias = Callable[[str, FileAccess], bool]
"""Whether a rule of the person's own names this absolute path for this access; one that means many files does not."""

JudgeUrl: TypeAlias = Callable[[str], str | None]
"""What is wrong with an address of the web, in a few words; None when nothing is."""

SCRATCH = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp")  # noqa: S108  compared, never opened


def never_named(_path: str, _access: FileAccess) -> bool:
    return False


def web_problem(url: str) -> str | None:
    """What is wrong with an address where no rule says anything about the web."""
    return fetch_problem(url)


class PathPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What file tools may touch.

    `workspace`: writes stay in the session's folders. `allowlist`: reads and writes stay in `allowed` and the added
    folders. `off`: anywhere. In every mode `protected` folders (Bridle's own) stay closed, and what looks like one
    of `secret_files` is not written, unless `named_by_user`. `allowed` holds resolved paths. `private` are places
    of a person's secrets, of which a search shows no content. `scratch` are folders in which programs leave files
    they mean to delete. `judge_url` says why an address of the web must not be fetched. `readable` are folders in a
    protected one, resolved, that may be read all the same.
    """

    folders: SessionFolders
    mode: PathMode = "workspace"
    allowed: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = SECRET_FILES
    named_by_user: NamedByUser = never_named
    scratch: tuple[str, ...] = SCRATCH
    judge_url: JudgeUrl = web_problem
    private: PrivatePlaces | None = None
    readable: tuple[str, ...] = ()


class Blocked(Exception):
    """A guard says no. `reason` has a sentence, with `problem` as its end; `rule` is the stable name of why."""

    def __init__(
        self, reason: str, rule: str, problem: str = "", *, path: str = "", matched: str = ""
    ) -> None:
        super().__init__(f"{rule}: {problem}")
        self.reason = reason
        self.rule = rule
        self.problem = problem
        self.path = path
        self.matched = matched


def why_not_written(path: str, policy: PathPolicy) -> str | None:
    """Why a file tool would not be let write this path, as the end of a sentence.

    The path is meant as it stands, links and all: whoever writes it follows none of them.
    """
    try:
        status = os.lstat(path)
    except OSError:
        status = None
    try:
        check_place(PathTarget(path, status), policy, "write", starts_command=False)
    except Blocked as blocked:
        return blocked.problem or "it is outside the workspace"
    return None


def check_place(target: PathTarget, policy: PathPolicy, access: FileAccess, *, starts_command: bool) -> None:
    """Whether a file tool may go there."""
    check_own(target, policy, reads=access == "read")
    if is_process_state(target.path):
        raise Blocked("PathNotAllowed", "process", "it shows the inside of a running process")
    match policy.mode:
        case "workspace":
            _check_workspace(target.path, policy.folders, access, starts_command=starts_command)
        case "allowlist":
            if not is_beneath_any(target.path, (*policy.allowed, *policy.folders.added)):
                raise Blocked("PathNotAllowed", "allowlist", "only the allowed folders may be used")
        case "off":
            pass


def check_own(target: PathTarget, policy: PathPolicy, *, reads: bool) -> None:
    """Bridle's own files are nobody's, under whatever name, but for those a person put there to be read."""
    path, status = target.path, target.status
    if reads and is_beneath_any(path, policy.readable):
        return
    if is_inside_same_folder(path, policy.protected, status=status):
        raise Blocked("PathNotAllowed", "protected", "Bridle keeps its own settings and records there")
    if is_second_name(status, policy.protected):
        raise Blocked("PathNotAllowed", "protected", "it is a second name of a file of Bridle's own")


def check_not_secret(value: str, target: PathTarget, policy: PathPolicy, cwd: str) -> None:
    """A file that looks like it holds secrets is not written. The name as written counts, where it leads, and its
    other names."""
    written = os.path.normpath(os.path.join(cwd, value))
    others = second_names(target, policy.folders.workspace)
    for path in dict.fromkeys((written, target.path, *others)):
        if is_secret_like(path, policy.secret_files) and not policy.named_by_user(path, "write"):
            raise Blocked("SecretFile", "secret_files")


def _check_workspace(path: str, folders: SessionFolders, access: FileAccess, *, starts_command: bool) -> None:
    if folders.place(path) != "outside":
        return
    if starts_command:
        raise Blocked("PathNotAllowed", "workspace", "commands start inside the workspace")
    if access != "read":
        raise Blocked("PathOutsideWorkspace", "workspace")


def sight(policy: PathPolicy, denied: Callable[[str], bool] | None) -> Sight:
    """Bridle's own folders and what is `denied` are out of sight; of files that look like they hold secrets the names
    may be shown.

    `denied` says whether a rule denies reading an absolute path, itself or with a folder it is in; None where there is
    no such rule. A secret file that a rule of the person's own names may be read like any other.
    """
    own = tuple(f"{os.path.realpath(folder).rstrip('/').casefold()}/" for folder in policy.protected)
    looks_secret = secret_matcher(policy.secret_files)
    private = policy.private

    def shows_name(path: str) -> bool:
        return not (f"{path.casefold()}/".startswith(own) or (denied is not None and denied(path)))

    def shows_content(path: str) -> bool:
        if not shows_name(path):
            return False
        secret = looks_secret(path) or (
            private is not None and (private.hold(path) or private.hold_second_name(_status(path)))
        )
        return not secret or policy.named_by_user(path, "read")

    return Sight(shows_name=shows_name, shows_content=shows_content)


def without(seen: Sight, hidden: Callable[[str], bool]) -> Sight:
    """The same, but for what is `hidden`: neither its name nor what it holds."""
    return Sight(
        shows_name=lambda path: not hidden(path) and seen.shows_name(path),
        shows_content=lambda path: not hidden(path) and seen.shows_content(path),
    )


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
