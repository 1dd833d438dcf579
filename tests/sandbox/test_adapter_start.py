"""A command runs once its mounts were looked at, and not before; what certainly did not run is tried again."""

import _thread
import asyncio
import gc
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

import pytest

from bridle.base.process.duplex import InputPipe
from bridle.base.process.processes import CannotStart, Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.adapter import CommandLimits, Launch, NeverRan
from bridle.sandbox.adapters.adapter_start import HeldBack, start
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.adapters.control_group import ControlGroup
from bridle.sandbox.adapters.gate import Gate
from bridle.sandbox.adapters.mount_check import ExpectedMounts
from bridle.sandbox.adapters.thread_limits import HeldThread, drop_capabilities
from bridle.sandbox.confinement import Confinement, HostContext
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from cli_kit import SignOfLife, kill_together

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap needs Linux"),
]


class Disturbed(Bubblewrap):
    """Something happens between looking and starting, each time."""

    def __init__(self, disturb: Callable[[int], None]) -> None:
        super().__init__(shutil.which("bwrap") or "bwrap")
        self.tries = 0
        self._disturb = disturb

    def confined(self, argv: Sequence[str], *, cwd: str, confinement: Confinement) -> Launch:
        self.tries += 1
        self._disturb(self.tries)
        return super().confined(argv, cwd=cwd, confinement=confinement)


class Box:
    def __init__(self, base: Path, processes: Processes) -> None:
        self.base = base
        self.processes = processes
        self.workspace = base / "ws"
        self.failed = 0
        for name in ("ws", "home", "hosttmp"):
            (base / name).mkdir()

    async def run(
        self,
        adapter: Bubblewrap,
        script: str,
        on_output: Callable[[bytes], None] | None = None,
        *,
        stdin: InputPipe | None = None,
    ) -> tuple[int, str]:
        async def choose() -> Bubblewrap:
            return adapter

        def failed() -> None:
            self.failed += 1

        place = HostContext(home=str(self.base / "home"), temporary=(str(self.base / "hosttmp"),))
        output = bytearray()
        process = await SandboxSpawn(self.processes, place=lambda: place, choose=choose, failed=failed)(
            ["/bin/sh", "-c", script],
            cwd=str(self.workspace),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.base / "home")},
            policy=SpawnPolicy(
                mode="workspace-write", workspace=str(self.workspace), scratch=str(self.base / "scratch")
            ),
            call_id="call_1",
            on_output=on_output or output.extend,
            stdin=stdin,
        )
        if stdin is not None:
            await stdin.write(b"words")
            stdin.close()
        code = await process.wait()
        process.blocked(output.decode())
        return code, output.decode()


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    processes = Processes()
    try:
        yield Box(Path(os.path.realpath(tmp_path)), processes)
    finally:
        await processes.close()


RUNS = "echo run >> runs; echo done"


async def test_a_sandbox_that_failed_by_itself_is_tried_again(box: Box) -> None:
    protected = box.workspace / "CLAUDE.md"
    protected.write_text("x")
    adapter = Disturbed(lambda tries: protected.unlink() if tries == 1 else None)
    assert await box.run(adapter, RUNS) == (0, "done\n")
    assert adapter.tries == 2
    assert (box.workspace / "runs").read_text() == "run\n"
    assert sorted(path.name for path in box.workspace.iterdir()) == ["runs"]


async def test_what_is_talked_with_hears_its_input_after_a_sandbox_that_failed_by_itself(box: Box) -> None:
    protected = box.workspace / "CLAUDE.md"
    protected.write_text("x")
    adapter = Disturbed(lambda tries: protected.unlink() if tries == 1 else None)
    assert await box.run(adapter, "cat", stdin=InputPipe()) == (0, "words")
    assert adapter.tries == 2


