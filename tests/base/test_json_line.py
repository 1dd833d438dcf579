"""JSON that does nothing to a terminal and says the same."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.terminal_text import escaped, json_line, visible
from hostile_text import HOSTILE

TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from(HOSTILE + 'é漢😀"\\ \n'))
VALUES = st.recursive(
    TEXT | st.integers() | st.none(), lambda one: st.lists(one) | st.dictionaries(TEXT, one)
)


@given(VALUES)
def test_the_same_value_comes_back_and_nothing_in_the_line_is_obeyed_or_hidden(value: object) -> None:
    line = json_line(value)
    assert json.loads(line) == msgspec.json.decode(line) == value
    assert line.endswith("\n")
    assert visible(line[:-1], newlines=False) == line[:-1]
    assert escaped(line) == line


def test_ordinary_text_stays_readable() -> None:
    assert json_line({"größe": "漢字 😀"}) == '{"größe":"漢字 😀"}\n'
    assert json_line("\x7f\x9b\u202e\U000e0067") == '"\\u007f\\u009b\\u202e\\udb40\\udc67"\n'
