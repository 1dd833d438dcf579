"""What a slash command makes the client do beyond talking to the session: copy, export, list, rename, pin, branch."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridle.base.visible import visible
from bridle.clients.interaction.picker import Listed, listed, session_lines
from bridle.clients.interaction.slash_table import grant_words
from bridle.clients.interaction.view import SessionView
from bridle.clients.line.client_services import Reach
from bridle.clients.line.start_info import Facts
from bridle.clients.line.terminal import Terminal
from bridle.clients.line.transcript import transcript
from bridle.protocol.commands import BranchSession, PinSession, RenameSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.queries import DescribeSession, ListSessions


class Errands:
    """Each says with `say` what came of it, or raises `BridleError`."""

    def __init__(
        self,
        connection: Connection,
        terminal: Terminal,
        facts: Facts,
        reach: Reach,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._terminal = terminal
        self._facts = facts
        self._reach = reach
        self._say = say

    def copy(self, answer: str) -> None:
        if not answer:
            self._say("There is no answer yet.")
        elif self._terminal.copy(answer):
            self._say(
                f"The last answer ({len(answer)} characters) was given to the terminal for the clipboard "
                "(OSC 52). If it is not there, this terminal does not allow it: /export writes a file."
            )
        else:
            self._say("The last answer cannot go through this terminal. /export writes a file.")

    async def rename(self, session: str, view: SessionView, title: str) -> None:
        await self._connection.send(RenameSession(session=session, title=title))
        view.title = visible(title, newlines=False)
        self._say(f'This session is now called "{view.title}".')

    async def pin(self, session: str, *, pinned: bool) -> None:
        """Whether what was said and done here is kept for as long as there is room."""
        await self._connection.send(PinSession(session=session, pinned=pinned))
        kept = "★ This session is kept until you unpin it: /sessions pin off"
        self._say(
            kept
            if pinned
            else "This session is not pinned any more; its content expires like that of others."
        )

    async def branch(self, session: str, turn: str) -> None:
        """A new session that begins as this one was; one stays where one is."""
        command = BranchSession(session=session, turn=int(turn) if turn else None)
        made = await self.short_id((await self._connection.send(command)).session)
        after = f"turn {turn}" if turn else "its last turn"
        self._say(f"Branched: {made} begins as this session was after {after}. Go to it: /resume {made}")

    async def title_of(self, session: str) -> str:
        return (await self._connection.ask(DescribeSession(session=session))).session.title

    async def short_id(self, session: str) -> str:
        """A beginning of a session's id that names no other, or all of it where nobody can say."""
        try:
            return (await self._connection.ask(DescribeSession(session=session))).session.short_id
        except BridleError:
            return session.removeprefix("sess_")

    def promote(self, view: SessionView, grant_id: str) -> None:
        """Makes a remembered yes a rule of the person's own settings."""
        grant = view.grants.get(grant_id)
        if self._reach.promote is None or grant is None:
            raise CommandRefused("NotSupported", what="/permissions promote")
        file = visible(self._reach.promote(grant), newlines=False)
        what = grant_words(grant).rpartition(", ")[0]
        self._say(f"{what} is a rule now, in {file}. It holds in every folder, from the next session on.")

    async def export(self, session: str, view: SessionView, path: str) -> None:
        """Writes everything that was said until now into a file that was not there before."""
        if self._reach.save is None:
            raise CommandRefused("NotSupported", what="/export")
        last, past = view.last_id, list[Envelope]()
        async for envelope in self._connection.events(session):
            past.append(envelope)
            if envelope.id is not None and envelope.id >= last:
                break
        name = path or f"bridle-{await self.short_id(session)}.md"
        written = self._reach.save(name, transcript(view.title, past, path=name))
        self._say(f"Written: {visible(written, newlines=False)}")

    async def others_here(self, current: str) -> tuple[Listed, ...]:
        """The sessions one may go to from here. Those of other folders need a client that stands there."""
        return tuple(one for one in await self._listed() if one.here and one.id != current)

    async def elsewhere(self, session: str) -> str:
        """What to say about a session of another folder; empty for any other."""
        wanted = session.removeprefix("sess_")
        for one in await self._listed():
            if not one.here and one.id.removeprefix("sess_").startswith(wanted):
                folder = visible(one.folder, newlines=False)
                return f"That session belongs to {folder}. In a shell: bridle -C {folder} -r {session}"
        return ""

    async def list_sessions(self, current: str) -> None:
        sessions = [_marked(one, current) for one in await self._listed()]
        if not sessions:
            self._say("There are no sessions to list.")
            return
        here = [session for session in sessions if session.here]
        for line in session_lines(here or sessions, columns=self._terminal.columns):
            self._say(line)
        self._say("Go to one: /resume")

    async def _listed(self) -> tuple[Listed, ...]:
        facts, now_ms = self._facts, self._facts.clock.now_ms()
        found = await self._connection.ask(ListSessions())
        return tuple(listed(one, now_ms=now_ms, here=facts.cwd, home=facts.home) for one in found.sessions)


def _marked(one: Listed, current: str) -> Listed:
    return msgspec.structs.replace(one, mark="this one") if one.id == current else one
