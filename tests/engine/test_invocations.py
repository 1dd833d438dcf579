"""Several invocations in one log: each is told apart from the others, and people see one conversation."""

import asyncio
import io
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.dotted_events import chain_lines, events_lines
from bridle.clients.interaction.render.session_pages import Words, passages
from bridle.clients.interaction.view import SessionView
from bridle.clients.print import Printer
from bridle.clients.replay import frames
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation, Invocation
from bridle.engine.dispatch import Dispatcher
from bridle.engine.journal import Journal
from bridle.engine.open_questions import Client, Questions
from bridle.engine.resume import orphans
from bridle.engine.steps import encode
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import Tool, ToolOutput, never_mutating
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope, encode_payload
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, CreateSession, SessionOptions
from bridle.protocol.messages import TextBlock, Usage
from bridle.protocol.questions import OpenQuestion, WordsAnswer
from bridle.providers.script import call, say
from bridle.sessions.archive.stored_archive import said_in

CHILD = Invocation(id="inv_1", agent_path=("review",))


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


class Delegating:
    """A tool that has a child do something: it writes what a child would, through the journal of the session.

    `do` gets the journal of the child. With `leave` the child is left in the middle.
    """

    def __init__(self, do, *, leave=False):
        self.session = None
        self._do = do
        self._leave = leave
        self.child = None

    def tool(self):
        return Tool(
            name="ask_review",
            description="Asks a reviewer.",
            input=Nothing,
            risk="read",
            run=self._run,
            mutating=never_mutating,
        )

    async def _run(self, _args, context):
        journal = self.session.engine.live.session(context.session).journal
        self.child = child = journal.begin_child(
            e.ChildStarted(invocation="inv_1", agent="review", task="Look at it.")
        )
        self._do(child)
        if self._leave:
            await asyncio.Event().wait()
        journal.end_child(child, ok=True, result="Looked.")
        return ToolOutput(content="The reviewer is done.")


def work(child):
    """One turn of a child, with a step that calls a tool."""
    number = child.emit(e.InputAccepted(content=(TextBlock(text="Look at it."),)))
    child.emit(e.TurnStarted(input=number))
    child.emit(e.PrefixSet(provider="p", model="small", system="You review."))
    child.emit(e.StepStarted(step=1, provider="p", model="small"))
    child.emit(e.TextDelta(text="CHILD WORDS"))
    child.emit(
        e.StepEnded(
            step=1,
            stop="tool_use",
            text_sha256="",
            calls=(e.RequestedCall(call_id="call_c", wire_id="w1", tool="grep", input={"pattern": "x"}),),
            usage=Usage(input_tokens=1000, output_tokens=5),
        )
    )
    child.emit(e.CostIncremented(provider="p", model="small", usage=Usage(input_tokens=1000), usd=0.25))
    child.emit(e.ToolCallRequested(call_id="call_c", tool="grep", input={"pattern": "x"}, step=1))
    child.emit(
        e.ToolCallStarted(
            call_id="call_c", tool="grep", input={"pattern": "x"}, mutating=False, input_sha256=""
        )
    )
    child.emit(e.ToolResult(call_id="call_c", tool="grep", outcome="ok", content="CHILD RESULT"))
    child.emit(e.TodosChanged(todos=(e.Todo(text="a child's own", state="open"),)))
    child.emit(e.TurnTiming(durations_ms={"turn.total": 1.0}))
    child.emit(e.TurnEnded(stop="end_turn", steps=1))


async def delegated(*answers, do=work, **options):
    """A session whose second event of the model is a call that has a child do `do`."""
    delegating = Delegating(do)
    model = RecordingModel(scripted(call("ask_review"), *answers))
    async with harness(model, tools=[delegating.tool()], allow=("ask_review",), **options) as session:
        delegating.session = session
        events = await session.ask("Have it reviewed.")
        return model, events, await session.stored(), session.conversation


