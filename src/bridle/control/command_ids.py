"""The ids that clients choose for their commands: the same id twice is one command with one answer.

What a command did to a session is remembered by the session itself: its event carries the stamp, so it holds in every
process. The answers to all others are remembered here for ten minutes. A command that was refused changed nothing and
may be tried again under its id.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from bridle.base.clock import Clock
from bridle.control.authority import session_of
from bridle.engine.open_questions import Client
from bridle.protocol.codec import encode_command, kind_of_command
from bridle.protocol.commands import Accepted, AnyCommand, AttachSession, CreateSession, DetachSession
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import CommandStamp

if TYPE_CHECKING:
    from bridle.control.live_sessions import FindStored, LiveSessions

REMEMBERED_S = 600.0
REMEMBERED = 10_000
"""So many answers at most, whoever asks for more: the oldest go first."""
DIGEST_CHARACTERS = 16
_OF_ONE_CLIENT = (AttachSession, DetachSession)
"""Commands about the client's own attachment: another client's are others."""
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class _Answer(msgspec.Struct, frozen=True):
    digest: str
    answer: asyncio.Future[Accepted]
    until: float


class CommandIds:
    """Which commands were taken lately, by their scope and id, with their answers."""

    def __init__(self, clock: Clock, *, most: int = REMEMBERED) -> None:
        self._clock = clock
        self._most = most
        self._answers: OrderedDict[tuple[str, str], _Answer] = OrderedDict()

    async def once(
        self, scope: str, stamp: CommandStamp, carry_out: Callable[[], Awaitable[Accepted]]
    ) -> tuple[Accepted, bool]:
        """The answer of a command that is carried out at most once, and whether it was carried out now."""
        self._forget_old()
        known = self._answers.get((scope, stamp.id))
        if known is not None:
            refuse_other(stamp, known.digest)
            return await asyncio.shield(known.answer), False
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        until = self._clock.monotonic() + REMEMBERED_S
        self._answers[scope, stamp.id] = _Answer(stamp.digest, answer, until)
        try:
            accepted = await carry_out()
        except BaseException as failure:
            del self._answers[scope, stamp.id]
            shared = failure if isinstance(failure, Exception) else CommandRefused("CommandCutOff")
            answer.set_exception(shared)
            answer.exception()  # nobody has to be waiting for it
            raise
        answer.set_result(accepted)
        return accepted, True

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._answers:
            key, oldest = next(iter(self._answers.items()))
            is_full = len(self._answers) >= self._most
            if not oldest.answer.done() or (oldest.until > now and not is_full):
                break
            del self._answers[key]


class TakenCommands:
    """Commands with an id, carried out once: in this process, or in one before it."""

    def __init__(self, live: LiveSessions, find: FindStored, clock: Clock) -> None:
        self._live = live
        self._find = find
        self._lately = CommandIds(clock)

    async def once(
        self,
        client: Client,
        command: AnyCommand,
        stamp: CommandStamp,
        carry_out: Callable[[], Awaitable[Accepted]],
    ) -> tuple[Accepted, bool]:
        """The answer, and whether the command was carried out now."""
        is_new = True

        async def unless_taken() -> Accepted:
            nonlocal is_new
            taken = await self._taken(command, stamp)
            is_new = taken is None
            return taken or await carry_out()

        scope = client.id if isinstance(command, _OF_ONE_CLIENT) else session_of(command) or ""
        accepted, is_first = await self._lately.once(scope, stamp, unless_taken)
        return accepted, is_new and is_first

    async def _taken(self, command: AnyCommand, stamp: CommandStamp) -> Accepted | None:
        """What a command was answered with that a session took, in this process or in one before it."""
        if isinstance(command, CreateSession):
            return None if command.resume else await self._made(stamp)
        live = self._live.open_one(session_of(command))
        taken = None if live is None else live.session.journal.conversation.commands.get(stamp.id)
        if live is None or taken is None:
            return None
        refuse_other(stamp, taken.digest)
        return Accepted(session=live.id, event=taken.event)

    async def _made(self, stamp: CommandStamp) -> Accepted | None:
        """The session that this very command opened before. It goes by a name made of the command's id."""
        same, same_id = names_of(stamp)
        if (session := await self._session_named(same)) is not None:
            return Accepted(session=session)
        if await self._session_named(same_id) is not None:
            raise CommandRefused("CommandIdUsed", id=stamp.id)
        return None

    async def _session_named(self, name: str) -> str | None:
        try:
            return (await self._find(name, exact=True))[0]
        except CommandRefused:
            return None


def names_of(stamp: CommandStamp) -> tuple[str, str]:
    """The names of a session that a command with an id opened: of the command, and of whatever has its id."""
    return f"command:{stamp.id}:{stamp.digest}", f"command:{stamp.id}"


def named_by(command: CreateSession, stamp: CommandStamp) -> CreateSession:
    """The command for a new session, which goes by these names."""
    if command.resume is not None:
        return command
    return msgspec.structs.replace(command, aliases=(*command.aliases, *names_of(stamp)))


def stamp_of(command: AnyCommand) -> CommandStamp:
    """The id that its client chose for a command, and the digest of all the rest of it."""
    if not _ID.fullmatch(command.id):
        raise CommandRefused(
            "BadCommand",
            kind=kind_of_command(command),
            problem="its id has other characters than A-Z a-z 0-9 _ . : - or is longer than 128",
        )
    body = encode_command(msgspec.structs.replace(command, id=""))
    return CommandStamp(command.id, hashlib.sha256(body).hexdigest()[:DIGEST_CHARACTERS])


def refuse_other(stamp: CommandStamp, digest: str) -> None:
    """Raises where the id was used for something else."""
    if stamp.digest != digest:
        raise CommandRefused("CommandIdUsed", id=stamp.id)
