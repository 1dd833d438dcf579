"""Everything that can happen in a session: one closed union.

An event says what happened and nothing about how it is shown. Its kind is its class name and stands on the
envelope only. Durable events have an id and are stored; live events have none, are never stored and may be
dropped. Plugins extend the protocol with `CustomEvent` alone.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from bridle.base.command_class import CommandClass
from bridle.base.text.line_diff import DiffLine
from bridle.protocol.display_values import AnyShown
from bridle.protocol.messages import (
    Effort,
    InputBlock,
    Parameters,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolSchema,
    Usage,
)
from bridle.protocol.questions import AnyAnswer, AnyQuestion

IdentityClass: TypeAlias = Literal["human", "agent"]
InputMode: TypeAlias = Literal["reject", "queue", "steer"]
InputChange: TypeAlias = Literal["edit", "hold", "release", "first", "drop"]
Mode: TypeAlias = Literal["strict", "default", "safe", "auto", "yolo", "plan"]
Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Risk: TypeAlias = Literal["read", "write", "shell", "network", "dangerous"]
Outcome: TypeAlias = Literal["ok", "error", "denied", "blocked", "cancelled", "timeout", "unknown"]
GrantLife: TypeAlias = Literal["once", "session", "saved"]
GrantMatch: TypeAlias = Literal["literal", "key"]
DELEGATE = "delegate_agent"
"""The tool that sends another agent."""
KEY_COVERS = "with harmless arguments inside this folder"
"""What a grant by key covers, for people: options known to do no more, and no path that leads out."""
EndCause: TypeAlias = Literal["idle", "user", "error", "binary-shutdown"]
TurnStop: TypeAlias = Literal["end_turn", "max_tokens", "content_filter", "cancelled", "interrupted", "error"]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened in a session. Defined only in this file."""


class CommandStamp(msgspec.Struct, frozen=True, array_like=True):
    """The command that an event records: the id its client chose, and a digest of the rest of it."""

    id: str
    digest: str


class ByCommand(Event, frozen=True, kw_only=True):
    """An event that records a command. `stamp` is there when the command had an id: it is not carried out again."""

    stamp: CommandStamp | None = None


# The session and its turns


class CommandTaken(ByCommand, frozen=True):
    """A command with an id begins that no other event records at once."""

    kind: str


class SessionCreated(Event, frozen=True):
    """A session begins, or goes on. `sandbox` names what confines its commands, `confined` says to what.

    `hosts` are the rules for what they reach while the network is "filtered". `carried_from` is the session whose last
    turns it begins with, as a summary.
    """

    log: str
    cwd: str
    profile: str = "default"
    agent: str | None = None
    mode: Mode = "default"
    resumed: bool = False
    sandbox: str = ""
    confined: Literal["off", "read-only", "workspace-write"] = "off"
    network: Literal["inherit", "filtered", "deny"] = "inherit"
    hosts: tuple[str, ...] = ()
    carried_from: str = ""


class InputAccepted(ByCommand, frozen=True):
    """Input is in the session's inbox. Its event id names it from here on.

    `goal` is the event of the goal that another round is for, `child` the invocation in the background whose end it
    tells: nobody said these words.
    """

    content: tuple[InputBlock, ...]
    mode: InputMode = "queue"
    identity: IdentityClass = "human"
    goal: int | None = None
    child: str = ""


class InputChanged(ByCommand, frozen=True):
    """Somebody changed an input that waits: other words, held or let go again, before all others, or gone.

    `content` is what it says from here on, after an `edit`, and what it said, after a `drop`.
    """

    input: int
    change: InputChange
    content: tuple[InputBlock, ...] = ()


class TurnStarted(Event, frozen=True):
    """The turn begins with the input of event `input`."""

    input: int
    identity: IdentityClass = "human"


class TurnEnded(Event, frozen=True):
    stop: TurnStop
    reason: str | None = None
    message: str | None = None
    steps: int = 0


