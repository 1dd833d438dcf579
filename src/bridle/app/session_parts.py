"""The parts of a session before features join: what it shares with others, what was opened, and its own objects."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.app.records.operational_log import Notes
from bridle.app.sources.skill_sources import session_skills
from bridle.app.user.settings import SessionSettings
from bridle.base.clock import Clock
from bridle.base.fs.paths import SessionFolders, session_folders
from bridle.base.ids import Ids
from bridle.base.memory_budget import MemoryBudget, MemoryCache
from bridle.base.process.processes import Processes
from bridle.config.folders import Folders, project_folder
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.features import Feature, PlacedToolLayer
from bridle.engine.journal import Journal
from bridle.engine.known_files import KnownFiles
from bridle.engine.open_questions import Questions
from bridle.engine.ports import GoalSlot, Room, Spawn, SpawnPolicy
from bridle.engine.slash_command import DescribedSlash
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import Registry, Tool
from bridle.protocol.events import Mode, ModelChanged, Notice
from bridle.protocol.slash_arguments import SlashArgument
from bridle.providers.known_models import KnownModels
from bridle.providers.model_directory import Models
from bridle.safety.budget import Allowance
from bridle.safety.grants import SavedGrants
from bridle.safety.trust import Approvals
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import claimed_spawn, session_policy
from bridle.sessions.archive.beside_store import outputs_of
from bridle.tools.output import Spill
from bridle.tools.person_tools import EXIT_PLAN_MODE

if TYPE_CHECKING:
    from bridle.agents.definition import AgentDefinition
    from bridle.app.records.session_undo import SessionUndo
    from bridle.app.records.trace_export import TraceExport
    from bridle.app.sources.agent_sources import FoundAgents
    from bridle.app.sources.gates import Gates
    from bridle.app.sources.hook_feature import SessionHooks
    from bridle.app.sources.session_agents import WorkingAgent
    from bridle.base.net.web import JudgedFetch
    from bridle.context.skills.session_skills import SessionSkills
    from bridle.engine.services import ToolSource
    from bridle.engine.store_ports import OpenLog
    from bridle.mcp.shared_server import ServerPool
    from bridle.recovery.court import InterruptedRun
    from bridle.safety.hooks.session_hooks import Hooks

GOAL = DescribedSlash(
    name="goal",
    does="work on until a check of yours passes: /goal --check 'COMMAND' words; /goal tells how far it is",
    arguments=(
        SlashArgument(
            name="what",
            about="options, then what is to be reached; stop ends it; nothing tells how far it is",
            examples=("--check", "--check-agent", "--rounds", "--timeout", "stop"),
        ),
    ),
)
"""What the command does whose driver stands in `SessionParts.goals`."""
UNDO = DescribedSlash(
    name="undo",
    does="take back what the last turn did to files: /undo [TURN|CALL|session]",
    arguments=(
        SlashArgument(
            name="what",
            about="a turn by its number, a call by its id, or the whole session; else the last turn",
            examples=("session",),
        ),
    ),
)
REDO = DescribedSlash(name="redo", does="bring back what /undo took away", arguments=())
"""What the commands do that `SessionParts.undo` carries out."""


class ProcessServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all sessions of a process share; `env` is that of the process, `processes` start what is the person's own.

    `servers` are the MCP servers that run, made with the first one. `agents` and `tools` are
    those an embedder brings; a source of tools among them serves each session for itself. `features` come from outside,
    for every session. `listening`: others can reach this engine, so that a question waits for them. Caches share
    `memory`.
    """

    where: Folders
    env: Mapping[str, str]
    clock: Clock
    ids: Ids
    models: Models
    known: KnownModels
    processes: Processes
    spawn: SandboxSpawn
    fetch: Callable[[], JudgedFetch]
    notes: Notes
    servers: Callable[[], ServerPool]
    traces: TraceExport
    tools: tuple[Tool | ToolSource, ...] = ()
    agents: tuple[AgentDefinition, ...] = ()
    features: tuple[Feature, ...] = ()
    room: Room | None = None
    listening: bool = False
    memory: MemoryBudget = msgspec.field(default_factory=MemoryBudget)

    def file_contents(self, session: str) -> MemoryCache[bytes]:
        """The contents of files that a session knows."""
        return MemoryCache(self.memory, session, "files")

    def known_for(self, settings: SessionSettings, *, cwd: str) -> KnownModels:
        """The models of a session with these settings, and what is known of them. No other session's are touched."""
        models = self.models.with_settings(
            settings.providers,
            store=settings.credentials.store,
            helper=settings.credentials.helper,
            folder=cwd,
        )
        return self.known.with_models(models, settings.models)


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decided about a session before its log is opened.

    `services` are those of the process with the session's own models and log levels. `model` is None for a resumed
    session that keeps its own. `notices` are reported when the session begins.
    """

    services: ProcessServices
    cwd: str
    env: Mapping[str, str]
    settings: SessionSettings
    approvals: Approvals
    agents: FoundAgents
    plugged: tuple[Feature, ...] = ()
    model: ModelChanged | None = None
    notices: tuple[Notice, ...] = ()


class OpenedLog(SessionPlan, frozen=True, kw_only=True):
    """A planned session with its log.

    `held_by` names the sandbox in notices; it is empty while it is not known. `unjudged` tells where to look before a
    user reviews orphans; `kept_until` is the last event of the stored fold. `has_new_profile`: the session continues
    with another profile than it had.
    """

    log: OpenLog
    conversation: Conversation
    held_by: str
    unjudged: InterruptedRun | None = None
    kept_until: int = 0
    has_new_profile: bool = False


class SessionParts(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one session that its features are made from.

    `gates`, `spill`, `undo` and `known_files` are made with the first call: an answer without calls needs none of them.
    `shows_content`: whether that of an absolute path may be seen. `scratch` is the temporary folder of its commands.
    `saved` are the grants that are kept; None where none are. `agent` is whose parts they are; None where there is one
    and nobody chose it. `tools` are all of the session, `registry` those the agent sees. `is_apart`: it works in a
    worktree of its own.
    """

    opened: OpenedLog
    bus: Bus
    journal: Journal
    questions: Questions
    stopwatch: Stopwatch
    registry: Registry
    tools: Registry
    known_files: Callable[[], KnownFiles]
    folders: SessionFolders
    gates: Callable[[], Gates]
    spill: Callable[[], Spill]
    shows_content: Callable[[str], bool]
    policy: SpawnPolicy
    spawn: Spawn
    scratch: str
    hooks: SessionHooks | None
    undo: Callable[[], SessionUndo]
    saved: SavedGrants | None
    skills: SessionSkills | None
    goals: GoalSlot
    allowance: Allowance | None
    agent: WorkingAgent | None = None
    is_apart: bool = False

    @property
    def services(self) -> ProcessServices:
        return self.opened.services

    @property
    def settings(self) -> SessionSettings:
        return self.opened.settings

    @property
    def watching(self) -> Hooks | None:
        """The hooks that count."""
        return self.hooks.hooks if self.hooks is not None else None

    def revoke_grant(self, grant: str) -> bool:
        """Forgets a remembered yes; False where there is none."""
        return self.gates().permissions.revoke(grant)

    def promote_grant(self, grant: str) -> Notice:
        """Write a grant into the user's settings as a rule."""
        from bridle.app.sources.gates import promoted

        grants, services = self.gates().permissions.grants, self.services
        return promoted(grants, grant, where=services.where, cwd=self.opened.cwd, env=services.env)


