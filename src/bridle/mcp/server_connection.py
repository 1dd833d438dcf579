"""One connection to a server, on the `mcp` package: what it offers, calls, resources, prompts. Loaded with the first.

Everything here is in our own types: nobody else sees one of that package.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Protocol
from urllib.request import pathname2url

import mcp_types as types
import msgspec
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext

from bridle._version import __version__
from bridle.base.clock import Clock
from bridle.base.threads import in_thread
from bridle.mcp.input_requests import InputReply, InputRequest
from bridle.mcp.presented_tools import CallResult, Picture, ResourceText, decoded_bytes
from bridle.mcp.sampling_requests import SampleReply, SampleRequest
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.tool_lists import (
    MOST_TOOLS,
    ListedPrompt,
    ListedTool,
    PromptWord,
    ToolHints,
    ToolList,
    usable,
)
from bridle.mcp.transports import watched
from bridle.protocol.questions import SampledMessage

LIST_GAP_S: Final = 1.0
"""A server that says again and again that its list changed is asked no more often than this."""
MOST_LOGGED: Final = 200
"""So many log messages of a connection are written down."""
_MOST_PAGES: Final = 100
_MODERN: Final = "2026"
_DECLINED: Final = -1
"""What the protocol has for a request that a person declined."""


class ConnectionLost(Exception):
    """The connection broke before the answer came: nobody knows what the server did."""


class NotConnected(ConnectionLost):
    """There was no connection: nothing was sent."""


class ServerRefused(Exception):
    """The server answered with an error, in its own words."""


class AnswerInput(Protocol):
    async def __call__(self, request: InputRequest) -> InputReply:
        """Puts what a server asks for to a person."""
        ...


class AnswerSample(Protocol):
    async def __call__(self, request: SampleRequest) -> SampleReply:
        """Puts what a server wants written to a person, and then to the model."""
        ...


Progress = Callable[[float, float | None, str], None]
"""Hears how far a call is: so much, of how much, and in what words."""


class ServerConnection:
    """A connection, from its beginning to its end, in one task: `serve`. Others call while it is `ready`.

    `changed` hears what the server offers, once when it is ready and then whenever that is another.
    """

    def __init__(
        self,
        definition: ServerDefinition,
        transport: AbstractAsyncContextManager[TransportStreams],
        *,
        launch: str,
        roots: Sequence[str],
        clock: Clock,
        answer_input: AnswerInput,
        answer_sample: AnswerSample,
        note: Callable[[str], None],
        changed: Callable[[ToolList], None],
    ) -> None:
        self.ready = asyncio.Event()
        self._definition = definition
        self._transport = transport
        self._launch = launch
        self._roots = roots
        self._clock = clock
        self._answer_input = answer_input
        self._answer_sample = answer_sample
        self._note = note
        self._changed = changed
        self._over = asyncio.Event()
        self._list_changed = asyncio.Event()
        self._client: Client | None = None
        self._unreadable: list[str] = []
        self._logged = 0

    async def serve(self) -> None:
        """Connects and stays until `leave`, or until the connection ends. Raises what kept it from that."""
        client = Client(
            watched(self._transport, self._over.set, self._unreadable.append),
            mode="auto",
            cache=None,
            client_info=types.Implementation(name="bridle", version=_version()),
            sampling_callback=self._sample if self._definition.sampling else None,
            elicitation_callback=self._elicit,
            list_roots_callback=self._list_roots,
            logging_callback=self._log,
            message_handler=self._hear,
        )
        async with client:
            self._client = client
            self._changed(await self._listed(client))
            self.ready.set()
            following = asyncio.ensure_future(self._follow(client))
            try:
                await self._over.wait()
            finally:
                following.cancel()
                self._client = None
                await asyncio.gather(following, return_exceptions=True)

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._over.is_set()

    @property
    def calls_itself(self) -> str:
        """The name and version the server gives itself; empty where it says neither."""
        info = self._client.server_info if self._client is not None else None
        return "" if info is None else f"{info.name} {info.version}".strip()

    def leave(self) -> None:
        """Ends it politely: `serve` returns."""
        self._over.set()

    async def call(self, tool: str, arguments: dict[str, Any], tell: Progress) -> CallResult:
        """Raises `ConnectionLost` and `ServerRefused`; cancelled, the server is told."""

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            tell(progress, total, message or "")

        answer = await self._ask(lambda client: client.call_tool(tool, arguments, progress_callback=hear))
        return _call_result(answer)

    async def resources(self) -> tuple[ResourceText, ...]:
        found: list[ResourceText] = []
        async for page in self._pages(lambda client, cursor: client.list_resources(cursor=cursor)):
            found += [_resource(one, one.uri) for one in page.resources]
        with suppress(ServerRefused):  # an older server knows no templates
            async for page in self._pages(
                lambda client, cursor: client.list_resource_templates(cursor=cursor)
            ):
                found += [_resource(one, one.uri_template) for one in page.resource_templates]
        return tuple(found)

    async def read(self, uri: str) -> CallResult:
        """A resource, as the result of a call would be."""
        answer = await self._ask(lambda client: client.read_resource(uri))
        blocks = [types.EmbeddedResource(type="resource", resource=one) for one in answer.contents]
        return _blocks(blocks)

    async def prompt(self, name: str, arguments: dict[str, str]) -> CallResult:
        answer = await self._ask(lambda client: client.get_prompt(name, arguments))
        return _blocks([message.content for message in answer.messages])

    async def _ask(self, send: Callable[[Client], Awaitable[Any]]) -> Any:
        client = self._client
        if client is None:
            raise NotConnected("it is not connected")
        try:
            return await send(client)
        except MCPError as problem:
            if problem.code == types.CONNECTION_CLOSED:
                raise ConnectionLost(str(problem)) from None
            raise ServerRefused(str(problem)) from None
        except (ValueError, RuntimeError) as problem:
            raise ServerRefused(f"its answer is not what the protocol says: {problem}"[:500]) from None

    async def _pages(self, send: Callable[[Client, str | None], Awaitable[Any]]) -> AsyncIterator[Any]:
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._ask(lambda client, at=cursor: send(client, at))
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _listed(self, client: Client) -> ToolList:
        offers = client.server_capabilities
        tools: list[ListedTool] = []
        prompts: list[ListedPrompt] = []
        self._unreadable.clear()
        if offers.tools is not None or client.protocol_version >= _MODERN:
            async for page in self._pages(lambda client, cursor: client.list_tools(cursor=cursor)):
                tools += map(_listed_tool, page.tools)
                if len(tools) >= MOST_TOOLS:
                    self._note(f"it lists more than {MOST_TOOLS} tools: the rest is left out")
                    break
        if offers.prompts is not None:
            async for page in self._pages(lambda client, cursor: client.list_prompts(cursor=cursor)):
                prompts += map(_listed_prompt, page.prompts)
                if len(prompts) >= MOST_TOOLS:
                    break
        info = client.server_info
        good, bad = await in_thread(lambda: usable(tools[:MOST_TOOLS]))
        return ToolList(
            launch=self._launch,
            listed_ms=self._clock.now_ms(),
            protocol=client.protocol_version,
            about=(info.title or info.name if info is not None else ""),
            tools=good,
            prompts=tuple(prompts[:MOST_TOOLS]),
            resources=offers.resources is not None,
            left_out=(*bad, *(f"{name}: it is not described as a tool" for name in self._unreadable)),
        )

    async def _follow(self, client: Client) -> None:
        """Asks anew whenever the server says that what it offers changed."""
        listening = asyncio.ensure_future(self._listen(client))
        try:
            while True:
                await self._list_changed.wait()
                self._list_changed.clear()
                try:
                    self._changed(await self._listed(client))
                except (ConnectionLost, ServerRefused) as problem:
                    self._note(f"what it offers could not be listed again: {problem}")
                await self._clock.sleep(LIST_GAP_S)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, client: Client) -> None:
        """Newer servers tell of changes only those who ask for it."""
        if client.protocol_version < _MODERN:
            return
        offers = client.server_capabilities
        with suppress(Exception):  # a server that tells of nothing is a server all the same
            async with client.listen(
                tools_list_changed=True, prompts_list_changed=offers.prompts is not None
            ) as events:
                async for _event in events:
                    self._list_changed.set()

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification | types.PromptListChangedNotification):
            self._list_changed.set()

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestURLParams):
            request = InputRequest(message=params.message, url=params.url)
        else:
            request = InputRequest(message=params.message, schema=params.requested_schema)
        reply = await self._answer_input(request)
        return types.ElicitResult(action=reply.action, content=reply.values)  # pyright: ignore[reportArgumentType]

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        messages = [
            SampledMessage(role=message.role, text=block.text)
            for message in params.messages
            for block in message.content_as_list
            if isinstance(block, types.TextContent)
        ]
        if params.tools or len(messages) != sum(len(one.content_as_list) for one in params.messages):
            return types.ErrorData(
                code=types.INVALID_PARAMS, message="Only text can be sampled, without tools"
            )
        request = SampleRequest(
            system=params.system_prompt or "", messages=tuple(messages), max_tokens=params.max_tokens
        )
        reply = await self._answer_sample(request)
        if reply.refusal:
            return types.ErrorData(code=_DECLINED, message=f"Sampling was refused: {reply.refusal}")
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason="maxTokens" if reply.stop == "max_tokens" else "endTurn",
        )

    async def _list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[
                types.Root.model_validate({"uri": f"file://{pathname2url(folder)}"}) for folder in self._roots
            ]
        )

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self._logged += 1
        if self._logged <= MOST_LOGGED:
            self._note(f"{params.level}: {str(params.data)[:2000]}")


def _version() -> str:
    return __version__


def _listed_tool(tool: types.Tool) -> ListedTool:
    said = tool.annotations
    hints = (
        ToolHints(title=tool.title or "")
        if said is None
        else ToolHints(
            title=tool.title or said.title or "",
            read_only=said.read_only_hint,
            destructive=said.destructive_hint,
            idempotent=said.idempotent_hint,
            open_world=said.open_world_hint,
        )
    )
    return ListedTool(
        name=tool.name, description=tool.description or "", input_schema=tool.input_schema, hints=hints
    )


def _listed_prompt(prompt: types.Prompt) -> ListedPrompt:
    words = tuple(
        PromptWord(name=one.name, description=one.description or "", required=bool(one.required))
        for one in prompt.arguments or ()
    )
    return ListedPrompt(name=prompt.name, description=prompt.description or "", arguments=words)


def _resource(one: types.Resource | types.ResourceTemplate, uri: str) -> ResourceText:
    return ResourceText(
        uri=uri, name=one.title or one.name, about=one.description or "", kind=one.mime_type or ""
    )


def _call_result(answer: types.CallToolResult) -> CallResult:
    return msgspec.structs.replace(
        _blocks(answer.content), structured=answer.structured_content, failed=answer.is_error
    )


def _blocks(blocks: Sequence[types.ContentBlock]) -> CallResult:
    texts: list[str] = []
    pictures: list[Picture] = []
    for block in blocks:
        match block:
            case types.TextContent():
                texts.append(block.text)
            case types.ImageContent():
                pictures.append(Picture(kind=block.mime_type, data=block.data))
            case types.AudioContent():
                texts.append(f"[audio, {block.mime_type}, {decoded_bytes(block.data)} bytes: left out]")
            case types.ResourceLink():
                texts.append(f"[resource {block.name}: {block.uri}]")
            case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
                texts.append(f"{inner.uri}:\n{inner.text}")
            case types.EmbeddedResource(resource=types.BlobResourceContents() as inner):
                if (inner.mime_type or "").startswith("image/"):
                    pictures.append(Picture(kind=inner.mime_type or "", data=inner.blob))
                else:
                    size = decoded_bytes(inner.blob)
                    texts.append(f"[{inner.uri}, {inner.mime_type or 'bytes'}, {size} bytes: left out]")
            case _:
                texts.append("[something that is not known here: left out]")
    return CallResult(texts=tuple(texts), pictures=tuple(pictures))
