"""What a server wants the model to write, on a screen: every word of it, before it is sent. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bridle.base.lookalikes import mark_lookalikes
from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.clients.interaction.card import Decided
from bridle.clients.interaction.question_card import Choice, Question, Row
from bridle.protocol.questions import SamplingAnswer, SamplingQuestion


def sampling_question(question_id: str, asked: SamplingQuestion) -> Question:
    """The question as it is drawn: who asks, all that the model would read, and what it may cost."""
    server = visible(mark_lookalikes(asked.server), newlines=False)
    left = (
        f"{counted(asked.requests_left, 'more request')} and {counted(asked.tokens_left, 'token')} are left"
    )
    return Question(
        id=question_id,
        about=asked,
        title=f"The server {server} wants your model to answer this, up to {counted(asked.max_tokens, 'token')}",
        body=tuple(_rows(asked)),
        context=(
            f"The model gets these words and no tools; the server gets the answer, and you pay for it. {left}.",
        ),
        choices=(Choice("y", "once", "yes, this time"), Choice("n", "deny", "no (Enter)")),
        inline=True,
    )


def sampling_answer(decided: Decided) -> SamplingAnswer:
    return SamplingAnswer(allow=decided.answer == "once")


def _rows(asked: SamplingQuestion) -> Iterator[Row]:
    said = [("system", asked.system)] if asked.system else []
    for role, text in (*said, *((message.role, message.text) for message in asked.messages)):
        first, *rest = mark_lookalikes(text, prose=True).splitlines() or [""]
        yield Row(f"  {role}: {visible(first)}")
        for line in rest:
            yield Row(f"    {visible(line)}")
