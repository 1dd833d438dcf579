"""Compaction as it happens: before a request that would be too long, after one that was, and when a person asks.

One compactor for all three. It appends `Compacted` and the next request follows from that; between two compactions the
beginning of every request stays the same bytes. The summary is asked of the model where its window is known, and
written without one otherwise and whenever that fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from bridle.base.text.token_estimate import estimated_tokens
from bridle.context.compaction import CompactionPlan, Goal, plan_clearing, plan_summary
from bridle.context.context_settings import CompactionSettings
from bridle.context.summaries import deterministic_summary, model_summary, prompt, question
from bridle.engine.features import Feature, PlacedRequestLayer
from bridle.engine.sizes import messages_tokens, prefix_tokens, request_tokens
from bridle.engine.slash_command import DescribedSlash, SlashCommand, SlashEvent
from bridle.engine.steps import AskModel, Reply, Step
from bridle.protocol.errors import BridleError, ProviderError
from bridle.protocol.events import Compacted, ContextAdded, Notice, PrefixSet
from bridle.protocol.messages import Parameters, TextBlock
from bridle.protocol.slash_arguments import SlashArgument

if TYPE_CHECKING:
    from bridle.engine.aside import AskAside
    from bridle.engine.conversation import Conversation, Entry
    from bridle.engine.journal import Journal

_INSTRUCTIONS: Final = r"^# Instructions from (.+)$"


def nearly_full(coming: Compacted, prefix: PrefixSet, *, tokens: int, window: int) -> str:
    """What the next request will do, and what stays."""
    will = f"summarise {dropped_turns(coming)}" if coming.summary else _clearing(len(coming.cleared))
    return (
        f"Context {round(100 * tokens / window)}% full ({_short(tokens)} of {_short(window)}). "
        f"The next request will {will}{_staying(prefix, coming.pins)}. /compact now · /context"
    )


def still_full(prefix: PrefixSet, tokens: int, limit: int) -> str:
    """All that could go is gone, and it is still too much."""
    model = f"{prefix.provider}:{prefix.model}"
    return f"Even so a request has about {_short(tokens)} tokens; {model} takes {_short(limit)}."


def dropped_turns(event: Compacted) -> str:
    """`turn 3` or `turns 1-9`."""
    first, last = event.dropped.first_turn, event.dropped.last_turn
    return f"turn {first}" if first == last else f"turns {first}-{last}"


def _clearing(results: int) -> str:
    return "leave out an old tool result" if results == 1 else f"leave out {results} old tool results"


def _staying(prefix: PrefixSet, pins: int) -> str:
    staying = [str(name) for name in re.findall(_INSTRUCTIONS, prefix.system, re.MULTILINE)]
    if pins:
        staying.append("your pinned rule" if pins == 1 else f"your {pins} pinned rules")
    if not staying:
        return ""
    *others, last = staying
    together = f"{', '.join(others)} and {last}" if others else last
    return f"; {together} {'stays' if len(staying) == 1 and pins < 2 else 'stay'}"


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1000 else f"{tokens / 1000:.0f}k"


CompactionCause: TypeAlias = Literal["limit", "asked", "refused"]

UNKNOWN_WINDOW: Final = 48_000
"""How many tokens a conversation may have where nobody knows what the model takes."""
OUTPUT_RESERVE: Final = 16_000
"""What is left for the answer; a quarter of a small window."""
SUMMARY_TIMEOUT_S: Final = 120.0
LEAST_SUMMARY: Final = 150
LEAST_MODEL_SUMMARY: Final = 300
"""A summary with less room is not worth a request."""
LEAST_GAIN: Final = 0.9
"""A compaction that leaves more than this share of a request is not worth losing words for."""
TURNS_AFTER_ASKING: Final = 2
"""So many turns stay as they are at most when a person asks for a summary."""
QUESTION_MARGIN: Final = 500
PIN_LEAD: Final = "Keep this in mind for the rest of this conversation:"

COMPACT: Final = DescribedSlash(
    name="compact",
    does="summarise what was said so far: /compact [what to keep in mind]",
    arguments=(SlashArgument(name="words", about="what to keep in mind"),),
)
PIN: Final = DescribedSlash(
    name="pin",
    does="words that stay when the rest is summarised: /pin words",
    arguments=(SlashArgument(name="words", about="what stays", required=True),),
)
"""What the commands do, for the list of commands."""


def _always(_prefix: PrefixSet, _tokens: int) -> bool:
    return True


class CompactorNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a compactor needs from outside.

    `window_of` gives the tokens a model, by provider and name, takes, None where nobody knows. `affordable` says
    whether a request with so many tokens may be paid for. `about_to` hears of a compaction before it happens. `warns`:
    somebody is there to read what the next request will do.
    """

    window_of: Callable[[str, str], int | None]
    ask: AskAside
    affordable: Callable[[PrefixSet, int], bool] = _always
    about_to: Callable[[str], Awaitable[None]] | None = None
    warns: bool = False


