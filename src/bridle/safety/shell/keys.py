"""What a grant for "this program with any arguments" may be called."""

from __future__ import annotations

import re

from bridle.safety.shell.judgement import Judgement
from bridle.safety.shell.programs import KEYED_BY_SUBCOMMAND, NO_KEY, programs, wrappers
from bridle.safety.shell.refusals import is_code_runner
from bridle.safety.shell.script import Command

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_NO_SUBCOMMAND_KEY = frozenset(
    {"run", "exec", "x", "dlx", "config", "alias", "api", "extension", "push", "clean", "reset", "publish"}
)


def key_of(command: Command, judgement: Judgement) -> str | None:
    """`npm test`, `git status`, `ls`; None where the rest of the words decides what really happens."""
    name = judgement.name
    if (
        judgement.command_class in ("destructive", "unparseable")
        or command.assignments
        or not name
        or judgement.keyless
    ):
        return None
    if any(word.text is None for word in command.words) or any(r.target for r in command.redirections):
        return None
    if name in NO_KEY or name in wrappers() or is_code_runner(name) or "/" in command.words[0].known:
        return None
    second = command.words[1].known if len(command.words) > 1 else ""
    if name in KEYED_BY_SUBCOMMAND:
        known = second == judgement.subcommand and second not in _NO_SUBCOMMAND_KEY
        return f"{name} {second}" if second and known else None
    if name in programs():
        return name
    return f"{name} {second}" if _SUBCOMMAND.fullmatch(second) else None
