"""Searches whose output is file names: which files another command is given that reads it.

Only what is plain is told: one search, perhaps filters behind it that choose among its lines. The names themselves are
looked at when a decision is made; here stands below which folders they are, and what they are called.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridle.shell.command_facts import SimpleCommand
from bridle.shell.options import split_words
from bridle.shell.programs import Program, programs
from bridle.shell.shell_words import FoundFiles, Word, names

_FIND_FLAGS = names(
    "-print -print0 -prune -empty -readable -writable -executable -nouser -nogroup -depth -d -daystart -mount -xdev "
    "-noleaf -true -false -a -and -o -or ( )"
)
_FIND_VALUES = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -atime -ctime -mmin "
    "-amin -cmin -perm -user -group -uid -gid -links -maxdepth -mindepth -regextype -newermt -newer"
)
_PLAIN_OPTIONS = names(
    "-l -i -w -F -s -S -0 -Z -g -t -T -e -n -. -u -r -E -P -I -H -a -d --files-with-matches --files --null --glob "
    "--type --hidden --no-ignore --ignore-case --word-regexp --fixed-strings --smart-case --recursive --include "
    "--exclude --exclude-dir --extended-regexp --regexp --max-depth --extension --print0 --case-sensitive"
)
"""Options of searches that choose files or say how names are parted, and do not change how one is written."""
_LS_FILES = Program(
    options="-zcmots --cached --modified --others --exclude-standard --deduplicate -x: --exclude:",
    arguments="text",
)
_FILTERS = {
    "sort": "-bdfgiMnrRuVz -k: -t: --reverse --unique --zero-terminated --version-sort",
    "head": "-z -n: -# --lines: --zero-terminated",
    "tail": "-z -n: -# --lines: --zero-terminated",
    "uniq": "-iuz",
    "grep": "-vEFGPiwxz -e: -m: --invert-match --extended-regexp --fixed-strings --ignore-case --regexp:",
}


def found_by(commands: Sequence[SimpleCommand]) -> FoundFiles | None:
    """The files that come out of a pipeline, None where nobody can say."""
    if not commands or any(not _is_plain(command) for command in commands):
        return None
    first, *filters = commands
    if not all(_only_chooses(command.words) and first in command.fed_by for command in filters):
        return None
    words = first.words[1:]
    match first.words[0].text:
        case "find":
            return _by_find(words)
        case "git" if words and words[0].text == "ls-files":
            return _by_git(words[1:])
        case "rg" | "grep" | "fd" as name:
            return _by_search(name, words)
        case "ls" if all(word.text in ("-1", "-a", "-A", "-t", "-r", "-S") for word in words):
            return FoundFiles((".",), bare=True)
        case _:
            return None


def _is_plain(command: SimpleCommand) -> bool:
    """Whether it is a program with words that are all known, and reads what comes through the pipe."""
    known = bool(command.words) and all(
        word.text is not None and not word.glob and not word.split for word in command.words
    )
    return (
        known and not command.evaluates and not any(r.operator.startswith("<") for r in command.redirections)
    )


def _only_chooses(words: Sequence[Word]) -> bool:
    name = words[0].known
    if name not in _FILTERS:
        return False
    split = split_words(Program(options=_FILTERS[name]), words[1:])
    patterns = name == "grep" and not split.has("-e", "--regexp")
    return split.problem is None and len(split.arguments) == (1 if patterns else 0)


def found_below(roots: Sequence[Word], expression: Sequence[Word]) -> FoundFiles | None:
    """The files that a `find` acts on; `expression` has `-print` where it acts. None where nobody can say."""
    if any(word.text is None for word in (*roots, *expression)):
        return None
    wanted = _find_names([word.known for word in expression])
    return FoundFiles(tuple(root.known for root in roots), wanted or (), parted_by_nul=True)


def _by_find(words: Sequence[Word]) -> FoundFiles | None:
    texts = [word.known for word in words]
    while texts and texts[0] in ("-H", "-P", "-O1", "-O2", "-O3"):
        texts.pop(0)
    roots: list[str] = []
    while texts and not texts[0].startswith("-") and texts[0] not in ("(", "!", ","):
        roots.append(texts.pop(0))
    wanted = _find_names(texts)
    if wanted is None:
        return None
    return FoundFiles(tuple(roots) or (".",), wanted, parted_by_nul="-print0" in texts)


def _find_names(texts: Sequence[str]) -> tuple[str, ...] | None:
    """What a file must be called to be printed: one of these, anything where there are none. None: it does more.

    Each side of an `-o` names some; a side that names none lets everything through.
    """
    prints = "-print" in texts or "-print0" in texts
    sides: list[list[str]] = [[]]
    negated, at = False, 0
    pruned = [False]
    while at < len(texts):
        word = texts[at]
        at += 1
        if word in ("!", "-not"):
            if texts[at : at + 1] == ["("]:
                return None
            negated = True
            continue
        if word in _FIND_VALUES:
            value = texts[at] if at < len(texts) else None
            at += 1
            if value is None:
                return None
            if word in ("-name", "-iname") and not negated:
                sides[-1].append(value.replace("\\", ""))
        elif word not in _FIND_FLAGS:
            return None
        elif word in ("-o", "-or"):
            sides.append([])
            pruned.append(False)
        elif word == "-prune":
            pruned[-1] = prints
        elif word in ("-print", "-print0"):
            pruned[-1] = False
        negated = False
    printed = [side for side, left_out in zip(sides, pruned, strict=True) if not left_out]
    return tuple(name for side in printed for name in side) if all(printed) else ()


def _by_git(words: Sequence[Word]) -> FoundFiles | None:
    split = split_words(_LS_FILES, words)
    paths = [word.known for word in split.arguments]
    if (
        split.problem
        or split.has("-t", "-s")
        or any(path.startswith((":", "/")) or ".." in path for path in paths)
    ):
        return None
    named = all(path.startswith("*.") and "/" not in path for path in paths)
    nul = split.has("-z")
    return FoundFiles(
        (".",),
        tuple(paths) if named else (),
        bare=True,
        parted_by_nul=nul,
        tracked=not split.has("-o", "--others"),
    )


def _by_search(name: str, words: Sequence[Word]) -> FoundFiles | None:
    split = split_words(programs()[name], words)
    lists = split.has("-l", "--files-with-matches", "--files") or name == "fd"
    if split.problem or not lists or any(used.name not in _PLAIN_OPTIONS for used in split.used):
        return None
    if name == "fd" and split.has("-l"):
        return None
    if name == "grep" and not split.has("-r", "--recursive"):
        return None
    takes_pattern = not split.has("-e", "--regexp", "--files")
    roots = tuple(word.known for word in (split.arguments[1:] if takes_pattern else split.arguments))
    nul = split.has("-Z" if name == "grep" else "-0", "--null", "--print0")
    hidden = name == "grep" or split.has("-.", "-u", "-H", "--hidden")
    return FoundFiles(roots or (".",), bare=not roots, parted_by_nul=nul, hidden=hidden)
