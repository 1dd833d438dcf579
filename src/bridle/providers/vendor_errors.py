"""Errors as vendors name them, read from the many forms of JSON they have for it. Pure, and never for people yet."""

from __future__ import annotations

from typing import Any, cast

import msgspec


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
        return VendorError(message=_words(inner), kind=_words(outer.get("code") or outer.get("type")))
    error = cast("dict[str, Any]", inner)
    code = error.get("code")
    return VendorError(
        message=_words(error.get("message") or error.get("detail") or outer.get("detail")),
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
    return _words(named or error.get("type") or error.get("status"))


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""
