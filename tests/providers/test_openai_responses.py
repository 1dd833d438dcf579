"""The OpenAI Responses protocol as a pure pair: golden requests and golden streams, and what its errors mean."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.engine.ports import ModelCall, ModelDone, ModelText
from bridle.providers.answers import AnswerFault
from bridle.providers.endpoints import Endpoint
from bridle.providers.failures import AskedProvider, reported
from bridle.providers.openai_responses import ResponsesDecoder
from providers.wire_kit import as_stream, check_request, check_stream, golden, joined, read
from tables import table

ASKED = AskedProvider(
    Endpoint(name="work", base_url="https://models.example", wire="openai_responses"), "some-model"
)


@pytest.mark.requirement("T6.1", "D8.36")
@table("file", golden("openai_responses", "request"))
def test_a_request_is_the_bytes_of_its_golden_file(file: Path) -> None:
    check_request("openai_responses", file)


@pytest.mark.requirement("T6.1", "D8.34")
@table("file", golden("openai_responses", "stream"))
def test_a_stream_gives_the_parts_of_its_golden_file(file: Path) -> None:
    check_stream("openai_responses", file)


def without(frame: Any, field: str) -> Any:
    return (
        {name: value for name, value in frame.items() if name != field} if isinstance(frame, dict) else frame
    )


@table("name", ["output_index", "item_id"])
@table("file", golden("openai_responses", "stream"))
def test_an_answer_is_the_same_where_its_items_are_only_named_or_only_numbered(file: Path, name: str) -> None:
    """Some servers do only one of the two; a call must not be made twice for it, nor two become one."""
    case = json.loads(file.read_text(encoding="utf-8"))
    stream = as_stream(without(frame, name) for frame in case["frames"])
    assert joined(read(ResponsesDecoder(family="openai_responses:p"), [stream])) == case["parts"]


def test_an_item_that_stands_elsewhere_in_the_end_is_not_told_again() -> None:
    call = {"type": "function_call", "id": "fc_a", "call_id": "a", "name": "ls", "arguments": "{}"}
    said = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "I look."}]}
    frames: list[Any] = [
        {"type": "response.output_item.done", "item": call},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "I look."},
        {"type": "response.completed", "response": {"status": "completed", "output": [said, call]}},
    ]
    assert read(ResponsesDecoder(), [as_stream(frames)]) == [
        ModelText("I look."),
        ModelCall("ls", "{}", "a"),
        ModelDone("tool_use"),
    ]


def failed(code: str) -> dict[str, Any]:
    error = {"code": code, "message": "It went wrong."}
    return {"type": "response.failed", "response": {"status": "failed", "error": error}}


def reports(code: str) -> dict[str, Any]:
    return {"type": "error", "code": code, "message": "It went wrong.", "param": None, "sequence_number": 3}


@pytest.mark.requirement("D8.34")
@table("frame", [failed, reports])
@table(
    ("code", "reason", "retryable"),
    [
        ("rate_limit_exceeded", "RateLimited", True),
        ("server_error", "Overloaded", True),
        ("insufficient_quota", "NoCredit", False),
        ("context_length_exceeded", "ContextTooLong", False),
        ("invalid_prompt", "ProviderRejected", False),
        ("image_too_large", "ProviderRejected", False),
        ("bio_policy", None, False),
        ("something_new", "BadStream", True),
    ],
)
def test_an_error_inside_a_stream_has_its_reason(
    frame: Any, code: str, reason: str | None, retryable: bool
) -> None:
    with pytest.raises(AnswerFault) as fault:
        ResponsesDecoder().feed([json.dumps(frame(code))])
    assert fault.value.error is not None
    error = reported(ASKED, fault.value.error)
    assert (error and error.reason, bool(error and error.retryable)) == (reason, retryable)


def test_a_whole_response_that_failed_is_no_answer() -> None:
    for status in ("failed", "cancelled"):
        body = json.dumps({"object": "response", "status": status, "error": None})
        with pytest.raises(AnswerFault, match="the vendor reports an error"):
            ResponsesDecoder().feed([body])


@pytest.mark.requirement("D8.34")
@table("details", [None, {}, {"reason": None}, {"reason": "something_new"}])
def test_an_incomplete_response_is_never_told_as_a_whole_one(details: Any) -> None:
    """Some servers do not say what is missing."""
    body = {"object": "response", "status": "incomplete", "incomplete_details": details, "output": []}
    assert ResponsesDecoder().feed([json.dumps(body)]) == [ModelDone("max_tokens")]