async def test_what_a_child_says_is_not_in_the_next_request_of_its_parent():
    model, events, stored, conversation = await delegated(say("All good."))
    assert events[-1] == e.TurnEnded(stop="end_turn", steps=2), "the child's end is not the turn's"
    assert len(model.bodies) == 2
    assert b"CHILD" not in model.bodies[1]
    assert b"The reviewer is done." in model.bodies[1]
    assert [block.text for block in conversation.messages[-1].content] == ["[scripted] All good."]
    assert conversation.todos == ()
    assert conversation.spent_usd == 0.25, "what a child costs is the session's cost"
    assert (conversation.turn, conversation.step) == (1, 2)
    last_step = max(index for index, one in enumerate(stored) if one.kind == "StepStarted")
    assert encode(Conversation.of(stored[:last_step]), model.wire) == model.bodies[1]


@pytest.mark.requirement("D18.6")
async def test_one_log_holds_all_invocations_numbered_once_each_with_its_stamp():
    _, _, stored, _ = await delegated(say("All good."))
    assert [envelope.id for envelope in stored] == list(range(1, len(stored) + 1))
    begun = next(index for index, one in enumerate(stored) if one.kind == "ChildStarted")
    ended = next(index for index, one in enumerate(stored) if one.kind == "ChildEnded")
    for index, envelope in enumerate(stored):
        inside = begun < index < ended
        assert (envelope.invocation, envelope.agent_path) == (
            ("inv_1", ("review",)) if inside else (None, ())
        )
        if inside:
            assert (envelope.turn, envelope.originator) == (1, stored[begun].originator)
    told = [msgspec.json.decode(line) for line in events_lines(stored)]
    assert [line["eventId"] for line in told] == sorted(line["eventId"] for line in told)
    assert {line.get("agentSessionId") for line in told} == {None, f"{stored[0].session}/review"}
    child = Conversation.of(stored, CHILD)
    assert [message.role for message in child.messages] == ["user", "assistant", "user"]
    assert child.todos == (e.Todo(text="a child's own", state="open"),)
    assert child.spent_usd == 0.25


async def test_a_fold_is_kept_only_once_no_child_is_open():
    conversation = Conversation()
    conversation.apply(envelope(1, e.ChildStarted(invocation="inv_1", agent="review", task="")))
    assert conversation.folded() is None
    conversation.apply(envelope(2, e.ChildEnded(invocation="inv_1", agent="review", ok=True, result="")))
    assert Conversation.restored(conversation.folded()).last_id == 2


def envelope(number, event, invocation=None):
    path = () if invocation is None else (f"agent of {invocation}",)
    return e.Envelope(
        id=number,
        kind=type(event).__name__,
        session="sess_" + "0" * 26,
        originator="c",
        ts_ms=number,
        event=event,
        turn=1,
        invocation=invocation,
        agent_path=path,
    )


def steps(chance, name):
    """What an invocation does, as events: texts, failures, calls and results as chance has it, cut off anywhere."""
    found = []
    for step in range(1, chance.randint(2, 4)):
        found.append(e.StepStarted(step=step, provider="p", model="m"))
        found += [e.TextDelta(text=f"{name} {chance.random()}") for _ in range(chance.randint(0, 2))]
        if chance.random() < 0.3:
            found.append(e.StepFailed(step=step, attempt=1, reason="x", message="x"))
            found.append(e.TextDelta(text=f"{name} again"))
        calls = tuple(
            e.RequestedCall(
                call_id=f"{name}-{step}-{index}", wire_id=f"{name}w{step}{index}", tool="t", input={}
            )
            for index in range(chance.randint(0, 2))
        )
        usage = Usage(input_tokens=chance.randint(0, 9))
        found.append(e.StepEnded(step=step, stop="end_turn", text_sha256="", calls=calls, usage=usage))
        for one in chance.sample(calls, len(calls)):
            found.append(e.ToolCallRequested(call_id=one.call_id, tool="t", input={}, step=step))
            found.append(
                e.ToolCallStarted(call_id=one.call_id, tool="t", input={}, mutating=True, input_sha256="")
            )
            found.append(e.ToolResult(call_id=one.call_id, tool="t", outcome="ok", content=f"{name} result"))
        if chance.random() < 0.5:
            found.append(e.ContextAdded(source="steer", content=(TextBlock(text=f"to {name}"),)))
        if chance.random() < 0.3:
            found.append(e.TodosChanged(todos=(e.Todo(text=f"{name} {step}", state="open"),)))
    return [e.PrefixSet(provider="p", model=name, system=name), *found[: chance.randint(0, len(found))]]


