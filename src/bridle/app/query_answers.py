"""What clients want to know, answered from the store, the models and the open sessions. Loaded with the first query."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from bridle._version import __version__
from bridle.app.keeping import days_kept, soon
from bridle.app.models import DEMO, Models
from bridle.base.clock import Clock, iso_ms
from bridle.config.folders import Folders
from bridle.protocol import queries as q
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import CostIncremented
from bridle.protocol.handshake import PROTOCOL_VERSION
from bridle.providers.model_facts import ModelFacts
from bridle.sessions.store import SessionRow, SessionStore
from bridle.sessions.text_search import CLOSING, OPENING, last_answers, search

if TYPE_CHECKING:
    from bridle.app.known_models import KnownModels
    from bridle.control.multiplex import Sight
    from bridle.engine.tools import Registry
    from bridle.safety.grants import Grant

FOUND_MAX = 500
LAST_CHARS = 200
SHORT_ID = 10
"""The part of an id that is its time. With less of it, sessions that begin soon after would fit too."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What answers are made from. `known` are the models of an open session, or those of the person's own settings."""

    store: SessionStore
    known: Callable[[str | None], KnownModels]
    where: Folders
    env: Mapping[str, str]
    clock: Clock
    sandbox: Callable[[], str]


async def answer_query(sources: Sources, query: q.AnyQuery, sight: Sight) -> q.AnyQueryAnswer:
    """The answer, with nothing in it of sessions the client does not see."""
    match query:
        case q.ListSessions(cwd=cwd):
            rows = [row for row in sources.store.list(cwd=cwd) if sight.shows(row.id)]
            return q.SessionList(sessions=_infos(sources, [row for row in rows if row.title or row.turns]))
        case q.DescribeSession(session=session):
            return _details(sources, session, sight)
        case q.SearchSessions(words=words, cwd=cwd, limit=limit):
            hits = [hit for hit in search_hits(sources.store, words, cwd=cwd) if sight.shows(hit.session)]
            return q.SearchHits(hits=tuple(hits[:limit]))
        case q.ListModels(session=session, names=names, provider=provider):
            return q.ModelList(models=tuple(_models(sources.known(session), names, provider)))
        case q.ListProviders(session=session, names=names):
            return q.ProviderList(providers=tuple(_providers(sources.known(session).models, names)))
        case q.ListTools(session=session):
            return q.ToolList(tools=sight.live[session].run.tools())
        case q.ListGrants(session=session):
            return q.GrantList(grants=sight.live[session].run.grants())
        case q.ListSlash():
            return q.SlashList(commands=_slash())
        case q.ListProfiles():
            from bridle.config.profiles import profile_names

            return q.ProfileList(profiles=tuple(profile_names(sources.where.config)))
        case q.SumCosts(session=session, since_ms=since_ms, by=by):
            rows = sources.store.list() if session is None else [sources.store.find(session)]
            seen = [row for row in rows if sight.shows(row.id)]
            return cost_sum(sources.store, seen, since_ms=since_ms, by=by, models=sources.known(None).models)
        case q.CheckHealth():
            return q.Health(
                version=__version__,
                protocol_version=PROTOCOL_VERSION,
                open_sessions=sum(map(sight.shows, sight.live)),
                disk_has_room=sources.store.enough(),
                sandbox=sources.sandbox(),
            )
        case q.CustomQuery(namespace=namespace):
            raise CommandRefused("NotSupported", what=f"The namespace {namespace}")
        case _:
            assert_never(query)


# Sessions


def _infos(sources: Sources, rows: Iterable[SessionRow]) -> tuple[q.SessionInfo, ...]:
    return session_infos(
        sources.store, rows, where=sources.where, env=sources.env, now_ms=sources.clock.now_ms()
    )


def _details(sources: Sources, name: str, sight: Sight) -> q.SessionDetails:
    (info,) = _infos(sources, [sources.store.find(name)])
    live = sight.live.get(info.id)
    clients = () if live is None else tuple(one.client for one in live.attachments.values())
    return q.SessionDetails(
        session=info,
        clients=tuple(q.ClientInfo(id=one.id, name=one.name, identity=one.identity) for one in clients),
    )


