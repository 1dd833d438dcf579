"""A session as a client sees it: events and intents in, commands and effects out.

Every client drives the same one; what it puts effects on, a terminal, a page or an editor, is its own affair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, assert_never

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.commands.command_table import SlashContext, SlashTable, busy_words
from bridle.clients.interaction.commands.setting_commands import next_mode
from bridle.clients.interaction.commands.slash_table import SLASH
from bridle.clients.interaction.composer.composer import Picture, Send
from bridle.clients.interaction.composer.parse import (
    Shell,
    Slash,
    Words,
    interactive_program,
    missing_files,
    parse,
)
from bridle.clients.interaction.effects import (
    ChooseRow,
    ChooseSession,
    Echo,
    EditMessage,
    Effect,
    Intent,
    NextMode,
    RememberPrompt,
    RunCommand,
    SayWords,
    SessionReady,
    ShowEvent,
    StopTurn,
    ThoughtOver,
    TurnOver,
    Waiting,
    WaitOver,
    WriteDraft,
)
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.questions.permission_form import permission_question, setting_of
from bridle.clients.interaction.questions.question_card import Decided, Edit, Question
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.clients.interaction.session.question_queue import QuestionQueue
from bridle.clients.interaction.view import SessionView
from bridle.protocol import events as e
from bridle.protocol.commands import (
    AnswerPermission,
    AnswerQuestion,
    AnyCommand,
    CancelTurn,
    Command,
    RevokeGrant,
    RunSlash,
    SendInput,
    SetMode,
    SetModel,
    ShellRequest,
)
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.messages import FileMention, InputBlock

COUNTED_MS: Final = 1000
"""A shorter wait is over before anybody has read how long it is."""
PAST_EVENTS: Final = 4000
"""So many of the last events of a past are kept until they are shown: more than a screen holds."""
MOST_NOTICES: Final = 5
"""So many notices are shown where a session begins."""
SAID_BEFORE: Final = "ConfigWarning"
"""What settings say and mean nothing by is said by whoever starts a client, before the session."""
THOUGHT_MS: Final = 1000
"""A shorter thought is not worth a line."""
MARK: Final = "\u203a "
"""What stands before a person's own words."""
_DEEDS: Final = {"SendInput": "send words", "CancelTurn": "stop turns", "ShellRequest": "run commands"}
"""What a person would call a command that their token does not cover."""