FACTS = (
    e.ModeChanged(mode="auto"),
    e.CostIncremented(provider="p", model="m", usage=Usage(), usd=0.5),
    e.Notice(reason="x", message="x"),
)


def interleaved(chance):
    """The events of three invocations in any order that keeps each one's own, numbered once, facts of all between."""
    queues = {None: steps(chance, "main"), "a": steps(chance, "a"), "b": steps(chance, "b")}
    log = [
        envelope(1, e.ChildStarted(invocation="a", agent="agent of a", task="")),
        envelope(2, e.ChildStarted(invocation="b", agent="agent of b", task="")),
    ]
    while waiting := [name for name, queue in queues.items() if queue]:
        name = chance.choice(waiting)
        event = chance.choice(FACTS) if chance.random() < 0.1 else queues[name].pop(0)
        log.append(envelope(len(log) + 1, event, name))
    return log


def own_state(conversation):
    """Everything of a fold that belongs to its invocation alone."""
    kept = dict(vars(conversation))
    for session_fact in ("last_id", "mode", "mode_before_plan", "spent_usd", "children"):
        del kept[session_fact]
    return kept


@given(st.integers(0, 2**32))
def test_however_invocations_interleave_each_fold_is_that_of_its_own_events(seed):
    log = interleaved(Random(seed))
    live = Conversation()
    for one in log:
        live.apply(one)
    for name in (None, "a", "b"):
        named = Invocation() if name is None else Invocation(id=name, agent_path=(f"agent of {name}",))
        whole = Conversation.of(log, named)
        alone = Conversation.of([one for one in log if one.invocation == name], named)
        assert own_state(whole) == own_state(alone)
        held = live if name is None else live.children[name]
        assert own_state(held) == own_state(whole)
        assert (held.last_id, held.mode, held.spent_usd) == (whole.last_id, whole.mode, whole.spent_usd)
    costs = sum(one.event.usd for one in log if isinstance(one.event, e.CostIncremented))
    assert live.spent_usd == costs


# What people see


async def test_a_run_that_is_printed_ends_with_its_own_answer_and_counts_what_the_child_did():
    delegating = Delegating(work)
    model = scripted(call("ask_review"), say("All good."))
    async with harness(model, tools=[delegating.tool()]) as session:
        delegating.session = session
        told = []
        printer = Printer(form="json", out=io.StringIO(), write_line=told.append, detail=True)
        create = CreateSession(
            cwd=session.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": session.home},
            model=f"{model.name}:scripted",
            config=SessionOptions(allow=("ask_review",)),
        )
        await printer.run(session.connection, create, (TextBlock(text="Have it reviewed."),))
    assert printer.outcome.answer == "[scripted] All good."
    assert printer.finish() == 0
    assert not any("CHILD" in line for line in told)
    assert any(line.startswith("review: ran") for line in told), "what it did is told, with whose doing it is"
    assert told[-1].startswith("done")
    assert "2 steps" in told[-1]
    assert "$0.25" in told[-1], "a child's cost is the run's"


async def test_pages_replays_and_searches_do_not_mix_what_a_child_said_into_the_conversation():
    _, _, stored, _ = await delegated(say("All good."))
    said = [passage for passage in passages(stored) if isinstance(passage, Words)]
    assert [(words.who, words.text) for words in said] == [
        ("you", "Have it reviewed."),
        ("bridle", "[scripted] All good."),
    ]
    shown = "".join(frame.text for frame in frames(stored))
    assert "\n    said     CHILD WORDS\n" in shown, "below whoever sent it, as its own"
    assert shown.count("CHILD WORDS") == 1
    assert "\n    ran " in shown
    lines = [msgspec.json.decode(line) for line in chain_lines(stored)]
    child = [line["event"]["type"] for line in lines if "CHILD" in str(line)]
    assert child
    assert all(name.startswith("agent.") for name in child)
    assert [(one.who, one.text) for one in said_in(stored)] == [
        ("you", "Have it reviewed."),
        ("model", "CHILD WORDS"),
        ("model", "[scripted] All good."),
    ], "found where it was said, as words of their own"
    view = SessionView("c")
    for one in stored:
        view.take(one)
    assert (view.turns, view.running, view.title) == (1, False, "Have it reviewed.")
    assert "small" not in view.asked


