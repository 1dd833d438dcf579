"""A feature: what one capability adds to a session, as a value. `join` puts features together, each layer in its slot.

Order is decided here and nowhere else: a feature names a slot, never a neighbour. A plugin is a feature from outside;
it stands in open slots only.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bridle.engine.deadline import finish
from bridle.engine.dispatch import ToolLayers
from bridle.engine.foreign_output import checked, checked_reply, cut_short, foreign_step
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOrigin, ToolOutput
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import Degraded, Envelope, Notice

if TYPE_CHECKING:
    from bridle.base.clock import Clock
    from bridle.engine.services import Service, ToolSource
    from bridle.engine.session import StopChild
    from bridle.engine.slash_command import SessionPrompts, SlashCommand, SlashEvent
    from bridle.engine.tools import Tool
    from bridle.engine.turn_runner import ReadMention
    from bridle.protocol.commands import CustomCommand
    from bridle.protocol.queries import AnyQuery, AnyQueryAnswer, CustomQuery

REQUEST_SLOTS = (
    "budget",  # a request that could cost too much: a person is asked
    "fallback",  # an overloaded model gives way to another for the turn (ModelChanged)
    "wait_for_servers",  # a run that nobody watches waits a little for the tools of its servers
    "wait_for_modules",  # tools that are files of their own say what they are before the first request
    "instructions",  # system text, tools and model in force (PrefixSet)
    "nested_instructions",  # instruction files of folders and files that were touched (ContextAdded)
    "skills",  # skills that are called for join the conversation (ContextAdded)
    "memory",  # notes of earlier sessions that go with what was said (ContextAdded)
    "repo_map",  # where a setting says so, a map of the project's sources (ContextAdded)
    "context",  # open: what others add to the conversation (ContextAdded)
    "delegate_ledger",  # earlier results of agents that were sent give way to a line each (Compacted)
    "compaction",  # what is too long gives way to a summary (Compacted)
    "skills_in_use",  # skills whose words a summary took away come again (ContextAdded)
    "tell_hooks",  # hooks hear of the request and the answer
    "check_capabilities",  # images or tools the model does not take; a small local context is said
    "retry",  # tries again what may succeed later
    "stop_over_budget",  # stops what could cost more than is left; nothing was sent
)
"""The request layers, outermost first."""
GATE_SLOTS = (
    "before_checks",  # open: sees a call as it came and its result; may change the input, and nothing else
    "wait_for_tool",  # a tool of a server that is still connecting: a call waits for that server
    "known_and_visible",  # an unknown or hidden tool fails closed
    "validated",  # schema; is this call mutating?
    "guarded",  # subjects resolved, commands read; hard deny
    "hooks_before_permission",  # PreToolUse; a changed input is validated and guarded again
    "foreseen",  # policy files that git commands would bring
    "permitted",  # rules, grants, mode, the question
    "hooks_after_permission",  # PreToolUse with phase = "after_permission"
    "dry_run",  # --dry-run: a call that could change something stops here
)
"""The tool layers that calls of a run pass one at a time, outermost first."""
RUN_SLOTS = (
    "still_offered",  # a tool that went away while a person thought fails closed
    "unchanged_skills",  # a command with a skill that changed since a person agreed to it does not run
    "wait_for_disk",  # on a full disk, a change waits here; what reads goes on
    "undoable",  # what the files were, before; what they are, after
    "recorded",  # guard again; intent in the log, on disk if mutating
    "deadline",  # starts here: never counts a person
    "capped",  # head, tail, spill
    "redacted",  # streaming, before the cap
    "sandboxed",  # chooses how commands may run
    "trust_approved_edits",  # an instruction file as a person agreed to it in the edit question is trusted
)
"""The tool layers behind the gates, which calls of a run pass together, outermost first."""
OPEN_SLOTS = frozenset({"context", "before_checks"})
"""The slots for others: each holds any number of layers, in the order of the features. The rest hold one of ours."""
HEARD_S = 1.0
"""A listener that takes longer over an event held everybody up, and hears no more."""


class PlacedRequestLayer(msgspec.Struct, frozen=True):
    """A layer around the model, and one of `REQUEST_SLOTS`."""

    slot: str
    layer: RequestLayer


class PlacedToolLayer(msgspec.Struct, frozen=True):
    """A layer around a tool, and one of `GATE_SLOTS` or `RUN_SLOTS`. It is made with the first call of a session."""

    slot: str
    make: Callable[[], ToolLayer]


class FeatureQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `CustomQuery` with the feature's name as its namespace and this verb."""

    verb: str
    answer: Callable[[CustomQuery], Awaitable[dict[str, Any]]]


