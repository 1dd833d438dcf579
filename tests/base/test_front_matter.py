"""Front matter is read strictly and within bounds, whatever stands there."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.text.front_matter import (
    MAX_CHARACTERS,
    BadFrontMatter,
    FrontMatter,
    read_front_matter,
    with_front_matter,
)
from effort import examples
from tables import table


def front(*lines: str) -> str:
    return "\n".join(("---", *lines, "---", "body", ""))


def test_values_stay_as_they_are_written_and_the_body_follows():
    found = read_front_matter(
        front("name: a", "when: 2026-01-01", "on: yes", "v: 1.10", "list: [a, 'b']", "t:", "  deep: {x: y}")
    )
    assert found == FrontMatter(
        values={
            "name": "a",
            "when": "2026-01-01",
            "on": "yes",
            "v": "1.10",
            "list": ["a", "b"],
            "t": {"deep": {"x": "y"}},
        },
        lines={"name": 2, "when": 3, "on": 4, "v": 5, "list": 6, "t": 7},
        body="body\n",
        body_line=10,
    )


@table(
    ("text", "line", "problem"),
    [
        ("", 1, "the file must begin with a line ---"),
        ("name: a\n---\n", 1, "the file must begin with a line ---"),
        ("---\nname: a\n", 1, "no second line --- ends the front matter"),
        (front("a: &x b", "c: *x"), 2, "anchors and aliases (& and *) are not read; quote the text"),
        (front("a: b", "c: !!python/object/apply:os.getpid []"), 3, "tags (!) are not read; quote the text"),
        (front("a: [1", "b: 2"), 3, "expected ',' or ']', but got ':'"),
        (front("a: b", "a: c"), 3, "this name stands there twice"),
        (front("? [a, b]", ": c"), 2, "a name must be a plain word"),
        (front("- a"), 2, "the front matter is no table of `name: value` lines"),
        (front("a: " + "[" * 50), 2, "it is nested too deep or has too many values"),
        (
            front(*["a: " + "x" * 1000] * 17),
            1,
            f"the front matter has more than {MAX_CHARACTERS:,} characters",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, line: int, problem: str):
    with pytest.raises(BadFrontMatter) as bad:
        read_front_matter(text)
    assert (bad.value.line, str(bad.value)[: len(problem)]) == (line, problem)


def test_a_text_with_a_colon_is_meant_as_a_text_and_that_is_told():
    found = read_front_matter(front("name: a", "description: Use it: often", "b: 'x'"))
    assert found.values["description"] == "Use it: often"
    assert found.mended == (3,)


@given(st.text(alphabet=st.sampled_from("ab:-*&![]{}'\"|>#, \n\t?%\\"), max_size=200))
def test_any_text_is_read_or_refused_by_a_reason(text: str):
    try:
        found = read_front_matter(f"---\n{text}\n---\nrest")
    except BadFrontMatter as bad:
        assert bad.line >= 1
        assert str(bad)
    else:
        assert all(isinstance(key, str) for key in found.values)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,20}", fullmatch=True),
        st.text(
            st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\ufeff"),
            max_size=40,
        ),
        max_size=8,
    )
)
def test_quoted_texts_come_back_as_they_were(values: dict[str, str]):
    lines = [f"{key}: '{value.replace(chr(39), chr(39) * 2)}'" for key, value in values.items()]
    if any(value != value.strip() or not value.isprintable() for value in values.values()):
        return
    if values:
        assert read_front_matter(front(*lines)).values == values


@table(
    "text",
    [
        "---\na: " + "[" * 16_000 + "\n---\n",
        "---\n" + "".join(f"k{at}: b: c\n" for at in range(1_000)) + "---\n",
        "---\na: b\n" + "\n" * 60_000 + "---\n",
    ],
)
def test_no_front_matter_takes_long_to_read(text: str) -> None:
    began_s = time.process_time()
    for _ in range(10):
        with pytest.raises(BadFrontMatter):
            read_front_matter(text)
    assert time.process_time() - began_s < 1


def test_brackets_that_something_follows_are_meant_as_a_text():
    found = read_front_matter(front("argument-hint: [issue] [priority]", "tags: [a, b]"))
    assert found.values == {"argument-hint": "[issue] [priority]", "tags": ["a", "b"]}
    assert found.mended == (2,)


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20) | st.sampled_from(
    [
        "a: b",
        "x #y",
        "[a",
        "- a",
        "yes",
        "null",
        "1",
        "'",
        '"',
        " a ",
        "a:",
        "é",
        "{}",
        "&a",
        "*a",
        "!a",
        "\u2028",
        "\x85",
    ]
)
NAMES = st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True)


@settings(max_examples=examples(50))
@given(
    st.dictionaries(
        NAMES,
        TEXTS
        | st.lists(TEXTS, min_size=1, max_size=3)
        | st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
)
def test_what_is_written_is_read_again_and_what_is_empty_is_left_out(values, body):
    written = with_front_matter(values, body)
    kept = {
        name: {key: one for key, one in value.items() if one} if isinstance(value, dict) else value
        for name, value in values.items()
    }
    found = read_front_matter(written)
    assert found.values == {name: value for name, value in kept.items() if value}
    assert found.body == f"\n{body}"
    assert found.mended == ()
