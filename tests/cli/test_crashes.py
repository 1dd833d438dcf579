"""Killed, interrupted, crowded: what is left, and how it goes on."""

import json
import signal
from contextlib import ExitStack

import pytest

from bridle.app.user.stored_keys import session_store
from bridle.engine.conversation import Conversation
from bridle.protocol.codec import decode_envelope, encode_payload
from bridle.protocol.events import Envelope, ToolCallStarted, ToolResult, TurnEnded
from bridle.protocol.messages import ToolResultBlock, ToolUseBlock
from cli_kit import Place, Running, SignOfLife, kinds

GONE_S = 5
BACK = "say I am back.\n---\nsay I am back.\n---\nsay I am back.\n"


def endless(life: SignOfLife) -> str:
    """A call that changes something, says that it began, and then takes longer than anybody waits."""
    return f"call bash\n    command: {life.hold}; touch begun; echo begun; sleep 600\n---\nsay done\n"


def ends(events: list[Envelope]) -> list[str]:
    return [envelope.event.stop for envelope in events if isinstance(envelope.event, TurnEnded)]


def results(events: list[Envelope]) -> list[tuple[str, str | None]]:
    return [
        (envelope.event.outcome, envelope.event.reason)
        for envelope in events
        if isinstance(envelope.event, ToolResult)
    ]


def assert_a_provider_would_take_it(events: list[Envelope]) -> None:
    """People and model take turns, and every call in the request is answered in the message after it."""
    messages = Conversation.of(events).messages
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        asked = {block.wire_id for block in message.content if isinstance(block, ToolUseBlock)}
        answers = following.content if following is not None else ()
        assert asked == {block.wire_id for block in answers if isinstance(block, ToolResultBlock)}
    assert messages[0].role == "user"
    assert messages[-1].role == "assistant"


def durable_part(running: Running) -> list[Envelope]:
    """The events that were printed and have an id."""
    bodies = (line["event"] for line in running.printed if "event" in line)
    return [decode_envelope(json.dumps(body).encode()) for body in bodies if "id" in body]


def test_a_session_killed_in_the_middle_of_an_answer_goes_on(place: Place) -> None:
    model = place.script(f"pace 100\nchunk 4\nsay {'words and ' * 400}\n")
    with place.started("run", "--stream-json", "-m", model, "begin") as running:
        running.until("TextDelta")
        while "TextDelta" not in kinds(place.events(place.only_session())):  # what is printed is stored soon
            running.until("TextDelta")
        assert running.signal(signal.SIGKILL).code == -signal.SIGKILL
        printed = durable_part(running)
    session = place.only_session()
    left = place.events(session)
    shared = min(len(left), len(printed))
    assert left[:shared] == printed[:shared]
    assert ends(left) == []

    ran = place.bridle("run", "-c", "-m", place.script(BACK, "back.script"), "go on")
    assert (ran.code, ran.out) == (0, "[scripted] I am back.\n")
    events = place.events(session)
    assert events[: len(left)] == left
    assert ends(events) == ["interrupted", "end_turn"]
    assert_a_provider_would_take_it(events)
    place.verify(session)


def test_a_command_does_not_outlive_a_killed_run_and_its_end_is_a_persons_to_judge(
    place: Place, life: SignOfLife
) -> None:
    with place.started("run", "--stream-json", "-y", "-m", place.script(endless(life)), "begin") as running:
        running.until("ToolCallProgress")
        assert not life.ends_within(0)
        running.signal(signal.SIGKILL)
    assert life.ends_within(GONE_S)
    session = place.only_session()
    left = place.events(session)
    assert [e.event.mutating for e in left if isinstance(e.event, ToolCallStarted)] == [True]
    assert results(left) == []

    model = place.script(BACK, "back.script")
    refused = place.bridle("run", "-c", "-m", model, "--json", "go on")
    assert (refused.code, refused.result["exit_code"]) == (3, 3)
    assert refused.result["reason"] == "OrphanedCalls"
    (line,) = refused.story
    assert "touch begun" in line
    assert "--on-orphan mark-unknown" in line
    assert place.events(session) == left

    ran = place.bridle("run", "-c", "-m", model, "--on-orphan", "mark-unknown", "go on")
    assert (ran.code, ran.out) == (0, "[scripted] I am back.\n")
    events = place.events(session)
    assert results(events) == [("unknown", "OutcomeUnknown")]
    assert ends(events) == ["interrupted", "end_turn"]
    assert_a_provider_would_take_it(events)
    place.verify(session)
    assert place.bridle("run", "-c", "-m", model, "and again").code == 0


