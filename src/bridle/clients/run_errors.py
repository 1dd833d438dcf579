"""Why a run could not begin or go on, as programs read it."""

from __future__ import annotations

from bridle.base.secrets.redact import error_marker, redact
from bridle.protocol.errors import BridleError


def error_fields(failure: BridleError) -> dict[str, str]:
    """Its stable name and its sentence; of a session that another run has, also which run that is."""
    message = redact(failure.message, error_marker)  # a key may have been typed where a name belongs
    fields = {"name": failure.reason, "message": message}
    match failure.reason:
        case "SessionBusy":
            runs = {"run": failure.data.get("run", ""), "other_run": failure.data.get("other_run", "")}
        case "TurnInProgress":
            runs = {"run": "", "other_run": failure.data.get("originator", "")}
        case _:
            return fields
    busy = {"code": "SESSION_RUN_IN_PROGRESS", "reason": "same_session_run_in_progress"}
    return {**fields, **busy, **{name: str(run) for name, run in runs.items()}}
