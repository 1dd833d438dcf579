"""Actions of slash commands: list, rename, pin, branch, export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec

from bridle.base.text.phrases import counted, window_words
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.commands.profile_change import (
    ProfileChange,
    list_rows,
    page_rows,
    ways_to_change,
    why_not,
)
from bridle.clients.interaction.commands.slash_table import Deed
from bridle.clients.interaction.composer.choice_list import ChoiceList, ChoiceRow
from bridle.clients.interaction.composer.picker import Listed, listed
from bridle.clients.interaction.render.call_text import grant_words, printed_text
from bridle.clients.interaction.render.event_rows import NOT_IN_TRANSCRIPTS, EventRows, RowKind, nested_lines
from bridle.clients.interaction.render.progress_text import tree_lines
from bridle.clients.interaction.render.session_fold import edited_files
from bridle.clients.interaction.render.session_pages import html, markdown
from bridle.clients.interaction.render.usage import instruction_rows
from bridle.clients.interaction.session.client_services import ClientServices
from bridle.clients.interaction.session.effects import OpenDiff, OpenText, SayWords, ShowSessions
from bridle.clients.interaction.state.engine_info import PATIENCE_S
from bridle.clients.interaction.state.view import SessionView
from bridle.protocol import events as e
from bridle.protocol.commands import BranchSession, PinSession, RenameSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import ChildEnded, ChildStarted, Envelope, GrantAdded, ToolResult
from bridle.protocol.queries import (
    AgentEntry,
    AgentList,
    CustomQuery,
    DescribeProfile,
    DescribeSession,
    GrantEntry,
    ListAgents,
    ListChanges,
    ListGrants,
    ListModels,
    ListProfiles,
    ListSessions,
    ModelEntry,
    ProfileEntry,
    ReadOutput,
    SessionInfo,
)


class SlashActions:
    """Each says with `perform` what came of it, or raises `BridleError`."""

    def __init__(
        self,
        connection: Connection,
        services: ClientServices,
        *,
        perform: Callable[[SayWords | ShowSessions | OpenText | OpenDiff], None],
    ) -> None:
        self._connection = connection
        self._services = services
        self._perform = perform

    async def run(self, what: Deed, words: str, session: str, view: SessionView) -> None:
        match what:
            case "sessions":
                await self._list_sessions(session)
            case "rename":
                await self._rename(session, view, words)
            case "export":
                await self._export(session, view, words)
            case "output":
                await self._output(session, view, words)
            case "diff":
                await self._diff(session, words)
            case "pin":
                await self._pin(session, pinned=words != "off")
            case "branch":
                await self._branch(session, words)
            case "agents":
                await self._agents(session, view)
            case "child":
                await self._child(session, view, words)
            case "profile":
                profile = await self._connection.ask(DescribeProfile(session=session))
                for line in page_rows(profile):
                    self._perform(SayWords(line, " " * 9))
            case "profiles":
                for line in list_rows(await self._profiles(session)):
                    self._perform(SayWords(line, " " * 4))
            case (
                "quit"
                | "clear"
                | "resume"
                | "copy"
                | "model"
                | "permissions"
                | "verb"
                | "context"
                | "change_profile"
            ):
                raise AssertionError(f"{what} is no action on this session")

    async def describe(self, session: str) -> SessionInfo:
        return (await self._connection.ask(DescribeSession(session=session))).session

    async def short_id(self, session: str) -> str:
        """A beginning of a session's id that names no other, or all of it where nobody can say."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return (await self.describe(session)).short_id
        except (BridleError, TimeoutError):
            return session.removeprefix("sess_")

    async def others_here(self, current: str) -> tuple[Listed, ...]:
        """The sessions one may go to from here. Those of other folders need a client that stands there."""
        return tuple(one for one in await self._listed(current) if one.here and one.id != current)

    async def elsewhere(self, session: str, current: str) -> str:
        """What to say about a session of another folder; empty for any other."""
        wanted = session.removeprefix("sess_")
        for one in await self._listed(current):
            if not one.here and one.id.removeprefix("sess_").startswith(wanted):
                folder = visible(one.folder, newlines=False)
                return f"That session belongs to {folder}. In a shell: bridle -C {folder} -r {session}"
        return ""

    async def models_to_pick(self, session: str, view: SessionView) -> ChoiceList | None:
        """Every model that can be asked now, those of this machine first; None where words say that there is none."""

        found = (await self._connection.ask(ListModels(session=session, usable=True))).models
        if not found:
            self._say(f"{visible(view.model)} is the only model that is known here. Connect one: /login")
            return None
        return model_list(found, view.model)

    async def _profiles(self, session: str) -> tuple[ProfileEntry, ...]:
        return (await self._connection.ask(ListProfiles(session=session))).entries

    async def ways_to_change(self, change: ProfileChange, session: str) -> ChoiceList | None:
        """How a session may go on with another profile; None where words say why it cannot."""
        if words := why_not(change.name, await self._profiles(session)):
            self._say(words)
            return None
        return ways_to_change(change)

    async def grants_to_pick(self, session: str, view: SessionView) -> ChoiceList | None:
        """What is allowed without asking, to revoke it; None where words say that nothing is."""
        known = {
            entry.grant_id: entry
            for entry in (await self._connection.ask(ListGrants(session=session))).grants
        }
        numbered = {grant_id: number for number, grant_id in enumerate(view.grants, 1)}
        rows = [
            ChoiceRow(
                one,
                f"{numbered[one]:<2} {grant_words(view.grants[one])}"
                if one in numbered
                else f"   {_entry_words(known[one])}",
            )
            for one in sorted(known, key=lambda one: numbered.get(one, len(numbered) + 1))
        ]
        if not rows:
            nothing = f"Nothing is allowed beyond mode {view.mode} in this session."
            self._say(f"{nothing} Rules of your settings: bridle permissions")
            return None
        return ChoiceList(
            purpose="grant",
            title=f"Allowed without asking, beside mode {view.mode}",
            rows=tuple(rows),
            enter="Enter revokes",
            below="A rule for good: /permissions promote NUMBER   Rules of your settings: bridle permissions",
        )

    def _say(self, text: str) -> None:
        self._perform(SayWords(text))

    async def show_context(self, session: str, view: SessionView, window: int | None) -> None:
        """What the model is sent; of the instruction files, what the engine says where it can be asked."""
        query = CustomQuery(namespace="instructions", verb="files", session=session)
        try:
            async with asyncio.timeout(PATIENCE_S):
                told = (await self._connection.ask(query)).payload
        except (BridleError, TimeoutError):
            files = None
        else:
            files = instruction_rows(told)
        for line in view.contents.lines(window, files):
            self._perform(SayWords(line, " " * 4))

    async def _rename(self, session: str, view: SessionView, title: str) -> None:
        await self._connection.send(RenameSession(session=session, title=title))
        view.title = visible(title, newlines=False)
        self._say(f'This session is now called "{view.title}".')

    async def _pin(self, session: str, *, pinned: bool) -> None:
        """Whether what was said and done here is kept for as long as there is room."""
        await self._connection.send(PinSession(session=session, pinned=pinned))
        kept = "★ This session is kept until you unpin it: /sessions pin off"
        self._say(
            kept
            if pinned
            else "This session is not pinned any more; its content expires like that of others."
        )

    async def _branch(self, session: str, turn: str) -> None:
        """A new session that begins as this one was; one stays where one is."""
        command = BranchSession(session=session, turn=int(turn) if turn else None)
        made = await self.short_id((await self._connection.send(command)).session)
        after = f"turn {turn}" if turn else "its last turn"
        self._say(f"Branched: {made} begins as this session was after {after}. Go to it: /resume {made}")

    async def _export(self, session: str, view: SessionView, path: str) -> None:
        """Writes everything that was said until now into a file that was not there before."""

        save = self._services.save
        if save is None:
            raise CommandRefused("NotSupported", what="/export")
        past = [envelope async for envelope in self._past(session, view)]
        name = path or f"bridle-{await self.short_id(session)}.md"
        written = save(name, transcript(view.title, past, path=name))
        self._say(f"Written: {visible(written, newlines=False)}")

    async def _past(self, session: str, view: SessionView) -> AsyncIterator[Envelope]:
        """Everything that happened until now."""
        last = view.last_id
        async for envelope in self._connection.events(session):
            yield envelope
            if envelope.id is not None and envelope.id >= last:
                break

    async def _output(self, session: str, view: SessionView, which: str) -> None:
        """Opens what a command printed: the last one, the last but so many, or the one of a call."""
        results = [
            envelope.event
            async for envelope in self._past(session, view)
            if isinstance(envelope.event, ToolResult)
            and (envelope.event.tool == "bash" or edited_files(envelope.event))
        ]
        wanted = which.removeprefix("output:")
        if wanted and not wanted.isdecimal():
            results = [result for result in results if result.call_id.startswith(wanted)]
        back = int(wanted) if wanted.isdecimal() else 1
        if not 1 <= back <= len(results):
            self._say(
                "No such output. /output shows that of the last command, /output 2 that of the one before."
            )
        elif files := edited_files(results[-back]):
            self._perform(OpenDiff("", files))
        elif not results[-back].content.strip():
            self._say("That command printed nothing.")
        else:
            self._perform(OpenText(await self._printed(session, results[-back])))

    async def _printed(self, session: str, result: ToolResult) -> str:
        """All that a command printed, as far as it was kept."""
        parts: list[str] = []
        at: int | None = 0 if "truncated" in result.metadata else None
        while at is not None:
            part = await self._connection.ask(ReadOutput(session=session, call_id=result.call_id, offset=at))
            at = part.next_offset
            parts += [] if part.text is None else [part.text]
        return "".join(parts) or printed_text(result)

    async def _diff(self, session: str, what: str) -> None:
        """Opens what a turn, a call or the session changed in files."""
        changes = await self._connection.ask(ListChanges(session=session, what=what))
        if not changes.files and not changes.hidden:
            here = "That" if what else "This session"
            self._say(f"{here} changed no files that undo knows of. The repository itself: /diff git")
            return
        count = counted(len(changes.files) + len(changes.hidden) + changes.more_files, "file")
        turn, title = f"Turn {changes.turn}" if changes.turn else "This", changes.title
        if what == "session":
            turn, title = "This session", ""
        named = f' "{visible(title, newlines=False)}"' if title else ""
        notes = [f"{one}: secret-looking, not shown" for one in changes.hidden]
        notes += [f"… {counted(changes.more_files, 'more file')}"] if changes.more_files else []
        self._perform(OpenDiff(f"{turn}{named} changed {count}", changes.files, tuple(notes)))

    async def _agents(self, session: str, view: SessionView) -> None:
        """Who there is, and the tree of those that were sent."""
        for row in agent_rows(await self._connection.ask(ListAgents(session=session))):
            self._perform(row)
        if lines := tree_lines(view.children):
            self._perform(SayWords("Sent in this session:"))
            for line in lines:
                self._perform(SayWords(f"  {line}", " " * 6))
            self._say("Its work: /agents NAME   Its end: /agents stop NAME")
        else:
            self._say("Nobody was sent in this session.")

    async def _child(self, session: str, view: SessionView, invocation: str) -> None:
        """Everything one agent did that was sent, and all it said."""
        rows, lines = EventRows(left_out=NOT_IN_TRANSCRIPTS | frozenset[RowKind]({"gap"})), list[str]()
        async for envelope in self._past(session, view):
            told = [line for row in rows.take(envelope) for line in nested_lines(row)]
            event = envelope.event
            about = event.invocation if isinstance(event, ChildStarted | ChildEnded) else None
            if invocation in (envelope.invocation, about):
                lines += told
        self._perform(OpenText("\n".join(lines)))

    async def _list_sessions(self, current: str) -> None:
        sessions = await self._listed(current)
        if not sessions:
            self._say("There are no sessions to list.")
            return
        here = tuple(session for session in sessions if session.here)
        self._perform(ShowSessions(here or sessions))
        self._say("Go to one: /resume")

    async def _listed(self, current: str) -> tuple[Listed, ...]:
        """Every session, as it is listed in the folder of the current one, which is marked once something was said."""
        now_ms, home = self._services.clock.now_ms(), self._services.home
        here = (await self.describe(current)).cwd
        found = (await self._connection.ask(ListSessions())).sessions
        worth = (one for one in found if one.id != current or one.title or one.turns)
        rows = (listed(one, now_ms=now_ms, here=here, home=home) for one in worth)
        return tuple(_marked(one) if one.id == current else one for one in rows)


