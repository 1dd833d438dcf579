"""Open a session: plan it, open its log, compose its features and record its first events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from bridle.app.composition import ComposedSession, compose
from bridle.app.session_parts import OpenedLog, ProcessServices, SessionPlan
from bridle.app.sources.agent_sources import agents_of_session, chosen_agent
from bridle.app.user.settings import SessionSettings, resumed_command, session_settings
from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import has_secrets_file
from bridle.base.memory_budget import MemoryBudget
from bridle.base.text.terminal_text import visible
from bridle.config.folders import home_of
from bridle.control.authority import is_looser
from bridle.control.live import Run
from bridle.engine.conversation import Conversation
from bridle.engine.open_questions import Client
from bridle.engine.resume import close_interrupted, orphans, unexpired
from bridle.protocol.commands import CreateSession, SessionOptions
from bridle.protocol.errors import BridleError, CommandRefused, StoreError, UsageError, sentence
from bridle.protocol.events import ContextAdded, EffortChanged, Mode, ModelChanged, Notice, SessionCreated
from bridle.protocol.messages import TextBlock
from bridle.providers.known_models import KnownModels
from bridle.safety.trust.approvals import Approvals, session_approvals
from bridle.safety.wide_folders import why_wide
from bridle.sandbox.plain_spawn import OFF, UNCONFINED, allowed_environment
from bridle.sandbox.sandbox_spawn import SETTLE_S
from bridle.sandbox.session_border import left_behind, opening_words

if TYPE_CHECKING:
    from bridle.app.session_past import Carried
    from bridle.app.sources.agent_sources import FoundAgents
    from bridle.engine.features import Feature
    from bridle.engine.store_ports import OpenLog, Store
    from bridle.plugin.registrar import Plugin
    from bridle.sessions.archive.kept_fold import KeptFold


class SessionOpening:
    """Opens the sessions of one engine, new ones and stored ones that go on.

    `known_of` are the models of those that are open, and what is known of them; `begun` hears the folder and the
    services of each.
    """

    def __init__(
        self,
        services: ProcessServices,
        store: Store,
        approvals: Approvals,
        plugins: Sequence[Plugin],
        begun: Callable[[str, ProcessServices], None],
    ) -> None:
        self.store = store
        self.known_of: dict[str, KnownModels] = {}
        self._services = services
        self._approvals = approvals
        self._plugins = tuple(plugins)
        self._begun = begun

    async def open(self, command: CreateSession, client: Client) -> Run:
        """A run of the session this command wants. Raises `CommandRefused` before there is a log."""
        if not command.env:  # whoever brings none has that of this process
            command = structs.replace(command, env=allowed_environment(self._services.env))
        try:
            return await self._open(command, client)
        except StoreError as failure:
            self._services.notes.write("error", "store", "session not opened", reason=failure.reason)
            raise

    async def _open(self, command: CreateSession, client: Client) -> Run:
        carried = await self._carried(command)
        plan = await self.plan(command, client)
        settings, sandbox = plan.settings, plan.services.spawn
        is_off = settings.sandbox.mode == "off"
        if settings.sandbox.required and not is_off:
            await self._require_sandbox()
        async with sandbox.looking(not is_off):  # while the store is opened
            log = await self._open_log(command, plan)
        try:
            opened = await self._opened(plan, log, command, held_by=OFF if is_off else sandbox.adapter)
            if client.identity == "agent":
                command, opened = _for_agent(client, command, opened)
            composed = compose(opened)
            composed.session.journal.originator = client.id
            await _emit_first_events(composed, command, carried)
            await log.committed()
        except BaseException:
            await log.aclose()
            raise
        self.known_of[log.session] = plan.services.known
        self._begun(plan.cwd, plan.services)
        return Run(
            session=composed.session,
            features=composed.features,
            effort=settings.chosen.effort,
            idle_s=settings.sessions.idle_timeout_s,
            log=_Held(self, log, composed.fold, plan.services.memory),
        )

    # Before there is a log

    async def plan(self, command: CreateSession, client: Client, *, begins: bool = True) -> SessionPlan:
        """Decide everything about a session, in a fixed order: nothing of the project is used before it is trusted.

        Options and folder, policy files that a killed session left changed, settings, plugins, agents, required trust,
        keys, servers, model. Raises `CommandRefused`. A plan that does not begin a session changes nothing.
        """
        command, cwd, approvals, keeps_profile = await self._place(command, client)
        left: tuple[Notice, ...] = ()
        if begins:
            _refuse_wide(cwd, command.config, self._services.env)
            left = tuple(await left_behind(cwd, self._services.where))
        settings, plugged = self._settings(command, cwd, approvals, keeps_profile=keeps_profile)
        agents = self._agents(cwd, settings, approvals, plugged)
        if begins and settings.require_trust:
            from bridle.app.project_trust import require_trust

            where, env = self._services.where, self._services.env
            require_trust(approvals, settings, where=where, cwd=cwd, env=env)
        unkept = tuple(_keep_named(approvals, settings)) if begins else ()
        services, keys_notice = await self._session_services(settings, cwd, approvals, command.env)
        if begins and settings.require_trust and settings.servers.definitions:
            from bridle.app.features.server_trust import require_server_trust

            await require_server_trust(settings.servers, services, approvals, cwd=cwd, env=command.env)
        return SessionPlan(
            services=services,
            cwd=cwd,
            env=command.env,
            settings=settings,
            approvals=approvals,
            agents=agents,
            plugged=plugged,
            model=await _choose_model(command, client, settings, services.known),
            notices=(
                *left,
                *unkept,
                *keys_notice,
                *agents.notices,
                *_no_limit(command, settings.mode),
            ),
        )

    async def _place(
        self, command: CreateSession, client: Client
    ) -> tuple[CreateSession, str, Approvals, bool]:
        """Return the resolved command, the folder, the approvals, and whether a stored session keeps its profile.

        A stored session works in its own folder, by that folder's rules.
        """
        here = working_folder(command.cwd)
        approvals = session_approvals(
            self._approvals, lockfile=command.config.lockfile, env=self._services.env, cwd=here
        )
        if command.resume is None:
            return command, here, approvals, False
        row = unexpired(await self.store.find(command.resume))
        command, keeps_profile = resumed_command(command, here, row.profile)
        cwd = working_folder(row.cwd)
        if client.identity == "agent":
            self._refuse_other_profile(cwd, command.profile, approvals)
        return command, cwd, approvals, keeps_profile

    def _settings(
        self, command: CreateSession, cwd: str, approvals: Approvals, *, keeps_profile: bool
    ) -> tuple[SessionSettings, tuple[Feature, ...]]:
        """Return the settings with what plugins add to them, and the plugins."""
        where, env = self._services.where, self._services.env
        settings = session_settings(
            command.config,
            where=where,
            cwd=cwd,
            env=env,
            profile=command.profile,
            agent=command.agent,
            approvals=approvals,
            profile_kept=keeps_profile,
        )
        if settings.plugin_tiers is None and not self._plugins:
            return _with_packs_checked(settings), ()
        from bridle.app.sources.plugins import session_plugins, within_packs

        settings, loaded = session_plugins(settings, self._plugins)
        features = within_packs([plugin.feature for plugin in loaded], settings.tools.packs)
        return _with_packs_checked(settings, features), features

    def _agents(
        self, cwd: str, settings: SessionSettings, approvals: Approvals, plugged: Sequence[Feature]
    ) -> FoundAgents:
        """Return the agents of a session. Refuse a chosen agent that cannot be used."""
        said, services = settings.agents, self._services
        tools = (tool.name for feature in plugged for tool in feature.tools)
        found = agents_of_session(
            settings,
            where=services.where,
            cwd=cwd,
            env=services.env,
            approvals=approvals,
            code=services.agents,
            tools=(*tools, *(one.name for one in services.tools)),
        )
        if said is not None and said.agent is not None:
            chosen_agent(found.registry, said.agent, found.waiting)
        return found

    def _refuse_other_profile(self, cwd: str, profile: str | None, approvals: Approvals) -> None:
        """Refuse an agent a stored session with a profile of its own: agents get what the user's settings give."""
        if profile is None:
            return
        where, env = self._services.where, self._services.env
        own = session_settings(where=where, cwd=cwd, env=env, approvals=approvals)
        if own.profile != profile:
            raise CommandRefused(
                "NotAPerson", what=f'A session with the profile "{visible(profile, newlines=False)}"'
            )

    async def _carried(self, command: CreateSession) -> Carried | None:
        """What a new session takes along from another one."""
        if command.carry_from is None:
            return None
        if command.resume is not None:
            raise CommandRefused(
                "BadCommand", kind="CreateSession", problem="carry_from is for a new session"
            )
        from bridle.app.session_past import carried_turns

        return await carried_turns(self.store, command.carry_from, command.carry_turns)

    async def _session_services(
        self, settings: SessionSettings, cwd: str, approvals: Approvals, env: Mapping[str, str]
    ) -> tuple[ProcessServices, tuple[Notice, ...]]:
        """Return the services with the session's own models and log levels, and the keys of its project."""
        known, root = self._services.known_for(settings, cwd=cwd), repository_root(cwd)
        services = structs.replace(
            self._services,
            models=known.models,
            known=known,
            notes=self._services.notes.with_levels(settings.log.levels or ""),
        )
        if not has_secrets_file(root):
            return services, ()
        from bridle.app.user.secrets_file import keys_of_project  # the door of a project's secrets file

        found = await keys_of_project(root, approvals, services.spawn, env)
        models = known.models.of_project(root, found.values)
        known = known.with_models(models, settings.models)
        return structs.replace(services, models=models, known=known), (found.notice(),)

    async def _require_sandbox(self) -> None:
        """Refuses at the door, before there is a log, where nothing holds commands or that cannot be found out."""
        held_by = await self._services.spawn.held_by()
        if not held_by:
            raise CommandRefused("SandboxNotKnown", seconds=f"{SETTLE_S:g}")
        if held_by == UNCONFINED:
            raise CommandRefused("SandboxRequired")

    # Its log

    async def _open_log(self, command: CreateSession, plan: SessionPlan) -> OpenLog:
        options = plan.settings.options
        if command.resume is None:
            log = await self.store.create(
                plan.cwd,
                profile=plan.settings.profile,
                aliases=command.aliases,
                headless=options.headless,
            )
        else:
            log = await self.store.open((await self.store.find(command.resume)).id)
        if options.title:
            await self.store.rename(log.session, options.title)
        return log

    async def _opened(
        self, plan: SessionPlan, log: OpenLog, command: CreateSession, *, held_by: str
    ) -> OpenedLog:
        """Return the plan with the log and, for a stored session, its past."""
        known = structs.asdict(plan)
        if command.resume is None:
            return OpenedLog(**known, log=log, conversation=Conversation(), held_by=held_by)
        from bridle.app.session_past import stored_past

        past = await stored_past(self.store, log.session, plan)
        plan.services.models.go_on_with(model_of(past.conversation, plan.model))
        before = (await self.store.find(log.session)).profile
        known["cwd"] = past.conversation.cwd or plan.cwd
        return OpenedLog(
            **known,
            log=log,
            conversation=past.conversation,
            held_by=held_by,
            unjudged=past.unjudged,
            kept_until=past.kept_until,
            has_new_profile=before != plan.settings.profile,
        )