class Controller:
    """One session in front of one person.

    `opened_at` is the last event of its past: until then events count and show nothing. `folder` is where it works, as
    people write it; `is_file` answers for a path relative to it, `picture` reads the image at one. `info` is what the
    engine said of models and commands; `covers` says which commands it takes from here.
    """

    def __init__(
        self,
        view: SessionView,
        session: str,
        *,
        opened_at: int = 0,
        folder: str = "",
        info: EngineInfo | None = None,
        is_file: Callable[[str], bool] = lambda _path: False,
        picture: Callable[[str], Picture | None] = lambda _path: None,
        covers: Callable[[str], bool] = lambda _kind: True,
        slash: SlashTable = SLASH,
    ) -> None:
        self.view = view
        self.session = session
        self.folder = folder
        self._opened_at = opened_at
        self._info = info or EngineInfo()
        self._is_file = is_file
        self._picture = picture
        self._covers = covers
        self._slash_table = slash
        self._questions = QuestionQueue(session)
        self._past: deque[e.Envelope] = deque(maxlen=PAST_EVENTS)
        self._waiting: e.Envelope | None = None  # an attempt that failed, until the next one begins
        self._stopped: set[str] = set()  # questions at which the turn was stopped
        self._postponed: list[tuple[str, str]] = []  # commands that wait for what is still being sent

    # Events

    def take(self, envelope: e.Envelope) -> Sequence[Effect]:
        view = self.view
        if view.was_shown_early(envelope):
            return ()
        view.take(envelope)
        if envelope.id is not None and envelope.id <= self._opened_at:
            return self._take_past(envelope)
        if self._postponed and not view.sending_words:
            return (*self._taken(envelope), *self._run_postponed())
        return self._taken(envelope)

    def _taken(self, envelope: e.Envelope) -> Sequence[Effect]:
        view = self.view
        if not e.concerns(envelope):  # what a child says or waits for is not the conversation on this page
            return (ShowEvent(envelope),)
        if self._waiting is not None and envelope.id is not None:
            waiting, self._waiting = self._waiting, None
            return (WaitOver(waiting), *self._shown(envelope))
        if view.thought_ms >= THOUGHT_MS:
            return (ThoughtOver(view.thought_ms / 1000), *self._shown(envelope))
        return self._shown(envelope)

    def _take_past(self, envelope: e.Envelope) -> Sequence[Effect]:
        """What is still open at the end of the past is put to the person who comes now."""
        self._past.append(envelope)
        match envelope.event if e.concerns(envelope) else None:
            case e.PermissionRequested() | e.QuestionAsked() as asked:
                self._questions.note(self._question(asked, envelope))
            case e.ChildEnded(invocation=child):
                self._questions.drop_of(child)
            case e.PermissionDecided(call_id=question_id) | e.QuestionAnswered(question_id=question_id):
                self._questions.drop(question_id)
            case e.TurnEnded():
                self._questions.drop_of(None)
            case e.SessionCreated():
                self._questions.forget_all()
            case _:
                pass
        if envelope.id != self._opened_at:
            return ()
        turns, title = self.view.turns, self.view.title
        back = f'Back in "{title}", {counted(turns, "turn")} so far.' if turns else ""
        past, self._past = tuple(self._past), deque(maxlen=0)
        notices = () if turns else _opening_notices(past)
        return (SessionReady(back, past if turns else ()), *notices, *self._questions.ask_first())

    def _shown(self, envelope: e.Envelope) -> Sequence[Effect]:
        match envelope.event:
            case e.TextDelta():
                return (ShowEvent(envelope),)
            case e.StepFailed(retry_in_ms=int(wait_ms)) if wait_ms >= COUNTED_MS:
                self._waiting = envelope
                return (Waiting(envelope, wait_ms / 1000),)
            case e.PermissionRequested() | e.QuestionAsked() as asked:
                return (*self._questions.arrived(self._question(asked, envelope)), ShowEvent(envelope))
            case e.ChildEnded(invocation=child):
                return (*self._questions.forget_of(child), ShowEvent(envelope))
            case e.PermissionDecided(
                call_id=question_id, answered_by=by, answered_name=name, verdict=verdict
            ):
                said = f"{name} said {'yes' if verdict == 'allow' else 'no'}." if name else ""
                return (*self._questions.settled(question_id, self._who(by, said)), ShowEvent(envelope))
            case e.QuestionAnswered(question_id=question_id, answered_by=by, answered_name=name):
                said = f"{name} answered." if name else ""
                return (*self._questions.settled(question_id, self._who(by, said)), ShowEvent(envelope))
            case e.TurnStarted(input=number) if words := self.view.begun_from_queue(number):
                return (SayWords(f"{MARK}{words}", "  ", own=True), ShowEvent(envelope))
            case e.InputAccepted(content=content, goal=None, child="") if (
                envelope.originator not in self.view.clients
            ):
                name = visible_line(self.view.names.get(envelope.originator, "")) or "elsewhere"
                words = f"{name}: {visible(e.text_of(content))}"
                return (SayWords(words, "  "), ShowEvent(envelope))
            case e.TurnEnded():
                return (ShowEvent(envelope), *self._questions.forget_of(None), *self._after_turn())
            case e.GitEnded():
                return (ShowEvent(envelope), *self._questions.forget_of(None))
            case e.GoalEnded():
                return (ShowEvent(envelope), *self._after_turn())
            case _:
                return (ShowEvent(envelope),)

    def _after_turn(self) -> Sequence[Effect]:
        """What is to be said and done when a turn has ended and no other follows by itself."""
        if self.view.running:
            return ()
        held = self.view.held
        waits = (SayWords(f"{counted(held, 'message')} held back. /queue shows what waits."),) if held else ()
        return (*waits, TurnOver(self.view.turn_ms / 1000, self.view.title))

    def _question(self, asked: e.PermissionRequested | e.QuestionAsked, envelope: e.Envelope) -> Question:
        if isinstance(asked, e.QuestionAsked):
            question = ask_question(asked)
        else:
            question = permission_question(asked, setting_of(self.view.created, self.folder))
        return question.put_by(envelope.agent_path, envelope.invocation)

    def _who(self, by: str | None, said: str) -> str:
        """What somebody is told whose question is gone without their answer; `said` names who gave one."""
        if by is None:
            return "Nobody answered in time."
        return "" if by in self.view.clients else visible_line(said) or "Answered elsewhere."

    # Intents

    def handle(self, intent: Intent) -> Sequence[Effect]:
        """What comes of a person's wish. What their token does not cover is not sent, and their words stay a draft."""
        effects = self._come_of(intent)
        for effect in effects:
            if isinstance(effect, Command) and (words := self.uncovered(type(effect))):
                self.view.refused(effect)
                draft = (WriteDraft(intent.text),) if isinstance(intent, Send) else ()
                return (SayWords(words, "  "), *draft)
        return effects

    def uncovered(self, kind: type[AnyCommand]) -> str:
        """What to say to somebody whose token does not cover a command; empty where it does."""
        if self._covers(kind.__name__):
            return ""
        answers = "" if self._covers("SendInput") else " answers questions; it"
        return f"This token{answers} does not {_DEEDS.get(kind.__name__, 'do that')}."

    def _come_of(self, intent: Intent) -> Sequence[Effect]:
        match intent:
            case Send():
                return self._submit(intent)
            case Decided():
                return self._decided(intent)
            case StopTurn():
                return (CancelTurn(session=self.session),) if self.view.under_way else ()
            case NextMode():
                return (SetMode(session=self.session, mode=next_mode(self.view.mode)),)
            case RunCommand(name=name, arguments=arguments):
                return self._slash(name, arguments)
            case ChooseSession(id=session):
                return self._slash("resume", session)
            case ChooseRow(purpose="model", id=model):
                return (SetModel(session=self.session, model=model),)
            case ChooseRow(purpose="profile", id=change):
                return self._slash("profiles", change)
            case ChooseRow(id=grant):  # a grant
                return (RevokeGrant(session=self.session, grant_id=grant),)
            case _:
                assert_never(intent)

    def _decided(self, decided: Decided) -> Sequence[Effect]:
        if isinstance(decided.answer, Edit):
            return (EditMessage(decided.question, decided.answer),)
        answered = tuple(self._questions.answer(decided.question, decided.answer))
        if not decided.stop:
            return answered
        self._stopped.add(decided.question.id)
        beside = self.view.children.beside(decided.question.invocation)
        stop = (
            (CancelTurn(session=self.session, invocation=beside.invocation),)
            if beside is not None
            else self.handle(StopTurn())
        )
        # the stop goes first: behind the no, the turn could go on for as long as that is on its way
        return (*stop, *answered)

    def nobody_is_left(self) -> Sequence[Effect]:
        """No answer can come any more: every question, open or to come, is answered with no."""
        return self._questions.nobody_is_left()

    def forget_questions(self) -> Sequence[Effect]:
        """The person goes elsewhere: what is in front of them goes with this session."""
        return self._questions.forget_all()

    def _submit(self, send: Send) -> Sequence[Effect]:
        typed = parse(send.text, self._is_file)
        shown: Effect = Echo(send.shown)
        asked = self.view.running or self._questions.is_asking
        if asked and isinstance(typed, Words) and _is_answer_key(send.text):
            return (shown, SayWords(self._held_back(send.text.strip()), "  "))
        if self.view.running and isinstance(typed, Words):
            shown = SayWords(f"{'now      ' if send.steer else 'queued   '}{send.shown}", "  ")
        match typed:
            case Words(content=words):
                try:
                    content = (*map(self._with_image, words), *send.images)
                except BridleError as problem:
                    return (shown, SayWords(visible(problem.message), "  "))
                mode = "steer" if send.steer else "queue"
                self.view.sending(send.shown)
                command = SendInput(session=self.session, content=content, mode=mode)
                missing = (SayWords(words, "  ") for words in missing_files(send.text, self._is_file))
                return (shown, *missing, RememberPrompt(send), command)
            case Shell(command=command) if program := interactive_program(command):
                needs = f"{program} needs a terminal of its own, which a command here does not get."
                return (shown, SayWords(f"{needs} Ctrl-Z leads to your shell, and fg back.", "  "))
            case Shell(command=command, share=share):
                return (shown, ShellRequest(session=self.session, command=command, share=share))
            case Slash(name=name, arguments=arguments):
                return (shown, *self._slash(name, arguments))
            case None:
                return (shown,)

    def _with_image(self, block: InputBlock) -> InputBlock:
        """A mentioned image is shown to the model; any other file it reads as text."""
        picture = self._picture(block.path) if isinstance(block, FileMention) else None
        return block if picture is None else picture.block

    def picture_words(self) -> str:
        """What to say of an image in the draft; empty where the model takes it, or nobody knows."""
        entry = self._info.models.get(self.view.model)
        if entry is None or entry.images is not False:
            return ""
        return f"{visible_line(self.view.model)} takes no images. /model changes it."

    def _held_back(self, key: str) -> str:
        """What is said of a lone letter during a turn or a question: it was an answer, and would be paid for."""
        waits = " A question is waiting: Tab to answer." if self._questions.is_asking else ""
        sent = f'"{visible(key)}" was not sent: alone it looks like an answer.'
        return f"{sent}{waits} As a message: put a blank before it."

    def _run_postponed(self) -> Sequence[Effect]:
        """Run commands about the queue, now that everything sent before is in it and has a number."""
        postponed, self._postponed = self._postponed, []
        return tuple(effect for command in postponed for effect in self._slash(*command))

    def _slash(self, name: str, arguments: str) -> Sequence[Effect]:
        table = self._slash_table
        command = table.find(name)
        if command is not None and command.after_sending and self.view.sending_words:
            self._postponed.append((name, arguments))
            return ()
        now = SlashContext(
            session=self.session, view=self.view, info=self._info, table=table, is_file=self._is_file
        )
        return table.run(name, arguments, now)

    def refused(self, refusal: BridleError, command: AnyCommand | None = None) -> Sequence[Effect]:
        """What is said of a command that was not taken, or of other work that failed."""
        if command is not None:
            self.view.refused(command)
        if self._is_settled(refusal, command):
            return ()
        message = refusal.message
        if refusal.reason == "TurnInProgress" and refusal.data.get("originator") in self.view.clients:
            what = f"/{command.name}" if isinstance(command, RunSlash) else "that"
            message = busy_words(what, self.view)
        elif isinstance(command, RunSlash):
            message = sentence(refusal.reason, {**refusal.data, "what": f"/{command.name}"})
            if refusal.reason in ("UnknownSlash", "NotSupported"):
                message += self._slash_table.nearest_words(command.name, self._info)
        return (SayWords(visible(message), "  "), *(() if self.view.sending_words else self._run_postponed()))

    def _is_settled(self, refusal: BridleError, command: AnyCommand | None) -> bool:
        """Whether what was asked for came about by itself: a turn that has ended, a question that went with it."""
        match command:
            case CancelTurn():
                return refusal.reason == "NoTurn"
            case AnswerPermission(call_id=asked) | AnswerQuestion(question_id=asked):
                return refusal.reason == "NoSuchQuestion" and asked in self._stopped
            case _:
                return False


def _is_answer_key(text: str) -> bool:
    """Whether this could be meant for a question: one letter, digit or question mark, and nothing before it."""
    return len(text.rstrip()) == 1 and (text[0].isalnum() or text[0] == "?")


def _opening_notices(past: Sequence[e.Envelope]) -> tuple[ShowEvent | SayWords, ...]:
    """What a person should know where a session begins: the first few of it, and how many more there are."""
    found = [one for one in past if isinstance(one.event, e.Notice) and one.event.reason != SAID_BEFORE]
    more = len(found) - MOST_NOTICES
    rest = (
        SayWords(
            f"and {more} more {'notice' if more == 1 else 'notices'}: bridle doctor, bridle config validate",
            "  ",
        ),
    )
    return (*map(ShowEvent, found[:MOST_NOTICES]), *(rest if more > 0 else ()))
