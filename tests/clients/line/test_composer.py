"""The draft: what each key does to it, what is folded, what comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.line.composer import (
    Composer,
    Effect,
    Fold,
    Send,
    Wish,
    cleared,
    composer_with,
    press,
    remembered,
    shown,
    text_of,
)
from bridle.clients.line.keys import Key, Paste, Press, Text


def typed(*keys: Key | str, state: Composer | None = None) -> tuple[Composer, list[Effect]]:
    """A draft after these keys; words are typed, names in angle brackets are pressed."""
    state = state or Composer()
    effects: list[Effect] = []
    for key in keys:
        if isinstance(key, str):
            key = Press(key[1:-1]) if key.startswith("<") else Text(key)
        state, effect = press(state, key)
        if effect is not None:
            effects.append(effect)
    return state, effects


def draft(*keys: Key | str) -> str:
    """The text after these keys, with a bar where the cursor stands."""
    state, _ = typed(*keys)
    return shown(state.cells[: state.at]) + "|" + shown(state.cells[state.at :])


@pytest.mark.parametrize(
    ("keys", "after"),
    [
        (("hello",), "hello|"),
        (("hello", "<left>", "<left>", "X"), "helX|lo"),
        (("hello", "<home>", "<right>", "<delete>"), "h|llo"),
        (("hello", "<ctrl-a>", "<backspace>"), "|hello"),
        (("hello", "<ctrl-a>", "<ctrl-d>"), "|ello"),
        (("one two three", "<ctrl-w>"), "one two |"),
        (("one two three", "<alt-b>", "<alt-b>", "<ctrl-k>"), "one |"),
        (("one two", "<ctrl-a>", "<alt-f>", "<ctrl-u>"), "| two"),
        (("one two", "<ctrl-w>", "<ctrl-a>", "<ctrl-y>"), "two|one "),
        (("one", "<ctrl-j>", "two", "<up>"), "one|\ntwo"),
        (("one", "<alt-enter>", "two", "<up>", "<down>", "!"), "one\ntwo!|"),
        (("one", "<ctrl-j>", "two", "<ctrl-u>"), "one\n|"),
        (("a", "<f1>", "<unknown>"), "a|"),
    ],
)
def test_keys_edit_the_draft(keys: tuple[str, ...], after: str) -> None:
    assert draft(*keys) == after


def test_enter_sends_the_draft_whole_and_leaves_it_empty() -> None:
    state, effects = typed("one", "<ctrl-j>", "two", "<enter>")
    assert effects == [Send("one\ntwo", "one\ntwo", tuple("one\ntwo"))]
    assert state.empty


def test_an_empty_draft_is_not_sent() -> None:
    assert typed(" ", "<enter>")[1] == []


def test_ctrl_s_says_it_now() -> None:
    (send,) = typed("stop that", "<ctrl-s>")[1]
    assert isinstance(send, Send)
    assert send.steer


def test_keys_that_are_not_about_the_text_are_passed_on_and_keep_the_draft() -> None:
    state, effects = typed("a", "<ctrl-c>", "<ctrl-z>", "<ctrl-l>")
    assert effects == [Wish("interrupt"), Wish("suspend"), Wish("redraw")]
    assert shown(state.cells) == "a"
    assert typed("<ctrl-d>")[1] == [Wish("leave")]


@pytest.mark.requirement("D13.30")
def test_up_and_down_walk_through_earlier_prompts_and_back_to_the_draft() -> None:
    state = remembered(composer_with(("first", "second")), tuple("third"))
    walk = []
    state, _ = typed("draft", state=state)
    for key in ("up", "up", "up", "up", "down", "down", "down", "down"):
        state, _ = press(state, Press(key))
        walk.append(shown(state.cells))
    assert walk == ["third", "second", "first", "first", "second", "third", "draft", "draft"]


def test_a_cleared_draft_comes_back_with_up() -> None:
    state, _ = typed("half a thought", Paste("x\n" * 20))
    back, _ = typed("<up>", state=cleared(state))
    assert back.cells == state.cells


def test_the_same_prompt_twice_is_remembered_once() -> None:
    state = remembered(remembered(Composer(), tuple("a")), tuple("a"))
    assert state.history == (("a",),)


def test_a_long_paste_is_folded_and_whole_again_when_it_is_sent() -> None:
    text = "\n".join(str(number) for number in range(214))
    assert draft("see ", Paste(text), " ok") == "see [pasted 214 lines] ok|"
    (send,) = typed("see ", Paste(text), Paste("y" * 2001), "<enter>")[1]
    assert send == Send(
        f"see {text}{'y' * 2001}",
        "see [pasted 214 lines][pasted 2001 characters]",
        (*"see ", Fold(text), Fold("y" * 2001)),
    )


def test_the_cursor_jumps_over_a_fold_and_one_backspace_takes_it_away() -> None:
    fold = Paste("a\n" * 30)
    assert draft("x", fold, "<left>") == "x|[pasted 31 lines]"
    assert draft("x", fold, "<backspace>") == "x|"


def test_enter_on_a_fold_or_the_same_paste_again_unfolds_it() -> None:
    fold = Paste("a\n" * 10 + "a")
    assert draft(fold, "<left>", "<enter>") == "a\n" * 10 + "a|"
    assert draft(fold, fold) == "a\n" * 10 + "a|"


def test_a_paste_never_sends_and_what_a_terminal_would_obey_is_written_out() -> None:
    state, effects = typed(Paste("rm -rf /\n\x03\x1b[31m\ty\n"))
    assert effects == []
    assert text_of(state.cells) == "rm -rf /\n⟨U+0003⟩⟨ESC⟩[31m\ty\n"


def test_a_short_paste_is_plain_text() -> None:
    assert draft(Paste("two\nlines")) == "two\nlines|"


NAMES = ["left", "right", "up", "down", "home", "end", "backspace", "delete", "ctrl-w", "ctrl-u", "ctrl-k",
         "ctrl-y", "alt-b", "alt-f", "ctrl-j", "ctrl-c", "ctrl-d", "enter", "tab", "esc"]  # fmt: skip
keys = st.one_of(
    st.text(max_size=5).map(Text), st.text(max_size=40).map(Paste), st.sampled_from(NAMES).map(Press)
)


@given(st.lists(keys, max_size=25))
def test_no_keys_break_the_draft(sequence: list[Key]) -> None:
    state = composer_with(("earlier", "two\nlines"))
    for key in sequence:
        state, effect = press(state, key)
        assert 0 <= state.at <= len(state.cells)
        assert not isinstance(effect, Send) or key == Press("enter")
        shown(state.cells)


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_is_typed_is_what_is_sent(before: str, after: str) -> None:
    state, _ = press(Composer(), Text(before))
    state, _ = press(state, Text(after))
    assert text_of(state.cells) == before + after
