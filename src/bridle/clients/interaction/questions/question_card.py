"""Question forms, the card that draws any form, and the answers typed at it.

A choice holds its typed answer. An answer is one of the form's keys on a line of its own. Enter alone refuses; more
than one letter refuses and says why. A choice that is no refusal counts only when everything was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.text.lookalikes import mark_lookalikes
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.cells import chopped, width_of, wrapped
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.questions import AnyAnswer

RowStyle: TypeAlias = Literal["plain", "title", "added", "removed", "faint", "own"]

_LEAST_PAGE: Final = 5
_AROUND_A_PAGE: Final = 4
_TITLE_COLUMNS: Final = 96


class Row(msgspec.Struct, frozen=True):
    """One line on the screen, unstyled but for its role. `about` stands behind it, or below where there is no room."""

    text: str
    style: RowStyle = "plain"
    about: str = ""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer to a permission request. `note` tells the model why."""

    choice: PermissionChoice
    note: str = ""


FormAnswer: TypeAlias = AnyAnswer | PermissionAnswer


class Edit(msgspec.Struct, frozen=True):
    """A text for the user's editor; `answer` turns the edited text into the answer."""

    text: str
    answer: Callable[[str], FormAnswer]


class Choice(msgspec.Struct, frozen=True):
    """A key and the answer it gives. A choice without a label works but is not listed.

    With `confirm` the choice counts after that line was answered with `all`. With `noted`, text behind the key is part
    of the answer.
    """

    key: str
    label: str
    answer: FormAnswer | Edit
    confirm: str = ""
    noted: Callable[[str], FormAnswer] | None = None


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A question as data: what to show, the choices, and the answer that refuses.

    `body` is the subject of the decision, each line whole; `whole` is printed beyond it at `whole_key`. `inline` lists
    the choices in one line, which ends with `hint`; `answer_rows` replace that list. With a `glimpse` only so many
    lines of the body are shown at first.

    Any text answers an `open` form, whose choices are suggestions. At other forms, text that is no key refuses, with
    `in_words` in that text; with `only_keys` it answers nothing. `later` is the answer of a user who stops the turn or
    leaves, where that is not the refusal.
    """

    title: str
    refusal: FormAnswer
    why: str = ""
    body: tuple[Row, ...] = ()
    context: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    inline: bool = False
    hint: str = ""
    answer_rows: tuple[str, ...] = ()
    glimpse: int = 0
    whole: tuple[Row, ...] = ()
    whole_key: Literal["v", "d"] = "v"
    open: bool = False
    only_keys: bool = False
    in_words: Callable[[str], FormAnswer] | None = None
    later: FormAnswer | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A form put to the user. `id` names a call or a question, `invocation` the asking subagent, if any."""

    id: str
    form: Form
    digest: str = ""
    invocation: str | None = None

    def put_by(self, path: Sequence[str], invocation: str | None) -> Question:
        """Return the question with the path of the asking subagent in front of its title."""
        if not path:
            return self
        return msgspec.structs.replace(
            self.with_title(" → ".join((*map(marked_line, path), self.form.title))), invocation=invocation
        )

    def with_title(self, title: str) -> Question:
        return msgspec.structs.replace(self, form=msgspec.structs.replace(self.form, title=title))


def marked_line(text: str) -> str:
    """Return untrusted text on one line, with control, invisible and lookalike characters written out."""
    return visible_line(mark_lookalikes(text))


def marked_lines(text: str) -> list[str]:
    """Return untrusted prose in lines, with control, invisible and lookalike characters written out."""
    return [visible(line) for line in mark_lookalikes(text, prose=True).splitlines()]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it was drawn: its rows, how many of them were shown, and the answer typed so far.

    `confirming` is a choice that waits for its second word.
    """

    question: Question
    rows: tuple[Row, ...]
    shown: int
    page: int
    line: str = ""
    confirming: Choice | None = None

    @property
    def complete(self) -> bool:
        """Whether the whole body has been on the screen."""
        return self.shown >= len(self.rows)


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The user's answer; None where they gave none and `stop` the turn."""

    question: Question
    answer: FormAnswer | Edit | None = None
    stop: bool = False


