"""Answer client queries from the store, the models and open sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, assert_never

import msgspec

from bridle._version import __version__
from bridle.app.queries.agent_answers import own_agents
from bridle.app.queries.profile_answers import profile_description, profile_list
from bridle.app.records.housekeeping import NOTICE_MS, days_kept
from bridle.app.session_parts import GOAL, REDO, UNDO
from bridle.app.sources.skill_sources import own_skills
from bridle.app.user.instruction_trust import all_instruction_files, is_trusted_file
from bridle.app.user.model_setup import is_local, model_entries, provider_entries
from bridle.app.user.settings import resumed_command, session_settings
from bridle.base.clock import Clock, iso_ms
from bridle.base.fs.files import branch_of, real_folder
from bridle.base.ids import SESS, list_place, read_list_place
from bridle.base.secrets.redact import error_marker, redact
from bridle.commands.described_commands import GIT_COMMANDS, PROMPTS, ROLE_COMMANDS
from bridle.config.folders import Folders, home_of
from bridle.context.compaction_layer import COMPACT, PIN
from bridle.context.consent import agreed_and_waiting
from bridle.context.skills.skill_views import skill_description, skill_list
from bridle.control.authority import session_of
from bridle.control.live_sessions import ClientSight
from bridle.engine.features import Joined
from bridle.engine.ports import Description, StoredSession
from bridle.engine.slash_command import DescribedSlash
from bridle.engine.store_ports import CLOSING, OPENING, Due, Found, Store
from bridle.mcp.server_state import ServerState
from bridle.protocol import queries as q
from bridle.protocol.codec import encode_envelope
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import BridleError, CommandRefused, StoreError
from bridle.protocol.events import CostIncremented, Envelope
from bridle.protocol.handshake import PROTOCOL_VERSION
from bridle.protocol.slash_arguments import args_schema
from bridle.providers.known_models import KnownModels
from bridle.providers.model_directory import Models
from bridle.safety.trust.approvals import Approvals, session_approvals
from bridle.safety.wide_folders import why_wide
from bridle.sandbox.plain_spawn import UNCONFINED
from bridle.undo.file_states import changed_files

FOUND_MAX = 500
LAST_CHARS = 200


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What answers are made from. `known` are the models of an open session, of one that a command would make, or those
    of the person's own settings; `features` those from outside; `servers` the MCP servers that sessions use."""

    store: Store
    known: Callable[[str | None, CreateSession | None], KnownModels]
    where: Folders
    env: Mapping[str, str]
    clock: Clock
    sandbox: Callable[[], str]
    features: Joined
    servers: Callable[[], Sequence[ServerState]]


