"""The print client at the end of a hand-made connection: what it writes, what it sends, what it returns."""

import io
import json
import re
from collections.abc import AsyncIterator, Sequence

import pytest

from bridle.clients.print import EXIT_READER_GONE, Format, Printer
from bridle.protocol import events as e
from bridle.protocol import queries as q
from bridle.protocol.commands import Accepted, AnyCommand, CancelTurn, CreateSession, SendInput
from bridle.protocol.display_values import EditedFile, ShownEdit, ShownRead
from bridle.protocol.errors import BridleError, CommandRefused, StoreError
from bridle.protocol.handshake import Handshake, handshake
from bridle.protocol.messages import TextBlock, Usage
from tables import table

SESSION = "sess_01JV0000000000000000000000"
CREATE = CreateSession(cwd="/work", model="demo:x")
INPUT = 2


class Replay:
    """A `Connection` that takes every command and plays given events; one that is an error is raised there."""

    def __init__(self, *events: e.AnyEvent | BridleError, refuse: BridleError | None = None) -> None:
        self.events_to_play: Sequence[e.AnyEvent | BridleError] = events
        self.refuse = refuse
        self.sent: list[AnyCommand] = []
        self.since: int | None = None

    @property
    def client(self) -> str:
        return "cli_1"

    @property
    def hello(self) -> Handshake:
        return handshake()

    async def send(self, command: AnyCommand) -> Accepted:
        self.sent.append(command)
        if self.refuse is not None:
            raise self.refuse
        if isinstance(command, CreateSession):
            return Accepted(session=SESSION, event=9, opened=7)
        return Accepted(session=SESSION, event=INPUT)

    async def ask(self, query: q.Query[q.A]) -> q.A:
        raise CommandRefused("NotSupported", what=type(query).__name__)

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[e.Envelope]:
        self.since = since
        live = (e.ToolCallProgress, e.Presence)
        for number, event in enumerate(self.events_to_play, 1):
            if isinstance(event, BridleError):
                raise event
            yield e.Envelope(
                id=None if isinstance(event, live) else number,
                kind=type(event).__name__,
                session=session,
                originator="cli_1",
                ts_ms=number * 1000,
                event=event,
            )

    async def close(self) -> None:
        return


