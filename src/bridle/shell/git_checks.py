"""Judging git commands: its own options, the subcommand, and which repository's settings would be in force."""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import join, normpath
from typing import TypeAlias

import msgspec

from bridle.base.command_class import CommandClass
from bridle.base.git.git_config import is_harmless_setting
from bridle.shell.classification import Classification
from bridle.shell.options import SplitWords, split_words
from bridle.shell.programs import Program, git_subcommands
from bridle.shell.shell_words import Word
from bridle.shell.table_git import DESTRUCTIVE_OPTIONS, GLOBAL_OPTIONS

_GLOBAL = Program(options=GLOBAL_OPTIONS)
_SIGNATURES = re.compile(r"%G|%\((?:\*?signature)")
_RUNS = (
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "-x",
    "--config",
    "-c",
    "--template",
    "foreach",
    "run",
    "-u",
    "--extcmd",
    "--tool",
)
_ARGUMENT_OF = {"-u": "clone", "-c": "clone", "-x": "rebase", "run": "bisect", "foreach": "submodule"}


def judge_git(
    judgement: Classification, apply: Callable[[Classification, SplitWords, Program], None]
) -> Program | None:
    """Looks at a whole git command. `apply` notes what options mean. Gives back the subcommand's entry, if known."""
    split = split_words(_GLOBAL, judgement.words[1:], leading=True)
    if split.problem:
        judgement.unproven(split.problem)
    if any(used.option.effect for used in split.used):
        judgement.unproven("an option of git changes what it runs")
    _enter(judgement, split)
    if not split.rest:
        return None
    name, words = split.rest[0], split.rest[1:]
    program = git_subcommands().get(name.known)
    if name.text is None or name.glob or program is None:
        judgement.unproven("this is not a subcommand it always has")
        return None
    judgement.subcommand = name.text
    judgement.at_least(_base(program, words))
    _SPECIAL[program.check or "git_plain"](judgement, words, program, apply)
    return program


def _base(program: Program, words: list[Word]) -> CommandClass:
    """What the subcommand does at least; `stash` looks only when it is told to."""
    looks = program.check == "git_stash" and bool(words) and words[0].text in ("list", "show")
    return "read_only" if looks else program.base


def _enter(judgement: Classification, split: SplitWords) -> None:
    """`-C folder` moves git, and with it every path after it."""
    for used in split.used:
        if used.name != "-C" or not used.values:
            continue
        target = used.values[0]
        judgement.use(target, "read")
        if target.text is None or target.glob:
            judgement.folders = frozenset({None})
        else:
            judgement.folders = frozenset(
                None if folder is None else normpath(join(folder, target.text))
                for folder in judgement.folders
            )
    folders = list(judgement.folders)
    judgement.repository = folders[0]
    if len(folders) != 1 or folders[0] is None:
        judgement.unproven("where it runs is not known")


_Apply: TypeAlias = Callable[[Classification, SplitWords, Program], None]


