"""Intents of the user, the commands and effects that come of them, and the local services of a client, as values.

Two intents stand beside their makers: `Send` (a text) in the composer, `Decided` (an answer) in the question card.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from bridle.base.clock import Clock
from bridle.clients.engine_address import EngineLink
from bridle.clients.interaction.composer.composer import Picture, Send
from bridle.clients.interaction.composer.picker import ChoiceList, Listed, ListPurpose
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.questions.question_card import Decided, Edit, Question
from bridle.clients.interaction.view import SessionView
from bridle.protocol.commands import AnyCommand
from bridle.protocol.connection import Connection
from bridle.protocol.display_values import EditedFile
from bridle.protocol.events import Envelope
from bridle.protocol.tokens import Claims


class ClientServices(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever starts a client decides what it can reach. Only the clock is needed: what is missing is not offered.

    `home` is the person's own folder. `history` are the prompts of earlier sessions, oldest first; `save_prompt` keeps
    one more. `is_file` answers for a path relative to the session's folder; `paths` are the files and folders a mention
    may complete to. `edit` lets a person change a text in their own editor and gives it back, None if they did not save
    it. `page` shows them a text in their own pager; `run_verb` lets a verb of the program have their terminal. `save`
    writes a new file at a path a person named and returns where it is. `picture` is the image at a path, None where
    there is none; `clipboard_picture` the one on their clipboard. `come_back` is the command that, with the session
    behind it, leads back to what runs on in an engine that outlives the client; empty where none does. `link` tells
    when the engine is out of reach; None where it is in this process. `claims` are those of the token the engine was
    reached with; None where everything may be asked for. What does something may raise `BridleError`.
    """

    clock: Clock
    home: str = ""
    history: tuple[str, ...] = ()
    save_prompt: Callable[[str], None] = lambda _prompt: None
    is_file: Callable[[str], bool] = lambda _path: False
    paths: Callable[[], Sequence[str]] = tuple
    edit: Callable[[str], Awaitable[str | None]] | None = None
    page: Callable[[str], Awaitable[None]] | None = None
    run_verb: Callable[[Sequence[str]], Awaitable[None]] | None = None
    save: Callable[[str, str], str] | None = None
    picture: Callable[[str], Picture | None] = lambda _path: None
    clipboard_picture: Callable[[], Awaitable[Picture]] | None = None
    come_back: str = ""
    link: EngineLink | None = None
    claims: Claims | None = None

    def covers(self, kind: str) -> bool:
        """Whether the engine takes this kind of command or query from here, as far as its token says."""
        return self.claims is None or self.claims.covers_command(kind)


class StopTurn(msgspec.Struct, frozen=True):
    """The running turn is to stop."""


class NextMode(msgspec.Struct, frozen=True):
    """The mode after the one that holds."""


class RunCommand(msgspec.Struct, frozen=True):
    """A slash command, picked from a list instead of written."""

    name: str
    arguments: str = ""


class ChooseSession(msgspec.Struct, frozen=True):
    """Another session, picked from the list."""

    id: str


class ChooseRow(msgspec.Struct, frozen=True):
    """Something picked from a list that was for this purpose."""

    purpose: ListPurpose
    id: str


Intent: TypeAlias = Send | Decided | StopTurn | NextMode | RunCommand | ChooseSession | ChooseRow


class SayWords(msgspec.Struct, frozen=True):
    """Words for the person; lines that are too long go on below `indent`. `own`: they are the person's."""

    text: str
    indent: str = ""
    own: bool = False


class ShowEvent(msgspec.Struct, frozen=True):
    """An event that belongs on the page, by itself or by what it changes there."""

    envelope: Envelope


class Echo(msgspec.Struct, frozen=True):
    """What was sent becomes part of the page."""

    shown: str


class RememberPrompt(msgspec.Struct, frozen=True):
    """One more prompt that can be recalled later."""

    send: Send


class EnterSession(msgspec.Struct, frozen=True):
    """What follows is about another session, which nothing was shown of yet."""


class SessionReady(msgspec.Struct, frozen=True):
    """The past of a session is read: the person may write. `back` says where they are, empty in a new session.

    `past` is the end of what happened there.
    """

    back: str = ""
    past: tuple[Envelope, ...] = ()


class PutQuestion(msgspec.Struct, frozen=True):
    """A question comes in front of the person; `position` is its place among those that wait."""

    question: Question
    position: str = ""


class EditMessage(msgspec.Struct, frozen=True):
    """A text of the question in front, for the user's editor. The edited text makes the answer; without one the
    question is asked again."""

    question: Question
    edit: Edit


