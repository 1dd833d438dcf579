"""The protocol of a plugin, and the registrar that it fills: lists in its own namespace, which become a `Feature`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec

from bridle.agents.agent_fields import name_problem
from bridle.agents.definition import AgentDefinition, AgentOrigin
from bridle.base.text.terminal_text import visible_line
from bridle.engine.features import (
    EventListener,
    Feature,
    FeatureCommand,
    FeatureQuery,
    PlacedRequestLayer,
    PlacedToolLayer,
)
from bridle.engine.foreign_output import checked_event
from bridle.engine.services import Service, SessionDoor, ToolSource
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.steps import RequestLayer
from bridle.engine.tools import Tool, ToolLayer, ToolOrigin
from bridle.protocol.commands import CustomCommand
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.events import CustomEvent, Envelope
from bridle.protocol.queries import CustomQuery
from bridle.protocol.slash_arguments import ANY_WORDS, SlashArgument


class Plugin(Protocol):
    """Something installed beside Bridle that adds to its sessions.

    `name` is its namespace: small letters, digits and single underscores. What it adds is known as `NAME__tool`,
    `/NAME:command` and `plugins.NAME.setting`, and as nothing else.
    """

    @property
    def name(self) -> str: ...
    def register(self, registrar: Registrar) -> None:
        """Puts into the registrar what it adds to one session; called for every session that opens, and to look.

        It does no work: nothing is read, started or contacted here.

        Raises: whatever keeps it from being used. Then no session opens with it.
        """
        ...


A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T", bound=msgspec.Struct)

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class AddedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that tightens: about a tool, and of its calls those with this path or command."""

    tool: str
    verdict: Literal["ask", "deny"]
    path: str | None = None
    command: str | None = None
    reason: str | None = None


class Registrar:
    """The lists of one plugin. Every name it is given is put into the plugin's namespace."""

    def __init__(self, name: str, decode: Callable[[type[msgspec.Struct]], Any]) -> None:
        """`decode` makes what settings say of the plugin into a type of its own."""
        self.name = name
        self.rules: list[AddedRule] = []
        self.hooks: list[dict[str, Any]] = []
        self.providers: dict[str, dict[str, Any]] = {}
        self.agents: list[AgentDefinition] = []
        self.transport: MakeTransport | None = None
        self._decode = decode
        self._request_layers: list[PlacedRequestLayer] = []
        self._tool_layers: list[PlacedToolLayer] = []
        self._tools: list[Tool] = []
        self._sources: list[ToolSource] = []
        self._slash: list[SlashCommand] = []
        self._queries: list[FeatureQuery] = []
        self._commands: list[FeatureCommand] = []
        self._services: list[Service] = []
        self._listeners: list[EventListener] = []

    def read_settings(self, kind: type[T]) -> T:
        """What the settings `plugins.NAME.*` say, as this type; its defaults fill the gaps.

        Raises `BridleError` for a value it does not take. A key it does not know is told to the person.
        """
        return self._decode(kind)

    def add_tool(self, tool: Tool) -> None:
        """A tool, which the model knows as `NAME__tool`. It passes every layer, as a built-in one does.

        Raises ValueError for a name that model APIs do not take.
        """
        self._tools.append(_renamed(self.name, tool))

    def add_tool_source(self, source: ToolSource) -> None:
        """Something whose tools may change while a session runs; each is known as `NAME__tool`."""
        self._sources.append(_OwnSource(self.name, source))

    def add_request_layer(self, layer: RequestLayer) -> None:
        """A layer around the model, behind the instructions and before what is too long is summarised: the place to
        add something to the conversation."""
        self._request_layers.append(PlacedRequestLayer("context", layer))

    def add_tool_layer(self, layer: ToolLayer) -> None:
        """A layer around every call, before all checks: it sees the call as it came and its result. Of what it passes
        on only the input counts, and that is checked, guarded and asked about like any other."""
        self._tool_layers.append(PlacedToolLayer("before_checks", lambda: layer))

    def add_slash(
        self,
        name: str,
        does: str,
        run: Callable[[str], Awaitable[SlashEvent]],
        *,
        arguments: Sequence[SlashArgument] = (ANY_WORDS,),
    ) -> None:
        """A command people type as `/NAME:name`; `run` gets what was written behind it.

        `arguments` are what it takes: help and Tab show them, and words they do not take never reach it.
        Raises ValueError for a name nobody could type.
        """

        async def checked_run(arguments: str) -> SlashEvent:
            return cast("SlashEvent", checked_event(await run(arguments)))

        command = SlashCommand(
            name=f"{self.name}:{_word(name)}",
            does=does,
            arguments=tuple(arguments),
            run=_guarded(self.name, checked_run),
        )
        self._slash.append(command)

    def add_query(self, verb: str, answer: Callable[[CustomQuery], Awaitable[dict[str, Any]]]) -> None:
        """The answer to `CustomQuery(namespace=NAME, verb=verb)`."""

        async def checked_answer(query: CustomQuery) -> dict[str, Any]:
            return msgspec.json.decode(msgspec.json.encode(await answer(query)), type=dict[str, Any])

        self._queries.append(FeatureQuery(verb=_word(verb), answer=_guarded(self.name, checked_answer)))

    def add_command(self, verb: str, run: Callable[[CustomCommand], Awaitable[SlashEvent]]) -> None:
        """What `CustomCommand(namespace=NAME, verb=verb, session=…)` of a person's client does; the event it returns
        tells what came of it."""

        async def checked_run(command: CustomCommand) -> SlashEvent:
            return cast("SlashEvent", checked_event(await run(command)))

        self._commands.append(FeatureCommand(verb=_word(verb), run=_guarded(self.name, checked_run)))

    def add_provider(
        self,
        name: str = "",
        *,
        wire: Literal["openai_chat", "openai_responses", "anthropic"],
        base_url: str,
        **options: Any,
    ) -> None:
        """An endpoint of models, as a person would write it into `providers.NAME`, or `providers.NAME_name`. What they
        write there themselves goes before. `options` are the other keys: `key_env`, `auth`, `local`, `headers`."""
        known = f"{self.name}_{_word(name)}" if name else self.name
        self.providers[known] = {"wire": wire, "base_url": base_url, **options}

    def add_agent(self, agent: AgentDefinition) -> None:
        """An agent that can be chosen and sent as `NAME__agent`. It is never freer than its session.

        Raises ValueError for a name that cannot be one.
        """
        if problem := name_problem(agent.name):
            raise ValueError(problem)
        origin = AgentOrigin(scope="plugin", place=f"plugin {self.name}")
        self.agents.append(msgspec.structs.replace(agent, name=f"{self.name}__{agent.name}", origin=origin))

    def set_transport(self, make: MakeTransport) -> None:
        """How else clients may talk with an engine that listens: an ASGI application below `/v1/plugins/NAME`, for
        requests with a good token. It is made once, when such an engine starts; sessions have nothing of it.

        Raises ValueError where the plugin has one already.
        """
        if self.transport is not None:
            raise ValueError("a plugin has one transport")
        self.transport = make

    def add_service(self, service: Service) -> None:
        """What runs beside the session for as long as it does."""
        self._services.append(service)

    def add_listener(self, kinds: Iterable[str], hear: Callable[[Envelope], object]) -> None:
        """Hears of events of these kinds once they are recorded. It returns at once; if it fails, it hears no more."""
        self._listeners.append(EventListener(kinds=frozenset(kinds), hear=hear))

    def event(self, name: str, **payload: Any) -> CustomEvent:
        """An event of the plugin's own, for `ToolContext.emit`: clients and listeners know it by namespace and name."""
        return CustomEvent(namespace=self.name, name=_word(name), payload=payload)

    def add_rule(
        self,
        tool: str,
        verdict: Literal["ask", "deny"],
        *,
        path: str | None = None,
        command: str | None = None,
        reason: str | None = None,
    ) -> None:
        """A rule that asks or denies. Only a person allows."""
        if verdict not in {"ask", "deny"}:
            raise ValueError(f"a rule of a plugin asks or denies; {verdict!r} is for people")
        self.rules.append(AddedRule(tool=tool, verdict=verdict, path=path, command=command, reason=reason))

    def add_hook(self, event: str, command: str | Sequence[str], **options: Any) -> None:
        """A hook as a person would write it into their settings (`[[hooks]]`): a program that runs at `event`.
        `options` are the other keys: `tool`, `timeout_ms`, `on_error`, `phase`."""
        self.hooks.append({"event": event, "command": command, **options})

    def feature(self) -> Feature:
        return Feature(
            name=self.name,
            request_layers=tuple(self._request_layers),
            tool_layers=tuple(self._tool_layers),
            tools=tuple(self._tools),
            origin=_origin(self.name),
            sources=tuple(self._sources),
            slash=tuple(self._slash),
            queries=tuple(self._queries),
            commands=tuple(self._commands),
            services=tuple(self._services),
            listeners=tuple(self._listeners),
        )


