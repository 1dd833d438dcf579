"""What each command does to a live session. Who may give it was decided before."""

from __future__ import annotations

from msgspec import structs

from bridle.control.live import LiveSession
from bridle.control.live_sessions import SessionSource
from bridle.engine.open_questions import Client
from bridle.engine.slash_command import SaidPrompt, SlashCommand
from bridle.protocol.codec import kind_of_command
from bridle.protocol.commands import (
    AnswerPermission,
    AnswerQuestion,
    AnswerTrust,
    AnyCommand,
    AskAside,
    CancelTurn,
    ChangeInput,
    CustomCommand,
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
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import CommandStamp, CommandTaken, EffortChanged, InputAccepted
from bridle.protocol.messages import TextBlock
from bridle.protocol.slash_arguments import AGENT_PREFIX


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
            return session.journal.emit(session.grants.promote(command.grant_id), originator=client.id)
        case SetModel():
            chosen = source.choose_model(session.id, command.model, client)
            return session.journal.emit(structs.replace(chosen, stamp=stamp), originator=client.id)
        case AskAside():
            return session.ask_aside(client, command.question, stamp)
        case CustomCommand():
            return _run_custom(live, client, command, stamp)
        case _:
            return _begin(source, live, client, command, stamp)


def _begin(
    source: SessionSource, live: LiveSession, client: Client, command: AnyCommand, stamp: CommandStamp | None
) -> int | None:
    """Begins what takes its time. That it was begun is recorded where it must not begin twice."""
    session = live.session
    match command:
        case CancelTurn(invocation=child):
            session.cancel(client, child)
        case ShellRequest():
            session.run_for_person(client, command)
        case RunSlash():
            if not session.run_slash(client, command.name, command.arguments):
                return _say_prompt(source, live, client, command, stamp)
        case Undo(redo=redo, turn=turn):
            name, arguments = ("redo", "") if redo else ("undo", "" if turn is None else str(turn))
            if not session.run_slash(client, name, arguments):
                raise CommandRefused("NotSupported", what="Undo")
        case _:
            raise CommandRefused("NotSupported", what=kind_of_command(command))
    return _taken(live, client, command, stamp)


def _taken(live: LiveSession, client: Client, command: AnyCommand, stamp: CommandStamp | None) -> int | None:
    """Records that it was begun, where it must not begin twice."""
    if stamp is None:
        return None
    taken = CommandTaken(kind=kind_of_command(command), stamp=stamp)
    return live.session.journal.emit(taken, originator=client.id)


def _run_custom(
    live: LiveSession, client: Client, command: CustomCommand, stamp: CommandStamp | None
) -> int | None:
    """Begins what the plugin does that owns the namespace."""
    known = live.run.features.commands.get((command.namespace, command.verb))
    name = f"{command.namespace}:{command.verb}"
    if known is None:
        raise CommandRefused("NotSupported", what=f"The command {name}")
    as_slash = SlashCommand(name=name, does="", run=lambda _words: known.run(command))
    live.session.run_command(client, as_slash, "")
    return _taken(live, client, command, stamp)


def _ask_first(
    live: LiveSession, client: Client, command: RunSlash, said: SaidPrompt, stamp: CommandStamp | None
) -> int | None:
    """Words that a person must see before they are said: asked for like a command, said when they agree."""
    session, agree = live.session, said.agree
    assert agree is not None
    if not session.questions.can_be_answered():
        raise CommandRefused("PromptNotTrusted", path=f"/{command.name}")

    async def ask(_words: str) -> InputAccepted:
        await agree()
        content = (TextBlock(text=said.text),)
        return InputAccepted(content=content, mode="queue", identity=client.identity)

    session.run_command(client, SlashCommand(name=command.name, does="", run=ask), "")
    return _taken(live, client, command, stamp)


def _say_prompt(
    source: SessionSource,
    live: LiveSession,
    client: Client,
    command: RunSlash,
    stamp: CommandStamp | None,
) -> int | None:
    """A named prompt becomes input like any other; one of the session may bring something along, or ask first."""
    session = live.session
    for prompts in live.run.features.prompts:
        if client.identity == "agent" and command.name.partition(":")[0] == (prompts.of_people or None):
            raise CommandRefused("NotAPerson", what=f"/{command.name}")
        try:
            said = prompts.say(command.name, command.arguments)
        except BridleError as problem:
            raise CommandRefused(problem.reason, **problem.data) from None
        if said is not None and said.agree is not None:
            return _ask_first(live, client, command, said, stamp)
        if said is not None:
            if said.context is not None:
                session.journal.emit(said.context, originator=client.id)
            return session.accept(client, (TextBlock(text=said.text),), "queue", stamp)
    text = source.prompt_of(command.name, command.arguments)
    if text is None:
        reason = "OneAgentAlone" if command.name.startswith(AGENT_PREFIX) else "UnknownSlash"
        raise CommandRefused(reason, name=command.name)
    return session.accept(client, (TextBlock(text=text),), "queue", stamp)
