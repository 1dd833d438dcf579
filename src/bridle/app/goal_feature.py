"""Goals in a session, wired: `/goal`, and what its driver hears of. Loaded with the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridle.engine.features import EventListener, Feature
from bridle.engine.slash_command import DescribedSlash, SlashCommand, SlashEvent
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Envelope, Notice
from bridle.protocol.slash_arguments import SlashArgument

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.goals.session_goal import GoalNeeds

GOAL: Final = DescribedSlash(
    name="goal",
    does="work on until a check of yours passes: /goal --check 'COMMAND' words; /goal tells how far it is",
    arguments=(
        SlashArgument(
            name="what",
            about="options, then what is to be reached; stop ends it; nothing tells how far it is",
            examples=("--check", "--rounds", "--timeout", "stop"),
        ),
    ),
)
"""What the command does, for the list of commands."""
_HEARD: Final = frozenset({
    "ToolCallStarted", "ToolResult", "PermissionRequested", "PermissionDecided", "QuestionAsked", "QuestionAnswered",
    "TurnEnded",
})  # fmt: skip


def goals(parts: SessionParts) -> Feature:
    """`/goal`, for people: work from turn to turn until a check passes."""
    journal = parts.journal

    async def begin(words: str) -> SlashEvent:
        from bridle.goals.goal_words import parse_goal  # not before somebody has a goal
        from bridle.goals.session_goal import begin_goal

        if parts.settings.options.dry_run:
            raise BridleError("GoalNotBegun", problem="a dry run changes nothing that a check could see")
        return await begin_goal(parse_goal(words), _needs(parts))

    def at_once(words: str) -> SlashEvent | None:
        goal = parts.goals.driver
        match words.strip():
            case "stop" if goal is not None:
                ended = goal.closed()
                if not journal.conversation.turn_is_open:  # its check runs, which nobody needs any more
                    parts.goals.stop_work()
                return ended
            case "" | "stop":
                from bridle.goals.session_goal import state_words

                data = {"state": state_words(journal.conversation.goal)}
                return Notice(reason="GoalState", message=sentence("GoalState", data), data=data)
            case _:
                return None

    def hear(envelope: Envelope) -> None:
        if parts.goals.driver is not None:
            parts.goals.driver.hear(envelope)

    return Feature(
        name="goal",
        slash=(SlashCommand.of(GOAL, begin, checks_words=True, at_once=at_once),),
        listeners=(EventListener(kinds=_HEARD, hear=hear),),
    )


def _needs(parts: SessionParts) -> GoalNeeds:
    from bridle.goals.session_goal import ORIGINATOR, GoalNeeds

    journal, settings = parts.journal, parts.settings

    def words_of(command: str) -> list[str]:
        understood = parts.gates().understand(command, parts.opened.cwd)
        return [word for part in understood.parts for word in part.words if word is not None]

    return GoalNeeds(
        conversation=journal.conversation,
        emit=journal.emit,
        add_round=lambda accepted: journal.emit(accepted, originator=ORIGINATOR),
        words_of=words_of,
        clock=parts.services.clock,
        cwd=parts.opened.cwd,
        schema=settings.options.output_schema,
        rounds=settings.goal_rounds,
        steps=settings.max_steps,
        slot=parts.goals,
        originator=journal.originator,
    )