class _Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction as it would be without a model. `scale` is how much more than its estimate a token counts."""

    event: Compacted
    plan: CompactionPlan
    goal: Goal
    entries: list[Entry]
    prefix: PrefixSet
    scale: float


class Compactor:
    """Compacts the conversation of one session."""

    def __init__(self, journal: Journal, settings: CompactionSettings, around: CompactorNeeds) -> None:
        self._journal = journal
        self._settings = settings
        self._around = around
        self._refused: dict[tuple[str, str], int] = {}
        self._estimated = (-1, 0, 0)  # of which epoch, so many messages, so many tokens
        self._counted_prefix: tuple[PrefixSet | None, int] = (None, 0)

    @property
    def _conversation(self) -> Conversation:
        return self._journal.conversation

    def limit(self, prefix: PrefixSet) -> int:
        """How many tokens a request to this model may have."""
        window = self._around.window_of(prefix.provider, prefix.model)
        most = self._settings.max_tokens
        limits = [most if isinstance(most, int) else None, self._refused.get((prefix.provider, prefix.model))]
        if window is not None:
            limits.append(window - min(prefix.parameters.max_tokens or OUTPUT_RESERVE, window // 4))
        return min((limit for limit in limits if limit is not None), default=UNKNOWN_WINDOW)

    async def layer(self, step: Step, proceed: AskModel) -> Reply:
        """Compacts before a request that would be too long, and once after one that was refused as that."""
        if self._is_due():
            await self._compact("limit")
        try:
            reply = await proceed(step)
        except ProviderError as failure:
            if failure.reason != "ContextTooLong" or not await self._compact("refused"):
                raise
            reply = await proceed(msgspec.structs.replace(step, attempt=step.attempt + 1))
        if self._around.warns and reply.stop != "tool_use" and self._is_due():
            self._say_what_comes_next()
        return reply

    async def by_person(self, words: str) -> SlashEvent:
        """`/compact`: now, whatever the limit is. What the person wants kept in mind is pinned."""
        if words:
            self._journal.emit(pinned(words))
        draft = self._draft("asked")
        if draft is None:
            kept = " Your words are pinned." if words else ""
            return Notice(reason="NothingToCompact", message=f"There is too little to summarise yet.{kept}")
        return await self._finished(draft, "asked", keep=words)

    async def _compact(self, why: CompactionCause) -> bool:
        """Whether something could be done."""
        draft = self._draft(why)
        if draft is None:
            return False
        made = await self._finished(draft, why)
        self._journal.emit(made)
        limit = self.limit(draft.prefix)
        if made.tokens_after > limit:
            message = still_full(draft.prefix, made.tokens_after, limit)
            self._journal.emit(Notice(reason="ContextStillFull", message=message))
        return True

    # How much there is

    def _is_due(self) -> bool:
        prefix, most = self._conversation.prefix, self._settings.max_messages
        if prefix is None:
            return False
        if most is not None and len(self._conversation.messages) > most:
            return True
        if self._settings.max_tokens == "off":
            return False
        return self._tokens(prefix) >= math.floor(self.limit(prefix) * self._settings.compact_at)

    def _tokens(self, prefix: PrefixSet) -> int:
        """About how many tokens the next request has: as the provider counted, or an estimate."""
        if self._conversation.counted is not None:
            return request_tokens(self._conversation)
        if self._counted_prefix[0] is not prefix:
            self._counted_prefix = (prefix, prefix_tokens(prefix))
        return self._counted_prefix[1] + self._estimate()

    def _estimate(self) -> int:
        """About how many tokens the messages have. Costs what is new."""
        messages = self._conversation.messages
        epoch, count, tokens = self._estimated
        if epoch != self._conversation.epoch or count > len(messages):
            count = tokens = 0
        tokens += messages_tokens(messages[count:])
        self._estimated = (self._conversation.epoch, len(messages), tokens)
        return tokens

    # What to do about it

    def _draft(self, why: CompactionCause) -> _Draft | None:
        """What would be done now; None where nothing could go, or where it would not be worth it."""
        prefix = self._conversation.prefix
        if prefix is None:
            return None
        fixed, words = prefix_tokens(prefix), self._estimate()
        before = self._tokens(prefix)
        scale = max(1.0, before / (fixed + words))
        if why == "refused":
            self._refused[prefix.provider, prefix.model] = min(self.limit(prefix), before)
        goal = self._goal(prefix, why, fixed=fixed, words=words, scale=scale)
        entries = self._conversation.entries
        plan, summary = plan_clearing(entries, goal) if why == "limit" else None, ""
        if plan is None:
            plan = plan_summary(entries, goal)
            if plan is None:
                return None
            summary = deterministic_summary(
                plan.dropped, self._conversation.todos, max_tokens=goal.summary_tokens
            )
        draft = _Draft(
            event=plan.event(entries, summary),
            plan=plan,
            goal=goal,
            entries=entries,
            prefix=prefix,
            scale=scale,
        )
        return draft if self._is_worth_it(draft, why, before) else None

    def _goal(self, prefix: PrefixSet, why: CompactionCause, *, fixed: int, words: int, scale: float) -> Goal:
        settings, limit = self._settings, self.limit(prefix)
        half = math.floor(limit * settings.compact_at / 2)
        room = max(half - math.ceil(fixed * scale), limit // 10)
        recent_turns, recent_messages = settings.recent_turns, settings.recent_messages
        if why == "refused":
            room = min(room, math.floor(words * scale / 2))
        if why == "asked":
            room = min(room, math.floor(words * scale / 4))
            recent_turns = min(recent_turns, TURNS_AFTER_ASKING)
        if recent_messages is None and settings.max_messages is not None:
            recent_messages = settings.max_messages // 2
        tokens = math.floor(room / scale)
        summary_tokens = max(tokens // 3, LEAST_SUMMARY)
        if why == "asked":  # whoever asks twice keeps what the first summary tells
            summary_tokens = max(summary_tokens, LEAST_SUMMARY + self._summarised())
        return Goal(
            tokens=tokens,
            summary_tokens=min(settings.summary_tokens, summary_tokens),
            most_tokens=math.floor(limit / scale) - fixed,
            recent_turns=recent_turns,
            recent_messages=recent_messages,
        )

    def _summarised(self) -> int:
        """About how many tokens the summary has that stands in the conversation now."""
        entries = self._conversation.entries
        return messages_tokens(entry.message for entry in entries if entry.mark.source == "summary")

    def _is_worth_it(self, draft: _Draft, why: CompactionCause, before: int) -> bool:
        most = self._settings.max_messages
        if most is not None and len(draft.entries) > most and draft.event.dropped.messages > 1:
            return True
        return self._after(draft, draft.event) < before * (1.0 if why == "asked" else LEAST_GAIN)

    def _after(self, draft: _Draft, event: Compacted) -> int:
        return math.ceil((prefix_tokens(draft.prefix) + event.tokens_after) * draft.scale)

    async def _finished(self, draft: _Draft, why: CompactionCause, *, keep: str = "") -> Compacted:
        """The compaction with the summary it gets, and with what it means for a whole request."""
        if self._around.about_to is not None:
            await self._around.about_to(why)
        made, by = draft.event, "deterministic"
        said = await self._ask(draft, keep) if draft.plan.dropped and why != "refused" else None
        if said is not None:
            made, by = draft.plan.event(draft.entries, model_summary(said, self._conversation.todos)), "model"
        before = self._tokens(draft.prefix)
        return msgspec.structs.replace(
            made, why=why, by=by, tokens_before=before, tokens_after=self._after(draft, made)
        )

    async def _ask(self, draft: _Draft, keep: str) -> str | None:
        """The summary as the model writes it; None where it cannot be asked or did not write one."""
        prefix, goal = draft.prefix, draft.goal
        window = self._around.window_of(prefix.provider, prefix.model)
        if window is None and self._settings.summary == "model":
            window = self.limit(prefix)
        if window is None or self._settings.summary == "deterministic":
            return None
        if goal.summary_tokens < LEAST_MODEL_SUMMARY:
            return None
        asked = PrefixSet(
            provider=prefix.provider,
            model=prefix.model,
            system=prompt(goal.summary_tokens),
            parameters=Parameters(max_tokens=min(OUTPUT_RESERVE, window // 4)),
        )
        most = math.floor(self.limit(prefix) / draft.scale) - prefix_tokens(asked) - QUESTION_MARGIN
        message = question(draft.plan.dropped, keep=keep, max_tokens=most)
        if most <= 0 or not self._around.affordable(asked, messages_tokens((message,))):
            return None
        self._journal.emit(Notice(reason="Compacting", message=f"Summarising {dropped_turns(draft.event)}…"))
        try:
            answer = await self._around.ask(asked, (message,))
        except BridleError:
            return None
        size = estimated_tokens(len(answer.text.strip()))
        good = answer.stop == "end_turn" and answer.text.strip() and size <= 2 * goal.summary_tokens
        return answer.text if good else None

    def _say_what_comes_next(self) -> None:
        draft = self._draft("limit")
        if draft is None:
            return
        prefix = draft.prefix
        window = self._around.window_of(prefix.provider, prefix.model) or self.limit(prefix)
        message = nearly_full(draft.event, prefix, tokens=self._tokens(prefix), window=window)
        self._journal.emit(Notice(reason="ContextNearlyFull", message=message))


def compaction(compactor: Compactor) -> Feature:
    """Keeps requests within what the model takes; `/compact [words]` summarises now, `/pin words` keeps words."""

    async def compact(words: str) -> SlashEvent:
        return await compactor.by_person(words.strip())

    async def pin(words: str) -> SlashEvent:
        return pinned(words.strip())

    return Feature(
        name="compaction",
        request_layers=(PlacedRequestLayer("compaction", compactor.layer),),
        slash=(SlashCommand.of(COMPACT, compact), SlashCommand.of(PIN, pin)),
    )


def pinned(words: str) -> ContextAdded:
    return ContextAdded(source="pin", content=(TextBlock(text=PIN_LEAD), TextBlock(text=words)))