async def answer_query(sources: Sources, query: q.AnyQuery, sight: ClientSight) -> q.AnyQueryAnswer:
    """Answer a query: by a feature of the open session it is about, or for the whole engine."""
    live = sight.live.get(session_of(query) or "")
    if live is not None and (answer := live.run.features.answers.get(type(query))) is not None:
        return await answer(query)
    match query:
        case q.ListSessions():
            return await _session_list(sources, query, sight)
        case q.DescribeSession(session=session, events=count, since=since):
            return await _details(sources, session, sight, events=count, since=since)
        case q.FindSession(cwd=cwd, alias=alias):
            store = sources.store
            row = await (store.newest(cwd) if alias is None else store.find(alias, exact=True))
            if not sight.shows(row.id):
                raise CommandRefused("UnknownSession", session=alias or "")
            return await _details(sources, row.id, sight, events=0)
        case q.PreviewSession(create=create):
            return await _preview(sources, create)
        case q.DescribeLog(session=session):
            return await _log(sources.store, session)
        case q.SearchSessions(words=words, cwd=cwd, limit=limit):
            found = await sources.store.search(words, limit=FOUND_MAX)
            hits = search_hits(found, await sources.store.list(), cwd=cwd)
            return q.SearchHits(hits=tuple([hit for hit in hits if sight.shows(hit.session)][:limit]))
        case q.ListModels(session=session, create=create):
            return q.ModelList(models=await model_entries(sources.known(session, create), query))
        case q.ListProviders(session=session, create=create):
            known = sources.known(session, create)
            providers = await provider_entries(known, query)
            keyed = known.models.default_of_keys() if query.which == "running" else None
            return q.ProviderList(providers=providers, default=keyed)
        case q.ListTools() | q.ListGrants() | q.ListChanges() | q.ReadOutput():
            raise CommandRefused("SessionNotOpen", session=query.session)
        case q.ListSkills():
            return skill_list(own_skills(where=sources.where, env=sources.env).offered)
        case q.DescribeSkill(name=name):
            return skill_description(own_skills(where=sources.where, env=sources.env), name)
        case q.ListAgents():
            return own_agents(sources.where, sources.env)
        case q.ListSlash():
            return q.SlashList(commands=_slash(sources.features if live is None else live.run.features))
        case q.ListProfiles():
            return profile_list(sources.where)
        case q.DescribeProfile(name=name):
            return profile_description(name, sources.where)
        case q.SumCosts(session=session, since_ms=since_ms, by=by):
            store = sources.store
            rows = await store.list() if session is None else [await store.find(session)]
            seen = [row for row in rows if sight.shows(row.id) and row.updated_ms >= since_ms]
            paid = [(row, await store.costs(row.id, since_ms=max(since_ms, 0))) for row in seen]
            return cost_sum(paid, by=by, models=sources.known(None, None).models)
        case q.CheckHealth():
            parts = (*await _parts(sources), *(_server_parts(sources) if _sees_all(sight) else ()))
            return q.Health(
                version=__version__,
                protocol_version=PROTOCOL_VERSION,
                open_sessions=sum(map(sight.shows, sight.live)),
                disk_has_room=sources.store.enough(),
                sandbox=sources.sandbox(),
                ok=all(one.status != "fail" for one in parts),
                parts=parts,
            )
        case q.CustomQuery():
            return await _custom(sources, query, sight)
        case _:
            assert_never(query)


async def _parts(sources: Sources) -> tuple[q.PartHealth, ...]:
    """Every part that all sessions share. Nothing is tried that was not, and nobody is asked over the network."""
    store = sources.store
    kept = q.PartHealth(part="store", status="ok")
    try:
        await store.list(cwd="/")  # it can be read
    except StoreError as failure:
        kept = q.PartHealth(part="store", status="fail", text=failure.reason)
    room = "ok" if store.enough() else "fail" if store.stuck() else "warn"
    held_by = sources.sandbox()
    held = "skip" if not held_by else "warn" if held_by == UNCONFINED else "ok"
    return (
        kept,
        q.PartHealth(part="disk", status=room),
        q.PartHealth(part="sandbox", status=held, text=held_by),
    )


def _sees_all(sight: ClientSight) -> bool:
    """Whether what belongs to sessions in general is theirs to know."""
    return all(map(sight.shows, sight.live))


def _server_parts(sources: Sources) -> Iterator[q.PartHealth]:
    """The MCP servers that sessions use. One that is down makes the engine no worse."""
    for one in sources.servers():
        status = "ok" if one.phase == "up" else "warn" if one.phase in ("down", "given up") else "skip"
        problem = f" ({redact(one.problem, error_marker)})" if one.problem else ""
        yield q.PartHealth(part=f"mcp {one.name}", status=status, text=f"{one.phase}{problem}")


async def _custom(sources: Sources, query: q.CustomQuery, sight: ClientSight) -> q.CustomAnswer:
    """The answer of the feature from outside that has this name; that of a plugin is given in its session."""
    name, live = (query.namespace, query.verb), sight.live.get(query.session or "")
    known = live.run.features.queries.get(name) if live is not None else None
    known = known or sources.features.queries.get(name)
    if known is None:
        raise CommandRefused("NotSupported", what=f"The query {query.namespace}.{query.verb}")
    try:
        return q.CustomAnswer(payload=await known.answer(query))
    except BridleError:
        raise
    except Exception as fault:
        problem = f"{type(fault).__name__}: {fault}"
        raise CommandRefused("FeatureFailed", feature=query.namespace, problem=problem) from fault


