"""Parse `git status --porcelain=v2 -z --branch`.

BadStatus   the text is not what git writes
"""

from typing import NamedTuple


class BadStatus(ValueError):
    """Not the output of `git status --porcelain=v2 -z`."""


class ChangedPath(NamedTuple):
    """A path that is not as it was committed.

    `staged` and `unstaged` are git's letters (`M A D R C T U`, `.` for nothing, `?` for a path git does not know, `!`
    for an ignored one). `before` is the old path of a rename or copy.
    """

    path: str
    staged: str
    unstaged: str
    before: str | None = None
    conflict: bool = False
    submodule: bool = False

    @property
    def untracked(self) -> bool:
        return self.staged == "?"


class GitStatus(NamedTuple):
    """`head` is None before the first commit, `branch` where HEAD is detached, the others without an upstream."""

    head: str | None = None
    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    changes: tuple[ChangedPath, ...] = ()


def parse_status(output: bytes) -> GitStatus:
    """Paths that are no UTF-8 keep their bytes as surrogates, as `os.fsdecode` does. Raises `BadStatus`."""
    fields = output.decode("utf-8", "surrogateescape").split("\0")
    if fields.pop():
        raise BadStatus("the last record is cut off")
    status = GitStatus()
    changes: list[ChangedPath] = []
    records = iter(fields)
    for record in records:
        if record.startswith("# "):
            status = _headed(status, record)
        elif record.startswith("2 "):
            before = next(records, None)
            if before is None:
                raise BadStatus("a rename without its old path")
            changes.append(_changed(record)._replace(before=before))
        else:
            changes.append(_changed(record))
    return status._replace(changes=tuple(changes))


def _headed(status: GitStatus, record: str) -> GitStatus:
    _, name, *values = record.split(" ")
    match name, values:
        case "branch.oid", [oid]:
            return status._replace(head=None if oid == "(initial)" else oid)
        case "branch.head", [branch]:
            return status._replace(branch=None if branch == "(detached)" else branch)
        case "branch.upstream", [upstream]:
            return status._replace(upstream=upstream)
        case "branch.ab", [ahead, behind] if "?" not in ahead + behind:
            return status._replace(ahead=_count(ahead, "+"), behind=_count(behind, "-"))
        case _:  # other headers belong to other options or to a newer git
            return status


def _count(text: str, sign: str) -> int:
    digits = text.removeprefix(sign)
    if not text.startswith(sign) or not (digits.isascii() and digits.isdecimal()):
        raise BadStatus(f"not a count: {text}")
    return int(digits)


_WORDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}


def _changed(record: str) -> ChangedPath:
    kind = record[:1]
    if kind in ("?", "!"):
        if record[1:2] != " " or not record[2:]:
            raise BadStatus(f"a record without a path: {record}")
        return ChangedPath(record[2:], kind, kind)
    before = _WORDS_BEFORE_PATH.get(kind)
    words = record.split(" ", before) if before is not None else []
    if before is None or len(words) <= before or not words[before] or len(words[1]) != 2:
        raise BadStatus(f"a record of another kind: {record}")
    staged, unstaged = words[1]
    return ChangedPath(
        words[before], staged, unstaged, conflict=kind == "u", submodule=words[2].startswith("S")
    )
