"""An endpoint over real sockets, on every wire: requests, answers, refusals and all that can break on the way."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import groupby
from typing import Any

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections, Timeouts
from bridle.conformance.fake_models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_provider, check_wire
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.conformance.servers import JsonServer, ModelServer, ServerFault
from bridle.engine.ports import ModelAlive, ModelCall, ModelDone, ModelPart, ModelRequest, ModelText
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import StepEnded, StepFailed, TurnEnded
from bridle.protocol.messages import Message, TextBlock, Usage
from bridle.providers.endpoints import Auth, Endpoint, WireName
from bridle.providers.presets import preset
from bridle.providers.remote import RemoteModel
from bridle.providers.script import FailReason, Spend, Stop, answer, call, fail, say, think
from providers.wire_kit import WIRES, Unhurried

KEY = "sk-" + "test" + "0123456789abcdef"
IMPATIENT = Timeouts(connect_s=5, write_s=5, first_byte_s=0.2, idle_s=0.2)

Connect = Callable[..., RemoteModel]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A provider for a server; its connections are closed after the test."""
    connections = HttpConnections(env={}, clock=SystemClock())

    def connected(
        base_url: str, *, key: str | None = KEY, streaming: bool = True, **more: Any
    ) -> RemoteModel:
        timeouts = more.pop("timeouts", Timeouts())
        endpoint = Endpoint(name="work", base_url=base_url, key_env="WORK_API_KEY", **more)
        return RemoteModel(endpoint, lambda: key, connections, streaming=streaming, timeouts=timeouts)

    yield connected
    await connections.close()


def request(provider: RemoteModel, *, model: str = "any-model") -> ModelRequest:
    wire = provider.wire
    body = check_wire(wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:1])
    return ModelRequest(model=model, body=body, step=1, answers=0, purpose="main")


async def parts(provider: RemoteModel, **more: Any) -> list[ModelPart]:
    """The answer without its signs of life."""
    return [
        part async for part in provider.stream(request(provider, **more)) if not isinstance(part, ModelAlive)
    ]


