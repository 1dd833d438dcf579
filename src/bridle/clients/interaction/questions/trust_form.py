"""The question about trust in files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from bridle.base.text.line_diff import DiffLine
from bridle.base.text.phrases import counted, spelled_age
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.questions.question_card import Choice, Form, Row, RowStyle
from bridle.protocol.questions import LaunchShown, TrustAnswer, TrustQuestion

_GLIMPSE: Final = 10
_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed"}


def trust_form(asked: TrustQuestion) -> Form:
    words = trust_words(asked)
    refusal = TrustAnswer(use=False)
    no = "not here" if asked.offered else "not now"
    return Form(
        title=words.title,
        body=tuple(_row(line, asked.compared) for line in words.body),
        context=words.warnings,
        choices=(
            Choice("u", "use it", TrustAnswer(use=True)),
            Choice("n", no, refusal),
            Choice("no", "", refusal),
        ),
        inline=True,
        glimpse=_GLIMPSE,
        hint=f"Enter {no}",
        refusal=refusal,
        only_keys=True,
    )


def _row(line: DiffLine | str, compared: bool) -> Row:
    if isinstance(line, str):
        return Row(line)
    return Row(numbered(line, compared=compared), _STYLES.get(line.mark, "plain"))


_SHOWN_WISHES: Final = 6
_DAY_MS: Final = 24 * 3_600_000


class TrustWords(msgspec.Struct, frozen=True, kw_only=True):
    """`title` says who wants what; `body` is the text with its line numbers, or the change; `warnings` are what
    deserves a second look."""

    title: str
    body: tuple[DiffLine | str, ...]
    warnings: tuple[str, ...] = ()


def trust_words(question: TrustQuestion) -> TrustWords:
    """Everything a person is shown before they agree."""
    if question.launch is not None:
        return TrustWords(
            title=_runs(question.launch.command, question.when),
            body=tuple(_launched(question.launch)),
            warnings=tuple(_launch_warnings(question, question.launch)),
        )
    nothing = ("    …    only line ends or characters that a screen does not show changed",)
    return TrustWords(
        title=_title(question),
        body=question.lines or (nothing if question.compared else ()),
        warnings=tuple(_warnings(question)),
    )


def trust_lines(question: TrustQuestion) -> list[str]:
    body = trust_words(question).body
    return [line if isinstance(line, str) else numbered(line, compared=question.compared) for line in body]


def numbered(line: DiffLine, *, compared: bool) -> str:
    """A line of a text or of a change, as it is printed."""
    text = visible_line(line.text).replace("\t", "    ")
    if line.mark == "…":
        return f"    …    {counted(line.number, 'line')} unchanged"
    return f"{line.number:5}  {line.mark} {text}" if compared else f"{line.number:5}  {text}"


def _title(question: TrustQuestion) -> str:
    path = visible_line(question.path)
    if question.offered:
        return f"{path} is here and not used: it is for another agent. Use it?  {_facts(question)}"
    if question.trusted_ms is None:
        new = "" if question.runs or question.kind == "mcp_server" else " It is new to you."
        return f"{_wish(question)}{new}  {_facts(question)}"
    title = f"{path} changed since you trusted it ({_day(question.trusted_ms, question.asked_ms)})."
    if not question.compared:
        return f"{title}  {_facts(question)}"
    says = question.wishes or question.runs or question.kind == "settings"
    wishes = f"  {_wish(question)}" if says else ""
    return f"{title}  +{question.added} \u2212{question.removed}{wishes}"


def _wish(question: TrustQuestion) -> str:
    if question.runs:
        return _runs(question.runs, question.when)
    if question.wishes:
        listed = ", ".join(visible_line(wish) for wish in question.wishes[:_SHOWN_WISHES])
        more = len(question.wishes) - _SHOWN_WISHES
        return f"This project's settings want to: {listed}{f' and {more} more' if more > 0 else ''}."
    if question.kind == "skill":
        return f"The skill {visible_line(question.path)} wants to tell the model how to work. It may run its scripts."
    if question.kind == "agent":
        return f"The agent of {visible_line(question.path)} wants to be talked with and sent."
    if question.kind == "mcp_server":
        return f"{visible_line(question.path)} waits for your word."
    if question.kind == "settings":
        return f"{visible_line(question.path)} may set whatever your own settings may."
    if question.kind == "config":
        return f"{visible_line(question.path)} wants to set how Bridle works here."
    return f"{visible_line(question.path)} wants to tell the model how to work here."


def _runs(command: str, when: str) -> str:
    return f"This project wants to run a program when {when}: {visible_line(command)}. It will run with your rights."


def _facts(question: TrustQuestion) -> str:
    facts = [counted(question.line_count, "line")]
    if question.changed_ms is not None:
        by = f" by {visible_line(question.owner)}" if question.owner else ""
        facts.append(f"changed {spelled_age(question.asked_ms - question.changed_ms)}{by}")
    return ", ".join(facts)


def _launched(launch: LaunchShown) -> Iterator[str]:
    lines = [f"command  {visible_line(word)}" for word in launch.argv[:1]]
    lines += [f"         {visible(word)}" for word in launch.argv[1:]]
    lines += [f"variable {visible_line(f'{name}={value}')}" for name, value in launch.env]
    lines += [
        f"folder   {visible_line(launch.cwd)}",
        f"program  {visible_line(launch.program) or 'not found'}",
    ]
    lines += [f"file     {visible_line(path)}" for path in launch.files]
    return (f"    {row}" for line in lines for row in line.split("\n"))


def _launch_warnings(question: TrustQuestion, launch: LaunchShown) -> Iterator[str]:
    if question.trusted_ms is not None:
        yield "! it changed since you trusted it"
    if launch.fetched:
        yield f"! it brings {visible_line(launch.fetched)} from the network, as it is then"
    if launch.unpinned:
        yield f"! {visible_line(launch.unpinned)}"


def _warnings(question: TrustQuestion) -> Iterator[str]:
    if question.touches_code:
        yield "! the change touches code or commands"
    if question.truncated:
        yield "! the file goes on; only what is shown would be used"
    for hidden in question.hidden:
        many = f", {hidden.count} of them" if hidden.count > 1 else ""
        yield f"! line {hidden.line} has hidden characters (shown as {visible_line(chr(hidden.code))}){many}"
    if (more := question.hidden_lines - len(question.hidden)) > 0:
        yield f"! and {counted(more, 'more line')} with hidden characters"


def _day(ms: int, now_ms: int) -> str:
    """`12 Oct`, and the year where that could be mistaken."""
    when = datetime.fromtimestamp(ms // 1000, UTC)
    text = f"{when.day} {when.strftime('%b')}"
    return text if now_ms - ms < 300 * _DAY_MS else f"{text} {when.year}"
