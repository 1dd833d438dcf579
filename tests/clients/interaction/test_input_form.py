"""What a server asks a person for, on a screen, and what the answer says."""

from bridle.clients.interaction.questions.permission_form import Setting, permission_question
from bridle.clients.interaction.questions.question_card import (
    Decided,
    Edit,
    Form,
    FormAnswer,
    answer_card,
    draw_card,
)
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import PermissionRequested, QuestionAsked, ToolOfServer
from bridle.protocol.questions import InputAnswer, InputField, InputQuestion
from tables import table

COLOUR = InputField(
    name="colour", title="Colour\x1b[31m", about="Of the car.", choices=("red", "bl\u0435u"), default="red"
)
FORM = InputQuestion(server="cars", message="Which one?", field=COLOUR, number=2, count=3, problem="no such")
ADDRESS = InputQuestion(server="cars", message="Sign in", url="https://example.org/\u202egro")


def form(question: InputQuestion) -> Form:
    return ask_question(QuestionAsked(question_id="q", question=question)).form


def answer(question: InputQuestion, line: str) -> FormAnswer | Edit | None:
    asked = ask_question(QuestionAsked(question_id="q", question=question))
    _, outcome = answer_card(draw_card(asked, columns=80, rows=40)[0], line, columns=80)
    assert isinstance(outcome, Decided)
    return outcome.answer


def test_a_field_says_who_asks_and_hides_nothing() -> None:
    shown = form(FORM)
    labels = [choice.label for choice in shown.choices]
    words = "\n".join((shown.title, *(row.text for row in shown.body), *labels))
    assert shown.title == "The server cars asks (2 of 3)"
    assert "That was not taken: no such" in words
    assert "\x1b" not in words
    assert labels[-2:] == ["(leave it out)", "(tell it nothing)"]


@table(
    ("line", "expected"),
    [
        ("1", InputAnswer(text="red")),
        ("red", InputAnswer(text="red")),
        ("3", InputAnswer(text="")),
        ("4", InputAnswer(declined=True)),
        ("(tell it nothing)", InputAnswer(declined=True)),
        ("something else", InputAnswer(text="something else")),
    ],
)
def test_what_is_picked_or_written_is_the_answer(line: str, expected: InputAnswer) -> None:
    assert answer(FORM, line) == expected


def test_a_choice_that_looks_like_another_is_sent_as_it_is() -> None:
    picked = form(FORM).choices[1]
    assert picked.label != COLOUR.choices[1], "it is marked"
    assert answer(FORM, picked.key) == InputAnswer(text=COLOUR.choices[1])


def test_an_address_is_shown_with_what_does_not_show_and_is_not_opened() -> None:
    shown = form(ADDRESS)
    assert "\u202e" not in shown.body[-1].text
    assert [choice.key for choice in shown.choices] == ["y", "n"]
    assert answer(ADDRESS, "y") == InputAnswer()
    assert answer(ADDRESS, "n") == InputAnswer(declined=True)


def test_the_question_about_a_tool_of_a_server_shows_server_tool_arguments_and_what_the_server_says() -> None:
    of = ToolOfServer(server="files", tool="wipe", title="Look", read_only=True, destructive=False)
    request = PermissionRequested(
        call_id="c", tool="mcp__files__wipe", input={"path": "/"}, risk="shell", why="", of_server=of
    )
    shown = permission_question(request, Setting(folder="~")).form
    assert shown.title == "Allow wipe of the server files?"
    assert [row.text for row in shown.body] == ["path: /"]
    assert shown.context == (
        "the server calls it: Look",
        "the server says: it changes nothing, it only adds (not checked)",
    )
