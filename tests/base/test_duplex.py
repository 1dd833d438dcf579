"""Processes that are talked with for long: both ways, in bounds, and noticed when they go."""

import asyncio
import os
import sys

import pytest

from bridle.base.duplex import MOST_UNREAD_BYTES, DuplexProcess, open_duplex
from bridle.base.processes import CannotStart, Processes
from bridle.base.supervision import MOST_ENDS, Supervisor
from bridle.conformance.fake_clock import FakeClock

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


# Supervision


class Watched:
    """A supervisor over `argv`, with what it said."""

    def __init__(self, processes, *argv, connect=None):
        self.states = []
        self.opened = []
        self.clock = FakeClock()
        self._processes = processes
        self._argv = argv
        self._connect = connect
        self.supervisor = Supervisor(
            self._open, self._connected, clock=self.clock, random=lambda: 0.5, changed=self.states.append
        )

    async def _open(self):
        process = await opened(self._processes, *self._argv)
        self.opened.append(process)
        return process

    async def _connected(self, process: DuplexProcess):
        if self._connect is not None:
            await self._connect(process)

    async def until(self, state):
        """Waits for a state, letting every wait pass. Returns all until then."""
        while not self.states or self.states[-1].state != state:
            if self.states and self.states[-1].state == "down":
                await self.clock.advance(self.states[-1].wait_s)
            await asyncio.sleep(0.005)
        return [one.state for one in self.states]


async def test_a_process_that_ends_is_started_again_and_said_to_be_down_meanwhile(processes):
    async with asyncio.timeout(SOON_S):
        watched = Watched(processes, "sleep", "600")
        await watched.supervisor.start()
        await watched.opened[0].stop()
        await watched.until("down")
        assert await watched.until("up") == ["starting", "up", "down", "up"]
        down = watched.states[2]
        assert (down.problem, down.wait_s) == ("it was ended by signal 15", 0.125)
        assert watched.opened[1].pid != watched.opened[0].pid
        await watched.supervisor.stop()
        await watched.supervisor.stop()
        assert await watched.opened[1].wait() < 0
        assert watched.states[-1].state == "stopped"


async def test_a_process_that_keeps_ending_is_given_up(processes):
    async with asyncio.timeout(SOON_S):
        watched = Watched(processes, "sh", "-c", "exit 7")
        starting = asyncio.create_task(watched.supervisor.start())
        await watched.until("given up")
        await starting
        last = watched.states[-1]
        assert (last.state, last.problem, last.ends) == ("given up", "it ended with exit code 7", MOST_ENDS)
        assert len(watched.opened) == MOST_ENDS
        await watched.supervisor.stop()


async def test_a_process_that_cannot_be_made_ready_is_ended_and_tried_again(processes):
    tries = 0

    async def connect(_process):
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError("it speaks another language")

    async with asyncio.timeout(SOON_S):
        watched = Watched(processes, "sleep", "600", connect=connect)
        starting = asyncio.create_task(watched.supervisor.start())
        assert await watched.until("up") == ["starting", "down", "up"]
        await starting
        assert watched.states[1].problem == "it speaks another language"
        assert await watched.opened[0].wait() < 0
        await watched.supervisor.stop()


async def test_a_program_that_is_not_there_is_given_up_too(processes):
    async with asyncio.timeout(SOON_S):
        watched = Watched(processes, "/no/such/program")
        starting = asyncio.create_task(watched.supervisor.start())
        await watched.until("given up")
        await starting
        assert watched.states[-1].problem == str(CannotStart("/no/such/program", "not found"))


async def test_stopping_while_it_waits_to_start_again_starts_nothing_more(processes):
    async with asyncio.timeout(SOON_S):
        watched = Watched(processes, "sh", "-c", "exit 7")
        starting = asyncio.create_task(watched.supervisor.start())
        await watched.until("down")
        await watched.supervisor.stop()
        starting.cancel()
        assert len(watched.opened) == 1
