"""What a vendor's refusal means, and what of its words a person may read."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridle.protocol.errors import ProviderError
from bridle.providers.endpoints import Endpoint
from bridle.providers.failures import (
    MAX_PROBLEM_CHARACTERS,
    AskedProvider,
    broken_off,
    clean_clause,
    refused,
    reported,
    retry_after_s,
    silent,
    unreachable,
    vendor_error,
)
from tables import table

KEY = "sk-" + "a1b2c3d4" * 4
WORK = Endpoint(name="work", base_url="https://models.example/v1", key_env="WORK_API_KEY")
LOCAL = Endpoint(
    name="ollama", title="Ollama", base_url="http://localhost:11434/v1", local=True, start_hint="ollama serve"
)
ASKED = AskedProvider(WORK, "gtp-5", KEY)


def body(message: str, **more: object) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


@pytest.mark.requirement("D8.70", "T6.4")
@table(
    ("status", "answer", "reason", "retryable"),
    [
        (401, body("Incorrect API key provided", code="invalid_api_key"), "BadCredentials", False),
        (403, b"", "BadCredentials", False),
        (400, body("API key not valid. Please pass a valid API key."), "BadCredentials", False),
        (402, b"", "NoCredit", False),
        (429, body("You exceeded your current quota", code="insufficient_quota"), "NoCredit", False),
        (429, body("Insufficient balance or no resource package.", code="1113"), "NoCredit", False),
        (429, body("Rate limit reached", code="rate_limit_exceeded"), "RateLimited", True),
        (429, b"<html>", "RateLimited", True),
        (500, body("Internal error"), "Overloaded", True),
        (502, b"<html>Bad gateway</html>", "Overloaded", True),
        (503, b"", "Overloaded", True),
        (529, body("Overloaded", type="overloaded_error"), "Overloaded", True),
        (408, b"", "ProviderRejected", False),
        (404, body("The model `gtp-5` does not exist", code="model_not_found"), "UnknownModel", False),
        (404, b'{"error": "model \\"gtp-5\\" not found, try pulling it first"}', "UnknownModel", False),
        (400, body("gtp-5 is not a valid model ID", code=400), "UnknownModel", False),
        (404, body("model: claude-x", type="not_found_error"), "UnknownModel", False),
        (404, b"<html>", "ProviderRejected", False),
        (400, body("Your credit balance is too low to access the API."), "NoCredit", False),
        (400, body("prompt is too long: 200001 tokens > 200000 maximum"), "ContextTooLong", False),
        (400, body("input length and `max_tokens` exceed context limit: 1 + 2 > 2"), "ContextTooLong", False),
        (400, body("This is too long", code="context_length_exceeded"), "ContextTooLong", False),
        (400, body("This model's maximum context length is 8192 tokens."), "ContextTooLong", False),
        (413, b"", "ContextTooLong", False),
        (400, body("Unsupported parameter: 'temperature'"), "ProviderRejected", False),
        (422, b'{"detail": [{"loc": ["body"]}]}', "ProviderRejected", False),
        (307, b"", "ProviderRejected", False),
    ],
)
def test_every_status_has_a_reason(status: int, answer: bytes, reason: str, retryable: bool) -> None:
    error = refused(ASKED, status=status, body=answer)
    assert error is not None
    assert (error.reason, error.retryable) == (reason, retryable)
    assert error.data["provider"] == "work"
    assert error.data["status"] == status


@table("answer", [b"<html>", body("Not Found"), b""])
def test_what_was_not_found_says_what_to_look_at(answer: bytes) -> None:
    error = refused(ASKED, status=404, body=answer)
    assert error is not None
    assert error.message.endswith(". Look at its address and models: bridle doctor")


@pytest.mark.requirement("D6.4")
@table(
    "answer",
    [
        body("Filtered", code="content_filter"),
        body("Filtered", code=None, innererror={"code": "ResponsibleAIPolicyViolation"}),
    ],
)
def test_a_content_filter_is_an_outcome_and_no_failure(answer: bytes) -> None:
    assert refused(ASKED, status=400, body=answer) is None
    assert reported(ASKED, vendor_error(answer)) is None


@table(
    ("answer", "reason", "retryable"),
    [
        (body("Slow down", code=429), "RateLimited", True),
        (body("Busy", type="overloaded_error"), "Overloaded", True),
        (body("Broken", code=502), "Overloaded", True),
        (body("No money", code=402), "NoCredit", False),
        (body("Something odd"), "BadStream", True),
    ],
)
def test_an_error_within_an_answer_has_a_reason_too(answer: bytes, reason: str, retryable: bool) -> None:
    error = reported(ASKED, vendor_error(answer))
    assert error is not None
    assert (error.reason, error.retryable) == (reason, retryable)


def test_a_local_servers_own_words_are_said() -> None:
    answer = body("model requires more system memory (5.6 GiB) than is available (2.1 GiB)", type="api_error")
    error = refused(AskedProvider(LOCAL, "big"), status=500, body=answer)
    assert error is not None
    assert error.message == (
        "ollama refused the request (500): "
        "model requires more system memory (5.6 GiB) than is available (2.1 GiB)."
    )


@table(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "soon", "date": "now"}, None),
        ({"retry-after": "-1", "date": "x"}, None),
        ({"retry-after-ms": "x"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_vendor_asks_for_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds
    error = refused(ASKED, status=429, headers=headers)
    assert error is not None
    assert error.retry_after_s == seconds


@given(st.text(max_size=40), st.text(max_size=40))
@example("Sat,", "Sat, 23 May 2026 19:00:00 GMT")
@example("9" * 5000, "Sat, 23 May 2026 19:00:00 GMT")
@example("Sat, 23 May 2026 19:00:12 GMT", "Sat May 23 19:00:12 2026")
def test_whatever_a_vendor_says_of_waiting_is_a_wait_or_nothing(wait: str, date: str) -> None:
    wait_s = retry_after_s({"retry-after": wait, "date": date})
    assert wait_s is None or wait_s >= 0


@pytest.mark.requirement("T6.4")
@table(
    ("words", "clause"),
    [
        (f"Incorrect API key provided: {KEY}. You can find it at https://x.example.", None),
        (f"first line {KEY}\nsecond line", "first line [redacted]"),
        ("Bad \x1b[31mred\x1b[0m \u202etext", "Bad ⟨ESC⟩[31mred⟨ESC⟩[0m ⟨U+202E⟩text"),
        ("x" * 31 + " y" * 300, "x" * 31 + " y" * 84 + "…"),
        ("version 1.5 of e.g. this is old. Upgrade.", "version 1.5 of e.g. this is old"),
        ("", ""),
    ],
)
def test_a_vendors_words_are_cleaned(words: str, clause: str | None) -> None:
    shown = clean_clause(words, secrets=(KEY,))
    assert shown == ("Incorrect API key provided: [redacted]" if clause is None else clause)


@given(words=st.text(), place=st.integers(0, 50))
def test_no_words_of_a_vendor_carry_the_key_or_a_second_line(words: str, place: int) -> None:
    shown = clean_clause(words[:place] + KEY + words[place:], secrets=(KEY, None))
    assert KEY not in shown
    assert "\n" not in shown
    assert len(shown) <= MAX_PROBLEM_CHARACTERS


@pytest.mark.requirement("D8.70", "T6.4")
def test_a_request_without_an_answer_names_the_address_and_the_next_step() -> None:
    error = unreachable("refused", "connection refused", endpoint=LOCAL)
    assert (error.reason, error.retryable) == ("ProviderUnreachable", True)
    assert error.data["address"] == "http://localhost:11434"
    assert error.data["hint"] == " Is Ollama running?  ollama serve"
    assert unreachable("dns", "no such host", endpoint=WORK).retryable
    assert not unreachable("tls", "certificate has expired", endpoint=WORK).retryable


@pytest.mark.requirement("D8.70")
def test_an_answer_that_breaks_off_may_be_asked_for_again() -> None:
    quiet: ProviderError = silent(60, endpoint=WORK)
    assert (quiet.reason, quiet.retryable) == ("StreamSilent", True)
    cut = broken_off("reset", "the connection was closed", endpoint=WORK)
    assert (cut.reason, cut.retryable) == ("BadStream", True)
    unread = broken_off("protocol", "the answer is compressed", endpoint=WORK)
    assert (unread.reason, unread.retryable) == ("BadStream", False)
