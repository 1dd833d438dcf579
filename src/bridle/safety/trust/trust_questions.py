"""What a person is asked before something of a workspace is obeyed: the text or the change in it, and what is odd.

Every line is part of the question, as it is; what of it a screen would not show is said besides. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from bridle.base.text.line_diff import DiffLine, line_diff, lines_of
from bridle.base.text.terminal_text import hidden_characters
from bridle.protocol.questions import HiddenCharacters, LaunchShown, TrustKind, TrustQuestion
from bridle.safety.trust.approvals import TrustedKind

if TYPE_CHECKING:
    from bridle.safety.trust.launches import ProgramLaunch

# words for the model are instructions, so a changed sentence is asked about like a changed command.


ChangeKind: TypeAlias = Literal["metadata", "prose", "code", "executable"]

EXECUTABLE: Final[frozenset[TrustedKind]] = frozenset({"hook", "mcp_server", "plugin", "config", "settings"})
"""What starts programs, or lets them start."""

_FRONT: Final = re.compile(r"\A---\n.*?^---$", re.DOTALL | re.MULTILINE)
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`|^(?: {4}|\t).*$", re.DOTALL | re.MULTILINE)
_COMMAND: Final = re.compile(r"https?://|\$\(|\$\{|[|;&]{1,2}\s*\w|\bsudo\b|^\s*[$%>] ", re.MULTILINE)


def change_of(kind: TrustedKind, before: str, after: str) -> ChangeKind:
    """The heaviest thing that changed: a header or white space, a sentence, something to type, something that runs."""
    if kind in EXECUTABLE or after.startswith("#!"):
        return "executable"
    if _code(before) != _code(after) or len(_COMMAND.findall(before)) != len(_COMMAND.findall(after)):
        return "code"
    if _FRONT.sub("", before).split() == _FRONT.sub("", after).split():
        return "metadata"
    return "prose"


def _code(text: str) -> list[str]:
    return [found[0] for found in _FENCED.finditer(text)]


_SUSPECT_LINES: Final = 10


class ApprovedBefore(msgspec.Struct, frozen=True, kw_only=True):
    """What was approved at the same place; `text` is None where no copy of it is left."""

    approved_ms: int
    text: str | None = None


class ReviewedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that wants to be obeyed. `shown` is its path as people read it, `wishes` what its settings ask for.

    `runs` is the command that would run it, where it is a program, and `when` says at which moment.
    """

    shown: str
    text: str
    kind: TrustedKind = "instructions"
    before: ApprovedBefore | None = None
    changed_ms: int | None = None
    owner: str = ""
    wishes: tuple[str, ...] = ()
    runs: str = ""
    when: str = "Bridle starts"
    truncated: bool = False


def file_question(file: ReviewedText, *, sha256: str = "", now_ms: int) -> TrustQuestion:
    """The question about a file: as a whole where it is new, as a change where an older content was approved."""
    before = file.before
    lines = lines_of(file.text)
    hidden = _hidden(file.text)
    question = TrustQuestion(
        kind=file.kind,
        path=file.shown,
        sha256=sha256,
        asked_ms=now_ms,
        lines=tuple(DiffLine(" ", number, line) for number, line in enumerate(lines, 1)),
        line_count=len(lines),
        trusted_ms=None if before is None else before.approved_ms,
        changed_ms=file.changed_ms,
        owner=file.owner,
        wishes=file.wishes,
        runs=file.runs,
        when=file.when,
        truncated=file.truncated,
        hidden=hidden[:_SUSPECT_LINES],
        hidden_lines=len(hidden),
    )
    if before is None or before.text is None:
        return question

    diff = line_diff(lines_of(before.text), lines)
    return msgspec.structs.replace(
        question,
        lines=diff.lines,
        compared=True,
        added=diff.added,
        removed=diff.removed,
        touches_code=change_of(file.kind, before.text, file.text) == "code",
    )


def launch_question(
    launch: ProgramLaunch,
    *,
    kind: TrustKind,
    name: str,
    when: str = "Bridle starts",
    trusted_ms: int | None,
    now_ms: int,
) -> TrustQuestion:
    """The question about a program: the command whole, everything around it, and what of it nobody can pin.

    `trusted_ms` is when another program was trusted at the same place.
    """
    return TrustQuestion(
        kind=kind,
        path=name,
        sha256=launch.digest,
        asked_ms=now_ms,
        trusted_ms=trusted_ms,
        when=when,
        launch=LaunchShown(
            argv=launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            program=launch.program,
            files=tuple(path for path, _digest in (*launch.files, *launch.scripts)),
            fetched=launch.fetched,
            unpinned=launch.unpinned,
            command=launch.shown,
        ),
    )


def _hidden(text: str) -> tuple[HiddenCharacters, ...]:
    by_line: dict[int, list[int]] = {}
    for line, code in hidden_characters(text):
        by_line.setdefault(line, []).append(code)
    return tuple(
        HiddenCharacters(line=line, code=codes[0], count=len(codes)) for line, codes in by_line.items()
    )
