"""What each command does to a live session. Who may give it was decided before."""

from __future__ import annotations

from msgspec import structs

from bridle.control.live import LiveSession
from bridle.control.live_sessions import SessionSource
from bridle.engine.open_questions import Client
from bridle.engine.session import Session
from bridle.protocol.codec import kind_of_command
from bridle.protocol.commands import (
    AnswerPermission,
    AnswerQuestion,
    AnswerTrust,
    AnyCommand,
    AskAside,
    CancelTurn,
    ChangeInput,
    EnterPlanMode,
    ExitPlanMode,
    PromoteGrant,
    RevokeGrant,
    RunSlash,
    SendInput,
    SetEffort,
    SetMode,
    SetModel,
    ShellRequest,
    Undo,
)
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import CommandStamp, CommandTaken, EffortChanged
from bridle.protocol.messages import TextBlock


def carry_out(
    source: SessionSource, live: LiveSession, client: Client, command: AnyCommand, stamp: CommandStamp | None
) -> int | None:
    """Carries it out, or begins what takes its time. Returns the id of the event that records it, if one does."""
    session = live.session
    match command:
        case SendInput():
            return session.accept(client, command.content, command.mode, stamp)
        case AnswerPermission():
            return session.questions.answer(client, command, stamp)
        case AnswerTrust():
            return session.questions.answer_trust(client, command, stamp)
        case AnswerQuestion():
            return session.questions.answer_question(client, command, stamp)
        case ChangeInput():
            return session.change_input(client, command, stamp)
        case SetEffort():
            changed = EffortChanged(effort=command.effort, stamp=stamp)
            return session.journal.emit(changed, originator=client.id)
        case SetMode():
            return session.set_mode(client, command.mode, stamp)
        case EnterPlanMode():
            return session.set_mode(client, "plan", stamp)
        case ExitPlanMode():
            return session.leave_plan_mode(client, approved=command.approve, stamp=stamp)
        case RevokeGrant():
            return session.revoke(client, command.grant_id, stamp)
        case PromoteGrant():
            return session.journal.emit(live.run.promote(command.grant_id), originator=client.id)
        case SetModel():
            chosen = source.choose_model(session.id, command.model, client)
            return session.journal.emit(structs.replace(chosen, stamp=stamp), originator=client.id)
        case AskAside():
            return session.ask_aside(client, command.question, stamp)
        case _:
            return _begin(source, session, client, command, stamp)


def _begin(
    source: SessionSource, session: Session, client: Client, command: AnyCommand, stamp: CommandStamp | None
) -> int | None:
    """Begins what takes its time. That it was begun is recorded where it must not begin twice."""
    match command:
        case CancelTurn():
            session.cancel(client)
        case ShellRequest():
            session.run_for_person(client, command)
        case RunSlash():
            if not session.run_slash(client, command.name, command.arguments):
                return _say_prompt(source, session, client, command, stamp)
        case Undo(redo=redo, turn=turn):
            name, arguments = ("redo", "") if redo else ("undo", "" if turn is None else str(turn))
            if not session.run_slash(client, name, arguments):
                raise CommandRefused("NotSupported", what="Undo")
        case _:
            raise CommandRefused("NotSupported", what=kind_of_command(command))
    if stamp is None:
        return None
    taken = CommandTaken(kind=kind_of_command(command), stamp=stamp)
    return session.journal.emit(taken, originator=client.id)


def _say_prompt(
    source: SessionSource, session: Session, client: Client, command: RunSlash, stamp: CommandStamp | None
) -> int:
    """A named prompt becomes input like any other."""
    text = source.prompt_of(command.name, command.arguments)
    if text is None:
        raise CommandRefused("UnknownSlash", name=command.name)
    return session.accept(client, (TextBlock(text=text),), "queue", stamp)
