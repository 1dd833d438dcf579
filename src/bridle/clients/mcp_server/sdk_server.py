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
from bridle.base.visible import visible
from bridle.clients.mcp_server.agent_door import AgentDoor, Tell, refused_answer
from bridle.clients.mcp_server.agent_resources import (
    ABOUT,
    list_resources,
    mime_type_of,
    named_prompts,
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
from bridle.clients.mcp_server.pages import page_of
from bridle.clients.mcp_server.resource_uris import NAMED, uri_template
from bridle.clients.mcp_server.turn_report import TurnReport
from bridle.protocol.errors import BridleError

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


def mcp_server(open_door: OpenDoor, *, names: ToolNames = "underscore") -> Server[Any]:
    """The server, ready to be run over a transport."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False
    handlers = _Handlers(open_door, names)
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
    """What `initialize` is answered with."""
    return server.create_initialization_options(NotificationOptions())


class _Handlers:
    """The answers to requests."""

    def __init__(self, open_door: OpenDoor, names: ToolNames) -> None:
        self._open_door = open_door
        self._tools = [_written(tool, names) for tool in TOOLS]
        self._schemas = {tool.name: tool.input_schema for tool in self._tools}
        self._subscribed: dict[tuple[int, str], AsyncExitStack] = {}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self._schemas.get(name)

    async def _door(self, ctx: Context, tell: Tell = lambda _line: None) -> AgentDoor:
        info = ctx.session.client_params
        name = visible(info.client_info.name, newlines=False)[:64] if info is not None else ""
        return await self._open_door(OuterAgent(name=name, request=ctx.request), tell)

    # Tools

    async def list_tools(
        self, _ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        with _refusals():
            page, following = page_of(self._tools, _cursor(params))
        return types.ListToolsResult(tools=list(page), next_cursor=following)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        with _refusals():
            tool_called(params.name)
        async with _progress(ctx) as tell:
            try:
                door = await self._door(ctx, tell)
            except BridleError as refusal:
                answer = refused_answer(refusal)  # its model reads why, and what a person would have to do
            else:
                answer = await door.call(params.name, params.arguments or {}, tell)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=answer.data,
            is_error=answer.failed,
        )

    # Resources

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with _refusals():
            door = await self._door(ctx)
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
        with _refusals(_not_found(ctx)):
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

        with _refusals(_not_found(ctx)):
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

        with _refusals(_not_found(ctx)):
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
        with _refusals():
            door = await self._door(ctx)
            page, following = page_of(await named_prompts(door), _cursor(params))
        about = types.PromptArgument(
            name="arguments", description="What it is about, in words.", required=False
        )
        return types.ListPromptsResult(
            prompts=[types.Prompt(name=one.name, description=one.does, arguments=[about]) for one in page],
            next_cursor=following,
        )

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        with _refusals():
            door = await self._door(ctx)
            found = next((one for one in await named_prompts(door) if one.name == params.name), None)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f'There is no prompt "{visible(params.name)[:100]}".')
        words = "\n\n".join(filter(None, (found.words, (params.arguments or {}).get("arguments"))))
        message = types.PromptMessage(role="user", content=types.TextContent(text=words))
        return types.GetPromptResult(description=found.does, messages=[message])


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


def _cursor(params: types.PaginatedRequestParams | None) -> str:
    return (params.cursor if params is not None else None) or ""


def _not_found(ctx: Context) -> int:
    return types.INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND


def _connection(ctx: Context) -> Any:
    """The connection a request came over: what belongs to it ends with it. The SDK has no other way to it yet."""
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


@contextmanager
def _refusals(code: int = types.INVALID_PARAMS) -> Generator[None]:
    """What is refused within is refused in the protocol's way, with its stable reason."""
    try:
        yield
    except BridleError as refusal:
        data = {"reason": refusal.reason, "data": refusal.data}
        raise MCPError(code, refusal.message, data) from None


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
