"""Draw a question, and interpret keys as answers.

An answer is one of the question's own keys as a line of its own. Enter alone says no; more than one letter says no and
why; a yes counts only when everything was shown. Whether a key reaches a question at all is for the key router to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from bridle.base.text.phrases import counted
from bridle.clients.interaction.cells import chopped, width_of, wrapped
from bridle.clients.interaction.questions.question_card import Choice, Question, Row
from bridle.protocol.commands import PermissionChoice

_LEAST_PAGE: Final = 5
_AROUND_A_PAGE: Final = 4
_TITLE_COLUMNS: Final = 96


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it was drawn: its rows, how many of them were shown, and the answer typed so far."""

    question: Question
    rows: tuple[Row, ...]
    shown: int
    page: int
    line: str = ""
    confirming: bool = False

    @property
    def complete(self) -> bool:
        """Whether everything a person decides about has been on the screen."""
        return self.shown >= len(self.rows)


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The person's answer. `words` answer an open question; `stop` also stops the turn."""

    question: Question
    answer: PermissionChoice = "deny"
    note: str = ""
    words: str = ""
    stop: bool = False


class Show(msgspec.Struct, frozen=True):
    """More rows to print."""

    rows: tuple[Row, ...]


class Hint(msgspec.Struct, frozen=True):
    """A sentence for the person; nothing was answered."""

    text: str


Outcome: TypeAlias = Decided | Show | Hint | None


def drawn(question: Question, *, columns: int, rows: int, position: str = "") -> tuple[Card, Show]:
    """The card of a question, and its first page. Columns or rows of zero mean endless ones."""
    body = tuple(_body_rows(question, columns))
    page = max(_LEAST_PAGE, rows - len(question.choices) - _AROUND_A_PAGE) if rows > 0 else len(body)
    first = min(page, question.glimpse) if question.glimpse else page
    card = Card(question=question, rows=body, shown=min(first, len(body)), page=page)
    head = _head_rows(question, columns, position)
    return card, Show((*head, *body[: card.shown], *_foot_rows(card, columns)))


def answered(card: Card, line: str, *, columns: int) -> tuple[Card, Outcome]:
    """What a line means as an answer. Enter alone arrives as an empty line."""
    words = line.strip()
    card = msgspec.structs.replace(card, line="")
    if card.confirming:
        return _confirmed(card, words)
    if not card.question.choices:
        return _answered_in_words(card, words)
    if not words or words == card.question.whole_key:
        return _paged(card, words, columns)
    choice = next((choice for choice in card.question.choices if choice.key == words), None)
    if choice is not None:
        return _chosen(card, choice)
    key, _, note = words.partition(" ")
    if key and key == card.question.noted_key:
        return card, Decided(question=card.question, note=note.strip())
    if words.lower() in ("yes", "ok") or len(words) == 1 or not card.question.words:
        return card, Hint(f"The answers are {' '.join(_keys(card.question))}. Nothing was answered.")
    note = "" if words.lower() == "no" else words
    return card, Decided(question=card.question, note=note)


def _confirmed(card: Card, words: str) -> tuple[Card, Outcome]:
    card = msgspec.structs.replace(card, confirming=False)
    if words == "all":
        return card, Decided(question=card.question, answer="tool")
    return card, Hint("Nothing was answered. The question is still open.")


def _answered_in_words(card: Card, words: str) -> tuple[Card, Outcome]:
    if not words:
        return card, Hint("Type an answer. Nothing was answered.")
    options = card.question.options
    if words.isascii() and words.isdigit() and 1 <= int(words) <= len(options):
        words = options[int(words) - 1]
    return card, Decided(question=card.question, words=words)


def _paged(card: Card, words: str, columns: int) -> tuple[Card, Outcome]:
    if not card.complete and (words or not card.question.glimpse):
        more = msgspec.structs.replace(card, shown=min(card.shown + card.page, len(card.rows)))
        return more, Show((*card.rows[card.shown : more.shown], *_foot_rows(more, columns)))
    if not words:
        return card, Decided(question=card.question)
    if not card.question.whole:
        return card, Hint("Everything was shown.")
    return card, Show((*_chopped_rows(card.question.whole, "", columns), *_foot_rows(card, columns)))


def _chosen(card: Card, choice: Choice) -> tuple[Card, Outcome]:
    if choice.answer != "deny" and not card.complete:
        return card, Hint(f"{choice.key} works when all of it was shown. {_more(card)}")
    if choice.answer == "tool" and card.question.confirm:
        return msgspec.structs.replace(card, confirming=True), None
    return card, Decided(question=card.question, answer=choice.answer)