# Sessions


async def _session_list(sources: Sources, query: q.ListSessions, sight: ClientSight) -> q.SessionList:
    """A page of the sessions that the client sees and in which something was said, or all of them."""
    after = None if query.after is None else read_list_place(query.after, SESS)
    if query.after is not None and after is None:
        raise CommandRefused("BadCommand", kind="ListSessions", problem="after is no place of this list")
    rows = [row for row in await sources.store.list(cwd=query.cwd, after=after) if sight.shows(row.id)]
    worth = [row for row in rows if row.title or row.turns or row.id in sight.live]
    page = worth[: query.limit]
    behind = list_place(*page[-1].place) if len(page) < len(worth) else None
    return q.SessionList(sessions=await _infos(sources, page), next=behind)


async def _infos(sources: Sources, rows: Sequence[StoredSession]) -> tuple[q.SessionInfo, ...]:
    """How long content is kept is said by the settings of the first session's folder."""
    if not rows:
        return ()
    store = sources.store
    days = days_kept(sources.where, sources.env, rows[0].cwd)
    return session_infos(
        [await store.describe(row.id) for row in rows],
        short=await store.short_ids([row.id for row in rows]),
        answers=await store.last_answers([row.id for row in rows]),
        due=await store.expiring(days, until_ms=sources.clock.now_ms() + NOTICE_MS),
    )


async def _details(
    sources: Sources, name: str, sight: ClientSight, *, events: int, since: int | None = None
) -> q.SessionDetails:
    (info,) = await _infos(sources, [await sources.store.find(name)])
    last: list[msgspec.Raw] = []
    if events:
        if since is None:
            since = max(0, (await sources.store.describe(info.id)).last_id - events)
        async for envelope in sources.store.events(info.id, after=since):
            last.append(msgspec.Raw(encode_envelope(envelope)))
            if len(last) == events:
                break
    live = sight.live.get(info.id)
    clients = () if live is None else live.here
    return q.SessionDetails(
        session=info,
        clients=tuple(q.ClientInfo(id=one.id, name=one.called, identity=one.identity) for one in clients),
        events=tuple(last),
    )


async def _preview(sources: Sources, create: CreateSession) -> q.SessionPreview:
    """What a session would be. Its model is that of the command, the environment or the settings of its folder."""
    resume, env = create.resume, sources.env
    cwd, where, kept = real_folder(create.cwd), sources.where, False
    if resume is not None:
        row = await sources.store.find(resume)
        cwd, (create, kept) = row.cwd, resumed_command(create, cwd, row.profile)
    options = create.config
    settings = session_settings(
        options,
        where=where,
        cwd=cwd,
        env=env,
        profile=create.profile,
        agent=create.agent,
        profile_kept=kept,
    )
    approvals = session_approvals(Approvals(where.config), lockfile=options.lockfile, env=env, cwd=cwd)
    files = all_instruction_files(where, cwd, settings.context.sources)
    used, waiting = agreed_and_waiting(files, is_trusted_file(approvals))
    model, model_from = create.model, "command"
    if model is None and resume is None:
        model = settings.chosen.model
        model_from = "environment" if env.get("BRIDLE_MODEL") == model else "settings"
    return q.SessionPreview(
        cwd=cwd,
        branch=branch_of(cwd),
        model=model,
        model_from=model_from if model else "",
        wide=why_wide(cwd, home_of(env)) or "",
        rules=tuple(file.shown for file in used),
        waiting_rules=tuple(file.shown for file in waiting),
        notify=settings.ui.notify,
    )


async def _log(store: Store, session: str) -> q.LogDescription:
    row = await store.find(session)
    found = changed_files(await store.calls(row.id), row.cwd)
    changes = tuple(q.CallChanges(call_id=call_id, paths=paths) for call_id, paths in found.items())
    return q.LogDescription(changes=changes, digest=await store.digest(row.id))


