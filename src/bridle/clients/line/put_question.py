"""A question comes in front of the person at a terminal."""

from __future__ import annotations

from bridle.clients.interaction.questions.question_card import Question
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.line.screen import Screen
from bridle.clients.line.terminal import Terminal


def put_question(
    question: Question,
    router: KeyRouter,
    screen: Screen,
    terminal: Terminal,
    *,
    now_s: float,
    position: str = "",
) -> None:
    """Draws it, and calls the person. What was typed until now was not meant for it, and is to be taken before."""
    reader = terminal.look.reader
    if reader:
        question = question.with_title(f"Question: {question.form.title}")
    shown = router.ask(
        question,
        now_s=now_s,
        columns=0 if reader else terminal.columns,
        rows=0 if reader else terminal.rows,
        position=position,
    )
    screen.blank()
    screen.rows(shown.rows)
    terminal.notify(f"Bridle needs you: {question.form.title}")
