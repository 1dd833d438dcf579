"""Everything a client can want to know beside the events of a session: one closed union, each query with its answer.

A query changes nothing. Plugins extend the union with `CustomQuery` alone. Fields a reader does not know are ignored.
What is not known is None, never a number.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec

from bridle.protocol.commands import CreateSession
from bridle.protocol.display_values import EditedFile
from bridle.protocol.events import GrantMatch, IdentityClass

A = TypeVar("A")


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True, omit_defaults=True):
    """What came of a query. Defined only in this file."""


class Query(
    msgspec.Struct, Generic[A], frozen=True, kw_only=True, tag_field="kind", tag=True, omit_defaults=True
):
    """Something a client wants to know, and the kind of its answer. Defined only in this file."""


# Sessions


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as it is stored.

    `short_id` is a beginning of its id that names no other. `title` is a person's where `named` says so, else the first
    words they typed. `state`: somebody has it open, or it also waits for an answer. `expires_ms` is when its content
    will go, `expired_ms` when it went. `last` is the end of what its model said last, as far as anybody ever searched.
    """

    id: str
    short_id: str
    cwd: str
    title: str = ""
    named: bool = False
    profile: str = "default"
    model: str | None = None
    state: Literal["stored", "open", "waiting"] = "stored"
    turns: int = 0
    usd: float = 0.0
    created_ms: int
    updated_ms: int
    pinned: bool = False
    headless: bool = False
    branch_of: str | None = None
    imported_ms: int | None = None
    expired_ms: int | None = None
    expires_ms: int | None = None
    last: str = ""


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is here: attached, and seeing what happens. `name` is that of its token, where that has one."""

    id: str
    name: str
    identity: IdentityClass


class SessionList(QueryAnswer, frozen=True):
    """`next` is the `after` of the query for those behind these; None where there are none."""

    sessions: tuple[SessionInfo, ...]
    next: str | None = None


class ListSessions(Query[SessionList], frozen=True):
    """The sessions in which something was said or that are open here, of one folder or of all, the one used last
    first. With `limit` no more than so many; those behind them with the `next` of the answer as `after`."""

    cwd: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    after: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,15}-[0-7][0-9A-HJKMNP-TV-Z]{25}$")] | None = None


class SessionDetails(QueryAnswer, frozen=True):
    """A session, and who is here in it, in this engine."""

    session: SessionInfo
    clients: tuple[ClientInfo, ...] = ()
    events: tuple[msgspec.Raw, ...] = ()


class DescribeSession(Query[SessionDetails], frozen=True):
    """A session, with so many of its last stored events, each as it is on the wire. Nothing is opened by this.

    With `since`, the first so many with an id above it instead.
    """

    session: str
    events: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    since: Annotated[int, msgspec.Meta(ge=0, lt=10**15)] | None = None


class FindSession(Query[SessionDetails], frozen=True):
    """The session that `create` goes on with: the one used last in its folder, or the one that runs by `alias`, by
    exactly this name or id. For a session by what people call it there is `DescribeSession`."""

    cwd: str
    alias: str | None = None


class SessionPreview(QueryAnswer, frozen=True, omit_defaults=True):
    """What a session would be, before there is one.

    `model_from`: a person's word in the command, a variable of the environment, or settings; empty where nobody chose
    one. `wide` says, as the end of a sentence, why the folder holds more than a project. `rules` are the files of
    instructions that count, `waiting_rules` those that wait for a person. `notify`: a person may be called.
    """

    cwd: str
    branch: str = ""
    model: str | None = None
    model_from: Literal["", "command", "environment", "settings"] = ""
    wide: str = ""
    rules: tuple[str, ...] = ()
    waiting_rules: tuple[str, ...] = ()
    notify: bool = True


class PreviewSession(Query[SessionPreview], frozen=True):
    """What would come of this command. For people; nothing is opened and nobody is asked over the network."""

    create: CreateSession


class CallChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The files one call changed, relative to the session's folder where they are in it."""

    call_id: str
    paths: tuple[str, ...]


class LogDescription(QueryAnswer, frozen=True):
    """`digest` is the last link of the chain of the log, in hex: it stands for everything in it."""

    changes: tuple[CallChanges, ...]
    digest: str


class DescribeLog(Query[LogDescription], frozen=True):
    """The files each call of a session changed, as undo saw it, whatever tool did it."""

    session: str


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the words were said."""

    session: str
    event: int
    turn: int | None
    ts_ms: int
    who: str
    excerpt: str


class SearchHits(QueryAnswer, frozen=True):
    hits: tuple[SearchHit, ...]


class SearchSessions(Query[SearchHits], frozen=True):
    """Where every one of the words was said, the best place first; words in quotes stand together."""

    words: str
    cwd: str | None = None
    limit: int = 100


# What a session can do


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model under the name that commands take. Prices are dollars for a million tokens; `local` ones cost nothing.

    `context_tokens` is what is served, `longest_context_tokens` what the model could have; `size_bytes` its file.
    """

    model: str
    local: bool = False
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: bool | None = None
    images: bool | None = None
    price_in: float | None = None
    price_out: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    can_chat: bool = True
    longest_context_tokens: int | None = None
    size_bytes: int | None = None


