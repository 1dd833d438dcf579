"""The forms of all question kinds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, Literal, assert_never

import msgspec

from bridle.base.text.lookalikes import mark_lookalikes
from bridle.base.text.phrases import counted, dollars
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.questions.card import Decided
from bridle.clients.interaction.questions.git_form import git_answer, git_question
from bridle.clients.interaction.questions.question_card import Choice, Question, Row
from bridle.clients.interaction.questions.trust_form import trust_answer, trust_question
from bridle.clients.interaction.questions.undo_form import (
    conflict_answer,
    conflict_question,
    undo_answer,
    undo_question,
)
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.errors import sentence
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import (
    AnyAnswer,
    AnyQuestion,
    BudgetAnswer,
    BudgetQuestion,
    ConflictQuestion,
    GitQuestion,
    InputAnswer,
    InputField,
    InputQuestion,
    OpenQuestion,
    OrphanAnswer,
    OrphanQuestion,
    PlanAnswer,
    PlanQuestion,
    SamplingAnswer,
    SamplingQuestion,
    StepLimitAnswer,
    StepLimitQuestion,
    TokenAnswer,
    TokenQuestion,
    TrustQuestion,
    UndoQuestion,
    WordsAnswer,
)

_GO_AHEAD: Final = "go ahead"
_GO_ON: Final = "go on"


def asked_question(asked: QuestionAsked) -> Question:
    """The question as it is drawn."""
    name, question = asked.question_id, asked.question
    match question:
        case OpenQuestion():
            return _in_words(name, question, question.text, question.choices)
        case PlanQuestion(plan=plan):
            return _in_words(name, question, f"Carry out this plan?\n{plan}", (_GO_AHEAD, "keep planning"))
        case StepLimitQuestion(steps=steps, more=more):
            words = f"{counted(steps, 'step')} done and still working. Go on for {more} more?"
            return _in_words(name, question, words, (_GO_ON, "stop here"))
        case TrustQuestion():
            return trust_question(name, question)
        case BudgetQuestion():
            return budget_question(name, question)
        case UndoQuestion():
            return undo_question(name, question)
        case ConflictQuestion():
            return conflict_question(name, question)
        case GitQuestion():
            return git_question(name, question)
        case OrphanQuestion():
            return orphan_question(name, question)
        case InputQuestion():
            return input_question(name, question)
        case SamplingQuestion():
            return sampling_question(name, question)
        case TokenQuestion():
            return token_question(name, question)
        case _:
            assert_never(question)


def given_answer(about: AnyQuestion, decided: Decided) -> AnyAnswer:
    """What the person's answer says about this question."""
    match about:
        case OpenQuestion():
            return WordsAnswer(text=decided.words)
        case PlanQuestion():
            approve = decided.words == _GO_AHEAD
            return PlanAnswer(approve=approve, note="" if approve else decided.words)
        case StepLimitQuestion():
            return StepLimitAnswer(go_on=decided.words == _GO_ON)
        case TrustQuestion():
            return trust_answer(decided.answer)
        case BudgetQuestion():
            return budget_answer(about, decided.answer)
        case UndoQuestion():
            return undo_answer(decided.answer)
        case ConflictQuestion():
            return conflict_answer(decided.answer)
        case GitQuestion():
            return git_answer(about, decided)
        case OrphanQuestion():
            return orphan_answer(decided)
        case InputQuestion():
            return input_answer(about, decided)
        case SamplingQuestion():
            return sampling_answer(decided)
        case TokenQuestion():
            return TokenAnswer(allow=False)
        case _:
            assert_never(about)


def _in_words(question_id: str, about: AnyQuestion, text: str, choices: tuple[str, ...]) -> Question:
    """A question that any words answer."""
    marked = mark_lookalikes(text, prose=True)
    lines = [Row(visible(line)) for line in marked.splitlines()] or [Row("")]
    return Question(
        id=question_id,
        about=about,
        title=lines[0].text,
        body=tuple(lines[1:]),
        options=tuple(visible(mark_lookalikes(choice), newlines=False) for choice in choices),
    )


def budget_question(question_id: str, asked: BudgetQuestion) -> Question:
    """The question as it is drawn."""
    return Question(
        id=question_id,
        about=asked,
        title=budget_words(asked),
        choices=(*_going_on(asked), Choice("n", "deny")),
        inline=True,
        last_words="Enter stop",
    )


def budget_answer(asked: BudgetQuestion, answer: PermissionChoice) -> BudgetAnswer:
    match answer:
        case "once":
            return BudgetAnswer(choice="raise" if asked.raise_to_usd is not None else "unlimited")
        case "pattern":
            return BudgetAnswer(choice="cheaper")
        case _:
            return BudgetAnswer(choice="stop")


