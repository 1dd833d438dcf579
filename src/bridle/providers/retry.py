"""Request layers for failures that may pass: try again, and ask another model when the chosen one is overloaded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.net.backoff import RETRY_AFTER_MAX_MS, Backoff
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.protocol.errors import BridleError, ProviderError, sentence
from bridle.protocol.events import ModelChanged, Notice, StepFailed

if TYPE_CHECKING:
    from bridle.base.clock import Clock

MAX_ATTEMPTS: Final = 5
BASE_MS: Final = 1_000
MAX_MS: Final = 16_000

_MAX_FAILURES: Final[Mapping[str, int]] = {
    "BadCredentials": 1,  # the key will not get better
    "StreamSilent": 2,  # what was silent may have been paid for
}
"""Reasons given up on sooner: after so many failures of that reason."""
UNREACHED_S: Final = 60.0
"""Where nobody can be reached for so long, no other try is begun."""


def retry(*, clock: Clock, random: Callable[[], float]) -> RequestLayer:
    """Tries a step again while its failure is retryable, at most `MAX_ATTEMPTS` times in all.

    The wait is uniform between nothing and 1, 2, 4, 8 s; what the provider asks for replaces it, up to 30 s.
    `random` returns a float in [0, 1). Every failed attempt is a `StepFailed`; the last failure is raised on.
    Cancelling ends a wait at once.
    """

    async def retrying(step: Step, proceed: AskModel) -> Reply:
        failures: Counter[str] = Counter()
        reached = clock.monotonic()
        while True:
            try:
                return await proceed(step)
            except ProviderError as error:
                failures[error.reason] += 1
                attempts = _attempts(error, step.attempt, failures[error.reason])
                again = error.retryable and step.attempt < attempts
                wait_ms = _wait_ms(error, step.attempt, random) if again else None
                if error.reason != "ProviderUnreachable":
                    reached = clock.monotonic() + (wait_ms or 0) / 1000
                elif wait_ms is not None and clock.monotonic() + wait_ms / 1000 - reached > UNREACHED_S:
                    wait_ms = None
                step.emit(_failed(step, error, wait_ms, attempts))
                if wait_ms is None:
                    raise error.given_up() from error
            await clock.sleep(wait_ms / 1000)
            step = msgspec.structs.replace(step, attempt=step.attempt + 1)

    return retrying


def _attempts(error: ProviderError, attempt: int, failures: int) -> int:
    """How many attempts there are at most, after so many failures of this reason. Others may have come before."""
    tries = error.tries or _MAX_FAILURES.get(error.reason, MAX_ATTEMPTS)
    return min(MAX_ATTEMPTS, attempt - failures + tries)


def _wait_ms(error: ProviderError, attempt: int, random: Callable[[], float]) -> int:
    if error.retry_after_s is None:
        return Backoff(BASE_MS, MAX_MS, random).delay_ms(attempt - 1)
    # Compared before the conversion: a provider may have said infinity, or nonsense.
    asked_ms = error.retry_after_s * 1000
    return math.ceil(asked_ms) if 0 <= asked_ms < RETRY_AFTER_MAX_MS else RETRY_AFTER_MAX_MS


def _failed(step: Step, error: ProviderError, wait_ms: int | None, attempts: int) -> StepFailed:
    return StepFailed(
        step=step.number,
        attempt=step.attempt,
        reason=error.reason,
        message=error.given_up().message if wait_ms is None else _again(step, error, wait_ms, attempts),
        retry_in_ms=wait_ms,
        attempts=attempts,
    )


def _again(step: Step, error: ProviderError, wait_ms: int, attempts: int) -> str:
    """What is said of a failure that is not the end. It names the wait that follows, not the one that was asked for."""
    reason = "StreamSilentAgain" if error.reason == "StreamSilent" else error.reason
    following = {"retry_after_s": f"{wait_ms / 1000:.3g}", "attempt": step.attempt + 1, "attempts": attempts}
    return sentence(reason, {**error.data, **following})


OVERLOAD: Final = frozenset({"Overloaded", "StillRateLimited"})
"""What another model may do better at. Every retry was made before."""


def fallback(name: str, *, named: Callable[[str], ModelChanged]) -> RequestLayer:
    """Asks `name` (`provider:model`) once the chosen model is given up on, for the rest of the turn. Once, never back.

    `named` reads the name and may refuse it. Thoughts of the first model are not shown to the other: its wire knows.
    """

    async def layer(step: Step, proceed: AskModel) -> Reply:
        try:
            return await proceed(step)
        except ProviderError as failure:
            if failure.reason not in OVERLOAD:
                raise
            chosen = step.journal.conversation.model
            other = _other(step, name, named)
            if (
                other is None
                or chosen is None
                or (other.provider, other.model) == (chosen.provider, chosen.model)
            ):
                raise
            data = {"provider": chosen.provider, "model": f"{other.provider}:{other.model}"}
            step.emit(Notice(reason="FallbackModel", message=sentence("FallbackModel", data), data=data))
            step.emit(msgspec.structs.replace(other, holds="this_turn"))
        return await proceed(step)

    return layer


def _other(step: Step, name: str, named: Callable[[str], ModelChanged]) -> ModelChanged | None:
    try:
        return named(name)
    except BridleError as refusal:
        step.emit(Notice(reason=refusal.reason, message=f"fallback_model: {refusal.message}"))
        return None