async def test_nobody_else_waits_while_the_kernel_puts_a_command_where_it_is_counted(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, turned = asyncio.get_running_loop(), threading.Event()
    counted: list[bool] = []

    def take(_group: ControlGroup, _pid: int) -> None:
        loop.call_soon_threadsafe(turned.set)
        counted.append(turned.wait(5))

    monkeypatch.setattr(ControlGroup, "take", take)
    monkeypatch.setattr(ControlGroup, "holds", True)
    assert await box.run(Bubblewrap(shutil.which("bwrap") or "bwrap"), RUNS) == (0, "done\n")
    assert counted == [True]


async def test_what_is_counted_is_the_command_and_never_what_has_yet_to_start_it(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else bubblewrap would fail where no process more may be counted, as if it did not work on this machine."""
    inside: list[str] = []

    def take(_group: ControlGroup, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        inside.extend(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))

    monkeypatch.setattr(ControlGroup, "take", take)
    monkeypatch.setattr(ControlGroup, "holds", True)
    assert await box.run(Bubblewrap(shutil.which("bwrap") or "bwrap"), RUNS) == (0, "done\n")
    assert inside == ["1"]


def is_at_the_gate(pid: int) -> bool:
    """Whether the process in a sandbox has nothing left to do but to wait for our word."""
    options = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    block = int(options[options.index("--block-fd") + 1])
    return Path(f"/proc/{pid}/syscall").read_text().split()[1:2] == [hex(block)]


async def test_a_command_waits_at_its_gate_until_it_is_counted(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, waited = asyncio.get_running_loop(), list[bool]()

    def take(_group: ControlGroup, pid: int) -> None:
        while not is_at_the_gate(pid):
            os.sched_yield()
        for _ in range(100):  # in which the loop could have opened it
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            turned.wait(5)
        waited.append(is_at_the_gate(pid))

    monkeypatch.setattr(ControlGroup, "take", take)
    monkeypatch.setattr(ControlGroup, "holds", True)
    assert await box.run(Bubblewrap(shutil.which("bwrap") or "bwrap"), RUNS) == (0, "done\n")
    assert waited == [True]


@pytest.mark.parametrize("stays", [False, True])
async def test_what_has_no_gate_runs_with_its_input_once_it_is_counted_and_nobody_else_waits(
    box: Box, stays: bool
) -> None:
    loop, turned = asyncio.get_running_loop(), threading.Event()
    counted: list[tuple[bool, bool]] = []

    def counting(_pid: int) -> None:
        loop.call_soon_threadsafe(turned.set)
        counted.append((turned.wait(5), (box.workspace / "got").exists()))

    words = b"words " * 50_000
    pipe = InputPipe()
    writing = asyncio.create_task(pipe.write(words)) if stays else None
    await asyncio.sleep(0)
    process = await start(
        box.processes,
        Launch(("/bin/sh", "-c", "cat > got")),
        cwd=str(box.workspace),
        env={"PATH": "/usr/bin:/bin"},
        on_output=lambda _chunk: None,
        stdin=pipe if stays else words,
        limits=CommandLimits(counting=counting),
    )
    if writing is not None:
        await writing
        pipe.close()
    assert (await process.wait(), counted) == (0, [(True, False)])
    assert (box.workspace / "got").read_bytes() == words


async def test_what_has_no_gate_runs_even_if_its_input_was_closed_before(box: Box) -> None:
    pipe, output = InputPipe(), bytearray()
    pipe.close()
    process = await start(
        box.processes,
        Launch(("/bin/sh", "-c", "wc -c")),
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        on_output=output.extend,
        stdin=pipe,
    )
    async with asyncio.timeout(60):
        assert (await process.wait(), output) == (0, b"0\n")


async def test_a_start_that_is_cancelled_while_it_is_counted_leaves_nothing(box: Box) -> None:
    loop, begun, over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def counting(_pid: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        over.wait(5)

    ended: list[int] = []
    starting = asyncio.create_task(
        start(
            box.processes,
            Launch(("/bin/sh", "-c", RUNS)),
            cwd=str(box.workspace),
            env={"PATH": "/usr/bin:/bin"},
            on_output=lambda _chunk: None,
            limits=CommandLimits(counting=counting),
            ended=lambda: ended.append(1),
        )
    )
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    over.set()
    assert ended == [1]
    assert not (box.workspace / "runs").exists()


async def test_a_folder_that_was_swapped_once_is_looked_at_again(box: Box) -> None:
    (box.workspace / ".github" / "agents").mkdir(parents=True)
    (box.base / "outside" / "agents").mkdir(parents=True)

    def swap(tries: int) -> None:
        if tries == 1:
            (box.workspace / ".github").rename(box.workspace / "moved")
            (box.workspace / ".github").symlink_to("../outside")

    adapter = Disturbed(swap)
    code, output = await box.run(adapter, f"{RUNS}; echo x > .github/agents/x")
    assert (code != 0, output.startswith("done\n"), adapter.tries) == (True, True, 2)
    assert list((box.base / "outside" / "agents").iterdir()) == []


OBEYED = (
    "CLAUDE.md",
    "GEMINI.md",
    ".cursorrules",
    "AGENTS.md",
    ".windsurfrules",
    ".mcp.json",
    ".envrc",
    ".clinerules",
)


def gone_when_used(folder: Path, times: int) -> Callable[[int], None]:
    """Each time a file is there when it is looked for and gone when it is used, like a mask of another command."""
    protected = [folder / name for name in OBEYED[:times]]
    for path in protected:
        path.write_text("x")
    return lambda tries: protected[tries - 1].unlink() if tries <= times else None


async def test_one_that_failed_again_and_again_is_tried_until_it_works(box: Box) -> None:
    adapter = Disturbed(gone_when_used(box.workspace, 5))
    assert await box.run(adapter, RUNS) == (0, "done\n")
    assert (adapter.tries, box.failed) == (6, 0)
    assert (box.workspace / "runs").read_text() == "run\n"


async def test_one_that_never_works_says_why_and_never_runs(box: Box) -> None:
    adapter = Disturbed(gone_when_used(box.workspace, len(OBEYED)))
    code, output = await box.run(adapter, RUNS)
    assert (code, output[:7], adapter.tries, box.failed) == (1, "bwrap: ", 8, 1)
    assert not (box.workspace / "runs").exists()


async def test_a_command_that_did_run_is_never_run_again(box: Box) -> None:
    adapter = Disturbed(lambda _tries: None)
    code, output = await box.run(adapter, "echo run >> runs; echo 'bwrap: cannot do it' >&2; exit 1")
    assert (code, output, adapter.tries) == (1, "bwrap: cannot do it\n", 1)
    assert (box.workspace / "runs").read_text() == "run\n"


class Talkative(Bubblewrap):
    """A sandbox that says something before it lets the command go."""

    def __init__(self, folder: Path) -> None:
        program = folder / "bwrap"
        program.write_text(f'#!/bin/sh\necho careful\nexec {shutil.which("bwrap")} "$@"\n')
        program.chmod(0o755)
        super().__init__(str(program))


async def test_a_command_whose_output_nobody_can_take_is_never_run_again(box: Box) -> None:
    def full(_chunk: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await box.run(Talkative(box.base), f"{RUNS}; sleep 600", on_output=full)
    runs = box.workspace / "runs"
    assert not runs.exists() or runs.read_text() == "run\n"


async def test_what_a_sandbox_says_before_the_command_runs_comes_first(box: Box) -> None:
    assert await box.run(Talkative(box.base), RUNS) == (0, "careful\ndone\n")


def held_threads() -> set[int]:
    """Those that started a command and have not ended."""

    def is_held(frame: FrameType | None) -> bool:
        return frame is not None and (frame.f_code is HeldThread._run.__code__ or is_held(frame.f_back))

    return {number for number, frame in sys._current_frames().items() if is_held(frame)}


async def descriptors() -> int:
    """How many are open once none of these threads runs: such a thread closes some at its end."""
    async with asyncio.timeout(60):
        while held_threads():
            await asyncio.sleep(0)
    gc.collect()  # what tests before this one left behind is not counted
    return len(os.listdir("/proc/self/fd"))


async def test_without_descriptors_a_command_says_so_and_runs_later(box: Box) -> None:
    adapter = Disturbed(lambda _tries: None)
    assert await box.run(adapter, "true") == (0, "")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = await descriptors()
    reasons, ran = set[str](), 0
    for most in (0, *range(in_use, in_use + 20)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        try:
            await box.run(adapter, "echo run >> runs")
            ran += 1
        except CannotStart as refused:
            reasons.add(refused.reason)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert reasons == {"no resources"}
    assert (box.workspace / "runs").read_text() == "run\n" * ran
    assert await descriptors() == in_use


@pytest.mark.parametrize("left", [0, 1])
async def test_without_threads_a_command_says_so_and_runs_later(
    box: Box, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """One thread starts bubblewrap, another counts."""
    adapter, begun, start_thread = Disturbed(lambda _tries: None), 0, _thread.start_new_thread

    def start_one(run: Callable[..., None], args: tuple[object, ...]) -> int:
        nonlocal begun
        begun += 1
        if begun > left:
            begun = 0
            raise RuntimeError("can't start new thread")
        return start_thread(run, args)

    monkeypatch.setattr(ControlGroup, "take", lambda _group, _pid: None)
    monkeypatch.setattr(ControlGroup, "holds", True)
    with monkeypatch.context() as scarce:
        scarce.setattr(_thread, "start_new_thread", start_one)
        with pytest.raises(CannotStart) as refused:
            await box.run(adapter, RUNS)
    assert refused.value.reason == "no resources"
    assert list(box.workspace.iterdir()) == []
    assert await box.run(adapter, RUNS) == (0, "done\n")


async def test_a_command_finds_nothing_of_the_gate_among_its_descriptors(box: Box) -> None:
    code, output = await box.run(
        Disturbed(lambda _tries: None), "for fd in /proc/self/fd/*; do echo ${fd##*/}; done"
    )
    assert code == 0
    assert set(output.split()) <= {"0", "1", "2", "3"}  # the last one is the folder that is being listed


def launch_in(base: Path, script: str) -> Launch:
    workspace = base / "ws"
    return Bubblewrap(shutil.which("bwrap") or "bwrap").confined(
        ["/bin/sh", "-c", script], cwd=str(workspace), confinement=Confinement(writable=(str(workspace),))
    )


class Shut:
    """A gate that nobody opens."""

    def __init__(self, problem: str) -> None:
        self.closed = 0
        self._problem = problem

    async def opened(self, _limits: object, _ready: object) -> None:
        raise NeverRan(self._problem)

    def close(self) -> None:
        self.closed += 1


def telling(launch: Launch, tell: Callable[[int], None]) -> Launch:
    """One that tells which process was started."""

    def within(starting: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        popen = starting() if launch.within is None else launch.within(starting)
        tell(popen.pid)
        return popen

    return launch._replace(within=within)


async def test_what_is_held_back_never_runs_and_nothing_of_it_is_left(box: Box) -> None:
    launch = launch_in(box.base, RUNS)
    real, shut, ended = launch.gate, Shut("it looks odd"), []
    delivered = bytearray()
    with pytest.raises(HeldBack) as held_back:
        await start(
            box.processes,
            launch._replace(gate=shut),
            cwd="/",
            env={},
            on_output=delivered.extend,
            ended=lambda: ended.append(1),
        )
    real.close()
    launch.ended()
    assert (held_back.value.said, bytes(delivered), ended) == (b"it looks odd\n", b"", [1])
    assert shut.closed
    assert held_back.value.process.returncode == -signal.SIGKILL
    assert not (box.workspace / "runs").exists()


async def test_a_cancelled_start_leaves_nothing(box: Box) -> None:
    launch = launch_in(box.base, RUNS)
    at_the_gate = asyncio.Event()

    class Waiting(Shut):
        async def opened(self, _limits: object, _ready: object) -> None:
            at_the_gate.set()
            await asyncio.Event().wait()

    ended: list[int] = []
    starting = asyncio.create_task(
        start(
            box.processes,
            launch._replace(gate=Waiting("")),
            cwd="/",
            env={},
            on_output=lambda _chunk: None,
            ended=lambda: ended.append(1),
        )
    )
    await at_the_gate.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    launch.gate.close()
    launch.ended()
    assert ended == [1]
    assert not (box.workspace / "runs").exists()


async def test_more_than_a_pipe_of_this_user_holds_is_told_too() -> None:
    options = ["x" * 4_000] * 600
    told = bytearray()

    def tell(gate: Gate) -> None:
        drop_capabilities()  # with which there would be no limit
        try:
            with pytest.raises(NeverRan):
                asyncio.run(gate.mounted())
        finally:
            gate.close()

    gate = Gate(options, ExpectedMounts(*[frozenset()] * 3, {}, frozenset()))
    teller = threading.Thread(target=tell, args=(gate,))
    teller.start()
    while chunk := await asyncio.to_thread(os.read, int(gate.arguments[1]), 1 << 20):
        told += chunk
    for fd in gate.theirs:
        os.close(fd)  # nobody is left to read: it goes on
    teller.join(60)
    assert told.decode().split("\0") == options


def test_a_thread_does_one_last_thing() -> None:
    done = SimpleQueue[int]()
    thread = HeldThread(lambda: None)

    def last() -> None:
        done.put(threading.get_ident())

    thread.end(last)
    assert done.get_nowait() == threading.get_ident()
    thread(lambda: subprocess.Popen(["/bin/true"])).wait()
    thread.end(last)
    assert done.get(timeout=60) != threading.get_ident()


_ENGINE = """
import asyncio, os, sys
from bridle.base.process.processes import Processes
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import Confinement

async def main(program, workspace):
    launch = Bubblewrap(program).confined(
        ["/bin/sh", "-c", "echo run > runs"], cwd=workspace, confinement=Confinement(writable=(workspace,))
    )
    process = await Processes().start(
        launch.argv, cwd="/", env={}, on_output=lambda chunk: None, pass_fds=launch.pass_fds, within=launch.within
    )
    for fd in launch.pass_fds:
        os.close(fd)
    print((await launch.gate.mounted())[0], flush=True)
    await process.wait()

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_command_at_the_gate_does_not_run_because_the_engine_was_killed(tmp_path: Path) -> None:
    workspace = Path(os.path.realpath(tmp_path)) / "ws"
    workspace.mkdir()
    engine = subprocess.Popen(
        [sys.executable, "-c", _ENGINE, shutil.which("bwrap") or "bwrap", str(workspace)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    with engine, os.fdopen(os.pidfd_open(int(engine.stdout.readline())), "rb") as waiting:
        engine.kill()
        gone = select.poll()
        gone.register(waiting, select.POLLIN)
        assert gone.poll(10_000)
    assert not (workspace / "runs").exists()


_LATE_ENGINE = """
import asyncio, os, sys
from bridle.base.process.processes import Processes
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import Confinement

async def main(program, workspace, told):
    launch = Bubblewrap(program).confined(
        ["/bin/sh", "-c", "echo run > runs"], cwd=workspace, confinement=Confinement(writable=(workspace,))
    )
    process = await Processes().start(
        launch.argv, cwd="/", env={}, on_output=lambda chunk: None, pass_fds=launch.pass_fds, within=launch.within
    )
    for fd in launch.pass_fds:
        os.close(fd)
    if told:
        asyncio.ensure_future(launch.gate.mounted())
        await asyncio.sleep(0)
    print(process.pid, flush=True)
    await process.wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("told", ["", "told"])
def test_nothing_of_a_sandbox_stays_that_comes_to_itself_after_its_engine_was_killed(
    tmp_path: Path, told: str
) -> None:
    """Nobody else is there to end it: the guardian was killed, too."""
    workspace = Path(os.path.realpath(tmp_path)) / "ws"
    workspace.mkdir()
    os.mkfifo(tmp_path / "go")
    life = SignOfLife(tmp_path)
    late = tmp_path / "late"
    late.write_text(
        f'#!/bin/sh\nexec 9>{tmp_path}/alive\nread -r _ < {tmp_path}/go\nexec {shutil.which("bwrap")} "$@"\n'
    )
    late.chmod(0o755)
    engine = subprocess.Popen(
        [sys.executable, "-c", _LATE_ENGINE, str(late), str(workspace), told],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    with engine:
        engine.stdout.readline()
        kill_together(engine)
    (tmp_path / "go").write_text("\n")
    assert life.ends_within(10)
    life.close()
    assert not (workspace / "runs").exists()
