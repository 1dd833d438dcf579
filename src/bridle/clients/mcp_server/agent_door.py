"""The sessions of one outer agent, over its connection: what each of its tools does.

A call that names no session means the one that was used last here. What an agent may not do is refused by the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args
from urllib.parse import parse_qs, quote, unquote

import msgspec

from bridle.clients.mcp_server.agent_tools import (
    BANNER,
    AnswerArguments,
    CreateArguments,
    ExitPlanArguments,
    ListArguments,
    ModelArguments,
    RunArguments,
    SessionArguments,
    WaitArguments,
    arguments_of,
    tool_called,
)
from bridle.clients.mcp_server.turn_report import TurnFold, TurnReport, attach_words, report_text
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import InputAccepted, StreamGap
from bridle.protocol.handshake import RESOURCE_URI_SCHEME
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import (
    DescribeLog,
    DescribeSession,
    DescribeSkill,
    ListSessions,
    ListSkills,
    SkillEntry,
)
from bridle.protocol.told_outside import told_outside

# What is told is only that there is more to read. The parts of an answer as they come in are no news: its end
# is.


# Written in one way. Read in the older spellings too, of which `harness/v1://` is no legal URI.


Kind: TypeAlias = Literal[
    "sessions", "profiles", "providers", "tools", "skills", "runtime",
    "session", "session/events", "session/log", "profile", "provider/models", "skill",
]  # fmt: skip
"""The first six have no name; of the others one is named behind the first word."""

KINDS: tuple[Kind, ...] = get_args(Kind)
NAMED: frozenset[Kind] = frozenset(KINDS[6:])
_SPELLINGS = (f"{RESOURCE_URI_SCHEME}://", "bridle/v1://", "harness-v1://", "harness/v1://")
_LONGEST_NAME = 200


class ResourceAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What is meant. `since` is the event behind which events begin, where they are asked for."""

    kind: Kind
    name: str = ""
    since: int = 0


def read_uri(uri: str) -> ResourceAddress:
    """What an address means. Raises `UnknownResource`."""
    opening = next((one for one in _SPELLINGS if uri.startswith(one)), None)
    if opening is None:
        raise unknown_resource(uri)
    path, _, query = uri.removeprefix(opening).partition("?")
    first, *rest = path.rstrip("/").split("/")
    named = rest[:1]
    kind = "/".join((first, *rest[1:]))
    name = unquote(named[0]) if named else ""
    known = kind in KINDS and bool(name) == (kind in NAMED) and len(name) <= _LONGEST_NAME
    since = parse_qs(query).get("since", ["0"])[-1] if query else "0"
    if not known or not (since.isascii() and since.isdigit() and len(since) < 16):
        raise unknown_resource(uri)
    return ResourceAddress(kind=cast("Kind", kind), name=name, since=int(since))


def uri_of(kind: Kind, name: str = "", *, since: int = 0) -> str:
    """The address of something, as we write it."""
    first, _, last = kind.partition("/")
    place = "/".join(filter(None, (first, quote(name, safe=""), last)))
    return f"{RESOURCE_URI_SCHEME}://{place}{f'?since={since}' if since else ''}"


def uri_template(kind: Kind) -> str:
    """The same with a hole for its name, as RFC 6570 writes one."""
    first, _, last = kind.partition("/")
    return f"{RESOURCE_URI_SCHEME}://" + "/".join(filter(None, (first, "{name}", last)))


def unknown_resource(uri: str) -> CommandRefused:
    return CommandRefused("UnknownResource", uri=uri[:200])


MOST = 64
"""So many addresses of one client are watched at once."""
_NO_NEWS = (e.TextDelta, e.ThinkingDelta, e.ToolCallProgress, e.Presence, e.TokenExpiring)

News = Callable[[str], Awaitable[None]]
"""Is told the address, as the client wrote it, whenever something is new there."""


