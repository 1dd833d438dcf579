"""The parts of an answer: tables that fit, links that are looked at, code that stays what it is."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.markdown_table import Table, table_of
from bridle.clients.interaction.cells import width_of
from bridle.clients.interaction.render.answer_spans import (
    AnswerSpans,
    address_of,
)
from bridle.clients.interaction.render.edit_rows import coloured_lines, language_of
from tables import table

CELLS = st.text(st.sampled_from("ab `*|\\[](é漢h:"), max_size=30)


def shown(text: str, columns: int) -> str:
    answer = AnswerSpans()
    return "".join(piece.text for piece in (*answer.render(text, columns), *answer.flush(columns)))


def test_cells_are_split_at_bars_that_are_bars() -> None:
    table = table_of("| a | b |\n|:-:|--:|\n| `x|y` | 2 \\| 3 | 4 |\n| 1\n")
    assert table == Table(("centre", "right"), ("a", "b"), (("`x|y`", "2 | 3 | 4"), ("1", "")))


@given(st.lists(st.lists(CELLS, min_size=1, max_size=5), min_size=1, max_size=4), st.integers(12, 60))
def test_a_table_fits_and_loses_no_letter(rows: list[list[str]], columns: int) -> None:
    head, *others = ["|" + "|".join(cell.replace("\n", " ") for cell in row) + "|" for row in rows]
    text = "\n".join((head, "|" + "-|" * len(rows[0]), *others, ""))
    drawn = shown(text, columns)
    assert max(map(width_of, drawn.split("\n"))) < columns
    for letter in "é漢":
        assert drawn.count(letter) >= sum(line.count(letter) for line in (head, *others))


@given(
    st.text(max_size=60), st.sampled_from(["", "https://", "http://a.b/", "src/", "file://", "javascript:"])
)
def test_only_the_web_and_files_of_the_folder_are_opened(text: str, lead: str) -> None:
    address = address_of(lead + text, "/work")
    assert address == "" or re.fullmatch(r"(https?://[A-Za-z0-9.:-]+|file:///work/)[!-~]*", address)
    assert ".." not in address.split("/")


@table(
    ("target", "address"),
    [
        ("https://example.org/a?b=1#c", "https://example.org/a?b=1#c"),
        ("HTTPS://example.org", ""),
        ("https://user@example.org/", ""),
        ("src/cart.py:12", "file:///work/src/cart.py"),
        ("docs/a b.md#L3", "file:///work/docs/a%20b.md"),
        ("/etc/passwd", ""),
        ("a/../../b", ""),
        ("file:///work/x", ""),
        ("//host/x", ""),
        ("data:text/html,x", ""),
    ],
)
def test_where_a_link_leads(target: str, address: str) -> None:
    assert address_of(target, "/work") == address
    assert not address_of(target).startswith("file:")


@given(st.text(max_size=200), st.sampled_from(["py", "js", "sh", "json", "yaml", "html", "rs", "c", "diff"]))
def test_code_is_only_told_apart_never_changed(code: str, language: str) -> None:
    lines = coloured_lines(code, language)
    if lines is not None:
        assert ["".join(text for text, _ in line) for line in lines] == code.split("\n")


def test_code_is_told_apart_by_its_name_and_only_where_it_is_of_ordinary_size() -> None:
    assert language_of("web/app.TSX") == "typescript"
    assert language_of("Makefile") == "make"
    assert language_of("notes") == language_of("a.nosuch") == ""
    assert coloured_lines("x = 1", "nosuch") is None
    assert coloured_lines("x" * 500, "py") is None
    assert coloured_lines("x\n" * 50_000, "py") is None
