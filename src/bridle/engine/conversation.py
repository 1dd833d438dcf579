"""The fold: from a session's events to what the model reads and what the session must remember.

Live and resumed sessions apply the same events to the same class, so a request is a pure function of the log.
Messages are only ever appended; `epoch` changes when a compaction replaced them, and with it every cached encoding.

A conversation is that of one invocation: the main one, or a child. It is given every event of the session; what another
invocation said is none of its messages, while mode and cost are the session's, whoever brought them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from bridle.base.text.untrusted import wrap
from bridle.engine.known_files import learn, seen_in
from bridle.protocol import inbox
from bridle.protocol.events import (
    AnyEvent,
    Branched,
    ByCommand,
    ChildEnded,
    ChildMemory,
    ChildMemoryUpdated,
    ChildStarted,
    CommandStamp,
    Compacted,
    ContextAdded,
    CostIncremented,
    EffortChanged,
    Envelope,
    GoalBegun,
    GoalChecked,
    GoalEnded,
    InputAccepted,
    InputChanged,
    Mode,
    ModeChanged,
    ModelChanged,
    PermissionDecided,
    PrefixSet,
    RequestedCall,
    SessionCreated,
    StepEnded,
    StepFailed,
    StepStarted,
    TextDelta,
    Todo,
    TodosChanged,
    ToolCallRequested,
    ToolCallStarted,
    ToolResult,
    TurnEnded,
    TurnStarted,
    concerns,
)
from bridle.protocol.goal_state import GoalState, next_state
from bridle.protocol.inbox import PendingInput
from bridle.protocol.messages import (
    AnyBlock,
    Effort,
    InputBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an agent inside a session. The main one has neither an id nor a path; its children have no parent."""

    id: str | None = None
    agent_path: tuple[str, ...] = ()
    parent: str | None = None


MAIN = Invocation()


class OpenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A requested call without a result. `started` is its intent, written at `started_ms`; `invocation` made the
    call."""

    call: RequestedCall
    started: ToolCallStarted | None = None
    started_ms: int = 0
    invocation: Invocation = MAIN


MessageSource: TypeAlias = Literal["input", "pin", "context", "answer", "results", "summary"]
"""What brought a message: what people asked for or pinned, what joined it, the model, its calls, a compaction."""

NO_EVENT = 0
"""The event of a summary: it stands before everything that was kept, so the next compaction replaces it."""
COMPACTED = "[compacted]"
"""What a tool result reads that was left out to save room."""
LEDGER_LEAD = "What agents that were sent came to earlier, in short:"
"""What a tool result begins with that holds the ledger of the results before it."""
MAX_MEMORIES = 50
"""Of so many kinds of children it is remembered what they left; of more, of those that were sent last."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """Where a message comes from: the event that brought it, in which turn, and what it is."""

    event: int
    turn: int
    source: MessageSource


class Entry(msgspec.Struct, frozen=True):
    """A message of a conversation and where it comes from."""

    mark: Mark
    message: Message


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """How many tokens a provider counted, request and answer, when there were so many messages."""

    tokens: int
    messages: int


NOTHING_WEIGHED = Counted(0, 0)
"""What `sizes` has estimated so far; it costs what is new, and is made again where it is lost."""

FOLD_VERSION = 7
"""Raised whenever the same events would fold to something else; older kept folds are then forgotten."""


MOST_COMMANDS = 2_000
"""Of so many commands with an id a session knows that it took them."""


class TakenCommand(msgspec.Struct, frozen=True, array_like=True):
    """A command with an id that this session took: the digest of the rest of it, and the event its answer named."""

    digest: str
    event: int | None


class Folded(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A conversation between two turns, as bytes would keep it. A cache: the events can always tell it again."""

    version: int
    last_id: int
    prefix: PrefixSet | None
    messages: list[Message]
    marks: list[Mark]
    epoch: int
    answers: int
    step: int
    turn: int
    mode: Mode
    model: ModelChanged | None
    cwd: str
    inputs: dict[int, PendingInput]
    wire_ids: set[str]
    mode_before_plan: Mode = "default"
    spent_usd: float = 0.0
    counted: Counted | None = None
    todos: tuple[Todo, ...] = ()
    known_files: dict[str, str] = {}
    named_remotes: bool = False
    effort: Effort | None = None
    commands: dict[str, TakenCommand] = {}
    goal: bytes = b""
    memories: dict[str, ChildMemory] = {}
    ledger: tuple[str, ...] = ()


