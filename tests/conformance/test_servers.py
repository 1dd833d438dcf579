"""The scripted model server: what it says is what a vendor would say, and what it refuses a vendor would refuse."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.base.net.sse import SseFrameBuffer
from bridle.conformance.servers import ModelServer
from bridle.protocol.messages import Usage
from bridle.providers.script import Script, ScriptAnswer, Spend, Stop, answer, call, fail, say, think, wait

USER = {"role": "user", "content": "Hi."}


@pytest.fixture
async def http() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={}, clock=SystemClock())
    yield made
    await made.close()


async def ask(
    http: HttpConnections, server: ModelServer, *messages: dict[str, Any], **more: Any
) -> tuple[int, bytes]:
    body = json.dumps({"model": "m", "messages": messages or (USER,), **more}).encode()
    async with await http.post_stream(f"{server.url}/chat/completions", headers={}, body=body) as response:
        return response.status, await response.read(1_000_000)


def frames(body: bytes) -> list[Any]:
    return [json.loads(frame.data) for frame in SseFrameBuffer().feed(body) if frame.data != "[DONE]"]


async def test_a_stream_has_the_form_of_the_protocol(http: HttpConnections) -> None:
    usage = Usage(input_tokens=5, output_tokens=3, cache_read_tokens=2)
    script = answer(say("Hello.", chunk=3), call("bash", command="ls"), Spend(usage))
    async with ModelServer.playing(script) as server:
        status, body = await ask(http, server, stream=True, stream_options={"include_usage": True})
    assert (status, body.endswith(b"data: [DONE]\n\n")) == (200, True)
    *chunks, last = frames(body)
    assert {chunk["object"] for chunk in (*chunks, last)} == {"chat.completion.chunk"}
    assert [chunk["choices"][0]["delta"] for chunk in chunks[:3]] == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo."},
    ]
    calls = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in chunks[3:-1]]
    assert calls[0] == {
        "id": "call_1_1",
        "type": "function",
        "index": 0,
        "function": {"name": "bash", "arguments": ""},
    }
    assert "".join(one["function"]["arguments"] for one in calls) == '{"command":"ls"}'
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 7
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] == 2


async def test_without_streaming_the_answer_is_one_object(http: HttpConnections) -> None:
    async with ModelServer.playing(answer(think("Hm."), say("Hello."), Stop("max_tokens"))) as server:
        status, body = await ask(http, server)
    told = json.loads(body)
    assert (status, told["object"]) == (200, "chat.completion")
    message = {"role": "assistant", "content": "Hello.", "reasoning_content": "Hm."}
    assert told["choices"] == [{"index": 0, "message": message, "finish_reason": "length"}]


async def test_the_answers_so_far_choose_the_next_one(http: HttpConnections) -> None:
    said = {"role": "assistant", "content": "One."}
    async with ModelServer.playing(say("One."), say("Two.")) as server:
        for messages, expected in (([USER], "One."), ([USER, said, USER], "Two.")):
            _, body = await ask(http, server, *messages)
            assert json.loads(body)["choices"][0]["message"]["content"] == expected
        _, body = await ask(http, server, USER, said, USER, said, USER)
        assert "no answer left" in json.loads(body)["choices"][0]["message"]["content"]


CALLING = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "x"}}]}


@pytest.mark.parametrize(
    "messages",
    [
        [USER, CALLING, USER],
        [USER, CALLING, {"role": "tool", "tool_call_id": "b", "content": ""}],
        [USER, {"role": "tool", "tool_call_id": "a", "content": ""}],
        [{"role": "wizard", "content": ""}],
        [{"role": "assistant", "content": None}],
        [1],
    ],
)
async def test_what_a_vendor_would_refuse_is_refused(http: HttpConnections, messages: list[Any]) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        status, body = await ask(http, server, *messages)
        assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        good = (USER, CALLING, {"role": "tool", "tool_call_id": "a", "content": ""})
        assert (await ask(http, server, *good))[0] == 200
        assert (await ask(http, server, stream_options={}))[0] == 400


@pytest.mark.parametrize(
    ("reason", "status"), [("rate_limited", 429), ("overloaded", 503), ("bad_credentials", 401)]
)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_before_the_first_word_is_a_status(
    http: HttpConnections, reason: Any, status: int, stream: bool
) -> None:
    async with ModelServer.playing(answer(fail(reason, times=1), say("Hi."))) as server:
        refused, body = await ask(http, server, stream=stream)
        assert (refused, "error" in json.loads(body)) == (status, True)
        assert (await ask(http, server, stream=stream))[0] == 200


class NoWaiting(SystemClock):
    """Notes how long it should have waited."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


async def test_a_pace_is_kept_by_the_servers_clock(http: HttpConnections) -> None:
    clock = NoWaiting()
    script = Script("test", (ScriptAnswer((say("abc", chunk=1, pace=2), wait(3))),))
    async with ModelServer(script, clock=clock) as server:
        status, body = await ask(http, server, stream=True)
    assert (status, clock.waited) == (200, [0.5, 0.5, 3])
    assert [chunk["choices"][0]["delta"].get("content") for chunk in frames(body)] == [
        "",
        "a",
        "b",
        "c",
        None,
    ]


async def test_every_request_is_kept(http: HttpConnections) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        await ask(http, server)
        listed = await http.get(f"{server.url}/models", headers={"X-Odd": "1"}, limit_bytes=10_000)
        missing = await http.get(f"{server.url}/nothing", headers={}, limit_bytes=10_000)
        assert [model["id"] for model in json.loads(listed.body)["data"]] == [
            "scripted-large",
            "scripted-small",
        ]
        assert missing.status == 404
        assert [(one.method, one.path) for one in server.requests] == [
            ("POST", "/v1/chat/completions"),
            ("GET", "/v1/models"),
            ("GET", "/v1/nothing"),
        ]
        assert server.requests[1].headers["x-odd"] == "1"
        assert server.chats == server.requests[:1]
