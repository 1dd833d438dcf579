"""A pattern that is compiled later is like one that was compiled at once."""

import importlib
import re
from pathlib import Path

import pytest

import bridle
from bridle.base.regex import compiled_later

SOURCE = Path(bridle.__file__).parent


@pytest.mark.parametrize("flags", [0, re.IGNORECASE, re.MULTILINE | re.DOTALL])
def test_it_finds_what_the_compiled_one_finds(flags: int) -> None:
    text = "one\nTwo two\n"
    later, now = compiled_later(r"^(t\w+).", flags), re.compile(r"^(t\w+).", flags)
    assert later.findall(text) == now.findall(text)
    assert later.sub("-", text) == now.sub("-", text)
    assert (later.search(text) is None) == (now.search(text) is None)
    assert (later.pattern, later.flags, later.groups) == (now.pattern, now.flags, now.groups)


def test_it_takes_bytes() -> None:
    found = compiled_later(rb"[0-9]+").search(b"a 12")
    assert found is not None
    assert found[0] == b"12"


def test_a_wrong_pattern_fails_when_it_is_used() -> None:
    wrong = compiled_later("(")
    with pytest.raises(re.error):
        wrong.search("")


def test_every_pattern_of_ours_is_right() -> None:
    checked = 0
    for file in SOURCE.rglob("*.py"):
        wanted = re.findall(
            r"^(\w+)(?:: Final)? = compiled_later\(", file.read_text(encoding="utf-8"), re.MULTILINE
        )
        if not wanted:
            continue
        module = importlib.import_module(
            ".".join(("bridle", *file.relative_to(SOURCE).with_suffix("").parts))
        )
        for name in wanted:
            assert isinstance(getattr(module, name).groups, int), f"{file.name}: {name}"
            checked += 1
    assert checked > 20