def _going_on(asked: BudgetQuestion) -> Iterator[Choice]:
    if asked.raise_to_usd is not None:
        yield Choice("r", "once", f"raise to ${asked.raise_to_usd:g}")
    if asked.cheaper is not None:
        yield Choice("m", "pattern", f"go on with {visible(asked.cheaper, newlines=False)}")
    if asked.reason == "PriceUnknown":
        yield Choice("g", "once", "go on without the limit")


def budget_words(question: BudgetQuestion) -> str:
    data = {
        "model": question.model,
        "cap": dollars(question.cap_usd),
        "spent": dollars(question.spent_usd),
        "could": dollars(question.could_usd),
        "next": "",
    }
    return visible(sentence(question.reason, data), newlines=False)


_JUDGEMENTS: Final[dict[PermissionChoice, Literal["happened", "did_not", "unknown", "undo", "later"]]] = {
    "once": "happened",
    "pattern": "did_not",
    "deny": "unknown",
    "tool": "undo",
    "always": "later",
}


def orphan_question(question_id: str, asked: OrphanQuestion) -> Question:
    """The question as it is drawn."""
    undo = undo_choice(asked)
    return Question(
        id=question_id,
        about=asked,
        title=orphan_headline(asked),
        body=(Row(""), *map(Row, orphan_lines(asked))),
        choices=(
            Choice("h", "once", HAPPENED),
            Choice("n", "pattern", DID_NOT),
            Choice("?", "deny", DO_NOT_KNOW),
            Choice("z", "tool", undo),
            Choice("q", "always", LATER),
        ),
        answer_rows=(
            f"h  {HAPPENED}     n  {DID_NOT}     ?  {DO_NOT_KNOW} (Enter)",
            f"z  {undo}        d  details        q  {LATER}",
        ),
        inline=True,
        whole=tuple(map(Row, orphan_details(asked))),
        whole_key="d",
        words=False,
        noted_key="?",
    )


def orphan_answer(decided: Decided) -> OrphanAnswer:
    """What the key says; words behind a `?` are for the model, which must look for itself."""
    if decided.stop:
        return OrphanAnswer(judgement="later")
    if decided.note:
        return OrphanAnswer(judgement="unknown", note=decided.note)
    return OrphanAnswer(judgement=_JUDGEMENTS[decided.answer])


HAPPENED: Final = "it happened"
DID_NOT: Final = "it did not"
DO_NOT_KNOW: Final = "I don't know: the model must check before repeating"
LATER: Final = "decide later"
_MOST_DETAILS: Final = 400
_WORDS: Final = 60


def orphan_headline(question: OrphanQuestion) -> str:
    actions = "One action" if question.count == 1 else f"{question.count} actions"
    which = "" if question.count == 1 else f" ({question.number} of {question.count})"
    stopped = _hours(question.stopped_ms)[:5]
    return f"Bridle stopped without warning at {stopped}. {actions} may or may not have happened.{which}"


def orphan_lines(question: OrphanQuestion) -> Iterator[str]:
    """The call and what is there now."""
    tool, began = visible(question.tool, newlines=False), _hours(question.started_ms)
    yield f"  {tool:<6} {_call_words(question):<27} started {began}, no end recorded"
    for index, line in enumerate(question.now):
        yield f"  {'' if index else 'now':<6} {visible(line, newlines=False)}"


def orphan_details(question: OrphanQuestion) -> Iterator[str]:
    """Everything that is known of the call."""
    for name, value in question.input.items():
        shown = visible(value if isinstance(value, str) else msgspec.json.encode(value).decode())
        first, *rest = shown.split("\n")[:_MOST_DETAILS]
        yield f"  {visible(name, newlines=False)}: {first}"
        yield from (f"    {line}" for line in rest)


def undo_choice(question: OrphanQuestion) -> str:
    """The choice of undoing it, and why there is no point in choosing it."""
    why_not = visible(question.not_undoable, newlines=False)
    return f"undo it (not possible {why_not})" if why_not else "undo it"


def _call_words(question: OrphanQuestion) -> str:
    given = question.input
    about = next(
        (given[name] for name in ("command", "path", "url") if isinstance(given.get(name), str)), None
    )
    text = visible(
        about if about is not None else msgspec.json.encode(given).decode(), newlines=False
    ).strip()
    return text if len(text) <= _WORDS else text[: _WORDS - 1] + "…"


def _hours(ms: int) -> str:
    """The time of day where the person is."""
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000))