AnswerQuery: TypeAlias = "Callable[[Any], Awaitable[AnyQueryAnswer]]"
"""Answers a query of one type about an open session."""


class FeatureCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What `CustomCommand` with the feature's name as its namespace and this verb does; the event tells what came of
    it."""

    verb: str
    run: Callable[[CustomCommand], Awaitable[SlashEvent]]


class EventListener(msgspec.Struct, frozen=True, kw_only=True):
    """Hears of events of these kinds when they are recorded. It must return at once: one that fails, or takes longer
    than `HEARD_S`, is removed."""

    kinds: frozenset[str]
    hear: Callable[[Envelope], object]


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """One capability. Its name is its namespace.

    `answers` are its answers to queries of the protocol, by query type. `origin` is that of its tools. `notices` is
    asked, once, what a person should know before anything happens.
    `read_mention` knows how to read what people point at that is no file, `stop_child` how one of several agents stops.
    `at_end` is awaited when the session ends, behind those of the features before it, for `ENDING_S` at most.
    """

    name: str
    request_layers: tuple[PlacedRequestLayer, ...] = ()
    tool_layers: tuple[PlacedToolLayer, ...] = ()
    tools: tuple[Tool, ...] = ()
    origin: ToolOrigin = ToolOrigin()
    sources: tuple[ToolSource, ...] = ()
    slash: tuple[SlashCommand, ...] = ()
    prompts: SessionPrompts | None = None
    queries: tuple[FeatureQuery, ...] = ()
    answers: Mapping[type[AnyQuery], AnswerQuery] = {}
    commands: tuple[FeatureCommand, ...] = ()
    services: tuple[Service, ...] = ()
    listeners: tuple[EventListener, ...] = ()
    notices: Callable[[], Iterable[Notice]] = tuple
    read_mention: ReadMention | None = None
    stop_child: StopChild | None = None
    at_end: Callable[[], Awaitable[None]] | None = None


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """Features put together. `features` stand in the order they were given; nothing in them is there twice."""

    features: tuple[Feature, ...]
    request_layers: tuple[RequestLayer, ...]
    gates: tuple[Callable[[], ToolLayer], ...]
    run_layers: tuple[Callable[[], ToolLayer], ...]
    slash: tuple[SlashCommand, ...]
    queries: Mapping[tuple[str, str], FeatureQuery]
    answers: Mapping[type[AnyQuery], AnswerQuery]
    commands: Mapping[tuple[str, str], FeatureCommand]

    @property
    def prompts(self) -> tuple[SessionPrompts, ...]:
        return tuple(feature.prompts for feature in self.features if feature.prompts is not None)

    def tool_layers(self) -> ToolLayers:
        return ToolLayers(
            one_at_a_time=tuple(make() for make in self.gates),
            together=tuple(make() for make in self.run_layers),
        )

    def notices(self) -> Iterator[Notice]:
        """What a person should know before anything happens, feature by feature."""
        for feature in self.features:
            try:
                yield from tuple(feature.notices())
            except BridleError:
                raise
            except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: a session opens all the same
                data = {"feature": feature.name, "problem": f"{type(fault).__name__}: {fault}"}
                yield Notice(reason="FeatureFailed", message=sentence("FeatureFailed", data), data=data)

    async def end(self, emit: Callable[[Degraded], object], clock: Clock) -> None:
        """Lets each feature end what it began. One that fails, or does not come to an end, is told of by `emit`; the
        others end all the same."""
        for feature in self.features:
            if feature.at_end is not None:
                await finish(feature.name, feature.at_end, clock, emit)


def join(features: Sequence[Feature], others: Sequence[Feature] = ()) -> Joined:
    """Puts features together, those of others behind ours. Pure.

    Raises `BridleError` with `FeatureConflict` for a name, tool, slash command or query that is there twice,
    a slot that is not there or taken, and one of ours that a feature of others asks for.
    """
    everyone = (*features, *others)
    _names_once(everyone)
    theirs = frozenset(feature.name for feature in others)
    around_model = [
        (
            feature.name,
            one.slot,
            _adding_only(feature.name, one.layer) if one.slot in OPEN_SLOTS else one.layer,
        )
        for feature in everyone
        for one in feature.request_layers
    ]
    around_tool = [
        (feature.name, one.slot, _input_only(feature.name, one.make) if one.slot in OPEN_SLOTS else one.make)
        for feature in everyone
        for one in feature.tool_layers
    ]
    _check_slots(around_model, REQUEST_SLOTS, theirs)
    _check_slots(around_tool, (*GATE_SLOTS, *RUN_SLOTS), theirs)
    return Joined(
        features=everyone,
        request_layers=_in_order(around_model, REQUEST_SLOTS),
        gates=_in_order(around_tool, GATE_SLOTS),
        run_layers=_in_order(around_tool, RUN_SLOTS),
        slash=tuple(one for feature in everyone for one in feature.slash),
        queries={
            (feature.name, query.verb): _answering(feature.name, query)
            for feature in everyone
            for query in feature.queries
        },
        answers={kind: answer for feature in everyone for kind, answer in feature.answers.items()},
        commands={
            (feature.name, command.verb): command for feature in everyone for command in feature.commands
        },
    )


def watch_with(
    features: Iterable[Feature], emit: Callable[[Degraded], object], clock: Clock
) -> tuple[frozenset[str], Callable[[Envelope], None]]:
    """The kinds that listeners hear of, and what hears them all. One that fails, or holds everybody up, is told of by
    `emit` and let go."""
    by_kind: dict[str, tuple[tuple[str, EventListener], ...]] = {}
    for feature in features:
        for one in feature.listeners:
            for kind in one.kinds:
                by_kind[kind] = (*by_kind.get(kind, ()), (feature.name, one))

    def let_go(gone: tuple[str, EventListener]) -> None:
        for kind, heard_by in by_kind.items():
            by_kind[kind] = tuple(entry for entry in heard_by if entry != gone)

    def hear(envelope: Envelope) -> None:
        for name, listener in by_kind.get(envelope.kind, ()):
            problem, began_s = "", clock.monotonic()
            try:
                listener.hear(envelope)
            except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: who only listens ends nothing
                problem = f"{type(fault).__name__}: {fault}"
            if not problem and (took_s := clock.monotonic() - began_s) > HEARD_S:
                problem = f"it took {took_s:.1f} s over an event, while everything waited"
            if problem:
                let_go((name, listener))
                data = {"feature": name, "problem": problem}
                lost = Degraded(what=name, reason="ListenerFailed", message=sentence("ListenerFailed", data))
                with suppress(StoreError):  # whoever follows the session is told of that
                    emit(lost)

    return frozenset(by_kind), hear


def _answering(feature: str, query: FeatureQuery) -> FeatureQuery:
    """The query, of which whoever asks hears by a reason that it could not be answered."""

    async def answer(asked: CustomQuery) -> dict[str, Any]:
        try:
            return await query.answer(asked)
        except BridleError:
            raise
        except (Exception, SystemExit) as fault:
            problem = f"{type(fault).__name__}: {fault}"
            raise BridleError("FeatureFailed", feature=feature, problem=problem) from fault

    return FeatureQuery(verb=query.verb, answer=answer)


def _names_once(features: Iterable[Feature]) -> None:
    """Raise `FeatureConflict` where two features bring the same. Sources share the names of features: tools are
    offered under both."""
    owners: dict[tuple[str, str], str] = {}
    for feature in features:
        own = feature.name
        brought = (
            *(("name", name) for name in (own, *(source.name for source in feature.sources))),
            *(("tool", tool.name) for tool in feature.tools),
            *(("slash command", one.name) for one in feature.slash),
            *(("query", f"{own}.{query.verb}") for query in feature.queries),
            *(("command", f"{own}.{command.verb}") for command in feature.commands),
            *(("answer", kind.__name__) for kind in feature.answers),
        )
        for what, name in brought:
            if (what, name) in owners:
                problem = f'the {what} "{name}" is there already, from {owners[what, name]}'
                raise BridleError("FeatureConflict", feature=own, problem=problem)
            owners[what, name] = own


def _check_slots(
    placed: Sequence[tuple[str, str, object]], slots: Sequence[str], theirs: frozenset[str]
) -> None:
    taken: dict[str, str] = {}
    for feature, slot, _ in placed:
        problem = ""
        if slot not in slots:
            problem = f'there is no slot "{slot}" for it (there are {", ".join(slots)})'
        elif slot in OPEN_SLOTS:
            continue
        elif feature in theirs:
            problem = (
                f'the slot "{slot}" is not open (open is {next(one for one in slots if one in OPEN_SLOTS)})'
            )
        elif slot in taken:
            problem = f'the slot "{slot}" is taken, by {taken[slot]}'
        if problem:
            raise BridleError("FeatureConflict", feature=feature, problem=problem)
        taken[slot] = feature


def _in_order(placed: Sequence[tuple[str, str, Any]], slots: Sequence[str]) -> tuple[Any, ...]:
    held: dict[str, list[Any]] = {slot: [] for slot in slots}
    for _, slot, layer in placed:
        if slot in held:
            held[slot].append(layer)
    return tuple(layer for layers in held.values() for layer in layers)


def _adding_only(feature: str, layer: RequestLayer) -> RequestLayer:
    """The layer, which adds events of others and no more. A fault in it ends the turn as its own, by a reason."""

    @functools.wraps(layer)
    async def around(step: Step, proceed: AskModel) -> Reply:
        try:
            return checked_reply(await layer(foreign_step(step), lambda _changed: proceed(step)))
        except BridleError:
            raise
        except (Exception, SystemExit) as fault:
            raise BridleError(
                "FeatureFailed", feature=feature, problem=f"{type(fault).__name__}: {fault}"
            ) from fault

    return around


def _input_only(feature: str, make: Callable[[], ToolLayer]) -> Callable[[], ToolLayer]:
    """Allow an outside layer to change the input, once, and nothing else. Nothing of the call runs after the layer
    returned, and a replaced result is checked as a tool's is."""

    def made() -> ToolLayer:
        layer = make()

        async def around(call: ToolCall, proceed: RunTool) -> ToolOutput:
            over, running = False, list[asyncio.Future[ToolOutput]]()

            async def go_on(changed: ToolCall) -> ToolOutput:
                if over or running:
                    raise RuntimeError(f"a layer of {feature} goes on with a call twice, or too late")
                given = msgspec.structs.replace(call, input=deepcopy(changed.input))
                running.append(asyncio.ensure_future(proceed(given)))
                return await running[0]

            try:
                output = await layer(call, go_on)
            except SystemExit as left:
                raise RuntimeError(f"a layer of {feature} wants to end the program ({left})") from None
            finally:
                over = True
                for one in running:
                    if not one.done():
                        one.cancel()
                        await asyncio.wait((one,))
            got = [one.result() for one in running if not one.cancelled() and one.exception() is None]
            if any(output is one for one in got):
                return output
            return cut_short(checked(output, seen_by=got[0] if got else None))

        return around

    return made
