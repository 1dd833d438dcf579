"""What the model and its calls are at, folded from events."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.token_estimate import estimated_tokens
from bridle.clients.interaction.story import describe_call
from bridle.protocol import events as e

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
        """The end of what the call that runs has printed."""
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