def sampling_question(question_id: str, asked: SamplingQuestion) -> Question:
    """The question as it is drawn: who asks, all that the model would read, and what it may cost."""
    server = visible(mark_lookalikes(asked.server), newlines=False)
    left = (
        f"{counted(asked.requests_left, 'more request')} and {counted(asked.tokens_left, 'token')} are left"
    )
    return Question(
        id=question_id,
        about=asked,
        title=f"The server {server} wants your model to answer this, up to {counted(asked.max_tokens, 'token')}",
        body=tuple(_sampling_rows(asked)),
        context=(
            f"The model gets these words and no tools; the server gets the answer, and you pay for it. {left}.",
        ),
        choices=(Choice("y", "once", "yes, this time"), Choice("n", "deny", "no (Enter)")),
        inline=True,
    )


def sampling_answer(decided: Decided) -> SamplingAnswer:
    return SamplingAnswer(allow=decided.answer == "once")


def _sampling_rows(asked: SamplingQuestion) -> Iterator[Row]:
    said = [("system", asked.system)] if asked.system else []
    for role, text in (*said, *((message.role, message.text) for message in asked.messages)):
        first, *rest = mark_lookalikes(text, prose=True).splitlines() or [""]
        yield Row(f"  {role}: {visible(first)}")
        for line in rest:
            yield Row(f"    {visible(line)}")


def token_question(question_id: str, asked: TokenQuestion) -> Question:
    """The question as it is drawn. It closes by itself when the code was used or is too old."""
    who = visible(asked.name, newlines=False) or "no name of its own"
    may = "everything" if asked.commands is None else ", ".join(asked.commands) or "nothing"
    return Question(
        id=question_id,
        about=asked,
        title=f"Somebody asks for a token. Its code: {asked.code[:3]} {asked.code[3:]}",
        body=(
            Row(f"for {who} ({asked.identity}), {counted(asked.life_s // 60, 'minute')}"),
            Row(f"sessions: {visible(', '.join(asked.sessions), newlines=False) or 'none'}"),
            Row(f"may: {visible(may, newlines=False)}{', and mint tokens' if asked.can_mint else ''}"),
        ),
        choices=(Choice("n", "deny", "refuse it"),),
        inline=True,
        last_words="Enter refuse",
    )


DECLINE: Final = "(tell it nothing)"
SKIP: Final = "(leave it out)"


def input_question(question_id: str, asked: InputQuestion) -> Question:
    """The question as it is drawn: who asks, what for, and that it is not Bridle that does."""
    step = f" ({asked.number} of {asked.count})" if asked.count > 1 else ""
    title = f"The server {_marked_line(asked.server)} asks{step}"
    said = tuple(
        Row(f"  {visible(line)}") for line in mark_lookalikes(asked.message, prose=True).splitlines()
    )
    if asked.url:
        return Question(
            id=question_id,
            about=asked,
            title=f"{title} you to open this address",
            body=(*said, Row(f"  {_marked_line(asked.url)}")),
            context=("Bridle does not open it. Look where it leads before you do.",),
            choices=(Choice("y", "once", "done"), Choice("n", "deny", "no (Enter)")),
            inline=True,
        )
    return Question(
        id=question_id,
        about=asked,
        title=title,
        body=(*said, *_field_rows(asked)),
        options=tuple(_field_options(asked.field)),
    )


def input_answer(asked: InputQuestion, decided: Decided) -> InputAnswer:
    if asked.url:
        return InputAnswer(declined=decided.answer != "once")
    if decided.words == DECLINE:
        return InputAnswer(declined=True)
    field = asked.field
    if field is not None and field.choices and not field.many:
        shown = dict(zip(map(_marked_line, field.choices), field.choices, strict=True))
        return InputAnswer(text=shown.get(decided.words, decided.words))
    return InputAnswer(text="" if decided.words == SKIP else decided.words)


def _field_rows(asked: InputQuestion) -> Iterator[Row]:
    field = asked.field
    if asked.problem:
        yield Row(f"  That was not taken: {_marked_line(asked.problem)}")
    if field is None:
        return
    kind = "" if field.kind == "text" or field.choices else f" ({field.kind})"
    default = f" [{_marked_line(field.default)}]" if field.default else ""
    yield Row(f"  {_marked_line(field.title or field.name)}{kind}{default}")
    if field.about:
        yield Row(f"  {_marked_line(field.about)}", "faint")
    if field.many:
        yield Row(f"  any of: {', '.join(map(_marked_line, field.choices))}")


def _field_options(field: InputField | None) -> Iterator[str]:
    if field is not None and not field.many:
        yield from map(_marked_line, field.choices or (("yes", "no") if field.kind == "yes or no" else ()))
    if field is not None and (field.default or not field.required):
        yield SKIP
    yield DECLINE


def _marked_line(text: str) -> str:
    return visible(mark_lookalikes(text), newlines=False)