async def failure(provider: RemoteModel, **more: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        await parts(provider, **more)
    return raised.value


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("streaming", [True, False])
async def test_it_keeps_the_contract_of_a_provider(connect: Connect, wire: WireName, streaming: bool) -> None:
    script = answer(think("Hm."), say("Hello.", chunk=2), call("bash", command="ls"))
    async with ModelServer.playing(script) as server:
        await check_provider(lambda: connect(server.url, wire=wire, streaming=streaming))


@pytest.mark.parametrize("streaming", [True, False])
async def test_streamed_or_not_an_answer_is_the_same(connect: Connect, streaming: bool) -> None:
    usage = Usage(input_tokens=5, output_tokens=3, cache_read_tokens=2)
    script = answer(say("Hello."), call("bash", command="ls"), call("bash", command="pwd"), Spend(usage))
    async with ModelServer.playing(script) as server:
        assert await parts(connect(server.url, streaming=streaming)) == [
            ModelText("Hello."),
            ModelCall("bash", '{"command":"ls"}', "call_1_1"),
            ModelCall("bash", '{"command":"pwd"}', "call_1_2"),
            ModelDone("tool_use", usage),
        ]
        assert ("stream" in server.chats[0].json) == streaming
        assert ("stream_options" in server.chats[0].json) == streaming


@pytest.mark.requirement("D8.3", "D8.5")
async def test_the_key_travels_in_the_header_of_the_endpoint(connect: Connect) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        await parts(connect(server.url))
        await parts(connect(server.url, auth=Auth("x-gateway-key"), headers={"X-Team": "blue"}))
        await parts(connect(server.url, key=None, local=True, placeholder_key="none-needed"))
        bearer, own, local = (chat.headers for chat in server.chats)
    assert bearer["authorization"] == f"Bearer {KEY}"
    assert (own["x-gateway-key"], own["x-team"], own.get("authorization")) == (KEY, "blue", None)
    assert local["authorization"] == "Bearer none-needed"


async def test_one_connection_serves_many_requests(connect: Connect) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        provider = connect(server.url)
        for _ in range(5):
            await parts(provider)
        assert (server.connections, len(server.chats)) == (1, 5)


async def test_every_read_gives_a_sign_of_life(connect: Connect) -> None:
    """A long call says nothing until it is whole; whoever watches for silence must not end it."""
    async with ModelServer.playing(call("write_file", path="a", content="x" * 2_000_000)) as server:
        provider = connect(server.url)
        given = [part async for part in provider.stream(request(provider))]
    assert given.count(ModelAlive(grown=True)) >= 2
    assert [type(part) for part in given[-2:]] == [ModelCall, ModelDone]


@pytest.mark.requirement("D8.17")
async def test_a_withheld_answer_ends_as_content_filter_and_nobody_else_is_asked(connect: Connect) -> None:
    filtered = {"error": {"message": "Filtered.", "code": "content_filter", "status": 400}}
    async with JsonServer({"POST /v1/chat/completions": filtered}) as server:
        assert await parts(connect(f"{server.origin}/v1")) == [ModelDone("content_filter")]
    async with ModelServer.playing(answer(say("I will"), Stop("content_filter"))) as server:
        async with harness(connect(server.url)) as session:
            events = await session.ask("do it")
        assert of_kind(events, TurnEnded)[0].reason == "ContentFiltered"
        assert len(server.chats) == 1


# Refusals


@pytest.mark.requirement("T6.4")
async def test_a_refused_key_is_named_by_its_place_and_never_by_its_value(connect: Connect) -> None:
    async with ModelServer.playing(fail("bad_credentials")) as server:
        error = await failure(connect(server.url))
    assert (error.reason, error.retryable, error.exit_code) == ("BadCredentials", False, 4)
    assert error.data["source"] == "WORK_API_KEY"
    assert KEY not in f"{error} {error.data} {error.__cause__} {error.__context__}"


async def test_a_rate_limit_says_how_long_to_wait(connect: Connect) -> None:
    async with ModelServer.playing(fail("rate_limited", retry_after_s=7)) as server:
        error = await failure(connect(server.url))
    assert (error.reason, error.retryable, error.retry_after_s) == ("RateLimited", True, 7)


async def test_an_overloaded_server_may_be_asked_again(connect: Connect) -> None:
    async with ModelServer.playing(fail("overloaded", status=500)) as server:
        error = await failure(connect(server.url))
    assert (error.reason, error.retryable, error.data["status"]) == ("Overloaded", True, 500)


async def test_an_error_after_the_first_words_ends_the_answer(connect: Connect) -> None:
    async with ModelServer.playing(answer(say("Hel"), fail("overloaded"))) as server:
        error = await failure(connect(server.url))
    assert (error.reason, error.retryable) == ("Overloaded", True)


async def test_an_unknown_model_comes_with_names_that_look_like_it(connect: Connect) -> None:
    listing = {"data": [{"id": "gpt-5"}, {"id": "gpt-5-mini"}, {"id": "whisper"}]}
    missing = {"error": {"message": "The model does not exist", "code": "model_not_found"}}
    answers = {"POST /v1/chat/completions": missing, "GET /v1/models": listing}
    async with JsonServer(answers, status={"POST /v1/chat/completions": 404}) as server:
        error = await failure(connect(f"{server.origin}/v1"), model="gtp-5")
    assert (error.reason, error.retryable) == ("UnknownModel", False)
    assert error.message == ('work has no model "gtp-5". Close: gpt-5, gpt-5-mini.  All: bridle models work')


async def test_an_unknown_model_is_told_even_where_nothing_is_listed(connect: Connect) -> None:
    missing = {"error": {"message": "The model does not exist", "code": "model_not_found"}}
    answers = {"POST /v1/chat/completions": missing}
    async with JsonServer(answers, status={"POST /v1/chat/completions": 404}) as server:
        error = await failure(connect(f"{server.origin}/v1"), model="gtp-5")
    assert error.message == 'work has no model "gtp-5".  All: bridle models work'


@pytest.mark.parametrize(("key", "reason"), [(None, "NoKey"), ("  ", "NoKey"), ("a\r\nb: c", "UnusableKey")])
async def test_without_a_usable_key_nothing_is_sent(connect: Connect, key: str | None, reason: str) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        error = await failure(connect(server.url, key=key))
        assert server.connections == 0
    assert (error.reason, error.retryable) == (reason, False)
    assert "WORK_API_KEY" in error.message
    assert "b: c" not in f"{error} {error.data}"


# What breaks on the way

PAGE = "it is a web page; check base_url"
REDIRECTED = "it redirects to another address; check base_url"
FAULTS: list[tuple[ServerFault, str, bool, str | None]] = [
    ("page", "BadStream", False, PAGE),
    ("error_page", "Overloaded", True, "it sent a web page"),
    ("wrong_type", "BadStream", False, "it is a file and not an answer; check base_url"),
    ("garbage", "BadStream", False, "it is not JSON"),
    ("huge_line", "AnswerTooLong", False, None),
    ("not_utf8", "BadStream", False, "it is not UTF-8"),
    ("cut", "BadStream", True, "it ended in the middle"),
    ("half", "BadStream", True, "it ended in the middle"),
    ("empty", "BadStream", False, "it is empty"),
    ("silence", "StreamSilent", True, None),
    ("stalled", "StreamSilent", True, None),
    ("deaf", "StreamSilent", True, None),
    ("as_json", "BadStream", False, "it is not JSON"),
    ("redirect", "ProviderRejected", False, REDIRECTED),
    ("reset", "ProviderUnreachable", True, None),
]
SILENT: tuple[ServerFault, ...] = ("silence", "stalled", "deaf")


@pytest.mark.requirement("D8.70", "T6.4")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("fault", "reason", "retryable", "problem"), FAULTS, ids=[one[0] for one in FAULTS])
async def test_every_way_to_break_has_a_reason(
    connect: Connect, wire: WireName, fault: ServerFault, reason: str, retryable: bool, problem: str | None
) -> None:
    timeouts = IMPATIENT if fault in SILENT else Timeouts()
    async with ModelServer.playing(say("Hi."), faults=[fault]) as server:
        error = await failure(connect(server.url, wire=wire, timeouts=timeouts))
        assert (error.reason, error.retryable) == (reason, retryable)
        if problem is not None:
            assert error.data["problem"] == problem
        assert await parts(connect(server.url, wire=wire)) == [ModelText("Hi."), ModelDone("end_turn")]
        assert len(server.chats) == 2, "a redirect is not followed, and nothing is sent twice"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "reason", "retryable"), [one[:3] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
async def test_nothing_of_a_broken_answer_is_kept(
    connect: Connect, wire: WireName, fault: ServerFault, reason: str, retryable: bool
) -> None:
    timeouts = IMPATIENT if fault in SILENT else Timeouts()
    async with ModelServer.playing(say("Hi."), faults=[fault]) as server:
        provider = connect(server.url, wire=wire, timeouts=timeouts)
        async with harness(provider, clock=Unhurried()) as session:
            events = await session.ask("hello")
            kept = [message for message in session.conversation.messages if message.role == "assistant"]
    # What was cut off is no failed attempt: its text would stay, and here it had none.
    failed = [] if reason == "AnswerTooLong" else [reason]
    assert [event.reason for event in of_kind(events, StepFailed)] == failed
    answer_kept = Message(role="assistant", content=(TextBlock(text="Hi."),))
    assert kept == ([answer_kept] if retryable else [])
    ended = of_kind(events, TurnEnded)[0]
    assert (ended.stop, ended.reason) == (("end_turn", None) if retryable else ("error", reason))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("given", "status", "wait_s", "reason", "retryable"),
    [
        ("rate_limited", 429, 7, "RateLimited", True),
        ("rate_limited", 429, None, "RateLimited", True),
        ("overloaded", 500, None, "Overloaded", True),
        ("overloaded", 502, None, "Overloaded", True),
        ("overloaded", 503, 2.5, "Overloaded", True),
        ("overloaded", 504, None, "Overloaded", True),
        ("overloaded", 529, None, "Overloaded", True),
        ("bad_credentials", 401, None, "BadCredentials", False),
    ],
)
async def test_a_refusal_has_its_reason_on_every_wire(
    connect: Connect,
    wire: WireName,
    given: FailReason,
    status: int,
    wait_s: float | None,
    reason: str,
    retryable: bool,
) -> None:
    async with ModelServer.playing(fail(given, status=status, retry_after_s=wait_s)) as server:
        error = await failure(connect(server.url, wire=wire))
    assert (error.reason, error.retryable, error.retry_after_s) == (reason, retryable, wait_s)
    assert error.data["status"] == status


