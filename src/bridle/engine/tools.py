"""What a tool is, what a call carries on its way through the layers, and the registry of tools.

A tool is a value: typed arguments, declared risk, one async function. A call is a value too: each layer passes on
a copy that knows more than the one it got. A layer is a function that receives `proceed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from bridle.base.text.json_schema import BadSchema, JsonSchema
from bridle.engine.conversation import MAIN, Invocation
from bridle.engine.known_files import KnownFiles
from bridle.protocol.errors import sentence
from bridle.protocol.events import (
    CommandPart,
    DurableEvent,
    Evidence,
    FileChange,
    Handoff,
    IdentityClass,
    Notice,
    Outcome,
    Risk,
    ToolOfServer,
    ToolResult,
)
from bridle.protocol.messages import ToolSchema

if TYPE_CHECKING:
    from asyncio import Future

    from bridle.base.clock import Clock
    from bridle.engine.ports import AskPerson, Spawn, SpawnPolicy
    from bridle.protocol.display_values import AnyShown

Concurrency: TypeAlias = Literal["serial", "parallel_safe", "exclusive"]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The path, command, address or agent that a call is about. The guard fills `resolved`, the absolute path
    without symlinks, and for a file to be written `content`, its digest when the question was asked."""

    kind: Literal["path", "command", "url", "agent"]
    access: Literal["read", "write", "run", "fetch"]
    value: str
    resolved: str = ""
    content: str = ""


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a call. Expected failures are values. `content` is for the model and follows what was streamed
    through `write`, `shown` is for people, `metadata` for programs."""

    outcome: Outcome = "ok"
    content: str = ""
    reason: str | None = None
    shown: AnyShown | None = None
    metadata: dict[str, Any] = {}
    evidence: Evidence | None = None

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"


class ToolOrigin(msgspec.Struct, frozen=True, kw_only=True):
    scope: Literal["builtin", "user", "project", "programmatic"] = "programmatic"
    path: str | None = None
    trusted: bool = False


BUILTIN = ToolOrigin(scope="builtin", trusted=True)


def _no_subjects(_args: Any) -> tuple[Subject, ...]:
    return ()


def _always(_args: Any) -> bool:
    return True


def never_mutating(_args: Any) -> bool:
    return False


def _default_timeout(_args: Any) -> float:
    return 120.0


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A capability the model may ask for.

    `input` says what it takes: as a type, whose values it is called with, or as a JSON Schema, for which the call gets
    the object as it came. `mutating` and `timeout_s` are asked per call, with that. `timeout_s` counts only while the
    call runs, never while a person thinks. `changes(args, call, cwd, known)` works out what a call would make of files
    before anybody is asked, `known` being what the model knows of them; it may read and wait, gives nothing where it
    cannot tell, and the failed output where the call could only fail. `input_schema` is what the model reads of
    `input`; made from it when not given. `is_told`: whether the model is told of it; it can be called all the same.
    `of_server` is what people are shown of the server it belongs to. `handoff` is what a call would have another agent
    told, for whoever is asked about it. `side_by_side` says of a call's input that it may run beside others like it.
    `own_files` are the files of Bridle's own that a call changes, absolute: no path a call names leads there, and undo
    has nothing else to go by. `for_person` says why a call needs a person's own yes, in a few words that begin with
    "it"; empty where a mode or a flag may say it. `in_session_folder`: it works in the folder of its session, whoever
    calls it, so one that works elsewhere does not get it.
    """

    name: str
    description: str
    input: type[msgspec.Struct] | JsonSchema
    risk: Risk
    run: Callable[[Any, ToolContext], Awaitable[ToolOutput]]
    concurrency: Concurrency = "serial"
    mutating: Callable[[Any], bool] = _always
    subjects: Callable[[Any], tuple[Subject, ...]] = _no_subjects
    timeout_s: Callable[[Any], float] = _default_timeout
    side_effect: Literal["none", "workspace", "process", "network", "external"] = "external"
    safety_notes: tuple[str, ...] = ()
    input_schema: dict[str, Any] | None = None
    changes: Callable[[Any, ToolCall, str, KnownFiles], tuple[FileChange, ...] | ToolOutput] | None = None
    is_told: Callable[[], bool] | None = None
    of_server: ToolOfServer | None = None
    handoff: Callable[[Any, ToolCall], Handoff] | None = None
    side_by_side: Callable[[dict[str, Any]], bool] | None = None
    own_files: Callable[[Any], tuple[str, ...]] | None = None
    for_person: Callable[[Any], str] | None = None
    in_session_folder: bool = False

    def schema(self) -> ToolSchema:
        return ToolSchema(
            name=self.name,
            description=self.description,
            input_schema=self.input_schema or json_schema(self.input),
        )


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """What the git commands of a call would bring: `files` that later runs obey, absolute. `unknown`: nobody can tell.
    `unasked`: nobody can tell, and it comes from where the person told git to get it."""

    files: tuple[str, ...] = ()
    unknown: bool = False
    unasked: bool = False


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call on its way through the layers, which fill the last fields on the way in.

    `write` streams output outwards. `partial` is shared by all copies of the call: when a call is cut short, the
    layer that collects output leaves there what came so far. So is `begun`, which holds the call as it was when it
    began to run, once it has. `by_person` marks a call a person typed: every layer
    applies, only the question is skipped. `must_ask` says why a person is to be asked even where the rules would allow.
    `parts` are the simple commands of a script, `named` the paths, resolved, and the addresses they are known to use.
    `foreseen` is there for git commands that change files; `agreed` are files later runs obey that a person let change.
    `asked`: a person said yes to this very call. `invocation` is whose call it is.
    """

    id: str
    name: str
    input: dict[str, Any]
    step: int
    originator: str
    identity: IdentityClass = "human"
    invocation: Invocation = MAIN
    by_person: bool = False
    problem: str | None = None
    write: Callable[[str], Future[None] | None]
    passed_gates: Callable[[], Awaitable[None]]
    partial: list[str]
    begun: list[ToolCall] = []
    # filled by the layers
    tool: Tool | None = None
    args: Any = None
    subjects: tuple[Subject, ...] = ()
    parts: tuple[CommandPart, ...] = ()
    named: tuple[Subject, ...] = ()
    mutating: bool = True
    must_ask: str = ""
    foreseen: Foreseen | None = None
    agreed: tuple[str, ...] = ()
    asked: bool = False
    policy: SpawnPolicy | None = None

    @property
    def definition(self) -> Tool:
        assert self.tool is not None
        return self.tool

    def resolved(self, value: str) -> str:
        return next(subject.resolved for subject in self.subjects if subject.value == value)


RunTool: TypeAlias = Callable[[ToolCall], Awaitable[ToolOutput]]
ToolLayer: TypeAlias = Callable[[ToolCall, RunTool], Awaitable[ToolOutput]]


def _anything(_path: str) -> bool:
    return True


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """Which files below a folder a call may show, by absolute path: their names, and their contents."""

    shows_name: Callable[[str], bool] = _anything
    shows_content: Callable[[str], bool] = _anything


EVERYTHING = Sight()


def _knows_nothing() -> KnownFiles:
    return KnownFiles({})


SendAgent: TypeAlias = Callable[[str, str], Awaitable[ToolResult]]
"""Has the agent of a name work on a task, and gives what came of it."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running tool may use.

    `write` streams output to the person and into the result; `spilled` is what an earlier call printed that was too
    long to show, piece by piece; `emit` records an event; `ask(id, question)` puts a
    question to a person and gives None when nobody can answer. `known` is what the model knows of files. `sight`
    is for tools that look at more files than the call names. `send_agent(name, task)` has another agent work on
    something, as a call of its own: checked, asked about, recorded and stopped like one of the model's; None where
    whoever calls may send nobody.
    """

    call: ToolCall
    session: str
    cwd: str
    env: Mapping[str, str]
    clock: Clock
    spawn: Spawn
    spilled: Callable[[str], Generator[bytes] | None]
    emit: Callable[[DurableEvent], object]
    ask: AskPerson
    dry_run: bool = False
    sight: Sight = EVERYTHING
    known: KnownFiles = msgspec.field(default_factory=_knows_nothing)
    send_agent: SendAgent | None = None

    @property
    def invocation(self) -> Invocation:
        return self.call.invocation

    @property
    def policy(self) -> SpawnPolicy:
        """How commands of this call may run; present behind `sandboxed`."""
        assert self.call.policy is not None
        return self.call.policy

    def write(self, text: str) -> Future[None] | None:
        """Whoever has much more of it is to wait for what this returns."""
        return self.call.write(text)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a source that is not offered, and why."""

    source: str
    tool: str
    reason: Literal["ToolNameTaken", "BadToolInput"]
    problem: str = ""

    def notice(self) -> Notice:
        data = {"source": self.source, "tool": self.tool}
        data = {**data, "problem": self.problem} if self.problem else data
        return Notice(reason=self.reason, message=sentence(self.reason, data), data=data)


