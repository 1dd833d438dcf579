"""Start processes, and make sure that none is left behind. No other module starts one.

Every process leads a session (so a process group) of its own. The group is signalled, never the child
alone, and it is signalled before its leader is reaped: until then the kernel cannot give the same number to
somebody else.

A process that moves itself to another session escapes the group. `escapees` finds it, for a `Processes` that adopts
orphans; a sandbox with a process namespace lets none go in the first place.

Two neighbours start some too: `guardian`, which ends what we leave behind, and `asked_for`, for programs that belong to
a person and not to us.

CannotStart   the program or its folder is missing, or the system refused
"""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec

from bridle.base.fs import placeholders as stand_ins
from bridle.base.process.escapees import MARK, EndedCall, Escapees, ProcessRecord, adopt, is_witness
from bridle.base.process.guardian import ControlGroupKeeper, Guardian
from bridle.base.process.own_process import close_to_others, mark_what_we_start

if TYPE_CHECKING:
    from bridle.base.process.duplex import InputPipe

Output = Callable[[bytes], "asyncio.Future[None] | None"]
"""Takes a piece of output. Nothing more is read before what it returns is done."""
Starting = Callable[[], "subprocess.Popen[bytes]"]
Within = Callable[[Starting], "subprocess.Popen[bytes]"]
"""Calls what it is given, in a thread of its choosing: what that thread has given up, the process never has.

It may be a `Witness` too: then it is asked which processes are of the making of the one it started.
"""
Reason = Literal[
    "not found",
    "not executable",
    "no such folder",
    "invalid argument",
    "too long",
    "no resources",
    "no sandbox",
    "sandbox lost",
    "no network filter",
    "the state folder cannot be written",
]

_CHUNK = 64 * 1024
_READS_PER_TURN = 4
"""How much one readiness callback reads before it gives the other tasks of the loop their turn."""
_DRAIN_S = 0.1
"""How long a grandchild may keep the pipe open once the direct child is gone."""
_LAST_READS = 16
"""After that, at most what a full pipe can hold is still read."""
_SCARCE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_MOST_DEATHS, _DEATHS_S = 3, 60.0
"""So many guardians that died in so many seconds are replaced at once; then the next command brings one, or time."""
_FIRST_LOOK_S, _LAST_LOOK_S = 0.001, 0.3
"""How soon and how long it is looked again whether something of a process is still dying; each time twice as late."""


class CannotStart(Exception):
    """No process was started. `reason` is stable and reads as the end of a sentence."""

    def __init__(self, argv0: str, reason: Reason) -> None:
        super().__init__(f"cannot start {argv0}: {reason}")
        self.argv0 = argv0
        self.reason: Reason = reason


def is_scarce(error: BaseException) -> bool:
    """Whether this machine just had too little of something. What failed by it may work in a moment."""
    if isinstance(error, CannotStart):
        return error.reason == "no resources"
    return isinstance(error, OSError) and error.errno in _SCARCE


class CompletedProgram(msgspec.Struct, frozen=True):
    """How a small program ended. `truncated`: it wrote more than was kept; the rest was read and dropped."""

    returncode: int
    output: bytes
    error: bytes
    timed_out: bool
    truncated: bool