def _paths(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    split = split_words(program, words)
    apply(judgement, _options_only(split), program)
    for used in split.used:
        if used.name == "-L" and used.values and ":" in used.values[0].known:
            named = used.values[0].known.rpartition(":")[2]
            judgement.use(msgspec.structs.replace(used.values[0], text=named), "read")
        if used.name in ("--format", "--pretty") and any(_SIGNATURES.search(v.known) for v in used.values):
            judgement.unproven("it checks signatures with another program")
    for word in split.arguments:
        _use_path(judgement, word)


def _options_only(split: SplitWords) -> SplitWords:
    """The options alone: what the arguments of git are is decided here."""
    return SplitWords(used=split.used, problem=split.problem)


def _use_path(judgement: Classification, word: Word) -> None:
    """An argument is a path, a commit, or `commit:path`; a path is never missed, a commit may be noted as one."""
    text = word.text or ""
    if text.startswith(":("):
        inside = text.partition(")")[2]
    else:
        inside = text.lstrip(":!^/") if text.startswith(":") else text.rpartition(":")[2]
    if inside != text:
        judgement.use(msgspec.structs.replace(word, text=inside), "read")
    judgement.use(
        word, "read"
    )  # what looks like `commit:path` or `commit..commit` may be a path all the same


def _plain(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    apply(judgement, split_words(program, words), program)


def _one(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    """With one argument it tells, with more it sets."""
    split = split_words(program, words)
    apply(judgement, split, program)
    if len(split.arguments) != 1:
        judgement.at_least("writes", "changes the repository")


def _listing(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    split = split_words(program, words)
    apply(judgement, _options_only(split), program)
    if split.arguments and not split.has("-l", "--list") and judgement.command_class == "read_only":
        judgement.at_least("writes", f"makes a {judgement.subcommand}")


def _remote(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    split = split_words(program, words)
    apply(judgement, _options_only(split), program)
    match split.arguments[0].text if split.arguments else "":
        case "" | "get-url":
            pass
        case "show" | "update" | "prune":
            judgement.at_least("network", "asks a remote")
        case _:
            judgement.at_least("executes", "changes the remotes")


def _stash(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    if words and words[0].text in ("list", "show"):
        judgement.does = "shows what was set aside"
        _paths(judgement, words[1:], git_subcommands()["log"], apply)
    else:
        _changes(judgement, words, program, apply)


def _worktree(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    if words and words[0].text == "list":
        judgement.does = "lists working trees"
        apply(
            judgement,
            split_words(Program(options="-vz --porcelain --verbose", arguments="none"), words[1:]),
            program,
        )
    else:
        judgement.at_least("executes", "changes the working trees")
        _changes(judgement, words, program, apply)


def _reflog(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    if words and words[0].text in ("expire", "delete"):
        judgement.at_least("destructive", "deletes history")
    else:
        _paths(judgement, words, program, apply)


def _config(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    split = split_words(program, words)
    apply(judgement, _options_only(split), program)
    asking = (
        "-l",
        "--list",
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--get-color",
        "--get-colorbool",
    )
    first = split.arguments[0].text if split.arguments else ""
    tells = split.has(*asking) or first in ("get", "list") or len(split.arguments) == 1
    verbs = ("edit", "set", "unset", "rename-section", "remove-section")
    if not tells or first in verbs:
        judgement.at_least("executes", "changes git's settings")
        key = next((word.text for word in split.arguments if word.text not in verbs), None)
        if split.has("-e", "--edit") or key is None or not is_harmless_setting(key):
            everywhere = f"{judgement.home}/.gitconfig" if split.has("--global") else ".git/config"
            judgement.use_named("/etc/gitconfig" if split.has("--system") else everywhere, "write")


def _changes(judgement: Classification, words: list[Word], program: Program, apply: _Apply) -> None:
    split = split_words(program, words)
    apply(judgement, split, program)
    name = judgement.subcommand
    for word in words:
        text = word.known
        if _runs_a_program(name, text):
            judgement.at_least("executes", "runs a program it is told to")
            judgement.keyless = True
        if _loses_work(name, text):
            judgement.at_least("destructive", _LOSES.get(name, "discards work"))


def _runs_a_program(name: str, text: str) -> bool:
    """Git takes long options shortened, and short ones joined."""
    option = text.partition("=")[0]
    if option.startswith("--"):
        return option != "--" and any(run.startswith(option) for run in _RUNS)
    if option.startswith("-"):
        return any(run[1] in option[1:] for run, of in _ARGUMENT_OF.items() if of == name and run[0] == "-")
    return (option in _RUNS and _ARGUMENT_OF.get(option, name) == name) or text.startswith("ext::")


_LOSES = {
    "push": "overwrites or deletes on a remote",
    "reset": "discards changes",
    "checkout": "discards changes",
}


def _loses_work(name: str, text: str) -> bool:
    options = DESTRUCTIVE_OPTIONS.get(name, ())
    if text.partition("=")[0] in options or text in options:
        return True
    if name == "push" and text[:1] in ("+", ":"):
        return True
    letters = text[1:] if text.startswith("-") and not text.startswith("--") else ""
    return any(len(option) == 2 and option[1] in letters for option in options)


_SPECIAL: dict[str, Callable[[Classification, list[Word], Program, _Apply], None]] = {
    "git_plain": _plain,
    "git_one": _one,
    "git_paths": _paths,
    "git_listing": _listing,
    "git_remote": _remote,
    "git_stash": _stash,
    "git_worktree": _worktree,
    "git_reflog": _reflog,
    "git_config": _config,
    "git_changes": _changes,
}
