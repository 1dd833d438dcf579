"""Tools that somebody brings along: they stand behind the built-in ones and replace none."""

import msgspec
import pytest

from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.base.text.json_schema import JsonSchema
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.engine.services import Health
from bridle.engine.tools import Tool, ToolContext, ToolOrigin, ToolOutput, never_mutating
from bridle.protocol.commands import AnswerPermission, AnswerQuestion
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.protocol.errors import BridleError
from bridle.protocol.events import (
    ChildEnded,
    Degraded,
    Notice,
    PermissionRequested,
    PrefixSet,
    QuestionAsked,
    ToolResult,
)
from bridle.protocol.questions import OpenQuestion, WordsAnswer
from bridle.providers.script import call, say
from tables import table


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class Path(msgspec.Struct, frozen=True):
    path: str


def brought(name: str, args: type[msgspec.Struct] | JsonSchema = Nothing) -> Tool:
    async def run(_args: msgspec.Struct, _context: ToolContext) -> ToolOutput:
        return ToolOutput(content=f"the {name} that was brought")

    return Tool(
        name=name, description="Says who it is.", input=args, risk="read", run=run, mutating=never_mutating
    )


async def test_a_tool_that_was_brought_is_one_like_the_others():
    async with harness(
        scripted(call("weather"), say("Done.")), tools=[brought("weather")], allow=("weather",)
    ) as session:
        events = await session.ask("go")
    (prefix,) = of_kind(events, PrefixSet)
    assert prefix.tools[-1].name == "weather", "behind the built-in ones"
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.content) == ("ok", "the weather that was brought")


async def test_what_a_brought_tool_shows_is_stored_without_secrets_bounded_and_not_told_to_the_model():
    secret = "ghp_" + "a1B2" * 9

    async def run(_args: Nothing, _context: ToolContext) -> ToolOutput:
        files = (
            EditedFile(path="a", diff=f"+{secret}\n", added=1),
            EditedFile(path="b", diff="+x\n" * 100_000, added=100_000),
            EditedFile(path="c", kind="move", moved_from="d"),
        )
        return ToolOutput(content="Changed three.", shown=ShownEdit(files=files), metadata={"mine": 1})

    model = RecordingModel(scripted(call("change"), say("Done.")))
    tool = msgspec.structs.replace(brought("change"), run=run)
    async with harness(model, tools=[tool], allow=("change",)) as session:
        (told,) = of_kind(await session.ask("go"), ToolResult)
        (stored,) = of_kind([one.event for one in await session.stored()], ToolResult)
    assert told.shown == ShownEdit(
        files=(
            EditedFile(path="a", diff="+«redacted:github-token»\n", added=1),
            EditedFile(path="b", cut=True, added=100_000),
            EditedFile(path="c", kind="move", moved_from="d"),
        )
    )
    assert (stored, told.content, told.metadata) == (told, "Changed three.", {"mine": 1})
    assert b"redacted:github-token" not in model.bodies[-1]


@pytest.mark.requirement("D6.6")
async def test_a_tool_knows_whose_call_it_is_and_can_tell_and_ask():
    seen: list[ToolContext] = []

    async def run(_args: msgspec.Struct, context: ToolContext) -> ToolOutput:
        seen.append(context)
        context.emit(Notice(reason="Weather", message="it rains"))
        answer = await context.ask("umbrella", OpenQuestion(text="Take it along?"))
        return ToolOutput(
            content=f"told: {answer.text}" if isinstance(answer, WordsAnswer) else "nobody said"
        )

    tool = msgspec.structs.replace(brought("weather"), run=run)
    async with harness(
        scripted(call("weather"), say("Done.")), tools=[tool], allow=("weather",), answers=True
    ) as session:
        number = await session.send("go")
        asked = await session.until(QuestionAsked, since=number)
        words = AnswerQuestion(
            session=session.id, question_id=asked.question_id, answer=WordsAnswer(text="yes")
        )
        await session.connection.send(words)
        events = await session.turn_of(number)
    (context,) = seen
    (result,) = of_kind(events, ToolResult)
    assert (context.session, context.cwd, context.dry_run) == (session.id, session.folder, False)
    assert (context.call.id, result.content) == (result.call_id, "told: yes")
    assert (context.invocation.id, context.invocation.agent_path, context.invocation.parent) == (
        None,
        (),
        None,
    )
    assert [notice.message for notice in of_kind(events, Notice)] == ["it rains"]