class Show(msgspec.Struct, frozen=True):
    """More rows to print."""

    rows: tuple[Row, ...]


class Hint(msgspec.Struct, frozen=True):
    """A sentence for the user; nothing was answered."""

    text: str


Outcome: TypeAlias = Decided | Show | Hint | None


def draw_card(question: Question, *, columns: int, rows: int, position: str = "") -> tuple[Card, Show]:
    """Return the card of a question, and its first page. Columns or rows of zero mean endless ones."""
    form = question.form
    body = tuple(_chopped_rows(form.body, "" if form.inline else "    ", columns))
    page = max(_LEAST_PAGE, rows - len(form.choices) - _AROUND_A_PAGE) if rows > 0 else len(body)
    first = min(page, form.glimpse) if form.glimpse else page
    card = Card(question=question, rows=body, shown=min(first, len(body)), page=page)
    head = _head_rows(form, columns, position)
    return card, Show((*head, *body[: card.shown], *_foot_rows(card, columns)))


def answer_card(card: Card, line: str, *, columns: int) -> tuple[Card, Outcome]:
    """Interpret a line as an answer. Enter alone arrives as an empty line."""
    form, text = card.question.form, line.strip()
    card = msgspec.structs.replace(card, line="")
    if card.confirming is not None:
        return _confirm(card, card.confirming, text)
    if not text or (text == form.whole_key and not (form.open and card.complete)):
        return _turn_page(card, text, columns)
    chosen = (one for one in form.choices if text == one.key or (form.open and text == one.label))
    if (choice := next(chosen, None)) is not None:
        return _choose(card, choice)
    if form.open:
        return card, _decide(card, form.in_words(text) if form.in_words else form.refusal)
    key, _, note = text.partition(" ")
    noted = next((one.noted for one in form.choices if one.key == key and one.noted), None)
    if noted is not None:
        return card, _decide(card, noted(note.strip()))
    if text.lower() in ("yes", "ok") or len(text) == 1 or form.only_keys:
        return card, Hint(f"The answers are {' '.join(_keys(form))}. Nothing was answered.")
    if text.lower() == "no" or form.in_words is None:
        return card, _decide(card, form.refusal)
    return card, _decide(card, form.in_words(text))


def _decide(card: Card, answer: FormAnswer | Edit) -> Decided:
    return Decided(question=card.question, answer=answer)


def _confirm(card: Card, choice: Choice, text: str) -> tuple[Card, Outcome]:
    card = msgspec.structs.replace(card, confirming=None)
    if text == "all":
        return card, _decide(card, choice.answer)
    return card, Hint("Nothing was answered. The question is still open.")


def _turn_page(card: Card, text: str, columns: int) -> tuple[Card, Outcome]:
    form = card.question.form
    if not card.complete and (text or not form.glimpse):
        more = msgspec.structs.replace(card, shown=min(card.shown + card.page, len(card.rows)))
        return more, Show((*card.rows[card.shown : more.shown], *_foot_rows(more, columns)))
    if not text:
        return card, Hint("Type an answer. Nothing was answered.") if form.open else _decide(
            card, form.refusal
        )
    if not form.whole:
        return card, Hint("Everything was shown.")
    return card, Show((*_chopped_rows(form.whole, "", columns), *_foot_rows(card, columns)))


def _choose(card: Card, choice: Choice) -> tuple[Card, Outcome]:
    if choice.answer != card.question.form.refusal and not card.complete:
        return card, Hint(f"{choice.key} works when all of it was shown. {_more(card)}")
    if choice.confirm:
        return msgspec.structs.replace(card, confirming=choice), None
    return card, _decide(card, choice.answer)