# What an invocation has for itself


def parts(journal, questions, run_tool):
    """Dispatcher and stopwatch of an invocation."""
    stopwatch = Stopwatch(FakeClock())
    dispatcher = Dispatcher(
        journal=journal,
        clock=FakeClock(),
        stopwatch=stopwatch,
        run_tool=run_tool,
        concurrency=lambda _tool, _given: "serial",
    )
    return stopwatch, dispatcher


async def test_calls_times_and_questions_of_a_child_are_its_own_and_go_to_the_people_of_the_session():
    log, clock = _MemoryLog(), FakeClock()
    main = Journal(session="sess_x", log=log, clock=clock, bus=None, conversation=Conversation())
    main.originator = "cli_x"
    child = main.begin_child(e.ChildStarted(invocation="inv_1", agent="review", task=""))
    questions = Questions(journal=main, clock=clock, can_be_reached=lambda: True)
    person = Client(id="cli_x", name="x", identity="human", answers=True)
    questions.attach(person)
    asked = questions.within(child)

    async def run_tool(call):
        request = e.PermissionRequested(call_id=call.id, tool="t", input={}, risk="read", why="")
        assert (await asked.ask_permission(request)).allows
        question = OpenQuestion(text="Go on?")
        both = asyncio.gather(asked.ask("steps-1", question), questions.ask("steps-1", question))
        for name, words in (("steps-1@inv_1", "child"), ("steps-1", "main")):  # as they came
            while getattr(log.envelopes[-1].event, "question_id", "") != name:
                await asyncio.sleep(0)
            answer = AnswerQuestion(session="", question_id=name, answer=WordsAnswer(text=words))
            questions.answer_question(person, answer)
        assert await both == [WordsAnswer(text="child"), WordsAnswer(text="main")]
        return ToolOutput(content="done")

    stopwatch, dispatcher = parts(child, asked, run_tool)
    other, _ = parts(main, questions, run_tool)
    wanted = e.RequestedCall(call_id="call_c", wire_id="w", tool="t", input={})
    running = asyncio.ensure_future(dispatcher.run((wanted,), step=1, identity="human"))
    while not any(one.kind == "PermissionRequested" for one in log.envelopes):
        await asyncio.sleep(0)
    questions.answer(person, AnswerPermission(session="", call_id="call_c", answer="once"))
    assert [result.outcome for result in await running] == ["ok"]
    stamped = {(one.kind, one.invocation, one.agent_path) for one in log.envelopes}
    assert stamped == {
        ("ChildStarted", None, ()),
        ("QuestionAsked", None, ()),
        ("QuestionAnswered", None, ()),
        ("ToolCallRequested", "inv_1", ("review",)),
        ("PermissionRequested", "inv_1", ("review",)),
        ("QuestionAsked", "inv_1", ("review",)),
        ("QuestionAnswered", "inv_1", ("review",)),
        ("ToolResult", "inv_1", ("review",)),
    }
    assert list(stopwatch.take()) == ["tool.t"]
    assert other.take() == {}


def open_child(child):
    """A child that is in the middle of a call which may change something."""
    number = child.emit(e.InputAccepted(content=(TextBlock(text="Write it."),)))
    child.emit(e.TurnStarted(input=number))
    child.emit(e.StepStarted(step=1, provider="p", model="small"))
    calls = (e.RequestedCall(call_id="call_c", wire_id="w1", tool="bash", input={"command": "touch a"}),)
    child.emit(e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=calls))
    child.emit(e.ToolCallRequested(call_id="call_c", tool="bash", input={"command": "touch a"}, step=1))
    child.emit(
        e.ToolCallStarted(
            call_id="call_c", tool="bash", input={"command": "touch a"}, mutating=True, input_sha256=""
        )
    )