@pytest.mark.requirement("D6.6")
@table("says", ["once", "deny"])
async def test_a_tool_has_an_agent_work_as_a_call_of_its_own_that_asks_first(says: str):
    """Its own yes is none for the agent, and what the agent came to is the tool's to use."""
    came_to: list[ToolResult] = []

    async def run(_args: msgspec.Struct, context: ToolContext) -> ToolOutput:
        assert context.send_agent is not None
        came_to.append(await context.send_agent("explorer", "Where are prices summed?"))
        return ToolOutput(content=f"it says: {came_to[-1].content}")

    tool = msgspec.structs.replace(brought("have_looked"), run=run)
    model = scripted(call("have_looked"), say("Done."), agents={"explorer": [say("In cart.py.")]})
    agent = AgentDefinition(name="explorer", description="x", delegation=AgentDelegation(invocation="ask"))
    options = {"agent_mode": "multi", "agents": [agent], "allow": ("have_looked",), "answers": True}
    async with harness(model, tools=[tool], **options) as session:
        number = await session.send("go")
        asked = await session.until(PermissionRequested, since=number)
        answer = AnswerPermission(session=session.id, call_id=asked.call_id, answer=says)
        await session.connection.send(answer)
        events = await session.turn_of(number)
        assert session.conversation.open_calls == ()
    handoff = asked.handoff
    assert handoff is not None
    assert (asked.tool, "Where are prices summed?" in handoff.text) == ("delegate_agent", True)
    (result,) = came_to
    ended = of_kind(events, ChildEnded)
    if says == "once":
        assert (result.outcome, [one.ok for one in ended]) == ("ok", [True])
        assert "In cart.py." in result.content
    else:
        assert (result.outcome, ended) == ("denied", [])
    assert of_kind(events, ToolResult)[-1].content.startswith("it says: ")


async def test_a_tool_sends_nobody_where_its_caller_may_not():
    seen: list[bool] = []

    async def run(_args: msgspec.Struct, context: ToolContext) -> ToolOutput:
        seen.append(context.send_agent is not None)
        return ToolOutput(content="looked")

    tool = msgspec.structs.replace(brought("look"), run=run)
    agent = AgentDefinition(name="helper", description="x", delegation=AgentDelegation(invocation="allow"))
    send = call("delegate_agent", agent="helper", task="x")
    model = scripted(call("look"), send, say("x"), agents={"helper": [call("look"), say("x")]})
    for mode in ("single", "multi"):
        options = {"agent_mode": mode, "agents": [agent], "tools": [tool], "allow": ("look",)}
        async with harness(model, **options) as session:
            await session.ask("go")
    assert seen == [False, True, False], "one agent alone; the main one of several; one below it"


async def test_a_tool_that_was_brought_passes_every_gate():
    async with harness(
        scripted(call("weather"), say("Done.")), tools=[brought("weather")], deny=("weather",)
    ) as session:
        assert outcomes(await session.ask("go")) == ["denied"]


@pytest.mark.requirement("D5.3")
async def test_a_tool_cannot_take_a_built_in_name_and_that_is_told():
    model = scripted(call("read_file", path="a.txt"), call("weather"), say("Done."))
    tools = [brought("read_file", Path), brought("weather"), brought("weather")]
    async with harness(model, tools=tools, allow=("weather",)) as session:
        with open(f"{session.folder}/a.txt", "w") as file:
            file.write("what the file says")
        events = await session.ask("go")
        stored = [envelope.event for envelope in await session.stored()]
    read, weather = of_kind(events, ToolResult)
    assert "what the file says" in read.content, "the built-in one ran"
    assert weather.content == "the weather that was brought"
    (prefix,) = of_kind(events, PrefixSet)
    names = [tool.name for tool in prefix.tools]
    assert (names.count("read_file"), names.count("weather")) == (1, 1)
    assert [(notice.reason, notice.message) for notice in of_kind(stored, Notice)] == [
        (
            "ToolNameTaken",
            f'The programmatic tool "{name}" was left out: a tool of that name is there already.',
        )
        for name in ("read_file", "weather")
    ]