class _OwnSource:
    """A source of tools in the namespace of its plugin."""

    def __init__(self, plugin: str, source: ToolSource) -> None:
        self.name = f"{plugin}:{source.name}"
        self.origin = _origin(plugin)
        self._plugin = plugin
        self._source = source

    def service(self, door: SessionDoor) -> Service:
        def offer(tools: Sequence[Tool]) -> None:
            door.offer([_renamed(self._plugin, tool) for tool in tools])

        return self._source.service(msgspec.structs.replace(door, offer=offer))


def _guarded(plugin: str, run: Callable[[A], Awaitable[R]]) -> Callable[[A], Awaitable[R]]:
    """The function, whose faults are told as those of the plugin."""

    async def guarded(given: A) -> R:
        try:
            return await run(given)
        except BridleError:
            raise
        except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: it is somebody else's code
            message = f"The plugin {plugin} failed ({type(fault).__name__}: {fault})."
            raise BridleError(f"Custom:{plugin}:Fault", message=visible_line(message)) from None

    return guarded


def _origin(plugin: str) -> ToolOrigin:
    return ToolOrigin(scope="user", path=f"plugin {plugin}", trusted=True)


def _renamed(plugin: str, tool: Tool) -> Tool:
    name = f"{plugin}__{tool.name}"
    if _TOOL_NAME.fullmatch(name) is None:
        raise ValueError(f"the tool {name!r} has a name that model APIs do not take (64 of A-Z a-z 0-9 _ -)")
    return msgspec.structs.replace(tool, name=name)


def _word(name: str) -> str:
    if _WORD.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name for a command (small letters, digits, - and _)")
    return name


RequestScope: TypeAlias = MutableMapping[str, Any]
PluginApp: TypeAlias = Callable[
    [
        RequestScope,
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]
"""An ASGI application. It gets requests below `/v1/plugins/NAME` that came with a good token, and no others."""


class TransportDoor(Protocol):
    """What a transport has of its engine. Raises: nothing; what a client may not do its connection refuses."""

    def connect(self, scope: RequestScope) -> Connection:
        """Whoever sent this request, as a client with what its token lets it do. The caller closes it."""
        ...


MakeTransport: TypeAlias = Callable[[TransportDoor], PluginApp]
