"""What a command will do, known before it runs. `understand` is the door; everything else here serves it."""

from __future__ import annotations

import functools
import os

import msgspec

from bridle.safety.shell.facts import Part, Surroundings, Understanding
from bridle.safety.shell.git_config import is_plain
from bridle.safety.shell.judging import Place, combined, judge
from bridle.safety.shell.reading import read_script
from bridle.safety.shell.refusals import account_home, refused_text
from bridle.safety.shell.words import Unreadable

REMEMBERED = 512


def understand(command: str, where: Surroundings) -> Understanding:
    """Every part of `command`, what each does, and the worst they do together. Never raises on a text.

    `read_only` means proven: every program in it is known, and so is every option. Whether a git repository's settings
    run programs is looked up each time; all else is remembered.
    """
    if (
        not where.home
    ):  # a shell without HOME asks the account; an empty `~` must not be mistaken for this folder
        where = msgspec.structs.replace(where, home=account_home())
    known = understand_text(command, where)
    folders = {
        part.repository for part in known.parts if part.repository is not None and _relies_on_git(part)
    }
    unsafe = {folder for folder in folders if not is_plain(folder)}
    steered = any(_is_steered(part) for part in known.parts)
    if not unsafe and not steered:
        return known
    parts = tuple(
        _runs_more(part)
        if (part.repository in unsafe and _relies_on_git(part)) or _is_steered(part)
        else part
        for part in known.parts
    )
    return msgspec.structs.replace(known, parts=parts, command_class=combined(parts))


def _relies_on_git(part: Part) -> bool:
    return part.command_class in ("read_only", "writes")


def _is_steered(part: Part) -> bool:
    """Whether a file that decides what really runs lies in the folder or above."""
    return any(_is_above(path) for path in part.steered_by)


def _is_above(path: str) -> bool:
    folder, name = os.path.split(path)
    while True:
        if os.path.lexists(os.path.join(folder, name)):
            return True
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent


def _runs_more(part: Part) -> Part:
    what = "files here" if part.steered_by else "settings"
    does = f"{part.does}; this repository's {what} may run programs"
    return msgspec.structs.replace(part, command_class="executes", does=does)


@functools.lru_cache(maxsize=REMEMBERED)
def understand_text(command: str, where: Surroundings) -> Understanding:
    """The part of `understand` that looks at no file."""
    try:
        script = read_script(command, home=where.home, folders=frozenset({where.cwd}))
        place = Place(start=where.cwd, home=where.home, trusted_path=_is_trusted(where))
        findings = judge(script, place)
    except (Unreadable, RecursionError) as problem:
        why = str(problem) if isinstance(problem, Unreadable) else "it is nested too deeply"
        return _not_understood(command, why, where)
    refusal = findings.refusal
    return Understanding(
        command=command,
        shape=script.shape,
        parts=tuple(findings.parts),
        command_class=combined(findings.parts),
        refused=None if refusal is None else refusal.why,
        refused_rule=None if refusal is None else refusal.rule,
        problem=findings.problem,
    )


def _not_understood(command: str, problem: str, where: Surroundings) -> Understanding:
    refusal = refused_text(command, where.home)
    return Understanding(
        command=command,
        shape="compound",
        parts=(),
        command_class="unparseable",
        refused=None if refusal is None else refusal.why,
        refused_rule=None if refusal is None else refusal.rule,
        problem=problem,
    )


def _is_trusted(where: Surroundings) -> bool:
    """Whether no folder programs are looked for in belongs to where the script runs: it could bring its own `ls`."""
    if not where.search_path:
        return True
    inside = where.cwd.rstrip("/") + "/"
    return all(
        entry.startswith("/") and entry.rstrip("/") != where.cwd.rstrip("/") and not entry.startswith(inside)
        for entry in where.search_path.split(":")
    )
