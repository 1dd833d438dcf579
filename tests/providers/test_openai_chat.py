"""The chat protocol as a pure pair: golden requests and golden streams, and what vendors do differently."""

import json
from pathlib import Path

import pytest

from bridle.conformance.fake_models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_wire
from bridle.engine.ports import ModelCall, ModelDone, ModelText, ModelThinking
from bridle.protocol.messages import Usage
from bridle.providers.answers import AnswerFault, decode_answer
from bridle.providers.failures import vendor_error
from bridle.providers.openai_chat import ChatDecoder, ChatWire
from providers.wire_kit import check_request, check_stream, golden
from tables import table


@pytest.mark.requirement("T6.2", "D8.1", "D8.2", "D6.11")
@table("file", golden("openai_chat", "request"))
def test_a_request_is_the_bytes_of_its_golden_file(file: Path) -> None:
    check_request("openai_chat", file)


@pytest.mark.requirement("D14.2", "D14.3", "D6.3", "D8.16")
@table("file", golden("openai_chat", "stream"))
def test_a_stream_gives_the_parts_of_its_golden_file(file: Path) -> None:
    check_stream("openai_chat", file)


@table("count", range(len(SAMPLE_MESSAGES) + 1))
def test_the_system_text_is_the_first_message_and_results_stand_alone(count: int) -> None:
    messages = json.loads(check_wire(ChatWire(), SAMPLE_PREFIX, SAMPLE_MESSAGES[:count]))["messages"]
    assert messages[0] == {"role": "system", "content": SAMPLE_PREFIX.system}
    assert [message["role"] for message in messages[1:]] == (
        ["user", "assistant", "tool", "tool", "user", "user"][: [0, 1, 2, 5, 5, 6][count]]
    )


def test_the_texts_of_one_read_are_one_part() -> None:
    delta = '{"choices":[{"delta":{"content":"ab"}}]}'
    assert ChatDecoder().feed([delta] * 3) == [ModelText("ababab")]


@pytest.mark.requirement("D6.4")
@table(
    ("frame", "problem"),
    [
        ("<html>", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[1]", "it does not have the form of an answer"),
        ('{"choices": 1}', "it does not have the form of an answer"),
        ("[" * 100_000, "it does not have the form of an answer"),
        ('{"error": {"message": "boom"}}', "the vendor reports an error"),
        ('{"object": "error", "message": "boom"}', "the vendor reports an error"),
    ],
)
def test_what_is_not_an_answer_says_so(frame: str, problem: str) -> None:
    with pytest.raises(AnswerFault) as fault:
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
        with pytest.raises(AnswerFault, match=problem):
            _ = decoder.feed(frames) + decoder.finish()


def test_a_call_without_a_name_is_a_fault() -> None:
    decoder = ChatDecoder()
    decoder.feed(['{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}'])
    with pytest.raises(AnswerFault, match="no name"):
        decoder.feed(["[DONE]"])


def test_an_answer_that_was_not_streamed_gives_the_same_parts() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    message = {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm.", "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    assert decode_answer(ChatDecoder(), json.dumps({"choices": [choice], "usage": usage}).encode()) == [
        ModelThinking("Hm."),
        ModelText("Hi."),
        ModelCall("bash", '{"command":"ls"}', "a"),
        ModelDone("tool_use", Usage(input_tokens=6, output_tokens=2, cache_read_tokens=4)),
    ]


@table(
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