@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_inside_an_answer_has_its_reason_on_every_wire(
    connect: Connect, wire: WireName
) -> None:
    for given, reason, retryable in (
        ("rate_limited", "RateLimited", True),
        ("overloaded", "Overloaded", True),
        ("bad_credentials", "BadCredentials", False),
        ("garbage", "BadStream", False),
        ("cut", "BadStream", True),
    ):
        async with ModelServer.playing(answer(say("Hel"), fail(given))) as server:
            error = await failure(connect(server.url, wire=wire))
        assert (error.reason, error.retryable) == (reason, retryable)


def whole_answers(wire: WireName) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Path, an answer with three calls of which two share an id and one has none, and an answer in words."""
    if wire == "openai_chat":
        function = {"name": "todo", "arguments": '{"items": []}'}
        calls = [{"id": one, "type": "function", "function": function} for one in ("same", "same", "")]
        return (
            "/v1/chat/completions",
            {"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]},
            {"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]},
        )
    if wire == "anthropic":
        uses = [
            {"type": "tool_use", "id": one, "name": "todo", "input": {"items": []}}
            for one in ("same", "same", "")
        ]
        text = {"type": "text", "text": "Done."}
        return (
            "/v1/messages",
            {"type": "message", "content": uses, "stop_reason": "tool_use"},
            {"type": "message", "content": [text], "stop_reason": "end_turn"},
        )
    made = [
        {"type": "function_call", "call_id": one, "name": "todo", "arguments": '{"items": []}'}
        for one in ("same", "same", "")
    ]
    said = {"type": "message", "content": [{"type": "output_text", "text": "Done."}]}
    return (
        "/v1/responses",
        {"object": "response", "status": "completed", "output": made},
        {"object": "response", "status": "completed", "output": [said]},
    )


@pytest.mark.parametrize("wire", WIRES)
async def test_calls_whose_ids_repeat_or_are_missing_get_ids_of_their_own(
    connect: Connect, wire: WireName
) -> None:
    path, calling, done = whole_answers(wire)
    given = [calling, done]
    async with JsonServer({f"POST {path}": lambda _request: given.pop(0)}) as server:
        async with harness(connect(f"{server.origin}/v1", wire=wire), yes=True) as session:
            events = await session.ask("go")
        second = server.requests[-1].body
    assert [call.wire_id for call in of_kind(events, StepEnded)[0].calls] == ["same", "c1_1", "c1_2"]
    assert len(outcomes(events)) == 3
    assert all(second.count(name) >= 2 for name in (b'"same"', b'"c1_1"', b'"c1_2"'))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("fault", "ids"), [("same_ids", ["same", "c1_1", "c1_2"]), ("no_ids", ["c1_0", "c1_1", "c1_2"])]
)
async def test_an_answer_whose_calls_are_misnamed_is_carried_out(
    connect: Connect, wire: WireName, streaming: bool, fault: ServerFault, ids: list[str]
) -> None:
    """The server refuses a request in which a call has no result or no name of its own."""
    calls = [call("ls", path=path) for path in (".", "..", "nowhere")]
    async with ModelServer.playing(answer(*calls), say("Done."), faults=[fault]) as server:
        async with harness(connect(server.url, wire=wire, streaming=streaming), mode="yolo") as session:
            events = await session.ask("go")
        assert len(server.chats) == 2
    made = of_kind(events, StepEnded)[0].calls
    assert [(one.wire_id, one.input) for one in made] == [
        (name, given.input) for name, given in zip(ids, calls, strict=True)
    ]
    assert len(outcomes(events)) == 3
    assert of_kind(events, TurnEnded)[0].stop == "end_turn"


@pytest.mark.parametrize("wire", WIRES)
async def test_closing_a_stream_closes_the_socket_at_once(connect: Connect, wire: WireName) -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n")
        await writer.drain()
        while await reader.read(65536):
            pass
        gone.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        provider = connect(f"http://{host}:{port}/v1", wire=wire)
        stream = provider.stream(request(provider))
        await anext(stream)
        await asyncio.wait_for(stream.aclose(), 1)
        await asyncio.wait_for(gone.wait(), 1)


async def test_a_port_where_nobody_listens_is_unreachable(connect: Connect) -> None:
    async with ModelServer.playing() as server:
        url = server.url
    error = await failure(connect(url))
    assert (error.reason, error.exit_code) == ("ProviderUnreachable", 5)
    assert error.data["address"] == url.removesuffix("/v1")


async def test_a_server_that_dies_in_the_middle_leaves_no_answer(connect: Connect) -> None:
    async with ModelServer.playing(answer(say("half"), call("bash", command="ls"), fail("cut"))) as server:
        error = await failure(connect(server.url))
    assert (error.reason, error.retryable) == ("BadStream", True)


async def test_closing_a_stream_ends_the_request_at_once(connect: Connect) -> None:
    async with ModelServer.playing(answer(say("one", pace=1, chunk=1))) as server:
        provider = connect(server.url)
        stream = provider.stream(request(provider))
        await anext(stream)
        await asyncio.wait_for(stream.aclose(), 1)
        assert asyncio.all_tasks() == {asyncio.current_task(), *server.conversations}


# Listings


async def test_a_listing_tells_names_context_and_prices(connect: Connect) -> None:
    rows = [
        {"id": "a/b", "context_length": 128000, "pricing": {"prompt": "0.0000025", "completion": "0.00001"}},
        {"id": "models/gemini-x"},
        {"id": "free", "pricing": {"prompt": "0", "completion": "-1"}},
        {"no": "id"},
    ]
    async with JsonServer({"GET /v1/models": {"data": rows}}) as server:
        first, second, third = await connect(f"{server.origin}/v1").models()
    assert (first.name, first.context_tokens) == ("a/b", 128000)
    assert (first.price_in, first.price_out) == (2.5, 10)
    assert (second.name, second.context_tokens, second.price_in) == ("gemini-x", None, None)
    assert (third.price_in, third.price_out) == (0, None)


async def test_a_vendor_that_lists_nothing_has_the_models_of_its_preset(connect: Connect) -> None:
    async with JsonServer({}) as server:
        found = await connect(f"{server.origin}/v1", models=("glm-4.6",)).models()
    assert [model.name for model in found] == ["glm-4.6"]


async def test_a_listing_that_is_none_says_so(connect: Connect) -> None:
    async with JsonServer({"GET /v1/models": {"hello": 1}}) as server:
        with pytest.raises(ProviderError) as raised:
            await connect(f"{server.origin}/v1").models()
    assert raised.value.data["problem"] == "it is not a list of models"


# The whole engine over the wire


@pytest.mark.requirement("T6.2", "T15.3", "D14.4")
async def test_a_whole_turn_goes_over_the_wire(connect: Connect) -> None:
    script = (answer(say("I look."), call("bash", command="echo hi")), say("It says hi."))
    async with ModelServer.playing(*script) as server:
        async with harness(connect(server.url), yes=True) as session:
            events = await session.ask("what does it say?")
            stored = await session.stored()
        assert outcomes(events) == ["ok"]
        kinds = [type(event).__name__ for event in events]
        told = [kind for kind in kinds if kind in ("TextDelta", "StepEnded", "ToolCallStarted", "TurnEnded")]
        assert [kind for kind, _ in groupby(told)] == [
            "TextDelta", "StepEnded", "ToolCallStarted", "TextDelta", "StepEnded", "TurnEnded",
        ]  # fmt: skip
        assert not any("data: {" in str(entry.event) for entry in stored), (
            "what came as lines is stored as events"
        )
        first, second = (chat.json["messages"] for chat in server.chats)
    assert second[: len(first)] == first
    call_sent, result = second[len(first) :]
    assert call_sent["tool_calls"][0]["id"] == result["tool_call_id"] == "call_1_1"
    assert json.loads(call_sent["tool_calls"][0]["function"]["arguments"]) == {"command": "echo hi"}
    assert result["content"] == "<untrusted-tool-result>hi\n</untrusted-tool-result>"


@pytest.mark.requirement("D8.72")
async def test_a_refusal_before_the_stream_is_tried_again_and_told(connect: Connect) -> None:
    script = answer(
        fail("rate_limited", times=1, retry_after_s=0),
        fail("overloaded", times=1, retry_after_s=0),
        say("Hi."),
    )
    async with ModelServer.playing(script) as server:
        async with harness(connect(server.url)) as session:
            events = await session.ask("hello")
        assert [failed.reason for failed in of_kind(events, StepFailed)] == ["RateLimited", "Overloaded"]
        assert of_kind(events, TurnEnded)[0].stop == "end_turn"
        assert len({chat.body for chat in server.chats}) == 1, "every attempt sends the same bytes"


async def test_a_local_server_without_the_model_says_what_it_has_and_how_to_get_it() -> None:
    missing = {"error": {"message": 'model "qwen3" not found, try pulling it first', "type": "api_error"}}
    listing = {"data": [{"id": "llama3.1:8b"}, {"id": "qwen3:8b"}]}
    async with JsonServer(
        {"POST /v1/chat/completions": missing, "GET /v1/models": listing},
        status={"POST /v1/chat/completions": 404},
    ) as server:
        known = preset("ollama")
        assert known is not None
        endpoint = msgspec.structs.replace(known, base_url=f"{server.origin}/v1")
        connections = HttpConnections(env={}, clock=SystemClock())
        try:
            error = await failure(RemoteModel(endpoint, lambda: None, connections), model="qwen3")
        finally:
            await connections.close()
    assert error.message == (
        'ollama has no model "qwen3". You have: llama3.1:8b, qwen3:8b. Pull it with: ollama pull qwen3'
        "  All: bridle models ollama"
    )
