"""Our chat wire against aimock, a foreign model server, and our model server against it."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.base.net.sse import SseFrameBuffer
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.conformance.servers import ModelServer
from bridle.engine.ports import ModelRequest
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import PrefixSet, TextDelta
from bridle.protocol.messages import Message, TextBlock
from bridle.providers.endpoints import Endpoint
from bridle.providers.remote import RemoteModel
from bridle.providers.script import call, say
from peers.peer_kit import running

PROGRAM = "node_modules/@copilotkit/aimock/dist/cli.js"

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module", params=["1", "20"], ids=["by-letter", "by-word"])
def origin(request: pytest.FixtureRequest) -> Iterator[str]:
    """A running aimock. By letter means by UTF-16 unit: it cuts characters in two."""
    options = ("-p", "0", "-f", "aimock", "--chunk-size", request.param, "--strict")
    with running(PROGRAM, *options, package="@copilotkit/aimock") as address:
        yield address


@pytest.fixture
async def http() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={}, clock=SystemClock())
    yield made
    await made.close()


def provider(origin: str, http: HttpConnections, *, streaming: bool = True) -> RemoteModel:
    endpoint = Endpoint(name="aimock", base_url=f"{origin}/v1", local=True, placeholder_key="none")
    return RemoteModel(endpoint, lambda: None, http, streaming=streaming)


@pytest.mark.requirement("T6.2")
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_whole_turn_with_two_calls(origin: str, http: HttpConnections, streaming: bool) -> None:
    async with harness(provider(origin, http, streaming=streaming), yes=True) as session:
        events = await session.ask("look around")
    assert outcomes(events) == ["ok", "ok"]
    text = "".join(event.text for event in of_kind(events, TextDelta))
    assert text == "It says hi and ho. 😀 漢字"


async def test_it_reads_what_we_send(origin: str, http: HttpConnections) -> None:
    async with harness(provider(origin, http), yes=True) as session:
        await session.ask("look around")
    kept = await http.get(f"{origin}/v1/_requests", headers={}, limit_bytes=10_000_000)
    messages = json.loads(kept.body)[-1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool"]
    asked = [one["id"] for one in messages[2]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages[3:]] == asked


@pytest.mark.parametrize(
    ("prompt", "reason", "retryable"),
    [
        ("be refused", "RateLimited", True),
        ("be locked out", "BadCredentials", False),
        ("be overloaded", "Overloaded", True),
    ],
)
async def test_its_refusals_have_our_reasons(
    origin: str, http: HttpConnections, prompt: str, reason: str, retryable: bool
) -> None:
    asked = provider(origin, http)
    prefix = PrefixSet(provider="aimock", model="m", system="")
    message = Message(role="user", content=(TextBlock(text=prompt),))
    body = asked.wire.head(prefix) + asked.wire.message(message) + asked.wire.tail(prefix)
    with pytest.raises(ProviderError) as raised:
        async for _part in asked.stream(
            ModelRequest(model="m", body=body, step=1, answers=0, purpose="main")
        ):
            pass
    assert (raised.value.reason, raised.value.retryable) == (reason, retryable)


# Our own server beside it


async def told(http: HttpConnections, base: str, prompt: str, *, stream: bool) -> list[Any]:
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    body = json.dumps(asked).encode()
    async with await http.post_stream(f"{base}/v1/chat/completions", headers={}, body=body) as response:
        assert response.status == 200
        raw = await response.read(1_000_000)
    if not stream:
        return [json.loads(raw)]
    frames = [frame.data for frame in SseFrameBuffer().feed(raw)]
    assert frames.pop() == "[DONE]"
    return [json.loads(frame) for frame in frames]


def story(chunks: list[Any]) -> list[Any]:
    """A stream as what happens in it: which fields come in which order, neighbours alike told once."""
    happened: list[Any] = []
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        if not chunk["choices"]:
            step: Any = (
                "usage",
                {"prompt_tokens", "completion_tokens", "total_tokens"} <= chunk["usage"].keys(),
            )
        else:
            choice = chunk["choices"][0]
            delta = {name for name, value in choice["delta"].items() if value}
            step = (sorted(delta), choice["finish_reason"])
        if happened[-1:] != [step]:
            happened.append(step)
    return happened


@pytest.mark.parametrize("prompt", ["say hello", "use a tool"])
async def test_our_server_streams_what_it_streams(origin: str, http: HttpConnections, prompt: str) -> None:
    answer = say("Hello there.", chunk=2) if prompt == "say hello" else call("bash", command="ls")
    async with ModelServer.playing(answer) as server:
        ours = await told(http, server.origin, prompt, stream=True)
    theirs = await told(http, origin, prompt, stream=True)
    assert story(ours) == story(theirs)


def form(value: Any) -> Any:
    """A value as its form: names and kinds, without what varies from answer to answer."""
    if isinstance(value, dict):
        return {name: form(one) for name, one in value.items()}
    return [form(one) for one in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("prompt", ["say hello", "use a tool"])
async def test_our_whole_answer_has_the_form_of_its(origin: str, http: HttpConnections, prompt: str) -> None:
    answer = say("Hello there.") if prompt == "say hello" else call("bash", command="ls")
    async with ModelServer.playing(answer) as server:
        (ours,) = await told(http, server.origin, prompt, stream=False)
    (theirs,) = await told(http, origin, prompt, stream=False)
    (our_choice,), (their_choice,) = ours["choices"], theirs["choices"]
    assert our_choice["finish_reason"] == their_choice["finish_reason"]
    message = form(our_choice["message"])
    assert {name: one for name, one in form(their_choice["message"]).items() if name in message} == message
    assert ours["usage"].keys() >= theirs["usage"].keys()
