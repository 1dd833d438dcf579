"""Commands to send and effects to perform, as values."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridle.clients.interaction.commands.queue_commands import WriteDraft
from bridle.clients.interaction.commands.slash_table import Do
from bridle.clients.interaction.composer.choice_list import ChoiceList
from bridle.clients.interaction.composer.composer import Send
from bridle.clients.interaction.composer.picker import Listed
from bridle.clients.interaction.questions.question_card import Edit, Question
from bridle.protocol.commands import AnyCommand
from bridle.protocol.display_values import EditedFile
from bridle.protocol.events import Envelope


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

Effect: TypeAlias = AnyCommand | Do | Leave | ClientEffect
"""Everything that can come of an event or an intent; what is no client's affair is the driver's."""
