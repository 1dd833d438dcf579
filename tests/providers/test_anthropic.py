"""Anthropic's Messages protocol as a pure pair: golden requests and golden streams, and what its errors mean."""

import json
from pathlib import Path

import pytest

from bridle.protocol.messages import StopReason
from bridle.providers.answers import AnswerFault, decode_answer
from bridle.providers.anthropic import AnthropicDecoder
from bridle.providers.endpoints import Endpoint
from bridle.providers.failures import AskedProvider, reported
from providers.wire_kit import check_request, check_stream, golden, speaking
from tables import table

ASKED = AskedProvider(
    Endpoint(name="work", base_url="https://models.example", wire="anthropic"), "some-model"
)


@pytest.mark.requirement("T6.3", "D8.61", "D8.62")
@table("file", golden("anthropic", "request"))
def test_a_request_is_the_bytes_of_its_golden_file(file: Path) -> None:
    check_request("anthropic", file)


@pytest.mark.requirement("T6.3", "D8.62", "D8.63")
@table("file", golden("anthropic", "stream"))
def test_a_stream_gives_the_parts_of_its_golden_file(file: Path) -> None:
    check_stream("anthropic", file)


@pytest.mark.requirement("D8.63")
@table(
    ("kind", "reason", "status", "retryable"),
    [
        ("rate_limit_error", "RateLimited", 429, True),
        ("overloaded_error", "Overloaded", 529, True),
        ("api_error", "Overloaded", 500, True),
        ("timeout_error", "Overloaded", 504, True),
        ("authentication_error", "BadCredentials", 401, False),
        ("billing_error", "NoCredit", 402, False),
        ("request_too_large", "ContextTooLong", 413, False),
        ("invalid_request_error", "ProviderRejected", 400, False),
        ("something_new", "BadStream", 200, True),
    ],
)
def test_an_error_inside_a_stream_is_the_error_it_would_have_been_before_it(
    kind: str, reason: str, status: int, retryable: bool
) -> None:
    frame = json.dumps({"type": "error", "error": {"type": kind, "message": "It went wrong."}})
    with pytest.raises(AnswerFault) as fault:
        AnthropicDecoder().feed([frame])
    assert fault.value.error is not None
    error = reported(ASKED, fault.value.error)
    assert error is not None
    assert (error.reason, error.data["status"], error.retryable) == (reason, status, retryable)


@pytest.mark.requirement("D8.62")
@table(
    ("given", "stop"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "end_turn"),
        ("pause_turn", "end_turn"),
        ("tool_use", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("refusal", "content_filter"),
        ("something_new", "end_turn"),
        (None, "end_turn"),
    ],
)
def test_why_an_answer_without_calls_ends(given: str | None, stop: StopReason) -> None:
    body = json.dumps({"type": "message", "content": [{"type": "text", "text": "Hi."}], "stop_reason": given})
    *_, done = decode_answer(AnthropicDecoder(), body.encode())
    assert getattr(done, "stop", None) == stop


def test_max_tokens_are_8192_where_nobody_says_more() -> None:
    from bridle.conformance.fake_models import SAMPLE_PREFIX
    from bridle.protocol.messages import Parameters

    for parameters, most in ((Parameters(), 8192), (Parameters(max_tokens=5), 5)):
        prefix = type(SAMPLE_PREFIX)(provider="p", model="m", system="", parameters=parameters)
        assert json.loads(speaking("anthropic").wire.head(prefix) + b"]}")["max_tokens"] == most
