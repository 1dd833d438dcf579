"""The servers of a session with everything that runs them: their lives, what people are asked and told, calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from bridle.base.phrases import counted
from bridle.base.threads import in_thread
from bridle.base.untrusted import wrap
from bridle.engine.deadline import Deadline
from bridle.engine.services import Health, SessionDoor
from bridle.engine.tools import Tool, ToolContext, ToolOutput
from bridle.mcp.offered_tools import OfferedTools, OfferingServer
from bridle.mcp.pin_gate import PinReview
from bridle.mcp.presented_tools import LIST_RESOURCES, is_of_resources
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_pool import ServerPool
from bridle.mcp.server_results import RESULT, CallResult, ResourceText, tool_output
from bridle.mcp.server_run import LaunchPlace
from bridle.mcp.server_state import ServerState
from bridle.mcp.shared_server import ServerUnavailable, SharedServer
from bridle.mcp.tool_lists import ListedTool
from bridle.mcp.tool_search import SearchArgs, best_matches
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import ContextAdded, Degraded, DurableEvent, MCPServerDown, Notice

if TYPE_CHECKING:
    from bridle.mcp.input_requests import InputReply, InputRequest
    from bridle.mcp.sampling_requests import SampleReply, SampleRequest, SamplingBudget, WriteSample
    from bridle.mcp.server_connection import ServerConnection

UNAVAILABLE: Final = "«mcp-server-unavailable»"
MOST_S: Final = 10.0
"""A call that tells of its progress may take so many times as long as one that does not."""
MOST_REVIEWS: Final = 3
"""So often a person is asked or told by itself that one server is another now, in one run of a session. What changes
again and again stays left out, and is in `/mcp` and `/mcp:approve`."""
MOST_INPUTS: Final = 8
"""So often a server may ask a person for something within one call; then the call is ended."""
_MOST_RESOURCES: Final = 500
_MOST_SAMPLE_SHOWN: Final = 500


class ShowsProgress(Protocol):
    """Shows people what a call is at, until it is told to stop."""

    def write(self, text: str) -> None: ...
    def stop(self) -> None: ...


class ReviewPin(Protocol):
    """Shows a person what a server is now, beside what was agreed to."""

    async def __call__(self, server: str, review: PinReview) -> bool | None:
        """Whether they agree; None where nobody can be asked or nobody came. An agent never does."""
        ...


class SessionUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the servers use of their session. `progress_of` is for one call, by its id. `write_sample` asks its model
    for a server, within `sampling`."""

    place: LaunchPlace
    emit: Callable[[DurableEvent], object]
    progress_of: Callable[[str], ShowsProgress]
    review_pin: ReviewPin
    write_sample: WriteSample | None = None
    sampling: SamplingBudget | None = None