def session_infos(
    described: Iterable[Description],
    *,
    short: Mapping[str, str],
    answers: Mapping[str, str],
    due: Iterable[Due],
) -> tuple[q.SessionInfo, ...]:
    """What there is to know of these sessions without reading their events.

    `short` are their short ids, `answers` what models said last, `due` whose content goes soon.
    """
    expires = {one.id: one.at_ms for one in due}
    return tuple(
        q.SessionInfo(
            id=row.id,
            short_id=short[row.id],
            cwd=row.cwd,
            title=row.title,
            named=row.renamed,
            profile=row.profile,
            model=row.model,
            state=_state(one),
            turns=row.turns,
            usd=row.usd,
            created_ms=row.created_ms,
            updated_ms=row.updated_ms,
            pinned=row.pinned,
            headless=row.headless,
            branch_of=row.branch_of,
            imported_ms=row.imported_ms,
            expired_ms=row.expired_ms,
            expires_ms=expires.get(row.id),
            last=" ".join(answers.get(row.id, "").split())[-LAST_CHARS:],
        )
        for one in described
        for row in (one.session,)
    )


def _state(one: Description) -> Literal["stored", "open", "waiting"]:
    """Whether somebody has it open, and whether it waits for an answer."""
    if one.lease is None:
        return "stored"
    return "waiting" if one.last_kind in ("PermissionRequested", "QuestionAsked") else "open"


def search_hits(
    found: Iterable[Found], rows: Iterable[StoredSession], *, cwd: str | None = None
) -> list[q.SearchHit]:
    """What was found in one folder or in all, as clients get it. `rows` are the sessions there are."""
    folders = {row.id: row.cwd for row in rows}
    return [
        q.SearchHit(
            session=hit.session,
            event=hit.event,
            turn=hit.turn,
            ts_ms=hit.ts_ms,
            who=hit.who,
            excerpt=hit.excerpt.replace(OPENING, "").replace(CLOSING, "").replace("\n", " "),
        )
        for hit in found
        if hit.session in folders and cwd in (None, folders[hit.session])
    ]


# Tools, commands


def _slash(features: Joined) -> tuple[q.SlashEntry, ...]:
    """Return the commands every session has, then those of these features."""
    words, shipped = {one.name: one.words for one in PROMPTS}, shipped_slash()
    known = {one.name for one in shipped}
    added = (one for one in features.slash if one.name not in known)
    others = (one for command in added for one in (command, *(command.others() if command.others else ())))
    named = (one for some in features.prompts for one in some.names())
    return tuple(
        q.SlashEntry(
            name=one.name,
            description=one.does,
            namespace=one.name.partition(":")[0] if ":" in one.name else "",
            args_schema=args_schema(one.arguments),
            words=words.get(one.name, ""),
            stands_for=one.stands_for,
        )
        for one in (*shipped, *others, *named)
    )


def shipped_slash() -> tuple[DescribedSlash, ...]:
    """The commands of the engine that every session has."""
    return (*PROMPTS, *GIT_COMMANDS, *ROLE_COMMANDS, GOAL, COMPACT, PIN, UNDO, REDO)


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
    paid: Iterable[tuple[StoredSession, Iterable[Envelope]]],
    *,
    by: Literal["model", "session", "day", "purpose"],
    models: Models,
) -> q.CostSum:
    """What these sessions paid, by their `CostIncremented`: the dearest first, or the last day first."""
    sums: dict[str, _Sum] = {}
    total = _Sum(name="total")
    local: dict[str, bool] = {}
    for row, envelopes in paid:
        for envelope in envelopes:
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


def _cost_name(row: StoredSession, ts_ms: int, cost: CostIncremented, by: str) -> str:
    match by:
        case "session":
            return f"{row.id} {row.title}".strip()
        case "day":
            return iso_ms(ts_ms)[:10]
        case "purpose":
            return cost.purpose.replace("_", " ")
        case _:
            return f"{cost.provider}:{cost.model}"


def _cost_row(one: _Sum) -> q.CostRow:
    return q.CostRow(**msgspec.structs.asdict(one))
