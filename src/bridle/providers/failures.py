"""Refusals of vendors and what they mean: from status, headers and body to one reason and one clean clause. Pure.

A vendor's own words reach a person only as one sentence of at most 200 characters, made visible and without
secrets; never as they came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from bridle.base.secrets.redact import redact_error
from bridle.base.text.terminal_text import visible
from bridle.protocol.errors import ProviderError
from bridle.providers.endpoints import Endpoint


class VendorError(msgspec.Struct, frozen=True, kw_only=True):
    """An error in a vendor's own words. `status` is the HTTP status it stands for, if the vendor says so."""

    message: str = ""
    kind: str = ""
    status: int | None = None


def vendor_error(data: str | bytes) -> VendorError:
    """What a vendor says went wrong, wherever in its JSON it says so. Never raises."""
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return VendorError()
    if isinstance(found, list) and found:  # Gemini sends its errors in a list of one
        found = cast("list[Any]", found)[0]
    if not isinstance(found, dict):
        return VendorError()
    outer = cast("dict[str, Any]", found)
    inner = outer.get("error", outer)
    if not isinstance(inner, dict):
        return VendorError(message=as_text(inner), kind=as_text(outer.get("code") or outer.get("type")))
    error = cast("dict[str, Any]", inner)
    code = error.get("code")
    return VendorError(
        message=as_text(error.get("message") or error.get("detail") or outer.get("detail")),
        kind=_error_kind(error, code),
        status=code if isinstance(code, int) and 100 <= code <= 599 else None,
    )


def _error_kind(error: dict[str, Any], code: Any) -> str:
    deeper = error.get("innererror")
    if (
        isinstance(deeper, dict)
        and cast("dict[str, Any]", deeper).get("code") == "ResponsibleAIPolicyViolation"
    ):
        return "content_filter"
    named = code if isinstance(code, str) and not code.isdigit() else None
    return as_text(named or error.get("type") or error.get("status"))


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


MAX_PROBLEM_CHARACTERS: Final = 200
LOCAL_TRIES: Final = 2
"""Nobody listens on this machine; a person is waiting to start the server."""

FaultKind: TypeAlias = Literal[
    "refused", "unreachable", "dns", "tls", "timeout", "silent", "reset", "protocol", "proxy"
]
"""The kinds of `base.http`, which is not imported here: this module only speaks of them."""

_NO_CREDIT: Final = frozenset(
    {
        "insufficient_quota",
        "billing_not_active",
        "billing_hard_limit_reached",
        "insufficient_balance",
        "billing_error",
    }
)
_RATE: Final = frozenset({"rate_limit_exceeded", "rate_limit_error", "rate_limited", "RESOURCE_EXHAUSTED"})
_OVERLOADED: Final = frozenset(
    {"overloaded_error", "overloaded", "server_error", "api_error", "internal_server_error", "UNAVAILABLE"}
)
_AUTHENTICATION: Final = frozenset(
    {"invalid_api_key", "authentication_error", "permission_error", "UNAUTHENTICATED", "API_KEY_INVALID"}
)
_TOO_LONG: Final = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "request_too_large", "string_above_max_length"}
)
# Vendors without a code for it say it in words.
_TOO_LONG_WORDS: Final = (
    r"maximum context length|context (?:window|length|size)|exceed context limit|prompt is too long"
    r"|too many (?:input )?tokens"
)
_NO_CREDIT_WORDS: Final = (
    r"insufficient (?:balance|credits?|quota|funds)|requires more credits|credit balance is too low"
)
_NO_MODEL_WORDS: Final = (
    r"model.{0,200}(?:not found|does not exist)|no such model|not a valid model|\Amodel: \S+\Z"
)


class AskedProvider(msgspec.Struct, frozen=True):
    """Who was asked for what. The key is here only to be taken out of every text; `key_source` is where it was."""

    endpoint: Endpoint
    model: str
    key: str | None = None
    key_source: str | None = None


def refused(
    asked: AskedProvider, *, status: int, headers: Mapping[str, str] = MappingProxyType({}), body: bytes = b""
) -> ProviderError | None:
    """A status that is not 200. None when the vendor withheld the answer (a content filter): no failure."""
    return _refusal(asked, vendor_error(body), status=status, headers=headers, page=is_page(body))


def reported(asked: AskedProvider, error: VendorError) -> ProviderError | None:
    """An error that a vendor put into an answer it had begun. None for a content filter."""
    return _refusal(asked, error, status=error.status or 200, headers={}, page=False)