_FOLDED_AS_THEY_ARE = tuple(
    name for name in Folded.__struct_fields__ if name not in ("version", "marks", "goal")
)
"""The fields that have the name and the form of what they keep of a conversation."""

_OUR_WORDS = frozenset({"denied", "blocked", "unknown"})
"""Outcomes of calls that did not run to an end: their content is Bridle's own sentence and not from outside."""


def _for_the_model(result: ToolResult) -> str:
    """What a tool brought back is data, whatever it says; the wrapper tells the model so."""
    if result.outcome in _OUR_WORDS or not result.content:
        return result.content
    return wrap("tool-result", result.content)


class Conversation:
    """State of one invocation as the events of its session tell it. Change it only through `apply`.

    The main one also holds its `children`: every other invocation that has not ended, or whose calls nobody knows the
    end of. What runs outside of the main one is in there too. `memories` are what children left, by key; `ledger` is
    what stands of earlier results of its own children.
    """

    def __init__(self, invocation: Invocation = MAIN) -> None:
        self.invocation = invocation
        self._own = invocation.id
        self.children: dict[str, Conversation] = {}
        self.has_ended = self.in_background = False
        self.prefix: PrefixSet | None = None
        self.messages: list[Message] = []
        self.epoch = 0
        self.answers = 0
        self.last_id = 0
        self.step = 0
        self.turn = 0
        self.turn_is_open = False
        self.mode: Mode = "default"
        self.mode_before_plan: Mode = "default"
        self.model: ModelChanged | None = None
        self._chosen: ModelChanged | None = None
        self.effort: Effort | None = None
        self._chosen_effort: Effort | None = None
        self.spent_usd = 0.0
        self.own_usd = 0.0
        """What this run of the invocation itself has used, and those it sent."""
        self.counted: Counted | None = None
        self.weighed = NOTHING_WEIGHED
        self.cwd = ""
        self.branch = ""
        """That of a child in a worktree of its own."""
        self.inputs: dict[int, PendingInput] = {}
        self.wire_ids: set[str] = set()
        self.todos: tuple[Todo, ...] = ()
        self.known_files: dict[str, str] = {}
        self.named_remotes = False
        self.commands: dict[str, TakenCommand] = {}
        self.goal: GoalState | None = None
        self.memories: dict[str, ChildMemory] = {}
        self.ledger: tuple[str, ...] = ()
        self._marks: list[Mark] = []
        self._text: list[str] = []
        self._calls: dict[str, OpenCall] = {}
        self._results: dict[str, ToolResultBlock] = {}
        self._held_back: list[tuple[InputBlock, ...]] = []
        self._persons_calls: dict[str, OpenCall] = {}

    @classmethod
    def of(cls, envelopes: Iterable[Envelope], invocation: Invocation = MAIN) -> Conversation:
        """The conversation of an invocation, from all events of its session."""
        conversation = cls(invocation)
        for envelope in envelopes:
            conversation.apply(envelope)
        return conversation

    def folded(self) -> bytes | None:
        """What has been folded so far, to go on from later; None in the middle of a turn."""
        if self.turn_is_open or self._calls or self._text or self._persons_calls or self.children:
            return None
        same = {name: getattr(self, name) for name in _FOLDED_AS_THEY_ARE}
        goal = b"" if self.goal is None else msgspec.msgpack.encode(self.goal)
        return msgspec.msgpack.encode(Folded(version=FOLD_VERSION, marks=self._marks, goal=goal, **same))

    @classmethod
    def restored(cls, kept: bytes) -> Conversation:
        """A conversation from what `folded` gave. Empty when another version of the fold wrote it."""
        conversation = cls()
        try:
            folded = msgspec.msgpack.decode(kept, type=Folded)
        except msgspec.MsgspecError:
            return conversation
        if folded.version != FOLD_VERSION:
            return conversation
        for name in _FOLDED_AS_THEY_ARE:
            setattr(conversation, name, getattr(folded, name))
        conversation._marks = folded.marks
        conversation._chosen, conversation._chosen_effort = folded.model, folded.effort
        if folded.goal:
            conversation.goal = msgspec.msgpack.decode(folded.goal, type=GoalState)
        return conversation

    def apply(self, envelope: Envelope) -> None:
        """Takes the next event of the session, whoever's it is. Live events change nothing."""
        if envelope.id is None:
            return
        self.last_id = envelope.id
        if isinstance(envelope.event, ByCommand) and envelope.event.stamp is not None and self._own is None:
            self._take_stamp(envelope.event.stamp, envelope.event)
        if envelope.invocation == self._own or concerns(envelope, self._own):
            handler = self._HANDLERS.get(type(envelope.event))
            if handler is not None:
                handler(self, envelope.event, envelope)
        if self.children:
            self._tell_children(envelope)

    def _take_stamp(self, stamp: CommandStamp, event: ByCommand) -> None:
        """Its first event is what the answer to a command named; a decision comes after its answer."""
        number = None if isinstance(event, PermissionDecided) else self.last_id
        self.commands.setdefault(stamp.id, TakenCommand(stamp.digest, number))
        while len(self.commands) > MOST_COMMANDS:
            del self.commands[next(iter(self.commands))]

    def _branched(self, _event: Branched, _envelope: Envelope) -> None:
        """What another session was told is none of this one's commands."""
        self.commands = {}

    def _child_started(self, event: ChildStarted, envelope: Envelope) -> None:
        """The main conversation holds all of them, also those that a child began."""
        if self.invocation.id is None:
            path = (*envelope.agent_path, event.agent)
            named = Invocation(id=event.invocation, agent_path=path, parent=envelope.invocation)
            child = self.children[event.invocation] = Conversation(named)
            parent = self.children.get(envelope.invocation or "", self)
            child.cwd, child.spent_usd = event.worktree or parent.cwd, self.spent_usd
            child.branch = event.branch
            child.in_background = event.background
            child.mode, child.mode_before_plan = self.mode, self.mode_before_plan

    def _child_ended(self, event: ChildEnded, envelope: Envelope) -> None:
        if self.goal is not None and self.turn_is_open:
            self._goal_event(event, envelope)
        if envelope.invocation == self._own:
            self.own_usd += event.usd
        if child := self.children.get(event.invocation):
            child.has_ended = True

    def _memory_updated(self, event: ChildMemoryUpdated, _envelope: Envelope) -> None:
        if self.invocation.id is None:
            self.memories.pop(event.memory_id, None)
            self.memories[event.memory_id] = event.memory
            for key in list(self.memories)[:-MAX_MEMORIES]:
                del self.memories[key]

    def _tell_children(self, envelope: Envelope) -> None:
        for name, child in list(self.children.items()):
            child.apply(envelope)
            if child.has_ended and not child.open_calls:
                del self.children[name]

    @property
    def entries(self) -> list[Entry]:
        """The messages, each with where it comes from. Events never go back but for what a compaction kept."""
        return [Entry(mark, message) for mark, message in zip(self._marks, self.messages, strict=True)]

    @property
    def open_calls(self) -> tuple[OpenCall, ...]:
        """Calls that have no result yet: of this step as the model asked for them, a person's own, children's."""
        asked = (call for call_id, call in self._calls.items() if call_id not in self._results)
        below = (call for child in self.children.values() for call in child.open_calls)
        return (*asked, *self._persons_calls.values(), *below)

    def _created(self, event: SessionCreated, _envelope: Envelope) -> None:
        if self._own is None:  # a child stays where it began
            self.cwd = event.cwd
        self._set_mode(event.mode)

    def _mode_changed(self, event: ModeChanged, _envelope: Envelope) -> None:
        self._set_mode(event.mode)

    def _set_mode(self, mode: Mode) -> None:
        self.mode = mode
        if mode != "plan":
            self.mode_before_plan = mode

    def _model_changed(self, event: ModelChanged, _envelope: Envelope) -> None:
        """A turn keeps the model it began with, unless the event says that it does not."""
        event = msgspec.structs.replace(event, stamp=None)
        if event.holds != "this_turn":
            self._chosen = event
        if not self.turn_is_open or event.holds != "from_next_turn":
            self.model = event

    def _effort_changed(self, event: EffortChanged, _envelope: Envelope) -> None:
        """A turn keeps the effort it began with: another one would spoil what its provider has cached."""
        self._chosen_effort = event.effort
        if not self.turn_is_open:
            self.effort = event.effort

    def _input_accepted(self, event: InputAccepted, envelope: Envelope) -> None:
        inbox.put(self.inputs, PendingInput(id=self.last_id, event=event, originator=envelope.originator))

    def _input_changed(self, event: InputChanged, _envelope: Envelope) -> None:
        inbox.change(self.inputs, event)

    def _turn_started(self, event: TurnStarted, _envelope: Envelope) -> None:
        self.turn += 1
        self.turn_is_open = True
        pending = self.inputs.pop(event.input)
        is_said = pending.event.goal is None and not pending.event.child
        self._append("user", pending.event.content, "input" if is_said else "context")

    def _turn_ended(self, event: TurnEnded, envelope: Envelope) -> None:
        """A step that was cut off keeps the words the person has read. A blocked input was never said."""
        if event.reason == "InputBlocked":
            self.messages.pop()
            self._marks.pop()
        if text := "".join(self._text):
            self._append("assistant", (TextBlock(text=text),), "answer")
        self._text.clear()
        self.turn_is_open = False
        self.model = self._chosen
        self.effort = self._chosen_effort
        if self.goal is not None:
            self._goal_event(event, envelope)

    def _goal_event(self, _event: AnyEvent, envelope: Envelope) -> None:
        """A goal is the session's: its children have none."""
        if self._own is None:
            self.goal = next_state(self.goal, envelope)

    def _prefix_set(self, event: PrefixSet, _envelope: Envelope) -> None:
        self.prefix = event

    def _context_added(self, event: ContextAdded, _envelope: Envelope) -> None:
        pending = None if event.input is None else self.inputs.pop(event.input, None)
        if self._calls:
            self._held_back.append(event.content)
            return
        source: MessageSource = "pin" if event.source == "pin" else "context"
        is_said = event.input is not None and (pending is None or not pending.event.child)
        self._append("user", event.content, "input" if is_said else source)

    def _step_started(self, event: StepStarted, _envelope: Envelope) -> None:
        self.step = event.step
        self._text.clear()

    def _text_delta(self, event: TextDelta, _envelope: Envelope) -> None:
        self._text.append(event.text)

    def _step_failed(self, _event: StepFailed, _envelope: Envelope) -> None:
        self._text.clear()

    def _step_ended(self, event: StepEnded, _envelope: Envelope) -> None:
        text = "".join(self._text)
        self._text.clear()
        blocks: list[AnyBlock] = [*event.thinking]
        if text:
            blocks.append(TextBlock(text=text))
        for call in event.calls:
            blocks.append(ToolUseBlock(wire_id=call.wire_id, tool=call.tool, input=call.input))
            self.wire_ids.add(call.wire_id)
        if blocks:
            self._append("assistant", tuple(blocks), "answer")
        whose = self.invocation
        self._calls = {call.call_id: OpenCall(call=call, invocation=whose) for call in event.calls}
        self._results = {}
        used = event.usage
        tokens = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens + used.output_tokens
        if tokens:
            self.counted = Counted(tokens, len(self.messages))

    def _cost(self, event: CostIncremented, envelope: Envelope) -> None:
        self.spent_usd += event.usd or 0.0
        if envelope.invocation == self._own:
            self.own_usd += event.usd or 0.0

    def _call_requested(self, event: ToolCallRequested, _envelope: Envelope) -> None:
        """A call outside any step is a person's; the model hears of it only as context."""
        if event.step == 0:
            call = RequestedCall(call_id=event.call_id, wire_id="", tool=event.tool, input=event.input)
            self._persons_calls[event.call_id] = OpenCall(call=call, invocation=self.invocation)

    def _call_started(self, event: ToolCallStarted, envelope: Envelope) -> None:
        for calls in (self._persons_calls, self._calls):
            if known := calls.get(event.call_id):
                calls[event.call_id] = OpenCall(
                    call=known.call,
                    started=event,
                    started_ms=envelope.ts_ms,
                    invocation=self.invocation,
                )
        command = event.input.get("command")
        if event.call_id in self._calls and isinstance(command, str) and "git" in command:
            self.named_remotes = self.named_remotes or _may_name_remotes(command)

    def _tool_result(self, event: ToolResult, _envelope: Envelope) -> None:
        """Results reach the model in the order it asked, whatever order they came in."""
        self._persons_calls.pop(event.call_id, None)
        if "seen" in event.metadata:
            learn(self.known_files, seen_in(event.metadata))
        open_call = self._calls.get(event.call_id)
        if open_call is None:
            return
        self._results[event.call_id] = ToolResultBlock(
            wire_id=open_call.call.wire_id,
            tool=event.tool,
            text=_for_the_model(event),
            failed=event.outcome != "ok",
        )
        if len(self._results) == len(self._calls):
            results = tuple(self._results[call_id] for call_id in self._calls)
            self._append("user", results, "results")
            self._calls = {}
            self._results = {}
            for content in self._held_back:
                self._append("user", content, "context")
            self._held_back.clear()

    def _todos_changed(self, event: TodosChanged, _envelope: Envelope) -> None:
        self.todos = event.todos

    def _compacted(self, event: Compacted, _envelope: Envelope) -> None:
        entries = compacted(self.entries, event)
        self.messages = [entry.message for entry in entries]
        self._marks = [entry.mark for entry in entries]
        self.ledger = event.ledger or self.ledger
        blocks = (block for message in self.messages for block in message.content)
        self.wire_ids = {block.wire_id for block in blocks if isinstance(block, ToolUseBlock)}
        self.counted = None
        self.weighed = NOTHING_WEIGHED
        self.epoch += 1

    def _append(
        self, role: Literal["user", "assistant"], content: tuple[AnyBlock, ...], source: MessageSource
    ) -> None:
        self.messages.append(Message(role=role, content=content))
        self._marks.append(Mark(self.last_id, self.turn, source))
        self.answers += role == "assistant"

    _HANDLERS: ClassVar[dict[type[AnyEvent], Callable[[Conversation, Any, Envelope], None]]] = {
        SessionCreated: _created,
        Branched: _branched,
        ChildStarted: _child_started,
        ChildEnded: _child_ended,
        ChildMemoryUpdated: _memory_updated,
        ModeChanged: _mode_changed,
        ModelChanged: _model_changed,
        EffortChanged: _effort_changed,
        InputAccepted: _input_accepted,
        InputChanged: _input_changed,
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        PrefixSet: _prefix_set,
        ContextAdded: _context_added,
        StepStarted: _step_started,
        TextDelta: _text_delta,
        StepFailed: _step_failed,
        StepEnded: _step_ended,
        CostIncremented: _cost,
        TodosChanged: _todos_changed,
        ToolCallRequested: _call_requested,
        ToolCallStarted: _call_started,
        ToolResult: _tool_result,
        Compacted: _compacted,
        GoalBegun: _goal_event,
        GoalChecked: _goal_event,
        GoalEnded: _goal_event,
    }