class _Held:
    """The log of an open session."""

    def __init__(self, opening: SessionOpening, log: OpenLog, fold: KeptFold, memory: MemoryBudget) -> None:
        self._opening = opening
        self._log = log
        self._fold = fold
        self._memory = memory

    async def is_pinned(self) -> bool:
        return (await self._opening.store.find(self._log.session)).pinned

    async def release(self) -> None:
        del self._opening.known_of[self._log.session]
        self._memory.drop(self._log.session)
        try:
            await self._fold.at_close()
        finally:
            await self._log.aclose()


def _for_agent(client: Client, command: CreateSession, opened: OpenedLog) -> tuple[CreateSession, OpenedLog]:
    """Report a new session of an agent; resume one in the mode of the user's settings, if its own allows more."""
    if command.resume is None:
        from bridle.app.records.outer_agents import session_notice  # the door of outer agents

        notices = (session_notice(opened.log.session, client), *opened.notices)
        return command, structs.replace(opened, notices=notices)
    if is_looser(opened.conversation.mode, opened.settings.mode):
        command = structs.replace(command, mode=opened.settings.mode)
    return command, opened


async def _emit_first_events(
    composed: ComposedSession, command: CreateSession, carried: Carried | None
) -> None:
    """Close the past, then record what applies from here on."""
    parts, journal = composed.parts, composed.session.journal
    opened, policy, conversation = parts.opened, parts.policy, journal.conversation
    settings, held_by, resumed = opened.settings, opened.held_by, command.resume is not None
    if resumed:
        close_interrupted(journal, waiting=() if opened.unjudged is None else orphans(conversation))
    journal.opened = journal.emit(
        SessionCreated(
            log=opened.log.log,
            cwd=opened.cwd,
            profile=settings.profile,
            mode=command.mode
            or (conversation.mode if resumed and not opened.has_new_profile else settings.mode),
            resumed=resumed,
            sandbox=held_by,
            confined=policy.mode if held_by not in {"", UNCONFINED} else "off",
            network=policy.network,
            hosts=policy.hosts,
            carried_from="" if carried is None else carried.session,
        )
    )
    if carried is not None and carried.text:
        journal.emit(ContextAdded(source="carried", content=(TextBlock(text=carried.text),)))
    if opened.model is not None and opened.model != conversation.model:
        journal.emit(opened.model)
    named, effort = settings.options.effort is not None, settings.chosen.effort
    if named and effort is not None and conversation.effort not in (None, effort):
        journal.emit(EffortChanged(effort=effort))
    cut_off = await parts.undo().notices() if resumed else ()
    for notice in (*cut_off, *composed.notices, *opened.notices, *opening_words(policy, held_by)):
        journal.emit(notice)
    if parts.watching is not None and (text := await parts.watching.session_started(resumed=resumed)):
        journal.emit(ContextAdded(source="hook", content=(TextBlock(text=text),)))


