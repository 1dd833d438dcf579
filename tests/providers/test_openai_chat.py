"""The chat protocol as a pure pair: golden requests, golden streams, and streams cut anywhere."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.sse import SseFrameBuffer
from bridle.conformance.models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_wire
from bridle.engine.conversation import Conversation
from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelText, ModelThinking
from bridle.engine.request import encode
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message, TextBlock, Usage
from bridle.providers.endpoints import Quirks
from bridle.providers.openai_chat import (
    ChatDecoder,
    ChatFault,
    ChatWire,
    decode_answer,
    vendor_error,
)

GOLDEN = Path(__file__).parent / "golden" / "openai_chat"


def golden(kind: str) -> list[Any]:
    files = sorted(GOLDEN.glob(f"{kind}-*.json"))
    assert files
    return [pytest.param(json.loads(file.read_text()), id=file.stem) for file in files]


def sent(wire: ChatWire, prefix: PrefixSet, messages: tuple[Message, ...]) -> bytes:
    encoded = [wire.message(message) for message in messages]
    body = wire.head(prefix)
    for one in filter(None, encoded):
        body += one if body.endswith(b"[") else b"," + one
    return body + wire.tail(prefix)


def shown(part: ModelPart) -> dict[str, Any]:
    match part:
        case ModelText(text=text):
            return {"text": text}
        case ModelThinking(text=text):
            return {"thinking": text}
        case ModelCall():
            return {"call": [part.tool, part.arguments, part.wire_id]}
        case ModelDone():
            return {"done": part.stop, "usage": msgspec.to_builtins(part.usage)}
        case _:
            raise AssertionError(part)


def joined(parts: list[ModelPart]) -> list[dict[str, Any]]:
    """Neighbouring texts of one kind as one: how often a text was handed on is not what it says."""
    made: list[dict[str, Any]] = []
    for one in map(shown, parts):
        kind = next(iter(one))
        if made and kind in {"text", "thinking"} and kind in made[-1]:
            made[-1][kind] += one[kind]
        else:
            made.append(one)
    return made


def read(chunks: list[bytes]) -> list[ModelPart]:
    frames, decoder = SseFrameBuffer(), ChatDecoder()
    parts: list[ModelPart] = []
    for chunk in chunks:
        parts += decoder.feed(frame.data for frame in frames.feed(chunk))
    return parts + decoder.finish()


def as_stream(frames: list[str]) -> bytes:
    return b"".join(b"data: %b\n\n" % frame.encode() for frame in frames)


# Requests


@pytest.mark.requirement("T6.2", "D8.1", "D8.2", "D6.11")
@pytest.mark.parametrize("case", golden("request"))
def test_a_request_is_the_bytes_of_its_golden_file(case: dict[str, Any]) -> None:
    wire = ChatWire(msgspec.convert(case["quirks"], Quirks), streaming=case["streaming"])
    messages = msgspec.convert(case["messages"], tuple[Message, ...])
    body = sent(wire, msgspec.convert(case["prefix"], PrefixSet), messages)
    assert body == json.dumps(case["sent"], ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("count", range(len(SAMPLE_MESSAGES) + 1))
def test_odd_text_and_every_block_make_a_request_that_is_json(count: int) -> None:
    wire = ChatWire()
    body = check_wire(wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:count])
    messages = json.loads(body)["messages"]
    assert messages[0] == {"role": "system", "content": SAMPLE_PREFIX.system}
    assert [message["role"] for message in messages[1:]] == (
        ["user", "assistant", "tool", "tool", "user", "user"][: [0, 1, 2, 5, 5, 6][count]]
    )


@given(system=st.text(), model=st.text(), texts=st.lists(st.text(min_size=1)))
def test_no_text_is_taken_for_the_marks_of_a_request(system: str, model: str, texts: list[str]) -> None:
    try:
        "".join((system, model, *texts)).encode()
    except UnicodeEncodeError:
        return
    marks = f'{system},"model":"x","messages":[{system}'
    prefix = PrefixSet(provider="p", model=marks + model, system=marks)
    messages = tuple(Message(role="user", content=(TextBlock(text=text),)) for text in texts)
    assert json.loads(sent(ChatWire(), prefix, messages)) == {
        "model": marks + model,
        "messages": [
            {"role": "system", "content": marks},
            *({"role": "user", "content": text} for text in texts),
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_the_engine_builds_the_same_request_step_by_step() -> None:
    conversation = Conversation()
    conversation.prefix = SAMPLE_PREFIX
    conversation.messages = list(SAMPLE_MESSAGES)
    assert encode(conversation, ChatWire()) == sent(ChatWire(), SAMPLE_PREFIX, SAMPLE_MESSAGES)


# Streams


@pytest.mark.requirement("D14.2", "D14.3", "D6.3", "D8.16")
@pytest.mark.parametrize("case", golden("stream"))
def test_a_stream_gives_the_parts_of_its_golden_file(case: dict[str, Any]) -> None:
    assert joined(read([as_stream(case["frames"])])) == case["parts"]


@pytest.mark.requirement("D14.2", "D14.3", "D8.16")
@pytest.mark.parametrize("case", golden("stream"))
def test_a_stream_cut_anywhere_is_the_whole_answer_or_none(case: dict[str, Any]) -> None:
    """Only the price may be missing: it comes after the reason."""
    stream = as_stream(case["frames"])
    whole = case["parts"]
    for cut in range(len(stream)):
        try:
            parts = joined(read([stream[:cut]]))
        except ChatFault as fault:
            assert fault.problem in {"it is empty", "it ended in the middle"}
        else:
            assert parts[:-1] == whole[:-1]
            assert parts[-1]["done"] == whole[-1]["done"]


@pytest.mark.parametrize("case", golden("stream"))
def test_before_its_end_a_stream_gives_only_words(case: dict[str, Any]) -> None:
    frames, decoder = SseFrameBuffer(), ChatDecoder()
    for byte in as_stream(case["frames"]):
        parts = decoder.feed(frame.data for frame in frames.feed(bytes((byte,))))
        assert decoder.is_done or all(isinstance(part, ModelText | ModelThinking) for part in parts)


@given(data=st.data())
@settings(max_examples=100)
def test_how_a_stream_is_read_changes_nothing(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([param.values[0] for param in golden("stream")]))
    stream = as_stream(case["frames"])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=20)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert joined(read(chunks)) == case["parts"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "tool_calls", "function", "index", "id", "usage", "error", "content"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(frames=st.lists(_JSON.map(json.dumps) | st.text(max_size=20), max_size=6), ends=st.booleans())
def test_whatever_a_server_sends_is_an_answer_or_a_fault(frames: list[str], ends: bool) -> None:
    decoder = ChatDecoder()
    try:
        parts = decoder.feed([*frames, "[DONE]"] if ends else frames)
        parts += decoder.finish()
        decode_answer(json.dumps(frames).encode())
    except ChatFault:
        return
    assert [part for part in parts if isinstance(part, ModelDone)] == parts[-1:]


def test_the_texts_of_one_read_are_one_part() -> None:
    delta = '{"choices":[{"delta":{"content":"ab"}}]}'
    assert ChatDecoder().feed([delta] * 3) == [ModelText("ababab")]


@pytest.mark.requirement("D6.4")
@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("<html>", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[1]", "it does not have the form of a chat answer"),
        ('{"choices": 1}', "it does not have the form of a chat answer"),
        ("[" * 100_000, "it does not have the form of a chat answer"),
        ('{"error": {"message": "boom"}}', "the vendor reports an error"),
        ('{"object": "error", "message": "boom"}', "the vendor reports an error"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_not_an_answer_says_so(frame: str, problem: str) -> None:
    with pytest.raises(ChatFault) as fault:
        ChatDecoder().feed([frame])
    assert fault.value.problem == problem


def test_frames_of_a_vendors_own_are_passed_over() -> None:
    own = [
        '{"type": "ping", "error": null}',
        '{"choices": null}',
        "{}",
        '{"choices": [], "note": "error"}',
        r'{"half": "\ud83d"}',
    ]
    assert ChatDecoder().feed(own) == []


def test_a_stream_that_ends_without_an_answer_is_a_fault() -> None:
    for frames, problem in ((["[DONE]"], "it holds no answer"), ([], "it is empty")):
        decoder = ChatDecoder()
        with pytest.raises(ChatFault, match=problem):
            _ = decoder.feed(frames) + decoder.finish()


def test_a_call_without_a_name_is_a_fault() -> None:
    decoder = ChatDecoder()
    decoder.feed(['{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}'])
    with pytest.raises(ChatFault, match="no name"):
        decoder.feed(["[DONE]"])


def test_an_answer_that_was_not_streamed_gives_the_same_parts() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    message = {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm.", "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    assert decode_answer(json.dumps({"choices": [choice], "usage": usage}).encode()) == [
        ModelThinking("Hm."),
        ModelText("Hi."),
        ModelCall("bash", '{"command":"ls"}', "a"),
        ModelDone("tool_use", Usage(input_tokens=6, output_tokens=2, cache_read_tokens=4)),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": {"message": "m", "type": "t", "code": "c"}}', ("m", "c", None)),
        ('{"error": {"message": "m", "type": "t", "code": null}}', ("m", "t", None)),
        (
            '{"error": {"message": "m", "code": 429, "status": "RESOURCE_EXHAUSTED"}}',
            ("m", "RESOURCE_EXHAUSTED", 429),
        ),
        (
            '[{"error": {"message": "m", "code": 400, "status": "INVALID_ARGUMENT"}}]',
            ("m", "INVALID_ARGUMENT", 400),
        ),
        ('{"error": "model \\"x\\" not found"}', ('model "x" not found', "", None)),
        ('{"detail": "Not Found"}', ("Not Found", "", None)),
        (
            '{"object": "error", "message": "m", "type": "BadRequestError", "code": 400}',
            ("m", "BadRequestError", 400),
        ),
        (
            '{"error": {"message": "m", "code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}',
            ("m", "content_filter", None),
        ),
        ("<html>", ("", "", None)),
        ("[]", ("", "", None)),
        ("", ("", "", None)),
    ],
)
def test_errors_of_every_vendor_are_read(body: str, expected: tuple[str, str, int | None]) -> None:
    error = vendor_error(body)
    assert (error.message, error.kind, error.status) == expected
