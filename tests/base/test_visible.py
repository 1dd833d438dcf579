import re
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text import terminal_text as visible_module
from bridle.base.text.terminal_text import hidden_characters, visible
from tables import table

# Format characters that show: Unicode's "prepended concatenation marks".
VISIBLE_MARKS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def is_obeyed_or_hidden(character):
    kinds = {"Cc", "Cf", "Zl", "Zp", "Cs"}
    return unicodedata.category(character) in kinds and ord(character) not in VISIBLE_MARKS


@table(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "⟨ESC⟩[31mred⟨ESC⟩[0m"),
        ("\x1b]0;title\x07", "⟨ESC⟩]0;title⟨BEL⟩"),
        ("\x9b2J", "⟨U+009B⟩2J"),
        ("harmless\rrm -rf /", "harmless⟨CR⟩rm -rf /"),
        ("a\x08b\x00\x7f", "a⟨BS⟩b⟨NUL⟩⟨DEL⟩"),
        ("if access\u202e\u2066 // admin", "if access⟨U+202E⟩⟨U+2066⟩ // admin"),
        ("zero\u200bwidth\ufeff\u2060", "zero⟨U+200B⟩width⟨U+FEFF⟩⟨U+2060⟩"),
        ("tag\U000e0041\U000e0042", "tag⟨U+E0041⟩⟨U+E0042⟩"),
        ("line\u2028par\u2029", "line⟨U+2028⟩par⟨U+2029⟩"),
        ("half \ud83d", "half ⟨U+D83D⟩"),
        ("soft\u00adhyphen\u3164filler", "soft⟨U+00AD⟩hyphen⟨U+3164⟩filler"),
        ("a\ufe0fb\ufe01\U000e0100", "a⟨U+FE0F⟩b⟨U+FE01⟩⟨U+E0100⟩"),
        ("😀\ufe0f\ufe0f\ufe0e", "😀\ufe0f⟨U+FE0F⟩⟨U+FE0E⟩"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("😀\u200d", "😀⟨U+200D⟩"),
        ("\u200d😀", "⟨U+200D⟩😀"),
        ("\ufe0f\u200d😀", "⟨U+FE0F⟩⟨U+200D⟩😀"),
        ("1\ufe0f2", "1⟨U+FE0F⟩2"),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_written_out(text, shown):
    assert visible(text) == shown


@table(
    "text",
    [
        "",
        "plain\n\ttext",
        "Größe naïve café 漢字 한글 עברית العربية हिन्दी",
        "e\u0301 combining, “quotes” — dashes…",
        "😀 👍🏽 ❤️ ☎︎ ©️ 1️⃣ #️⃣ 🇫🇷",
        "👩‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🧑‍⚕️ ❤️‍🔥 🐈‍⬛ 🏴‍☠️",
        "no\u00a0break and\u3000wide spaces",
    ],
)
def test_ordinary_text_and_emoji_stay(text):
    assert visible(text) == text
    assert hidden_characters(text) == []


def test_line_feeds_can_be_written_out_too():
    assert visible("a\nb\tc", newlines=False) == "a⟨LF⟩b\tc"


def test_every_control_and_format_character_of_unicode_is_written_out():
    missed = [
        f"{code:x}"
        for code in range(sys.maxunicode + 1)
        if is_obeyed_or_hidden(chr(code))
        and chr(code) not in "\n\t"
        and visible(f"a{chr(code)}b") == f"a{chr(code)}b"
    ]
    assert missed == []


ODD = st.sampled_from(
    [
        "\x1b",
        "\r",
        "\n",
        "\t",
        "\x9b",
        "\u200b",
        "\u200d",
        "\ufe0f",
        "\ufe0e",
        "😀",
        "❤",
        "1",
        "\u20e3",
        "\u202e",
        "\ud800",
        "🏽",
    ]
)
TEXTS = st.lists(st.one_of(ODD, st.characters(exclude_categories=())), max_size=20).map("".join)


@given(text=TEXTS, newlines=st.booleans())
def test_nothing_obeyed_or_hidden_remains_and_showing_twice_changes_nothing(text, newlines):
    shown = visible(text, newlines=newlines)
    allowed = {"\t", "\u200d"} | ({"\n"} if newlines else set())
    assert [c for c in shown if is_obeyed_or_hidden(c) and c not in allowed] == []
    assert visible(shown, newlines=newlines) == shown
    shown.encode()


@given(text=TEXTS)
def test_a_joiner_that_stays_has_an_emoji_on_either_side(text):
    shown = visible(text)
    for at, character in enumerate(shown):
        if character == "\u200d":
            before = shown[:at].removesuffix("\ufe0f")[-1]
            assert unicodedata.category(before) in {"So", "Sk", "Sm", "Po", "Ps", "Pe", "Cn", "Ll"}
            assert unicodedata.category(shown[at + 1]) in {"So", "Sk", "Sm", "Po", "Ps", "Pe", "Cn", "Ll"}


def test_hidden_characters_are_listed_with_their_lines():
    text = "first\r\nse\u200bcond\n\n\x1b[0m\U000e0041"
    assert hidden_characters(text) == [(2, 0x200B), (4, 0x1B), (4, 0xE0041)]


@given(text=TEXTS)
def test_the_list_of_hidden_characters_is_empty_exactly_when_nothing_is_written_out(text):
    without_windows_line_ends = text.replace("\r\n", "\n")
    assert (hidden_characters(text) == []) == (
        visible(without_windows_line_ends) == without_windows_line_ends
    )


def test_every_suspect_character_is_written_out_however_printable_python_finds_it():
    suspects = re.compile(f"[{visible_module._SUSPECT}]")
    hidden = [chr(code) for code in range(0x110000) if suspects.match(chr(code))]
    assert [character for character in hidden if visible(f"a{character}b") == f"a{character}b"] == []
