import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
import tracemalloc

import pytest

from bridle.base.process.processes import CannotStart, CompletedProgram, Processes

ENV = {"PATH": os.defpath}


@pytest.fixture(params=["pidfd", "thread"])
async def processes(request):
    owner = Processes(exit_watch=request.param)
    yield owner
    await owner.close()


class Sink:
    """Collects output and lets a test wait until enough of it has come."""

    def __init__(self):
        self.data = b""
        self._changed = asyncio.Event()

    def __call__(self, chunk):
        self.data += chunk
        self._changed.set()

    async def until(self, count):
        """The first `count` lines."""
        async with asyncio.timeout(10):
            while self.data.count(b"\n") < count:
                self._changed.clear()
                await self._changed.wait()
        return self.data.decode().splitlines()[:count]


def ignore(chunk):
    pass


async def start(processes, script, **options):
    options.setdefault("on_output", ignore)
    return await processes.start(["/bin/sh", "-c", script], cwd="/", env=ENV, **options)


async def run(processes, *argv, **options):
    settings = {"cwd": "/", "env": ENV, "timeout_s": 10, "max_output_bytes": 1 << 20} | options
    return await processes.run(argv, **settings)


def is_alive(pid):
    """Whether the process exists and is more than a zombie somebody else still has to reap."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return os.path.isdir("/proc/self") is False


def gone_within(pid, limit_s):
    """Watch until the process is gone; nothing announces the end of somebody else's child."""
    deadline = time.monotonic() + limit_s
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def is_our_child(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


async def test_a_program_runs_in_its_folder_with_exactly_its_environment(processes, tmp_path):
    script = "pwd; env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL=; cat"
    result = await run(processes, "/bin/sh", "-c", script, cwd=str(tmp_path), env=ENV | {"NAME": "value"})
    lines = result.output.decode().splitlines()
    assert lines[0] == os.path.realpath(tmp_path)
    assert sorted(lines[1:]) == ["NAME=value", f"PATH={os.defpath}"]


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15)]
)
async def test_the_exit_code_or_the_signal_is_reported(processes, script, code):
    process = await start(processes, script)
    assert process.returncode is None
    assert await process.wait() == code
    assert process.returncode == code
    assert await process.wait() == code


@pytest.mark.requirement("D9.6")
async def test_both_outputs_are_captured_apart_or_merged_in_the_order_written(processes):
    script = "for i in 1 2 3; do echo out$i; echo err$i >&2; done"
    merged = Sink()
    await (await start(processes, script, on_output=merged)).wait()
    assert merged.data.split() == [b"out1", b"err1", b"out2", b"err2", b"out3", b"err3"]
    apart = await run(processes, "/bin/sh", "-c", script)
    assert apart == CompletedProgram(0, b"out1\nout2\nout3\n", b"err1\nerr2\nerr3\n", False, False)


async def test_nothing_more_is_read_while_whoever_reads_is_not_ready(processes):
    ready, came = asyncio.get_running_loop().create_future(), []

    def slow(chunk):
        came.append(len(chunk))
        return ready

    process = await start(processes, "head -c 1000000 /dev/zero; exec sleep 600", on_output=slow)
    async with asyncio.timeout(10):
        while not came:
            await asyncio.sleep(0)
        first = list(came)
        for _ in range(300):
            await asyncio.sleep(0.0001)
        assert came == first
        ready.set_result(None)
        while sum(came) < 1_000_000:
            await asyncio.sleep(0.001)
    await process.stop()


async def test_what_a_process_left_is_read_though_whoever_reads_is_slow(processes):
    never, came = asyncio.get_running_loop().create_future(), []

    def slow(chunk):
        came.append(len(chunk))
        return never

    process = await start(processes, "head -c 60000 /dev/zero; head -c 5000 /dev/zero", on_output=slow)
    assert await asyncio.wait_for(process.wait(), 10) == 0
    assert sum(came) == 65_000


async def test_input_larger_than_the_pipe_is_fed_while_output_is_read(processes):
    data = os.urandom(1 << 20)
    result = await run(processes, "cat", stdin=data, max_output_bytes=2 << 20)
    assert result.output == data


async def test_empty_input_ends_at_once_and_no_input_is_an_empty_one(processes):
    assert (await run(processes, "cat", stdin=b"")).output == b""
    assert (await run(processes, "cat")).output == b""


async def test_a_program_that_does_not_read_its_input_is_no_obstacle(processes):
    result = await run(processes, "/bin/sh", "-c", "exec 0<&-; echo done", stdin=b"x" * (1 << 20))
    assert result.output == b"done\n"


