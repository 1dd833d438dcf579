"""What a person is asked before something of a workspace is obeyed. Pure, and plain text: clients only draw it.

The first line says who wants what. The text follows with its line numbers, every line of it, nothing in it hidden;
what deserves a second look stands last, in lines that begin with `!`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.phrases import counted, spelled_age
from bridle.base.visible import hidden_characters, visible
from bridle.safety.trust.lockfile import Kind

if TYPE_CHECKING:
    from bridle.safety.trust.launches import Launch

USE: Final = "use it"
NOT_NOW: Final = "not now"
CHOICES: Final = (USE, NOT_NOW)

_SUSPECT_LINES: Final = 10
_COMPARED_LINES: Final = 2_000
_AROUND: Final = 3
_SHOWN_WISHES: Final = 6
_DAY_MS: Final = 24 * 3_600_000


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What was approved at the same place; `text` is None where no copy of it is left."""

    approved_ms: int
    text: str | None = None


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """A text that wants to be obeyed. `shown` is its path as people read it, `wishes` what its settings ask for.

    `runs` is the command that would run it, where it is a program, and `when` says at which moment.
    """

    shown: str
    text: str
    kind: Kind = "instructions"
    before: Before | None = None
    changed_ms: int | None = None
    owner: str = ""
    wishes: tuple[str, ...] = ()
    runs: str = ""
    when: str = "Bridle starts"
    truncated: bool = False


def file_question(file: Reviewed, *, now_ms: int) -> str:
    """The question about a file: as a whole where it is new, as a change where an older content was approved."""
    before = file.before
    if before is None:
        new = "" if file.runs else " It is new to you."
        return _joined(f"{_wish(file)}{new}  {_facts(file, now_ms)}", _numbered(file.text), file)
    title = f"{_name(file)} changed since you trusted it ({_day(before.approved_ms, now_ms)})."
    if before.text is None:
        return _joined(f"{title}  {_facts(file, now_ms)}", _numbered(file.text), file)
    rows, added, removed = _compared(_lines(before.text), _lines(file.text))
    wishes = f"  {_wish(file)}" if file.wishes or file.runs else ""
    return _joined(f"{title}  +{added} \u2212{removed}{wishes}", rows, file)


def launch_question(launch: Launch, *, when: str = "Bridle starts", changed: bool = False) -> str:
    """The question about a program: the command whole, everything around it, and what of it nobody can pin."""
    command = visible(launch.shown, newlines=False)
    lines = [f"command  {visible(word, newlines=False)}" for word in launch.argv[:1]]
    lines += [f"         {visible(word)}" for word in launch.argv[1:]]
    lines += [f"variable {visible(f'{name}={value}', newlines=False)}" for name, value in launch.env]
    lines += [f"folder   {visible(launch.cwd, newlines=False)}"]
    lines += [f"program  {visible(launch.program, newlines=False) or 'not found'}"]
    lines += [f"file     {visible(path, newlines=False)}" for path, _digest in launch.files]
    warnings = ["! it changed since you trusted it"] if changed else []
    if launch.fetched:
        warnings.append(
            f"! it brings {visible(launch.fetched, newlines=False)} from the network, as it is then"
        )
    return "\n".join(
        (_runs(command, when), *(f"    {row}" for line in lines for row in line.split("\n")), *warnings)
    )


def _runs(command: str, when: str) -> str:
    return f"This project wants to run a program when {when}: {command}. It will run with your rights."


def _wish(file: Reviewed) -> str:
    if file.runs:
        return _runs(visible(file.runs, newlines=False), file.when)
    if file.wishes:
        listed = ", ".join(visible(wish, newlines=False) for wish in file.wishes[:_SHOWN_WISHES])
        more = len(file.wishes) - _SHOWN_WISHES
        return f"This project's settings want to: {listed}{f' and {more} more' if more > 0 else ''}."
    return f"{_name(file)} wants to tell the model how to work here."


def _name(file: Reviewed) -> str:
    return visible(file.shown, newlines=False)


def _facts(file: Reviewed, now_ms: int) -> str:
    facts = [counted(len(_lines(file.text)), "line")]
    if file.changed_ms is not None:
        by = f" by {visible(file.owner, newlines=False)}" if file.owner else ""
        facts.append(f"changed {spelled_age(now_ms - file.changed_ms)}{by}")
    return ", ".join(facts)


def _joined(title: str, rows: Iterable[str], file: Reviewed) -> str:
    return "\n".join((title, *rows, *_warnings(file)))


def _warnings(file: Reviewed) -> Iterable[str]:
    before = file.before.text if file.before is not None else None
    if before is not None:
        from bridle.safety.trust.changes import change_of

        if change_of(file.kind, before, file.text) == "code":
            yield "! the change touches code or commands"
    if file.truncated:
        yield "! the file goes on; only what is shown would be used"
    by_line: dict[int, list[int]] = {}
    for line, code in hidden_characters(file.text):
        by_line.setdefault(line, []).append(code)
    for line, codes in list(by_line.items())[:_SUSPECT_LINES]:
        shown = visible(chr(codes[0]), newlines=False)
        many = f", {len(codes)} of them" if len(codes) > 1 else ""
        yield f"! line {line} has hidden characters (shown as {shown}){many}"
    if len(by_line) > _SUSPECT_LINES:
        yield f"! and {counted(len(by_line) - _SUSPECT_LINES, 'more line')} with hidden characters"


def _lines(text: str) -> list[str]:
    """Lines as a screen can show them; a Windows line end is one, and hides nothing."""
    lines = visible(text.replace("\r\n", "\n")).replace("\t", "    ").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _numbered(text: str) -> list[str]:
    return [f"{number:5}  {line}" for number, line in enumerate(_lines(text), 1)]


def _compared(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], int, int]:
    """The change with the lines around it, numbered, and how many lines came and went."""
    from difflib import SequenceMatcher  # only when a change is shown

    if max(len(old), len(new)) > _COMPARED_LINES:
        return [f"{at:5}  + {line}" for at, line in enumerate(new, 1)], len(new), len(old)
    rows: list[str] = []
    added = removed = last = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND):
        rows += _left_out(group[0][3] - last)
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows += [f"{at + 1:5}    {new[at]}" for at in range(new_from, new_to)]
            else:
                rows += [f"{at + 1:5}  - {old[at]}" for at in range(old_from, old_to)]
                rows += [f"{at + 1:5}  + {new[at]}" for at in range(new_from, new_to)]
                removed += old_to - old_from
                added += new_to - new_from
            last = new_to
    if not rows:
        return ["    …    only line ends or characters that a screen does not show changed"], 0, 0
    return [*rows, *_left_out(len(new) - last)], added, removed


def _left_out(count: int) -> list[str]:
    return [f"    …    {counted(count, 'line')} unchanged"] if count else []


def _day(ms: int, now_ms: int) -> str:
    """`12 Oct`, and the year where that could be mistaken."""
    when = datetime.fromtimestamp(ms // 1000, UTC)
    text = f"{when.day} {when.strftime('%b')}"
    return text if now_ms - ms < 300 * _DAY_MS else f"{text} {when.year}"
