"""What the engine needs from outside, as small protocols with their contracts. It implements none of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias

import msgspec

from bridle.protocol.errors import StoreError
from bridle.protocol.events import (
    Envelope,
    GoalEnded,
    IdentityClass,
    Notice,
    PrefixSet,
    RequestPurpose,
    ToolResult,
    TurnEnded,
)
from bridle.protocol.messages import Message, StopReason, ThinkingBlock, Usage
from bridle.protocol.questions import AnyAnswer, AnyQuestion

if TYPE_CHECKING:
    from asyncio import Future

    from bridle.base.process.duplex import InputPipe


class AskPerson(Protocol):
    async def __call__(self, question_id: str, question: AnyQuestion, /) -> AnyAnswer | None:
        """Puts the question with this id to whoever may answer; None when nobody can or nobody came.

        Raises: `StoreError` where it cannot be recorded.
        """
        ...


# The model


class ModelText(msgspec.Struct, frozen=True):
    text: str


class ModelThinking(msgspec.Struct, frozen=True):
    """Reasoning a person may read; it is shown and not sent back."""

    text: str


class ModelThought(msgspec.Struct, frozen=True):
    """Reasoning the provider wants back, opaque."""

    block: ThinkingBlock


class ModelCall(msgspec.Struct, frozen=True):
    """A complete tool call: `arguments` is the JSON text as received, `wire_id` the provider's id if it gave one."""

    tool: str
    arguments: str
    wire_id: str | None = None


class ModelAlive(msgspec.Struct, frozen=True):
    """Nothing to show, but a sign of life. `grown`: more of the answer came, such as a piece of a call."""

    grown: bool


class ModelYield(msgspec.Struct, frozen=True):
    """The model hands the turn back."""


class ModelDone(msgspec.Struct, frozen=True):
    """The answer is complete. Every stream ends with exactly one; a stream without it was cut off."""

    stop: StopReason
    usage: Usage = Usage()


ModelPart: TypeAlias = (
    ModelText | ModelThinking | ModelThought | ModelCall | ModelAlive | ModelYield | ModelDone
)


class Patience(msgspec.Struct, frozen=True):
    """How long a model may be silent, in seconds.

    `first_part_s`: until its answer begins. `idle_s`: between two parts after that. `alive_s`: how long signs of life
    and empty parts may take the place of an answer.
    """

    first_part_s: float = 120
    idle_s: float = 60
    alive_s: float = 600


PATIENCE: Final = Patience()


