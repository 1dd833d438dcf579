"""Tab: what it puts in, what it offers, and that it never takes away what was typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.composer.composer import Composer, clusters, text_of
from bridle.clients.interaction.composer.word_completion import SHOWN_MAX, closest, completed, options_words
from tables import table

NAMES = ("help", "mode", "model", "resume", "rename", "quit", "skills:write")
PATHS = (
    "README.md",
    "src/",
    "notes one.txt",
    "src/bridle/",
    "src/bridle/cart.py",
    "src/bridle/cost.py",
    "tests/",
)


def choices(name: str, at: int) -> tuple[str, ...]:
    return {("mode", 0): ("plan", "safe", "strict"), ("skills:write", 1): ("now",)}.get((name, at), ())


def after_tab(text: str, at: int | None = None) -> tuple[str, tuple[str, ...]]:
    cells = clusters(text)
    composer = Composer(cells=cells, at=len(cells) if at is None else at)
    found = completed(composer, names=NAMES, choices=choices, paths=lambda: PATHS)
    return text_of(found.composer.cells), found.options


@pytest.mark.requirement("G46.1")
@table(
    ("typed", "text", "options"),
    [
        ("/he", "/help ", ()),
        ("/mo", "/mode", ("/mode", "/model")),
        ("/mode", "/mode", ("/mode", "/model")),
        ("/r", "/re", ("/rename", "/resume")),
        ("/sk", "/skills:", ()),
        ("/skills:", "/skills:write ", ()),
        ("/model", "/model ", ()),
        ("/", "/", ("/help", "/mode", "/model", "/quit", "/rename", "/resume", "/skills:")),
        ("/ql", "/ql", ()),
        ("/qt", "/quit ", ()),
        ("/zz", "/zz", ()),
        ("see /he", "see /he", ()),
        ("@REA", "@README.md ", ()),
        ("look at @sr", "look at @src/", ()),
        ("@src/", "@src/bridle/", ()),
        ("@src/bridle/c", "@src/bridle/c", ("@src/bridle/cart.py", "@src/bridle/cost.py")),
        ("@cart", "@src/bridle/cart.py ", ()),
        ("@notes", '@"notes one.txt" ', ()),
        ('@"notes o', '@"notes one.txt" ', ()),
        ("@nothing-like-it", "@nothing-like-it", ()),
        ("plain words", "plain words", ()),
        ("/mode p", "/mode plan ", ()),
        ("/mode s", "/mode s", ("safe", "strict")),
        ("/mode ", "/mode ", ("plan", "safe", "strict")),
        ("/mode plan p", "/mode plan p", ()),
        ("/mode zz", "/mode zz", ()),
        ("/skills:write one n", "/skills:write one now ", ()),
        ("mode p", "mode p", ()),
    ],
)
def test_tab_puts_in_what_is_certain_and_offers_the_rest(
    typed: str, text: str, options: tuple[str, ...]
) -> None:
    assert after_tab(typed) == (text, options)


def test_what_stands_behind_the_cursor_stays() -> None:
    assert after_tab("/he now", at=3)[0] == "/help  now"


def test_a_long_list_is_cut_and_says_so() -> None:
    assert options_words([f"/{n}" for n in range(SHOWN_MAX + 3)]).endswith("   … 3 more")


@table(("name", "near"), [("modle", "mode"), ("hlep", "help"), ("res", "resume"), ("zebra", None)])
def test_the_closest_name_is_found(name: str, near: str | None) -> None:
    assert closest(name, NAMES) == near


words = st.text(alphabet='/@ab "\n.re', max_size=12)


@given(words, st.lists(st.text(alphabet="abre/. ", min_size=1, max_size=6), max_size=6), st.integers(0, 12))
def test_tab_changes_only_the_word_before_the_cursor(text: str, paths: list[str], at: int) -> None:
    cells = clusters(text)
    at = min(at, len(cells))
    found = completed(
        Composer(cells=cells, at=at), names=paths, choices=lambda _name, _at: (), paths=lambda: paths
    )
    after = text_of(found.composer.cells)
    assert after.endswith(text[at:])
    assert 0 <= found.composer.at <= len(found.composer.cells)
