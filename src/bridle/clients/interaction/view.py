"""The state of a session for drawing, folded from events."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.text.phrases import one_line
from bridle.base.text.token_estimate import estimated_tokens
from bridle.clients.interaction.render.call_text import describe_call
from bridle.clients.interaction.render.event_rows import input_words
from bridle.clients.interaction.render.session_fold import SessionFold, changed_paths
from bridle.clients.interaction.render.usage import Contents, Tally
from bridle.protocol import events as e
from bridle.protocol.commands import AnyCommand, SendInput
from bridle.protocol.goal_state import GoalState, next_state
from bridle.protocol.inbox import next_input

_KEPT_CHARACTERS: Final = 4096
_GIT: Final = "git"
"""Where a command that a git command runs stands among the calls."""

Phase: TypeAlias = Literal["working", "thinking", "writing", "summarising", "drafting", "running"]


class RunningCall(msgspec.Struct):
    """A call between its start and its result. `lines` is how many it has printed so far, `printed` the end of them."""

    what: str
    lines: int = 0
    printed: str = ""


class Activity:
    """The fold. `calls` run now, the one that began first is first; `asked` counts requests to a model."""

    def __init__(self) -> None:
        self.calls: dict[str, RunningCall] = {}
        self.summarising = False
        self.drafting = False
        self.git_runs = False
        """From its first sign of life to its end, a git command of the person's."""
        self.asked = 0
        self._answering = False
        self._text: list[str] = []
        self._thought: list[str] = []
        self._thought_since_ms: int | None = None

    @property
    def text(self) -> str:
        """What the model said last, as it wrote it."""
        return "".join(self._text)

    @property
    def thought(self) -> str:
        """What the model thought last, as far as it was told."""
        return "".join(self._thought)

    @property
    def phase(self) -> Phase:
        if self.calls:
            return "running"
        if self.summarising:
            return "summarising"
        if self.drafting:
            return "drafting"
        if not self._answering:
            return "working"
        return "writing" if self._text else "thinking"

    @property
    def printed(self) -> str:
        return next((call.printed for call in self.calls.values()), "")

    @property
    def tokens(self) -> int:
        """About how many came of the answer or the thought that is coming; 0 where none did."""
        parts = self._text or (self._thought if self._thought_since_ms is not None else ())
        return estimated_tokens(sum(map(len, parts))) if self._answering and parts else 0

    def take(self, envelope: e.Envelope) -> float:
        """One more event. Returns how many milliseconds the thought took that it ends; 0 for any other."""
        match envelope.event:
            case e.TextDelta(text=text):
                self._text.append(text)
                return self._end_thought(envelope.ts_ms)
            case e.ThinkingDelta(text=text):
                if self._thought_since_ms is None:
                    self._thought_since_ms = envelope.ts_ms
                    self._thought.clear()
                self._thought.append(text)
                return 0
            case e.StepStarted():
                self.asked += 1
                self._answering = True
                self._text.clear()
            case e.StepEnded() | e.StepFailed():
                self._answering = False
            case e.TurnEnded():
                self._answering = self.summarising = False
            case e.ToolCallStarted(call_id=call, tool=tool, input=given):
                self.calls[call] = RunningCall(describe_call(tool, given))
            case e.ToolCallProgress(call_id=call, text=text, lines=lines) if call in self.calls:
                running = self.calls[call]
                running.lines = lines
                running.printed = (running.printed + text)[-_KEPT_CHARACTERS:]
                return 0
            case e.ToolResult(call_id=call):
                self.calls.pop(call, None)
            case e.Notice(reason="Compacting"):
                self.summarising = True
            case e.Notice(reason="GitDrafting"):
                self.git_runs = self.drafting = True
            case e.Notice(reason="GitRunning", data={"command": str(command)}):
                self.git_runs, self.drafting = True, False
                self.calls[_GIT] = RunningCall(command)
            case e.QuestionAsked():
                self.drafting = False
                return 0
            case e.Compacted() | e.Cancelled() | e.GitEnded() | e.Notice(reason="EngineFault"):
                self.summarising = False
                self._end_git()
            case _:
                return 0
        return 0 if self._answering else self._end_thought(envelope.ts_ms)

    def stop(self) -> None:
        """Nothing is under way any more."""
        self.calls.clear()
        self.summarising = self._answering = False
        self._end_git()

    def _end_git(self) -> None:
        self.git_runs = self.drafting = False
        self.calls.pop(_GIT, None)

    def _end_thought(self, ts_ms: int) -> float:
        since_ms, self._thought_since_ms = self._thought_since_ms, None
        return 0 if since_ms is None else ts_ms - since_ms


_TITLE_CHARACTERS: Final = 60