async def _choose_model(
    command: CreateSession, client: Client, settings: SessionSettings, known: KnownModels
) -> ModelChanged | None:
    """The model of this run: named, configured, or found; None leaves a resumed session its own."""
    if command.model:
        by_agent = client.identity == "agent"
        if by_agent and settings.chosen.model:
            known.choose(settings.chosen.model)  # what the person chose
        return known.choose(command.model, by_agent=by_agent, by_guest=client.guest)
    if command.resume is not None:
        return None
    return known.choose(settings.chosen.model) if settings.chosen.model else await known.models.default()


def model_of(conversation: Conversation, chosen: ModelChanged | None) -> ModelChanged:
    """The model that was chosen, or else the one the session has."""
    model = chosen or conversation.model
    if model is None:
        raise UsageError("This session has no model. Name one: -m provider:model")
    return model


def _no_limit(command: CreateSession, mode: Mode) -> Iterator[Notice]:
    """Who names what is allowed, in a mode that allows everything, may think that it is a limit."""
    if command.config.allow and (command.mode or mode) == "yolo":
        yield Notice(reason="AllowIsNoLimit", message=sentence("AllowIsNoLimit", {}))


def working_folder(cwd: str) -> str:
    """The folder without symlinks, if Bridle can look into it and write its name down."""
    resolved = os.path.realpath(cwd)
    try:
        resolved.encode()
        os.scandir(resolved).close()
    except OSError as problem:
        raise CommandRefused("UnreadableFolder", path=visible(cwd), problem=problem.strerror) from None
    except UnicodeEncodeError:
        raise CommandRefused(
            "UnreadableFolder", path=visible(cwd), problem="its name is not UTF-8 text"
        ) from None
    return resolved


