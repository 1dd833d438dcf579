"""The layers that ask hooks before a tool is used, and tell them of every request to the model.

A patch is validated and guarded again, so the person and the rules behind this layer see the input that will run. What
comes after a call (`Hooks.tool_ended`) is no layer: it waits for programs, and between the end of a call and its result
in the log nobody may wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from bridle.engine.conversation import Conversation
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import sentence
from bridle.protocol.events import Evidence, Notice
from bridle.protocol.messages import TextBlock
from bridle.safety.guards import fail_closed
from bridle.safety.hooks.definitions import Phase
from bridle.safety.hooks.hook_process import patched
from bridle.safety.hooks.session_hooks import Hooks, HookVerdict

SOURCE = "hook"

CheckAgain: TypeAlias = Callable[[ToolCall], Awaitable[ToolCall | ToolOutput]]
"""What the layers in front make of a changed call: the call as it would arrive here, or the output that ends it."""


def passing(*layers: ToolLayer) -> CheckAgain:
    """Sends a call through layers without running it."""

    async def check(call: ToolCall) -> ToolCall | ToolOutput:
        arrived: list[ToolCall] = []

        async def arrive(call: ToolCall) -> ToolOutput:
            arrived.append(call)
            return ToolOutput()

        run: RunTool = arrive
        for layer in reversed(layers):
            run = _behind(layer, run)
        output = await run(call)
        return arrived[0] if arrived else output

    return check


def hooked(hooks: Hooks, check_again: CheckAgain, *, phase: Phase = "before_permission") -> ToolLayer:
    """Asks the `PreToolUse` hooks of one phase, in order; each sees what the ones before it made of the input.

    Behind permission nothing can be changed or asked any more: a hook that wants to is one that says no.
    """

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        listening = [one for one in hooks.listening("PreToolUse", call.name) if one.phase == phase]
        if not listening:
            return await proceed(call)
        given = call.input
        for listener in listening:
            facts: dict[str, Any] = {"call_id": call.id, "tool_name": call.name, "tool_input": call.input}
            if phase == "after_permission":
                facts["decision"] = "allow"
            word = await hooks.consult(listener, hooks.context("PreToolUse", **facts))
            taken = await _taken(word, call, phase, check_again)
            if isinstance(taken, ToolOutput):
                return taken
            if taken.input != call.input:
                message = f"hook {listener.shown} changed the input of {call.name}"
                hooks.around.emit(Notice(reason="HookPatched", message=message, data={"call_id": call.id}))
            call = taken
        if call.input is given:
            return await proceed(call)
        hooks.patched(call)
        try:
            return await proceed(call)
        except BaseException:
            hooks.forget(call)
            raise

    return fail_closed(SOURCE, layer)


def tell_hooks(hooks: Hooks) -> RequestLayer:
    """Tells hooks that the model is about to be asked, and what it answered; once per step, not per attempt."""

    async def layer(step: Step, proceed: AskModel) -> Reply:
        if not (hooks.listening("BeforeModelRequest") or hooks.listening("AfterModelResponse")):
            return await proceed(step)
        conversation = step.journal.conversation
        chosen = conversation.model
        model = f"{chosen.provider}:{chosen.model}" if chosen is not None else ""
        await hooks.before_model_request(model=model, step=step.number)
        reply = await proceed(step)
        calls = tuple(call.tool for call in reply.calls)
        await hooks.after_model_response(
            model=model, step=step.number, text=_last_answer(conversation), calls=calls
        )
        return reply

    return layer


def _last_answer(conversation: Conversation) -> str:
    last = conversation.messages[-1] if conversation.messages else None
    if last is None or last.role != "assistant":
        return ""
    return "".join(block.text for block in last.content if isinstance(block, TextBlock))


async def _taken(
    word: HookVerdict, call: ToolCall, phase: Phase, check_again: CheckAgain
) -> ToolCall | ToolOutput:
    if word.decision == "block":
        return _blocked(word, call)
    given = word.input if word.input is not None else call.input
    if word.patch is not None:
        given = patched(given, word.patch)
    late = phase == "after_permission"
    if late and (given != call.input or word.decision == "ask"):
        wish = "ask about" if word.decision == "ask" else "change"
        message = f"it wants to {wish} the call, which was settled already"
        return _blocked(msgspec.structs.replace(word, message=message, reason="HookFailed"), call)
    if given != call.input:
        checked = await check_again(msgspec.structs.replace(call, input=given))
        if isinstance(checked, ToolOutput):
            return _spoiled(word, call, checked)
        call = checked
    if word.decision == "ask" and not call.must_ask:
        why = f"hook {word.by.shown}: {word.message}" if word.message else f"hook {word.by.shown} asks"
        call = msgspec.structs.replace(call, must_ask=why)
    return call


def _blocked(word: HookVerdict, call: ToolCall) -> ToolOutput:
    data = {
        "tool": call.name,
        "hook": word.by.shown,
        "message": word.message,
        "problem": word.message.rstrip("."),
    }
    own_words = word.reason in ("HookHashChanged", "HookNotApproved")
    return ToolOutput(
        outcome="blocked",
        reason=word.reason,
        content=word.message if own_words else sentence(word.reason, data),
        evidence=Evidence(source=SOURCE, rule=word.by.shown, matched=word.message),
    )


def _spoiled(word: HookVerdict, call: ToolCall, output: ToolOutput) -> ToolOutput:
    """A patch that does not pass the checks: the model's own input was sound, so this is the hook's no."""
    message = f"its patch was refused: {output.content}"
    return _blocked(msgspec.structs.replace(word, message=message, reason="HookFailed"), call)


def _behind(layer: ToolLayer, proceed: RunTool) -> RunTool:
    def run(call: ToolCall) -> Awaitable[ToolOutput]:
        return layer(call, proceed)

    return run