class CloseQuestion(msgspec.Struct, frozen=True):
    """The question in front of the person is open no longer; `why` says so where they did not answer it."""

    question_id: str
    why: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """An attempt failed, and the next one begins in so many seconds."""

    envelope: Envelope
    seconds: float


class WaitOver(msgspec.Struct, frozen=True):
    """The wait after this failed attempt has ended."""

    envelope: Envelope


class ThoughtOver(msgspec.Struct, frozen=True):
    """The model has thought for so many seconds, and goes on to say or to do something."""

    seconds: float


class ShowSessions(msgspec.Struct, frozen=True):
    """Sessions to read; the one a person is in is marked."""

    sessions: tuple[Listed, ...]


class PickSession(msgspec.Struct, frozen=True):
    """Sessions to choose from, or none where words have said why. None: the list is on its way."""

    sessions: tuple[Listed, ...] | None = None


class PickRow(msgspec.Struct, frozen=True):
    """A list to choose one thing from, or none where words have said why. None: the list is on its way.

    Where nobody can choose, it is there to be read.
    """

    choices: ChoiceList | None = None
    ready: bool = True


class WriteDraft(msgspec.Struct, frozen=True):
    """A text for the user to continue with. The draft before it comes back with Up."""

    text: str


class LendTerminal(msgspec.Struct, frozen=True):
    """A verb of the program is to have the terminal until it ends; `after` is said then."""

    words: tuple[str, ...]
    after: str = ""


class TurnOver(msgspec.Struct, frozen=True):
    """A turn has ended after so many seconds: whoever waited elsewhere may want to know."""

    seconds: float
    title: str


class OpenText(msgspec.Struct, frozen=True):
    """A text to read by itself, as a program printed it: none of it may be obeyed."""

    text: str


class OpenDiff(msgspec.Struct, frozen=True):
    """Changes of files to read by themselves; `notes` are lines about what is not among them."""

    title: str
    files: tuple[EditedFile, ...]
    notes: tuple[str, ...] = ()


class CopyText(msgspec.Struct, frozen=True):
    """A text for the clipboard."""

    text: str


class EngineLost(msgspec.Struct, frozen=True):
    """The engine is out of reach, and is tried again for so many seconds; None: it is back."""

    gives_up_s: float | None


class Leave(msgspec.Struct, frozen=True):
    """The end, with an exit code."""

    code: int = 0


ClientEffect: TypeAlias = (
    SayWords
    | ShowEvent
    | Echo
    | RememberPrompt
    | EnterSession
    | SessionReady
    | PutQuestion
    | EditMessage
    | CloseQuestion
    | Waiting
    | WaitOver
    | ThoughtOver
    | ShowSessions
    | PickSession
    | PickRow
    | WriteDraft
    | LendTerminal
    | TurnOver
    | OpenText
    | OpenDiff
    | CopyText
    | EngineLost
)
"""What a client performs itself, on whatever it has in place of a page."""


class SessionHost(Protocol):
    """The session in front of the user, for work that takes queries. The driver is one."""

    @property
    def connection(self) -> Connection: ...
    @property
    def services(self) -> ClientServices: ...
    @property
    def info(self) -> EngineInfo: ...
    @property
    def session(self) -> str: ...
    @property
    def view(self) -> SessionView: ...

    def perform(self, effect: ClientEffect, /) -> None:
        """Have the client perform an effect."""
        ...

    async def start_session(self) -> None:
        """End this session and start a new one."""
        ...

    async def resume_session(self, session: str) -> None:
        """End this session and continue another one."""
        ...

    async def start_profile(self, profile: str, turns: int) -> None:
        """Start a session with another profile, which is told of the last `turns`."""
        ...

    async def change_profile(self, profile: str) -> None:
        """Continue this session with another profile."""
        ...


class Do(msgspec.Struct, frozen=True):
    """Work that must not overtake the commands before it. It may raise `BridleError`."""

    work: Callable[[SessionHost, str], Awaitable[None]]
    arguments: str = ""


class Fetch(msgspec.Struct, frozen=True):
    """Perform `waiting` now, and the result of `fetch` when it is there; `failed` where it cannot be had."""

    fetch: Callable[[SessionHost], Awaitable[ClientEffect]]
    waiting: ClientEffect
    failed: ClientEffect


Effect: TypeAlias = AnyCommand | Do | Fetch | Leave | ClientEffect
"""Everything that can come of an event or an intent. A client performs a `ClientEffect`, the driver all others."""
