"""The code of a request for a token, on a screen: read it to whoever asked, or n and Enter refuse. Pure."""

from __future__ import annotations

from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.clients.interaction.question_card import Choice, Question, Row
from bridle.protocol.questions import TokenQuestion


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
