"""What no rule, answer or flag can lift about a command, decided on what is understood of it.

The sandbox is the border of what a command can do; this keeps from running at all what shows in its text: the
scripts that are never meant, the files of Bridle itself, files with secrets being changed, things outside the session's
folders being destroyed, and the addresses where clouds hand out credentials.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice

import msgspec

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
from bridle.engine.tools import Subject
from bridle.protocol.events import CommandPart
from bridle.safety.call_risk import shown_parts
from bridle.safety.path_guard import Blocked, PathPolicy, check_not_secret, check_own
from bridle.shell.command_facts import SEVERITY, Part, PathUse, Understanding

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