class RunningServers:
    """The servers of a session, in the order of its settings. What the model is told of them is kept in `tools`."""

    def __init__(
        self,
        definitions: Sequence[ServerDefinition],
        pool: ServerPool,
        use: SessionUse,
        tools: OfferedTools,
        start_s: float,
    ) -> None:
        self._pool = pool
        self._use = use
        self._start_s = start_s
        self._servers = {one.name: pool.server(one, use.place) for one in definitions}
        self._tools = tools
        self._left_out: dict[str, list[tuple[str, ...]]] = {}
        self._said: dict[str, str] = {}
        self._door: SessionDoor | None = None
        self._begun = self._waited = False
        self._reviewed: dict[str, set[tuple[str, str]]] = {}
        self._reviewing: set[str] = set()
        self._reviews: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    # Beside a session

    def attach(self, door: SessionDoor) -> None:
        """Offers what is known."""
        self._door = door
        self._offer()

    def begin(self) -> None:
        """Starts those of which nothing is known. Safe to call twice."""
        if self._begun:
            return
        self._begun = True
        self._pool.use(tuple(self._servers.values()), self)
        for server in self._servers.values():
            if server.offer is None:
                server.begin()
            self.server_changed(server)

    def begin_known(self) -> None:
        """Starts the others, but those that said of themselves that it still holds: their first call does."""
        for server in self._servers.values():
            server.begin_unless_known()

    def look_for_sign_ins(self) -> None:
        """Has those tried again that let nobody in, beside a request that is out."""
        waiting = [one for one in self._servers.values() if one.state().phase == "needs sign-in"]
        if waiting and (self._looking is None or self._looking.done()):
            self._looking = asyncio.ensure_future(_begin_signed_in(waiting))

    async def stop(self) -> None:
        self._door = None
        for task in tuple(self._reviews):
            task.cancel()
        await asyncio.gather(*self._reviews, return_exceptions=True)
        if self._looking is not None:
            self._looking.cancel()
        self._pool.leave(tuple(self._servers.values()), self)

    def health(self) -> Health:
        """That of the one that is worst."""
        states = self.states()
        down = [one for one in states if one.phase in ("given up", "changed", "down", "needs sign-in")]
        if down:
            worst = next((one for one in down if one.phase != "down"), down[0])
            state = "down" if worst.phase == "down" else "given up"
            return Health(state=state, problem=f"{worst.name}: {worst.problem}")
        return Health(state="starting" if any(one.phase == "connecting" for one in states) else "up")

    def note_unpinned(self) -> None:
        """Finds out what of launches is not pinned, before anything was started. Reads files."""
        for server in self._servers.values():
            server.pins.note_unpinned()

    def states(self) -> tuple[ServerState, ...]:
        return tuple(server.state() for server in self._servers.values())

    def server_changed(self, server: SharedServer) -> None:
        """Tells people once of each trouble, and the model what is there now."""
        if self._door is None:
            return
        with suppress(StoreError):  # whoever follows the session is told of that; others use the server too
            self._say(server.state())
            self._say_left_out(server)
            self._offer()
            for review in (server.pins.launch_review, server.pins.tools_review):
                if review is not None:
                    self._begin_review(server, review)

    def server_made(self, server: SharedServer, notice: Notice) -> None:
        """Tells people at once."""
        del server
        if self._door is not None:
            with suppress(StoreError):  # as above
                self._use.emit(notice)

    def _begin_review(self, server: SharedServer, review: PinReview) -> None:
        """Puts to a person what waits for them, once for the same content and one at a time. Nobody waits for their
        answer."""
        name, asked = server.definition.name, (review.reason, review.after)
        before = self._reviewed.setdefault(name, set())
        if asked in before or name in self._reviewing or len(before) >= MOST_REVIEWS:
            return
        before.add(asked)
        self._reviewing.add(name)
        task = asyncio.create_task(self._review(server, review))
        self._reviews.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self._reviews.discard(done)
            self._reviewing.discard(name)
            self.server_changed(server)  # it may be another again by now

        task.add_done_callback(over)

    async def _review(self, server: SharedServer, review: PinReview) -> None:
        """A digest that settings expect is not asked about: whoever wants another program says so."""
        name = server.definition.name
        refused = review.reason == "MCPServerSHA256Mismatch"
        with suppress(StoreError):  # whoever follows the session is told of that
            if not refused and await self._use.review_pin(name, review) is True:
                await self.agree(server, review)
            elif self._door is not None:
                data = {"name": name, **review.data}
                self._use.emit(Notice(reason=review.reason, message=review.message, data=data))

    async def agree(self, server: SharedServer, review: PinReview) -> None:
        """What a person agreed to counts from here on, as it was shown. Raises `BridleError` where that is lost."""
        try:
            if review.launch is not None:
                await in_thread(lambda: server.pins.agree_launch(review))
            else:
                await in_thread(lambda: server.pins.agree_tools(review))
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise BridleError("TrustUnwritable", path=problem.filename or "the pins", problem=why) from None
        if review.launch is not None:
            server.begin()
        else:
            await server.look_again()

    async def review(self, server: SharedServer, review: PinReview) -> bool:
        """Asks a person at once, who wants it so. Raises `BridleError` where nobody can be asked."""
        answer = await self._use.review_pin(server.definition.name, review)
        if answer is None:
            raise BridleError("NonInteractiveAckRefused", kind=f"MCP server {server.definition.name}")
        if answer:
            await self.agree(server, review)
        return answer

    def _say(self, state: ServerState) -> None:
        name, said = state.name, self._said.get(state.name, "")
        data = {"name": name, "problem": state.problem, "attempts": str(state.failures)}
        if state.phase == "given up" and said != "given up":
            self._said[name] = "given up"
            self._use.emit(MCPServerDown(name=name, reason=state.problem, attempts=state.failures))
        elif state.phase == "down" and not said:
            self._said[name] = "down"
            lost = Degraded(
                what=f"MCP server {name}", reason="MCPServerLost", message=sentence("MCPServerLost", data)
            )
            self._use.emit(lost)
        elif state.phase == "needs sign-in" and said != "needs sign-in":
            self._said[name] = "needs sign-in"
            message = sentence("MCPNotLetIn", data)
            self._use.emit(Notice(reason="MCPNotLetIn", message=message, data=data))
        elif state.phase == "up" and said:
            del self._said[name]
            back = {"service": f"MCP server {name}"}
            self._use.emit(Notice(reason="ServiceBack", message=sentence("ServiceBack", back), data=back))

    def _say_left_out(self, server: SharedServer) -> None:
        """Names the tools that cannot be used, once for the same ones."""
        bad = server.offer.left_out if server.offer is not None else ()
        name = server.definition.name
        said = self._left_out.setdefault(name, [])
        if bad and bad not in said and len(said) < MOST_REVIEWS:
            said.append(bad)
            data = {"name": name, "count": counted(len(bad), "tool"), "problem": "; ".join(bad[:3])}
            message = sentence("MCPToolsLeftOut", data)
            self._use.emit(Notice(reason="MCPToolsLeftOut", message=message, data=data))

    def _offer(self) -> None:
        if self._door is not None:
            self._door.offer(
                self._tools.of_all(
                    OfferingServer(one.definition, one.offer, one.is_settled)
                    for one in self._servers.values()
                )
            )

    # Finding tools

    async def find(self, args: SearchArgs) -> Mapping[str, Tool]:
        """What fits, and from the next request on the model is told of it."""
        wanted = [one for one in self._servers.values() if args.server in ("", one.definition.name)]
        await asyncio.gather(*(_settled(server) for server in wanted if server.offer is None))
        tools: dict[str, Tool] = {}
        for server in wanted:
            tools |= self._tools.of_server(server.definition, server.offer)
        found = best_matches(args.query, tools)
        self._tools.told |= found.keys()
        return found

    def connecting(self, tool: str) -> SharedServer | None:
        """The server whose tool this could be, while nobody knows what that one offers."""
        for server in self._servers.values():
            if tool.startswith(f"mcp__{server.definition.part}__") and server.offer is None:
                return server
        return None

    async def wait_for(self, tool: str) -> None:
        """Returns when what the server of this tool offers is known, or it took too long."""
        if (server := self.connecting(tool)) is not None:
            await _settled(server)

    async def wait_before_first_request(self) -> None:
        """Lets a run that nobody watches have its tools: once, and not for long."""
        if self._waited:
            return
        self._waited = True
        missing = [
            one for one in self._servers.values() if one.offer is None and one.definition.discovery != "lazy"
        ]
        if not missing:
            return
        names = ", ".join(one.definition.name for one in missing)
        data = {"seconds": f"{self._start_s:g}", "names": names}
        self._use.emit(Notice(reason="MCPWaiting", message=sentence("MCPWaiting", data), data=data))
        await asyncio.gather(*(_settled(server, self._start_s) for server in missing))

    # Calls

    async def call(
        self, server: str, listed: ListedTool, args: dict[str, Any], context: ToolContext
    ) -> ToolOutput:
        return await self._call(self._servers[server], listed, args, context)

    async def _call(
        self, server: SharedServer, listed: ListedTool, args: dict[str, Any], context: ToolContext
    ) -> ToolOutput:
        definition = server.definition
        try:
            connection = await server.connected()
        except ServerUnavailable as problem:
            return _unavailable(server.state(), str(problem))
        if not is_of_resources(listed) and (server.offer is None or listed not in server.offer.tools):
            data = {"name": definition.name, "tool": listed.name}
            return ToolOutput(
                outcome="error", reason="MCPToolChanged", content=sentence("MCPToolChanged", data)
            )
        deadline = Deadline(context.clock, definition.call_s, most_s=definition.call_s * MOST_S)
        call = SessionCall(self, self._use, context, definition, deadline)
        output = await self._call_within(deadline, call, connection, server, listed, args)
        if not call.put_aside:
            return output
        said = "\n".join(f"[sandbox: {notice.message}]" for notice in call.put_aside)
        return msgspec.structs.replace(output, content=f"{output.content}\n{said}")

    async def _call_within(
        self,
        deadline: Deadline,
        call: SessionCall,
        connection: ServerConnection,
        server: SharedServer,
        listed: ListedTool,
        args: dict[str, Any],
    ) -> ToolOutput:
        context = call.context
        server.started_call(call)
        try:
            async with deadline:
                call.work = asyncio.ensure_future(_asked(connection, listed, args, call))
                result = await call.work
        except asyncio.CancelledError:
            if not call.asked_too_much:
                raise
            return self._asks_too_much(server, listed, mutating=context.call.mutating)
        except TimeoutError:
            data = {"tool": context.call.name, "timeout_s": f"{deadline.ran_out_s:g}"}
            return ToolOutput(outcome="timeout", reason="ToolTimeout", content=sentence("ToolTimeout", data))
        except Exception as problem:  # noqa: BLE001  sorted out below, where the package is loaded
            return self._failed(server, listed, problem, mutating=context.call.mutating)
        finally:
            server.ended_call(call)
            call.shows.stop()
        for image in result.images():
            context.emit(ContextAdded(source="mcp", content=(image,)))
        return tool_output(result, server=server.definition.name, tool=listed.name)

    def _failed(
        self, server: SharedServer, listed: ListedTool, problem: Exception, *, mutating: bool
    ) -> ToolOutput:
        from bridle.mcp.server_connection import ConnectionLost, NotConnected, ServerRefused

        name = server.definition.name
        if isinstance(problem, ServerRefused | ConnectionLost) and server.sign_in_problem:
            return self._not_let_in(server)
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

    def _asks_too_much(self, server: SharedServer, listed: ListedTool, *, mutating: bool) -> ToolOutput:
        server.refuse_input()
        data = {"name": server.definition.name, "tool": listed.name, "count": str(MOST_INPUTS)}
        words = sentence("MCPAsksTooMuch", data)
        self._use.emit(Notice(reason="MCPAsksTooMuch", message=words, data=data))
        outcome = "unknown" if mutating else "error"
        return ToolOutput(outcome=outcome, reason="MCPAsksTooMuch", content=words)

    def _not_let_in(self, server: SharedServer) -> ToolOutput:
        """The server looked at who asks and at nothing else: the call did not run."""
        data = {"name": server.definition.name, "problem": server.sign_in_problem}
        server.look_again_at_sign_in()
        return ToolOutput(outcome="error", reason="MCPNotLetIn", content=sentence("MCPNotLetIn", data))

    # For people

    def named(self, name: str) -> SharedServer | None:
        return self._servers.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)