def _keys(question: Question) -> list[str]:
    keys = [choice.key for choice in question.choices if choice.words]
    return [*keys, question.whole_key] if question.whole else keys


def _more(card: Card) -> str:
    keys = "v" if card.question.glimpse else "v or Enter"
    return f"{counted(len(card.rows) - card.shown, 'more line')}: {keys}"


def _head_rows(question: Question, columns: int, position: str) -> list[Row]:
    title = f"{question.title}   {position}".rstrip()
    if not question.why:
        return [Row(text, "title") for text in wrapped(title, columns)]
    why = f"why: {question.why}"
    gap = min(columns, _TITLE_COLUMNS) - width_of(title) - width_of(why) if columns > 0 else 3
    if gap >= 3:
        return [Row(title + " " * gap + why, "title")]
    below = wrapped(f"  {why}", columns, indent=" " * 7)
    return [*(Row(text, "title") for text in wrapped(title, columns)), *map(Row, below)]


def _body_rows(question: Question, columns: int) -> Iterable[Row]:
    """The body, every character of it; a row that continues a line says so."""
    yield from _chopped_rows(question.body, "" if question.inline else "    ", columns)


def _chopped_rows(lines: Iterable[Row], indent: str, columns: int) -> Iterable[Row]:
    room = max(columns - 4, 8) if columns > 0 else 0
    for line in lines:
        below = bool(line.about) and 0 < room < width_of(line.text + line.about)
        first, *rest = chopped(line.text.rstrip() if below else line.text + line.about, room)
        yield Row(indent + first, line.style)
        yield from (Row("  ↳ " + row, line.style) for row in rest)
        if below:
            yield from (Row(f"{indent}    {row}", line.style) for row in wrapped(line.about, room - 4))


def _foot_rows(card: Card, columns: int) -> list[Row]:
    """What stands below the body: what is still to be shown, or where it runs and the answers."""
    question = card.question
    if question.glimpse:
        return _glimpse_foot(card, columns)
    if not card.complete:
        text = f"  {_more(card)}    n no    or type what to do instead"
        return [Row(row) for row in wrapped(text, columns, indent="  ")]
    context = [Row(row, "faint") for text in question.context if text for row in _indented(text, columns)]
    if question.answer_rows:
        rows = (row for text in question.answer_rows for row in _answer_rows(text, columns))
        return [*context, Row(""), *map(Row, rows)]
    if question.inline:
        return [*context, *_inline_choices(question, columns)]
    options = [Row(f"  {number}  {text}") for number, text in enumerate(question.options, 1)]
    choices = [
        Row(row)
        for choice in question.choices
        if choice.words
        for row in wrapped(f"  {choice.key}  {choice.words}", columns, indent="     ")
    ]
    return [*context, *([Row("")] if context else []), *options, *choices]


def _answer_rows(text: str, columns: int) -> Iterable[str]:
    """A row of answers; where it is too long each begins a row of its own, so that no key stands without its word."""
    if columns <= 0 or width_of(text) + 2 <= columns:
        return (f"  {text}",)
    answers = filter(None, text.split(" " * 5))
    return (row for one in answers for row in wrapped(f"  {one.strip()}", columns, indent=" " * 5))


def _glimpse_foot(card: Card, columns: int) -> list[Row]:
    """What of the body is still to be read, what is odd about it, and the answers, all of them at any time."""
    left = [] if card.complete else [Row(f"    …  (v to read all {len(card.question.body)})", "faint")]
    odd = [Row(row) for text in card.question.context for row in wrapped(text, columns, indent="  ")]
    return [*left, *odd, *_inline_choices(card.question, columns)]


def _indented(text: str, columns: int) -> Iterable[str]:
    return wrapped(f"  {text}", columns, indent="    ")


def _inline_choices(question: Question, columns: int) -> list[Row]:
    """The answers in one line, broken between two of them where it is too long, and in one that is wider than all."""
    words = [f"{choice.key} {choice.words}" for choice in question.choices if choice.words]
    words += ["v whole file"] if question.whole else []
    words += [question.last_words] if question.last_words else []
    rows, row = list[str](), ""
    for text in words:
        longer = f"{row} · {text}" if row else f"  {text}"
        if row and columns > 0 and width_of(longer) > columns:
            rows.append(row)
            longer = f"  {text}"
        row = longer
    return [Row(part) for one in (*rows, row) for part in wrapped(one, columns, indent="    ")]
