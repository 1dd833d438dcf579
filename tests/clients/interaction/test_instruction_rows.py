"""What a person reads of instruction files: in `/context`, and when one joins a conversation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.questions.trust_form import trust_form
from bridle.clients.interaction.render.usage import Contents, instruction_rows
from bridle.protocol import events as e
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import TrustQuestion
from rows_kit import told

ADDED = "added when a file of its folder was touched"
TOLD: dict[str, Any] = {
    "files": [
        {"path": "AGENTS.md (yours)", "state": "in use", "characters": 40, "tokens": 10},
        {
            "path": "AGENTS.md",
            "state": "in use",
            "characters": 4000,
            "tokens": 1000,
            "trusted_ms": 1_791_763_200_000,
        },
        {"path": "a.md", "state": "in use", "characters": 4, "tokens": 1, "imported_by": "AGENTS.md"},
        {"path": "web/AGENTS.md", "state": "added", "characters": 80, "tokens": 20},
        {"path": "b\x1b.md", "state": "left out", "why": "not trusted"},
    ],
    "others": [{"path": "CLAUDE.md", "word": "declined"}, {"path": ".cursorrules", "word": ""}],
}


def test_every_file_is_a_line_with_its_size_and_why() -> None:
    assert instruction_rows(TOLD) == [
        "  AGENTS.md (yours)              40 characters   about 10 tokens   in use",
        "  AGENTS.md                   4,000 characters   about 1,000 tokens   in use, trusted 2026-10-12",
        "  a.md                            4 characters   about 1 tokens   in use, imported by AGENTS.md",
        f"  web/AGENTS.md                  80 characters   about 20 tokens   {ADDED}",
        "  b⟨ESC⟩.md                not in use: not trusted",
        "  CLAUDE.md                not in use: for another agent, you said no here",
        "  .cursorrules             not in use: for another agent, name it in context.sources",
    ]


def test_before_the_first_request_they_are_listed_too() -> None:
    assert Contents().lines(None, ["  AGENTS.md"]) == ["Nothing has been sent to a model yet.", "  AGENTS.md"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["files", "others", "path", "state", "why", "tokens"]), inner)
        ),
    )
)
def test_whatever_an_engine_says_is_lines_that_do_nothing(told: Any) -> None:
    rows = instruction_rows({"files": told, "others": [told]})
    assert all("\n" not in row and "\x1b" not in row for row in rows)


def test_a_file_that_joins_is_told_in_a_line() -> None:
    text = "# Instructions from web/AGENTS.md\n\nWeb."
    joined = e.ContextAdded(source="instructions", content=(TextBlock(text=text),))
    assert told(joined) == ["rules    web/AGENTS.md"]


@pytest.mark.requirement("C13")
def test_a_file_of_another_agent_is_offered_in_its_own_words() -> None:
    asked = TrustQuestion(
        kind="instructions", path="CLAUDE.md", sha256="0", asked_ms=0, line_count=3, offered=True
    )
    form = trust_form(asked)
    assert form.title == "CLAUDE.md is here and not used: it is for another agent. Use it?  3 lines"
    assert [choice.label for choice in form.choices if choice.label] == ["use it", "not here"]
