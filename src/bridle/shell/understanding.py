"""What a command will do, known before it runs. `understand` is the door; everything else here serves it."""

from __future__ import annotations

import os
import re

import msgspec

from bridle.base.git.git_config import TOLD_FILES, is_plain
from bridle.shell.command_facts import Part, ScriptContext, Understanding
from bridle.shell.command_parts import ScriptPlace, combined, judge
from bridle.shell.refusals import account_home, refused_text
from bridle.shell.script_reader import read_script
from bridle.shell.shell_words import UnreadableScript
from bridle.shell.versions import GO_FILES, keeps_go

_QUOTING = re.compile(r"\\\n|[\"'\\]")
_NAME = re.compile(r"[^\s;&|<>()$`/=]+")


def understand(command: str, where: ScriptContext) -> Understanding:
    """Every part of `command`, what each does, and the worst they do together. Never raises on a text.

    `read_only` means proven: every program in it is known, and so is every option.
    """
    if not where.home:  # a shell without HOME asks the account; an empty `~` is not the folder it starts in
        where = msgspec.structs.replace(where, home=account_home())
    trusted = not _may_bring_its_own(command, where)
    known = understand_text(command, where, trusted_path=trusted)
    if trusted and any(_may_bring_its_own(word, where) for word in known.composed):
        known = understand_text(command, where, trusted_path=False)
    looks = {_git_look(part) for part in known.parts if part.repository is not None}
    unsafe = {look for look in looks if look is not None and not is_plain(*look)}
    steered = any(_is_steered(part, where) for part in known.parts)
    if not unsafe and not steered:
        return known
    parts = tuple(
        _runs_more(part) if _git_look(part) in unsafe or _is_steered(part, where) else part
        for part in known.parts
    )
    return msgspec.structs.replace(known, parts=parts, command_class=combined(parts))


def _git_look(part: Part) -> tuple[str, frozenset[str]] | None:
    """The repository whose settings a harmless git command obeys, and for which subcommands; None for anything else."""
    if part.repository is None or part.command_class not in ("read_only", "writes"):
        return None
    return part.repository, TOLD_FILES.intersection(part.words)


def _is_steered(part: Part, where: ScriptContext) -> bool:
    """Whether a file that decides what really runs lies in the folder or above."""
    return any(_is_above(path, where) for path in part.steered_by)


def _is_above(path: str, where: ScriptContext) -> bool:
    folder, name = os.path.split(path)
    while True:
        found = os.path.join(folder, name)
        if os.path.lexists(found) and not (name in GO_FILES and keeps_go(found, where.search_path)):
            return True
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent


def _runs_more(part: Part) -> Part:
    what = "files here" if part.steered_by else "settings"
    does = f"{part.does}; this repository's {what} may run programs or show other files"
    return msgspec.structs.replace(part, command_class="executes", does=does)


def understand_text(command: str, where: ScriptContext, *, trusted_path: bool) -> Understanding:
    """The part of `understand` that looks at no file."""
    try:
        script = read_script(command, home=where.home, folders=frozenset({where.cwd}))
        place = ScriptPlace(start=where.cwd, home=where.home, trusted_path=trusted_path)
        findings = judge(script, place)
    except (UnreadableScript, RecursionError) as problem:
        why = str(problem) if isinstance(problem, UnreadableScript) else "it is nested too deeply"
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
        discloses=findings.discloses,
        composed=tuple(script.composed),
        hidden=findings.hidden,
    )


def _not_understood(command: str, problem: str, where: ScriptContext) -> Understanding:
    refusal = refused_text(command, where.home)
    return Understanding(
        command=command,
        shape="compound",
        parts=(),
        command_class="unparseable",
        refused=None if refusal is None else refusal.why,
        refused_rule=None if refusal is None else refusal.rule,
        problem=problem,
        hidden="it could not be read",
    )


def _may_bring_its_own(command: str, where: ScriptContext) -> bool:
    """Whether a word of the script names a program in a folder of the workspace that programs are looked for in.

    An activated environment is such a folder: it may hold `python`, and it must not hold `ls`.
    """
    folders = _own_folders(where)
    if folders is None:
        return True
    return any(_holds_one_of(folder, _words_in(command)) for folder in folders)


def _own_folders(where: ScriptContext) -> tuple[str, ...] | None:
    """The folders of the search path that lie in the workspace; None when one moves with the folder a script is in."""
    entries = where.search_path.split(":") if where.search_path else []
    if not all(entry.startswith("/") for entry in entries):
        return None
    roots = [os.path.realpath(root) for root in (where.cwd, where.workspace) if root]
    resolved = [os.path.realpath(entry) for entry in entries]
    return tuple(
        entry for entry in resolved if any(entry == root or entry.startswith(f"{root}/") for root in roots)
    )


def _words_in(command: str) -> frozenset[str] | None:
    """Everything that could be a program's name, quoting taken out; None where that is not so simple."""
    if "$'" in command:
        return None
    bare = _QUOTING.sub("", command)
    return frozenset(_NAME.findall(bare))


def _holds_one_of(folder: str, words: frozenset[str] | None) -> bool:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return words is None or not words.isdisjoint(names)