def compacted(entries: Sequence[Entry], event: Compacted) -> list[Entry]:
    """What a compaction leaves: what it kept of the beginning, the summary, and the end. Order never changes."""
    also = frozenset(event.also_kept)
    texts = dict.fromkeys(event.cleared, COMPACTED)
    if event.ledger and event.cleared:
        texts[event.cleared[-1]] = ledger_text(event.ledger)
    before = [entry for entry in entries if entry.mark.event < event.kept_from and entry.mark.event in also]
    after = [entry for entry in entries if entry.mark.event >= event.kept_from]
    turn = event.dropped.last_turn
    summary = Message(role="user", content=(TextBlock(text=event.summary),))
    middle = [Entry(Mark(NO_EVENT, turn, "summary"), summary)] if event.summary else []
    return [_cleared(entry, texts) for entry in (*before, *middle, *after)]


def ledger_text(lines: Sequence[str]) -> str:
    """The ledger as the model reads it: data like every result of a tool."""
    return wrap("tool-result", "\n".join((LEDGER_LEAD, *lines)))


_WITHOUT_QUOTES = str.maketrans("", "", "'\"\\")


def _may_name_remotes(command: str) -> bool:
    """Whether the text of a shell command may tell git where to get things from, however its words are quoted."""
    plain = command.translate(_WITHOUT_QUOTES)
    return "git" in plain and ("remote" in plain or "config" in plain or "git $" in plain)


def _cleared(entry: Entry, texts: Mapping[str, str]) -> Entry:
    """The entry with these texts as the results of calls, by wire id. Which calls there were stays."""
    if entry.mark.source != "results" or not texts:
        return entry
    content = tuple(
        msgspec.structs.replace(block, text=texts[block.wire_id])
        if isinstance(block, ToolResultBlock) and block.wire_id in texts
        else block
        for block in entry.message.content
    )
    return Entry(entry.mark, Message(role=entry.message.role, content=content))