def _marked(one: Listed) -> Listed:
    return msgspec.structs.replace(one, mark="this one")


def _entry_words(entry: GrantEntry) -> str:
    """A remembered yes of an earlier session, in the words of one that was given here."""
    life = "session" if entry.expires_ms is None else "saved"
    return grant_words(
        GrantAdded(
            grant_id=entry.grant_id, tool=entry.tool, pattern=entry.pattern, life=life, match=entry.match
        )
    )


def transcript(title: str, envelopes: Iterable[e.Envelope], *, path: str = "") -> str:
    """The events as text, in the form that the ending of `path` names."""
    if path.lower().endswith((".html", ".htm")):
        return "".join(html(title, (), envelopes))
    return "".join(markdown(title, (), envelopes))


def agent_rows(found: AgentList) -> list[SayWords]:
    """One line for each, the one that is talked with first; those that nobody trusts yet, and mistakes, last."""
    shown = sorted((one for one in found.agents if not one.hidden), key=_rank)
    widest = max((len(_name(one)) for one in shown), default=0)
    beside = " " * (widest + 4)
    lines = (f"{'>' if one.chosen else ' '} {_name(one):<{widest}}  {_about(one)}" for one in shown)
    mistakes = (f"! {visible(problem, newlines=False)}" for problem in found.problems)
    return [*(SayWords(line, beside) for line in lines), *(SayWords(line, "  ") for line in mistakes)]