# Tools that say with a JSON Schema what they take

FORECAST = JsonSchema(
    {
        "type": "object",
        "properties": {
            "place": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
        "required": ["place"],
        "additionalProperties": False,
    }
)


def forecast(given: object = FORECAST) -> Tool:
    async def run(args: dict[str, object], _context: ToolContext) -> ToolOutput:
        return ToolOutput(content=f"given {sorted(args.items())}")

    return Tool(
        name="forecast",
        description="Tells the weather.",
        input=given,
        risk="read",
        run=run,
        mutating=never_mutating,
    )


async def test_a_tool_with_only_a_json_schema_is_called_with_the_object_as_it_came():
    model = RecordingModel(scripted(call("forecast", place="a.Bc", days=[1, 2]), say("Done.")))
    async with harness(model, tools=[forecast()], allow=("forecast",)) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.content) == ("ok", "given [('days', [1, 2]), ('place', 'a.Bc')]")
    (prefix,) = of_kind(events, PrefixSet)
    assert prefix.tools[-1].input_schema == FORECAST.document


@table(
    ("given", "problem"),
    [
        ({}, "'place' is a required property - at `$`"),
        ({"place": 3}, "3 is not of type 'string' - at `$.place`"),
        ({"place": "a.Bc", "days": [1, 0]}, "0 is less than the minimum of 1 - at `$.days[1]`"),
        ({"place": "a.Bc", "when": 1}, "there is no property 'when' - at `$`"),
    ],
)
async def test_what_does_not_fit_the_schema_is_refused_in_a_sentence_that_names_the_place(given, problem):
    model = scripted(call("forecast", **given), say("Done."))
    async with harness(model, tools=[forecast()], allow=("forecast",)) as session:
        (result,) = of_kind(await session.ask("go"), ToolResult)
    assert (result.outcome, result.reason) == ("error", "InvalidInput")
    assert result.content.startswith("The input of forecast is not valid: ")
    assert problem in result.content


@table(
    ("given", "problem"),
    [
        (JsonSchema({"type": "object", "properties": {"a": {"type": "strin"}}}), "at `$.properties.a.type`"),
        (
            JsonSchema({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}}),
            "\"$ref\" leads to 'http://127.0.0.1:9/a.json', and nothing is fetched",
        ),
        (JsonSchema({"type": "string"}), 'its type is not "object"'),
        (dict, "dict is no type of arguments"),
        ({"type": "object"}, "it is neither a type of arguments nor a JsonSchema"),
    ],
)
async def test_a_tool_whose_schema_is_none_is_left_out_and_the_session_goes_on(given, problem):
    model = scripted(call("forecast", place="a"), say("Done."))
    async with harness(model, tools=[forecast(given), brought("weather")]) as session:
        events = await session.ask("go")
        stored = [envelope.event for envelope in await session.stored()]
    assert events[-1].stop == "end_turn"
    (prefix,) = of_kind(events, PrefixSet)
    assert [tool.name for tool in prefix.tools][-1] == "weather"
    (notice,) = of_kind(stored, Notice)
    assert notice.reason == "BadToolInput"
    assert notice.message.startswith('The programmatic tool "forecast" was left out: ')
    assert problem in notice.message


# Sources whose tools change


class Changing:
    """A source of tools. Its service offers `first`, and later whatever it is told to."""

    name = "changing"
    origin = ToolOrigin(scope="user", path="somewhere")

    def __init__(self, first=(), *, fault=None):
        self._first = first
        self._fault = fault
        self.door = None
        self.stopped = 0

    def service(self, door):
        self.door = door
        return self

    async def start(self):
        if self._fault is not None:
            raise self._fault
        self.door.offer(self._first)

    async def stop(self):
        self.stopped += 1

    def health(self):
        return Health(state="stopped" if self.stopped else "up")


def swapping(source, name, tools):
    """A tool that has its source offer other tools."""

    async def run(_args, _context):
        source.door.offer(tools)
        return ToolOutput(content="swapped")

    return Tool(name=name, description="", input=Nothing, risk="read", run=run, mutating=never_mutating)


