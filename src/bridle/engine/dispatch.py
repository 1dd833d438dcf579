"""The calls of one step, run by run: order for people, results for the model, exactly one result per call.

Consecutive `parallel_safe` calls form one run; any other call is a run of its own; runs go in order. Inside a run
the gates let one call through at a time, so questions stay ordered; then the calls run together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from bridle.base.clock import Clock
from bridle.engine.deltas import ProgressWriter
from bridle.engine.journal import Journal
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import Concurrency, RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import (
    EndCause,
    IdentityClass,
    RequestedCall,
    ToolCallRequested,
    ToolResult,
    TurnStop,
)


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an input: rejected by `blocked_by` with `message`, or accepted with `context` added."""

    blocked_by: str = ""
    message: str = ""
    context: str = ""


class Watcher(Protocol):
    """Protocol for session observers such as hooks. An observer may reject an input; it hears of the rest when it is
    in the log. Raises: nothing; it reports its own faults."""

    async def input_submitted(self, prompt: str) -> Submitted: ...
    async def tool_ended(self, call: ToolCall, result: ToolResult) -> None: ...
    async def turn_ended(self, stop: TurnStop, reason: str | None = None) -> None: ...
    async def session_ended(self, cause: EndCause) -> None: ...


BY_PERSON = 0
"""The step of a call that no model asked for: it came with somebody's input."""
MAX_NAMED = 20
"""How many of the files that a command may have changed are named."""


class ToolLayers(msgspec.Struct, frozen=True, kw_only=True):
    """The layers around a tool, outermost first. Between the two groups the calls of a run wait for each other."""

    one_at_a_time: tuple[ToolLayer, ...]
    together: tuple[ToolLayer, ...]

    def around(self, execute: RunTool) -> RunTool:
        run = execute
        for layer in reversed(self.together):
            run = _behind(layer, run)
        run = _behind(_through_the_gate, run)
        for layer in reversed(self.one_at_a_time):
            run = _behind(layer, run)
        return run


def _behind(layer: ToolLayer, proceed: RunTool) -> RunTool:
    def run(call: ToolCall) -> Awaitable[ToolOutput]:
        return layer(call, proceed)

    return run


async def _through_the_gate(call: ToolCall, proceed: RunTool) -> ToolOutput:
    await call.passed_gates()
    return await proceed(call)


def runs(
    calls: Sequence[RequestedCall], concurrency: Callable[[str, dict[str, Any]], Concurrency]
) -> list[list[RequestedCall]]:
    """Groups calls: neighbours that are `parallel_safe` together, every other one alone."""
    grouped: list[list[RequestedCall]] = []
    joining = False
    for call in calls:
        safe = concurrency(call.tool, call.input) == "parallel_safe"
        if safe and joining:
            grouped[-1].append(call)
        else:
            grouped.append([call])
        joining = safe
    return grouped