def session_parts(opened: OpenedLog) -> SessionParts:
    """The objects of one session in reading order."""
    services, settings = opened.services, opened.settings
    where, clock = services.where, services.clock
    bus = Bus(opened.conversation.last_id + 1)
    journal = _journal(services, opened, bus)
    stopwatch = Stopwatch(clock)
    questions = _questions(journal, services, settings, stopwatch)
    folders = session_folders(opened.cwd, settings.options.add_dirs)
    agent = _main_agent(opened)
    tools = session_registry(settings, mode=lambda: opened.conversation.mode)
    registry = tools if agent is None else agent.tools_of(tools)
    saved = SavedGrants(where.state, clock.now_ms) if settings.permissions.persist else None
    gates = functools.cache(lambda: _gates(services, opened, folders, registry, saved, agent))

    def shows_content(path: str) -> bool:
        return gates().session_sight.shows_content(path)

    scratch = os.path.join(where.state, "tmp", opened.log.session)
    policy = session_policy(
        settings.sandbox,
        folders,
        env=opened.env,
        scratch=scratch,
        shown=settings.skills.readable_folders(where.config),
    )
    is_off = policy.mode == "off"
    spawn = services.spawn if is_off else claimed_spawn(services.spawn, opened.held_by, journal.emit)
    return SessionParts(
        opened=opened,
        bus=bus,
        journal=journal,
        questions=questions,
        stopwatch=stopwatch,
        registry=registry,
        tools=tools,
        agent=agent,
        known_files=functools.cache(
            lambda: KnownFiles(opened.conversation.known_files, services.file_contents(opened.log.session))
        ),
        folders=folders,
        gates=gates,
        spill=functools.cache(
            lambda: Spill(outputs_of(where.state, opened.log.session), opened.log.outputs_key)
        ),
        shows_content=shows_content,
        policy=policy,
        spawn=spawn,
        scratch=scratch,
        hooks=_hooks(services, opened, folders, journal, spawn, policy),
        undo=functools.cache(lambda: _undo(services, opened.log, journal, questions, gates, shows_content)),
        saved=saved,
        skills=session_skills(
            settings.skills,
            where=where,
            cwd=opened.cwd,
            env=opened.env if "HOME" in opened.env else services.env,
            approvals=opened.approvals,
        ),
        goals=GoalSlot(),
        allowance=None if (cap := settings.budget.usd_per_session) is None else Allowance(cap_usd=cap),
    )


