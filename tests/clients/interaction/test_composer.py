"""The draft: what each key does to it, what is folded, what comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.composer.composer import (
    Composer,
    Effect,
    Fold,
    Send,
    Wish,
    cleared,
    clusters,
    composer_with,
    press,
    remembered,
    rewritten,
    search_words,
    shown,
    text_of,
)
from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from tables import table


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


@table(
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
        (("one two three", "<ctrl-a>", "<alt-d>"), "| two three"),
        (("one", "<ctrl-j>", "two", "<ctrl-home>", "X", "<ctrl-end>", "Y"), "Xone\ntwoY|"),
        (("one\\", "<enter>", "two"), "one\ntwo|"),
        (("e\u0301x", "<left>", "<backspace>"), "|x"),
        (("e", "\u0301", "<backspace>"), "|"),
        (("a\U0001f469\u200d\U0001f467b", "<left>", "<left>"), "a|\U0001f469\u200d\U0001f467b"),
        (("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "<backspace>"), "\U0001f1e9\U0001f1ea|"),
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


def test_keys_for_the_editor_the_mode_and_completion_are_passed_on() -> None:
    state, effects = typed("a", "<ctrl-g>", "<ctrl-x>", "<ctrl-e>", "<shift-tab>", "<tab>")
    assert effects == [Wish("edit"), Wish("edit"), Wish("mode"), Wish("complete")]
    assert shown(state.cells) == "a"
    assert typed("<tab>")[1] == []
    assert draft("one", "<ctrl-x>", "!") == "one!|", "half a key changes nothing"


def test_what_an_editor_left_is_the_draft_without_anything_a_terminal_would_obey() -> None:
    state = rewritten(Composer(), "one\r\ntwo\x1b[2J\n")
    assert text_of(state.cells) == "one\ntwo⟨ESC⟩[2J"
    assert state.at == len(state.cells)


HISTORY = composer_with(("fix the cart", "list files", "fix the tests"))


def searched(*keys: Key | str) -> tuple[str, str]:
    """What is shown after Ctrl-R and these keys, and what is said about it."""
    state, effects = typed("my draft", "<ctrl-r>", *keys, state=HISTORY)
    assert not any(isinstance(effect, Send) for effect in effects)
    return shown(state.cells), search_words(state.search) if state.search else ""


def test_ctrl_r_finds_earlier_prompts_the_newest_first() -> None:
    assert searched("fix")[0] == "fix the tests"
    assert searched("fix", "<ctrl-r>") == (
        "fix the cart",
        "search: fix   Ctrl-R older · Enter take it · Esc back",
    )
    assert searched("fix", "<ctrl-r>", "<ctrl-r>")[0] == "fix the cart"
    assert searched("FILES", "<enter>") == ("list files", "")
    assert searched("fix", "<ctrl-r>", "<backspace>", "<backspace>", "<backspace>")[0] == "my draft"


def test_a_search_that_finds_nothing_says_so_and_leaving_it_keeps_the_draft() -> None:
    assert searched("zebra")[1] == "search: zebra   no earlier prompt has this · Esc back"
    assert searched("fix", "<esc>") == searched("zebra", "<ctrl-g>") == ("my draft", "")
    state, effects = typed("my draft", "<ctrl-r>", "fix", "<ctrl-c>", state=HISTORY)
    assert (shown(state.cells), effects) == ("my draft", [Wish("interrupt")])


def test_a_key_that_edits_takes_what_was_found_and_edits_it() -> None:
    assert searched("cart", "<home>", "do ") == ("do fix the cart", "")


@pytest.mark.requirement("D13.30")
def test_up_and_down_walk_through_earlier_prompts_and_back_to_the_draft() -> None:
    state = remembered(composer_with(("first", "second")), tuple("third"))
    walk: list[str] = []
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
         "ctrl-y", "alt-b", "alt-f", "alt-d", "ctrl-j", "ctrl-c", "ctrl-d", "enter", "tab", "esc", "ctrl-r",
         "ctrl-x", "ctrl-e", "ctrl-g", "shift-tab"]  # fmt: skip
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


@given(st.text(max_size=40))
def test_a_text_in_cells_is_the_same_text(text: str) -> None:
    assert "".join(clusters(text)) == text
    assert all(cell == "\n" or "\n" not in cell for cell in clusters(text))


@given(st.lists(keys, max_size=25))
def test_leaving_a_search_always_brings_the_draft_back(sequence: list[Key]) -> None:
    state, _ = typed("my draft", "<ctrl-r>", state=HISTORY)
    for key in sequence:
        before = state
        state, _ = press(state, key)
        if state.search is None:
            state = before
    assert shown(press(state, Press("esc"))[0].cells) == "my draft"