@pytest.mark.requirement("G32.3")
async def test_after_a_crash_a_childs_call_is_a_persons_to_judge_and_its_end_is_in_its_own_place(tmp_path):
    work_folder = tmp_path / "work"
    work_folder.mkdir()
    places = {"folder": str(work_folder), "home": str(tmp_path / "home")}
    delegating = Delegating(open_child, leave=True)
    model = scripted(call("ask_review"), say("x"))
    async with harness(model, tools=[delegating.tool()], allow=("ask_review",), **places) as session:
        delegating.session = session
        await session.send("go")
        await session.until(e.ToolCallStarted)
        while len(stored := await session.stored()) == 0 or stored[-1].kind != "ToolCallStarted":
            await asyncio.sleep(0.01)
        log = session.engine.store.create(str(work_folder), profile="default")
        for one in stored:
            log.append(msgspec.structs.replace(one, session=log.session), encode_payload(one.event))
        name = log.session
        await log.committed()
        log.close()
    assert [call.call.call_id for call in orphans(Conversation.of(stored))] == ["call_c"]
    options = {"resume": name, "on_orphan": "mark-unknown", **places}
    async with harness(scripted(say("x"), say("Back.")), **options) as session:
        closed = (await session.stored())[len(stored) :]
        assert session.conversation.children == {}
        assert (await session.ask("go on"))[-1].stop == "end_turn"
    ended = closed[: next(index for index, one in enumerate(closed) if one.kind == "SessionCreated")]
    assert [(one.kind, one.invocation) for one in ended] == [
        ("ToolResult", None),
        ("ToolResult", "inv_1"),
        ("TurnEnded", "inv_1"),
        ("ChildEnded", None),
        ("TurnEnded", None),
    ]
    (unknown,) = (
        result for result in of_kind([one.event for one in ended], e.ToolResult) if result.call_id == "call_c"
    )
    assert unknown.outcome == "unknown"


# A log without children


async def test_a_log_without_children_is_byte_for_byte_what_it_was():
    """Frozen from the version before invocations had journals of their own."""
    clock = FakeClock()
    log = _MemoryLog()
    journal = Journal(session="sess_x", log=log, clock=clock, bus=None, conversation=Conversation())
    journal.originator = "cli_x"
    number = journal.emit(e.InputAccepted(content=(TextBlock(text="hello"),)), originator="cli_y")
    journal.emit(e.TurnStarted(input=number))
    journal.emit(e.StepStarted(step=1, provider="p", model="m"))
    journal.emit(e.TextDelta(text="Hi."))
    journal.emit(e.StepEnded(step=1, stop="end_turn", text_sha256="0"))
    journal.emit(e.TurnEnded(stop="end_turn", steps=1))
    journal.emit(e.SessionEnded(cause="user"))
    stamp = '"session":"sess_x","originator":"cli_x","ts":"2026-05-23T19:00:00.000Z"'
    words, step = '{"type":"text","text":"hello"}', '"step":1,"provider":"p","model":"m"'
    assert [line.decode() for line in log.lines] == [
        f'{{"id":1,"kind":"InputAccepted",{stamp.replace("cli_x", "cli_y")},"payload":{{"content":[{words}]}}}}',
        f'{{"id":2,"kind":"TurnStarted",{stamp},"payload":{{"input":1}},"turn":1}}',
        f'{{"id":3,"kind":"StepStarted",{stamp},"payload":{{{step}}},"turn":1}}',
        f'{{"id":4,"kind":"TextDelta",{stamp},"payload":{{"text":"Hi."}},"turn":1}}',
        f'{{"id":5,"kind":"StepEnded",{stamp},"payload":{{"step":1,"stop":"end_turn","text_sha256":"0"}},"turn":1}}',
        f'{{"id":6,"kind":"TurnEnded",{stamp},"payload":{{"stop":"end_turn","steps":1}},"turn":1}}',
        f'{{"id":7,"kind":"SessionEnded",{stamp},"payload":{{"cause":"user"}}}}',
    ]


class _MemoryLog:
    last_id = 0

    def __init__(self):
        self.lines = []
        self.envelopes = []

    def append(self, envelope, payload):
        self.envelopes.append(envelope)
        self.lines.append(encode_envelope(envelope, payload))
