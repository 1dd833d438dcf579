"""What of a failure is told to whoever asked over a wire: reason and sentence, no detail of a broken part, no secret.

Details are for the engine's own log, for `/health` and for `Error` events. Pure.
"""

from __future__ import annotations

from typing import Any, Final

from bridle.base.secrets.redact import error_marker, redact
from bridle.protocol.errors import BridleError

BROKEN_PARTS: Final = frozenset(
    ("FeatureFailed", "StoreFailed", "StoreDamaged", "LogDamaged", "LogsLost", "LeaseLost")
)
"""Reasons that say a part of the engine broke, and not that something was asked for wrongly."""
_LOGGED: Final = "the engine's log says why"


def is_broken_part(failure: BridleError) -> bool:
    """Whether its details stay inside. A plugin's fault is one too."""
    return failure.reason in BROKEN_PARTS or _plugin_at_fault(failure.reason) != ""


def told_outside(failure: BridleError) -> BridleError:
    """The failure as others may read it. Its reason is the same."""
    if plugin := _plugin_at_fault(failure.reason):
        return BridleError(failure.reason, message=f"The plugin {plugin} failed ({_LOGGED}).")
    hides = failure.reason in BROKEN_PARTS
    told = {name: _told(name, value, hides=hides) for name, value in failure.data.items()}
    return BridleError(failure.reason, **told)


def _told(name: str, value: Any, *, hides: bool) -> Any:
    if not isinstance(value, str):
        return value if isinstance(value, int | float | bool | None) else redact(str(value), error_marker)
    if hides and name == "problem":
        return _LOGGED
    return redact(value.rpartition("/")[2] if hides and name == "path" else value, error_marker)


def _plugin_at_fault(reason: str) -> str:
    match reason.split(":"):
        case ["Custom", plugin, "Fault"]:
            return plugin
        case _:
            return ""
