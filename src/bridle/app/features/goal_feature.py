"""Goals in a session as a feature."""

from __future__ import annotations

from bridle.agents.goal_words import parse_goal
from bridle.agents.session_goal import ORIGINATOR, GoalNeeds, begin_goal, state_words
from bridle.app.session_parts import SessionParts
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Notice


async def begin_from_words(parts: SessionParts, words: str) -> SlashEvent:
    """Begins the goal that `/goal words` gives. Raises `BridleError` where it cannot."""
    if parts.settings.options.dry_run:
        raise BridleError("GoalNotBegun", problem="a dry run changes nothing that a check could see")
    return await begin_goal(parse_goal(words), _needs(parts))


def goal_at_once(parts: SessionParts, words: str) -> SlashEvent | None:
    """How far a goal is, or its end, also while a turn runs; None for words that begin one."""
    conversation, goal = parts.journal.conversation, parts.goals.driver
    match words.strip():
        case "stop" if goal is not None:
            ended = goal.closed()
            if not conversation.turn_is_open:  # its check runs, which nobody needs any more
                parts.goals.stop_work()
            return ended
        case "" | "stop" as said:
            nothing = "No goal is under way.\n" if said and conversation.goal is not None else ""
            data = {"state": nothing + state_words(conversation.goal)}
            return Notice(reason="GoalState", message=sentence("GoalState", data), data=data)
        case _:
            return None


def _needs(parts: SessionParts) -> GoalNeeds:
    journal, settings = parts.journal, parts.settings

    def words_of(command: str) -> list[str]:
        understood = parts.gates().understand(command, parts.opened.cwd)
        return [word for part in understood.parts for word in part.words if word is not None]

    def no_reviewer(name: str) -> str | None:
        """Whoever looks at the work must not be one who could change it."""
        working = parts.agent
        if working is None or not working.delegates:
            return "an agent looks at the work only where there is more than one: --multi-agent"
        agent = working.registry.get(name)
        if agent is None or not agent.is_callable:
            known = ", ".join(one.name for one in working.registry.callable)
            return f'there is no agent "{name}" to send (there are {known})'
        if agent.permission_mode not in ("plan", "safe"):
            return f"the agent {name} could change what it looks at; choose one that only reads"
        return None

    return GoalNeeds(
        conversation=journal.conversation,
        emit=journal.emit,
        add_round=lambda accepted: journal.emit(accepted, originator=ORIGINATOR),
        words_of=words_of,
        no_reviewer=no_reviewer,
        clock=parts.services.clock,
        cwd=parts.opened.cwd,
        schema=settings.options.output_schema,
        rounds=settings.goal.rounds,
        steps=settings.max_steps,
        slot=parts.goals,
        originator=journal.originator,
    )
