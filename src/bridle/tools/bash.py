"""`bash`: one shell command, its output streamed as it comes, or left running in the background."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.base.fs.files import read_each
from bridle.base.process.processes import CannotStart
from bridle.engine.known_files import MAX_DIGESTED_BYTES, digests
from bridle.engine.ports import Hosts
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput
from bridle.protocol.display_values import ShownCommand
from bridle.protocol.errors import sentence
from bridle.protocol.events import BackgroundStarted
from bridle.tools.jobs import MAX_JOBS, Jobs, TooManyJobs
from bridle.tools.names import failed

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000

TAIL = 4_096
"""How much of the end of an output is kept to see what a command was kept from."""

_SHELLS = ("/bin/bash", "/usr/bin/bash")
_FALLBACK_SHELL = "/bin/sh"


class BashArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="Run with bash -c; stdin is empty.")] = ""
    workdir: Annotated[str, Meta(description="Folder to start in, relative to the workspace.")] = "."
    timeout_ms: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_MS, description="Stopped after this long.")] = (
        DEFAULT_TIMEOUT_MS
    )
    background: Annotated[
        bool, Meta(description="Leave it running and return at once with its job name.")
    ] = False
    job: Annotated[str, Meta(description="Instead of command: new output of this job, or list.")] = ""
    stop: Annotated[bool, Meta(description="With job: stop it.")] = False
    escalate: Annotated[
        str, Meta(description="Why it must run outside the sandbox, after it was blocked; asks the person.")
    ] = ""


class _Decoded:
    """Bytes in, text out; a character split between two reads stays whole. `tail` is the end of it."""

    def __init__(self, context: ToolContext) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._write = context.write
        self._line_ends = 0
        self.tail = ""

    @property
    def lines(self) -> int:
        """How many there were so far, with one that has no end."""
        return self._line_ends + (self.tail != "" and not self.tail.endswith("\n"))

    def feed(self, data: bytes) -> asyncio.Future[None] | None:
        return self._pass_on(self._decode(data))

    def end(self) -> None:
        self._pass_on(self._decode(b"", final=True))

    def _pass_on(self, text: str) -> asyncio.Future[None] | None:
        if not text:
            return None
        self._line_ends += text.count("\n")
        self.tail = text[-TAIL:] if len(text) >= TAIL else (self.tail + text)[-TAIL:]
        return self._write(text)


def bash_tool(jobs: Jobs) -> Tool:
    """The tool of one session, with that session's background commands."""

    async def bash(args: BashArgs, context: ToolContext) -> ToolOutput:
        if bool(args.command) == bool(args.job):
            return _invalid("it takes either command or job")
        try:
            if args.job:
                return await _look(args, jobs)
            if args.background:
                return await _leave_running(args, context, jobs)
            return await _run(args, context)
        except CannotStart as problem:
            lost = problem.reason == "sandbox lost"
            data = {"problem": problem.reason, "sandbox": context.spawn.adapter}
            reason = "SandboxLost" if lost else "CannotStart"
            return ToolOutput(
                outcome="blocked" if lost else "error", reason=reason, content=sentence(reason, data)
            )

    return Tool(
        name="bash",
        description=(
            "Run a shell command in the workspace and return what it prints, stdout and stderr together. Every "
            "call starts anew: no folder or variable is kept. 120 s unless timeout_ms says otherwise, 600 s at "
            "most; what still runs at its end is stopped. For servers use background, then job to look or stop."
        ),
        input=BashArgs,
        risk="shell",
        run=bash,
        concurrency="exclusive",
        mutating=_mutating,
        subjects=_subjects,
        timeout_s=lambda args: args.timeout_ms / 1000,
        side_effect="process",
        safety_notes=("runs with the rights the sandbox leaves it",),
    )