def session_infos(
    store: SessionStore,
    rows: Iterable[SessionRow],
    *,
    where: Folders,
    env: Mapping[str, str],
    now_ms: int,
    here: str | None = None,
) -> tuple[q.SessionInfo, ...]:
    """What there is to know of these stored sessions without reading their events.

    How long content is kept is said by the settings of the folder `here`, or of the first session's.
    """
    rows = list(rows)
    if not rows:
        return ()
    answers = last_answers(store.shelf)
    kept = days_kept(where, env, here or rows[0].cwd)
    due = {one.id: one.at_ms for one in soon(store.shelf, kept, now_ms=now_ms)}
    short = short_ids(row.id for row in store.list())
    return tuple(
        q.SessionInfo(
            id=row.id,
            short_id=short[row.id],
            cwd=row.cwd,
            title=row.title,
            named=row.renamed,
            profile=row.profile,
            model=row.model,
            state=_state(store, row),
            turns=row.turns,
            usd=row.usd,
            created_ms=row.created_ms,
            updated_ms=row.updated_ms,
            pinned=row.pinned,
            headless=row.headless,
            branch_of=row.branch_of,
            imported_ms=row.imported_ms,
            expired_ms=row.expired_ms,
            expires_ms=due.get(row.id),
            last=" ".join(answers.get(row.id, "").split())[-LAST_CHARS:],
        )
        for row in rows
    )


def short_ids(sessions: Iterable[str]) -> dict[str, str]:
    """By id: the shortest beginning that names this session and no other, without its prefix."""
    ordered = sorted(sessions)
    bare = ["", *(session.removeprefix("sess_") for session in ordered), ""]
    return {
        session: own[: max(SHORT_ID, 1 + max(_alike(own, bare[at]), _alike(own, bare[at + 2])))]
        for at, (session, own) in enumerate(zip(ordered, bare[1:-1], strict=True))
    }


def _alike(one: str, other: str) -> int:
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)


def _state(store: SessionStore, row: SessionRow) -> Literal["stored", "open", "waiting"]:
    """Whether somebody has it open, and whether it waits for an answer."""
    lock = store.shelf.lock_of(row.log)
    if not os.path.exists(lock.path):
        return "stored"
    with lock:
        if lock.acquire():
            return "stored"
    return "waiting" if store.last_kind(row) in ("PermissionRequested", "QuestionAsked") else "open"


def search_hits(store: SessionStore, words: str, *, cwd: str | None = None) -> list[q.SearchHit]:
    """Where the words were said, in one folder or in all."""
    folders = {row.id: row.cwd for row in store.list()}
    return [
        q.SearchHit(
            session=hit.session,
            event=hit.event,
            turn=hit.turn,
            ts_ms=hit.ts_ms,
            who=hit.who,
            excerpt=hit.excerpt.replace(OPENING, "").replace(CLOSING, "").replace("\n", " "),
        )
        for hit in search(store.shelf, words, limit=FOUND_MAX)
        if hit.session in folders and cwd in (None, folders[hit.session])
    ]


# Models, tools, commands


def _models(known: KnownModels, names: Iterable[str], provider: str | None) -> Iterator[q.ModelEntry]:
    for name in names:
        of, _, model = name.partition(":")
        yield _model(known, name, of, ModelFacts() if of == DEMO else known.facts(of, model))
    if provider is not None:
        for info in known.catalogue.models(known.models.endpoint(provider)):
            yield _model(known, f"{provider}:{info.name}", provider, info)


def _model(known: KnownModels, name: str, provider: str, facts: ModelFacts) -> q.ModelEntry:
    return q.ModelEntry(
        model=name,
        local=is_local(known.models, provider),
        context_tokens=facts.context_tokens,
        max_output_tokens=facts.max_output_tokens,
        tools=facts.tools,
        images=facts.images,
        price_in=facts.price_in,
        price_out=facts.price_out,
        price_cache_read=facts.price_cache_read,
        price_cache_write=facts.price_cache_write,
    )


