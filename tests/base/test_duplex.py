"""Processes that are talked with for long: both ways, in bounds, and noticed when they go."""

import asyncio
import os
import sys

import pytest

from bridle.base.process.duplex import MOST_UNREAD_BYTES, open_duplex
from bridle.base.process.processes import Processes

ENV = {"PATH": os.environ["PATH"]}
MEGABYTE = 1 << 20
SOON_S = 20


@pytest.fixture
async def processes():
    found = Processes()
    yield found
    await found.close()


def opened(processes, *argv, errors=None):
    """A process with both directions open."""

    def start(inlet, outlet):
        return processes.start(
            argv,
            cwd="/",
            env=ENV,
            on_output=outlet,
            on_error=(bytearray() if errors is None else errors).extend,
            stdin=inlet,
        )

    return open_duplex(start)


async def read_all(process):
    found = bytearray()
    while chunk := await process.read():
        found += chunk
    return bytes(found)


async def test_more_than_any_pipe_holds_goes_both_ways_at_once(processes):
    async with asyncio.timeout(SOON_S):
        process = await opened(processes, "cat")
        reading = asyncio.create_task(read_all(process))
        pieces = [bytes([number]) * MEGABYTE for number in range(8)]
        for piece in pieces:
            await process.write(piece)
        process.close_input()
        assert await reading == b"".join(pieces)
        assert await process.wait() == 0


async def test_a_writer_waits_while_nobody_reads_and_nothing_piles_up(processes):
    async with asyncio.timeout(SOON_S):
        process = await opened(processes, "cat")
        writing = asyncio.create_task(process.write(b"x" * 32 * MEGABYTE))
        done, _ = await asyncio.wait((writing,), timeout=0.5)
        assert not done, "it is not taken while nobody reads what comes of it"
        outlet = process.read.__self__
        assert outlet._size < MOST_UNREAD_BYTES + 5 * 64 * 1024
        process.close_input()
        assert len(await read_all(process)) == 32 * MEGABYTE
        await writing
        assert await process.wait() == 0


async def test_writers_take_turns_and_a_cancelled_one_does_not_leave_half_a_message(processes):
    async with asyncio.timeout(SOON_S):
        process = await opened(processes, "cat")
        first = asyncio.create_task(process.write(b"a" * 4 * MEGABYTE + b"\n"))
        second = asyncio.create_task(process.write(b"b\n"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        reading = asyncio.create_task(read_all(process))
        await second
        process.close_input()
        lines = (await reading).split(b"\n")
        assert [(line[:1], len(line)) for line in lines] == [(b"a", 4 * MEGABYTE), (b"b", 1), (b"", 0)]


async def test_a_process_that_is_gone_is_noticed_on_both_sides(processes):
    async with asyncio.timeout(SOON_S):
        process = await opened(processes, "sh", "-c", "echo last words; exit 3")
        assert await read_all(process) == b"last words\n"
        assert await process.wait() == 3
        with pytest.raises(BrokenPipeError):
            await process.write(b"x" * MEGABYTE)


async def test_a_writer_that_waits_hears_that_the_process_died(processes):
    async with asyncio.timeout(SOON_S):
        process = await opened(processes, "sleep", "600")
        writing = asyncio.create_task(process.write(b"x" * MEGABYTE))
        await asyncio.sleep(0)
        await process.stop()
        with pytest.raises(BrokenPipeError):
            await writing
        assert await process.read() == b""


async def test_a_process_that_closes_its_output_and_stays_is_read_to_the_end(processes):
    async with asyncio.timeout(SOON_S):
        process = await opened(processes, "sh", "-c", "echo a; exec sleep 600 >&-")
        assert await read_all(process) == b"a\n"
        await process.stop()


async def test_errors_come_apart_from_the_output(processes):
    async with asyncio.timeout(SOON_S):
        errors = bytearray()
        process = await opened(processes, "sh", "-c", "echo out; echo err >&2", errors=errors)
        assert await read_all(process) == b"out\n"
        await process.wait()
        assert errors == b"err\n"


async def test_what_was_written_before_the_end_is_read_however_late(processes):
    """The reader is held back when it ends: the rest comes all the same."""
    async with asyncio.timeout(SOON_S):
        script = f"import os; os.write(1, b'x' * {MOST_UNREAD_BYTES}); os.write(1, b'y' * 60_000)"
        process = await opened(processes, sys.executable, "-c", script)
        assert await process.wait() == 0
        assert len(await read_all(process)) == MOST_UNREAD_BYTES + 60_000