PERSON = "turn.person"
"""The part of a turn in which a question was open."""


class TurnTiming(Event, frozen=True):
    """Where the time of a turn went, in milliseconds, by component name."""

    durations_ms: dict[str, float]

    @property
    def work_ms(self) -> float:
        """The whole turn without the time that people took to answer."""
        return max(0.0, self.durations_ms.get("turn.total", 0.0) - self.durations_ms.get(PERSON, 0.0))


class Cancelled(Event, frozen=True):
    by: str


class SessionEnded(Event, frozen=True):
    cause: EndCause


class Branched(Event, frozen=True):
    """This log continues `parent_log` from its event `at`."""

    parent_log: str
    at: int


# What the model is sent


class PrefixSet(Event, frozen=True):
    """The part of a request that stands before the messages; in force until the next one."""

    provider: str
    model: str
    system: str
    tools: tuple[ToolSchema, ...] = ()
    parameters: Parameters = Parameters()


class ContextAdded(Event, frozen=True):
    """Text that joins the conversation at its tail, from `source` (steer, mention, memory, skill …)."""

    source: str
    content: tuple[InputBlock, ...]
    input: int | None = None


class Stretch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a conversation: its events, turns, messages and tool results. Tokens are estimates."""

    first_event: int = 0
    last_event: int = 0
    first_turn: int = 0
    last_turn: int = 0
    messages: int = 0
    results: int = 0
    tokens: int = 0


class Compacted(Event, frozen=True):
    """Everything before event `kept_from` is replaced by `summary` in later requests.

    What stays of it, before the summary, are the messages of the events `also_kept`: pinned words and what people
    asked for. The results of the calls `cleared`, by wire id, read `[compacted]` from here on; where that was enough,
    there is no summary and nothing else was dropped. `ledger`, where there is one, stands in the last of them: a line
    for each earlier result of an agent that was sent. `pins` counts the pinned words that stay. `why`: the limit was
    near, a person asked for it, the provider refused the request as too long, or results of agents went into their
    ledger. Tokens are estimates.
    """

    summary: str
    kept_from: int
    also_kept: tuple[int, ...] = ()
    cleared: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    dropped: Stretch = Stretch()
    kept: Stretch = Stretch()
    pins: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    summary_tokens: int = 0
    by: Literal["model", "deterministic"] = "deterministic"
    why: Literal["limit", "asked", "refused", "ledger"] = "limit"


# One model call


class RequestedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call as the model asked for it. `problem` says why the arguments could not be read."""

    call_id: str
    wire_id: str
    tool: str
    input: dict[str, Any]
    problem: str | None = None


class StepStarted(Event, frozen=True):
    """Model call number `step` of this session begins."""

    step: int
    provider: str
    model: str


class TextDelta(Event, frozen=True):
    text: str


class ThinkingDelta(Event, frozen=True):
    text: str


class StepEnded(Event, frozen=True):
    """The model call is complete. Its text is the deltas since `StepStarted`; `text_sha256` proves it."""

    step: int
    stop: StopReason
    text_sha256: str
    calls: tuple[RequestedCall, ...] = ()
    thinking: tuple[ThinkingBlock, ...] = ()
    usage: Usage = Usage()
    yielded: bool = False


class StepFailed(Event, frozen=True):
    """An attempt failed; its deltas do not count. `retry_in_ms` is set when another attempt follows.

    `attempts` is how many there are at most for this reason.
    """

    step: int
    attempt: int
    reason: str
    message: str
    retry_in_ms: int | None = None
    attempts: int | None = None


RequestPurpose: TypeAlias = Literal["main", "subagent", "summary", "side_question", "draft", "sampling"]
"""The reason for a model request: a turn, a subagent's turn, a compaction, `/btw`, a commit message, an MCP server."""


