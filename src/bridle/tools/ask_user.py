"""`ask_user`: a question only the person can answer."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.questions import OpenQuestion, WordsAnswer

NOBODY = "Nobody is here to answer. Decide yourself, and say at the end what you assumed."


class AskArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, Meta(min_length=1, max_length=2000)]
    choices: Annotated[
        tuple[str, ...], Meta(max_length=9, description="Likely answers, if there are any.")
    ] = ()


async def ask_user(args: AskArgs, context: ToolContext) -> ToolOutput:
    answer = await context.ask(context.call.id, OpenQuestion(text=args.question, choices=args.choices))
    if not isinstance(answer, WordsAnswer):
        return ToolOutput(outcome="error", reason="NoApprover", content=NOBODY)
    return ToolOutput(content=answer.text)


def _as_long_as_it_takes(_args: AskArgs) -> float:
    return math.inf


ASK_USER = Tool(
    name="ask_user",
    description="Ask the person when only they can decide. Not for permission: calls that need it ask by themselves.",
    input=AskArgs,
    risk="read",
    run=ask_user,
    mutating=never_mutating,
    timeout_s=_as_long_as_it_takes,
    side_effect="none",
)