class SessionView:
    """The fold. `clients` are our own ids: an engine that took the place of another gives a new one. `names` are
    those of whoever was here. Nothing here is shown by itself.

    `model` is the one chosen, `asked` the one that answered last. `used` is what the session came to; `used_in_turn`,
    `turn_ms` and `changed` (files) what the turn did; `activity` is what is under way. `thought_ms` is how long the
    model thought, right after the event that ended its thought; 0 after any other. `inputs` wait for their turn, in
    their order; `asides` are questions beside the conversation that have no answer yet. `effort` is how much the model
    thinks, "" where nobody said. `goal` is the last one there was. `children` are agents that were sent,
    `child_activity` what those are at that work, `beside` those in the background of whose end the main one was not
    told yet; `used_by_agent` is what each came to by its path, the main one by an
    empty one.
    """

    def __init__(self, client: str) -> None:
        self.clients = {client}
        self.names: dict[str, str] = {}
        self.fold = SessionFold()
        self.inputs = self.fold.inputs
        self.children = self.fold.children
        self.used = self.fold.used
        self.jobs: dict[str, str] = {}
        self._asleep = False
        self._queued: set[int] = set()
        self._begun = ""
        self._sending: list[tuple[str, bool]] = []
        self._typed_calls: set[str] = set()
        self.title = ""
        self.model = ""
        self.asked = ""
        self.mode: e.Mode = "default"
        self.turns = 0
        self.last_id = 0
        self._early: list[tuple[str | None, e.AnyEvent]] = []
        self.degraded: dict[str, e.Degraded] = {}
        self.grants: dict[str, e.GrantAdded] = {}
        self.contents = Contents()
        self.used_in_turn = Tally()
        self.turn_ms = 0.0
        self.changed: set[str] = set()
        self.activity = Activity()
        self.thought_ms = 0.0
        self.effort = ""
        self.asides: set[int] = set()
        self.goal: GoalState | None = None
        self.child_activity: dict[str, Activity] = {}
        self.beside: set[str] = set()
        self.used_by_agent: dict[tuple[str, ...], Tally] = {}

    @property
    def answer(self) -> str:
        return self.activity.text

    @property
    def running(self) -> bool:
        """Whether a turn runs, or input is on its way that will start one, or a command the person typed, or an agent
        that a command of theirs sent."""
        return (
            self.in_turn
            or self.activity.summarising
            or self.activity.git_runs
            or self.has_goal
            or bool(self._sending or self._typed_calls or self.children.waited_for)
            or (not self._asleep and next_input(self.inputs) is not None)
        )

    @property
    def has_goal(self) -> bool:
        """Whether work goes on from turn to turn until a check passes."""
        return self.goal is not None and self.goal.ended is None

    @property
    def under_way(self) -> bool:
        """Whether anything is going on, also beside the conversation."""
        return self.running or bool(self.asides)

    @property
    def in_turn(self) -> bool:
        return self.fold.in_turn

    @property
    def created(self) -> e.SessionCreated | None:
        return self.fold.created

    @property
    def todos(self) -> tuple[e.Todo, ...]:
        return self.fold.main.todos

    @property
    def queued(self) -> list[str]:
        """What waits for the running turn, also what is still on its way there."""
        waiting = [input_words(one.event.content) for one in self.inputs.values() if not one.held]
        return [*waiting, *self.sending_words]

    @property
    def sending_words(self) -> list[str]:
        """What is still on its way into the inbox."""
        return [words for words, _ in self._sending]

    @property
    def held(self) -> int:
        """How many messages wait until they are let go."""
        return sum(one.held for one in self.inputs.values())

    def sending(self, words: str) -> None:
        """Input of ours is on its way. If a turn runs, the person was told that it waits, however that ends."""
        self._sending.append((words, self.running))

    def refused(self, command: AnyCommand) -> None:
        if isinstance(command, SendInput):
            del self._sending[:1]

    def begun_from_queue(self, number: int) -> str:
        """The words of an input that had to wait and whose turn begins now; "" for one that did not."""
        found = number in self._queued
        self._queued.discard(number)
        return self._begun if found else ""

    def was_shown_early(self, envelope: e.Envelope) -> bool:
        """Whether this is the second coming of an event: on a full disk it is shown before it has an id."""
        seen = envelope.invocation, envelope.event
        if envelope.id is None:
            if not isinstance(envelope.event, e.LiveEvent):
                self._early.append(seen)
            return False
        if seen not in self._early:
            return False
        self._early.remove(seen)
        self.last_id = envelope.id
        return True

    def take(self, envelope: e.Envelope) -> None:
        """Fold one more event. Text of a subagent is not kept."""
        self.last_id = envelope.id or self.last_id
        self.thought_ms = 0.0
        if e.concerns(envelope):
            self._take_own(envelope)
        else:
            self._take_of_child(envelope)
        self.fold.take(envelope)

    def _take_own(self, envelope: e.Envelope) -> None:
        self.contents.take(envelope.event)
        self.thought_ms = self.activity.take(envelope)
        match envelope.event:
            case e.TextDelta():
                pass
            case e.SessionCreated(mode=mode):
                self.mode = mode
                self.degraded.clear()
                self._begin_run()
            case e.Presence(clients=here):
                self.names |= {one.client: one.name for one in here}
            case e.ModeChanged(mode=mode):
                self.mode = mode
            case e.ModelChanged(holds="this_turn"):
                pass
            case e.ModelChanged() as changed:
                self.model = f"{changed.provider}:{changed.model}"
            case e.StepStarted(provider=provider, model=model):
                self.asked = f"{provider}:{model}"
            case e.CostIncremented() as cost:
                self.used_in_turn.add(cost)
                self.used_by_agent.setdefault(envelope.agent_path, Tally()).add(cost)
            case e.ChildStarted(call_id=call, task=task, background=background, invocation=child):
                self.title = self.title or ("" if call else one_line(task, _TITLE_CHARACTERS))
                self.beside |= {child} if background else set()
            case e.ChildEnded(invocation=child):
                self.child_activity.pop(child, None)
                self.goal = next_state(self.goal, envelope) if self.in_turn else self.goal
            case e.TurnTiming() as timing:
                self.turn_ms = timing.work_ms
            case e.Degraded() as degraded:
                self.degraded[degraded.what] = degraded
            case e.InputAccepted() as accepted:
                self._accepted(envelope, accepted)
            case e.AsideAsked() if envelope.id is not None:
                self.asides.add(envelope.id)
            case e.AsideAnswered(asked=asked):
                self.asides.discard(asked)
            case e.EffortChanged(effort=effort):
                self.effort = effort
            case e.PrefixSet(parameters=parameters) if not self.effort:
                self.effort = parameters.effort or ""
            case e.InputChanged() as changed:
                self._asleep = self._asleep and changed.change not in ("release", "first")
            case e.TurnStarted(input=number):
                begun = self.inputs.get(number)
                self._begun = "" if begun is None else input_words(begun.event.content)
                self._asleep = False
                self.turns += 1
                self.used_in_turn = Tally()
                self.changed = set()
            case e.GoalBegun() | e.GoalChecked() | e.GoalEnded():
                self.goal = next_state(self.goal, envelope)
            case e.TurnEnded():
                self.goal = next_state(self.goal, envelope)
            case e.ToolCallRequested(step=0, call_id=call):
                self._typed_calls.add(call)
            case e.ToolResult(call_id=call) as result:
                self._typed_calls.discard(call)
                if self.in_turn:
                    self.changed.update(changed_paths(result))
            case e.GrantAdded(grant_id=grant) as added:
                self.grants[grant] = added
            case e.GrantRevoked(grant_id=grant):
                self.grants.pop(grant, None)
            case e.BackgroundStarted(call_id=call, command=command):
                self.jobs[call] = command
            case e.BackgroundEnded(call_id=call):
                self.jobs.pop(call, None)
            case _:
                pass

    def _take_of_child(self, envelope: e.Envelope) -> None:
        """What a child is at, and the files it changed here: those are the turn's."""
        self.child_activity.setdefault(envelope.invocation or "", Activity()).take(envelope)
        apart = self.children.is_apart(envelope.invocation)
        if isinstance(envelope.event, e.ToolResult) and self.in_turn and not apart:
            self.changed.update(changed_paths(envelope.event))

    def _begin_run(self) -> None:
        """The session is opened again: what lived only as long as the program that had it before is gone."""
        self._typed_calls.clear()
        self.asides.clear()
        self._asleep = True  # what a crash left in the inbox runs with the next input
        self.activity.stop()
        self.child_activity.clear()
        self.beside.clear()
        self.jobs.clear()
        self.grants = {name: grant for name, grant in self.grants.items() if grant.life == "saved"}

    def _accepted(self, envelope: e.Envelope, accepted: e.InputAccepted) -> None:
        self.title = self.title or one_line(input_words(accepted.content), _TITLE_CHARACTERS)
        self.beside.discard(accepted.child)
        waits = self.in_turn or next_input(self.inputs) is not None
        if envelope.originator in self.clients and self._sending:
            waits = self._sending.pop(0)[1]
        self._asleep = False
        if envelope.id is not None and waits and not accepted.child:  # nobody said those words
            self._queued.add(envelope.id)