class SessionCall:
    """A call under way, for which a person can be asked. While they think no time passes for it."""

    def __init__(
        self,
        user: RunningServers,
        use: SessionUse,
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

    async def answer_input(self, request: InputRequest) -> InputReply:
        from bridle.mcp.input_requests import NOBODY, ask_person

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
        from bridle.mcp.sampling_requests import SampleReply, sample_for

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


async def _begin_signed_in(servers: Sequence[SharedServer]) -> None:
    for server in servers:
        await server.begin_if_signed_in()


def _resource_lines(found: Sequence[ResourceText]) -> str:
    lines = [
        " ".join(filter(None, (one.uri, one.kind and f"({one.kind})", one.name, one.about)))
        for one in found[:_MOST_RESOURCES]
    ]
    if len(found) > _MOST_RESOURCES:
        lines.append(f"… and {counted(len(found) - _MOST_RESOURCES, 'more')}")
    return "\n".join(lines) or "It has nothing to read."


async def _settled(server: SharedServer, within_s: float | None = None) -> None:
    """Returns when it is up, or is not going to be in time."""
    try:
        await server.connected(within_s)
    except ServerUnavailable:
        return


def _unavailable(state: ServerState, problem: str) -> ToolOutput:
    if state.phase == "changed":
        words = sentence("MCPServerChanged", {"name": state.name, "problem": problem})
        return ToolOutput(outcome="error", reason="MCPServerChanged", content=f"{UNAVAILABLE} {words}")
    # What it wrote last may stand in there: nothing a server says is said to the model as ours.
    data = {"name": state.name, "problem": wrap(RESULT, problem), "attempts": str(state.failures)}
    reason = "MCPNotLetIn" if state.phase == "needs sign-in" else "MCPServerUnavailable"
    return ToolOutput(outcome="error", reason=reason, content=f"{UNAVAILABLE} {sentence(reason, data)}")
