"""Which files that later runs obey a git command would bring from a commit, looked at before anybody is asked.

Only for commands that move a working tree to another commit, or take files out of one. Nothing of the repository runs:
all looking is done with the calls of `base.git`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bridle.base.git.git_repository import GitFailed, Repository
from bridle.base.secrets.secret_files import is_held_file
from bridle.engine.tools import Foreseen, RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import sentence
from bridle.shell.command_facts import Part, Understand

_VERBS = frozenset(
    {"checkout", "switch", "merge", "pull", "rebase", "reset", "cherry-pick", "revert", "stash", "restore"}
)
_STARTING = frozenset({"-i", "--interactive", "-x", "--exec", "--edit-todo", "-p", "--patch", "-e", "--edit"})
"""What makes git start a program, or ask somebody."""
_WITH_VALUE = frozenset(
    {"-b", "-B", "-c", "-C", "--orphan", "-m", "-s", "--source", "-X", "--onto", "-S", "--strategy"}
)
_GOES_ON = frozenset({"--continue", "--skip", "--abort", "--quit"})
_NAMING_REMOTES = frozenset({"remote", "config"})
_MOST_NAMED = 3


class _Verb(NamedTuple):
    """One git command: where it runs, what it is, and its arguments."""

    folder: str
    name: str
    words: tuple[str, ...]


def foreseen(
    understand: Understand, repository: Callable[[str], Repository], *, named_remotes: bool = False
) -> ToolLayer:
    """Notes on a call what its git commands would bring. Beside other work, which would find these files open too, git
    may bring none: then the call is denied, and says so.

    Once a command has named other places for git to get things from, a person is asked about what comes from any.
    `named_remotes`: one has, before this session was resumed.
    """
    remotes_are_theirs = not named_remotes

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        nonlocal remotes_are_theirs
        if not any("git" in part.text for part in call.parts) or getattr(call.args, "escalate", ""):
            return await proceed(call)
        command = next(subject.value for subject in call.subjects if subject.kind == "command")
        start = next((subject.resolved for subject in call.subjects if subject.kind == "path"), "")
        parts = understand(command, start).parts
        if not call.by_person and any(map(_names_remotes, parts)):
            remotes_are_theirs = False
        verbs = _verbs(parts, start)
        if not verbs:
            return await proceed(call)
        found = await _look(verbs, repository, trusts_remotes=remotes_are_theirs and len(verbs) == 1)
        alone = all(part.command_class == "read_only" or _verb(part, "") is not None for part in parts)
        if not alone and found.files:
            names = [path.removeprefix(f"{start}/") for path in found.files[:_MOST_NAMED]]
            content = sentence("GitNotAlone", {"files": ", ".join(names)})
            return ToolOutput(outcome="denied", reason="GitNotAlone", content=content)
        return await proceed(msgspec.structs.replace(call, foreseen=found) if alone else call)

    return layer


def _names_remotes(part: Part) -> bool:
    """Whether a command may tell git where to get things from."""
    return (
        part.command_class != "read_only"
        and part.words[:1] == ("git",)
        and (not _NAMING_REMOTES.isdisjoint(part.words) or part.words[1:2] == (None,))
    )


def _verbs(parts: Sequence[Part], start: str) -> list[_Verb]:
    folder = start
    found: list[_Verb] = []
    for part in parts:
        if part.words[:1] == ("cd",) and len(part.words) == 2 and part.words[1] is not None:
            inner = os.path.join(folder, part.words[1])
            folder = inner if os.path.isdir(inner) else folder
        elif (verb := _verb(part, folder)) is not None:
            found.append(verb)
    return found


def _verb(part: Part, folder: str) -> _Verb | None:
    """The git command that a part is, if it is one of these and starts nothing besides."""
    words = list(part.words)
    if words[:1] != ["git"] or None in words or "=" in part.text.partition("git")[0]:
        return None
    known = [word for word in words if word is not None]
    while known[1:2] and known[1] in ("-C", "--no-pager"):
        if known[1] == "-C":
            folder = os.path.join(folder, *known[2:3])
        del known[1 : 3 if known[1] == "-C" else 2]
    if known[1:2] and known[1] in _VERBS and _STARTING.isdisjoint(known[2:]):
        if any(use.access == "write" and use.path != "." for use in part.uses if ">" in part.text):
            return None
        return _Verb(folder, known[1], tuple(known[2:]))
    return None


async def _look(
    verbs: Sequence[_Verb], repository: Callable[[str], Repository], *, trusts_remotes: bool
) -> Foreseen:
    """Without `trusts_remotes` nobody knows what a pull brings: a person has not said where from, or others follow."""
    files: dict[str, None] = {}
    unknown = unasked = False
    for verb in verbs:
        git = repository(verb.folder)
        try:
            top = await git.root()
            names = await _names(verb, git)
        except GitFailed:
            continue  # git will say so itself
        pulls = verb.name == "pull" and names == ()
        unasked = unasked or (pulls and trusts_remotes)
        if names is None or (pulls and not trusts_remotes):
            unknown = True
            continue
        files |= {os.path.join(top, name): None for name in names if is_held_file(name)}
    return Foreseen(files=tuple(files), unknown=unknown, unasked=unasked)


async def _names(verb: _Verb, git: Repository) -> Sequence[str] | None:
    """The paths that would change, from the top of the repository; None if nobody knows."""
    revisions = [word for word in _before_paths(verb.words) if not word.startswith("-")]
    match verb.name:
        case "pull":
            remote = revisions[0] if revisions else await git.followed_remote()
            if remote == "." and not revisions:
                return [*await _merged(git, ["@{upstream}"], ())]  # known, unlike what comes from a remote
            return () if not remote or remote in await git.remotes() else None
        case "merge":
            return await _merged(git, revisions or ["@{upstream}"], verb.words)
        case "cherry-pick" | "revert":
            return await _picked(git, revisions)
        case "stash":
            return await _stashed(git, revisions)
        case "rebase":
            onto = [verb.words[at + 1] for at, word in enumerate(verb.words[:-1]) if word == "--onto"]
            going_on = not _GOES_ON.isdisjoint(verb.words)
            targets = ["ORIG_HEAD"] if going_on else [*onto, *(revisions or ["@{upstream}"])]
        case "reset":
            if {"--hard", "--merge", "--keep"}.isdisjoint(verb.words):
                return ()
            targets = revisions[:1] or ["HEAD"]
        case "restore":
            if "--staged" in verb.words and "--worktree" not in verb.words:
                return ()
            targets = [_value(verb.words, "--source", "-s") or "HEAD"]
        case _:
            return await _checked_out(git, verb, revisions)
    return [path for target in targets for path in await _changed(git, target)]


async def _checked_out(git: Repository, verb: _Verb, revisions: Sequence[str]) -> Sequence[str]:
    """A branch, a commit, or paths of one; a name that is neither may be a branch of a remote, or a path."""
    if "--orphan" in verb.words:
        return ()
    named = "@{-1}" if revisions[:1] == ["-"] else next(iter(revisions), "")
    if not named:
        return await git.changed_paths("HEAD") if "--" in verb.words else ()
    if await git.commit(named) is not None:
        return await git.changed_paths(named)
    for remote in await git.remotes():
        if await git.commit(f"{remote}/{named}") is not None:
            return await git.changed_paths(f"{remote}/{named}")
    return await git.changed_paths("HEAD")


async def _changed(git: Repository, target: str) -> Sequence[str]:
    return await git.changed_paths(target) if await git.commit(target) is not None else ()


async def _merged(git: Repository, revisions: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    if not _GOES_ON.isdisjoint(words):
        return await git.changed_paths("HEAD") if "--abort" in words else ()
    found: list[str] = []
    for revision in revisions:
        base = await git.merge_base("HEAD", revision)
        found += await git.changed_paths(base or "HEAD", revision)
    return found


async def _picked(git: Repository, revisions: Sequence[str]) -> Sequence[str]:
    found: list[str] = []
    for revision in revisions:
        first, dots, last = revision.partition("..")
        if dots:
            found += await git.changed_paths(first or "HEAD", last.lstrip(".") or "HEAD")
        elif await git.commit(f"{revision}^") is not None:
            found += await git.changed_paths(f"{revision}^", revision)
    return found or await git.changed_paths("HEAD")


async def _stashed(git: Repository, words: Sequence[str]) -> Sequence[str]:
    verb = next(iter(words), "push")
    if verb in ("push", "save"):
        return await git.changed_paths("HEAD")
    if verb not in ("pop", "apply", "branch"):
        return ()
    named = words[-1] if len(words) > 1 and verb != "branch" else "0"
    stash = await git.commit(f"stash@{{{named}}}" if named.isdigit() else named)
    if stash is None:
        return ()
    found = [*await git.changed_paths(f"{stash.name}^", stash.name)]
    if (
        await git.commit(f"{stash.name}^3") is not None
    ):  # files that git did not know are a commit of their own
        found += await git.changed_paths("", f"{stash.name}^3")
    return found


def _before_paths(words: Sequence[str]) -> list[str]:
    """The arguments before `--`, without the values of options."""
    found: list[str] = []
    value = False
    for word in words:
        if word == "--":
            break
        if not value and (not word.startswith("-") or word == "-"):
            found.append(word)
        value = word in _WITH_VALUE
    return found


def _value(words: Sequence[str], *options: str) -> str:
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option in options:
            return value if equals else following
    return ""
