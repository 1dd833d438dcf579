"""One session, put together. Two tuples say what stands around the model and around a tool.

A layer that is not built yet is absent.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.app.compacting import session_compactor
from bridle.app.folding import KeptFold, session_transcript
from bridle.app.hooking import Around, SessionHooks, hooked, session_hooks, told
from bridle.app.housekeeping import Notes
from bridle.app.known_models import KnownModels
from bridle.app.models import Models
from bridle.app.sandboxing import claimed_spawn, clear_away, left_behind, outlived, session_policy
from bridle.app.settings import SessionSettings
from bridle.app.spending import affordable, budget, capable, fallback, spending_limit
from bridle.app.trusting import ApprovedEdits, consent
from bridle.app.undoing import SessionUndo, session_undo
from bridle.base.clock import Clock, iso_ms
from bridle.base.ids import Ids
from bridle.base.paths import session_folders
from bridle.commands.git_commands import diff_command
from bridle.config.folders import Folders
from bridle.context.compaction_layer import compact_command, compaction, pin_command
from bridle.context.instruction_files import InstructionFile, find_instruction_files, instruction_text
from bridle.context.instructions import instructions, system_text
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.dispatch import Dispatcher, ToolLayers
from bridle.engine.features import Feature, Joined, join, watch_with
from bridle.engine.journal import Journal
from bridle.engine.open_questions import Questions
from bridle.engine.ports import Room, Spawn, SpawnPolicy
from bridle.engine.session import Court, InvocationParts, Limits, Session
from bridle.engine.steps import Model, RequestLayer, with_layers
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import (
    BUILTIN,
    Registry,
    RunTool,
    Tool,
    ToolCall,
    ToolContext,
    ToolOrigin,
    ToolOutput,
)
from bridle.protocol.errors import sentence
from bridle.protocol.events import Mode, Notice
from bridle.protocol.messages import Parameters
from bridle.providers.retry import retry
from bridle.safety.grants import SavedGrants
from bridle.safety.trust import Approvals
from bridle.sandbox.plain_spawn import OFF
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sessions.store import StoredLog
from bridle.tools.builtin import builtin_tools
from bridle.tools.exit_plan_mode import EXIT_PLAN_MODE, exit_plan_tool
from bridle.tools.jobs import Jobs

if TYPE_CHECKING:
    from bridle.app.fetching import JudgedFetch
    from bridle.app.gates import Gates
    from bridle.app.judging import Scene
    from bridle.base.git_repository import Repository
    from bridle.base.web import Answer, Wanted
    from bridle.engine.services import Services, ToolSource
    from bridle.safety.grants import Grant
    from bridle.safety.hooks.session_hooks import Hooks


BROUGHT = ToolOrigin(scope="programmatic")
"""Where the tools of an embedder come from."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What all sessions of a process stand on; `tools` are those an embedder brings, `env` is that of the process.

    A source of tools among them serves each session for itself.
    """

    where: Folders
    env: Mapping[str, str]
    clock: Clock
    ids: Ids
    models: Models
    known: KnownModels
    spawn: SandboxSpawn
    fetch: Callable[[], JudgedFetch]
    notes: Notes
    tools: tuple[Tool | ToolSource, ...] = ()
    room: Room | None = None


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was opened: its log and what is folded of it, and what holds for this run of it.

    `held_by` is what people are told holds its commands; empty: nobody knows yet.
    `unjudged` is where to look before a person judges the calls a crash left open; `kept_until` the event up to which
    the fold of the log is kept. `others` are what plugins add.
    """

    log: StoredLog
    conversation: Conversation
    cwd: str
    env: Mapping[str, str]
    settings: SessionSettings
    approvals: Approvals
    held_by: str
    unjudged: Scene | None = None
    kept_until: int = 0
    others: tuple[Feature, ...] = ()


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A session ready to begin. `notices` belong into its log first; `hooks` want to hear that it begins."""

    session: Session
    registry: Registry
    grants: Callable[[], tuple[Grant, ...]]
    fold: KeptFold
    hooks: Hooks | None
    policy: SpawnPolicy
    notices: tuple[Notice, ...]
    others: Joined


def compose(ground: Ground, opened: Opened) -> Composed:
    """The objects of one session in reading order."""
    clock = ground.clock
    log, conversation, cwd, env = opened.log, opened.conversation, opened.cwd, opened.env
    settings, options = opened.settings, opened.settings.options
    bus = Bus(conversation.last_id + 1)
    journal = Journal(
        session=log.session,
        log=log,
        clock=clock,
        bus=bus,
        conversation=conversation,
        secrets=ground.models.keys_in_use,
        watched=ground.notes.kinds,
        watch=lambda envelope: ground.notes.event(envelope, _provider_of(conversation)),
    )
    stopwatch = Stopwatch(clock)
    questions = Questions(
        journal=journal,
        clock=clock,
        can_be_reached=lambda: options.on_ask == "wait",
        timeout_s=settings.permission_timeout_s,
    )
    jobs = Jobs(journal.emit)

    async def fetch(url: str, wanted: Wanted) -> Answer:
        return await ground.fetch()(url, wanted, gate().paths.judge_url)

    tools = (
        *builtin_tools(jobs, fetch),
        exit_plan_tool(lambda: conversation.mode, lambda: conversation.mode_before_plan),
    )
    registry = session_registry(tools, settings, mode=lambda: conversation.mode)
    brought = tuple(tool for tool in ground.tools if isinstance(tool, Tool))
    left_out = registry.replace(BROUGHT.scope, brought, BROUGHT)
    others = join((), opened.others)
    for other in opened.others:
        left_out += registry.replace(other.name, other.tools, other.origin)
    plugged = tuple(tool for other in opened.others for tool in other.tools)
    kinds, hear = watch_with(others, journal.emit)
    if kinds:
        bus.hear = hear
    saved = SavedGrants(ground.where.state, clock.now_ms) if settings.persist_grants else None
    here = session_folders(cwd, options.add_dirs)

    @functools.cache
    def gate() -> Gates:
        from bridle.app.gates import gates, understanding  # an answer without calls needs none of it

        return gates(
            settings,
            registry,
            where=ground.where,
            here=here,
            understand=understanding(env, cwd),
            mode=lambda: conversation.mode,
            saved=saved,
            env=ground.env,
        )

    def shows_content(path: str) -> bool:
        return gate().sight.shows_content(path)

    def revoke(grant: str) -> bool:
        return gate().permissions.revoke(grant)

    scratch = os.path.join(ground.where.state, "tmp", log.session)
    policy = session_policy(settings.sandbox, here, env=env, scratch=scratch)
    off = policy.mode == "off"
    spawn = ground.spawn if off else claimed_spawn(ground.spawn, opened.held_by, journal.emit)
    found = session_hooks(
        settings.hooks,
        Around(
            where=ground.where,
            here=here,
            journal=journal,
            spawn=spawn,
            policy=policy,
            env=env,
            clock=clock,
            approvals=opened.approvals,
            secrets=ground.models.keys_in_use,
        ),
    )
    hooks = found.hooks
    edits = ApprovedEdits(opened.approvals, cwd=cwd, sources=settings.sources)
    undo = session_undo(
        log,
        journal,
        paths=lambda: gate().paths,
        where=ground.where,
        clock=clock,
        ids=ground.ids,
        ask=questions.ask,
        shows=shows_content,
    )

    async def system() -> str:
        return await _system_text(ground, opened, questions, journal, sandbox=OFF if off else spawn.adapter)

    limit = spending_limit(
        settings.usd_per_session, models=ground.models, known=ground.known, ask=questions.ask
    )
    compactor = session_compactor(
        settings, journal, models=ground.models, known=ground.known, clock=clock, hooks=hooks
    )
    request_layers: tuple[RequestLayer, ...] = (
        budget(limit),
        fallback(settings.fallback_model, ground.models),
        instructions(
            system=system,
            tools=registry.schemas,
            parameters=Parameters(effort=opened.settings.effort),
        ),
        *others.request_layers,
        compaction(compactor),
        told(hooks),
        capable(ground.models, ground.known),
        retry(clock=clock, random=_random),
        affordable(limit),
    )

    async def end() -> None:
        await jobs.close()
        clear_away(scratch)

    @functools.cache
    def run_tool() -> RunTool:
        """The tool layers, built with the first call: an answer without calls needs none of it."""
        from bridle.engine.known_files import KnownFiles
        from bridle.engine.layers import deadline, dry_run, recorded, still_offered, with_room
        from bridle.safety.git_arrivals import foreseen
        from bridle.safety.guards import rechecked
        from bridle.safety.permitted import foreseen_changes, permitted
        from bridle.safety.redacted import redacted
        from bridle.safety.sandboxed import sandboxed
        from bridle.sessions.undoable import undoable
        from bridle.tools.output import Spill, capped

        gates, paths, understand = gate(), gate().paths, gate().understand
        rechecks = (gates.validated, gates.guarded)
        known = KnownFiles(conversation.known_files)
        spill = Spill(os.path.join(ground.where.state, "outputs", log.session), log.outputs_key)

        async def execute(call: ToolCall) -> ToolOutput:
            context = ToolContext(
                call=call,
                session=log.session,
                cwd=cwd,
                env=env,
                clock=clock,
                spawn=spawn,
                spilled=spill.read,
                emit=journal.emit,
                ask=questions.ask,
                sight=gate().sight,
                known=known,
                dry_run=options.dry_run,
                invocation=journal.invocation,
            )
            output = await call.definition.run(call.args, context)
            if call.definition.side_effect == "workspace":
                ground.spawn.learn([subject.resolved for subject in call.subjects if subject.kind == "path"])
            return output

        layers = ToolLayers(
            one_at_a_time=(
                *(make() for make in others.gates),
                gates.known_and_visible,
                gates.validated,
                gates.guarded,
                hooked(hooks, rechecks),
                foreseen(
                    understand,
                    lambda folder: _repository(spawn, folder, env),
                    named_remotes=conversation.named_remotes,
                ),
                permitted(
                    gate().permissions,
                    questions.ask_permission,
                    edits.hearing(journal.emit),
                    hear=hooks.permission_requested if hooks is not None else None,
                    changes=foreseen_changes(cwd),
                ),
                hooked(hooks, rechecks, phase="after_permission"),
                dry_run(options.dry_run),
            ),
            together=(
                still_offered(registry),
                with_room(ground.room, journal, clock),
                undoable(undo.keeper, stopwatch, journal.emit),
                recorded(journal, rechecked(paths, understand), stopwatch),
                deadline(clock),
                capped(spill),
                redacted(ground.models.keys_in_use),
                sandboxed(policy, understand),
                edits.trusting,
            ),
        )
        return layers.around(execute)

    async def run_call(call: ToolCall) -> ToolOutput:
        return await run_tool()(call)

    model = Model(
        provider=ground.models.provider,
        ids=ground.ids,
        clock=clock,
        stopwatch=stopwatch,
        price_of=ground.known.price_of,
    )
    fold = KeptFold(
        log,
        conversation,
        opened.kept_until,
        transcript=session_transcript(log, ground.where.state, settings.transcript),
        say=journal.emit,
    )
    session = Session(
        main=InvocationParts(
            journal=journal,
            questions=questions,
            stopwatch=stopwatch,
            ask=with_layers(request_layers, model.ask),
            dispatcher=Dispatcher(
                journal=journal,
                clock=clock,
                stopwatch=stopwatch,
                run_tool=run_call,
                concurrency=registry.concurrency,
                watcher=hooks,
            ),
        ),
        bus=bus,
        log=log,
        clock=clock,
        ids=ground.ids,
        at_end=end,
        revoke_grant=revoke,
        slash=(
            diff_command(
                lambda: _repository(spawn, cwd, env),
                cwd=cwd,
                shows=shows_content,
            ),
            compact_command(compactor),
            pin_command(),
            *undo.commands,
            *others.slash,
        ),
        court=_court(opened.unjudged, journal, questions, undo),
        at_rest=fold.after_turn,
        room=ground.room,
        watcher=hooks,
        services=_services(ground, opened, registry, journal, spawn, policy),
        limits=Limits(max_steps=settings.max_steps, stop_unanswered=options.on_ask == "fail"),
    )
    return Composed(
        session=session,
        registry=registry,
        grants=lambda: gate().permissions.grants,
        fold=fold,
        hooks=hooks,
        policy=policy,
        others=others,
        notices=(
            *_notices(settings, found, saved, opened.approvals),
            *(
                _idle_rules(settings, frozenset(tool.name for tool in (*tools, *brought, *plugged)))
                if len(brought) == len(ground.tools) and not any(other.sources for other in opened.others)
                else ()
            ),
            *(left.notice() for left in left_out),
            *(undo.notices() if conversation.last_id else ()),
            *fold.notices(),
            *outlived(ground.where),
            *left_behind(policy, ground.where),
        ),
    )


def session_registry(
    tools: Iterable[Tool], settings: SessionSettings, *, mode: Callable[[], Mode]
) -> Registry:
    """The built-in tools of a session, and when each is shown."""
    registry = Registry()
    registry.replace(BUILTIN.scope, tools, BUILTIN)
    registry.show_while(EXIT_PLAN_MODE, lambda: mode() == "plan")
    registry.show_while("web_fetch", lambda: settings.sandbox.network != "deny")
    return registry


def _services(
    ground: Ground, opened: Opened, registry: Registry, journal: Journal, spawn: Spawn, policy: SpawnPolicy
) -> Services | None:
    """What runs beside the session: the sources of tools that were brought.

    No two have one name: what one offers would take the place of the other's.
    """
    sources = [source for source in ground.tools if not isinstance(source, Tool)]
    sources += [source for other in opened.others for source in other.sources]
    services = [service for other in opened.others for service in other.services]
    if not sources and not services:
        return None
    from bridle.engine.services import Service, Services, SessionDoor

    names = [BUILTIN.scope, BROUGHT.scope, *(source.name for source in sources)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"more than one source of tools is called {', '.join(sorted(twice))}")

    def service(source: ToolSource) -> Service:
        def offer(tools: Iterable[Tool]) -> None:
            for left in registry.replace(source.name, tools, source.origin):
                journal.emit(left.notice())

        door = SessionDoor(
            offer=offer,
            spawn=spawn,
            policy=policy,
            cwd=opened.cwd,
            env=opened.env,
            clock=ground.clock,
            emit=journal.emit,
        )
        return source.service(door)

    return Services([*map(service, sources), *services], journal.emit)


def _court(scene: Scene | None, journal: Journal, questions: Questions, undo: SessionUndo) -> Court | None:
    if scene is None:
        return None
    from bridle.app.judging import crash_court  # only after a crash

    return crash_court(journal, questions, scene, undo.work).sit


def _provider_of(conversation: Conversation) -> str:
    return conversation.prefix.provider if conversation.prefix is not None else ""


def _notices(
    settings: SessionSettings, found: SessionHooks, saved: SavedGrants | None, approvals: Approvals
) -> Iterator[Notice]:
    """What a person should know before anything happens: what was left out, and what could not be read."""
    for flag, given in (
        ("--allow-policy-changes", settings.options.allow_policy_changes),
        ("--allow-unsandboxed", settings.options.allow_unsandboxed),
    ):
        if given:
            data = {"flag": flag}
            yield Notice(reason="AllowedByFlag", message=sentence("AllowedByFlag", data), data=data)
    if (unsafe := approvals.problem()) is not None:
        yield Notice(reason=unsafe.reason, message=unsafe.message, data=unsafe.data)
    for warning in settings.warnings:
        yield Notice(reason="ConfigWarning", message=warning)
    if settings.unused:
        data = {"settings": ", ".join(settings.unused)}
        yield Notice(reason="NotUsedYet", message=sentence("NotUsedYet", data), data=data)
    if found.ignored is not None:
        yield Notice(reason="HooksIgnored", message=found.ignored)
    if saved is not None and (problem := saved.problem()) is not None:
        message = sentence("GrantsUnreadable", {"path": saved.path, "problem": problem})
        yield Notice(reason="GrantsUnreadable", message=message)


def _idle_rules(settings: SessionSettings, tools: frozenset[str]) -> Iterator[Notice]:
    if settings.rules:
        from bridle.app.settings_use import rules_without_a_tool

        for rule, problem in rules_without_a_tool(settings.rules, tools):
            yield Notice(reason="ConfigWarning", message=f"{rule.origin}: {problem}.")


def _repository(spawn: Spawn, cwd: str, env: Mapping[str, str]) -> Repository:
    from bridle.app.looking import repository_of  # not before somebody asks about it

    return repository_of(spawn, cwd=cwd, env=env)


def instruction_files(where: Folders, cwd: str, settings: SessionSettings) -> tuple[InstructionFile, ...]:
    """The instruction files that are there, agreed to or not."""
    return find_instruction_files(cwd, config_folder=where.config, sources=settings.sources)


async def _system_text(
    ground: Ground, opened: Opened, questions: Questions, journal: Journal, *, sandbox: str
) -> str:
    settings = opened.settings
    files = instruction_files(ground.where, opened.cwd, settings)
    may_use = consent(opened.approvals, files, ask=questions.ask, notice=journal.emit, clock=ground.clock)
    more = "\n\n".join(filter(None, (settings.instructions, instruction_text(await may_use.usable(files)))))
    system = os.uname()
    return system_text(
        cwd=opened.cwd,
        system=f"{system.sysname} {system.machine}",
        date=iso_ms(ground.clock.now_ms())[:10],
        sandbox=sandbox or "not known yet",
        more=more,
    )


def _random() -> float:
    """Uniform in [0, 1). The `random` module would cost more to import than it gives here."""
    return int.from_bytes(os.urandom(6), "big") / 2**48
