"""The scripted model plays what the script says, labelled, and the request alone tells it where it is."""

import asyncio
import subprocess
from collections.abc import Callable, Sequence
from contextlib import aclosing
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_provider, scripted
from bridle.engine.ports import (
    ModelCall,
    ModelDone,
    ModelPart,
    ModelRequest,
    ModelText,
    ModelThinking,
    ModelYield,
)
from bridle.protocol.errors import ProviderError
from bridle.protocol.messages import CANONICAL_FORM_VERSION, Message, ToolUseBlock, Usage
from bridle.providers.script import (
    FailReason,
    Script,
    ScriptAnswer,
    ScriptCall,
    Spend,
    Statement,
    Stop,
    Yield,
    answer,
    call,
    fail,
    find_script,
    parse_script,
    say,
    think,
    wait,
)
from bridle.providers.scripted import ScriptedModel, ScriptedWire
from tables import table


def request(answers: int = 0) -> ModelRequest:
    return ModelRequest(model="any", body=b"{}", step=1, answers=answers, purpose="main")


async def played(model: ScriptedModel, answers: int = 0) -> list[ModelPart]:
    return [part async for part in model.stream(request(answers))]


async def follow(model: ScriptedModel, on_part: Callable[[ModelPart], None]) -> None:
    async for part in model.stream(request()):
        on_part(part)


def text_of(parts: Sequence[ModelPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, ModelText))


async def failure(model: ScriptedModel, answers: int = 0) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        await played(model, answers)
    return raised.value


@pytest.mark.requirement("H2.3", "D6.2")
async def test_an_answer_is_a_stream_of_typed_parts_in_the_order_of_the_script():
    model = scripted(
        (
            think("Hm."),
            say("I will look."),
            call("read_file", path="a.txt", first_line=2),
            call("ls"),
            Yield(),
            Spend(Usage(input_tokens=3, output_tokens=4)),
        )
    )
    assert await played(model) == [
        ModelThinking("Hm."),
        ModelText("[scripted] I will look."),
        ModelCall("read_file", '{"first_line":2,"path":"a.txt"}', "s1_1"),
        ModelCall("ls", "{}", "s1_2"),
        ModelYield(),
        ModelDone("tool_use", Usage(input_tokens=3, output_tokens=4)),
    ]


async def test_the_request_alone_says_which_answer_is_next():
    model = scripted(say("one"), say("two"), say("three"))
    assert text_of(await played(model, 2)) == "[scripted] three"
    assert text_of(await played(model, 0)) == "[scripted] one"
    assert await played(model, 1) == await played(model, 1)


async def test_after_the_last_answer_it_says_so_in_one_labelled_sentence():
    model = ScriptedModel(Script("tour", (answer(say("one")),)), clock=FakeClock())
    for answers in (1, 99):
        assert await played(model, answers) == [
            ModelText("[scripted] The script tour has no answer left for this request."),
            ModelDone("end_turn"),
        ]


async def test_every_answer_with_text_is_labelled_once_and_further_texts_begin_a_line():
    model = scripted((call("ls"), say("a"), call("ls"), say("b")), think("only thought"), say(""))
    assert text_of(await played(model, 0)) == "[scripted] a\nb"
    assert text_of(await played(model, 1)) == ""
    assert text_of(await played(model, 2)) == "[scripted] "


@pytest.mark.requirement("D6.3", "D6.4")
async def test_the_stop_is_tool_use_exactly_when_there_were_calls():
    async def stop(*statements: Statement) -> str:
        done = (await played(scripted(statements)))[-1]
        assert isinstance(done, ModelDone)
        return done.stop

    assert await stop(say("a")) == "end_turn"
    assert await stop(Stop("end_turn")) == "end_turn"
    assert await stop(say("a"), Stop("max_tokens")) == "max_tokens"
    assert await stop(Stop("content_filter")) == "content_filter"
    assert await stop(call("ls")) == "tool_use"
    assert await stop(call("ls"), Stop("max_tokens")) == "tool_use"


@pytest.mark.requirement("D14.2")
async def test_text_without_a_pace_comes_in_few_large_parts_that_add_up():
    text = "x" * 2000
    parts = await played(scripted(say(text)))
    assert text_of(parts) == f"[scripted] {text}"
    assert [len(part.text) for part in parts if isinstance(part, ModelText)] == [512, 512, 512, 475]


async def test_a_chunk_size_holds_without_a_pace_too():
    parts = await played(scripted(say("abcdefg", chunk=9)))
    assert [part.text for part in parts if isinstance(part, ModelText)] == ["[scripted", "] abcdefg"]


async def test_paced_text_takes_its_time_on_the_clock():
    clock = FakeClock()
    model = scripted(say("abcde", pace=10, chunk=4), clock=clock)
    seen: list[ModelPart] = []

    reading = asyncio.create_task(follow(model, seen.append))
    await clock.advance(0.05)
    assert seen == [ModelText("[scr")]
    await clock.advance(0.1)
    assert seen == [ModelText("[scr"), ModelText("ipte")]
    await clock.advance(0.2)
    assert text_of(seen) == "[scripted] abcde"
    await reading
    assert seen[-1] == ModelDone("end_turn")