def _providers(models: Models, names: Iterable[str]) -> Iterator[q.ProviderEntry]:
    endpoints = {name: models.endpoint(name) for name in names if name != DEMO}
    for endpoint in models.with_keys():
        endpoints.setdefault(endpoint.name, endpoint)
    for name, endpoint in endpoints.items():
        yield q.ProviderEntry(name=name, local=endpoint.local, key_from=models.key_source(endpoint))


def is_local(models: Models, provider: str) -> bool:
    """Whether a provider runs on this machine, so that nobody is paid for it."""
    try:
        return provider == DEMO or models.endpoint(provider).local
    except BridleError:
        return False


def tool_entries(registry: Registry) -> tuple[q.ToolEntry, ...]:
    """The tools a model is told of right now."""
    return tuple(
        q.ToolEntry(
            name=tool.name,
            description=tool.description,
            risk=tool.risk,
            source=origin.scope if (origin := registry.origin(tool.name)) else "",
        )
        for tool in registry.list()
    )


def grant_entries(grants: Iterable[Grant]) -> tuple[q.GrantEntry, ...]:
    return tuple(
        q.GrantEntry(
            grant_id=grant.grant_id,
            tool=grant.tool,
            pattern=grant.subject or "",
            match=grant.match,
            expires_ms=grant.expires_ms,
        )
        for grant in grants
    )


def _slash() -> tuple[q.SlashEntry, ...]:
    from bridle.app.undoing import UNDO_DOES
    from bridle.commands.git_commands import GIT_DOES
    from bridle.commands.prompts import DOES
    from bridle.context.compaction_layer import COMPACT_DOES

    known = (DOES, GIT_DOES, COMPACT_DOES, UNDO_DOES)
    return tuple(q.SlashEntry(name=name, does=does) for some in known for name, does in some.items())


# Money


class _Sum(msgspec.Struct, kw_only=True):
    name: str
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    unknown: int = 0
    local: bool = True

    def add(self, cost: CostIncremented, *, local: bool) -> None:
        usage = cost.usage
        self.requests += 1
        self.input_tokens += usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        self.cached_tokens += usage.cache_read_tokens
        self.output_tokens += usage.output_tokens
        self.usd += cost.usd or 0.0
        self.unknown += cost.usd is None
        self.local = self.local and local


def cost_sum(
    store: SessionStore,
    rows: Iterable[SessionRow],
    *,
    since_ms: int,
    by: Literal["model", "session", "day"],
    models: Models,
) -> q.CostSum:
    """What these sessions paid since a time: the dearest first, or the last day first."""
    sums: dict[str, _Sum] = {}
    total = _Sum(name="total")
    local: dict[str, bool] = {}
    for row in rows:
        if row.updated_ms < since_ms:
            continue
        for envelope in store.costs(row, since_ms=since_ms):
            cost = envelope.event
            if not isinstance(cost, CostIncremented):
                continue
            provider = cost.provider
            if provider not in local:
                local[provider] = is_local(models, provider)
            name = _cost_name(row, envelope.ts_ms, cost, by)
            for one in (sums.setdefault(name, _Sum(name=name)), total):
                one.add(cost, local=local[provider])
    listed = list(sums.values())
    if by == "day":
        listed.sort(key=lambda one: one.name, reverse=True)
    else:
        listed.sort(key=lambda one: (-one.usd, -one.input_tokens, one.name))
    return q.CostSum(rows=tuple(map(_cost_row, listed)), total=_cost_row(total))


def _cost_name(row: SessionRow, ts_ms: int, cost: CostIncremented, by: str) -> str:
    match by:
        case "session":
            return f"{row.id} {row.title}".strip()
        case "day":
            return iso_ms(ts_ms)[:10]
        case _:
            return f"{cost.provider}:{cost.model}"


def _cost_row(one: _Sum) -> q.CostRow:
    return q.CostRow(**msgspec.structs.asdict(one))
