"""Two texts compared: what is told of a change is enough to make the new text of the old one."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.line_diff import COMPARED_LINES, DiffLine, line_diff, lines_of

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "same", "other"]), max_size=40)


@given(LINES, LINES)
def test_the_change_leads_from_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    diff = line_diff(old, new)
    if old == new:
        assert diff.lines == ()
        return
    made: list[str] = []
    at = 0
    for line in diff.lines:
        match line:
            case DiffLine("…", number):
                made += old[at : at + number]
                at += number
            case DiffLine("+", number, text):
                assert new[number - 1] == text
                made.append(text)
            case DiffLine("-", number, text):
                assert (number, old[number - 1]) == (at + 1, text)
                at += 1
            case DiffLine(" ", number, text):
                assert (new[number - 1], old[at]) == (text, text)
                made.append(text)
                at += 1
    assert made == new
    assert diff.added - diff.removed == len(new) - len(old)


def test_of_texts_too_long_to_compare_all_between_the_first_and_the_last_difference_goes_and_comes() -> None:
    old = [str(number) for number in range(COMPARED_LINES + 1)]
    for new, added, removed in (
        ([*old, "more"], 1, 0),
        (old[1:], 0, 1),
        ([*old[:5], "x", *old[6:9], "y", *old[10:]], 5, 5),
        (["x", *old[1:-1], "y"], len(old), len(old)),
        (old * 2, len(old), 0),
        ([], 0, len(old)),
    ):
        diff = line_diff(old, new)
        assert (diff.added, diff.removed) == (added, removed)


def test_line_ends_of_windows_are_line_ends() -> None:
    assert lines_of("a\r\nb\r\n") == lines_of("a\nb\n") == lines_of("a\nb") == ["a", "b"]
    assert lines_of("") == []
