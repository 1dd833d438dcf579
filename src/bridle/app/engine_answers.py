"""What an engine answers, and does for stored sessions and the person's settings. Loaded when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridle.app.queries.query_answers import Sources, answer_query
from bridle.app.session_opening import SessionOpening, working_folder
from bridle.app.session_parts import ProcessServices
from bridle.app.user import model_setup
from bridle.app.user.settings import session_settings
from bridle.config.folders import home_of
from bridle.control.authority import Bounds
from bridle.control.live_sessions import ClientSight
from bridle.engine.features import Joined
from bridle.engine.resume import unexpired
from bridle.mcp.server_state import ServerState
from bridle.protocol.commands import ConnectProvider, CreateSession, SaveModel
from bridle.protocol.queries import AnyQuery, AnyQueryAnswer
from bridle.providers.known_models import KnownModels
from bridle.sessions.archive.beside_store import copy_outputs, forget_beside


class EngineAnswers:
    """Those of one engine. `features` are from outside."""

    def __init__(
        self,
        services: ProcessServices,
        opening: SessionOpening,
        features: Joined,
        *,
        servers: Callable[[], Sequence[ServerState]],
    ) -> None:
        self._services = services
        self._opening = opening
        self._store = opening.store
        self._sources = Sources(
            store=opening.store,
            known=self._known,
            where=services.where,
            env=services.env,
            clock=services.clock,
            sandbox=lambda: services.spawn.adapter,
            features=features,
            servers=servers,
        )

    async def answer(self, query: AnyQuery, sight: ClientSight) -> AnyQueryAnswer:
        return await answer_query(self._sources, query, sight)

    def _known(self, session: str | None, create: CreateSession | None) -> KnownModels:
        """The models of an open session, of one that a command would make, or those of the person's own settings."""
        if session is not None:
            return self._opening.known_of[session]
        where, env = self._services.where, self._services.env
        cwd = home_of(env) if create is None else working_folder(create.cwd)
        wanted = create or CreateSession(cwd=cwd)
        settings = session_settings(
            wanted.config, where=where, cwd=cwd, env=env, profile=wanted.profile, agent=wanted.agent
        )
        return self._services.known_for(settings, cwd=cwd)

    async def bounds_of(self, command: CreateSession) -> Bounds:
        """What the person's own settings give. Of a session that goes on, the mode is known when it is open: then it
        can be changed, and until then nothing is looser than any."""
        cwd = working_folder(command.cwd)
        if command.resume is not None:
            cwd = (await self._store.find(command.resume)).cwd
        settings = session_settings(where=self._services.where, cwd=cwd, env=self._services.env)
        return Bounds(
            mode=settings.mode if command.resume is None else "plan",
            sandbox=settings.sandbox.mode,
            network=settings.sandbox.network,
            max_steps=settings.max_steps,
            max_cost=settings.budget.usd_per_session,
            effort=settings.chosen.effort,
            agent=settings.agents.agent if settings.agents is not None else None,
        )

    async def set_up(self, command: SaveModel | ConnectProvider) -> None:
        models = self._known(None, command.create).models
        match command:
            case SaveModel():
                model_setup.save_model(models, command, self._services.where)
            case ConnectProvider():
                await model_setup.connect_provider(models, command, self._services.clock)

    async def rename(self, session: str, title: str) -> None:
        await self._store.rename(session, title)

    async def pin(self, session: str, pinned: bool) -> None:
        await self._store.pin(session, pinned=pinned)

    async def branch(self, session: str, turn: int | None) -> str:
        row = unexpired(await self._store.find(session))
        made = await self._store.branch(row.id, turn=turn)
        copy_outputs(self._services.where.state, row.id, made)
        return made

    async def delete(self, session: str) -> None:
        row = await self._store.find(session)
        await self._store.delete(row.id, beside=forget_beside(self._services.where.state))
