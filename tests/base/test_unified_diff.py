"""Diffs that `patch` would take: applied to the old text they give the new one."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.line_diff import Diff, diff_of

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-d", "+e", "é"]), max_size=30)


def applied(old: str, diff: str) -> str:
    """A small, strict reader of the unified format."""
    source = old.splitlines(keepends=True)
    result: list[str] = []
    at = 0
    lines = diff.split("\n")[2:-1]
    for index, line in enumerate(lines):
        ended = not (index + 1 < len(lines) and lines[index + 1].startswith("\\"))
        if header := re.match(r"@@ -(\d+)(?:,(\d+))? \+", line):
            start = int(header[1]) - (header[2] != "0")
            result += source[at:start]
            at = start
        elif line.startswith("\\"):
            continue
        elif line.startswith("+"):
            result.append(line[1:] + ("\n" if ended else ""))
        else:
            assert source[at] == line[1:] + ("\n" if ended else "")
            if line.startswith(" "):
                result.append(source[at])
            at += 1
    return "".join((*result, *source[at:]))


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_applied_to_the_old_text_gives_the_new_one(before, after, old_ended, new_ended) -> None:
    old = "\n".join(before) + ("\n" if old_ended and before else "")
    new = "\n".join(after) + ("\n" if new_ended and after else "")
    diff = diff_of("f", old, new)
    assert (applied(old, diff.text) if diff.text else old) == new
    assert new.count("\n") - old.count("\n") in range(
        diff.added - diff.removed - 1, diff.added - diff.removed + 2
    )


def test_only_the_neighbourhood_of_a_change_is_shown() -> None:
    old = "".join(f"{n}\n" for n in range(1, 10_001))
    diff = diff_of("f", old, old.replace("5000\n", "five thousand\n"))
    assert diff.text == (
        "--- a/f\n+++ b/f\n@@ -4997,7 +4997,7 @@\n 4997\n 4998\n 4999\n-5000\n+five thousand\n"
        " 5001\n 5002\n 5003\n"
    )
    assert (diff.added, diff.removed) == (1, 1)


def test_the_same_text_has_no_diff() -> None:
    assert diff_of("f", "a\n", "a\n") == Diff("", 0, 0)
