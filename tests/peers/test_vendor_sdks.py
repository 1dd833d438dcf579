"""The vendors' own SDKs as readers: they understand our scripted server, and their types fit what our wires send.

They are packages of PyPI that Bridle does not use (requirements/peers.txt): without them these tests are skipped.
"""

import importlib
from typing import Any

import msgspec
import pytest

from bridle.conformance.fake_models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_wire
from bridle.conformance.openai_view import to_openai
from bridle.conformance.responses_view import to_responses
from bridle.conformance.servers import ModelServer
from bridle.protocol.messages import Parameters, Usage
from bridle.providers.anthropic import AnthropicWire
from bridle.providers.openai_chat import ChatWire
from bridle.providers.openai_responses import ResponsesWire
from bridle.providers.script import Spend, answer, call, fail, say, think

pytestmark = pytest.mark.peers

USAGE = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2)
SCRIPT = answer(
    think("Let me see.", chunk=4), say("I look.", chunk=3), call("bash", command="ls"), Spend(USAGE)
)
ASKED = {"role": "user", "content": "Look."}


def sdk(name: str) -> Any:
    return pytest.importorskip(name, reason=f"needs the package {name}: run make test-peers")


@pytest.fixture
def openai() -> Any:
    return sdk("openai")


@pytest.fixture
def anthropic() -> Any:
    return sdk("anthropic")


def client(made: Any, base_url: str) -> Any:
    return made(api_key="none", base_url=base_url, max_retries=0, _strict_response_validation=True)


@pytest.mark.parametrize("stream", [True, False])
async def test_anthropic_reads_our_messages(anthropic: Any, stream: bool) -> None:
    asked: Any = {"model": "m", "max_tokens": 100, "messages": [ASKED]}
    async with (
        ModelServer.playing(SCRIPT) as server,
        client(anthropic.AsyncAnthropic, server.origin) as reader,
    ):
        if stream:
            async with reader.messages.stream(**asked) as told:
                kinds = [event.type async for event in told]
                message = await told.get_final_message()
            assert kinds[0] == "message_start"
            assert kinds[-1] == "message_stop"
        else:
            message = await reader.messages.create(**asked)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.content[0].thinking == "Let me see."
    assert message.content[0].signature
    assert message.content[2].input == {"command": "ls"}
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 5)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (3, 2)


@pytest.mark.parametrize("stream", [True, False])
async def test_openai_reads_our_responses(openai: Any, stream: bool) -> None:
    asked: Any = {"model": "m", "input": [ASKED], "store": False}
    async with ModelServer.playing(SCRIPT) as server, client(openai.AsyncOpenAI, server.url) as reader:
        if stream:
            async with reader.responses.stream(**asked) as told:
                events = [event async for event in told]
                response = await told.get_final_response()
            assert [event.sequence_number for event in events] == list(range(len(events)))
        else:
            response = await reader.responses.create(**asked)
    reasoning, message, function = response.output
    assert (reasoning.summary[0].text, bool(reasoning.encrypted_content)) == ("Let me see.", True)
    assert response.output_text == message.content[0].text == "I look."
    assert (function.name, function.arguments) == ("bash", '{"command":"ls"}')
    assert (response.status, response.usage.input_tokens, response.usage.output_tokens) == (
        "completed",
        15,
        5,
    )
    assert response.usage.input_tokens_details.cached_tokens == 3


async def test_openai_reads_our_chat(openai: Any) -> None:
    asked: Any = {"model": "m", "messages": [ASKED], "stream_options": {"include_usage": True}}
    async with (
        ModelServer.playing(SCRIPT) as server,
        client(openai.AsyncOpenAI, server.url) as reader,
        reader.chat.completions.stream(**asked) as told,
    ):
        async for _event in told:
            pass
        completion = await told.get_final_completion()
    choice = completion.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")
    assert choice.message.tool_calls[0].function.arguments == '{"command":"ls"}'
    assert completion.usage.prompt_tokens == 15


async def test_they_know_our_errors(openai: Any, anthropic: Any) -> None:
    for made, ask in (
        (openai.AsyncOpenAI, lambda it: it.responses.create(model="m", input=[ASKED], store=False)),
        (
            anthropic.AsyncAnthropic,
            lambda it: it.messages.create(model="m", max_tokens=9, messages=[ASKED]),
        ),
    ):
        module = openai if made is openai.AsyncOpenAI else anthropic
        async with ModelServer.playing(fail("rate_limited", retry_after_s=7)) as server:
            base = server.url if module is openai else server.origin
            async with client(made, base) as reader:
                with pytest.raises(module.RateLimitError) as raised:
                    await ask(reader)
        assert raised.value.response.headers["retry-after"] == "7"


WIRES = [
    pytest.param(ChatWire(), "openai.types.chat.completion_create_params", id="chat"),
    pytest.param(ResponsesWire(family="f"), "openai.types.responses.response_create_params", id="responses"),
    pytest.param(AnthropicWire(family="f"), "anthropic.types.message_create_params", id="messages"),
]
NAMES = {
    "chat": "CompletionCreateParamsStreaming",
    "responses": "ResponseCreateParamsStreaming",
    "messages": "MessageCreateParamsStreaming",
}


@pytest.mark.parametrize(("wire", "module"), WIRES)
def test_their_types_fit_what_we_send(wire: Any, module: str, request: pytest.FixtureRequest) -> None:
    sdk(module.partition(".")[0])
    pydantic: Any = sdk("pydantic")
    asked = getattr(importlib.import_module(module), NAMES[request.node.callspec.id])
    prefix = msgspec.structs.replace(SAMPLE_PREFIX, parameters=Parameters(max_tokens=9000, effort="high"))
    body = msgspec.json.decode(check_wire(wire, prefix, SAMPLE_MESSAGES))
    assert body.keys() <= asked.__annotations__.keys() | _inherited(asked)
    pydantic.TypeAdapter(asked).validate_python(body)


@pytest.mark.parametrize(
    ("view", "module", "name"),
    [
        (to_openai, "openai.types.chat.chat_completion_message_param", "ChatCompletionMessageParam"),
        (to_responses, "openai.types.responses.response_input_item_param", "ResponseInputItemParam"),
    ],
)
def test_its_types_fit_our_views(openai: Any, view: Any, module: str, name: str) -> None:
    shape = getattr(importlib.import_module(module), name)
    pydantic: Any = sdk("pydantic")
    pydantic.TypeAdapter(list[shape]).validate_python(view(SAMPLE_MESSAGES, system="Be brief."))


def _inherited(typed_dict: Any) -> set[str]:
    return {name for base in typed_dict.__orig_bases__ for name in getattr(base, "__annotations__", ())}
