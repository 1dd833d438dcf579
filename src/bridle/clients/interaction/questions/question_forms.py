"""The forms of all question kinds: a new kind is one case in `form_of`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, assert_never

import msgspec

from bridle.base.text.phrases import counted, dollars, shortened
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.questions.change_forms import conflict_form, git_form, undo_form
from bridle.clients.interaction.questions.question_card import (
    Choice,
    Form,
    FormAnswer,
    Question,
    Row,
    marked_line,
    marked_lines,
)
from bridle.clients.interaction.questions.trust_form import trust_form
from bridle.protocol.errors import sentence
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import (
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


def ask_question(asked: QuestionAsked) -> Question:
    return Question(id=asked.question_id, form=form_of(asked.question))


def form_of(question: AnyQuestion) -> Form:
    """Return the form of a question: the one place that knows every kind."""
    match question:
        case OpenQuestion():
            return _open_form(question)
        case PlanQuestion():
            return _plan_form(question)
        case StepLimitQuestion():
            return _step_limit_form(question)
        case TrustQuestion():
            return trust_form(question)
        case BudgetQuestion():
            return _budget_form(question)
        case UndoQuestion():
            return undo_form(question)
        case ConflictQuestion():
            return conflict_form(question)
        case GitQuestion():
            return git_form(question)
        case OrphanQuestion():
            return _orphan_form(question)
        case InputQuestion():
            return _input_form(question)
        case SamplingQuestion():
            return _sampling_form(question)
        case TokenQuestion():
            return _token_form(question)
        case _:
            assert_never(question)


def _numbered(*answers: tuple[str, FormAnswer]) -> tuple[Choice, ...]:
    """Return suggestions of an open form, to be picked by number."""
    return tuple(Choice(str(at), marked_line(label), answer) for at, (label, answer) in enumerate(answers, 1))


def _open_form(asked: OpenQuestion) -> Form:
    first, *rest = marked_lines(asked.text) or [""]
    return Form(
        title=first,
        body=tuple(map(Row, rest)),
        choices=_numbered(*((choice, WordsAnswer(text=choice)) for choice in asked.choices)),
        open=True,
        in_words=lambda text: WordsAnswer(text=text),
        refusal=WordsAnswer(text=""),
    )


def _plan_form(asked: PlanQuestion) -> Form:
    keep = "keep planning"
    return Form(
        title="Carry out this plan?",
        body=tuple(map(Row, marked_lines(asked.plan))),
        choices=_numbered(
            ("go ahead", PlanAnswer(approve=True)), (keep, PlanAnswer(approve=False, note=keep))
        ),
        open=True,
        in_words=lambda text: PlanAnswer(approve=False, note=text),
        refusal=PlanAnswer(approve=False),
    )


def _step_limit_form(asked: StepLimitQuestion) -> Form:
    stop = StepLimitAnswer(go_on=False)
    return Form(
        title=f"{counted(asked.steps, 'step')} done and still working. Go on for {asked.more} more?",
        choices=_numbered(("go on", StepLimitAnswer(go_on=True)), ("stop here", stop)),
        open=True,
        refusal=stop,
    )


def _budget_form(asked: BudgetQuestion) -> Form:
    stop = BudgetAnswer(choice="stop")
    return Form(
        title=budget_words(asked),
        choices=(*_ways_to_continue(asked), Choice("n", "", stop)),
        inline=True,
        hint="Enter stop",
        refusal=stop,
    )


def _ways_to_continue(asked: BudgetQuestion) -> Iterator[Choice]:
    if asked.raise_to_usd is not None:
        yield Choice("r", f"raise to ${asked.raise_to_usd:g}", BudgetAnswer(choice="raise"))
    if asked.cheaper is not None:
        cheaper = visible_line(asked.cheaper)
        yield Choice("m", f"go on with {cheaper}", BudgetAnswer(choice="cheaper"))
    if asked.reason == "PriceUnknown":
        yield Choice("g", "go on without the limit", BudgetAnswer(choice="unlimited"))


def budget_words(question: BudgetQuestion) -> str:
    data = {
        "model": question.model,
        "cap": dollars(question.cap_usd),
        "spent": dollars(question.spent_usd),
        "could": dollars(question.could_usd),
        "next": "",
    }
    return visible_line(sentence(question.reason, data))


def _orphan_form(asked: OrphanQuestion) -> Form:
    unknown, later = OrphanAnswer(judgement="unknown"), OrphanAnswer(judgement="later")
    choices = (
        Choice("h", "it happened", OrphanAnswer(judgement="happened")),
        Choice("n", "it did not", OrphanAnswer(judgement="did_not")),
        Choice(
            "?",
            "I don't know: the model must check before repeating",
            unknown,
            noted=lambda note: OrphanAnswer(judgement="unknown", note=note),
        ),
        Choice("z", undo_choice(asked), OrphanAnswer(judgement="undo")),
        Choice("q", "decide later", later),
    )
    happened, did_not, ask_model, undo, decide_later = (f"{one.key}  {one.label}" for one in choices)
    return Form(
        title=orphan_headline(asked),
        body=(Row(""), *map(Row, orphan_lines(asked))),
        choices=choices,
        answer_rows=(
            f"{happened}     {did_not}     {ask_model} (Enter)",
            f"{undo}        d  details        {decide_later}",
        ),
        inline=True,
        whole=tuple(map(Row, orphan_details(asked))),
        whole_key="d",
        only_keys=True,
        refusal=unknown,
        later=later,
    )


_MOST_DETAILS: Final = 400
_WORDS: Final = 60


def orphan_headline(question: OrphanQuestion) -> str:
    actions = "One action" if question.count == 1 else f"{question.count} actions"
    which = "" if question.count == 1 else f" ({question.number} of {question.count})"
    stopped = _hours(question.stopped_ms)[:5]
    return f"Bridle stopped without warning at {stopped}. {actions} may or may not have happened.{which}"


def orphan_lines(question: OrphanQuestion) -> Iterator[str]:
    tool, began = visible_line(question.tool), _hours(question.started_ms)
    yield f"  {tool:<6} {_call_words(question):<27} started {began}, no end recorded"
    for index, line in enumerate(question.now):
        yield f"  {'' if index else 'now':<6} {visible_line(line)}"


def orphan_details(question: OrphanQuestion) -> Iterator[str]:
    for name, value in question.input.items():
        shown = visible(value if isinstance(value, str) else msgspec.json.encode(value).decode())
        first, *rest = shown.split("\n")[:_MOST_DETAILS]
        yield f"  {visible_line(name)}: {first}"
        yield from (f"    {line}" for line in rest)


def undo_choice(question: OrphanQuestion) -> str:
    """The choice of undoing it, and why there is no point in choosing it."""
    why_not = visible_line(question.not_undoable)
    return f"undo it (not possible {why_not})" if why_not else "undo it"


def _call_words(question: OrphanQuestion) -> str:
    given = question.input
    about = next(
        (given[name] for name in ("command", "path", "url") if isinstance(given.get(name), str)), None
    )
    text = visible_line(about if about is not None else msgspec.json.encode(given).decode()).strip()
    return shortened(text, _WORDS)


def _hours(ms: int) -> str:
    """The time of day where the person is."""
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000))


def _sampling_form(asked: SamplingQuestion) -> Form:
    """Show the asking server, everything the model would read, and the cost."""
    no = SamplingAnswer(allow=False)
    left = (
        f"{counted(asked.requests_left, 'more request')} and {counted(asked.tokens_left, 'token')} are left"
    )
    return Form(
        title=f"The server {marked_line(asked.server)} wants your model to answer this, "
        f"up to {counted(asked.max_tokens, 'token')}",
        body=tuple(_sampling_rows(asked)),
        context=(
            f"The model gets these words and no tools; the server gets the answer, and you pay for it. {left}.",
        ),
        choices=(Choice("y", "yes, this time", SamplingAnswer(allow=True)), Choice("n", "no (Enter)", no)),
        inline=True,
        refusal=no,
    )


def _sampling_rows(asked: SamplingQuestion) -> Iterator[Row]:
    said = [("system", asked.system)] if asked.system else []
    for role, text in (*said, *((message.role, message.text) for message in asked.messages)):
        first, *rest = marked_lines(text) or [""]
        yield Row(f"  {role}: {first}")
        yield from (Row(f"    {line}") for line in rest)


def _token_form(asked: TokenQuestion) -> Form:
    """Show a code. The question closes when the code was used or expires."""
    refusal = TokenAnswer(allow=False)
    who = visible_line(asked.name) or "no name of its own"
    may = "everything" if asked.commands is None else ", ".join(asked.commands) or "nothing"
    return Form(
        title=f"Somebody asks for a token. Its code: {asked.code[:3]} {asked.code[3:]}",
        body=(
            Row(f"for {who} ({asked.identity}), {counted(asked.life_s // 60, 'minute')}"),
            Row(f"sessions: {visible_line(', '.join(asked.sessions)) or 'none'}"),
            Row(f"may: {visible_line(may)}{', and mint tokens' if asked.can_mint else ''}"),
        ),
        choices=(Choice("n", "refuse it", refusal),),
        inline=True,
        hint="Enter refuse",
        refusal=refusal,
    )


def _input_form(asked: InputQuestion) -> Form:
    """Show which server asks, and for what. Its text is marked: nobody has checked it."""
    step = f" ({asked.number} of {asked.count})" if asked.count > 1 else ""
    title = f"The server {marked_line(asked.server)} asks{step}"
    said = tuple(Row(f"  {line}") for line in marked_lines(asked.message))
    declined = InputAnswer(declined=True)
    if asked.url:
        return Form(
            title=f"{title} you to open this address",
            body=(*said, Row(f"  {marked_line(asked.url)}")),
            context=("Bridle does not open it. Look where it leads before you do.",),
            choices=(Choice("y", "done", InputAnswer()), Choice("n", "no (Enter)", declined)),
            inline=True,
            refusal=declined,
        )
    return Form(
        title=title,
        body=(*said, *_field_rows(asked)),
        choices=_numbered(*_field_answers(asked.field), ("(tell it nothing)", declined)),
        open=True,
        in_words=lambda text: InputAnswer(text=text),
        refusal=InputAnswer(text=""),
    )


def _field_rows(asked: InputQuestion) -> Iterator[Row]:
    field = asked.field
    if asked.problem:
        yield Row(f"  That was not taken: {marked_line(asked.problem)}")
    if field is None:
        return
    kind = "" if field.kind == "text" or field.choices else f" ({field.kind})"
    default = f" [{marked_line(field.default)}]" if field.default else ""
    yield Row(f"  {marked_line(field.title or field.name)}{kind}{default}")
    if field.about:
        yield Row(f"  {marked_line(field.about)}", "faint")
    if field.many:
        yield Row(f"  any of: {', '.join(map(marked_line, field.choices))}")


def _field_answers(field: InputField | None) -> Iterator[tuple[str, FormAnswer]]:
    if field is None:
        return
    if not field.many:
        known = field.choices or (("yes", "no") if field.kind == "yes or no" else ())
        yield from ((one, InputAnswer(text=one)) for one in known)
    if field.default or not field.required:
        yield "(leave it out)", InputAnswer(text="")
