"""What a server asks a person for, on a screen, and what the answer says."""

from bridle.clients.interaction.questions.card import Decided
from bridle.clients.interaction.questions.question_card import Setting, permission_question
from bridle.clients.interaction.questions.question_forms import DECLINE, SKIP, asked_question, given_answer
from bridle.protocol.events import PermissionRequested, QuestionAsked, ToolOfServer
from bridle.protocol.questions import InputAnswer, InputField, InputQuestion
from tables import table

COLOUR = InputField(
    name="colour", title="Colour\x1b[31m", about="Of the car.", choices=("red", "bl\u0435u"), default="red"
)
FORM = InputQuestion(server="cars", message="Which one?", field=COLOUR, number=2, count=3, problem="no such")
ADDRESS = InputQuestion(server="cars", message="Sign in", url="https://example.org/\u202egro")


def drawn(question: InputQuestion):
    return asked_question(QuestionAsked(question_id="q", question=question))


def test_a_field_says_who_asks_and_hides_nothing() -> None:
    shown = drawn(FORM)
    words = "\n".join((shown.title, *(row.text for row in shown.body), *shown.options))
    assert shown.title == "The server cars asks (2 of 3)"
    assert "That was not taken: no such" in words
    assert "\x1b" not in words
    assert shown.options[-2:] == (SKIP, DECLINE)


@table(
    ("words", "answer"),
    [
        ("red", InputAnswer(text="red")),
        (DECLINE, InputAnswer(declined=True)),
        ("something else", InputAnswer(text="something else")),
    ],
)
def test_what_is_picked_or_written_is_the_answer(words: str, answer: InputAnswer) -> None:
    assert given_answer(FORM, Decided(question=drawn(FORM), words=words)) == answer


def test_a_choice_that_looks_like_another_is_sent_as_it_is() -> None:
    shown = drawn(FORM)
    picked = shown.options[1]
    assert picked != COLOUR.choices[1], "it is marked"
    assert given_answer(FORM, Decided(question=shown, words=picked)) == InputAnswer(text=COLOUR.choices[1])


def test_an_address_is_shown_with_what_does_not_show_and_is_not_opened() -> None:
    shown = drawn(ADDRESS)
    assert "\u202e" not in shown.body[-1].text
    assert [choice.key for choice in shown.choices] == ["y", "n"]
    yes, no = Decided(question=shown, answer="once"), Decided(question=shown, answer="deny")
    assert given_answer(ADDRESS, yes) == InputAnswer()
    assert given_answer(ADDRESS, no) == InputAnswer(declined=True)


def test_the_question_about_a_tool_of_a_server_shows_server_tool_arguments_and_what_the_server_says() -> None:
    of = ToolOfServer(server="files", tool="wipe", title="Look", read_only=True, destructive=False)
    request = PermissionRequested(
        call_id="c", tool="mcp__files__wipe", input={"path": "/"}, risk="shell", why="", of_server=of
    )
    shown = permission_question(request, Setting(folder="~"))
    assert shown.title == "Allow wipe of the server files?"
    assert [row.text for row in shown.body] == ["path: /"]
    assert shown.context == (
        "the server calls it: Look",
        "the server says: it changes nothing, it only adds (not checked)",
    )
