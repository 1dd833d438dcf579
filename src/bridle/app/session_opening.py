"""Opening a session: what is refused at the door, what holds in it, its log, its first events, and the run of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from bridle.app.composition import ReadySession, compose
from bridle.app.session_parts import OpenedLog, ProcessServices
from bridle.app.sources.agent_sources import agents_of_session, chosen_agent
from bridle.app.user.settings import (
    SessionOptions,
    SessionSettings,
    resumed_options,
    session_options,
    session_settings,
)
from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import has_secrets_file
from bridle.base.text.terminal_text import visible
from bridle.config.folders import home_of
from bridle.control.authority import is_looser
from bridle.control.live import Run, SessionAnswers
from bridle.engine.conversation import Conversation
from bridle.engine.open_questions import Client
from bridle.engine.resume import close_interrupted, orphans, unexpired
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import BridleError, CommandRefused, StoreError, UsageError, sentence
from bridle.protocol.events import ContextAdded, EffortChanged, Mode, ModelChanged, Notice, SessionCreated
from bridle.protocol.messages import TextBlock
from bridle.providers.known_models import KnownModels
from bridle.providers.model_directory import Models
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
    from bridle.plugin.contract import Plugin


class SessionPlace(msgspec.Struct, frozen=True):
    """Where a session works, what its client asks for, and whose consent counts there."""

    cwd: str
    options: SessionOptions
    approvals: Approvals
    profile_kept: bool = False
    """It is the session's own: nobody named it now."""


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
            command = msgspec.structs.replace(command, env=allowed_environment(self._services.env))
        try:
            return await self._open(command, client)
        except StoreError as failure:
            self._services.notes.write("error", "store", "session not opened", reason=failure.reason)
            raise

    async def _open(self, command: CreateSession, client: Client) -> Run:
        place = await self.place_of(command)
        if command.resume is not None:
            working_folder(place.cwd)
            if client.identity == "agent":
                self._refuse_other_profile(place)
        carried = await self._carried(command)
        _refuse_wide(place.cwd, place.options, self._services.env)
        left = await left_behind(place.cwd, self._services.where)  # before anything of the project is read
        settings, plugged = self.settings_of(place)
        agents = self.agents_of(place, settings, plugged)
        if settings.require_trust:
            from bridle.app.project_trust import require_trust

            where, env = self._services.where, self._services.env
            require_trust(place.approvals, settings, where=where, cwd=place.cwd, env=env)
        unkept = tuple(_keep_named(place.approvals, settings))
        services, keys_notice = await self.services_of(settings, place, command.env)
        if settings.require_trust and settings.servers.definitions:
            from bridle.app.features.server_trust import require_server_trust

            await require_server_trust(
                settings.servers, services, place.approvals, cwd=place.cwd, env=command.env
            )
        chosen = await choose_model(command, client, settings, services.known)
        sandbox, is_off = services.spawn, settings.sandbox.mode == "off"
        if settings.sandbox.required and not is_off:
            await self._require_sandbox()
        async with sandbox.looking(not is_off):  # while the store is opened
            log = await self._open_log(command, place.cwd, settings)
        try:
            past, before = None, (await self.store.find(log.session)).profile
            if command.resume is not None:
                from bridle.app.session_past import stored_past

                past = await stored_past(self.store, log.session, self._services, command.env, place.options)
                _check_model(past.conversation, chosen, services.models)
                if client.identity == "agent" and is_looser(past.conversation.mode, settings.mode):
                    command = msgspec.structs.replace(command, mode=settings.mode)
            opened = OpenedLog(
                log=log,
                conversation=Conversation() if past is None else past.conversation,
                cwd=(past.conversation.cwd if past is not None else "") or place.cwd,
                env=command.env,
                settings=settings,
                approvals=place.approvals,
                held_by=OFF if is_off else sandbox.adapter,
                unjudged=None if past is None else past.unjudged,
                kept_until=0 if past is None else past.kept_until,
                plugged=plugged,
                agents=agents.registry,
                has_new_profile=past is not None and before != settings.profile,
            )
            ready = compose(services, opened)
            ready.session.journal.originator = client.id
            told = agents.notices
            notices = (*left, *unkept, *keys_notice, *told, *_no_limit(command, place.options, settings.mode))
            if client.identity == "agent" and past is None:
                from bridle.app.records.outer_agents import session_notice

                notices = (session_notice(log.session, client), *notices)
            await _emit_first_events(ready, opened, command, chosen, notices, carried)
            await log.committed()
        except BaseException:
            await log.aclose()
            raise
        self.known_of[log.session] = services.known
        self._begun(place.cwd, services)
        return self._run_of(ready, opened, agents)

    # What holds in it

    async def place_of(self, command: CreateSession) -> SessionPlace:
        """A stored session works in its own folder, by that folder's rules."""
        options, here = session_options(command), working_folder(command.cwd)
        approvals = session_approvals(
            self._approvals, lockfile=options.lockfile, env=self._services.env, cwd=here
        )
        if command.resume is None:
            return SessionPlace(here, options, approvals)
        row = unexpired(await self.store.find(command.resume))
        options, kept = resumed_options(options, here, row.profile)
        return SessionPlace(row.cwd, options, approvals, kept)

    def settings_of(self, place: SessionPlace) -> tuple[SessionSettings, tuple[Feature, ...]]:
        """The settings with what plugins add to them, and the plugins. Refuses before there is a log."""
        where, env = self._services.where, self._services.env
        settings = session_settings(
            place.options,
            where=where,
            cwd=place.cwd,
            env=env,
            approvals=place.approvals,
            profile_kept=place.profile_kept,
        )
        if settings.plugin_tiers is None and not self._plugins:
            return _with_packs_checked(settings), ()
        from bridle.app.sources.plugins import session_plugins, within_packs

        settings, loaded = session_plugins(settings, self._plugins)
        features = within_packs([plugin.feature for plugin in loaded], settings.tool_packs)
        return _with_packs_checked(settings, features), features

    def agents_of(
        self, place: SessionPlace, settings: SessionSettings, plugged: Sequence[Feature]
    ) -> FoundAgents:
        """The agents of a session. Refuses before there is a log what cannot be talked with."""
        said, services = settings.agents, self._services
        tools = (tool.name for feature in plugged for tool in feature.tools)
        found = agents_of_session(
            settings,
            where=services.where,
            cwd=place.cwd,
            env=services.env,
            approvals=place.approvals,
            code=services.agents,
            tools=(*tools, *(one.name for one in services.tools)),
        )
        if said is not None and said.agent is not None:
            chosen_agent(found.registry, said.agent, found.waiting)
        return found

    def _refuse_other_profile(self, place: SessionPlace) -> None:
        """An agent has what the person's settings give: a stored session with a profile of its own is for people."""
        if (profile := place.options.profile) is None:
            return
        where, env = self._services.where, self._services.env
        own = session_settings(
            SessionOptions(), where=where, cwd=place.cwd, env=env, approvals=place.approvals
        )
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

    async def services_of(
        self, settings: SessionSettings, place: SessionPlace, env: Mapping[str, str]
    ) -> tuple[ProcessServices, tuple[Notice, ...]]:
        """What a session in this folder stands on: with its own models and levels, and the keys of its project."""
        known, root = self._services.known_for(settings, cwd=place.cwd), repository_root(place.cwd)
        services = msgspec.structs.replace(
            self._services,
            models=known.models,
            known=known,
            notes=self._services.notes.with_levels(settings.log_levels),
        )
        if not has_secrets_file(root):
            return services, ()
        from bridle.app.user.secrets_file import keys_of_project  # the door of a project's secrets file

        found = await keys_of_project(root, place.approvals, services.spawn, env)
        models = known.models.of_project(root, found.values)
        known = known.with_models(models, settings.models)
        return msgspec.structs.replace(services, models=models, known=known), (found.notice(),)

    async def _require_sandbox(self) -> None:
        """Refuses at the door, before there is a log, where nothing holds commands or that cannot be found out."""
        held_by = await self._services.spawn.held_by()
        if not held_by:
            raise CommandRefused("SandboxNotKnown", seconds=f"{SETTLE_S:g}")
        if held_by == UNCONFINED:
            raise CommandRefused("SandboxRequired")

    # Its log, and the run

    async def _open_log(self, command: CreateSession, cwd: str, settings: SessionSettings) -> OpenLog:
        options = settings.options
        if command.resume is None:
            log = await self.store.create(
                cwd,
                profile=settings.profile,
                aliases=command.aliases,
                headless=options.headless,
            )
        else:
            log = await self.store.open((await self.store.find(command.resume)).id)
        if options.title:
            await self.store.rename(log.session, options.title)
        return log

    def _run_of(self, ready: ReadySession, opened: OpenedLog, found: FoundAgents) -> Run:
        log = opened.log

        async def stays() -> bool:
            """A pinned session stays for as long as the engine runs."""
            return (await self.store.find(log.session)).pinned

        async def release() -> None:
            del self.known_of[log.session]
            try:
                await ready.fold.at_close()
            finally:
                await log.aclose()

        @functools.cache
        def answers() -> SessionAnswers:
            from bridle.app.session_answers import session_answers  # the door of queries about a session

            return session_answers(ready, opened, found, self._services)

        added = (*opened.plugged, *ready.added)
        return Run(
            session=ready.session,
            answers=answers,
            changes=ready.changes,
            output=ready.output,
            prompts=ready.prompts,
            added_slash=tuple(command for feature in added for command in feature.slash),
            queries={(feature.name, query.verb): query for feature in added for query in feature.queries},
            commands={(feature.name, one.verb): one for feature in added for one in feature.commands},
            effort=opened.settings.effort,
            idle_s=opened.settings.idle_timeout_s,
            stays=stays,
            release=release,
        )


