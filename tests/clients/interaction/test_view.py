"""The fold behind the screen: what waits, what runs, what a session is called."""

from bridle.clients.interaction.view import SessionView
from bridle.protocol import events as e
from bridle.protocol.messages import FileMention, TextBlock


def told(view: SessionView, *events: e.AnyEvent, first: int = 1, originator: str = "cli_me") -> SessionView:
    for number, event in enumerate(events, first):
        view.take(
            e.Envelope(
                id=number,
                kind=type(event).__name__,
                session="sess_1",
                originator=originator,
                ts_ms=0,
                event=event,
            )
        )
    return view


def said(text: str) -> e.InputAccepted:
    return e.InputAccepted(content=(TextBlock(text=text),))


def test_input_waits_while_a_turn_runs_and_its_words_come_back_when_it_begins() -> None:
    view = told(SessionView("cli_me"), said("one"), e.TurnStarted(input=1), said("two"))
    assert view.queued == ["two"]
    told(view, e.TurnEnded(stop="end_turn"), e.TurnStarted(input=3), first=4)
    assert view.begun_from_queue(3) == "two"
    assert view.queued == []


def test_what_was_announced_as_waiting_is_told_again_even_if_the_turn_ended_first() -> None:
    view = told(SessionView("cli_me"), said("one"), e.TurnStarted(input=1))
    view.sending("two")
    told(view, e.TurnEnded(stop="end_turn"), said("two"), e.TurnStarted(input=4), first=3)
    assert view.begun_from_queue(4) == "two"


def test_what_was_sent_at_rest_is_not_told_twice() -> None:
    view = SessionView("cli_me")
    view.sending("one")
    assert view.running
    told(view, said("one"), e.TurnStarted(input=1))
    assert view.begun_from_queue(1) == ""


def test_what_was_said_during_the_turn_does_not_wait_any_more() -> None:
    view = told(SessionView("cli_me"), said("one"), e.TurnStarted(input=1), said("now"))
    told(view, e.ContextAdded(source="steer", content=(TextBlock(text="now"),), input=3), first=4)
    assert view.queued == []


def test_the_first_words_of_a_session_are_its_title() -> None:
    content = (TextBlock(text="look at "), FileMention(path="a.py"), TextBlock(text="\n  now\x1b"))
    view = told(SessionView("cli_me"), e.InputAccepted(content=content), said("later"))
    assert view.title == "look at @a.py now⟨ESC⟩"