def _keys(form: Form) -> list[str]:
    keys = [choice.key for choice in form.choices if choice.label]
    return [*keys, form.whole_key] if form.whole or form.glimpse else keys


def _more(card: Card) -> str:
    keys = "v" if card.question.form.glimpse else "v or Enter"
    return f"{counted(len(card.rows) - card.shown, 'more line')}: {keys}"


def _head_rows(form: Form, columns: int, position: str) -> list[Row]:
    title = f"{form.title}   {position}".rstrip()
    if not form.why:
        return [Row(text, "title") for text in wrapped(title, columns)]
    why = f"why: {form.why}"
    gap = min(columns, _TITLE_COLUMNS) - width_of(title) - width_of(why) if columns > 0 else 3
    if gap >= 3:
        return [Row(title + " " * gap + why, "title")]
    below = wrapped(f"  {why}", columns, indent=" " * 7)
    return [*(Row(text, "title") for text in wrapped(title, columns)), *map(Row, below)]


def _chopped_rows(lines: Iterable[Row], indent: str, columns: int) -> Iterable[Row]:
    """Break lines to fit, every character kept; a row that continues a line is marked."""
    room = max(columns - 4, 8) if columns > 0 else 0
    for line in lines:
        below = bool(line.about) and 0 < room < width_of(line.text + line.about)
        first, *rest = chopped(line.text.rstrip() if below else line.text + line.about, room)
        yield Row(indent + first, line.style)
        yield from (Row("  ↳ " + row, line.style) for row in rest)
        if below:
            yield from (Row(f"{indent}    {row}", line.style) for row in wrapped(line.about, room - 4))


def _foot_rows(card: Card, columns: int) -> list[Row]:
    """Return the rows below the body: how much of it is left, or the context and the answers."""
    form = card.question.form
    if form.glimpse:
        left = [] if card.complete else [Row(f"    …  (v to read all {len(form.body)})", "faint")]
        odd = [Row(row) for text in form.context for row in wrapped(text, columns, indent="  ")]
        return [*left, *odd, *_inline_choices(form, columns)]
    if not card.complete:
        others = "or type an answer" if form.open else "n no    or type what to do instead"
        return [Row(row) for row in wrapped(f"  {_more(card)}    {others}", columns, indent="  ")]
    context = [
        Row(row, "faint")
        for text in form.context
        if text
        for row in wrapped(f"  {text}", columns, indent="    ")
    ]
    if form.answer_rows:
        rows = (row for text in form.answer_rows for row in _answer_rows(text, columns))
        return [*context, Row(""), *map(Row, rows)]
    if form.inline:
        return [*context, *_inline_choices(form, columns)]
    choices = [
        Row(row)
        for choice in form.choices
        if choice.label
        for row in wrapped(f"  {choice.key}  {choice.label}", columns, indent="     ")
    ]
    return [*context, *([Row("")] if context else []), *choices]


def _answer_rows(text: str, columns: int) -> Iterable[str]:
    """Return a row of answers, or one row for each where it is too long: a key stays with its label."""
    if columns <= 0 or width_of(text) + 2 <= columns:
        return (f"  {text}",)
    answers = filter(None, text.split(" " * 5))
    return (row for one in answers for row in wrapped(f"  {one.strip()}", columns, indent=" " * 5))


def _inline_choices(form: Form, columns: int) -> list[Row]:
    """Return the answers in one line, broken between two of them where it is too long."""
    answers = [f"{choice.key} {choice.label}" for choice in form.choices if choice.label]
    answers += ["v read all"] if form.glimpse else ["v whole file"] if form.whole else []
    answers += [form.hint] if form.hint else []
    rows, row = list[str](), ""
    for text in answers:
        longer = f"{row} · {text}" if row else f"  {text}"
        if row and columns > 0 and width_of(longer) > columns:
            rows.append(row)
            longer = f"  {text}"
        row = longer
    return [Row(part) for one in (*rows, row) for part in wrapped(one, columns, indent="    ")]