async def _emit_first_events(
    ready: ReadySession,
    opened: OpenedLog,
    command: CreateSession,
    chosen: ModelChanged | None,
    notices: Iterable[Notice],
    carried: Carried | None,
) -> None:
    """The past is closed, then what holds from here on. `notices` come behind those of the session's features."""
    journal, settings, held_by = ready.session.journal, opened.settings, opened.held_by
    conversation = journal.conversation
    resumed = command.resume is not None
    policy = ready.policy
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
    if chosen is not None and chosen != conversation.model:
        journal.emit(chosen)
    named, effort = settings.options.effort is not None, settings.effort
    if named and effort is not None and conversation.effort not in (None, effort):
        journal.emit(EffortChanged(effort=effort))
    for notice in (*ready.notices, *notices, *opening_words(policy, held_by)):
        journal.emit(notice)
    if ready.hooks is not None and (text := await ready.hooks.session_started(resumed=resumed)):
        journal.emit(ContextAdded(source="hook", content=(TextBlock(text=text),)))


async def choose_model(
    command: CreateSession, client: Client, settings: SessionSettings, known: KnownModels
) -> ModelChanged | None:
    """The model of this run: named, configured, or found; None leaves a resumed session its own."""
    if command.model:
        by_agent = client.identity == "agent"
        if by_agent and settings.model:
            known.choose(settings.model)  # what the person chose
        return known.choose(command.model, by_agent=by_agent, by_guest=client.guest)
    if command.resume is not None:
        return None
    return known.choose(settings.model) if settings.model else await known.models.default()


