"""Trying again: how often, after which wait, and what the log says about it."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.conformance.fake_clock import FakeClock
from bridle.engine.conversation import Conversation
from bridle.engine.journal import Journal
from bridle.engine.steps import Reply, Step
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import Envelope, StepFailed
from bridle.providers.retry import retry
from tables import table

OK = Reply(stop="end_turn")


class ListLog:
    """A session log that is a list."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    @property
    def last_id(self) -> int:
        return len(self.envelopes)

    def append(self, envelope: Envelope, payload: bytes) -> None:
        self.envelopes.append(envelope)

    async def committed(self) -> None: ...

    async def durable(self) -> None: ...

    async def since(self, after: int, *, limit: int) -> Sequence[Envelope]:
        return self.envelopes[after : after + limit]


class Retried:
    """A step behind the layer: its attempts fail with these errors in order; None is a success."""

    def __init__(
        self, *errors: Exception | None, random: Callable[[], float] = lambda: 0.5, takes_s: float = 0
    ) -> None:
        self.clock = FakeClock()
        self.attempts: list[int] = []
        self._log = ListLog()
        self._errors = list(errors)
        self._takes_s = takes_s
        self._journal = Journal(
            session="sess_1", log=self._log, clock=self.clock, bus=None, conversation=Conversation()
        )
        self._layer = retry(clock=self.clock, random=random)

    @property
    def failed(self) -> list[StepFailed]:
        return [kept.event for kept in self._log.envelopes if isinstance(kept.event, StepFailed)]

    @property
    def waits_ms(self) -> list[int | None]:
        return [event.retry_in_ms for event in self.failed]

    async def run(self) -> Reply:
        """The outcome, as time passes; waits that are due in the next ten minutes come to their end."""
        running = self.start()
        await self.clock.advance(600)
        assert running.done()
        return await running

    def start(self) -> asyncio.Task[Reply]:
        async def ask() -> Reply:
            return await self._layer(Step(number=7, journal=self._journal), self._proceed)

        return asyncio.create_task(ask())

    async def _proceed(self, step: Step) -> Reply:
        assert step.number == 7
        self.attempts.append(step.attempt)
        if self._takes_s:
            await self.clock.sleep(self._takes_s)
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error
        return OK


def overloaded() -> ProviderError:
    return ProviderError("Overloaded", retryable=True, provider="work", status=503)


def rate_limited(retry_after_s: float | None = None) -> ProviderError:
    return ProviderError("RateLimited", retryable=True, provider="work", retry_after_s=retry_after_s)


def unreachable(*, tries: int | None = 2) -> ProviderError:
    return ProviderError(
        "ProviderUnreachable", retryable=True, tries=tries, provider="work", problem="connection refused"
    )


async def test_a_step_that_succeeds_is_asked_once_and_says_nothing():
    retried = Retried()
    assert await retried.run() == OK
    assert (retried.attempts, retried.failed) == ([1], [])


@pytest.mark.requirement("D8.70")
async def test_a_retryable_failure_is_tried_again_and_each_failure_is_an_event():
    retried = Retried(overloaded(), rate_limited())
    assert await retried.run() == OK
    assert retried.attempts == [1, 2, 3]
    assert retried.failed == [
        StepFailed(
            step=7,
            attempt=1,
            reason="Overloaded",
            message="work is overloaded (503).",
            retry_in_ms=500,
            attempts=5,
        ),
        StepFailed(
            step=7,
            attempt=2,
            reason="RateLimited",
            message="Provider work rate-limited the request. Retrying in 1s… "
            "(Ctrl-C to cancel, /model to switch).",
            retry_in_ms=1000,
            attempts=5,
        ),
    ]


async def test_a_silent_stream_says_that_it_was_asked_again_and_at_the_end_that_it_was_not():
    silent = (
        ProviderError("StreamSilent", retryable=True, provider="work", timeout_s="60") for _ in range(9)
    )
    retried = Retried(*silent)
    with pytest.raises(ProviderError):
        await retried.run()
    ended = "No data for 60 s; the request was ended"
    kept = "Nothing partial was kept."
    assert [event.message for event in retried.failed] == [
        f"{ended} and sent again (try 2 of 2). {kept}",
        "No data from work for 60 s; the request was ended.",
    ]
    assert {event.reason for event in retried.failed} == {"StreamSilent"}


@pytest.mark.requirement("C27", "D8.71")
async def test_five_attempts_are_made_in_all_and_the_last_failure_is_raised():
    errors = [overloaded() for _ in range(9)]
    retried = Retried(*errors, random=lambda: 0.999999)
    with pytest.raises(ProviderError) as raised:
        await retried.run()
    assert raised.value is errors[4]
    assert retried.attempts == [1, 2, 3, 4, 5]
    assert [event.attempt for event in retried.failed] == [1, 2, 3, 4, 5]
    assert retried.waits_ms == [1000, 2000, 4000, 8000, None]