class Registry:
    """The tools of a session by name. A name belongs for the whole session to the first source that offered it: an
    approval of one tool must not come to mean another's."""

    def __init__(self) -> None:
        self._offered: dict[str, dict[str, Tool]] = {}
        self._origins: dict[str, ToolOrigin] = {}
        self._owners: dict[str, str] = {}
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[tuple[str, ...], tuple[ToolSchema, ...]] = {}
        self._hidden: frozenset[str] = frozenset()
        self._shown_while: dict[str, Callable[[], bool]] = {}

    def replace(self, source: str, tools: Iterable[Tool], origin: ToolOrigin) -> tuple[LeftOut, ...]:
        """Replace all tools of a source at once, in this order. Return those that are left out. Sources stand in the
        order in which they came first."""
        offered: dict[str, Tool] = {}
        left_out: list[LeftOut] = []
        for tool in tools:
            if tool.name in offered or self._owners.get(tool.name, source) != source:
                left_out.append(LeftOut(source=source, tool=tool.name, reason="ToolNameTaken"))
            elif problem := _input_problem(tool.input):
                left_out.append(
                    LeftOut(source=source, tool=tool.name, reason="BadToolInput", problem=problem)
                )
            else:
                offered[tool.name] = tool
        self._offered[source], self._origins[source] = offered, origin
        self._owners.update(dict.fromkeys(offered, source))
        self._tools = {name: tool for each in self._offered.values() for name, tool in each.items()}
        self._schemas.clear()
        return tuple(left_out)

    def offers(self, tool: Tool) -> bool:
        return self._tools.get(tool.name) is tool

    def hide(self, names: Iterable[str]) -> None:
        """Takes tools out of sight: the model is not told of them and a call to one fails closed."""
        self._hidden = self._hidden | frozenset(names)

    def show_while(self, name: str, condition: Callable[[], bool]) -> None:
        """Shows a tool only while the condition holds; it is asked whenever somebody looks."""
        self._shown_while[name] = condition

    def visible(self, name: str) -> Tool | None:
        return self._tools.get(name) if self._shows(name) else None

    def _shows(self, name: str) -> bool:
        condition = self._shown_while.get(name)
        return name not in self._hidden and (condition is None or condition())

    def origin(self, name: str) -> ToolOrigin | None:
        return self._origins[self._owners[name]] if name in self._tools else None

    def concurrency(self, name: str, given: dict[str, Any]) -> Concurrency:
        tool = self.visible(name)
        if tool is None:
            return "serial"
        if tool.side_by_side is not None and tool.side_by_side(given):
            return "parallel_safe"
        return tool.concurrency

    def within(self, sees: Callable[[Tool], bool]) -> Registry:
        """The same tools, as one sees them who has only some. What is offered or taken out later is so for both."""
        return _Narrowed(self, sees)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the model reads of the visible tools. The same tuple for as long as the same tools are visible."""
        told = [tool for tool in self.list() if tool.is_told is None or tool.is_told()]
        names = tuple([tool.name for tool in told])
        if names not in self._schemas:
            self._schemas[names] = tuple(tool.schema() for tool in told)
        return self._schemas[names]

    def list(self) -> tuple[Tool, ...]:
        hidden = self._out_of_sight()
        return tuple([tool for name, tool in self._tools.items() if name not in hidden])

    def _out_of_sight(self) -> frozenset[str]:
        return self._hidden | {name for name, shows in self._shown_while.items() if not shows()}


class _Narrowed(Registry):
    """A registry that shows only some of another's tools."""

    def __init__(self, whole: Registry, sees: Callable[[Tool], bool]) -> None:
        super().__init__()
        self._whole = whole
        self._sees = sees
        self._told: tuple[tuple[ToolSchema, ...], tuple[ToolSchema, ...]] = ((), ())
        self.replace, self.hide, self.show_while = whole.replace, whole.hide, whole.show_while
        self.offers, self.origin = whole.offers, whole.origin

    def visible(self, name: str) -> Tool | None:
        tool = self._whole.visible(name)
        return tool if tool is not None and self._sees(tool) else None

    def list(self) -> tuple[Tool, ...]:
        return tuple(filter(self._sees, self._whole.list()))

    def schemas(self) -> tuple[ToolSchema, ...]:
        told = self._whole.schemas()
        if told is not self._told[0]:
            seen = {tool.name for tool in self.list()}
            self._told = (told, tuple(schema for schema in told if schema.name in seen))
        return self._told[1]


def _input_problem(given: object) -> str:
    """What is wrong with what a tool says it takes, whoever wrote that; mostly nothing."""
    if isinstance(given, type):
        return "" if issubclass(given, msgspec.Struct) else f"{given.__name__} is no type of arguments"
    if not isinstance(given, JsonSchema):
        return "it is neither a type of arguments nor a JsonSchema"
    try:
        given.check()
    except BadSchema as problem:
        return str(problem)
    return ""


def denied(reason: str, content: str, evidence: Evidence | None = None) -> ToolOutput:
    return ToolOutput(outcome="denied", reason=reason, content=content, evidence=evidence)


def json_schema(given: type[msgspec.Struct] | JsonSchema) -> dict[str, Any]:
    """The schema of a tool's input as one inline object, the way model APIs want it."""
    if not isinstance(given, type):
        return given.document
    (schema,), definitions = msgspec.json.schema_components((given,), ref_template="#/$defs/{name}")
    name = str(schema["$ref"]).rsplit("/", 1)[-1]
    inline = dict(definitions.pop(name))
    inline.pop("title", None)
    if definitions:
        inline["$defs"] = definitions
    return inline
