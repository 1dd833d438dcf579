"""What a refusal is over HTTP: its status, and a body with its reason, its sentence and its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.protocol.errors import SENTENCES, BridleError
from bridle.protocol.told_outside import told_outside

_STATUS: Mapping[str, int] = {
    **dict.fromkeys(("BadCommand", "BadFrame"), 400),
    **dict.fromkeys(
        ("TokenMissing", "TokenInvalid", "TokenNotYetValid", "TokenExpired", "TokenRevoked"), 401
    ),
    **dict.fromkeys(("UnknownPath", "UnknownCommand", "NotSupported", "NoSuchMint", "NoSessionHere"), 404),
    "MethodNotAllowed": 405,
    "TooSlow": 408,
    **dict.fromkeys(
        (
            "TurnInProgress", "NoTurn", "NoSuchQuestion", "QuestionChanged", "WrongAnswer", "NotPlanning",
            "NotAttached", "SessionBusy", "SessionNotOpen", "SessionIsOpen", "SessionExpired",
            "HandshakeVersionMismatch", "AmbiguousSession", "OrphanedCalls", "CommandIdUsed",
            "Usage", "BadConfig", "NothingAsked", "NotWaiting",
        ),
        409,
    ),
    "TooLarge": 413,
    "NotJson": 415,
    "HandshakeRequired": 428,
    "TooManyFailures": 429,
    **dict.fromkeys(
        ("EngineFault", "FeatureFailed", "StoreFailed", "StoreDamaged", "LogDamaged", "LogsLost", "LeaseLost"), 500
    ),
    **dict.fromkeys(("EngineStopping", "TooManyConnections", "DiskFull", "NoSpace", "StoreInUse"), 503),
}  # fmt: skip
_BY_EXIT_CODE = {1: 409, 2: 400, 3: 403, 4: 409, 5: 502}
"""For all others, by what a run that ends on the reason exits with. A provider's key is not the client's."""
STATUSES: tuple[int, ...] = (400, 401, 403, 404, 405, 408, 409, 413, 415, 428, 429, 500, 502, 503)
"""Every status a refusal can have."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why not. `reason` is stable, `message` is for people, `data` is what the sentence names."""

    reason: str
    message: str
    data: dict[str, Any] = {}


def status_of(reason: str) -> int:
    known = SENTENCES.get(reason)
    if reason in _STATUS:
        return _STATUS[reason]
    if reason.startswith("Unknown"):
        return 404
    return 500 if known is None else _BY_EXIT_CODE.get(known.exit_code, 500)


def problem_of(failure: BridleError) -> Problem:
    told = told_outside(failure)
    return Problem(reason=told.reason, message=told.message, data=told.data)
