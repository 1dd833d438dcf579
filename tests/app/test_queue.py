"""What waits for its turn can be edited, held, promoted and dropped, as events that every client folds alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.render.event_rows import input_words
from bridle.clients.interaction.view import SessionView
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation
from bridle.protocol import events as e
from bridle.protocol.commands import ChangeInput
from bridle.protocol.errors import CommandRefused
from bridle.protocol.inbox import next_input
from bridle.protocol.messages import TextBlock
from bridle.providers.script import say, wait


def words(text: str) -> tuple[TextBlock, ...]:
    return (TextBlock(text=text),)


def slow(clock: FakeClock, *answers: str):
    """A model whose first answer takes until the clock is moved."""
    first, *rest = answers
    return scripted((say("Hmm. "), wait(5), say(first)), *map(say, rest), clock=clock)


async def said(session, clock: FakeClock, turns: int) -> list[str]:
    """What the model was told, turn by turn, once so many turns have ended."""
    ended = 0
    started: list[str] = []
    texts: dict[int, str] = {}
    async for envelope in session.connection.events(session.id):
        match envelope.event:
            case e.InputAccepted(content=content) if envelope.id is not None:
                texts[envelope.id] = e.text_of(content)
            case e.InputChanged(input=number, change="edit", content=content):
                texts[number] = e.text_of(content)
            case e.TurnStarted(input=number):
                started.append(texts[number])
                await clock.advance(6)
            case e.TurnEnded():
                ended += 1
                if ended == turns:
                    return started
            case _:
                pass
    raise AssertionError("the session ended")


async def test_what_is_queued_can_be_edited_promoted_and_dropped() -> None:
    clock = FakeClock()
    async with harness(slow(clock, "1", "2", "3"), clock=clock) as session:
        await session.send("one")
        await session.until(e.TextDelta)
        two, three, four = [await session.send(text) for text in ("two", "three", "four")]
        send = session.connection.send
        await send(ChangeInput(session=session.id, input=four, change="first"))
        await send(ChangeInput(session=session.id, input=three, change="drop"))
        await send(ChangeInput(session=session.id, input=two, change="edit", content=words("TWO")))
        assert await said(session, clock, 3) == ["one", "four", "TWO"]
        changes = of_kind([one.event for one in await session.stored()], e.InputChanged)
        assert [e.text_of(one.content) for one in changes] == ["", "three", "TWO"], "what is gone is named"
        assert not session.conversation.inputs
        with pytest.raises(CommandRefused) as refused:
            await send(ChangeInput(session=session.id, input=two, change="drop"))
        assert refused.value.reason == "NotWaiting"


async def test_what_is_said_now_goes_before_what_was_queued() -> None:
    clock = FakeClock()
    async with harness(slow(clock, "1", "2", "3"), clock=clock) as session:
        await session.send("one")
        await session.until(e.TextDelta)
        await session.send("two")
        await session.send("three", mode="steer")
        assert await said(session, clock, 3) == ["one", "three", "two"]


async def test_what_is_held_waits_until_it_is_let_go_also_in_a_session_that_was_closed() -> None:
    clock = FakeClock()
    async with harness(slow(clock, "1", "2"), clock=clock) as session:
        await session.send("one")
        await session.until(e.TextDelta)
        two = await session.send("two")
        await session.connection.send(ChangeInput(session=session.id, input=two, change="hold"))
        assert await said(session, clock, 1) == ["one"]
        assert session.conversation.inputs[two].held
        again = Conversation.of(await session.stored())
        assert again.inputs == session.conversation.inputs
        kept = session.conversation.folded()
        if kept is not None:
            assert Conversation.restored(kept).inputs == again.inputs
        await session.connection.send(ChangeInput(session=session.id, input=two, change="release"))
        assert await said(session, clock, 2) == ["one", "two"]


async def test_an_edit_without_words_changes_nothing() -> None:
    clock = FakeClock()
    async with harness(slow(clock, "1", "2"), clock=clock) as session:
        await session.send("one")
        await session.until(e.TextDelta)
        two = await session.send("two")
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(ChangeInput(session=session.id, input=two, change="edit"))
        assert refused.value.reason == "NothingAsked"
        assert await said(session, clock, 2) == ["one", "two"]
        assert not of_kind([one.event for one in await session.stored()], e.InputChanged)


_CHANGES = st.tuples(st.integers(1, 8), st.sampled_from(["edit", "hold", "release", "first", "drop"]))
_STEPS = st.lists(st.one_of(st.sampled_from(["queue", "steer"]), _CHANGES), max_size=20)


@given(_STEPS)
def test_engine_and_client_have_the_same_queue_whatever_happens(steps: list) -> None:
    conversation, view = Conversation(), SessionView("cli_me")
    for number, step in enumerate(steps, 1):
        if isinstance(step, str):
            event: e.AnyEvent = e.InputAccepted(content=words(f"w{number}"), mode=step)
        else:
            content = words("edited") if step[1] == "edit" else ()
            event = e.InputChanged(input=step[0], change=step[1], content=content)
        envelope = e.Envelope(
            id=number, kind=type(event).__name__, session="s", originator="cli_me", ts_ms=0, event=event
        )
        conversation.apply(envelope)
        view.take(envelope)
    assert list(conversation.inputs.items()) == list(view.inputs.items())
    ready = [one for one in view.inputs.values() if not one.held]
    assert next_input(view.inputs) == (ready[0] if ready else None)
    assert view.queued == [input_words(one.event.content) for one in ready]
    assert view.held == len(view.inputs) - len(ready)
    assert view.running == bool(ready)