def _rank(agent: AgentEntry) -> int:
    return 0 if agent.chosen else 1 if agent.trusted else 2


def _name(agent: AgentEntry) -> str:
    return visible(agent.name, newlines=False)


def _about(agent: AgentEntry) -> str:
    place = visible(agent.place, newlines=False)
    source = agent.source if agent.source == "builtin" or not place else f"{agent.source}, {place}"
    if not agent.trusted:
        return f"not trusted yet: bridle trust ack {place}"
    does = [
        *(("you talk with it",) if agent.chosen else ("to talk with",) if agent.selectable else ()),
        *(("can be sent",) if agent.callable else ()),
    ]
    described = visible(agent.description, newlines=False)
    return f"{described} ({', '.join((*does, source))})"


def model_list(models: Iterable[ModelEntry], current: str) -> ChoiceList:
    """The list, with the model in use first wherever it stands, then those of this machine, as they were given."""
    entries = sorted(models, key=lambda entry: (entry.model != current, not entry.local))
    rows = tuple(ChoiceRow(entry.model, entry.model, _about_model(entry, current)) for entry in entries)
    return ChoiceList(
        purpose="model",
        title="Models you can use now",
        rows=rows,
        enter="Enter takes it",
        below="Others: /model provider:model   Connect a provider: /login",
    )


def _about_model(entry: ModelEntry, current: str) -> str:
    window = entry.context_tokens
    facts = (
        "in use" if entry.model == current else "",
        "local" if entry.local else _price(entry),
        f"{window_words(window)} context" if window else "",
        "no tools" if entry.tools is False else "",
        "images" if entry.images else "",
    )
    return " · ".join(filter(None, facts))


def _price(entry: ModelEntry) -> str:
    if entry.price_in is None or entry.price_out is None:
        return "price unknown"
    return f"${entry.price_in:.4g} in, ${entry.price_out:.4g} out per million"
