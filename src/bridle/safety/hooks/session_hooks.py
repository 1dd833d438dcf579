"""The hooks of one session, told of everything that happens in it. A moment nobody listens to costs nothing.

Programs come first, in the order they were found, then callables in the order they were registered: they run one after
the other. A callable runs inside this process and waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from bridle.base.clock import Clock
from bridle.base.secrets.redact import redact, stored_marker
from bridle.engine.dispatch import Submitted
from bridle.engine.journal import redacted
from bridle.engine.tools import ToolCall
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import (
    DurableEvent,
    EndCause,
    HookError,
    HookTimeout,
    Notice,
    ToolResult,
    TurnStop,
)
from bridle.safety.hooks.definitions import (
    ABOUT_TOOLS,
    EVENTS,
    GATING,
    Actor,
    Hook,
    HookContext,
    HookEvent,
    IsTrusted,
    OnError,
    Phase,
    concerns,
    context_of,
    unapproved,
)
from bridle.safety.hooks.hook_process import KILL_AFTER_S, HookAnswer, HookDecision, StartHook, run_command
from bridle.safety.permitted import HookWord

RAN: frozenset[str] = frozenset({"ok", "error", "timeout"})
NEVER_RAN: frozenset[str | None] = frozenset({"UnknownTool", "InvalidInput"})


class Continue(msgspec.Struct, frozen=True):
    """A callable has nothing to say."""


class Block(msgspec.Struct, frozen=True):
    """A callable says no. Counts where hooks are gates."""

    reason: str


class Modify(msgspec.Struct, frozen=True):
    """A callable wants the tool to get this input instead. Counts before a tool is used."""

    input: dict[str, Any]


HookCallable: TypeAlias = Callable[[HookContext], Continue | Block | Modify | None]


class InProcessHook(msgspec.Struct, frozen=True, kw_only=True):
    """A callable at one moment. Its exception at a gate blocks, always."""

    event: HookEvent
    run: HookCallable
    shown: str
    tool: str = ""
    on_error: OnError = "block"
    phase: Phase = "before_permission"


AnyHook: TypeAlias = Hook | InProcessHook


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking one hook, its failure already judged. `reason` is stable when it says no."""

    by: AnyHook
    decision: HookDecision | None = None
    message: str = ""
    reason: Literal["HookBlocked", "HookFailed", "HookHashChanged", "HookNotApproved"] = "HookBlocked"
    patch: dict[str, Any] | None = None
    input: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}


class HookDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What running hooks needs. `workspaces` are resolved folders; files in them are not the person's own.

    `secrets` gives the keys in use, which no program is shown in an output.
    """

    start: StartHook
    clock: Clock
    emit: Callable[[DurableEvent], object]
    is_trusted: IsTrusted
    workspaces: tuple[str, ...]
    turn: Callable[[], int | None] = lambda: None
    secrets: Callable[[], Iterable[str]] = tuple
    kill_after_s: float = KILL_AFTER_S


class Hooks:
    """The hooks of one session, or of one child in it (`acting_as`)."""

    def __init__(self, hooks: Iterable[Hook], *, actor: Actor, around: HookDependencies) -> None:
        self.around = around
        self.actor = actor
        self._listeners: Mapping[HookEvent, list[AnyHook]] = {event: [] for event in EVENTS}
        self._patched: dict[str, dict[str, Any]] = {}
        for hook in hooks:
            self._listeners[hook.event].append(hook)

    def register(
        self,
        event: HookEvent,
        run: HookCallable,
        *,
        name: str = "",
        tool: str = "",
        phase: Phase = "before_permission",
    ) -> None:
        """Adds a callable behind everything that listens already."""
        shown = name or getattr(run, "__qualname__", type(run).__name__)
        self._listeners[event].append(
            InProcessHook(event=event, run=run, shown=shown, tool=tool, phase=phase)
        )

    def acting_as(self, actor: Actor) -> Hooks:
        """The same hooks for a child: what listens to the session listens to it too."""
        child = Hooks((), actor=actor, around=self.around)
        child._listeners = self._listeners
        return child

    def listening(self, event: HookEvent, tool: str = "") -> list[AnyHook]:
        """Who is to be told, in order."""
        listeners = self._listeners[event]
        if not listeners or event not in ABOUT_TOOLS:
            return listeners
        return [listener for listener in listeners if concerns(listener.tool, tool)]

    # The moments of a session. Each returns at once where nobody listens.

    async def session_started(self, *, resumed: bool = False) -> str:
        """Returns what hooks want the model to know, empty if nothing."""
        words = await self._tell("SessionStart", resumed=resumed)
        return _context_in(words)

    async def session_ended(self, cause: EndCause) -> None:
        await self._tell("SessionEnd", cause=cause)

    async def input_submitted(self, prompt: str) -> Submitted:
        """Asks whether an input may start a turn; the first hook that says no is the last that is asked."""
        if not self._listeners["UserPromptSubmit"]:
            return Submitted()
        words: list[HookVerdict] = []
        for listener in self.listening("UserPromptSubmit"):
            word = await self.consult(listener, self.context("UserPromptSubmit", prompt=prompt))
            if word.decision == "block":
                return Submitted(blocked_by=listener.shown, message=word.message)
            words.append(word)
        return Submitted(context=_context_in(words))

    async def before_model_request(self, *, model: str, step: int) -> None:
        await self._tell("BeforeModelRequest", model=model, step=step)

    async def after_model_response(self, *, model: str, step: int, text: str, calls: tuple[str, ...]) -> None:
        """`calls` are the names of the tools the model asks for."""
        if self._listeners["AfterModelResponse"]:
            await self._tell(
                "AfterModelResponse", model=model, step=step, text=self._clean(text), calls=calls
            )

    async def permission_requested(self, call: ToolCall, why: str) -> HookWord | None:
        """Asks hooks before a person is asked. None leaves the question to the person.

        Any no is a no. A yes counts from the person's own hooks only, and not where a hook wants a person to decide.
        """
        if not self._listeners["PermissionRequest"]:
            return None
        allowed: HookWord | None = None
        for listener in self.listening("PermissionRequest", call.name):
            context = self.context("PermissionRequest", **_call_facts(call), decision="ask", why=why)
            word = await self.consult(listener, context)
            if word.decision == "block":
                return HookWord(verdict="deny", by=listener.shown, message=word.message)
            if word.decision == "allow" and _may_allow(listener) and not call.must_ask:
                allowed = allowed or HookWord(verdict="allow", by=listener.shown, message=word.message)
        return allowed

    async def tool_ended(self, call: ToolCall, result: ToolResult) -> None:
        """Called once the result is in the log. `call` may be the one from before the layers."""
        given = self._patched.pop(call.id, call.input)
        failed = result.outcome in ("error", "timeout")
        ran = result.outcome in RAN and result.reason not in NEVER_RAN
        events: list[HookEvent] = [*(("PostToolUse",) if ran else ()), *(("ToolError",) if failed else ())]
        if not any(self.listening(event, call.name) for event in events):
            return
        seen = redacted(result, [secret for secret in self.around.secrets() if secret])
        facts = {**_call_facts(call), "tool_input": given}
        for event in events:
            await self._tell(
                event, **facts, tool_output=seen.content, outcome=seen.outcome, reason=seen.reason
            )

    async def turn_ended(self, stop: TurnStop, reason: str | None = None) -> None:
        """A turn that a person stopped is neither complete nor failed, and nobody is told."""
        if stop in ("cancelled", "interrupted"):
            return
        await self._tell("TurnFailed" if stop == "error" else "Stop", stop=stop, reason=reason)

    async def compacting(self, reason: str = "") -> None:
        await self._tell("Compact", reason=reason or None)

    # For the layer around tools

    def patched(self, call: ToolCall) -> None:
        """The input of this call is not the one the model asked for any more."""
        self._patched[call.id] = call.input

    def forget(self, call: ToolCall) -> None:
        self._patched.pop(call.id, None)

    def context(self, event: HookEvent, **more: Any) -> HookContext:
        return context_of(event, self.actor, self.around.turn(), **more)

    async def consult(self, listener: AnyHook, context: HookContext) -> HookVerdict:
        """Asks one hook. Never raises for anything a hook does: its failure is judged here, and recorded."""
        try:
            if isinstance(listener, InProcessHook):
                word = _word_of(listener, listener.run(context))
            else:
                word = await self._run(listener, context)
        except StoreError:
            raise
        except Exception as fault:  # noqa: BLE001  fail closed: whatever a hook breaks, it is that hook's failure
            word = self._failed(listener, f"{type(fault).__name__}: {fault}", exit_code=1)
        if word.decision == "warn":
            self._say("HookWarned", f"hook {listener.shown}: {word.message}")
        elif word.decision == "block" and context.event not in GATING:
            self._say("HookWarned", f"hook {listener.shown} cannot block {context.event}: {word.message}")
        return word

    async def _tell(self, event: HookEvent, **facts: Any) -> list[HookVerdict]:
        """Runs every hook of a moment at which nothing can be blocked."""
        if not self._listeners[event]:
            return []
        context = self.context(event, **facts)
        return [
            await self.consult(listener, context)
            for listener in self.listening(event, context.tool_name or "")
        ]

    async def _run(self, hook: Hook, context: HookContext) -> HookVerdict:
        around = self.around
        path = unapproved(hook, cwd=context.cwd, workspaces=around.workspaces, is_trusted=around.is_trusted)
        if path is not None:
            return self._not_run(hook, path)
        ran = await run_command(
            hook, context, start=around.start, clock=around.clock, kill_after_s=around.kill_after_s
        )
        answer = ran.answer
        if isinstance(answer, HookAnswer):
            return HookVerdict(
                by=hook,
                decision=answer.decision,
                message=answer.message or _unsaid(answer.decision),
                patch=answer.patch,
                metadata=answer.metadata,
            )
        if ran.timed_out:
            around.emit(HookTimeout(event=hook.event, command=hook.shown, timeout_ms=hook.timeout_ms))
            data = {"event": hook.event, "command": hook.shown, "timeout_s": f"{hook.timeout_ms / 1000:g}"}
            return _judged(hook, sentence("HookTimeout", data))
        return self._failed(hook, answer.problem, exit_code=ran.exit_code)

    def _failed(self, listener: AnyHook, problem: str, *, exit_code: int) -> HookVerdict:
        self.around.emit(
            HookError(event=listener.event, command=listener.shown, exit_code=exit_code, message=problem)
        )
        return _judged(listener, problem)

    def _not_run(self, hook: Hook, path: str) -> HookVerdict:
        reason = "HookHashChanged" if hook.scope == "project" else "HookNotApproved"
        message = sentence(reason, {"path": path, "hook": hook.shown})
        self._say(reason, message)
        return msgspec.structs.replace(_judged(hook, message), reason=reason)

    def _say(self, reason: str, message: str) -> None:
        self.around.emit(Notice(reason=reason, message=message))

    def _clean(self, text: str) -> str:
        for secret in self.around.secrets():
            if secret:
                text = text.replace(secret, stored_marker("key"))
        return redact(text)


def _judged(listener: AnyHook, problem: str) -> HookVerdict:
    """A failure as its hook wants it taken: as a no, or as nothing."""
    blocks = listener.event in GATING and listener.on_error == "block"
    return HookVerdict(
        by=listener, decision="block" if blocks else None, message=problem, reason="HookFailed"
    )


def _word_of(listener: InProcessHook, said: object) -> HookVerdict:
    match said:
        case Block(reason=reason):
            return HookVerdict(by=listener, decision="block", message=reason)
        case Modify(input=given):
            return HookVerdict(by=listener, input=given)
        case Continue() | None:
            return HookVerdict(by=listener)
        case _:  # a coroutine, a bool: whatever it was meant to say, it was not "go on"
            raise TypeError(f"a hook answers Continue, Block or Modify, not {type(said).__name__}")


def _unsaid(decision: HookDecision | None) -> str:
    return "it gave no reason" if decision in ("block", "warn") else ""


def _may_allow(listener: AnyHook) -> bool:
    return isinstance(listener, InProcessHook) or listener.scope == "user"


def _call_facts(call: ToolCall) -> dict[str, Any]:
    return {"call_id": call.id, "tool_name": call.name, "tool_input": call.input}


def _context_in(words: Iterable[HookVerdict]) -> str:
    """The texts hooks leave for the model, as `metadata.context`."""
    texts = (word.metadata.get("context") for word in words)
    return "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
