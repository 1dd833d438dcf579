"""Background commands of a session: started, looked at, stopped; none outlives the session.

What they print is redacted as it comes and kept in a bounded buffer; reading takes what is new.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Sequence

from bridle.base.secrets.redacted_stream import RedactedStream
from bridle.engine.ports import Hosts, Process
from bridle.engine.tools import ToolContext
from bridle.protocol.events import BackgroundEnded, DurableEvent

MAX_JOBS = 8
KEPT_CHARACTERS = 32 * 1024


class TooManyJobs(Exception):
    """As many commands run in the background as may."""


class Job:
    """One background command. `exit_code` is None while it runs."""

    def __init__(self, name: str, command: str, call_id: str) -> None:
        self.name = name
        self.command = command
        self.call_id = call_id
        self.exit_code: int | None = None
        self.stopped = False
        self.process: Process | None = None
        self.watcher: asyncio.Task[None] | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._stream = RedactedStream(self._keep)
        self._unread = ""
        self._left_out = 0

    def feed(self, data: bytes) -> asyncio.Future[None] | None:
        return self._stream.feed(self._decode(data))

    async def end(self, exit_code: int, blocked: Callable[[str], str]) -> None:
        """It printed all it will; `blocked` says of the end of that what the sandbox kept it from."""
        self._stream.feed(self._decode(b"", final=True))
        await self._stream.end()
        if note := blocked(self._unread):
            self._keep(f"\n{note}" if self._unread and not self._unread.endswith("\n") else note)
        self.exit_code = exit_code

    def read(self) -> str:
        """What it printed since the last look."""
        text, self._unread = self._unread, ""
        left_out, self._left_out = self._left_out, 0
        return f"[… {left_out} characters left out]\n{text}" if left_out else text

    @property
    def sandbox(self) -> str:
        return self.process.sandbox if self.process is not None else ""

    @property
    def hosts(self) -> Hosts:
        """What it reached and was refused so far, where its network is filtered."""
        return self.process.hosts() if self.process is not None else {}

    @property
    def state(self) -> str:
        if self.exit_code is None:
            return "running"
        return "stopped" if self.stopped else f"exit code {self.exit_code}"

    def _keep(self, text: str) -> None:
        self._unread += text
        if (too_many := len(self._unread) - KEPT_CHARACTERS) > 0:
            self._left_out += too_many
            self._unread = self._unread[too_many:]


class Jobs:
    def __init__(self, emit: Callable[[DurableEvent], object]) -> None:
        self._emit = emit
        self._jobs: dict[str, Job] = {}

    async def start(self, context: ToolContext, argv: Sequence[str], *, cwd: str, command: str) -> Job:
        """Starts a command that goes on after its call. Raises `TooManyJobs`, and `CannotStart` as the spawn does."""
        if sum(job.exit_code is None for job in self._jobs.values()) >= MAX_JOBS:
            raise TooManyJobs
        job = Job(f"job{len(self._jobs) + 1}", command, context.call.id)
        job.process = await context.spawn(
            argv, cwd=cwd, env=context.env, policy=context.policy, call_id=context.call.id, on_output=job.feed
        )
        self._jobs[job.name] = job
        job.watcher = asyncio.create_task(self._watch(job, job.process))
        return job

    def find(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def list(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    async def stop(self, job: Job) -> None:
        """Ends a command and waits until it is gone. Harmless when it has ended."""
        if job.exit_code is None and job.process is not None and job.watcher is not None:
            job.stopped = True
            await job.process.stop()
            await asyncio.wait((job.watcher,))

    async def close(self) -> None:
        await asyncio.gather(*(self.stop(job) for job in self._jobs.values()))

    async def _watch(self, job: Job, process: Process) -> None:
        exit_code = await process.wait()
        await process.stop()
        await job.end(exit_code, process.blocked)
        for notice in process.put_aside:
            self._emit(notice)
        ended = "cancelled" if job.stopped else "ok" if job.exit_code == 0 else "error"
        self._emit(BackgroundEnded(call_id=job.call_id, outcome=ended, exit_code=job.exit_code))