def test_a_call_that_only_read_asks_nobody_after_a_crash(place: Place) -> None:
    """A read is over before it can be killed, so its log is written again up to the moment it ran."""
    model = place.script('call read_file {"path": "it.script"}\n---\nsay done\n---\nsay I am back.\n')
    place.bridle("run", "-m", model, "begin")
    events = place.events(place.only_session())
    until_it_ran = events[: kinds(events).index("ToolCallStarted") + 1]
    session = stored_again(place, until_it_ran)

    ran = place.bridle("run", "-r", session, "-m", place.script(BACK, "back.script"), "go on")
    assert (ran.code, ran.out) == (0, "[scripted] I am back.\n")
    events = place.events(session)
    assert results(events) == [("cancelled", "Interrupted")]
    assert ends(events) == ["interrupted", "end_turn"]
    assert_a_provider_would_take_it(events)


def test_input_that_was_accepted_before_a_crash_and_not_begun_is_answered_first(place: Place) -> None:
    model = place.script("say one\n---\nsay two\n")
    place.bridle("run", "-m", model, "begin")
    events = place.events(place.only_session())
    session = stored_again(place, events[: kinds(events).index("InputAccepted") + 1])

    ran = place.bridle("run", "-r", session, "-m", model, "go on")
    assert (ran.code, ran.out) == (0, "[scripted] two\n")
    events = place.events(session)
    assert ends(events) == ["end_turn", "end_turn"]
    assert_a_provider_would_take_it(events)


def stored_again(place: Place, envelopes: list[Envelope]) -> str:
    """A session whose log ends with these events."""
    store = session_store(place.environment())
    try:
        log = store.create(str(place.work), profile="default")
        for one in envelopes:
            renamed = Envelope(
                id=one.id,
                kind=one.kind,
                session=log.session,
                originator=one.originator,
                ts_ms=one.ts_ms,
                event=one.event,
                turn=one.turn,
            )
            log.append(renamed, encode_payload(one.event))
        log.close()
        return log.session
    finally:
        store.close()


@pytest.mark.requirement("C22")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_command_and_ends_the_turn_as_cancelled(
    place: Place, life: SignOfLife, number: signal.Signals
) -> None:
    with place.started("run", "--stream-json", "-y", "-m", place.script(endless(life)), "x") as running:
        running.until("ToolCallProgress")
        ran = running.signal(number)
    assert ran.code == 130
    assert life.ends_within(0)
    last = ran.stream[-1]
    assert (last["eventType"], last["exit_code"], last["success"]) == ("run.result", 130, False)
    assert any(line.startswith("stopped  ") for line in ran.story)
    session = place.only_session()
    events = place.events(session)
    assert ends(events) == ["cancelled"]
    assert [outcome for outcome, _ in results(events)] == ["cancelled"]
    assert_closed(events)
    place.verify(session)


def assert_closed(events: list[Envelope]) -> None:
    conversation = Conversation.of(events)
    assert not conversation.turn_is_open
    assert conversation.open_calls == ()


@pytest.mark.requirement("T18.12")
def test_a_session_that_runs_elsewhere_is_refused_and_not_touched(place: Place, life: SignOfLife) -> None:
    with place.started("run", "--stream-json", "-y", "-m", place.script(endless(life)), "x") as running:
        running.until("ToolCallProgress")
        refused = place.bridle("run", "-c", "-m", "demo", "--json", "me too")
        assert (refused.code, refused.result["reason"]) == (2, "SessionBusy")
        assert f"process {running.process.pid}" in refused.story[0]
        running.signal(signal.SIGTERM)
    assert kinds(place.events(place.only_session())).count("SessionCreated") == 1


def test_ten_runs_at_once_share_one_home(place: Place) -> None:
    talk = place.script("say hello\n")
    work = place.script(
        'call bash {"command": "echo hi"}\ncall write_file {"path": "same.txt", "content": "x"}\n---\nsay hello\n',
        "work.script",
    )
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                place.started("run", "-y", "-m", work if number % 2 else talk, f"run {number}")
            )
            for number in range(10)
        ]
        ended = [running.end() for running in runs]
    assert [(ran.code, ran.out) for ran in ended] == [(0, "[scripted] hello\n")] * 10
    assert all(
        line.startswith(("model ", "ran  ", "not run  write same.txt", "done "))  # five write one file
        for ran in ended
        for line in ran.story
    )
    rows = place.sessions()
    assert {row.title for row in rows} == {f"run {number}" for number in range(10)}
    for row in rows:
        events = place.events(row.id)
        assert (kinds(events)[-1], ends(events)) == ("SessionEnded", ["end_turn"])
        assert_closed(events)
        place.verify(row.id)
