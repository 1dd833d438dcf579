"""Skills in a session as a feature."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from bridle.app.sources.skill_sources import skill_item
from bridle.context.consent import AT_A_DESK, IN_CI
from bridle.context.skills.session_skills import SessionSkills, skill_tool, unknown_skill
from bridle.context.skills.skill_list import SOURCE
from bridle.engine.features import EventListener, Feature, PlacedRequestLayer, PlacedToolLayer
from bridle.engine.slash_command import DescribedSlash, SaidPrompt, SessionPrompts, SlashCommand
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.tools import BUILTIN, RunTool, ToolCall, ToolOutput
from bridle.protocol import queries as q
from bridle.protocol.events import (
    ContextAdded,
    Envelope,
    InputAccepted,
    Notice,
    SkillRegistryChanged,
    StepEnded,
    text_of,
)
from bridle.protocol.questions import TrustAnswer

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.context.skills.skill_records import Skill
    from bridle.engine.conversation import Conversation
    from bridle.engine.features import AnswerQuery
    from bridle.engine.ports import AskPerson

NAME: Final = "skills"
LIST_DOES: Final = "the skills of this session; /skills:NAME WORDS uses one"
RELOAD_DOES: Final = "look for skills again, and ask about those that are new or changed"
MOST_ASKED: Final = 3
"""So many new skills are asked about before the first request. More are named, and asked about by /skills:reload."""
MOST_AGAIN: Final = 12 * 1024
"""So many bytes of skills in use come again behind a summary; a quarter of what the model takes where that is less."""
_MOST_HEARD: Final = 100


def skills(parts: SessionParts) -> Iterator[Feature]:
    """What skills add to a session: a tool, a layer around the model, one around commands, `/skills`."""
    known, conversation = parts.skills, parts.journal.conversation

    async def list_skills(_query: q.ListSkills) -> q.SkillList:
        return (
            q.SkillList(skills=(), problems=())
            if known is None
            else _views().skill_list(known.offered, conversation)
        )

    async def describe_skill(query: q.DescribeSkill) -> q.SkillDescription:
        if known is None:
            raise unknown_skill(query.name, ())
        return _views().skill_description(known, query.name, conversation)

    answers: Mapping[type[q.AnyQuery], AnswerQuery] = {
        q.ListSkills: list_skills,
        q.DescribeSkill: describe_skill,
    }
    if known is None:
        yield Feature(name=NAME, answers=answers)
        return
    heard: deque[InputAccepted | StepEnded] = deque(maxlen=_MOST_HEARD)
    announced = False

    again = _UsedSkills(known, conversation, parts.opened.settings.context.max_tokens)

    def hear(envelope: Envelope) -> None:
        match envelope.event:
            case ContextAdded() as added:
                again.note(added)
            case InputAccepted(goal=None, child="") | StepEnded() as said:
                heard.append(said)
            case _:
                pass  # what a check printed calls for nothing

    async def layer(step: Step, proceed: AskModel) -> Reply:
        nonlocal announced
        if not announced:
            announced = True
            for notice in _left_out(known, parts.services.env):
                step.emit(notice)
        wanted = _called_for(known, heard)
        heard.clear()
        if wanted or not known.is_told:
            for event in list(_layers().brought_in(known, wanted, step.journal.conversation)):
                step.emit(event)
        return await proceed(step)

    async def unchanged(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if call.name != "bash" or not any(skill.root for skill in known.offered.skills.values()):
            return await proceed(call)
        problem = _layers().changed_skill(call.input.get("command"), known)
        return await proceed(call) if problem is None else problem

    async def listed(_arguments: str) -> Notice:
        return _views().skills_notice(known.offered, conversation)

    async def reload(_arguments: str) -> SkillRegistryChanged:
        return await reloaded(parts, known)

    def say(name: str, words: str) -> SaidPrompt | None:
        return _views().said_skill(known, name, words, conversation)

    yield Feature(
        name=NAME,
        origin=BUILTIN,
        tools=(skill_tool(known, lambda: conversation),),
        request_layers=(
            PlacedRequestLayer("skills", layer),
            PlacedRequestLayer("skills_in_use", again.layer),
        ),
        tool_layers=(PlacedToolLayer("unchanged_skills", lambda: unchanged),),
        slash=(
            SlashCommand(name=NAME, does=LIST_DOES, arguments=(), run=listed),
            SlashCommand(name=f"{NAME}:reload", does=RELOAD_DOES, arguments=(), run=reload),
        ),
        prompts=SessionPrompts(names=lambda: _names(known), say=say),
        answers=answers,
        listeners=(
            EventListener(kinds=frozenset({"InputAccepted", "StepEnded", "ContextAdded"}), hear=hear),
        ),
    )


class _UsedSkills:
    """The skills that a session has used. When a summary took the words of some away, they come again behind it."""

    def __init__(self, known: SessionSkills, conversation: Conversation, max_tokens: int | str) -> None:
        self._known = known
        self._conversation = conversation
        self._epoch = conversation.epoch
        self._most_bytes = min(MOST_AGAIN, max_tokens) if isinstance(max_tokens, int) else MOST_AGAIN
        self._used: dict[str, None] = {}
        if conversation.entries:  # it goes on
            self._used.update(dict.fromkeys(sorted(_reading().in_use(conversation))))

    def note(self, event: ContextAdded) -> None:
        if event.source != SOURCE:
            return
        if name := _reading().activated(text_of(event.content)):
            self._used.pop(name, None)
            self._used[name] = None

    async def layer(self, step: Step, proceed: AskModel) -> Reply:
        if self._used and self._epoch != self._conversation.epoch:
            again = _layers().brought_again(
                self._known, tuple(self._used), self._conversation, self._most_bytes
            )
            for event in list(again):
                step.emit(event)
        self._epoch = self._conversation.epoch
        return await proceed(step)


def _called_for(known: SessionSkills, heard: Iterable[InputAccepted | StepEnded]) -> list[Skill]:
    if not known.has_triggers:
        return []
    from bridle.context.skills.skill_layers import called_for

    return called_for(known.offered.skills.values(), heard)


def _names(known: SessionSkills) -> list[DescribedSlash]:
    return [
        DescribedSlash(name=f"{NAME}:{name}", does=skill.head.description[:100])
        for name, skill in known.offered.skills.items()
    ]


def _left_out(known: SessionSkills, env: Mapping[str, str]) -> Iterator[Notice]:
    """What is not offered, and why: each is named once."""
    offered = known.offered
    waiting = [skill for skill in offered.waiting if skill.digest not in known.refused]
    if not waiting and not offered.problems:
        return
    yield from _views().problem_notices(offered.problems)
    if waiting:
        yield _views().waiting_notice(waiting, IN_CI if env.get("CI") else AT_A_DESK)


# What is loaded when a session uses skills of its own


def _layers():
    from bridle.context.skills import skill_layers

    return skill_layers


def _reading():
    from bridle.context.skills import skill_reading

    return skill_reading


def _views():
    from bridle.context.skills import skill_views

    return skill_views


# A person's word


async def ask_about(parts: SessionParts, known: SessionSkills, ask: AskPerson) -> None:
    """Before the first request: asks about the skills that wait for a person, unless they are many."""
    if not 0 < len(known.offered.waiting) <= MOST_ASKED:
        return
    if await _asked(parts, known, ask):
        parts.journal.emit(known.look_again())


async def reloaded(parts: SessionParts, known: SessionSkills) -> SkillRegistryChanged:
    """Looks again, asks about what is new or changed, and tells what came of it."""
    before = known.offered
    known.look_again()
    await _asked(parts, known, parts.questions.ask)
    return known.look_again(before)


async def _asked(parts: SessionParts, known: SessionSkills, ask: AskPerson) -> bool:
    agreed = False
    for skill in known.offered.waiting:
        item = skill_item(skill)
        question = item.question(parts.opened.approvals, parts.services.clock.now_ms())
        answer = await ask(f"trust-{item.digest[:16]}", question)
        if answer is None:
            break
        if isinstance(answer, TrustAnswer) and answer.use:
            item.approve(parts.opened.approvals)
            agreed = True
        else:
            known.refused.add(skill.digest)
    return agreed