class CostIncremented(Event, frozen=True):
    """The cost of a model request. `local`: the model runs on the engine's machine and costs nothing."""

    provider: str
    model: str
    usage: Usage
    usd: float | None = None
    local: bool = False
    purpose: RequestPurpose = "main"


# One tool call


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was stopped: who looked, which rule, what it matched."""

    source: str
    rule: str
    matched: str = ""
    preview: str = ""


class ToolCallRequested(Event, frozen=True):
    call_id: str
    tool: str
    input: dict[str, Any]
    step: int


class CommandPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One simple command inside a script, and what it does in a few words."""

    text: str
    command_class: CommandClass
    does: str = ""


class Offer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one answer to a permission question would remember: which calls pass from then on, and for how long.

    `literal` patterns are the whole command or path; a `key` is a program and subcommand with harmless arguments inside
    this folder; an empty pattern for the whole tool. `days` is set when it outlives the session.
    """

    answer: Literal["pattern", "tool", "always"]
    tool: str
    pattern: str = ""
    match: GrantMatch = "literal"
    days: int | None = None


class FileChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call would make of a file, as its tool worked it out from the file with this digest.

    `lines` are the change, with all lines that stay where the file is short; `cut` of them are left out. `only_ends`:
    nothing but the end of lines or of the file changes.
    """

    path: str
    kind: Literal["create", "change", "delete", "move"] = "change"
    moved_from: str | None = None
    lines: tuple[DiffLine, ...] = ()
    added: int = 0
    removed: int = 0
    cut: int = 0
    only_ends: bool = False
    sha256: str = ""


class ToolOfServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of a server as the server itself describes it. What it says of its doing is `believed` only where the
    person said so."""

    server: str
    tool: str
    title: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    believed: bool = False


class Handoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What another agent would be told, word for word, and which model reads it."""

    agent: str
    provider: str
    model: str
    text: str
    tools: tuple[str, ...] = ()


class PermissionRequested(Event, frozen=True):
    """A question to a person. `because` says in a few words why it is asked, `parts` what a command consists of.

    `changes` are what would become of files, where the tool can say so. So many different people must say yes as `keys`
    says. `of_server` is set where a server carries it out, `handoff` where another agent would.
    """

    call_id: str
    tool: str
    input: dict[str, Any]
    risk: Risk
    why: str
    subjects: tuple[str, ...] = ()
    digest: str = ""
    because: str = ""
    parts: tuple[CommandPart, ...] = ()
    offers: tuple[Offer, ...] = ()
    changes: tuple[FileChange, ...] = ()
    keys: int = 1
    of_server: ToolOfServer | None = None
    handoff: Handoff | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who said yes: the client, and the name of its token; one without a name is the engine's own terminal."""

    client: str
    name: str = ""


class ApprovalGiven(ByCommand, frozen=True):
    """A person said yes to a call that needs more than one: so many of `keys` have."""

    call_id: str
    by: Approval
    given: int
    keys: int


class PermissionDecided(ByCommand, frozen=True):
    """The audit record of one evaluation: what decided, and by whose word. `step` is that of the order of decisions.

    `answered_by` is a client, `answered_name` the name its token gives; where more than one person had to agree,
    `approvals` are all who did.
    """

    call_id: str
    tool: str
    verdict: Literal["allow", "deny"]
    decided_by: str
    rule: str | None = None
    origin: str | None = None
    reason: str | None = None
    answered_by: str | None = None
    note: str | None = None
    step: int | None = None
    answered_name: str = ""
    approvals: tuple[Approval, ...] = ()


class ToolCallStarted(Event, frozen=True):
    """The intent of a call. For a mutating one it is on disk before the call begins."""

    call_id: str
    tool: str
    input: dict[str, Any]
    mutating: bool
    input_sha256: str