def _refuse_wide(cwd: str, options: SessionOptions, env: Mapping[str, str]) -> None:
    """Raises `WideFolder` for a home or a folder of the system that nobody named."""
    if (problem := why_wide(cwd, home_of(env))) is None:
        return
    if options.wide_folder is None or os.path.realpath(options.wide_folder) != cwd:
        raise CommandRefused("WideFolder", path=visible(cwd), problem=problem)


def _with_packs_checked(settings: SessionSettings, plugged: Sequence[Feature] = ()) -> SessionSettings:
    """The settings, with a word on every tool pack that is none."""
    if settings.tools.packs is None:
        return settings
    from bridle.app.sources.settings_use import packs_that_are_none

    clauses = packs_that_are_none(settings.tools.packs, [feature.name for feature in plugged])
    said = (f"{clause}." for clause in clauses)
    return structs.replace(settings, warnings=(*settings.warnings, *said))


def _keep_named(approvals: Approvals, settings: SessionSettings) -> Iterator[Notice]:
    """Remembers what settings said that somebody named by a path for the first time: later a model may have written
    there. Where that cannot be kept, it is said."""
    for file in settings.named:
        if not approvals.holds(file.sha256, kind="settings", root=file.root, path=file.path):
            try:
                approvals.add(file.path, file.sha256, kind="settings", root=file.root, text=file.data)
            except BridleError as problem:
                yield Notice(reason=problem.reason, message=problem.message)