class Wire(Protocol):
    """A request as bytes: `head(prefix) + message, message … + tail(prefix)`. Pure and deterministic.

    Messages are encoded once each and joined with commas, so a step costs what is new, not what there is. A head that
    does not end with `[` has put something of its own into the list; a comma follows it. `canonical_form_version` is
    that of the messages it translates; the engine asserts that it is the current one.

    Raises: nothing. What an endpoint has no word for is left out or said in words.
    """

    canonical_form_version: ClassVar[int]

    @property
    def name(self) -> str: ...
    def head(self, prefix: PrefixSet) -> bytes: ...
    def message(self, message: Message) -> bytes: ...
    def tail(self, prefix: PrefixSet) -> bytes: ...


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `answers` counts the answers its conversation has had, compacted ones too. A request beside the
    conversation has step 0. `agent` names a subagent."""

    model: str
    body: bytes
    step: int
    answers: int
    purpose: RequestPurpose
    agent: str = ""


class Provider(Protocol):
    """A configured endpoint that answers requests in its wire's form."""

    @property
    def name(self) -> str: ...
    @property
    def wire(self) -> Wire: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Sends the request and yields a part for every read that brings one, or a sign of life. Closing the iterator
        ends the request at once. A provider whose attribute `patience` is a `Patience` is waited for as long as that.

        Raises: `ProviderError` with a stable reason; nothing is retried here.
        """
        ...


class ListedModel(Protocol):
    """A model as its provider lists it. Raises: nothing."""

    @property
    def name(self) -> str: ...


class ChoosableProvider(Provider, Protocol):
    """A provider that users can choose: it also lists its models and counts tokens. A turn needs neither."""

    async def models(self) -> Sequence[ListedModel]:
        """The models it has now, each once. Never a paid call.

        Raises: `ProviderError` with a stable reason.
        """
        ...

    def token_count(self, messages: Sequence[Message]) -> int:
        """About how many tokens these messages have, without asking anybody; none for none, never fewer for more."""
        ...


# The log


class SessionLog(Protocol):
    """The open log of one session, appended to only by the holder of its run lock.

    Ids start at 1 and have no gaps. Appending never waits: rows are committed a few milliseconds later, in order.

    Raises: `StoreError`, from every call once writing has failed.
    """

    @property
    def last_id(self) -> int: ...
    def append(self, envelope: Envelope, payload: bytes) -> None: ...
    def listen(
        self, heard: Callable[[int, StoreError | None], None], stuck: Callable[[StoreError], None]
    ) -> None:
        """Calls `heard` in the caller's event loop: with the last id each time rows have come to survive the death of
        this process (whoever waits for them in `committed` goes on after that); once with the failure when writing
        has failed. `stuck` is called, with what is in the way, when rows begin to wait for room on the disk."""
        ...

    async def committed(self) -> None:
        """Returns when everything appended so far survives the death of this process."""
        ...

    async def durable(self) -> None:
        """Returns when everything appended so far survives a power cut."""
        ...

    async def since(self, after: int, *, limit: int) -> Sequence[Envelope]:
        """Up to `limit` events with an id above `after`, in order, which keep the bytes they were appended with."""
        ...


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a session without reading its events.

    `updated_ms` moves with inputs, turns and models; `stop` is how the last turn ended, None
    while one is open. `renamed`: a person chose the title. `usd` is what is known to have been paid. `branch_of` is
    the session it was branched from, `imported_ms` when it came in from a file, `expired_ms` when its content was
    deleted. `headless`: it was begun where nobody could be asked. `rest_of`: it is what a repair could read behind a
    damage of that session, to be read and not gone on with.
    """

    id: str
    log: str
    cwd: str
    root: str
    profile: str
    title: str
    labels: tuple[str, ...]
    pinned: bool
    created_ms: int
    updated_ms: int
    model: str | None
    turns: int
    stop: str | None
    renamed: bool
    usd: float
    branch_of: str | None
    imported_ms: int | None
    expired_ms: int | None
    headless: bool
    rest_of: str | None = None

    @property
    def place(self) -> tuple[int, str]:
        """What lists of sessions are ordered by, the greatest first."""
        return self.updated_ms, self.id


class Record(msgspec.Struct, frozen=True):
    """An event as it is stored: what it says, and the bytes that say it."""

    envelope: Envelope
    payload: bytes


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to append to a log. `holder` is the run that has it; `epoch` is one more with everyone who takes it.

    It lasts until its holder gives it back or is found dead, and where `expires_ms` is set not longer than that
    without a word from it. Then another may take it; until one has, its holder may go on.
    """

    holder: str
    epoch: int
    expires_ms: int | None = None


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A session, who holds it right now if anybody does, and the id and kind of its last event; 0 before the first."""

    session: StoredSession
    lease: Lease | None
    last_id: int
    last_kind: str | None


class Room(Protocol):
    """How it stands with the disk the log is on. Raises: nothing."""

    def enough(self) -> bool:
        """Whether there is room for the record of a call, and nothing waits to be written."""
        ...

    def stuck(self) -> bool:
        """Whether events wait in memory because they could not be written."""
        ...


# Processes

SandboxMode: TypeAlias = Literal["off", "read-only", "workspace-write"]


class SpawnPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a started command may do, as far as the adapter can enforce it.

    `writable` are folders (or files) beside what every command of this mode may write; what is in `readable` can be
    read wherever it is, like the workspace. `programs` are the files of programs that the command needs: visible and
    read-only even in a temporary folder, unless they lie in a place of credentials. `scratch` is a folder of the
    session that stands for the temporary folder; without one, every command gets an empty one. `git_config`: git's own
    settings of the repository may be written, because that is what was asked for. `new_repository`: the workspace may
    become one, for the same reason. `agreed` are files that later runs obey and that a person let it
    change; `git_tree`: git may change any, to what they are in a commit. `repository_closed`: nothing of the repository
    may be written but the working tree. `required`: where nothing can enforce it, the
    command does not start. `hosts` are the rules for what is reached while the network is "filtered". `max_file_mib` is
    the largest file it may make; `max_processes` and `max_memory_mib` are for all commands of a session together, where
    the system counts that. `variables` are laid over the cleaned environment: what Bridle itself tells the
    command. `resident`: it stays while people work in the same folders, as a server does. What it makes in a call that
    later runs obey is put aside; what appears between its calls is reported.
    """

    mode: SandboxMode
    workspace: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    network: Literal["inherit", "filtered", "deny"] = "inherit"
    hosts: tuple[str, ...] = ()
    scratch: str = ""
    git_config: bool = False
    new_repository: bool = False
    agreed: tuple[str, ...] = ()
    git_tree: bool = False
    repository_closed: bool = False
    required: bool = False
    max_file_mib: int = 16_384
    max_processes: int = 4_096
    max_memory_mib: int = 1_048_576
    variables: Mapping[str, str] = {}
    resident: bool = False


Hosts: TypeAlias = Mapping[Literal["reached", "refused"], Sequence[str]]
EndCall: TypeAlias = Callable[[], Awaitable[None]]
BeginCall: TypeAlias = Callable[[], Awaitable[EndCall]]
"""Hosts a command asked for, each with its port where that is none of the web; the first few of each kind."""


class Process(Protocol):
    """One that was started. Raises: nothing but, from `wait`, what whoever took its output raised."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def sandbox(self) -> str:
        """What holds this very process: an adapter, `env-only` where nothing does, `off` where nothing was to."""
        ...

    def blocked(self, output: str) -> str:
        """What the sandbox kept it from, as one note for the model, judged by the end of its output; mostly empty."""
        ...

    @property
    def put_aside(self) -> Sequence[Notice]:
        """What it made that later runs would obey, one for each: it is out of the way now, or could not be."""
        ...

    def follow_put_aside(self, tell: Callable[[Notice], None]) -> BeginCall:
        """For one that is resident. `tell` hears of all that at once. What is returned is awaited before each call of
        it, and what that returns after the call: what it made meanwhile is put aside then."""
        ...

    def hosts(self) -> Hosts:
        """What it reached and what it was refused, where its network is filtered; empty otherwise."""
        ...

    async def wait(self) -> int:
        """Returns the exit code after the last output was delivered; negative for a signal."""
        ...

    async def stop(self, grace_s: float = 0.3) -> None:
        """SIGTERM to the whole group, SIGKILL after `grace_s`. Safe to call twice."""
        ...

    def when_output_ends(self, ended: Callable[[], None]) -> None:
        """Calls `ended` when the last of its output was delivered, at once where that is so."""
        ...


TakeOutput: TypeAlias = Callable[[bytes], "Future[None] | None"]
"""Takes a piece of what a process prints. Nothing more is read before what it returns is done."""


class Spawn(Protocol):
    """The only way to start a process. `adapter` names what confines commands here; empty while nobody knows.

    `stdin` is sent and closed; an `InputPipe` stays open. A process that is talked with for long is opened by
    `services.Server`.

    Raises: `CannotStart`, with why, where it does not run or nothing would hold it as the policy wants.
    """

    @property
    def adapter(self) -> str: ...
    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: TakeOutput,
        on_error: TakeOutput | None = None,
        stdin: bytes | InputPipe | None = None,
    ) -> Process: ...


# Goals

RunCall: TypeAlias = Callable[[str, dict[str, Any], IdentityClass], Awaitable[ToolResult]]
"""A call no model asked for: tool, input, and whose it is."""


class GoalDriver(Protocol):
    """One goal under way. What it finds it records itself, a round that follows as input of the session.

    Raises: nothing but `StoreError`, where what it found cannot be recorded.
    """

    @property
    def originator(self) -> str:
        """The client whose goal, and so whose check, it is."""
        ...

    def steps_left(self) -> int:
        """How many model calls may follow, of its turns and of agents that are sent in them."""
        ...

    async def check_round(self, ended: TurnEnded, run_call: RunCall) -> None:
        """Looks whether the goal is reached, now that a turn has ended and nobody waits. Cancelled, it stays open."""
        ...

    def closed(self, reason: str = "GoalStopped", **data: str) -> GoalEnded:
        """Its end without its check having passed, for whoever calls this to record. It is gone from its slot."""
        ...

    def hear(self, envelope: Envelope) -> None:
        """An event of the session while it is open."""
        ...


class GoalSlot:
    """The goal of a session, if one is under way. `stop_work` cancels the turn or the check that runs now; the session
    sets it."""

    def __init__(self) -> None:
        self.driver: GoalDriver | None = None
        self.stop_work: Callable[[], object] = lambda: None