class EventWatch:
    """What one outer agent follows. `attached` gives the id of a session it is attached to from then on."""

    def __init__(self, connection: Connection, attached: Callable[[str], Awaitable[str]]) -> None:
        self._connection = connection
        self._attached = attached
        self._count = 0

    @asynccontextmanager
    async def watching(self, uris: Collection[str], news: News) -> AsyncGenerator[None]:
        """Tells of news at these addresses meanwhile. Raises why one of them cannot be watched, before anything is."""
        wanted = list(dict.fromkeys(uris))
        if self._count + len(wanted) > MOST:
            raise CommandRefused("TooManyWatched", most=MOST)
        self._count += len(wanted)
        tasks: list[asyncio.Future[None]] = []
        try:
            sessions = [(uri, await self._session(uri)) for uri in wanted]
            tasks = [
                asyncio.ensure_future(self._tell(uri, session, since, news))
                for uri, found in sessions
                if found is not None
                for session, since in (found,)
            ]
            yield
        finally:
            self._count -= len(wanted)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _session(self, uri: str) -> tuple[str, int] | None:
        """The session whose events say that there is news at an address, and its last event; None where none does."""
        address = read_uri(uri)
        if not address.kind.startswith("session/") and address.kind != "session":
            return None
        session = await self._attached(address.name)
        details = await self._connection.ask(DescribeSession(session=session, events=1))
        return session, last_event(details.events)

    async def _tell(self, uri: str, session: str, since: int, news: News) -> None:
        with suppress(BridleError):
            async for envelope in self._connection.events(session, since=since):
                if not isinstance(envelope.event, _NO_NEWS):
                    await news(uri)


class _EventHead(msgspec.Struct, frozen=True):
    kind: str
    id: int = 0


def last_event(events: Sequence[bytes], otherwise: int = 0) -> int:
    """The id of the last of these stored events."""
    return msgspec.json.decode(events[-1], type=_EventHead).id if events else otherwise


T = TypeVar("T")
PAGE = 50


def page_of(items: Sequence[T], cursor: str) -> tuple[Sequence[T], str | None]:
    """A page of a list and the cursor of the next; None where this was the last. Raises `BadCommand`."""
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise CommandRefused("BadCommand", kind="list", problem="its cursor is none that was given out")
    start = int(cursor or 0)
    end = start + PAGE
    return items[start:end], str(end) if end < len(items) else None


Tell: TypeAlias = Callable[[str], None]
"""Hears each line of the story of a turn as it happens; it never waits."""
SKILLS = "skills:"
"""What stands before the name of a skill where named prompts stand beside it."""
_LOOK_BACK = 1000
"""So many of the last events are looked through for the input that a turn began with."""


class DoorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a call is answered with: words, and the same as data."""

    text: str
    data: dict[str, Any]
    failed: bool = False


def refused_answer(refusal: BridleError) -> DoorAnswer:
    told = told_outside(refusal)
    data = {"reason": told.reason, "message": told.message, "data": told.data}
    return DoorAnswer(text=f"{told.message} ({told.reason})", data=data, failed=True)


class AgentDoor:
    """What one outer agent does. `folder` is where its sessions begin that name none; `bound` the only session there
    is for it, where its token names one. `hear` is told of each session it begins."""

    def __init__(
        self,
        connection: Connection,
        *,
        folder: str = "",
        bound: str = "",
        hear: Callable[[str], None] = lambda _session: None,
    ) -> None:
        self.connection = connection
        self.watch = EventWatch(connection, self.attached)
        self._folder = folder
        self._hear = hear
        self.current = bound
        self._attached: set[str] = set()
        self._inputs: dict[str, int] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._tools: Mapping[str, Callable[[Any, Tell], Awaitable[DoorAnswer]]] = {
            "create_session": self._create,
            "list_sessions": self._list,
            "attach_session": self._attach,
            "detach_session": self._detach,
            "run_agent_with_shell_access": self._run,
            "wait_for_turn": self._wait,
            "cancel_turn": self._cancel,
            "answer_permission": self._answer,
            "set_model": self._set_model,
            "enter_plan_mode": self._plan,
            "exit_plan_mode": self._exit_plan,
            "end_session": self._end,
        }

    async def call(self, name: str, given: Mapping[str, Any], tell: Tell) -> DoorAnswer:
        """Carries a call out. Raises `BridleError` for what is refused, which is an answer too (`refused_answer`)."""
        tool = tool_called(name)
        return await self._tools[tool.name](arguments_of(tool, given), tell)

    async def close(self) -> None:
        await self.connection.close()

    # Sessions

    async def _create(self, wanted: CreateArguments, _tell: Tell) -> DoorAnswer:
        session = await self._created(wanted)
        return DoorAnswer(text=f"{BANNER}\n\nSession {session} is open.", data=_opened(session))

    async def _created(self, wanted: CreateArguments) -> str:
        if not (wanted.cwd or self._folder):
            raise CommandRefused("BadCommand", kind="create_session", problem="cwd names no folder")
        config = c.SessionOptions(
            title=wanted.title or None,
            max_cost=wanted.max_cost or None,
            max_steps=wanted.max_steps or None,
            sandbox=wanted.sandbox or None,
            network=wanted.network or None,
            dry_run=wanted.dry_run,
            deny=wanted.deny,
        )
        accepted = await self.connection.send(
            c.CreateSession(
                cwd=wanted.cwd or self._folder, model=wanted.model or None, mode=wanted.mode, config=config
            )
        )
        self._attached.add(accepted.session)
        self.current = accepted.session
        self._hear(accepted.session)
        return accepted.session

    async def _list(self, wanted: ListArguments, _tell: Tell) -> DoorAnswer:
        query = ListSessions(cwd=wanted.cwd or None, limit=PAGE, after=wanted.cursor or None)
        page = await self.connection.ask(query)
        lines = [f"{one.id}  {one.state:<8} {one.cwd}  {one.title}" for one in page.sessions]
        data = {"sessions": [msgspec.to_builtins(one) for one in page.sessions], "next_cursor": page.next}
        return DoorAnswer(text="\n".join(lines) or "There is no session yet.", data=data)

    async def _attach(self, wanted: SessionArguments, _tell: Tell) -> DoorAnswer:
        session = await self.attached(self._meant(wanted.session))
        self.current = session
        return DoorAnswer(text=f"{BANNER}\n\nAttached to {session}.", data=_opened(session))

    async def attached(self, name: str) -> str:
        """The id of a session this agent is attached to from now on, by any name of it."""
        if name in self._attached:
            return name
        session = (await self.connection.send(c.AttachSession(session=name))).session
        self._attached.add(session)
        return session

    def _meant(self, session: str) -> str:
        if session or self.current:
            return session or self.current
        raise CommandRefused(
            "BadCommand", kind="call", problem="it names no session, and none was used here yet"
        )

    async def _sent(self, session: str, make: Callable[[str], c.AnyCommand], said: str) -> DoorAnswer:
        """A command to a session, which this agent is attached to for it."""
        found = await self.attached(self._meant(session))
        try:
            accepted = await self.connection.send(make(found))
        except CommandRefused as refusal:
            if refusal.reason in ("SessionNotOpen", "NotAttached"):
                self._attached.discard(found)  # it ended since; the next call opens it again
            raise
        return DoorAnswer(text=said.format(session=found), data=msgspec.to_builtins(accepted))

    async def _detach(self, wanted: SessionArguments, _tell: Tell) -> DoorAnswer:
        return await self._leave(wanted, lambda found: c.DetachSession(session=found), "Left {session}.")

    async def _end(self, wanted: SessionArguments, _tell: Tell) -> DoorAnswer:
        return await self._leave(wanted, lambda found: c.EndSession(session=found), "Ended {session}.")

    async def _leave(
        self, wanted: SessionArguments, make: Callable[[str], c.AnyCommand], said: str
    ) -> DoorAnswer:
        """A command to a session after which this agent is not in it."""
        done = await self._sent(wanted.session, make, said)
        session = done.data["session"]
        self._attached.discard(session)
        if self.current == session:
            self.current = ""
        return done

    async def _cancel(self, wanted: SessionArguments, _tell: Tell) -> DoorAnswer:
        return await self._sent(
            wanted.session,
            lambda found: c.CancelTurn(session=found),
            "The turn of {session} is being stopped.",
        )

    async def _answer(self, wanted: AnswerArguments, _tell: Tell) -> DoorAnswer:
        return await self._sent(
            wanted.session,
            lambda found: c.AnswerPermission(
                session=found, call_id=wanted.call_id, answer=wanted.answer, note=wanted.note
            ),
            "Refused.",
        )

    async def _set_model(self, wanted: ModelArguments, _tell: Tell) -> DoorAnswer:
        return await self._sent(
            wanted.session,
            lambda found: c.SetModel(session=found, model=wanted.model),
            "{session} goes on with another model.",
        )

    async def _plan(self, wanted: SessionArguments, _tell: Tell) -> DoorAnswer:
        return await self._sent(
            wanted.session, lambda found: c.EnterPlanMode(session=found), "{session} plans."
        )

    async def _exit_plan(self, wanted: ExitPlanArguments, _tell: Tell) -> DoorAnswer:
        return await self._sent(
            wanted.session,
            lambda found: c.ExitPlanMode(session=found, approve=wanted.approve),
            "{session} plans no more.",
        )

    # Turns

    async def _run(self, wanted: RunArguments, tell: Tell) -> DoorAnswer:
        if not (wanted.prompt.strip() or wanted.skill):
            raise CommandRefused(
                "BadCommand", kind="run_agent_with_shell_access", problem="the prompt is empty"
            )
        session = "" if wanted.new_session else wanted.session or self.current
        session = await self.attached(session) if session else await self._created(wanted)
        self.current = session
        accepted = await self.connection.send(await self._input(session, wanted))
        if accepted.event is None:
            raise CommandRefused("UnknownSlash", name=wanted.skill)
        self._inputs[session] = accepted.event
        if wanted.wait == "none":
            return _begun(session, accepted.event)
        joins = wanted.if_busy == "steer"
        try:
            return await self._until_ended(
                session, accepted.event, tell, joins=joins, timeout_s=wanted.timeout_s
            )
        except asyncio.CancelledError:
            self._stop_soon(session)  # whoever had it run has it stopped
            raise

    async def _input(self, session: str, wanted: RunArguments) -> c.AnyCommand:
        """A skill by its name, bare or with `skills:`, before a named prompt of the same one."""
        if not wanted.skill:
            return c.SendInput(session=session, content=(TextBlock(text=wanted.prompt),), mode=wanted.if_busy)
        name = wanted.skill.removeprefix(SKILLS)
        is_skill = any(one.name == name for one in await self.skills())
        return c.RunSlash(
            session=session, name=f"{SKILLS}{name}" if is_skill else wanted.skill, arguments=wanted.prompt
        )

    async def skills(self) -> list[SkillEntry]:
        """Those of the session used last that a person lets be used; before the first, those of every session."""
        session = await self.attached(self.current) if self.current else None
        found = await self.connection.ask(ListSkills(session=session))
        return [one for one in found.skills if one.trusted]

    async def skill_words(self, name: str) -> str:
        session = await self.attached(self.current) if self.current else None
        return (await self.connection.ask(DescribeSkill(name=name, session=session))).body

    async def _wait(self, wanted: WaitArguments, tell: Tell) -> DoorAnswer:
        session = await self.attached(self._meant(wanted.session))
        number = wanted.input or self._inputs.get(session) or await self._last_input(session)
        return await self._until_ended(session, number, tell, joins=True, timeout_s=wanted.timeout_s)

    async def _last_input(self, session: str) -> int:
        details = await self.connection.ask(DescribeSession(session=session, events=_LOOK_BACK))
        for raw in reversed(details.events):
            event = msgspec.json.decode(raw, type=_EventHead)
            if event.kind == InputAccepted.__name__:
                return event.id
        raise CommandRefused("NoTurn")

    async def _until_ended(
        self, session: str, number: int, tell: Tell, *, joins: bool, timeout_s: float | None
    ) -> DoorAnswer:
        """Follows the turn of an input to its end, or for so long."""
        fold = TurnFold(session, number, joins=joins)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._follow(fold, number, tell)
        report = await self._with_log(fold)
        failed = report.state == "ended" and report.stop != "end_turn"
        return DoorAnswer(text=report_text(report), data=msgspec.to_builtins(report), failed=failed)

    async def _follow(self, fold: TurnFold, since: int, tell: Tell) -> None:
        """Takes events until the turn has ended or the session has; what was missed is read again."""
        gap: int | None = since
        while gap is not None:
            events, gap = self.connection.events(fold.session, since=gap), None
            try:
                async for envelope in events:
                    if isinstance(envelope.event, StreamGap):
                        gap = envelope.event.first - 1
                        break
                    for line in fold.take(envelope):
                        tell(line)
                    if fold.ended is not None:
                        return
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()

    async def _with_log(self, fold: TurnFold) -> TurnReport:
        """The report, with what the log knows: the files this turn changed, by whatever tool, and its digest."""
        if fold.ended is None:
            return fold.report()
        try:
            log = await self.connection.ask(DescribeLog(session=fold.session))
        except BridleError:
            return fold.report()
        calls = fold.call_ids
        changed = dict.fromkeys(path for one in log.changes if one.call_id in calls for path in one.paths)
        return fold.report(files_changed=tuple(changed), log_digest=log.digest)

    def _stop_soon(self, session: str) -> None:
        async def stop() -> None:
            with suppress(BridleError):
                await self.connection.send(c.CancelTurn(session=session))

        task = asyncio.ensure_future(stop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _opened(session: str) -> dict[str, Any]:
    return {
        "session": session,
        "attach": attach_words(session),
        "events": uri_of("session/events", session),
        "banner": BANNER,
    }


def _begun(session: str, number: int) -> DoorAnswer:
    report = TurnFold(session, number).report()
    return DoorAnswer(
        text=f"The turn runs in {session} (input {number}). wait_for_turn waits for it.",
        data={**msgspec.to_builtins(report), "events": uri_of("session/events", session, since=number)},
    )
