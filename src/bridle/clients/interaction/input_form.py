"""What a server asks a person for, on a screen: one field at a time, or an address to open. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridle.base.lookalikes import mark_lookalikes
from bridle.base.visible import visible
from bridle.clients.interaction.card import Decided
from bridle.clients.interaction.question_card import Choice, Question, Row
from bridle.protocol.questions import InputAnswer, InputField, InputQuestion

DECLINE: Final = "(tell it nothing)"
SKIP: Final = "(leave it out)"


def input_question(question_id: str, asked: InputQuestion) -> Question:
    """The question as it is drawn: who asks, what for, and that it is not Bridle that does."""
    step = f" ({asked.number} of {asked.count})" if asked.count > 1 else ""
    title = f"The server {_line(asked.server)} asks{step}"
    said = tuple(
        Row(f"  {visible(line)}") for line in mark_lookalikes(asked.message, prose=True).splitlines()
    )
    if asked.url:
        return Question(
            id=question_id,
            about=asked,
            title=f"{title} you to open this address",
            body=(*said, Row(f"  {_line(asked.url)}")),
            context=("Bridle does not open it. Look where it leads before you do.",),
            choices=(Choice("y", "once", "done"), Choice("n", "deny", "no (Enter)")),
            inline=True,
        )
    return Question(
        id=question_id,
        about=asked,
        title=title,
        body=(*said, *_field_rows(asked)),
        options=tuple(_options(asked.field)),
    )


def input_answer(asked: InputQuestion, decided: Decided) -> InputAnswer:
    if asked.url:
        return InputAnswer(declined=decided.answer != "once")
    if decided.words == DECLINE:
        return InputAnswer(declined=True)
    field = asked.field
    if field is not None and field.choices and not field.many:
        shown = dict(zip(map(_line, field.choices), field.choices, strict=True))
        return InputAnswer(text=shown.get(decided.words, decided.words))
    return InputAnswer(text="" if decided.words == SKIP else decided.words)


def _field_rows(asked: InputQuestion) -> Iterator[Row]:
    field = asked.field
    if asked.problem:
        yield Row(f"  That was not taken: {_line(asked.problem)}")
    if field is None:
        return
    kind = "" if field.kind == "text" or field.choices else f" ({field.kind})"
    default = f" [{_line(field.default)}]" if field.default else ""
    yield Row(f"  {_line(field.title or field.name)}{kind}{default}")
    if field.about:
        yield Row(f"  {_line(field.about)}", "faint")
    if field.many:
        yield Row(f"  any of: {', '.join(map(_line, field.choices))}")


def _options(field: InputField | None) -> Iterator[str]:
    if field is not None and not field.many:
        yield from map(_line, field.choices or (("yes", "no") if field.kind == "yes or no" else ()))
    if field is not None and (field.default or not field.required):
        yield SKIP
    yield DECLINE


def _line(text: str) -> str:
    return visible(mark_lookalikes(text), newlines=False)
