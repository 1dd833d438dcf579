"""Every character of a script is accounted for: words, operators and comments, and between them nothing but blanks."""

from __future__ import annotations

import re

import msgspec

from bridle.shell.shell_words import UnreadableScript

_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
_OPERATOR = re.compile(r"&>>|&>|&&|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<&|<>|<|>>|>\||>&|>|\(|\)")
_CLOSING = frozenset({">&-", "<&-"})
_DESCRIPTOR = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9]+")


class Claim(msgspec.Struct, frozen=True, order=True):
    """A stretch of text that has been read as a word, an operator, a descriptor, a comment or a body.

    Words of one command share an `owner`; keywords have owner 0.
    """

    start: int
    end: int
    kind: str
    owner: int = 0


def is_operator(text: str) -> bool:
    return text in _CLOSING or _OPERATOR.fullmatch(text) is not None


def account(source: str, start: int, end: int, claims: list[Claim]) -> None:
    """Raises `UnreadableScript` unless the claims fill `source[start:end]` and the shell sees the same boundaries."""
    claims.sort()
    at = start
    before: Claim | None = None
    word: Claim | None = None
    blanks = ""  # what stood between the last word and here, comments left out
    for claim in claims:
        if claim.start < at:
            raise UnreadableScript("two readings of it overlap")
        gap = source[at : claim.start]
        blanks += _blanks(gap)
        if gap and before is not None and not _blanks(gap):
            _check_joined(source, before, claim)
        if claim.kind in ("word", "descriptor"):
            _check_neighbours(word, claim, blanks)
            word, blanks = claim if claim.kind == "word" else None, ""
        elif claim.kind == "comment":
            _check_comment(source, start, claim)
        else:
            word, blanks = None, ""
            if claim.kind == "operator":
                _check_operator(source, claim, before)
        at, before = claim.end, claim
    _blanks(source[at:end])


def _blanks(gap: str) -> str:
    """The blanks of a gap; lines that are continued are one line to the shell."""
    if gap and _GAP.fullmatch(gap) is None:
        raise UnreadableScript("some of its characters are not understood")
    return gap.replace("\\\n", "")


def _check_joined(source: str, before: Claim, claim: Claim) -> None:
    """Only a continued line stands between them, so to the shell they touch: they must not be one thing then."""
    descriptor = _DESCRIPTOR.fullmatch(source, before.start, before.end) is not None
    if claim.kind == "operator" and (before.kind == "operator" or descriptor):
        raise UnreadableScript("an operator goes on in the next line")


def _check_neighbours(before: Claim | None, claim: Claim, blanks: str) -> None:
    """Two words without an operator between them are of one command and in one line, or of two and in two."""
    if before is None:
        return
    if not blanks:
        raise UnreadableScript("two words touch each other")
    same = before.owner == claim.owner and claim.owner
    if (same and "\n" in blanks) or (not same and before.owner and claim.owner and "\n" not in blanks):
        raise UnreadableScript("a command does not end where it seems to")


def _check_comment(source: str, start: int, claim: Claim) -> None:
    at = claim.start
    while source.startswith("\\\n", at - 2) and at - 2 >= start:  # a continued line is no boundary
        at -= 2
    if at > start and source[at - 1] not in " \t\n;&|()":
        raise UnreadableScript("a comment begins inside a word")


def _check_operator(source: str, claim: Claim, before: Claim | None) -> None:
    text = source[claim.start : claim.end]
    if text in _CLOSING:
        following = source[claim.end : claim.end + 1]
        if following and following not in " \t\n;&|()":
            raise UnreadableScript("a redirection is not understood")
    else:
        match = _OPERATOR.match(source, claim.start)
        if match is None or match[0] != text:
            raise UnreadableScript("an operator is not the one it seems to be")
    if text == "(" and source.startswith("((", claim.start):
        raise UnreadableScript("two brackets in a row can be read in two ways")
    touching = before is not None and before.end == claim.start
    if touching and before is not None and text[0] in "<>":
        is_descriptor = _DESCRIPTOR.fullmatch(source, before.start, before.end) is not None
        if is_descriptor != (before.kind == "descriptor") and before.kind in ("word", "descriptor"):
            raise UnreadableScript("a redirection is not understood")
    if not touching and before is not None and before.kind == "descriptor":
        raise UnreadableScript("a redirection is not understood")
