"""The door put on the official SDK: both eras of the protocol, one server for stdio and for HTTP.

Loaded only where Bridle serves MCP: the SDK costs most of a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bridle._version import __version__
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.mcp_server.agent_door import NAMED, AgentDoor, Tell, page_of, refused_answer, uri_template
from bridle.clients.mcp_server.agent_resources import (
    ABOUT,
    list_resources,
    listed_prompts,
    mime_type_of,
    prompt_named,
    read_resource,
)
from bridle.clients.mcp_server.agent_tools import (
    BANNER,
    TOOLS,
    AgentTool,
    ToolNames,
    object_schema,
    tool_called,
    written_name,
)
from bridle.clients.mcp_server.turn_report import TurnReport
from bridle.protocol.errors import BridleError
from bridle.protocol.queries import SlashEntry
from bridle.protocol.slash_arguments import schema_arguments
from bridle.protocol.told_outside import is_broken_part, told_outside

RESOURCE_NOT_FOUND = -32002
"""What the handshake era calls it; later it is a parameter like any other."""
_LINES_AHEAD = 200
"""So many lines of a story wait for a client that reads slowly; what is more is only in the log."""
_LISTS_MS = 60_000

Context = ServerRequestContext[Any, Any]


class OuterAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: the name its program gives itself, and the HTTP request it asks with, where there is one."""

    name: str
    request: Any = None


OpenDoor = Callable[[OuterAgent, Tell], Awaitable[AgentDoor]]
"""The door of whoever asks, made with their first request. It may wait for a person to let them in, and tells so.
Raises `BridleError`."""
DoorIfOpen = Callable[[OuterAgent], Awaitable[AgentDoor | None]]
"""The same for one who only lists what there is, which agents do while they start: nobody is waited for. None while no
person has let them in."""


def mcp_server(
    open_door: OpenDoor,
    *,
    hear_fault: Callable[[BridleError], None],
    if_open: DoorIfOpen | None = None,
    names: ToolNames = "underscore",
) -> Server[Any]:
    """The server, ready to be run over a transport. Without `if_open` nobody ever waits at this door. `hear_fault`
    hears of parts that broke, of which the agent is told no detail."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False
    handlers = _Handlers(open_door, if_open, names, hear_fault)
    hint = CacheHint(ttl_ms=_LISTS_MS, scope="private")
    server = Server[Any](
        "bridle",
        version=__version__,
        title="Bridle",
        description="Sessions of a coding agent with shell access, watched by a person.",
        instructions=BANNER,
        cache_hints={"tools/list": hint, "resources/templates/list": hint},
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=handlers.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    server.middleware.clear()  # spans of its own; ours are another feature's
    return server


def first_answer(server: Server[Any]) -> Any:
    return server.create_initialization_options(NotificationOptions())


class _Handlers:
    """The answers to requests."""

    def __init__(
        self,
        open_door: OpenDoor,
        if_open: DoorIfOpen | None,
        names: ToolNames,
        hear_fault: Callable[[BridleError], None],
    ) -> None:
        self._hear_fault = hear_fault
        self._open_door = open_door
        self._if_open = if_open
        self._tools = [_written(tool, names) for tool in TOOLS]
        self._schemas = {tool.name: tool.input_schema for tool in self._tools}
        self._subscribed: dict[tuple[int, str], AsyncExitStack] = {}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self._schemas.get(name)

    async def _door(self, ctx: Context, tell: Tell = lambda _line: None) -> AgentDoor:
        return await self._open_door(_outer_agent(ctx), tell)

    async def _door_if_open(self, ctx: Context) -> AgentDoor | None:
        return await (self._door(ctx) if self._if_open is None else self._if_open(_outer_agent(ctx)))

    @contextmanager
    def _refusals(self, code: int = types.INVALID_PARAMS) -> Generator[None]:
        """What is refused within is refused in the protocol's way, with its stable reason."""
        try:
            yield
        except BridleError as refusal:
            self._note_broken(refusal)
            told = told_outside(refusal)
            raise MCPError(code, told.message, {"reason": told.reason, "data": told.data}) from None

    def _note_broken(self, refusal: BridleError) -> None:
        if is_broken_part(refusal):
            self._hear_fault(refusal)

    # Tools

    async def list_tools(
        self, _ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        with self._refusals():
            page, following = page_of(self._tools, _cursor(params))
        return types.ListToolsResult(tools=list(page), next_cursor=following)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        with self._refusals():
            tool_called(params.name)
        async with _progress(ctx) as tell:
            try:
                door = await self._door(ctx, tell)
                answer = await door.call(params.name, params.arguments or {}, tell)
            except BridleError as refusal:
                self._note_broken(refusal)
                answer = refused_answer(refusal)  # its model reads why, and what a person would have to do
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=answer.data,
            is_error=answer.failed,
        )

    # Resources

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with self._refusals():
            door = await self._door_if_open(ctx)
            listed, following = await list_resources(door, _cursor(params))
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=one.uri,
                    name=one.name,
                    title=one.title,
                    description=one.about,
                    mime_type=one.mime_type,
                )
                for one in listed
            ],
            next_cursor=following,
        )

    async def list_templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=uri_template(kind),
                    name=kind,
                    title=title,
                    description=about,
                    mime_type=mime_type_of(kind),
                )
                for kind, (title, about) in ABOUT.items()
                if kind in NAMED
            ]
        )

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with self._refusals(_not_found(ctx)):
            door = await self._door(ctx)
            read = await read_resource(door, params.uri)
        contents = types.TextResourceContents(uri=params.uri, mime_type=read.mime_type, text=read.text)
        return types.ReadResourceResult(contents=[contents])

    # Subscriptions: of a connection that stays, or of one request whose answer is the stream

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        session, connection = ctx.session, _connection(ctx)
        key = (id(connection), params.uri)
        if key in self._subscribed:
            return types.EmptyResult()

        async def news(uri: str) -> None:
            updated = types.ResourceUpdatedNotificationParams(uri=uri)
            await session.send_notification(types.ResourceUpdatedNotification(params=updated))

        with self._refusals(_not_found(ctx)):
            watch = (await self._door(ctx)).watch
            stack = AsyncExitStack()
            await stack.enter_async_context(watch.watching([params.uri], news))
        self._subscribed[key] = stack
        connection.exit_stack.push_async_callback(self._unsubscribe, key)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        await self._unsubscribe((id(_connection(ctx)), params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, key: tuple[int, str]) -> None:
        if (stack := self._subscribed.pop(key, None)) is not None:
            await stack.aclose()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        bus = InMemorySubscriptionBus()

        async def news(uri: str) -> None:
            await bus.publish(ResourceUpdated(uri=uri))

        with self._refusals(_not_found(ctx)):
            watch = (await self._door(ctx)).watch
            watching = watch.watching(params.notifications.resource_subscriptions or (), news)
            await watching.__aenter__()
        try:
            return await ListenHandler(bus)(ctx, params)
        finally:
            await watching.__aexit__(None, None, None)

    # Prompts

    async def list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        with self._refusals():
            door = await self._door_if_open(ctx)
            prompts = () if door is None else await listed_prompts(door)
            page, following = page_of(prompts, _cursor(params))
        return types.ListPromptsResult(prompts=[_written_prompt(one) for one in page], next_cursor=following)

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        with self._refusals():
            door = await self._door(ctx)
            found = await prompt_named(door, params.name)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f'There is no prompt "{visible(params.name)[:100]}".')
        given = params.arguments or {}
        takes = [one.name for one in schema_arguments(found.args_schema)]
        if unknown := [name for name in given if name not in takes]:
            known = ", ".join(takes) or "none"
            problem = f'There is no argument "{visible(unknown[0])[:100]}" (known: {known}).'
            raise MCPError(types.INVALID_PARAMS, problem)
        behind = " ".join(filter(None, map(given.get, takes)))
        words = "\n\n".join(filter(None, (found.words, behind)))
        message = types.PromptMessage(role="user", content=types.TextContent(text=words))
        return types.GetPromptResult(description=found.description, messages=[message])