def _refusal(
    asked: AskedProvider, error: VendorError, *, status: int, headers: Mapping[str, str], page: bool
) -> ProviderError | None:
    if error.kind in {"content_filter", "moderation"}:
        return None
    reason, retryable = _reason(error, status, local=asked.endpoint.local)
    data: dict[str, Any] = {
        "provider": asked.endpoint.name,
        "status": status,
        "problem": _problem(error, status, page=page, key=asked.key),
        "model": asked.model,
        "source": asked.key_source or asked.endpoint.key_source,
        "code": error.kind or "payment required",
        "near": "",
        "next": " Look at its address and models: bridle doctor" if status == 404 else "",
    }
    wait_s = retry_after_s(headers) if retryable else None
    return ProviderError(reason, retryable=retryable, retry_after_s=wait_s, **data)


def _reason(error: VendorError, status: int, *, local: bool) -> tuple[str, bool]:
    """The reason, and whether the same request may succeed later. A vendor's code says more than its status."""
    kind, words = error.kind, error.message
    if status == 402 or kind in _NO_CREDIT or _says(words, _NO_CREDIT_WORDS):
        return "NoCredit", False
    if status in {401, 403} or kind in _AUTHENTICATION or words.startswith("API key not valid"):
        return "BadCredentials", False
    if status == 429 or (status == 200 and kind in _RATE):
        return "RateLimited", True
    if kind == "model_not_found" or (status in {400, 404, 422} and _says(words, _NO_MODEL_WORDS)):
        return "UnknownModel", False
    if status == 413 or kind in _TOO_LONG or (status < 500 and _says(words, _TOO_LONG_WORDS)):
        return "ContextTooLong", False
    if status >= 500 or (status == 200 and kind in _OVERLOADED):
        # A local server's 500 is not load: it names what is wrong, such as too little memory.
        return ("ProviderRejected" if local and status == 500 and words else "Overloaded"), True
    return ("BadStream", True) if status == 200 else ("ProviderRejected", False)


def _problem(error: VendorError, status: int, *, page: bool, key: str | None) -> str:
    if error.message:
        return clean_clause(error.message, secrets=(key,))
    if 300 <= status < 400:
        return "it redirects to another address; check base_url"
    if status == 404:
        return "there is nothing at this address; check base_url"
    return "it sent a web page" if page else "it gave no reason"


def is_page(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"


def clean_clause(text: str, *, secrets: tuple[str | None, ...] = ()) -> str:
    """A vendor's first sentence, fit to be shown: one line, nothing hidden, no secret, not long."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[redacted]")
    line = next((line for line in text.splitlines() if line.strip()), "")
    first = re.split(r"(?<=[^.]{3})\.\s", f"{line} ", maxsplit=1)[0]
    shown = redact_error(visible(first.strip(), newlines=False)).rstrip(". ")
    return shown if len(shown) <= MAX_PROBLEM_CHARACTERS else shown[: MAX_PROBLEM_CHARACTERS - 1] + "…"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the vendor asks us to wait. A date is read against the vendor's own clock."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers["retry-after"].strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", given, re.ASCII):
            return float(given)
        from email.utils import parsedate_to_datetime

        wait = parsedate_to_datetime(given) - parsedate_to_datetime(headers["date"])
        return max(0.0, wait.total_seconds())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def unreachable(kind: FaultKind, problem: str, *, endpoint: Endpoint) -> ProviderError:
    """A request that got no answer. A certificate that is not trusted will not become so by trying again, and what
    does not speak HTTP will not learn it."""
    running = (
        f" Is {endpoint.title or endpoint.name} running?  {endpoint.start_hint}"
        if endpoint.start_hint
        else ""
    )
    return ProviderError(
        "ProviderUnreachable",
        retryable=kind not in {"tls", "protocol"},
        tries=LOCAL_TRIES if endpoint.local else None,
        provider=endpoint.name,
        address=endpoint.address,
        problem=clean_clause(problem),
        hint=running if kind == "refused" else "",
    )


def silent(silent_s: float, *, endpoint: Endpoint) -> ProviderError:
    """A request that was sent, and no answer for so long, or no more of it. Nothing of it counts."""
    return ProviderError("StreamSilent", retryable=True, provider=endpoint.name, timeout_s=f"{silent_s:g}")


def broken_off(kind: FaultKind, problem: str, *, endpoint: Endpoint) -> ProviderError:
    """An answer that began and did not end. What cannot be read comes the same way again."""
    if kind == "protocol":
        return unreadable(clean_clause(problem), endpoint=endpoint)
    return unreadable("it ended in the middle", endpoint=endpoint, retryable=True)


def unreadable(problem: str, *, endpoint: Endpoint, retryable: bool = False) -> ProviderError:
    return ProviderError("BadStream", retryable=retryable, provider=endpoint.name, problem=problem)


def _says(words: str, pattern: str) -> bool:
    return re.search(pattern, words, re.IGNORECASE) is not None