def _check_model(conversation: Conversation, chosen: ModelChanged | None, models: Models) -> None:
    """Refuses at the door what would fail at the first request."""
    models.go_on_with(model_of(conversation, chosen))


def model_of(conversation: Conversation, chosen: ModelChanged | None) -> ModelChanged:
    """The model that was chosen, or else the one the session has."""
    model = chosen or conversation.model
    if model is None:
        raise UsageError("This session has no model. Name one: -m provider:model")
    return model


def _no_limit(command: CreateSession, options: SessionOptions, mode: Mode) -> Iterator[Notice]:
    """Who names what is allowed, in a mode that allows everything, may think that it is a limit."""
    if options.allow and (command.mode or mode) == "yolo":
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
    if settings.tool_packs is None:
        return settings
    from bridle.app.sources.settings_use import packs_that_are_none

    clauses = packs_that_are_none(settings.tool_packs, [feature.name for feature in plugged])
    said = (f"{clause}." for clause in clauses)
    return msgspec.structs.replace(settings, warnings=(*settings.warnings, *said))


def _keep_named(approvals: Approvals, settings: SessionSettings) -> Iterator[Notice]:
    """Remembers what settings said that somebody named by a path for the first time: later a model may have written
    there. Where that cannot be kept, it is said."""
    for file in settings.named:
        if not approvals.holds(file.sha256, kind="settings", root=file.root, path=file.path):
            try:
                approvals.add(file.path, file.sha256, kind="settings", root=file.root, text=file.data)
            except BridleError as problem:
                yield Notice(reason=problem.reason, message=problem.message)