async def test_a_wait_ends_at_once_when_the_reader_is_cancelled():
    clock = FakeClock()
    model = scripted((say("a"), wait(3600), say("b")), clock=clock)
    reading = asyncio.create_task(played(model))
    await clock.advance(1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert clock.monotonic() == 1


@table(
    ("reason", "expected", "retryable"),
    [
        ("rate_limited", "RateLimited", True),
        ("overloaded", "Overloaded", True),
        ("unreachable", "ProviderUnreachable", True),
        ("bad_credentials", "BadCredentials", False),
        ("garbage", "BadStream", False),
    ],
)
@pytest.mark.requirement("D8.70")
async def test_a_scripted_failure_is_the_error_a_real_provider_raises(
    reason: FailReason, expected: str, retryable: bool
):
    error = await failure(scripted(fail(reason, retry_after_s=2, status=418)))
    assert (error.reason, error.retryable, error.retry_after_s) == (expected, retryable, 2)
    assert "<" not in error.message, "every name in the sentence has a value"


async def test_a_cut_stream_ends_without_done_after_what_it_said():
    assert await played(scripted((say("half"), fail("cut")))) == [ModelText("[scripted] half")]


async def test_failures_come_so_often_and_then_the_answer_goes_on():
    model = scripted(
        (fail("overloaded", times=2), fail("rate_limited", times=1), say("made it")), fail("unreachable")
    )
    reasons = [(await failure(model)).reason for _ in range(3)]
    assert reasons == ["Overloaded", "Overloaded", "RateLimited"]
    assert text_of(await played(model)) == "[scripted] made it"
    assert [(await failure(model, 1)).reason for _ in range(3)] == ["ProviderUnreachable"] * 3


async def test_a_completed_answer_fails_the_same_way_when_it_is_played_again():
    model = scripted((fail("overloaded", times=1), say("made it")))
    for _ in range(2):
        assert (await failure(model)).reason == "Overloaded"
        assert text_of(await played(model)) == "[scripted] made it"


async def test_other_tasks_run_before_the_first_part():
    ran: list[str] = []
    asyncio.get_running_loop().call_soon(ran.append, "other")
    async with aclosing(scripted(say("a")).stream(request())) as stream:
        await anext(stream)
    assert ran == ["other"]


@pytest.mark.requirement("D6.1", "D6.3", "H2.3")
@table("name", ["hello", "fix-test"])
async def test_the_shipped_scripts_pass_the_check_for_providers(name: str):
    path, text = find_script(name)
    script = parse_script(text.replace("pace 60", "pace 0"), path=path)
    await check_provider(lambda: ScriptedModel(script, clock=FakeClock()))


# The wire


@pytest.mark.requirement("G12.1", "D6.1")
def test_a_request_is_the_canonical_form_as_json():
    wire = ScriptedWire()
    messages = b",".join(wire.message(message) for message in SAMPLE_MESSAGES)
    body = wire.head(SAMPLE_PREFIX) + messages + wire.tail(SAMPLE_PREFIX)
    decoded = msgspec.json.decode(body)
    assert list(decoded) == ["model", "system", "parameters", "tools", "messages"]
    assert decoded["model"] == "any-model"
    assert decoded["parameters"] == {"max_tokens": 100}
    assert [tool["name"] for tool in decoded["tools"]] == ["read_file"]
    assert msgspec.convert(decoded["messages"], tuple[Message, ...]) == SAMPLE_MESSAGES


def test_the_order_in_which_an_input_was_written_does_not_change_its_bytes():
    wire = ScriptedWire()
    one, other = ({"path": "a", "first_line": 1}, {"first_line": 1, "path": "a"})
    assert wire.message(use_of(one)) == wire.message(use_of(other))


def use_of(values: dict[str, object]) -> Message:
    return Message(role="assistant", content=(ToolUseBlock(wire_id="c", tool="read_file", input=values),))


def test_the_wire_targets_the_version_of_the_messages_it_was_written_for():
    assert ScriptedWire.canonical_form_version == CANONICAL_FORM_VERSION == 1


# The shipped scripts


async def test_hello_says_what_it_is_and_that_nothing_left_the_machine():
    path, text = find_script("hello")
    said = text_of(await played(ScriptedModel(parse_script(text, path=path), clock=FakeClock())))
    assert said.startswith("[scripted] This is the scripted model")
    assert "nothing left this machine" in said


def calls_of(played_answer: ScriptAnswer) -> list[ScriptCall]:
    return [statement for statement in played_answer.statements if isinstance(statement, ScriptCall)]


def test_the_demo_script_finds_a_failing_test_and_makes_it_pass(tmp_path: Path):
    path, text = find_script("fix-test")
    calls = [calls_of(one) for one in parse_script(text, path=path).answers]
    assert [[one.tool for one in several] for several in calls] == [
        ["read_file", "read_file"],
        ["bash"],
        ["write_file"],
        ["bash"],
        [],
    ]
    for name in ("cart.py", "test_cart.py"):
        content = files("bridle.providers").joinpath("scripts", "fix-test", f"{name}.txt").read_bytes()
        (tmp_path / name).write_bytes(content)

    def run(one: ScriptCall) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            one.input["command"], shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=30
        )

    assert [one.input for one in calls[0]] == [{"path": "cart.py"}, {"path": "test_cart.py"}]
    before = run(calls[1][0])
    assert before.returncode == 1
    assert "AssertionError: 1250 != 1600" in before.stderr
    fix = calls[2][0].input
    (tmp_path / fix["path"]).write_text(fix["content"], encoding="utf-8")
    after = run(calls[3][0])
    assert after.returncode == 0, after.stderr
    assert "Ran 2 tests" in after.stderr