async def _run(args: BashArgs, context: ToolContext) -> ToolOutput:
    output = _Decoded(context)
    seen = await _named_files(context, "read")  # before: what changes meanwhile was perhaps not read
    process = await context.spawn(
        [_shell(context), "-c", args.command],
        cwd=context.call.resolved(args.workdir),
        env=context.env,
        policy=context.policy,
        call_id=context.call.id,
        on_output=output.feed,
    )
    try:
        exit_code = await process.wait()
    finally:
        await process.stop()  # the whole group, also when we are cancelled or out of time
        output.end()
        for notice in process.put_aside:
            context.emit(notice)
    blocked = process.blocked(output.tail)
    seen |= await _named_files(context, "write")
    shown = _shown(
        process.sandbox, process.hosts(), exit_code=exit_code, lines=output.lines, blocked=bool(blocked)
    )
    return ToolOutput(
        content=_trailer(exit_code, output.tail) + blocked,
        shown=shown,
        metadata={"seen": seen} if seen else {},
    )


def _shown(
    sandbox: str, hosts: Hosts, *, exit_code: int | None = None, lines: int = 0, blocked: bool = False
) -> ShownCommand:
    return ShownCommand(
        exit_code=exit_code,
        lines=lines,
        sandbox=sandbox,
        blocked=blocked,
        reached=tuple(hosts.get("reached", ())),
        refused=tuple(hosts.get("refused", ())),
    )


async def _named_files(context: ToolContext, access: str) -> dict[str, str]:
    """The files that the command is known to read or write, each with the digest of what it holds now."""
    named = [each.resolved for each in context.call.named if each.kind == "path" and each.access == access]
    if not named:
        return {}
    return await asyncio.to_thread(lambda: digests(read_each(named, MAX_DIGESTED_BYTES)))


async def _leave_running(args: BashArgs, context: ToolContext, jobs: Jobs) -> ToolOutput:
    argv = [_shell(context), "-c", args.command]
    try:
        job = await jobs.start(context, argv, cwd=context.call.resolved(args.workdir), command=args.command)
    except TooManyJobs:
        return _invalid(f"{MAX_JOBS} commands run in the background already; stop one first")
    context.emit(BackgroundStarted(call_id=context.call.id, command=args.command))
    return ToolOutput(
        content=f'Running in the background as {job.name}. Look with job "{job.name}".\n',
        shown=_shown(job.sandbox, {}),
    )


async def _look(args: BashArgs, jobs: Jobs) -> ToolOutput:
    if args.job == "list":
        lines = [f"{job.name}  {job.state}  {job.command}" for job in jobs.list()]
        return ToolOutput(content="\n".join(lines) + "\n" if lines else "No background commands.\n")
    job = jobs.find(args.job)
    if job is None:
        return _invalid(f'there is no job "{args.job}"; job "list" shows them')
    if args.stop:
        await jobs.stop(job)
    return ToolOutput(
        content=f"{job.read()}[{job.name}: {job.state}]\n", shown=_shown(job.sandbox, job.hosts)
    )


def _invalid(problem: str) -> ToolOutput:
    return failed("InvalidInput", tool="bash", problem=problem)


def _mutating(args: BashArgs) -> bool:
    """Looking at what the session itself started changes nothing anybody has to agree to."""
    return not args.job


def _shell(context: ToolContext) -> str:
    known = next((path for path in _SHELLS if os.access(path, os.X_OK)), None)
    if known is not None:
        return known
    import shutil  # slow to import and hardly ever needed

    return shutil.which("bash", path=context.env.get("PATH")) or _FALLBACK_SHELL


def _trailer(exit_code: int, tail: str) -> str:
    """What the model must know beyond the output itself."""
    if exit_code == 0:
        return "" if tail else "[no output]\n"
    before = "" if not tail or tail.endswith("\n") else "\n"
    if exit_code > 0:
        return f"{before}[exit code {exit_code}]\n"
    return f"{before}[killed by {_signal_name(-exit_code)}]\n"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _subjects(args: BashArgs) -> tuple[Subject, ...]:
    if args.job:
        return ()
    # The folder comes first: looked up by its value, it must not be taken for a command of the same spelling.
    return (
        Subject(kind="path", access="read", value=args.workdir),
        Subject(kind="command", access="run", value=args.command),
    )