def names_of(prefix):
    return [tool.name for tool in prefix.tools]


@pytest.mark.requirement("D5.1", "D5.2")
async def test_a_tool_comes_and_goes_between_two_steps_and_the_next_request_has_what_is_there():
    source = Changing()
    weather = brought("weather")
    tools = [swapping(source, "in", [weather]), swapping(source, "out", []), source]
    model = RecordingModel(scripted(call("in"), call("weather"), call("out"), call("weather"), say("Done.")))
    async with harness(model, tools=tools, allow=("in", "out", "weather")) as session:
        events = await session.ask("go")
        assert session.engine.live.session(session.id).services.health() == {"changing": Health(state="up")}
    results = [(result.tool, result.outcome, result.reason) for result in of_kind(events, ToolResult)]
    assert results == [
        ("in", "ok", None),
        ("weather", "ok", None),
        ("out", "ok", None),
        ("weather", "error", "UnknownTool"),
    ]
    first, with_it, without = of_kind(events, PrefixSet)
    assert names_of(with_it) == [*names_of(first), "weather"]
    assert names_of(without) == names_of(first)
    has_it = [b'"name":"weather"' in body for body in model.bodies]
    assert has_it == [False, True, True, False, False]
    assert source.stopped == 1, "it ends with the session"


async def test_nothing_changes_in_the_request_when_a_source_offers_the_same_again():
    source = Changing()
    weather = brought("weather")
    tools = [swapping(source, "again", [weather]), source]
    model = RecordingModel(scripted(call("again"), call("again"), say("Done.")))
    async with harness(model, tools=tools, allow=("again",)) as session:
        events = await session.ask("go")
    assert len(of_kind(events, PrefixSet)) == 2, "before it was offered, and since"
    tail = len(model.wire.tail(None))
    assert model.bodies[2].startswith(model.bodies[1][:-tail])


async def test_a_tool_that_was_taken_out_while_a_person_thought_does_not_run():
    source = Changing([brought("weather")])
    model = scripted(call("weather"), say("Done."))
    async with harness(model, tools=[source], mode="strict", answers=True) as session:
        number = await session.send("go")
        asked = await session.until(PermissionRequested)
        source.door.offer([brought("weather")])  # one of the same name, and another all the same
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=asked.call_id, answer="once")
        )
        (result,) = of_kind(await session.turn_of(number), ToolResult)
    assert (result.outcome, result.reason) == ("error", "ToolGone")
    assert "took it out or changed it" in result.content


@pytest.mark.requirement("D5.3", "H19.1")
async def test_a_name_stays_with_the_source_that_had_it_first():
    source = Changing([brought("weather")])
    other = Changing([])
    other.name = "other"
    async with harness(scripted(say("x")), tools=[source, other]) as session:
        await session.ask("go")
        source.door.offer([])
        other.door.offer([brought("weather"), brought("read_file", Path), brought("tides")])
        events = await session.ask("go")
        stored = [envelope.event for envelope in await session.stored()]
    told = [notice.message for notice in of_kind(stored, Notice)]
    assert told == [
        f'The other tool "{name}" was left out: a tool of that name is there already.'
        for name in ("weather", "read_file")
    ]
    (prefix,) = of_kind(events, PrefixSet)
    assert names_of(prefix)[-1] == "tides"


async def test_a_source_that_cannot_start_is_told_and_the_session_goes_on():
    source = Changing(fault=OSError("no such program"))
    async with harness(scripted(say("x")), tools=[source]) as session:
        degraded = await session.until(Degraded)
        assert (await session.ask("go"))[-1].stop == "end_turn"
    assert (degraded.what, degraded.reason) == ("changing", "ServiceFailed")
    assert degraded.message == "changing could not be started (no such program)."


async def test_two_sources_of_one_name_are_refused_at_the_door():
    with pytest.raises(BridleError, match='the name "changing" is there already') as refused:
        async with harness(scripted(say("x")), tools=[Changing(), Changing()]):
            pass
    assert (refused.value.reason, refused.value.exit_code) == ("FeatureConflict", 2)
