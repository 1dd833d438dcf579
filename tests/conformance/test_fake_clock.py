"""The clock our tests use, under test itself."""

import asyncio

import pytest

from bridle.base.clock import Clock, iso_ms
from bridle.conformance.fake_clock import FakeClock, check_clock


async def test_the_fake_clock_keeps_the_contract():
    clock = FakeClock()
    port: Clock = clock
    await check_clock(port, clock.advance)


async def test_time_stands_still_until_advanced():
    clock = FakeClock(start_ms=1_000)
    assert (clock.now_ms(), clock.monotonic()) == (1_000, 0.0)
    await clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2_500, 1.5)


def test_the_default_start_is_a_readable_date():
    assert iso_ms(FakeClock().now_ms()) == "2026-05-23T19:00:00.000Z"


async def test_everything_due_runs_in_order_each_at_its_own_time():
    clock = FakeClock(start_ms=0)
    seen: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append((name, clock.now_ms()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("c", 3))
        group.create_task(sleeper("a", 1))
        clock.call_later(2, lambda: seen.append(("b", clock.now_ms())))
        await clock.advance(10)
    assert seen == [("a", 1000), ("b", 2000), ("c", 3000)]
    assert clock.now_ms() == 10_000


async def test_what_a_woken_task_starts_is_still_in_time():
    clock = FakeClock(start_ms=0)
    seen: list[int] = []

    async def ticker() -> None:
        for _ in range(3):
            await clock.sleep(0.1)
            seen.append(clock.now_ms())

    task = asyncio.create_task(ticker())
    await clock.advance(0.3)
    assert seen == [100, 200, 300]
    await task


async def test_many_small_steps_add_up_exactly():
    clock = FakeClock(start_ms=0)
    task = asyncio.create_task(clock.sleep(1))
    for _ in range(9):
        await clock.advance(0.1)
    assert not task.done()
    await clock.advance(0.1)
    assert task.done()


async def test_a_cancelled_sleeper_does_not_disturb_the_clock():
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.settle()
    task.cancel()
    await clock.advance(2)
    assert task.cancelled()


async def test_setting_the_wall_leaves_durations_alone():
    clock = FakeClock(start_ms=5_000)
    await clock.advance(1)
    clock.set_wall(100)
    assert (clock.now_ms(), clock.monotonic()) == (100, 1.0)


async def test_time_does_not_go_back():
    with pytest.raises(ValueError, match="go back"):
        await FakeClock().advance(-1)