@pytest.mark.requirement("C27")
async def test_five_attempts_are_made_whatever_the_reasons():
    retried = Retried(*(make() for _ in range(5) for make in (overloaded, rate_limited)))
    with pytest.raises(ProviderError, match="overloaded"):
        await retried.run()
    assert retried.attempts == [1, 2, 3, 4, 5]


@pytest.mark.requirement("C27")
@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4))
def test_a_wait_lies_between_nothing_and_its_ceiling(numbers: list[float]):
    drawn = iter(numbers)
    retried = Retried(*(overloaded() for _ in range(4)), random=lambda: next(drawn))
    assert asyncio.run(retried.run()) == OK
    ceilings_ms = (1000, 2000, 4000, 8000)
    assert all(
        0 <= (wait or 0) <= ceiling for wait, ceiling in zip(retried.waits_ms, ceilings_ms, strict=True)
    )


@pytest.mark.requirement("D8.71")
@table(
    ("asked_s", "wait_ms"),
    [
        (0, 0),
        (0.0001, 1),
        (2.5, 2500),
        (20, 20_000),
        (30, 30_000),
        (31, 30_000),
        (3600, 30_000),
        (float("inf"), 30_000),
    ],
)
async def test_what_the_provider_asks_for_replaces_the_wait_up_to_thirty_seconds(
    asked_s: float, wait_ms: int
):
    retried = Retried(rate_limited(asked_s))
    running = retried.start()
    await retried.clock.settle()
    assert retried.waits_ms == [wait_ms]
    assert f"Retrying in {wait_ms / 1000:.3g}s" in retried.failed[0].message
    await retried.clock.advance(wait_ms / 1000)
    assert await running == OK


async def test_the_next_attempt_waits_for_its_time():
    retried = Retried(rate_limited(20))
    running = retried.start()
    await retried.clock.advance(19.999)
    assert retried.attempts == [1]
    await retried.clock.advance(0.001)
    assert retried.attempts == [1, 2]
    assert await running == OK


async def test_a_host_that_cannot_be_reached_is_tried_for_a_minute_at_most():
    retried = Retried(*(unreachable(tries=None) for _ in range(9)), takes_s=25)
    with pytest.raises(ProviderError, match="Cannot reach"):
        await retried.run()
    assert retried.attempts == [1, 2, 3]
    assert retried.waits_ms == [500, 1000, None]


async def test_the_minute_begins_when_nobody_is_reached_any_more():
    retried = Retried(rate_limited(30), rate_limited(30), unreachable(tries=None), takes_s=10)
    assert await retried.run() == OK


async def test_a_local_server_that_refuses_connections_is_tried_twice():
    retried = Retried(*(unreachable() for _ in range(9)))
    with pytest.raises(ProviderError, match="Cannot reach"):
        await retried.run()
    assert retried.attempts == [1, 2]
    assert retried.waits_ms == [500, None]
    assert [event.attempts for event in retried.failed] == [2, 2]


async def test_refused_connections_after_other_failures_are_tried_twice_too():
    retried = Retried(overloaded(), unreachable(), overloaded(), unreachable(), overloaded())
    with pytest.raises(ProviderError, match="Cannot reach"):
        await retried.run()
    assert retried.attempts == [1, 2, 3, 4]
    assert [event.attempts for event in retried.failed] == [5, 3, 5, 4]


@pytest.mark.requirement("D8.70")
@table(
    "error",
    [
        ProviderError("ProviderRejected", provider="work", status=400, problem="no such model"),
        ProviderError("BadCredentials", provider="work", status=401),
        ProviderError("BadCredentials", retryable=True, retry_after_s=1, provider="work", status=401),
    ],
)
async def test_a_failure_that_will_not_pass_is_said_once_and_raised_at_once(error: ProviderError):
    retried = Retried(error)
    with pytest.raises(ProviderError) as raised:
        await retried.run()
    assert raised.value is error
    assert [(event.reason, event.message, event.retry_in_ms) for event in retried.failed] == [
        (error.reason, error.message, None)
    ]
    assert retried.attempts == [1]


async def test_a_fault_that_is_not_the_providers_passes_through():
    retried = Retried(ValueError("ours"))
    with pytest.raises(ValueError, match="ours"):
        await retried.run()
    assert (retried.attempts, retried.failed) == ([1], [])


@pytest.mark.requirement("D8.71")
async def test_cancelling_ends_a_wait_at_once():
    retried = Retried(rate_limited(30))
    running = retried.start()
    await retried.clock.advance(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert retried.clock.monotonic() == 1
    assert retried.attempts == [1]


async def test_steps_that_share_a_layer_do_not_share_their_waits():
    retried = Retried(overloaded(), overloaded(), None, overloaded(), random=lambda: 0.999999)
    await retried.run()
    await retried.run()
    assert retried.attempts == [1, 2, 3, 1, 2]
    assert retried.waits_ms == [1000, 2000, 1000]