class Dispatcher:
    """Runs the calls of a step through the layers and writes their results."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        stopwatch: Stopwatch,
        run_tool: RunTool,
        concurrency: Callable[[str, dict[str, Any]], Concurrency],
        watcher: Watcher | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._stopwatch = stopwatch
        self._run_tool = run_tool
        self._concurrency = concurrency
        self._watcher = watcher

    async def run(
        self, calls: Sequence[RequestedCall], *, step: int, identity: IdentityClass
    ) -> list[ToolResult]:
        """The results in the order the model asked. When cancelled, calls that did not start say so."""
        results: dict[str, ToolResult] = {}
        try:
            for group in runs(calls, self._concurrency):
                for call in group:
                    await self._journal.record(
                        ToolCallRequested(call_id=call.call_id, tool=call.tool, input=call.input, step=step)
                    )
                await self._run_group(group, step, identity, results)
        finally:
            for call in calls:
                if call.call_id not in results:
                    self._conclude(call, _not_run(call), None, results)
        return [results[call.call_id] for call in calls]

    async def run_alone(
        self, call_id: str, tool: str, given: dict[str, Any], identity: IdentityClass
    ) -> ToolResult:
        """A call no model asked for. A person who typed it is not asked about it; an agent's is like any other."""
        call = RequestedCall(call_id=call_id, wire_id="", tool=tool, input=given)
        (result,) = await self.run((call,), step=BY_PERSON, identity=identity)
        return result

    async def _run_group(
        self,
        group: Sequence[RequestedCall],
        step: int,
        identity: IdentityClass,
        results: dict[str, ToolResult],
    ) -> None:
        if len(group) == 1:
            await self._run_one(group[0], step, identity, _open_gate, results)
            return
        gate = _Gate(len(group))

        async def enter(index: int, requested: RequestedCall) -> None:
            await gate.turn_of(index)
            try:
                await self._run_one(requested, step, identity, lambda: gate.passed(index), results)
            finally:
                gate.left(index)

        async with asyncio.TaskGroup() as tasks:
            for index, requested in enumerate(group):
                tasks.create_task(enter(index, requested))

    async def _run_one(
        self,
        requested: RequestedCall,
        step: int,
        identity: IdentityClass,
        passed_gates: Callable[[], Awaitable[None]],
        results: dict[str, ToolResult],
    ) -> None:
        begun = self._clock.monotonic()

        async def begin() -> None:
            """Nothing counts as running before the gates: a person may have thought for an hour."""
            nonlocal begun
            await passed_gates()
            begun = self._clock.monotonic()

        progress = ProgressWriter(self._journal, self._clock, requested.call_id)
        call = ToolCall(
            id=requested.call_id,
            name=requested.tool,
            input=requested.input,
            step=step,
            originator=self._journal.originator,
            identity=identity,
            invocation=self._journal.invocation,
            by_person=step == BY_PERSON and identity == "human",
            problem=requested.problem,
            write=progress.write,
            passed_gates=begin,
            partial=[],
        )
        try:
            with self._stopwatch.measure(f"tool.{call.name}"):
                output = await self._run_tool(call)
        except asyncio.CancelledError:
            ran_ms = self._elapsed_ms(begun)
            self._conclude(requested, self._cancelled(call, ran_ms), ran_ms, results)
            raise
        except StoreError:
            raise
        except Exception as fault:  # noqa: BLE001  the boundary: a broken tool fails its call, not the turn
            output = _crashed(call, fault)
        finally:
            progress.stop()
        number = await self._concluded(requested, output, self._elapsed_ms(begun), results)
        if call.begun and call.begun[-1].mutating:
            self._journal.owe(number)
        if self._watcher is not None:
            await self._journal.committed()
            await self._watcher.tool_ended(call, results[call.id])

    async def _concluded(
        self, call: RequestedCall, output: ToolOutput, duration_ms: int, results: dict[str, ToolResult]
    ) -> int:
        """`_conclude` that lets others go on meanwhile. Cancelled, it is done all the same: what ran has its result."""
        result = results[call.call_id] = _result(call, output, duration_ms)
        try:
            return await self._journal.record(result)
        except asyncio.CancelledError:
            self._journal.emit(result)
            raise

    def _conclude(
        self,
        call: RequestedCall,
        output: ToolOutput,
        duration_ms: int | None,
        results: dict[str, ToolResult],
    ) -> int:
        result = results[call.call_id] = _result(call, output, duration_ms)
        return self._journal.emit(result)

    def _cancelled(self, call: ToolCall, ran_ms: int) -> ToolOutput:
        """A command that had begun may have changed something: the model is told what can be known of that."""
        began = call.begun[-1] if call.begun else None
        if began is not None and began.mutating and began.definition.risk == "shell":
            files = _written(began, self._journal.conversation.cwd)
            reason, data = "BashCancelledMidCommand", {"duration_s": f"{ran_ms / 1000:.1f}", "files": files}
        else:
            reason, data = "ToolCancelled", {"tool": call.name}
        text = "".join((*call.partial, sentence(reason, data)))
        return ToolOutput(outcome="cancelled", reason=reason, content=text)

    def _elapsed_ms(self, begun: float) -> int:
        return round((self._clock.monotonic() - begun) * 1000)


class _Gate:
    """Lets the calls of one run through the gates in order, and on together once all have been decided."""

    def __init__(self, count: int) -> None:
        self._turns = [asyncio.Event() for _ in range(count)]
        self._decided = [False] * count
        self._all_decided = asyncio.Event()
        self._turns[0].set()

    async def turn_of(self, index: int) -> None:
        await self._turns[index].wait()

    async def passed(self, index: int) -> None:
        self.left(index)
        await self._all_decided.wait()

    def left(self, index: int) -> None:
        """Call `index` passed or was refused; the next one may come."""
        self._decided[index] = True
        if index + 1 < len(self._turns):
            self._turns[index + 1].set()
        if all(self._decided):
            self._all_decided.set()


async def _open_gate() -> None:
    """A run of one call waits for nobody."""


def _result(call: RequestedCall, output: ToolOutput, duration_ms: int | None) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        tool=call.tool,
        outcome=output.outcome,
        content=output.content,
        reason=output.reason,
        shown=output.shown,
        metadata=output.metadata,
        evidence=output.evidence,
        duration_ms=duration_ms if output.outcome not in ("denied", "blocked") else None,
    )


def _not_run(call: RequestedCall) -> ToolOutput:
    return ToolOutput(
        outcome="cancelled",
        reason="ToolCancelled",
        content=sentence("ToolCancelled", {"tool": call.tool}) + " It was not run.",
    )


def _written(call: ToolCall, cwd: str) -> str:
    """The files a command is known to write, as far as it names them."""
    paths = [
        subject.resolved.removeprefix(f"{cwd}/")
        for subject in (*call.subjects, *call.named)
        if subject.kind == "path" and subject.access == "write"
    ]
    named = list(dict.fromkeys(paths))
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return ", ".join(named[:MAX_NAMED]) + more if named else "not known"


def _crashed(call: ToolCall, fault: Exception) -> ToolOutput:
    problem = f"{type(fault).__name__}: {fault}"
    return ToolOutput(
        outcome="error",
        reason="ToolCrashed",
        content=sentence("ToolCrashed", {"tool": call.name, "problem": problem}),
    )
