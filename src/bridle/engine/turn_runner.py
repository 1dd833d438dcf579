"""The turns of one invocation: an input goes in, its ending comes out, whatever goes wrong in between.

What a turn consists of is in `engine/turn.py`; when one runs, and who may stop it, is the session's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bridle.base.ids import Ids
from bridle.engine.dispatch import Dispatcher
from bridle.engine.journal import Journal
from bridle.engine.open_questions import Questions
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.turn import Ending, GoOn, run_turn
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import ContextAdded, Error, IdentityClass, ToolResult
from bridle.protocol.inbox import PendingInput
from bridle.protocol.messages import FileMention, InputBlock, TextBlock
from bridle.protocol.questions import StepLimitAnswer, StepLimitQuestion

if TYPE_CHECKING:
    from bridle.engine.dispatch import Watcher


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`stop_unanswered`: a question nobody can answer ends the turn instead of only the call. `is_final`: nobody is
    asked whether more steps may follow."""

    max_steps: int = 100
    stop_unanswered: bool = False
    is_final: bool = False


StepsLeft: TypeAlias = Callable[[], int]
"""How many model calls may follow from now on, of this turn and of others that work for the same."""
ReadMention: TypeAlias = Callable[[str], tuple[str, dict[str, Any]] | None]
"""The tool and its input that read what a person points at, where that is no file; None where it is one."""


class InvocationParts(msgspec.Struct, frozen=True, kw_only=True):
    """What one invocation works with, the main one or a child: its part of the log with its conversation, its questions
    to the people of the session, its way to the model, its calls, and where its time goes."""

    journal: Journal
    questions: Questions
    stopwatch: Stopwatch
    ask: AskModel
    dispatcher: Dispatcher


class TurnRunner:
    """Runs turns, and single calls that no model asked for. It starts no task and knows nothing of who waits."""

    def __init__(
        self,
        main: InvocationParts,
        *,
        ids: Ids,
        limits: Limits,
        watcher: Watcher | None = None,
        read_mention: ReadMention | None = None,
    ) -> None:
        self.journal = main.journal
        self.questions = main.questions
        self.stopwatch = main.stopwatch
        self._ask = main.ask
        self._dispatcher = main.dispatcher
        self._ids = ids
        self._limits = limits
        self.watcher = watcher
        self._read_mention = read_mention

    async def run(self, pending: PendingInput, *, steps_left: StepsLeft | None = None) -> Ending:
        """Run the turn of an input inside its crash boundary. Raises `StoreError` and nothing else. Without
        `steps_left`, a person is asked before the limit of the session."""
        steps = 0

        async def ask() -> Reply:
            nonlocal steps
            steps += 1
            return await self._ask(Step(number=self.journal.conversation.step + 1, journal=self.journal))

        async def run_calls(reply: Reply) -> list[ToolResult]:
            results = await self._dispatcher.run(
                reply.calls, step=self.journal.conversation.step, identity=pending.event.identity
            )
            if self._limits.stop_unanswered:
                _refuse_unanswered(results)
            return results

        try:
            await self._submit(pending.event.content)
            await self._read_mentions(pending.event.content, pending.event.identity)
            return await run_turn(
                ask=ask,
                run_calls=run_calls,
                hear=self._hear,
                go_on=self._within_limits(steps_left),
            )
        except asyncio.CancelledError:
            return Ending(stop="cancelled", steps=steps)
        except StoreError:
            raise
        except BridleError as failure:
            self.journal.emit(Error(reason=failure.reason, message=failure.message, data=failure.data))
            return Ending(stop="error", steps=steps, reason=failure.reason, data=failure.data)
        except Exception as fault:  # noqa: BLE001  the crash boundary: a broken turn must not end the session
            problem = f"{type(fault).__name__}: {fault}"
            data = {"problem": problem}
            self.journal.emit(Error(reason="EngineFault", message=sentence("EngineFault", data), data=data))
            return Ending(stop="error", steps=steps, reason="EngineFault", data=data)

    def message_of(self, ending: Ending) -> str | None:
        """The sentence of an ending that has a reason; an answer that ended badly knows no more than its provider."""
        if ending.reason is None:
            return None
        prefix = self.journal.conversation.prefix
        provider = "" if prefix is None else prefix.provider
        data = {"provider": provider, "problem": "its end says that it failed", **ending.data}
        return sentence(ending.reason, data)

    async def call(self, tool: str, given: dict[str, Any], identity: IdentityClass) -> ToolResult:
        return await self._dispatcher.run_alone(self._ids.new("call"), tool, given, identity)

    async def _submit(self, content: tuple[InputBlock, ...]) -> None:
        """Lets whoever watches say no to an input, or add to it. A blocked input never reaches the model."""
        if self.watcher is None:
            return
        text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
        submitted = await self.watcher.input_submitted(text)
        if submitted.blocked_by:
            raise BridleError("InputBlocked", hook=submitted.blocked_by, message=submitted.message)
        if submitted.context:
            self.journal.emit(ContextAdded(source="hook", content=(TextBlock(text=submitted.context),)))

    async def _read_mentions(self, content: tuple[InputBlock, ...], identity: IdentityClass) -> None:
        """The files somebody pointed at join the conversation behind their words."""
        for mention in content:
            if isinstance(mention, FileMention):
                other = self._read_mention(mention.path) if self._read_mention is not None else None
                tool, given = other or ("read_file", {"path": mention.path})
                result = await self.call(tool, given, identity)
                text = f"{mention.path}:\n{result.content}"
                self.journal.emit(ContextAdded(source="mention", content=(TextBlock(text=text),)))

    def _within_limits(self, steps_left: StepsLeft | None) -> GoOn:
        """Lets steps follow up to a limit, then asks, and up to the same limit again."""
        limit = min(self._limits.max_steps, max(1, steps_left())) if steps_left else self._limits.max_steps
        asks_at, least_left = limit, 0

        async def go_on(done: int) -> bool:
            nonlocal asks_at, least_left
            if done < asks_at and (steps_left is None or steps_left() > least_left):
                return True
            if not await self._go_on(done, limit):
                return False
            asks_at, least_left = done + limit, 0 if steps_left is None else steps_left() - limit
            return True

        return go_on

    async def _go_on(self, steps: int, more: int) -> bool:
        """Asks a person whether a long turn may go on. Nobody there means no."""
        if self._limits.is_final:
            return False
        question = StepLimitQuestion(steps=steps, more=more)
        answer = await self.questions.ask(f"steps-{self.journal.conversation.step}", question)
        return isinstance(answer, StepLimitAnswer) and answer.go_on

    def _hear(self) -> None:
        """Gives the model what people said while tools ran."""
        for pending in list(self.journal.conversation.inputs.values()):
            if pending.event.mode == "steer" and not pending.held:
                source = "agent" if pending.event.child else "steer"
                self.journal.emit(
                    ContextAdded(source=source, content=pending.event.content, input=pending.id),
                    originator=pending.originator,
                )


def _refuse_unanswered(results: list[ToolResult]) -> None:
    for result in results:
        if result.reason == "NoApprover":
            raise BridleError("NoApprover", tool=result.tool, hint="")
