"""The request layer that tries again: how often, after which wait, and what it says meanwhile.

The innermost layer, so every attempt is one request. What an attempt has streamed stays in the log and does
not count: `StepFailed` says so, and every fold drops it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.backoff import RETRY_AFTER_MAX_MS, Backoff
from bridle.protocol.errors import ProviderError, sentence
from bridle.protocol.events import StepFailed

if TYPE_CHECKING:
    from bridle.base.clock import Clock
    from bridle.engine.steps import AskModel, Reply, RequestLayer, Step

MAX_ATTEMPTS: Final = 5
BASE_MS: Final = 1_000
MAX_MS: Final = 16_000

_MAX_FAILURES: Final[Mapping[str, int]] = {
    "BadCredentials": 1,  # the key will not get better
    "ProviderUnreachable": 2,  # nobody listens there; a person is waiting to start the server
}
"""Reasons given up on sooner: after so many failures of that reason."""


def retry(*, clock: Clock, random: Callable[[], float]) -> RequestLayer:
    """Tries a step again while its failure is retryable, at most `MAX_ATTEMPTS` times in all.

    The wait is uniform between nothing and 1, 2, 4, 8 s; what the provider asks for replaces it, up to 30 s.
    `random` returns a float in [0, 1). Every failed attempt is a `StepFailed`; the last failure is raised on.
    Cancelling ends a wait at once.
    """
    backoff = Backoff(BASE_MS, MAX_MS, random)

    async def retrying(step: Step, proceed: AskModel) -> Reply:
        failures: Counter[str] = Counter()
        while True:
            try:
                return await proceed(step)
            except ProviderError as error:
                failures[error.reason] += 1
                attempts = _attempts(error.reason, step.attempt, failures[error.reason])
                again = error.retryable and step.attempt < attempts
                wait_ms = _wait_ms(error, step.attempt, backoff) if again else None
                step.emit(_failed(step, error, wait_ms, attempts))
                if wait_ms is None:
                    raise _given_up(error) from error
            await clock.sleep(wait_ms / 1000)
            step = msgspec.structs.replace(step, attempt=step.attempt + 1)

    return retrying


def _attempts(reason: str, attempt: int, failures: int) -> int:
    """How many attempts there are at most, after so many failures of this reason. Others may have come before."""
    return min(MAX_ATTEMPTS, attempt - failures + _MAX_FAILURES.get(reason, MAX_ATTEMPTS))


def _wait_ms(error: ProviderError, attempt: int, backoff: Backoff) -> int:
    if error.retry_after_s is None:
        return backoff.delay_ms(attempt - 1)
    # Compared before the conversion: a provider may have said infinity, or nonsense.
    asked_ms = error.retry_after_s * 1000
    return math.ceil(asked_ms) if 0 <= asked_ms < RETRY_AFTER_MAX_MS else RETRY_AFTER_MAX_MS


def _given_up(error: ProviderError) -> ProviderError:
    """What the turn ends on: a wait nobody will wait for any more is no news."""
    if error.reason != "RateLimited":
        return error
    return ProviderError("StillRateLimited", provider=error.data.get("provider", ""))


def _failed(step: Step, error: ProviderError, wait_ms: int | None, attempts: int) -> StepFailed:
    return StepFailed(
        step=step.number,
        attempt=step.attempt,
        reason=error.reason,
        message=_given_up(error).message if wait_ms is None else _again(step, error, wait_ms, attempts),
        retry_in_ms=wait_ms,
        attempts=attempts,
    )


def _again(step: Step, error: ProviderError, wait_ms: int, attempts: int) -> str:
    """What is said of a failure that is not the end. It names the wait that follows, not the one that was asked for."""
    reason = "StreamSilentAgain" if error.reason == "StreamSilent" else error.reason
    following = {
        "retry_after_s": f"{wait_ms / 1000:.3g}",
        "attempt": step.attempt + 1,
        "attempts": attempts,
    }
    return sentence(reason, {**error.data, **following})
