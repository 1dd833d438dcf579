"""A supervisor by the clock of a test: restarts, giving up, idle stops, and what a user has to do first."""

import asyncio

from bridle.conformance.fake_clock import FakeClock
from bridle.engine.services import COOLDOWN_S, WITHIN_S, RunEnd, Supervisor


class Watched:
    """A supervisor whose runs end when the test says so."""

    def __init__(self, *, idle_s=float("inf")):
        self.clock = FakeClock()
        self.phases = []
        self.starts = []
        self.run = None
        self.life = Supervisor(self._run, clock=self.clock, changed=self._changed, idle_s=idle_s)
        self._moved = asyncio.Event()

    async def _run(self):
        self.starts.append(self.clock.monotonic())
        self.run = asyncio.get_running_loop().create_future()
        self.life.is_up()
        leave = asyncio.ensure_future(self.life.leave.wait())
        await asyncio.wait((self.run, leave), return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()
        return self.run.result() if self.run.done() else RunEnd()

    def _changed(self):
        self.phases.append(self.life.phase)
        self._moved.set()

    async def until(self, phase):
        while self.life.phase != phase:
            self._moved.clear()
            await self._moved.wait()

    async def end(self, **how):
        """End the run that is up."""
        await self.until("up")
        self.run.set_result(RunEnd("it broke", **how))


async def test_what_ends_is_started_less_and_less_often_and_then_given_up():
    watched = Watched()
    await watched.life.start()
    for wait_s in (1, 2, 4, 54):
        await watched.end()
        await watched.until("down")
        assert watched.life.wait_s == wait_s
        await watched.clock.advance(wait_s)
    await watched.end()
    await watched.until("given up")
    assert watched.starts == [0, 1, 3, 7, 61]
    assert (watched.life.failures, watched.life.ended, watched.life.problem) == (5, 5, "it broke")
    assert watched.life.health().state == "given up"

    watched.life.begin()
    await watched.clock.advance(COOLDOWN_S - 1)
    assert len(watched.starts) == 5, "an hour has not passed"
    await watched.clock.advance(1)
    watched.life.begin()
    await watched.until("up")
    await watched.life.stop()


async def test_a_run_that_was_up_long_enough_forgets_earlier_failures():
    watched = Watched()
    await watched.life.start()
    for _ in range(6):
        await watched.until("up")
        await watched.clock.advance(WITHIN_S)
        await watched.end()
        await watched.until("down")
        assert watched.life.failures == 1
        await watched.clock.advance(1)
    await watched.life.stop()


async def test_a_hopeless_run_is_given_up_at_once_and_restarted_only_on_request():
    watched = Watched()
    await watched.life.start()
    await watched.end(hopeless=True)
    await watched.until("given up")
    watched.life.begin()
    assert len(watched.starts) == 1
    await watched.life.restart()
    await watched.until("up")
    assert len(watched.starts) == 2
    await watched.life.stop()


async def test_a_held_run_starts_again_when_it_is_begun():
    watched = Watched()
    await watched.life.start()
    await watched.end(held=True)
    await watched.until("held")
    assert not await watched.life.wait_until(lambda: False), "waiting is no use"
    watched.life.begin()
    await watched.until("up")
    await watched.life.stop()


async def test_what_is_not_used_is_stopped_until_it_is_needed():
    watched = Watched(idle_s=60)
    await watched.life.start()
    watched.life.started_use()
    await watched.clock.advance(600)
    assert watched.life.phase == "up", "a call is under way"
    watched.life.ended_use()
    await watched.clock.advance(61)
    await watched.until("waiting")
    watched.life.begin()
    await watched.until("up")
    assert (len(watched.starts), watched.life.ended) == (2, 0)
    await watched.life.stop()


async def test_stopping_ends_the_run_and_every_wait():
    watched = Watched()
    await watched.life.start()
    await watched.end()
    await watched.until("down")
    await watched.life.stop()
    await watched.life.stop()
    await watched.clock.advance(60)
    assert (watched.life.phase, len(watched.starts)) == ("stopped", 1)


async def test_what_is_needed_while_it_stops_starts_again():
    watched = Watched()
    await watched.life.start()
    stopping = asyncio.ensure_future(watched.life.stop())
    await asyncio.sleep(0)
    watched.life.begin()
    await stopping
    await watched.until("up")
    assert len(watched.starts) == 2
    await watched.life.close()
    watched.life.begin()
    assert watched.life.phase == "stopped"


async def test_a_run_that_raises_is_a_run_that_ended():
    down = asyncio.Event()

    async def run():
        raise ValueError("it speaks another language")

    life = Supervisor(run, clock=FakeClock(), changed=lambda: down.set() if life.phase == "down" else None)
    life.begin()
    await down.wait()
    assert (life.problem, life.ended) == ("it speaks another language", 1)
    await life.stop()
