"""What a typed line asks for: words, a shell command, a slash command; and how to say that it is only text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.composer.parse import Shell, Slash, Typed, Words, parse
from bridle.protocol.messages import FileMention, TextBlock
from tables import table

FILES = {"src/cart.py", "a b.txt", "README.md"}


def parsed(text: str) -> Typed:
    return parse(text, FILES.__contains__)


def words(*parts: str) -> Words:
    """Text, and mentions written with an @."""
    return Words(
        tuple(FileMention(path=part[1:]) if part.startswith("@") else TextBlock(text=part) for part in parts)
    )


@pytest.mark.requirement("G45.1")
@table(
    ("typed", "meaning"),
    [
        ("fix it", words("fix it")),
        ("/help", Slash("help", "")),
        ("/model work:some-model", Slash("model", "work:some-model")),
        ("/git:commit  a message\nin two lines", Slash("git:commit", "a message\nin two lines")),
        ("exit", Slash("quit", "")),
        ("quit ", Slash("quit", "")),
        ("help", Slash("help", "")),
        ("?", Slash("help", "")),
        (" exit", words("exit")),
        ("exit the loop", words("exit the loop")),
        ("/usr/bin/env is missing", words("/usr/bin/env is missing")),
        ("/ alone", words("/ alone")),
        ("/Help", words("/Help")),
        (" /help as text", words("/help as text")),
        ("//help as text", words("/help as text")),
        ("!ls -l", Shell("ls -l", share=False)),
        ("!! ls -l ", Shell("ls -l", share=True)),
        ("!", words("!")),
        (" !not a command", words("!not a command")),
        ("look at @src/cart.py please", words("look at ", "@src/cart.py", " please")),
        ("@src/cart.py", words("@src/cart.py")),
        ("is it (@README.md)?", words("is it (@README.md)?")),
        ("see @README.md, @src/cart.py.", words("see ", "@README.md", ", ", "@src/cart.py", ".")),
        ('@"a b.txt" and @"nothing"', words("@a b.txt", ' and @"nothing"')),
        ("mail me@README.md or @nobody", words("mail me@README.md or @nobody")),
        ("", None),
        (" \n ", None),
    ],
)
def test_what_is_typed_becomes_a_typed_thing_or_stays_text(typed: str, meaning: Typed) -> None:
    assert parsed(typed) == meaning


@given(st.lists(st.sampled_from([*'/!@ \n"ab.', "README.md", "src/cart.py"]), max_size=30).map("".join))
def test_no_word_is_lost_on_the_way(text: str) -> None:
    meaning = parsed(" " + text)
    if meaning is None:
        assert not text.strip()
        return
    assert isinstance(meaning, Words)
    back = "".join(
        block.text if isinstance(block, TextBlock) else f"@{block.path}"
        for block in meaning.content
        if isinstance(block, TextBlock | FileMention)
    )
    assert back.replace('"', "") == text.strip().replace('"', "")