class ModelList(QueryAnswer, frozen=True):
    models: tuple[ModelEntry, ...]


class ListModels(Query[ModelList], frozen=True):
    """What is known of these models, or of all that are known of a provider. Nobody is asked over the network, unless
    `ask_provider` wants its own list; that and `create` are for people.

    `usable`: also every model that can be asked now, by a key at hand or on this machine; servers of this machine are
    looked for, and stand first. By the settings of an open `session`, of one that `create` would make, or by the
    person's own.
    """

    session: str | None = None
    names: tuple[str, ...] = ()
    provider: str | None = None
    ask_provider: bool = False
    create: CreateSession | None = None
    usable: bool = False


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A provider of models. `key_from` says where its key comes from, None where there is none; never the key.

    `title` is what people call it, `key_env` the variable its key is looked for in. `running` servers were found on
    this machine just now, with these `models`.
    """

    name: str
    local: bool = False
    key_from: str | None = None
    title: str = ""
    key_env: str | None = None
    running: bool = False
    models: tuple[ModelEntry, ...] = ()


class ProviderList(QueryAnswer, frozen=True):
    """`default` is the model that the keys at hand stand for, where they were looked for and stand for one."""

    providers: tuple[ProviderEntry, ...]
    default: str | None = None


class ListProviders(Query[ProviderList], frozen=True):
    """These providers, then all others whose key is at hand. For people; nobody is asked over the network.

    `which`: with `running`, the servers of this machine are looked for first, and stored keys too. `connectable` are
    all that a key is for. By the settings of an open `session`, of one that `create` would make, or the person's own.
    """

    session: str | None = None
    names: tuple[str, ...] = ()
    which: Literal["usable", "running", "connectable"] = "usable"
    create: CreateSession | None = None


class ToolEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A tool the model of a session is told of."""

    name: str
    description: str
    risk: str
    source: str


class ToolList(QueryAnswer, frozen=True):
    tools: tuple[ToolEntry, ...]


class ListTools(Query[ToolList], frozen=True):
    session: str


class SlashEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A command the engine knows. `name` is all of it, as `RunSlash` takes it; `namespace` the part before the first
    colon. `args_schema` is a JSON Schema of what is written behind it: `properties` stand in their order, the last
    takes the rest of the line. `words` are what it says to the model, where it is a named prompt. `stands_for` is there
    for an alias: the line that a client sends in its place, with the words behind it."""

    name: str
    description: str
    namespace: str = ""
    args_schema: dict[str, Any] = {}
    words: str = ""
    stands_for: str = ""


class SlashList(QueryAnswer, frozen=True):
    commands: tuple[SlashEntry, ...]


class ListSlash(Query[SlashList], frozen=True):
    """With `session`, also the commands that plugins add to it."""

    session: str | None = None


class SkillEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it is offered, or one that no person has agreed to. `in_use`: its words are in the conversation."""

    name: str
    description: str
    source: Literal["built-in", "yours", "listed", "project", "bundle"]
    folder: str
    trusted: bool = True
    in_use: bool = False


class SkillList(QueryAnswer, frozen=True):
    """`problems` say which folders are no skills although they want to be, and why."""

    skills: tuple[SkillEntry, ...]
    problems: tuple[str, ...]


class ListSkills(Query[SkillList], frozen=True):
    """The skills of a session; without one those that Bridle brings and the person's own."""

    session: str | None = None


class SkillDescription(QueryAnswer, frozen=True):
    """A skill with its words. `fields` are the others of its front matter, `files` what lies beside it."""

    skill: SkillEntry
    body: str
    fields: dict[str, Any]
    files: tuple[str, ...]


class DescribeSkill(Query[SkillDescription], frozen=True):
    name: str
    session: str | None = None


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, who wrote it and where. Of a project's that nobody trusts yet only the name of its file is told.

    `tools` is None where it sees what its session has; `provider` is empty where it works with that of its session.
    `chosen`: the session talks with it.
    """

    name: str
    description: str = ""
    display_name: str = ""
    mode: Literal["primary", "subagent", "all"] = "all"
    source: Literal["builtin", "settings", "user", "project", "bundle", "plugin", "code"] = "builtin"
    place: str = ""
    hidden: bool = False
    selectable: bool = True
    callable: bool = True
    provider: str = ""
    category: str = ""
    cost: str = ""
    tools: tuple[str, ...] | None = None
    trusted: bool = True
    chosen: bool = False


class AgentList(QueryAnswer, frozen=True):
    """`problems` say which definitions do not count, and why."""

    agents: tuple[AgentEntry, ...]
    problems: tuple[str, ...] = ()


class ListAgents(Query[AgentList], frozen=True):
    """The agents of a session; without one those that Bridle brings and the person's own."""

    session: str | None = None


class ProfileEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A profile that can be chosen by `name`, and who wrote it. Of a project's that nobody trusts yet only the name is
    told."""

    name: str
    about: str = ""
    scope: Literal["shipped", "own", "project", "path"] = "own"
    trusted: bool = True
    in_force: bool = False


class ProfileList(QueryAnswer, frozen=True):
    profiles: tuple[str, ...]
    entries: tuple[ProfileEntry, ...] = ()


class ListProfiles(Query[ProfileList], frozen=True):
    """With `session`, also those of its project, and which one is in force."""

    session: str | None = None


class ProfileDescription(QueryAnswer, frozen=True):
    """`settings` are those that say how a session works; where its models and keys are is not told.

    What a session has in force by it and by everything else: `tools`, `servers`, `skills` and `plugins`, by name.
    """

    name: str
    about: str
    settings: dict[str, Any]
    scope: Literal["shipped", "own", "project", "path"] = "own"
    tools: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


class DescribeProfile(Query[ProfileDescription], frozen=True):
    """A profile of this name; without one the profile in force in `session`, with what that session has."""

    name: str = ""
    session: str | None = None


class GrantEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A remembered yes. Without `expires_ms` it lasts as long as the session's run."""

    grant_id: str
    tool: str
    pattern: str = ""
    match: GrantMatch = "literal"
    expires_ms: int | None = None


class GrantList(QueryAnswer, frozen=True):
    grants: tuple[GrantEntry, ...]


class ListGrants(Query[GrantList], frozen=True):
    session: str


# What a session did


class SessionChanges(QueryAnswer, frozen=True):
    """What calls changed in files, by the record of undo. `turn` is None for more than one.

    `hidden` are files that hold secrets or look so: nothing of them is shown. `more_files` are left out.
    """

    turn: int | None = None
    title: str = ""
    files: tuple[EditedFile, ...] = ()
    hidden: tuple[str, ...] = ()
    more_files: int = 0


class ListChanges(Query[SessionChanges], frozen=True):
    """What a turn (its number), a call (its id or the beginning of it) or the `session` changed.

    By itself, what the last turn did that changed something.
    """

    session: str
    what: str = ""


class OutputPart(QueryAnswer, frozen=True):
    """A part of what a call printed; `text` is None where nothing more is kept than its result says.

    `next_offset` is where the next part begins, None at the end.
    """

    text: str | None = None
    next_offset: int | None = None


class ReadOutput(Query[OutputPart], frozen=True):
    """What a call printed that was too long for its result, from a byte on; at most some megabytes at once."""

    session: str
    call_id: str
    offset: int = 0


# Money and health


class CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one model, session or day came to. `usd` is what is known; `unknown` counts requests without a price.

    `local`: every model of it runs on this machine.
    """

    name: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: float
    unknown: int
    local: bool


class CostSum(QueryAnswer, frozen=True):
    rows: tuple[CostRow, ...]
    total: CostRow


class SumCosts(Query[CostSum], frozen=True):
    """What was paid since a time, in one session or in all."""

    session: str | None = None
    since_ms: int = 0
    by: Literal["model", "session", "day", "purpose"] = "model"


class PartHealth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one part of the engine is: it works, works with less, does not, or was not tried yet."""

    part: str
    status: Literal["ok", "warn", "fail", "skip"]
    text: str = ""


class Health(QueryAnswer, frozen=True):
    """How the engine is, whole and part by part. `sandbox` is what holds commands, empty until that was tried."""

    version: str
    protocol_version: str
    open_sessions: int
    disk_has_room: bool
    sandbox: str = ""
    ok: bool = True
    parts: tuple[PartHealth, ...] = ()


class CheckHealth(Query[Health], frozen=True):
    pass


class CustomAnswer(QueryAnswer, frozen=True):
    payload: dict[str, Any] = {}


class CustomQuery(Query[CustomAnswer], frozen=True):
    namespace: str
    verb: str
    session: str | None = None
    payload: dict[str, Any] = {}


AnyQuery: TypeAlias = (
    ListSessions
    | DescribeSession
    | FindSession
    | PreviewSession
    | DescribeLog
    | SearchSessions
    | ListModels
    | ListProviders
    | ListTools
    | ListSlash
    | ListSkills
    | DescribeSkill
    | ListAgents
    | ListProfiles
    | DescribeProfile
    | ListGrants
    | ListChanges
    | ReadOutput
    | SumCosts
    | CheckHealth
    | CustomQuery
)
AnyQueryAnswer: TypeAlias = (
    SessionList
    | SessionDetails
    | SessionPreview
    | LogDescription
    | SearchHits
    | ModelList
    | ProviderList
    | ToolList
    | SlashList
    | SkillList
    | SkillDescription
    | AgentList
    | ProfileList
    | ProfileDescription
    | GrantList
    | SessionChanges
    | OutputPart
    | CostSum
    | Health
    | CustomAnswer
)
QUERY_KINDS: tuple[str, ...] = tuple(kind.__name__ for kind in get_args(AnyQuery))