def _journal(services: ProcessServices, opened: OpenedLog, bus: Bus) -> Journal:
    return Journal(
        session=opened.log.session,
        log=opened.log,
        clock=services.clock,
        bus=bus,
        conversation=opened.conversation,
        secrets=services.models.keys_in_use,
    )


def _questions(
    journal: Journal, services: ProcessServices, settings: SessionSettings, stopwatch: Stopwatch
) -> Questions:
    """A run that nobody shall wait for has its answer at once, whoever could come."""
    options = settings.options
    return Questions(
        journal=journal,
        clock=services.clock,
        can_be_reached=lambda: options.on_ask == "wait" or (services.listening and not options.headless),
        timeout_s=settings.permissions.timeout_s,
        stopwatch=stopwatch,
    )


def session_registry(settings: SessionSettings, *, mode: Callable[[], Mode]) -> Registry:
    """The registry of a session, which knows when each tool is shown and has none yet."""
    registry = Registry()
    registry.show_while(EXIT_PLAN_MODE, lambda: mode() == "plan")
    registry.show_while("web_fetch", lambda: settings.sandbox.network != "deny")
    return registry


def gate_layers(gates: Callable[[], Gates]) -> tuple[PlacedToolLayer, ...]:
    """The layers a call passes before anybody is asked: in a session, and to explain what one would decide."""
    return (
        PlacedToolLayer("known_and_visible", lambda: gates().known_and_visible),
        PlacedToolLayer("validated", lambda: gates().validated),
        PlacedToolLayer("guarded", lambda: gates().guarded),
    )


def _gates(
    services: ProcessServices,
    opened: OpenedLog,
    folders: SessionFolders,
    registry: Registry,
    saved: SavedGrants | None,
    agent: WorkingAgent | None,
) -> Gates:
    from bridle.app.sources.gates import gates, understanding

    made = gates(
        opened.settings,
        registry,
        where=services.where,
        here=folders,
        understand=understanding(opened.env, opened.cwd),
        mode=lambda: opened.conversation.mode,
        saved=saved,
        env=services.env,
    )
    if agent is None:
        return made
    return made.of_agents(agent.permissions_of(made.permissions))


def _undo(
    services: ProcessServices,
    log: OpenLog,
    journal: Journal,
    questions: Questions,
    gates: Callable[[], Gates],
    shows: Callable[[str], bool],
) -> SessionUndo:
    from bridle.app.records.session_undo import SessionUndo  # the door of undo

    return SessionUndo(
        log,
        journal,
        paths=lambda: gates().paths,
        where=services.where,
        clock=services.clock,
        ids=services.ids,
        ask=questions.ask,
        shows=shows,
        trees=MemoryCache(services.memory, log.session, "undo"),
    )


def _main_agent(opened: OpenedLog) -> WorkingAgent | None:
    settings = opened.settings.agents
    if settings is None or not settings.in_use:
        return None
    from bridle.app.sources.session_agents import main_agent  # nobody pays for agents who has none

    return main_agent(settings, opened.agents.registry)


def _hooks(
    services: ProcessServices,
    opened: OpenedLog,
    folders: SessionFolders,
    journal: Journal,
    spawn: Spawn,
    policy: SpawnPolicy,
) -> SessionHooks | None:
    """The hooks that somebody wrote; None where nobody did, and then nothing of hooks is loaded."""
    places = (services.where.config, project_folder(folders.workspace))
    written = opened.settings.hooks.written
    if not written and not any(os.path.isdir(os.path.join(place, "hooks")) for place in places if place):
        return None
    from bridle.app.sources.hook_feature import HookedSession, session_hooks

    return session_hooks(
        opened.settings.hooks,
        HookedSession(
            where=services.where,
            here=folders,
            journal=journal,
            spawn=spawn,
            policy=policy,
            env=opened.env,
            clock=services.clock,
            approvals=opened.approvals,
            secrets=services.models.keys_in_use,
        ),
    )