class GoneReader(io.StringIO):
    """A pipe whose reader leaves after so many writes."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    def write(self, text: str) -> int:
        if not self.left:
            raise BrokenPipeError
        self.left -= 1
        return super().write(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def started(number: int = INPUT) -> e.TurnStarted:
    return e.TurnStarted(input=number)


NAMED = f"model p:m · mode default · {SESSION}"


def ended(stop: e.TurnStop = "end_turn", **fields: str) -> e.TurnEnded:
    return e.TurnEnded(stop=stop, steps=1, **fields)


def step(text: str) -> tuple[e.AnyEvent, ...]:
    return e.StepStarted(step=1, provider="p", model="m"), e.TextDelta(text=text)


async def printed(
    connection: Replay,
    form: Format = "text",
    out: io.StringIO | None = None,
    create: CreateSession = CREATE,
) -> tuple[int, str, list[str]]:
    """Exit code, output and story of a run on this connection."""
    out = out or io.StringIO()
    story: list[str] = []
    printer = Printer(form=form, out=out, write_line=story.append)
    await printer.run(connection, create, (TextBlock(text="do it"),))
    code = printer.finish()
    return code, out.getvalue(), story


@pytest.mark.requirement("D13.15")
async def test_a_run_creates_a_session_sends_the_prompt_and_prints_the_last_answer() -> None:
    timing = e.TurnTiming(durations_ms={"turn.total": 6_040.0})
    played = (started(), *step("not this"), *step("the "), e.TextDelta(text="answer"), timing, ended())
    connection = Replay(*played)
    assert await printed(connection) == (0, "the answer\n", [NAMED, "done     6.0 s · 1 step"])
    assert connection.sent == [
        CREATE,
        SendInput(session=SESSION, content=(TextBlock(text="do it"),), mode="queue"),
    ]
    assert connection.since == 0


@table(
    ("costs", "said"),
    [
        ([], ""),
        ([("p", 0.125), ("p", 0.0)], " · $0.12"),
        ([("p", 0.001)], " · $0.0010"),
        ([("p", 0.125), ("p", None)], " · cost unknown for this model"),
        ([("home", None)], " · local"),
        ([("home", None), ("p", None)], " · cost unknown for this model"),
    ],
)
async def test_the_closing_line_says_what_was_paid_and_never_a_number_nobody_knows(
    costs: list[tuple[str, float | None]], said: str
) -> None:
    used = Usage(input_tokens=10, output_tokens=1)
    paid = [
        e.CostIncremented(provider=provider, model="m", usage=used, usd=usd, local=provider == "home")
        for provider, usd in costs
    ]
    _, _, story = await printed(Replay(started(), *step("x"), *paid, ended()))
    assert re.sub(r"\d+\.\d s", "T", story[-1]) == f"done     T · 1 step{said}"


async def test_a_resumed_run_tells_what_is_new_from_its_own_beginning_on() -> None:
    connection = Replay(started(), *step("x"), ended())
    await printed(connection, create=CreateSession(cwd="/work", resume=SESSION))
    assert connection.since == 6


async def test_a_turn_of_somebody_else_does_not_end_the_run() -> None:
    connection = Replay(started(1), *step("theirs"), ended("error"), started(), *step("mine"), ended())
    code, out, _ = await printed(connection)
    assert (code, out) == (0, "mine\n")


@pytest.mark.requirement("C22")
@table(
    ("stop", "reason", "code"),
    [
        ("end_turn", None, 0),
        ("max_tokens", None, 1),
        ("content_filter", "ContentFiltered", 1),
        ("cancelled", None, 130),
        ("interrupted", "TurnInterrupted", 1),
        ("error", "StepLimit", 1),
        ("error", "ProviderUnreachable", 5),
        ("error", "BadCredentials", 4),
        ("error", "NoApprover", 3),
        ("error", "DeadlineReached", 124),
        ("error", "Custom:some:thing", 1),
    ],
)
async def test_the_exit_code_is_that_of_the_reason(stop: e.TurnStop, reason: str | None, code: int) -> None:
    end = e.TurnEnded(stop=stop, reason=reason, message="It\x1b[2J ended.", steps=2)
    returned, out, story = await printed(Replay(started(), *step("so far"), end), "json")
    result = json.loads(out)
    told = None if code == 0 else reason or stop
    assert (returned, result["exit_code"], result["reason"]) == (code, code, told)
    assert result["success"] is (stop == "end_turn")
    assert story[-1].startswith("done  " if code == 0 else "ended    It⟨ESC⟩[2J ended. · ")
    expected = None if code == 0 else {"name": told, "message": "It\x1b[2J ended."}
    assert result["error"] == expected


def begun(call_id: str, tool: str) -> e.ToolCallStarted:
    return e.ToolCallStarted(call_id=call_id, tool=tool, input={}, mutating=True, input_sha256="")


@pytest.mark.requirement("T18.1", "P11")
async def test_the_json_result_holds_stored_events_calls_not_run_and_changed_files() -> None:
    def asked(call_id: str, tool: str, **given: str) -> e.ToolCallRequested:
        return e.ToolCallRequested(call_id=call_id, tool=tool, input=dict(given), step=1)

    def closed(call_id: str, tool: str, outcome: e.Outcome, **fields: object) -> e.ToolResult:
        return e.ToolResult(call_id=call_id, tool=tool, outcome=outcome, content="", **fields)

    def edited(*paths: str) -> ShownEdit:
        return ShownEdit(files=tuple(EditedFile(path=path, added=1) for path in paths))

    connection = Replay(
        started(),
        asked("c1", "bash", command="rm -rf /"),
        closed("c1", "bash", "denied", reason="NoApprover"),
        asked("c2", "write_file", path="a.txt"),
        closed("c2", "write_file", "ok", shown=edited("a.txt")),
        closed("c2", "write_file", "ok", shown=edited("a.txt")),
        begun("c3", "write_file"),
        closed("c3", "write_file", "error", shown=edited("b.txt")),
        closed("c4", "read_file", "ok", shown=ShownRead(last_line=1)),
        closed("c5", "edit_file", "blocked", reason="PathOutsideWorkspace"),
        e.ToolCallProgress(call_id="c1", text="live, so not stored"),
        *step("done"),
        ended(),
    )
    code, out, story = await printed(connection, "json")
    assert (code, out.count("\n")) == (0, 1)
    result = json.loads(out)
    assert [event["id"] for event in result["events"]] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]
    assert result["denied"] == [
        {"tool": "bash", "call": "rm -rf /", "reason": "NoApprover"},
        {"tool": "edit_file", "call": "edit_file", "reason": "PathOutsideWorkspace"},
    ]
    assert result["changed_files"] == ["a.txt"]
    assert (result["threadId"], result["sessionId"]) == (SESSION, SESSION)
    assert story[-1].endswith("1 step · 1 file changed · 2 calls not run")


async def test_every_call_that_did_not_run_is_counted_and_only_refused_ones_are_denied() -> None:
    results = (
        e.ToolResult(call_id="c1", tool="bash", outcome="denied", content="", reason="NoApprover"),
        e.ToolResult(call_id="c2", tool="grep", outcome="error", content="", reason="InvalidInput"),
        e.ToolResult(call_id="c3", tool="nosuch", outcome="error", content="", reason="UnknownTool"),
        e.ToolResult(call_id="c4", tool="bash", outcome="error", content="", reason="CannotStart"),
        begun("c5", "read_file"),
        e.ToolResult(call_id="c5", tool="read_file", outcome="error", content=""),
    )
    _, out, story = await printed(Replay(started(), *results, *step("done"), ended()), "json")
    assert story[-1].endswith("1 step · 4 calls not run")
    assert [call["tool"] for call in json.loads(out)["denied"]] == ["bash"]


@pytest.mark.requirement("T18.2", "P11")
async def test_the_stream_has_live_events_too_and_ends_with_the_result() -> None:
    connection = Replay(started(), e.ToolCallProgress(call_id="c", text="x"), *step("done"), ended())
    _, out, _ = await printed(connection, "stream-json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["eventType"] for line in lines] == [
        "TurnStarted",
        "ToolCallProgress",
        "StepStarted",
        "TextDelta",
        "TurnEnded",
        "run.result",
    ]
    assert "events" not in lines[-1]
    assert lines[-1]["finalResponse"] == "done"


@pytest.mark.requirement("C22")
@table("form", ["text", "json", "stream-json"])
async def test_a_refused_command_is_one_sentence_and_one_object(form: Format) -> None:
    refusal = CommandRefused("UnknownProvider", provider="no\x1bbody", known="demo")
    code, out, story = await printed(Replay(refuse=refusal), form)
    assert (code, story) == (
        2,
        ['There is no provider "no⟨ESC⟩body". Known: demo. What each has: bridle models'],
    )
    if form == "text":
        assert out == ""
    else:
        assert json.loads(out)["error"] == {"name": "UnknownProvider", "message": refusal.message}


@pytest.mark.requirement("C22")
async def test_a_log_that_fails_in_the_middle_ends_the_run_with_its_reason() -> None:
    failure = StoreError("StoreUnwritable", path="/data", problem="disk full")
    code, out, story = await printed(Replay(started(), *step("half"), failure), "json")
    result = json.loads(out)
    assert (code, result["exit_code"], result["reason"]) == (2, 2, "StoreUnwritable")
    assert len(result["events"]) == 3
    assert story == [NAMED, failure.message]


@pytest.mark.requirement("C22")
@table("form", ["json", "stream-json"])
async def test_a_session_that_ends_under_a_run_is_a_failed_run(form: Format) -> None:
    code, out, _ = await printed(Replay(started(), *step("half")), form)
    assert code == 1
    assert json.loads(out.splitlines()[-1])["exit_code"] == 1


async def test_when_the_reader_is_gone_the_turn_is_cancelled_and_nothing_more_is_written() -> None:
    connection = Replay(started(), *step("one"), *step("two"), ended())
    out = GoneReader(writes=2)
    code, text, _ = await printed(connection, "stream-json", out)
    assert code == EXIT_READER_GONE
    assert len(text.splitlines()) == 2
    assert connection.sent[-1] == CancelTurn(session=SESSION)


async def test_an_answer_is_made_visible_for_a_terminal_and_left_alone_in_a_pipe() -> None:
    hostile = "red \x1b[31m\u202e"
    events = (started(), *step(hostile), ended())
    assert (await printed(Replay(*events)))[1] == hostile + "\n"
    assert (await printed(Replay(*events), out=Terminal()))[1] == "red ⟨ESC⟩[31m⟨U+202E⟩\n"


async def test_two_printers_share_nothing() -> None:
    denied = e.ToolResult(call_id="c", tool="bash", outcome="denied", content="")
    for _ in range(2):
        _, out, _ = await printed(Replay(started(), denied, ended()), "json")
        result = json.loads(out)
        assert (len(result["events"]), len(result["denied"])) == (3, 1)