class ProcessGroup:
    """A running process group. Whoever started it stops it: use `async with`, or `stop()` in a `finally`.

    Cancelling a task inside `wait()` only cancels the waiting.
    """

    def __init__(
        self,
        popen: "subprocess.Popen[bytes]",
        finished: Callable[["ProcessGroup"], None],
        ended: Callable[[], None] | None = None,
        hunt: Callable[[], bool] = lambda: False,
        terminate: Callable[[int], bool] | None = None,
    ) -> None:
        self.pid = popen.pid
        self.returncode: int | None = None
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self._pipes: dict[int, Output] = {}
        self._input: tuple[int, memoryview] | None = None
        self._inlet: InputPipe | None = None
        self._output: int | None = None
        self._on_output_end: Callable[[], None] | None = None
        self._exited = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._failure: Exception | None = None
        self._on_finished = finished
        self._on_ended = ended
        self._hunt = hunt
        self._terminate = terminate
        self._finishing = False

    async def wait(self) -> int:
        """The exit code (negative: the signal), once the process is gone and its output has been delivered.

        Raises what an output callback raised; the process is killed then.
        """
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure
        assert self.returncode is not None
        return self.returncode

    async def stop(self, grace_s: float = 0.3) -> None:
        """End the whole group: SIGTERM, SIGKILL after `grace_s`. Returns when it is reaped.

        Harmless when it has ended, and when called again or by several tasks. If the caller is cancelled
        meanwhile, the group is killed at once.
        """
        if self._ended.is_set():
            return
        if self._terminate is None or not self._terminate(self.pid):
            self.signal_group(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._ended.wait()
        except TimeoutError:
            pass
        finally:
            self.signal_group(signal.SIGKILL)
        await self._ended.wait()

    def signal_group(self, number: int) -> None:
        """Send a signal to every process of the group; nothing happens once it has ended."""
        if not self._ended.is_set():
            # No such process: it just ended. No permission: the rest of the group runs as somebody else.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def __aenter__(self) -> "ProcessGroup":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # The rest runs as callbacks of the loop.

    def when_output_ends(self, ended: Callable[[], None]) -> None:
        """Call this when it has no output any more, whether it still runs or not; at once where that is so already."""
        self._on_output_end = ended
        if self._output not in self._pipes:
            ended()

    def attach(self, pipes: Mapping[int, Output], stdin: "tuple[int, bytes | InputPipe] | None") -> None:
        """Read `pipes` into their callbacks and feed `stdin`; the descriptors belong to this object from
        here on."""
        self._output = next(iter(pipes))
        for fd, deliver in pipes.items():
            os.set_blocking(fd, False)
            self._pipes[fd] = deliver
            self._loop.add_reader(fd, self._read, fd)
        if stdin is not None:
            fd, data = stdin
            if not isinstance(data, bytes):
                self._inlet = data
                data.open(fd)
                return
            os.set_blocking(fd, False)
            self._input = fd, memoryview(data)
            self._loop.add_writer(fd, self._write)

    def watch(self, pidfd: int | None) -> None:
        """Notice the exit without reaping, through `pidfd` or else a thread."""
        if pidfd is not None:
            self._loop.add_reader(pidfd, self._pidfd_ready, pidfd)
        else:
            threading.Thread(target=self._wait_in_thread, name=f"wait-{self.pid}", daemon=True).start()

    def _pidfd_ready(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._child_gone()

    def _wait_in_thread(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop closed first
            self._loop.call_soon_threadsafe(self._child_gone)

    def _read(self, fd: int, most: int = _READS_PER_TURN) -> None:
        deliver = self._pipes[fd]
        for _ in range(most):
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._close_pipe(fd)
                return
            try:
                taken = deliver(chunk)
            except Exception as error:  # noqa: BLE001  not ours: handed to whoever waits
                self.fail(error)
                return
            if isinstance(taken, asyncio.Future) and most == _READS_PER_TURN:
                self._loop.remove_reader(fd)
                taken.add_done_callback(lambda _taken: self._read_again(fd))
                return

    def _read_again(self, fd: int) -> None:
        if fd in self._pipes:
            self._loop.add_reader(fd, self._read, fd)

    def fail(self, error: Exception) -> None:
        """An output callback is broken: nobody can follow this process any more, so it ends. `wait` raises it."""
        self._failure = self._failure or error
        self.signal_group(signal.SIGKILL)
        for fd in list(self._pipes):
            self._close_pipe(fd)

    def _write(self) -> None:
        assert self._input is not None
        fd, rest = self._input
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not want the rest
            rest = rest[:0]
        self._input = fd, rest
        if not rest:
            self._close_input()

    def _close_input(self) -> None:
        if self._input is not None:
            fd, _ = self._input
            self._input = None
            self._loop.remove_writer(fd)
            os.close(fd)
        if self._inlet is not None:
            self._inlet.end()

    def _close_pipe(self, fd: int) -> None:
        if self._pipes.pop(fd, None) is not None:
            self._loop.remove_reader(fd)
            os.close(fd)
            if fd == self._output and self._on_output_end is not None:
                self._on_output_end()
        self._finish_if_quiet()

    def _child_gone(self) -> None:
        self._exited = True
        self._close_input()
        if self._pipes:
            self._drain_timer = self._loop.call_later(_DRAIN_S, self._give_up_draining)
        self._finish_if_quiet()

    def _give_up_draining(self) -> None:
        """Something else holds the pipe: kill it, keep what it wrote so far."""
        self.signal_group(signal.SIGKILL)
        for fd in list(self._pipes):
            if fd in self._pipes:  # a failing callback closes them all
                self._read(fd, _LAST_READS)
        for fd in list(self._pipes):
            self._close_pipe(fd)

    def _finish_if_quiet(self) -> None:
        if not self._exited or self._pipes or self._finishing:
            return
        self._finishing = True
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self.signal_group(signal.SIGKILL)  # whatever it left running in the background
        self._finish(_FIRST_LOOK_S)

    def _finish(self, next_look_s: float) -> None:
        if self._hunt() and next_look_s < _LAST_LOOK_S:
            self._loop.call_later(next_look_s, self._finish, next_look_s * 2)
            return
        self._on_finished(self)
        self.returncode = self._popen.wait()  # it has exited: this only reaps
        self._ended.set()
        if self._on_ended is not None:
            self._on_ended()


class Processes:
    """Starts processes and answers for them: none survives this object, nor our own process, however it dies.

    Belongs to one event loop. `exit_watch` says how an exit is noticed; "pidfd" falls back to "thread" by
    itself. `adopts_orphans`: a process that escaped from its group dies with the call it came from, too, and nothing
    that runs as the same person can look into our own. This is for programs that start all their processes through
    this one object; every process finds a mark in its environment. `guardian_died` hears when somebody killed the one
    that would end what runs after our own death, and whether another took over; none does for a while where they die
    again and again, which is said once. `records` is a folder in which adopting ones leave a record for whoever comes
    after a kill of us and of it (see `left_behind`).
    """

    def __init__(
        self,
        *,
        exit_watch: Literal["pidfd", "thread"] = "pidfd",
        adopts_orphans: bool = False,
        records: str = "",
        guardian_died: Callable[[bool], None] = lambda _replaced: None,
    ) -> None:
        self._exit_watch = exit_watch
        self._guardian_died = guardian_died
        self._adopts_orphans = adopts_orphans
        self._escapees: Escapees | None = None
        self._mark = ""
        self._records = records
        self._record: ProcessRecord | None = None
        self._started = 0
        self._running: dict[int, ProcessGroup] = {}
        self._guardian: Guardian | None = None
        self._keepers: dict[str, ControlGroupKeeper] = {}
        self._deaths: list[float] = []
        self._next_guardian: asyncio.TimerHandle | None = None
        self._places: dict[str, int] = {}
        self._listed = b""
        self._closed = False

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_output: Output,
        on_error: Output | None = None,
        stdin: "bytes | InputPipe | None" = None,
        pass_fds: Sequence[int] = (),
        within: Within | None = None,
        ended: Callable[[], None] | None = None,
        terminate: Callable[[int], bool] | None = None,
        spares_daemons: bool = False,
    ) -> ProcessGroup:
        """Start `argv` in `cwd` with exactly `env` (its PATH finds the program; a mark is added where orphans are
        adopted); raises `CannotStart`.

        Output arrives as it is written, in pieces of at most 64 KB, as fast as it is taken; nothing is kept. Without
        `on_error`, stderr goes to `on_output`, in the order written. `stdin` is sent and closed; None means an empty
        one, an `InputPipe` one that stays open. `pass_fds` are open in the process under the same numbers, and stay the
        caller's. `within` makes the call that starts it. `ended` is called once nothing of it runs any more.
        `terminate` asks it to end in place of SIGTERM to the group, and says whether it could. `spares_daemons`: what
        of it begins a session of its own is left alone when it ends, as a shell would; for programs of the person's.
        """
        if self._closed:
            raise RuntimeError("these processes are closed")
        if not argv:
            raise ValueError("argv needs at least the program")
        if not self._started:
            self._adopt()
        self._tell_guardian()  # that there is one to look after what is started now
        self._started += 1
        mark = f"{self._mark}.{self._started}"
        if self._escapees is not None and not spares_daemons:
            env = {**env, MARK: mark}
        pipes = _Pipes(on_output, on_error, stdin)
        popen = _spawn(argv, cwd, env, pipes, pass_fds, within)
        call = EndedCall(popen.pid, mark, within if is_witness(within) else None)
        process = ProcessGroup(popen, self._forget, ended, partial(self._hunt, call), terminate)
        self._running[process.pid] = process
        with contextlib.suppress(CannotStart):  # it has just gone; the next start needs another one
            self._tell_guardian()
        process.attach(pipes.ours, pipes.input)
        process.watch(self._open_pidfd(process.pid))
        return process

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes | None = None,
        timeout_s: float,
        max_output_bytes: int,
    ) -> CompletedProgram:
        """Run a small program to its end, or stop it after `timeout_s`; raises `CannotStart`.

        Of stdout and of stderr the first `max_output_bytes` each are kept.
        """
        output, error = _Head(max_output_bytes), _Head(max_output_bytes)
        timed_out = False
        async with await self.start(
            argv, cwd=cwd, env=env, on_output=output.add, on_error=error.add, stdin=stdin
        ) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    await process.wait()
            except TimeoutError:
                timed_out = True
                await process.stop()
            returncode = await process.wait()
        truncated = output.truncated or error.truncated
        return CompletedProgram(returncode, bytes(output.data), bytes(error.data), timed_out, truncated)

    def leave_to_guardian(self, places: Iterable[str]) -> None:
        """Should we be killed, the stand-ins at these paths are taken away, if they are made after this."""
        if new := [path for path in places if path not in self._places]:
            self._places.update(dict.fromkeys(new, time.time_ns()))
            self._listed = stand_ins.listed(self._places)
            if self._guardian is not None:
                self._guardian.leave(self._listed)
                self._guardian.tell(self._running)

    def keep(self, group: str, take: Callable[[int], None]) -> None:
        """Should we be killed, everything in this control group ends. `take` puts a process into it."""
        known = self._keepers.get(group)
        if known is not None:
            if not known.is_gone:
                return
            known.end()
            del self._keepers[group]
        with contextlib.suppress(OSError):  # then the guardian is alone
            self._keepers[group] = keeper = ControlGroupKeeper(group)
            take(keeper.pid)

    async def close(self) -> None:
        """Stop everything that still runs, then the guardian. Idempotent; nothing can be started
        afterwards."""
        self._closed = True
        await asyncio.gather(*(process.stop() for process in list(self._running.values())))
        while self._keepers:
            self._keepers.popitem()[1].end()
        if self._next_guardian is not None:
            self._next_guardian.cancel()
        if self._guardian is not None:
            asyncio.get_running_loop().remove_reader(self._guardian.gone)
            self._guardian.close()
            self._guardian = None
        if self._record is not None:
            self._record.close()
            self._record = None

    def _adopt(self) -> None:
        if not self._adopts_orphans:
            return
        close_to_others()  # not sooner: what it takes is loaded now anyway
        mark_what_we_start()
        if adopt():
            self._escapees = Escapees()
            self._mark = os.urandom(12).hex()
            if self._records:
                with contextlib.suppress(OSError):  # nobody will look then
                    self._record = ProcessRecord(self._records, self._mark)

    def _hunt(self, call: EndedCall) -> bool:
        if self._escapees is None:
            return False
        ours = set(self._running).union(keeper.pid for keeper in self._keepers.values())
        if self._guardian is not None:
            ours.add(self._guardian.pid)
        return self._escapees.hunt(call, ours)

    def _forget(self, process: ProcessGroup) -> None:
        # Before the leader is reaped, so that the guardian never knows a number that is free again.
        del self._running[process.pid]
        with contextlib.suppress(CannotStart):
            self._tell_guardian()

    def _tell_guardian(self) -> None:
        """Raises `CannotStart` where there is none, or somebody killed it, and no other can take over all groups."""
        if self._guardian is None:
            self._start_guardian()
        elif not self._guardian.tell(self._running):
            self._bury_guardian()
            self._take_over()

    def _start_guardian(self) -> None:
        try:
            self._guardian = Guardian(self._mark, self._running, self._listed)
        except OSError as error:
            raise cannot_start("/bin/sh", error, cwd="/") from error
        asyncio.get_running_loop().add_reader(self._guardian.gone, self._replace_guardian)

    def _replace_guardian(self) -> None:
        """It died. Processes are started and counted in one go, so no group is unknown to the next one."""
        self._bury_guardian()
        if len(self._deaths) > _MOST_DEATHS:
            self._postpone_guardian()
        else:
            with contextlib.suppress(CannotStart):
                self._take_over()

    def _take_over(self) -> None:
        try:
            self._start_guardian()
        except CannotStart:
            self._postpone_guardian()
            raise
        if len(self._deaths) <= _MOST_DEATHS:
            self._guardian_died(True)

    def _postpone_guardian(self) -> None:
        if self._next_guardian is None:
            self._next_guardian = asyncio.get_running_loop().call_later(_DEATHS_S, self._try_again)
            self._guardian_died(False)

    def _try_again(self) -> None:
        self._next_guardian, self._deaths = None, []
        if self._guardian is None:
            with contextlib.suppress(CannotStart):
                self._take_over()

    def _bury_guardian(self) -> None:
        assert self._guardian is not None
        guardian, self._guardian = self._guardian, None
        loop = asyncio.get_running_loop()
        loop.remove_reader(guardian.gone)
        guardian.discard()
        self._deaths = [died_s for died_s in self._deaths if loop.time() - died_s < _DEATHS_S] + [loop.time()]

    def _open_pidfd(self, pid: int) -> int | None:
        if self._exit_watch == "thread" or not hasattr(os, "pidfd_open"):
            return None
        try:
            return os.pidfd_open(pid)
        except OSError:  # an old kernel, or no descriptor left
            return None


class _Head:
    """Keeps the first `limit` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.truncated = False
        self._limit = limit

    def add(self, chunk: bytes) -> None:
        room = self._limit - len(self.data)
        self.data += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room


class _Pipes:
    """Both ends of the pipes of one process that is about to start."""

    def __init__(self, on_output: Output, on_error: Output | None, data: "bytes | InputPipe | None") -> None:
        self.ours: dict[int, Output] = {}
        self.input: tuple[int, bytes | InputPipe] | None = None
        self.stdin = subprocess.DEVNULL
        self.stdout = subprocess.DEVNULL
        self.stderr = subprocess.STDOUT
        self._wanted = on_output, on_error, data
        self._theirs: list[int] = []

    def open(self) -> None:
        on_output, on_error, data = self._wanted
        self.stdout = self._read_into(on_output)
        if on_error is not None:
            self.stderr = self._read_into(on_error)
        if data is not None:
            self.stdin, writing = os.pipe()
            self._theirs.append(self.stdin)
            self.input = writing, data

    def _read_into(self, deliver: Output) -> int:
        reading, writing = os.pipe()
        self.ours[reading] = deliver
        self._theirs.append(writing)
        return writing

    def close_ours(self) -> None:
        for fd in self.ours:
            os.close(fd)
        if self.input is not None:
            os.close(self.input[0])

    def close_theirs(self) -> None:
        for fd in self._theirs:
            os.close(fd)


def _spawn(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    pipes: _Pipes,
    pass_fds: Sequence[int],
    within: Within | None,
) -> "subprocess.Popen[bytes]":
    def starting() -> "subprocess.Popen[bytes]":
        # No preexec_fn: without one, vfork is used and our own size does not matter.
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=pipes.stdin,
            stdout=pipes.stdout,
            stderr=pipes.stderr,
            start_new_session=True,
            pass_fds=pass_fds,
        )

    try:
        pipes.open()
        return starting() if within is None else within(starting)
    except (OSError, ValueError) as error:
        pipes.close_ours()
        raise cannot_start(argv[0], error, cwd=cwd) from error
    except BaseException:
        pipes.close_ours()
        raise
    finally:
        pipes.close_theirs()


def cannot_start(argv0: str, error: OSError | ValueError, *, cwd: str) -> CannotStart:
    """What to raise where the system refused to start something in `cwd`."""
    return CannotStart(argv0, _reason(error, cwd))


def _reason(error: OSError | ValueError, cwd: str) -> Reason:
    if isinstance(error, ValueError):  # a NUL byte, an unencodable character, an impossible variable name
        return "invalid argument"
    if not os.path.isdir(cwd):
        return "no such folder"
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return "not found"
        case errno.E2BIG | errno.ENAMETOOLONG:
            return "too long"
        case number if number in _SCARCE:
            return "no resources"
        case _:
            return "not executable"