class ToolResult(Event, frozen=True):
    """Exactly one per requested call. `content` is for the model, `shown` for people; without it the call is plain.

    `metadata` is for programs: `seen` are digests of files the model knows by this call, `truncated` and `output_bytes`
    tell that `content` leaves something out. A tool from outside may have keys of its own.
    """

    call_id: str
    tool: str
    outcome: Outcome
    content: str
    reason: str | None = None
    shown: AnyShown | None = None
    metadata: dict[str, Any] = {}
    evidence: Evidence | None = None
    duration_ms: int | None = None


class BackgroundStarted(Event, frozen=True):
    call_id: str
    command: str


class BackgroundEnded(Event, frozen=True):
    call_id: str
    outcome: Outcome
    exit_code: int | None = None


class UndoApplied(Event, frozen=True):
    """What `calls` had done to `paths` was taken back, or done again. `turn` is 0 for commands a person typed.

    `left` are paths that stayed as they were: somebody else had changed them, or they could not be written. `action`
    is the number of this undo or redo in the session. `worktree` is the name of the worktree of an agent in which it
    happened; empty for the session's own folders.
    """

    turn: int
    paths: tuple[str, ...]
    redone: bool = False
    calls: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    action: int = 0
    worktree: str = ""


class GitRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command that was run as the person; `output` is the end of what it said. Without `exit_code` it did not end."""

    argv: tuple[str, ...]
    exit_code: int | None = None
    output: str = ""


class GitEnded(Event, frozen=True):
    """What came of a git command that a person gave, `name` without its slash.

    `runs` are the commands that were run, in order. `reason` and its sentence say why nothing, or not all, was done.
    """

    name: str
    runs: tuple[GitRun, ...] = ()
    reason: str | None = None
    message: str = ""
    data: dict[str, Any] = {}


# A goal


class GoalCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has to pass, all of it: an answer that fits the schema, a command of the person's that ends with 0, an agent
    that looks at the work and says so."""

    command: str = ""
    schema: bool = False
    agent: str = ""


class GoalLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far work on a goal goes: rounds, model calls in all of them together, and seconds without those in which a
    person was asked."""

    rounds: int
    steps: int
    time_s: float | None = None


class GoalBegun(Event, frozen=True):
    """Work goes on from here until the check passes, or a limit is reached.

    So many files are `watched` as belonging to the check; not `watched_all`: there are more of them.
    """

    text: str
    check: GoalCheck
    limits: GoalLimits
    watched: int = 0
    watched_all: bool = True


class GoalChecked(Event, frozen=True):
    """The check of one round. `problem` says in a few words why it did not pass, `call_id` is its last call.

    `changed` are files of the check that are not as they were when the goal began, and not by the check's own doing.
    """

    round: int
    passed: bool
    problem: str = ""
    call_id: str = ""
    changed: tuple[str, ...] = ()


class GoalEnded(Event, frozen=True):
    """Nothing follows by itself any more. `reason` and its sentence say why the goal was not reached.

    `changed` are files of the check as in `GoalChecked`: of a check that passed, it may be what made it pass.
    """

    reached: bool
    rounds: int
    steps: int
    reason: str | None = None
    message: str | None = None
    changed: tuple[str, ...] = ()


# People and policy


class QuestionAsked(Event, frozen=True):
    question_id: str
    question: AnyQuestion


class QuestionAnswered(ByCommand, frozen=True):
    question_id: str
    answer: AnyAnswer
    answered_by: str
    answered_name: str = ""


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    state: Literal["open", "doing", "done"]


class TodosChanged(Event, frozen=True):
    todos: tuple[Todo, ...]


class ModelChanged(ByCommand, frozen=True):
    """Another model. During a turn it counts from the next one on, unless `holds` says something else.

    `this_turn`: until the turn ends, then the chosen model is asked again. `from_now`: at once and from here on.
    """

    provider: str
    model: str
    holds: Literal["from_next_turn", "this_turn", "from_now"] = "from_next_turn"


class ModeChanged(ByCommand, frozen=True):
    mode: Mode


class EffortChanged(ByCommand, frozen=True):
    """How much the model thinks, from the next turn on."""

    effort: Effort


class AsideAsked(ByCommand, frozen=True):
    """A question beside the conversation: neither it nor its answer is ever part of a later request."""

    question: str


class AsideAnswered(Event, frozen=True):
    """What the model said to the question of event `asked`, or why it said nothing."""

    asked: int
    answer: str = ""
    reason: str | None = None
    message: str | None = None


class GrantAdded(Event, frozen=True):
    grant_id: str
    tool: str
    pattern: str
    life: GrantLife
    expires_ms: int | None = None
    match: GrantMatch = "literal"


class GrantRevoked(ByCommand, frozen=True):
    grant_id: str


# Children, hooks, servers, health


class ChildStarted(Event, frozen=True):
    """An agent begins to work on a task, for the call `call_id` of whoever sent it; nobody's where a person did.

    `worktree` is its folder in a working tree that it has for itself, `branch` the branch there, where it has them.
    """

    invocation: str
    agent: str
    task: str
    provider: str = ""
    model: str = ""
    call_id: str = ""
    background: bool = False
    worktree: str = ""
    branch: str = ""


class ChildEnded(Event, frozen=True):
    """What a child came to. `stop` is how its turn ended, `stopped_by` the name of who stopped it alone; of
    `tools_used`, of the `files` it knew and of those it `changed` the first ones are named. What it changed in a
    worktree of its own is left on `branch`; empty where that is nothing."""

    invocation: str
    agent: str
    ok: bool
    result: str
    stop: TurnStop | None = None
    steps: int = 0
    usd: float = 0.0
    tools_used: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    stopped_by: str = ""
    branch: str = ""


class ChildResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that a child had, and the beginning of what it came to."""

    task: str
    preview: str


class ChildMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is left of children for the next one like them: their own words, so notes and never instructions. In every
    list the oldest stands first."""

    summary: str = ""
    findings: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    results: tuple[ChildResult, ...] = ()


class ChildMemoryUpdated(Event, frozen=True):
    """What is remembered from here on under `memory_id`: the next child with the same goes on there.

    It had to be compressed where it would have had more tokens than it may, `tokens_before`; `dropped` entries gave
    way. Tokens are estimates.
    """

    memory_id: str
    agent: str
    memory: ChildMemory
    tokens: int = 0
    tokens_before: int = 0
    dropped: int = 0


class HookTimeout(Event, frozen=True):
    event: str
    command: str
    timeout_ms: int


class HookError(Event, frozen=True):
    event: str
    command: str
    exit_code: int
    message: str = ""


class MCPServerDown(Event, frozen=True):
    name: str
    reason: str
    attempts: int


class SkillRegistryChanged(Event, frozen=True):
    """The skills of a session are others than before: `skills` are those there are now, by name.

    `waiting` are folders of those that no person has agreed to, `problems` say which are none, and why.
    """

    skills: tuple[str, ...]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Degraded(Event, frozen=True):
    """Something works with less than its full strength; shown until it is better."""

    what: str
    reason: str
    message: str


class Notice(Event, frozen=True):
    reason: str
    message: str
    data: dict[str, Any] = {}


class Error(Event, frozen=True):
    """A failure a client shows verbatim: a stable reason and its sentence."""

    reason: str
    message: str
    data: dict[str, Any] = {}


class CustomEvent(Event, frozen=True):
    """A plugin's own event. Its `name` lives inside `namespace`."""

    namespace: str
    name: str
    payload: dict[str, Any] = {}


# Live only: no id, never stored, may be dropped


class ToolCallProgress(Event, frozen=True):
    """What a call has printed since the last of these; of a flood, the end. `lines` counts all of them so far."""

    call_id: str
    text: str
    lines: int = 0


class StreamGap(Event, frozen=True):
    """Events with ids from `first` to `last` were not sent to this client."""

    first: int
    last: int
    reason: Literal["slow", "ttl"]