async def test_the_last_output_is_delivered_before_wait_returns(processes):
    for _ in range(20):
        sink = Sink()
        await (await start(processes, "printf %060000d 1", on_output=sink)).wait()
        assert len(sink.data) == 60000


def unstartable(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("data")
    folder = str(tmp_path)
    return [
        (["no-such-program"], "/", "not found"),
        ([str(tmp_path / "missing")], "/", "not found"),
        ([str(plain)], "/", "not executable"),
        ([folder], "/", "not executable"),
        (["true"], str(tmp_path / "missing"), "no such folder"),
        (["true"], str(plain), "no such folder"),
        (["echo", "a\0b"], "/", "invalid argument"),
        (["echo", "\ud800"], "/", "invalid argument"),
        (["echo", "x" * (8 << 20)], "/", "too long"),
    ]


async def test_what_cannot_start_says_why_and_leaks_nothing(processes, tmp_path):
    await run(processes, "true")
    before = open_descriptors()
    reasons = []
    for argv, cwd, reason in unstartable(tmp_path):
        with pytest.raises(CannotStart) as caught:
            await run(processes, *argv, cwd=cwd, stdin=b"x")
        reasons.append((caught.value.argv0 == argv[0], caught.value.reason, reason))
    assert all(named and got == wanted for named, got, wanted in reasons), reasons
    assert open_descriptors() == before


async def test_nothing_to_run_is_a_mistake(processes):
    with pytest.raises(ValueError, match="argv"):
        await processes.start([], cwd="/", env=ENV, on_output=ignore)


async def test_stop_ends_grandchildren_too(processes):
    sink = Sink()
    process = await start(processes, "sleep 600 & echo $!; sleep 600 & echo $!; wait", on_output=sink)
    grandchildren = [int(line) for line in await sink.until(2)]
    await process.stop()
    assert process.returncode == -signal.SIGTERM
    assert [gone_within(pid, 2) for pid in grandchildren] == [True, True]


async def test_a_group_that_ignores_sigterm_is_killed_after_the_grace(processes):
    sink = Sink()
    process = await start(
        processes, "trap '' TERM; sleep 600 & echo $!; while :; do wait; done", on_output=sink
    )
    [grandchild] = await sink.until(1)
    began = time.monotonic()
    await process.stop(grace_s=0.1)
    assert 0.1 <= time.monotonic() - began < 2
    assert process.returncode == -signal.SIGKILL
    assert gone_within(int(grandchild), 2)


async def test_a_group_that_heeds_sigterm_may_clean_up(processes):
    sink = Sink()
    process = await start(
        processes, "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done", on_output=sink
    )
    await sink.until(1)
    await process.stop(grace_s=10)
    assert process.returncode == 3
    assert sink.data.endswith(b"bye\n")


async def test_stopping_again_or_from_several_tasks_or_after_the_end_is_harmless(processes):
    process = await start(processes, "sleep 600")
    await asyncio.gather(process.stop(), process.stop(), process.wait())
    await process.stop()
    ended = await start(processes, "exit 4")
    await ended.wait()
    await ended.stop()
    assert (process.returncode, ended.returncode) == (-15, 4)


async def test_a_background_grandchild_that_holds_the_pipe_neither_hangs_the_wait_nor_survives_it(processes):
    sink = Sink()
    process = await start(processes, "sleep 600 & echo $!; exit 5", on_output=sink)
    async with asyncio.timeout(5):
        assert await process.wait() == 5
    assert gone_within(int(sink.data), 2)


async def test_a_background_grandchild_without_the_pipe_does_not_survive_either(processes):
    result = await run(processes, "/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 </dev/null & echo $!")
    assert gone_within(int(result.output), 2)


async def test_output_that_a_flooding_grandchild_keeps_writing_does_not_hang_the_wait(processes):
    process = await start(processes, "yes & exit 0")
    async with asyncio.timeout(5):
        assert await process.wait() == 0


async def test_cancelling_a_wait_leaves_the_process_to_its_block_which_stops_it(processes):
    async def use():
        async with await start(processes, "echo up; exec sleep 600", on_output=sink) as process:
            started.append(process)
            await process.wait()

    sink, started = Sink(), []
    task = asyncio.create_task(use())
    await sink.until(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started[0].returncode == -signal.SIGTERM
    assert not is_our_child(started[0].pid)


async def test_cancelling_a_stop_kills_at_once(processes):
    sink = Sink()
    process = await start(processes, "trap '' TERM; echo up; while :; do sleep 0.01; done", on_output=sink)
    await sink.until(1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await process.stop(grace_s=600)
    async with asyncio.timeout(5):
        assert await process.wait() == -signal.SIGKILL


async def test_no_zombie_is_left(processes):
    process = await start(processes, "true")
    await process.wait()
    assert not is_our_child(process.pid)


def open_descriptors():
    return len(os.listdir("/dev/fd"))


async def test_two_hundred_runs_leak_no_descriptor(processes):
    await run(processes, "true", stdin=b"x")
    before = open_descriptors()
    for _ in range(200):
        await run(processes, "true", stdin=b"x")
    assert open_descriptors() == before


async def test_many_processes_run_side_by_side(processes):
    results = await asyncio.gather(*(run(processes, "echo", str(number)) for number in range(40)))
    assert [int(result.output) for result in results] == list(range(40))


async def test_two_hundred_megabytes_of_output_arrive_in_small_pieces_and_are_not_kept():
    total, largest = 0, 0

    def count(chunk):
        nonlocal total, largest
        total += len(chunk)
        largest = max(largest, len(chunk))

    processes = Processes()
    tracemalloc.start()
    try:
        process = await processes.start(
            ["head", "-c", "200000000", "/dev/zero"], cwd="/", env=ENV, on_output=count
        )
        assert await process.wait() == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await processes.close()
    assert total == 200_000_000
    assert largest <= 64 * 1024
    assert peak < 2_000_000


async def test_other_tasks_get_their_turn_during_a_flood(processes):
    read, turns = 0, 0

    def count(chunk):
        nonlocal read
        read += len(chunk)

    process = await start(processes, "exec head -c 50000000 /dev/zero", on_output=count)
    waiting = asyncio.create_task(process.wait())
    while not waiting.done():
        seen = read
        await asyncio.sleep(0)
        turns += 1
        assert read - seen <= 4 * 64 * 1024
    assert turns > 100


async def test_a_broken_output_callback_ends_the_process_and_reaches_the_waiter(processes):
    def broken(chunk):
        raise LookupError("broken")

    process = await start(processes, "echo x; sleep 600", on_output=broken)
    with pytest.raises(LookupError, match="broken"):
        await process.wait()
    assert process.returncode == -signal.SIGKILL


async def test_a_run_past_its_time_is_stopped_and_says_so_with_what_it_wrote(processes):
    result = await run(processes, "/bin/sh", "-c", "echo early; exec sleep 600", timeout_s=0.2)
    assert result == CompletedProgram(-15, b"early\n", b"", True, False)


async def test_a_run_keeps_only_the_head_of_each_output(processes):
    script = "printf %05d 1; printf %0500d 2 >&2"
    result = await run(processes, "/bin/sh", "-c", script, max_output_bytes=5)
    assert result == CompletedProgram(0, b"00001", b"00000", False, True)


async def test_a_cancelled_run_leaves_nothing_running(processes, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    task = asyncio.create_task(run(processes, "/bin/sh", "-c", f"echo $$ > {fifo}; exec sleep 600"))
    pid = int(await asyncio.to_thread(fifo.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)


async def test_close_stops_what_still_runs_and_nothing_starts_afterwards():
    processes = Processes()
    process = await start(processes, "sleep 600")
    await processes.close()
    assert process.returncode == -signal.SIGTERM
    await processes.close()
    with pytest.raises(RuntimeError):
        await start(processes, "true")


async def test_closing_without_having_started_anything_is_harmless():
    await Processes().close()


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the list of children from /proc"
)


@pytest.fixture
def nobodys_heir():
    """The only children are those we start: an earlier test may have left this process adopting orphans, and what a
    stopped shell was waiting for is one."""
    set_subreaper, get_subreaper = 36, 37
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    assert prctl(get_subreaper, ctypes.byref(before), 0, 0, 0) == 0
    assert prctl(set_subreaper, 0, 0, 0, 0) == 0
    yield
    assert prctl(set_subreaper, before.value, 0, 0, 0) == 0


@linux_only
@pytest.mark.usefixtures("nobodys_heir")
async def test_one_guardian_serves_all_runs_and_leaves_with_close():
    before = children()
    processes = Processes()
    for _ in range(3):
        await run(processes, "true")
    assert len(children()) == len(before) + 1
    await processes.close()
    assert children() == before


@linux_only
@pytest.mark.usefixtures("nobodys_heir")
async def test_a_guardian_that_was_killed_is_replaced_and_running_processes_are_spared():
    before = set(children())
    processes = Processes()
    process = await start(processes, "sleep 600")
    [guardian] = set(children()) - before - {process.pid}
    os.kill(guardian, signal.SIGKILL)
    os.waitid(os.P_PID, guardian, os.WEXITED | os.WNOWAIT)
    await run(processes, "true")
    [replacement] = set(children()) - before - {process.pid}
    assert replacement != guardian
    assert is_alive(process.pid)
    assert process.returncode is None
    await processes.close()
    assert set(children()) == before


ENGINE = """
import asyncio, os, sys
from bridle.base.process.processes import Processes

async def main():
    processes = Processes()
    env = {"PATH": os.defpath}
    async def start(script):
        return await processes.start(["/bin/sh", "-c", script], cwd="/", env=env, on_output=lambda data:
        os.write(1, data))
    await (await start("true")).wait()
    await start("echo $$; exec sleep 600")
    await start("trap '' TERM; echo $$; sleep 600 & echo $!; while :; do wait; done")
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_commands_do_not_survive_us_when_we_are_killed_outright():
    sink = Sink()
    outer = Processes()
    # A plain process, not one of a group that stop() would clean up: only the engine itself is killed.
    env = ENV | {"PYTHONPATH": os.pathsep.join(sys.path)}
    engine = await outer.start([sys.executable, "-c", ENGINE], cwd="/", env=env, on_output=sink)
    try:
        commands = [int(line) for line in await sink.until(3)]
        assert all(is_alive(pid) for pid in commands)
        os.kill(engine.pid, signal.SIGKILL)
        assert [gone_within(pid, 2) for pid in commands] == [True, True, True]
    finally:
        await engine.stop()
        await outer.close()
        for pid in [int(line) for line in sink.data.split()]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


KILLED_WHILE_STARTING = """
import asyncio, os, signal
from bridle.base.process.processes import Processes

def start_and_die(starting):
    os.write(1, b"%d\\n" % starting().pid)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    env = {"PATH": os.defpath}
    await Processes(adopts_orphans=True).start(
        ["sleep", "600"], cwd="/", env=env, on_output=lambda data: None, within=start_and_die
    )

asyncio.run(main())
"""


@linux_only
async def test_a_command_does_not_survive_us_when_we_are_killed_before_anybody_knows_of_it():
    sink = Sink()
    outer = Processes()
    env = ENV | {"PYTHONPATH": os.pathsep.join(sys.path)}
    engine = await outer.start(
        [sys.executable, "-c", KILLED_WHILE_STARTING], cwd="/", env=env, on_output=sink
    )
    try:
        [command] = [int(line) for line in await sink.until(1)]
        assert gone_within(command, 5)
    finally:
        await engine.stop()
        await outer.close()
        for pid in [int(line) for line in sink.data.split()]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def no_descriptor_left():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@linux_only
async def test_without_descriptors_for_a_guardian_nothing_starts_and_none_is_lost():
    open_before = len(os.listdir("/dev/fd"))
    processes = Processes()
    with no_descriptor_left(), pytest.raises(CannotStart) as refused:
        await start(processes, "true")
    assert (refused.value.argv0, refused.value.reason) == ("/bin/sh", "no resources")
    assert len(os.listdir("/dev/fd")) == open_before
    assert (await run(processes, "true")).returncode == 0
    await processes.close()


@linux_only
@pytest.mark.usefixtures("nobodys_heir")
async def test_a_process_ends_as_usual_where_its_guardian_was_killed_and_cannot_be_replaced():
    before = set(children())
    processes = Processes()
    process = await start(processes, "read word; exit 7", stdin=b"go\n" * 100_000)
    [guardian] = set(children()) - before - {process.pid}
    os.kill(guardian, signal.SIGKILL)
    os.waitid(os.P_PID, guardian, os.WEXITED | os.WNOWAIT)
    with no_descriptor_left():
        async with asyncio.timeout(10):
            assert await process.wait() == 7
    await run(processes, "true")
    await processes.close()
    assert set(children()) == before


async def test_a_command_cannot_keep_the_guardian_waiting_by_inheriting_its_pipe(processes):
    result = await run(processes, "/bin/sh", "-c", "ls /dev/fd/ | wc -l")
    assert int(result.output) <= 4  # the three standard ones, and the folder being listed


async def test_a_process_leads_its_own_session_so_the_terminal_cannot_reach_it(processes):
    process = await start(processes, "sleep 600")
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    await process.stop()
