"""Line numbers of settings, against files whose lines are known because they were counted while writing."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridle.config.settings_file import json_lines, toml_lines

NAMES = st.one_of(
    st.sampled_from(["mode", "a-b", "x1", "a.b", 'q"t', "it's", "#", "[x]", "=", "é", ""]),
    st.text(max_size=3),
).filter(lambda name: "\x7f" not in name and all(ord(letter) > 31 for letter in name))
SCALARS = st.sampled_from(
    ["1", "-2.5", "true", "inf", "1979-05-27 07:32:00", '"plain"', '"a # b"', '"tricky \\" ] }"', "'literal \\'",
     "'''one\ntwo ' '' three'''", '"""\nfour\n"five" \\""" six"""', '""""quoted""""', "[]", "{}"]
)  # fmt: skip


def _bare(name: str) -> str:
    plain = name and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
    return name if plain else json.dumps(name, ensure_ascii=False)


class _Writer:
    """Writes TOML and remembers on which line each key began."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[tuple[str | int, ...], int] = {}

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def note(self, *path: str | int) -> None:
        self.lines.setdefault(path, self.line)


@st.composite
def toml_files(draw: st.DrawFn) -> _Writer:
    """Pairs, tables and lists of tables with inline values, comments and blank lines between them."""
    file = _Writer()
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=6))
    for name in names[:2]:
        _pair(draw, file, (), name)
    for name in names[2:]:
        file.text += draw(st.sampled_from(["", "\n", "# [no.header]\n", "  \t# x = 1\n\n"]))
        if draw(st.booleans()):
            file.note(name)
            file.text += f"[ {_bare(name)} ]{draw(st.sampled_from(['', ' # c']))}\n"
            _pair(draw, file, (name,), "inner")
        else:
            file.note(name)
            for index in range(draw(st.integers(1, 3))):
                file.note(name, index)
                file.text += f"[[{_bare(name)}]]\n"
                _pair(draw, file, (name, index), "first")
                file.note(name, index, "below")
                file.text += f"[{_bare(name)}.below]\n"
                _pair(draw, file, (name, index, "below"), "second")
    return file


def _pair(draw: st.DrawFn, file: _Writer, place: tuple[str | int, ...], name: str) -> None:
    file.note(*place, name)
    if draw(st.booleans()):
        file.text += f"{_bare(name)} = {draw(SCALARS)}\n"
        return
    file.text += f"{_bare(name)} = [\n"
    for index in range(draw(st.integers(0, 2))):
        file.text += draw(st.sampled_from(["", "# ] not yet\n"]))
        file.note(*place, name, index)
        file.note(*place, name, index, "deep")
        file.note(*place, name, index, "deep", "er")
        file.text += f"{{ deep . er = {draw(SCALARS)} }},\n"
    file.text += "]\n"


@given(toml_files())
def test_every_key_of_a_toml_file_is_found_on_its_line(file: _Writer):
    assert paths(tomllib.loads(file.text)) >= set(file.lines)
    found = toml_lines(file.text)
    assert {path: found.get(path) for path in file.lines} == file.lines


def paths(value: Any, place: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {place} if place else set()
    return found.union(*(paths(item, (*place, name)) for name, item in items))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.sampled_from([0, 1, 2]))
def test_every_key_of_a_json_file_is_found_on_its_line(values: dict[str, Any], indent: int):
    text = json.dumps(values, indent=indent)
    found = json_lines(text)
    assert set(found) == paths(values)
    lines = text.split("\n")
    for path, line in found.items():
        if isinstance(path[-1], str):
            assert lines[line - 1].lstrip().startswith(f"{json.dumps(path[-1])}: ")


@given(st.text())
def test_scanning_any_text_returns(text: str):
    assert all(line >= 1 for lines in (toml_lines(text), json_lines(text)) for line in lines.values())


def test_of_a_key_that_stands_twice_in_json_the_last_counts():
    assert json_lines('{"a": 1,\n "a": 2}') == {("a",): 2}


def test_a_header_below_a_list_of_tables_is_about_its_last_entry():
    text = "[[a]]\nx = 1\n[[a]]\n[a.b]\ny = 2\n[[a.c]]\nz = 3\n"
    assert toml_lines(text) == {
        ("a",): 1, ("a", 0): 1, ("a", 0, "x"): 2, ("a", 1): 3, ("a", 1, "b"): 4, ("a", 1, "b", "y"): 5,
        ("a", 1, "c"): 6, ("a", 1, "c", 0): 6, ("a", 1, "c", 0, "z"): 7,
    }  # fmt: skip
