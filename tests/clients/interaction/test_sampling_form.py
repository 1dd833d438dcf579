"""What a server wants the model to write, on a screen."""

from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import SampledMessage, SamplingAnswer, SamplingQuestion

ASKED = SamplingQuestion(
    server="cars\x1b[31m",
    system="Be brief.",
    messages=(SampledMessage(role="user", text="One\ntwo \u202egro"),),
    max_tokens=50,
    requests_left=1,
    tokens_left=900,
)


def test_every_word_is_shown_and_nothing_of_it_draws() -> None:
    shown = ask_question(QuestionAsked(question_id="q", question=ASKED)).form
    words = "\n".join((shown.title, *(row.text for row in shown.body), *shown.context))
    assert "system: Be brief." in words
    assert "user: One" in words
    assert "up to 50 tokens" in words
    assert "1 more request and 900 tokens are left" in words
    assert "\x1b" not in words
    assert "\u202e" not in words


def test_only_a_yes_is_a_yes() -> None:
    shown = ask_question(QuestionAsked(question_id="q", question=ASKED)).form
    assert {choice.key: choice.answer for choice in shown.choices} == {
        "y": SamplingAnswer(allow=True),
        "n": SamplingAnswer(allow=False),
    }
    assert shown.refusal == SamplingAnswer(allow=False)
