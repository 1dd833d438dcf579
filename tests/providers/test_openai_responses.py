"""The OpenAI Responses protocol as a pure pair: golden requests and golden streams, and what its errors mean."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.providers.answers import AnswerFault
from bridle.providers.endpoints import Endpoint
from bridle.providers.failures import Asked, reported
from bridle.providers.openai_responses import ResponsesDecoder
from providers.wire_kit import check_request, check_stream, golden

ASKED = Asked(Endpoint(name="work", base_url="https://models.example", wire="openai_responses"), "some-model")


@pytest.mark.requirement("T6.1")
@pytest.mark.parametrize("file", golden("openai_responses", "request"))
def test_a_request_is_the_bytes_of_its_golden_file(file: Path) -> None:
    check_request("openai_responses", file)


@pytest.mark.requirement("T6.1")
@pytest.mark.parametrize("file", golden("openai_responses", "stream"))
def test_a_stream_gives_the_parts_of_its_golden_file(file: Path) -> None:
    check_stream("openai_responses", file)


def failed(code: str) -> dict[str, Any]:
    error = {"code": code, "message": "It went wrong."}
    return {"type": "response.failed", "response": {"status": "failed", "error": error}}


def reports(code: str) -> dict[str, Any]:
    return {"type": "error", "code": code, "message": "It went wrong.", "param": None, "sequence_number": 3}


@pytest.mark.parametrize("frame", [failed, reports])
@pytest.mark.parametrize(
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
