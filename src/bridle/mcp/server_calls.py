"""One call of a server's tool: its deadline, its progress, and what the server asks of the user meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.untrusted import wrap
from bridle.engine.deadline import Deadline
from bridle.engine.tools import ToolContext, ToolOutput
from bridle.mcp.input_requests import NOBODY, InputReply, InputRequest, ask_person
from bridle.mcp.presented_tools import (
    LIST_RESOURCES,
    RESULT,
    CallResult,
    ResourceText,
    is_of_resources,
    tool_output,
)
from bridle.mcp.sampling_requests import SampleReply, SampleRequest, SamplingBudget, WriteSample, sample_for
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_state import ServerState
from bridle.mcp.shared_server import ServerUnavailable, ServerUser, SharedServer
from bridle.mcp.tool_lists import ListedTool
from bridle.protocol.errors import sentence
from bridle.protocol.events import ContextAdded, DurableEvent, Notice

if TYPE_CHECKING:  # it imports the package of the extra
    from bridle.mcp.server_connection import ServerConnection

UNAVAILABLE: Final = "«mcp-server-unavailable»"
MOST_S: Final = 10.0
"""A call that reports progress may take this many times as long as one that does not."""
MOST_INPUTS: Final = 8
"""The number of times that a server may ask the user for something within one call; then the call is ended."""
_MOST_RESOURCES: Final = 500
_MOST_SAMPLE_SHOWN: Final = 500


class ShowsProgress(Protocol):
    """Shows users the progress of a call until it is stopped."""

    def write(self, text: str) -> None: ...
    def stop(self) -> None: ...


class CallUse(msgspec.Struct, frozen=True, kw_only=True):
    """What calls use of their session. `progress_of` is for one call, by its id. `write_sample` asks the session's
    model for a server, within `sampling`."""

    emit: Callable[[DurableEvent], object]
    progress_of: Callable[[str], ShowsProgress]
    write_sample: WriteSample | None = None
    sampling: SamplingBudget | None = None


async def call_tool(
    server: SharedServer,
    listed: ListedTool,
    args: dict[str, Any],
    context: ToolContext,
    *,
    user: ServerUser,
    use: CallUse,
) -> ToolOutput:
    """Call a tool of a server, which is started if it does not run."""
    definition = server.definition
    try:
        connection = await server.connected()
    except ServerUnavailable as problem:
        return _unavailable(server.state(), str(problem))
    if not is_of_resources(listed) and (server.offer is None or listed not in server.offer.tools):
        data = {"name": definition.name, "tool": listed.name}
        return ToolOutput(outcome="error", reason="MCPToolChanged", content=sentence("MCPToolChanged", data))
    deadline = Deadline(context.clock, definition.call_s, most_s=definition.call_s * MOST_S)
    call = SessionCall(user, use, context, definition, deadline)
    output = await _call_within(deadline, call, connection, server, listed, args)
    if not call.put_aside:
        return output
    said = "\n".join(f"[sandbox: {notice.message}]" for notice in call.put_aside)
    return msgspec.structs.replace(output, content=f"{output.content}\n{said}")


async def _call_within(
    deadline: Deadline,
    call: SessionCall,
    connection: ServerConnection,
    server: SharedServer,
    listed: ListedTool,
    args: dict[str, Any],
) -> ToolOutput:
    context = call.context
    try:
        await server.started_call(call)
        async with deadline:
            call.work = asyncio.ensure_future(_asked(connection, listed, args, call))
            result = await call.work
    except asyncio.CancelledError:
        if not call.asked_too_much:
            raise
        return call.ended_for_asking(server, listed)
    except TimeoutError:
        data = {"tool": context.call.name, "timeout_s": f"{deadline.ran_out_s:g}"}
        return ToolOutput(outcome="timeout", reason="ToolTimeout", content=sentence("ToolTimeout", data))
    except Exception as problem:  # noqa: BLE001  sorted out below, where the package is loaded
        return _failed(server, listed, problem, mutating=context.call.mutating)
    finally:
        await server.ended_call(call)
        call.shows.stop()
    for image in result.images():
        context.emit(ContextAdded(source="mcp", content=(image,)))
    return tool_output(result, server=server.definition.name, tool=listed.name)


def _failed(server: SharedServer, listed: ListedTool, problem: Exception, *, mutating: bool) -> ToolOutput:
    from bridle.mcp.server_connection import ConnectionLost, NotConnected, ServerRefused

    name = server.definition.name
    if isinstance(problem, ServerRefused | ConnectionLost) and server.sign_in_problem:
        # The server looked at the credentials and at nothing else: the call did not run.
        data = {"name": name, "problem": server.sign_in_problem}
        server.look_again_at_sign_in()
        return ToolOutput(outcome="error", reason="MCPNotLetIn", content=sentence("MCPNotLetIn", data))
    if isinstance(problem, ServerRefused):
        return tool_output(CallResult(texts=(str(problem),), failed=True), server=name, tool=listed.name)
    if not isinstance(problem, ConnectionLost):
        raise problem
    server.lost()
    if isinstance(problem, NotConnected):
        return _unavailable(server.state(), str(problem))
    data = {"name": name, "tool": listed.name, "problem": str(problem)}
    return ToolOutput(
        outcome="unknown" if mutating else "error",
        reason="MCPCallLost",
        content=sentence("MCPCallLost", data),
    )


class SessionCall:
    """A call under way. Its deadline is paused while the user is asked something."""

    def __init__(
        self,
        user: ServerUser,
        use: CallUse,
        context: ToolContext,
        definition: ServerDefinition,
        deadline: Deadline,
    ) -> None:
        self.user = user
        self.shows = use.progress_of(context.call.id)
        self.context = context
        self.put_aside: list[Notice] = []
        self._use = use
        self._definition = definition
        self._deadline = deadline
        self._questions = self._inputs = 0
        self.work: asyncio.Future[CallResult] | None = None

    def hear_put_aside(self, notice: Notice) -> None:
        self.put_aside.append(notice)

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._deadline.touch()
        share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        self.shows.write(f"{share} {message}".rstrip() + "\n")

    @property
    def asked_too_much(self) -> bool:
        return self._inputs > MOST_INPUTS

    def ended_for_asking(self, server: SharedServer, listed: ListedTool) -> ToolOutput:
        """Return the result of a call that was ended because its server asked the user too often."""
        server.refuse_input()
        data = {"name": server.definition.name, "tool": listed.name, "count": str(MOST_INPUTS)}
        words = sentence("MCPAsksTooMuch", data)
        self._use.emit(Notice(reason="MCPAsksTooMuch", message=words, data=data))
        outcome = "unknown" if self.context.call.mutating else "error"
        return ToolOutput(outcome=outcome, reason="MCPAsksTooMuch", content=words)

    async def answer_input(self, request: InputRequest) -> InputReply:
        self._inputs += 1
        if self.asked_too_much:
            if self.work is not None:
                self.work.cancel()
            return NOBODY
        self._questions += 1
        self._deadline.allow(float("inf"))
        try:
            return await ask_person(
                request,
                self.context.ask,
                question_id=f"{self.context.call.id}-input{self._questions}",
                server=self._definition.name,
            )
        finally:
            self._deadline.allow(self._definition.call_s)

    async def answer_sample(self, request: SampleRequest) -> SampleReply:
        write, budget, name = self._use.write_sample, self._use.sampling, self._definition.name
        if write is None or budget is None:
            return SampleReply(refusal="nobody is here to agree")
        self._questions += 1
        self._deadline.allow(float("inf"))
        try:
            reply = await sample_for(
                request,
                server=name,
                question_id=f"{self.context.call.id}-sample{self._questions}",
                ask=self.context.ask,
                write=write,
                budget=budget,
            )
        finally:
            self._deadline.allow(self._definition.call_s)
        if not reply.refusal:
            data = {"name": name, "text": reply.text[:_MOST_SAMPLE_SHOWN]}
            self._use.emit(Notice(reason="MCPSampled", message=sentence("MCPSampled", data), data=data))
        return reply


async def _asked(
    connection: ServerConnection, listed: ListedTool, args: dict[str, Any], call: SessionCall
) -> CallResult:
    if not is_of_resources(listed):
        return await connection.call(listed.name, args, call.progress)
    if listed.name == LIST_RESOURCES:
        found = await connection.resources()
        return CallResult(texts=(_resource_lines(found),))
    return await connection.read(args["uri"])


def _resource_lines(found: Sequence[ResourceText]) -> str:
    lines = [
        " ".join(filter(None, (one.uri, one.kind and f"({one.kind})", one.name, one.about)))
        for one in found[:_MOST_RESOURCES]
    ]
    if len(found) > _MOST_RESOURCES:
        lines.append(f"… and {counted(len(found) - _MOST_RESOURCES, 'more')}")
    return "\n".join(lines) or "It has nothing to read."


def _unavailable(state: ServerState, problem: str) -> ToolOutput:
    if state.phase == "changed":
        words = sentence("MCPServerChanged", {"name": state.name, "problem": problem})
        return ToolOutput(outcome="error", reason="MCPServerChanged", content=f"{UNAVAILABLE} {words}")
    # What it wrote last may stand in there: nothing a server says is said to the model as ours.
    data = {"name": state.name, "problem": wrap(RESULT, problem), "attempts": str(state.failures)}
    reason = "MCPNotLetIn" if state.phase == "needs sign-in" else "MCPServerUnavailable"
    return ToolOutput(outcome="error", reason=reason, content=f"{UNAVAILABLE} {sentence(reason, data)}")