def _outer_agent(ctx: Context) -> OuterAgent:
    info = ctx.session.client_params
    name = visible_line(info.client_info.name)[:64] if info is not None else ""
    return OuterAgent(name=name, request=ctx.request)


def _written(tool: AgentTool, names: ToolNames) -> types.Tool:
    return types.Tool(
        name=written_name(tool, names),
        title=tool.title,
        description=tool.about,
        input_schema=object_schema(tool.takes),
        output_schema=object_schema(TurnReport) if tool.reports else None,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=not tool.reads,
            open_world_hint=not tool.reads,
        ),
    )


def _written_prompt(prompt: SlashEntry) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=one.name, description=one.about, required=one.required)
        for one in schema_arguments(prompt.args_schema)
    ]
    return types.Prompt(name=prompt.name, description=prompt.description, arguments=arguments)


def _cursor(params: types.PaginatedRequestParams | None) -> str:
    return (params.cursor if params is not None else None) or ""


def _not_found(ctx: Context) -> int:
    return types.INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND


def _connection(ctx: Context) -> Any:
    """The connection a request came over: what belongs to it ends with it. The SDK has no other way to it yet."""
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def _progress(ctx: Context) -> AsyncGenerator[Tell]:
    """Sends lines as progress meanwhile, in order; a client that does not read them holds nothing up."""
    lines: asyncio.Queue[str | None] = asyncio.Queue(_LINES_AHEAD)

    def tell(line: str) -> None:
        with suppress(asyncio.QueueFull):
            lines.put_nowait(line)

    async def send() -> None:
        number = 0
        while (line := await lines.get()) is not None:
            number += 1
            await ctx.session.report_progress(number, None, line)

    sending = asyncio.ensure_future(send())
    try:
        yield tell
        await lines.put(None)
        await sending
    finally:
        sending.cancel()