class TokenExpiring(Event, frozen=True):
    """The token of whoever is told this expires soon. Streams end a minute after that, commands at once."""

    jti: str
    expires_ms: int


class Present(msgspec.Struct, frozen=True, kw_only=True):
    client: str
    name: str
    identity: IdentityClass


class Presence(Event, frozen=True):
    """Somebody came or left: these are here now."""

    clients: tuple[Present, ...]


class ClientRequest(Event, frozen=True):
    """The engine asks one client for something only it has, such as an unsaved editor buffer."""

    request_id: str
    client: str
    verb: Literal["read_file"]
    path: str


class UnknownEvent(Event, frozen=True):
    """A kind this version does not know, kept byte for byte."""

    kind: str
    raw: bytes


DurableEvent: TypeAlias = (
    SessionCreated
    | CommandTaken
    | InputAccepted
    | InputChanged
    | TurnStarted
    | PrefixSet
    | ContextAdded
    | StepStarted
    | TextDelta
    | ThinkingDelta
    | StepEnded
    | StepFailed
    | ToolCallRequested
    | PermissionRequested
    | ApprovalGiven
    | PermissionDecided
    | ToolCallStarted
    | ToolResult
    | QuestionAsked
    | QuestionAnswered
    | TodosChanged
    | ModelChanged
    | ModeChanged
    | EffortChanged
    | AsideAsked
    | AsideAnswered
    | GrantAdded
    | GrantRevoked
    | Compacted
    | UndoApplied
    | GitEnded
    | GoalBegun
    | GoalChecked
    | GoalEnded
    | ChildStarted
    | ChildEnded
    | ChildMemoryUpdated
    | BackgroundStarted
    | BackgroundEnded
    | CostIncremented
    | HookTimeout
    | HookError
    | MCPServerDown
    | SkillRegistryChanged
    | Degraded
    | Notice
    | Error
    | Cancelled
    | TurnTiming
    | TurnEnded
    | SessionEnded
    | Branched
    | CustomEvent
)
LiveEvent: TypeAlias = ToolCallProgress | StreamGap | TokenExpiring | Presence | ClientRequest
AnyEvent: TypeAlias = DurableEvent | LiveEvent | UnknownEvent


class Envelope(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An event with its place in the session; the same on every transport.

    `id` is per session, starts at 1 and has no gaps; it is None for live events. `ts_ms` is milliseconds
    since the epoch and is written on the wire as ISO 8601 text. Beside its fields it keeps the bytes of its event
    (`codec.payload_of`), so nobody encodes them a second time; two envelopes are compared without them.
    """

    id: int | None
    kind: str
    session: str
    originator: str
    ts_ms: int
    event: AnyEvent
    turn: int | None = None
    agent_path: tuple[str, ...] = ()
    invocation: str | None = None


OfOneInvocation: TypeAlias = (
    InputAccepted
    | InputChanged
    | TurnStarted
    | TurnEnded
    | TurnTiming
    | Cancelled
    | PrefixSet
    | ContextAdded
    | Compacted
    | StepStarted
    | TextDelta
    | ThinkingDelta
    | StepEnded
    | StepFailed
    | ToolCallRequested
    | ToolCallStarted
    | ToolResult
    | ToolCallProgress
    | TodosChanged
    | ModelChanged
    | Error
)
"""What belongs to the run of an agent that it is stamped with. Everything else is the session's, whoever brought it."""


def concerns(envelope: Envelope, invocation: str | None = None) -> bool:
    """Whether an event is this invocation's own, or the session's as a whole; None is the main one."""
    return envelope.invocation == invocation or not isinstance(envelope.event, OfOneInvocation)


def text_of(content: tuple[InputBlock, ...]) -> str:
    """The words of an input, as a title or a log line shows them."""
    return " ".join(block.text for block in content if isinstance(block, TextBlock))
