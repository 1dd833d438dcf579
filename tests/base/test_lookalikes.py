# ruff: noqa: RUF001  letters that look like others are what this is about
"""What looks like something else is written out; what people write in their languages is not."""

import re
import string
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from bridle.base.text.lookalikes import lookalike_words, mark_lookalikes
from bridle.base.text.terminal_text import visible
from tables import table

ODD = [
    ("\u0455udo rm x", "⟨U+0455⟩udo rm x"),  # a Cyrillic s
    ("curl https://g\u0456thub.com/x", "curl https://g⟨U+0456⟩thub.com/x"),
    ("cat pay\u03c1al.txt", "cat pay⟨U+03C1⟩al.txt"),  # a Greek p
    (
        "\u0441\u043e\u0440\u0443 a b",
        "⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩⟨U+0443⟩ a b",
    ),  # a program of Cyrillic letters only
    ("https://\u0430\u0440\u0440\u04cf\u0435.com", "https://⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩.com"),
    ("\uff52\uff4d -rf a", "⟨U+FF52⟩⟨U+FF4D⟩ -rf a"),  # wide
    ("\U0001d42c\U0001d42e\U0001d41d\U0001d428 a", "⟨U+1D42C⟩⟨U+1D42E⟩⟨U+1D41D⟩⟨U+1D428⟩ a"),  # mathematical
    ("l\u2170st", "l⟨U+2170⟩st"),  # a Roman number
    ("\u13aacme", "⟨U+13AA⟩cme"),  # Cherokee
    ("caf\xe9s/\xe9\u0441", "caf\xe9s/\xe9⟨U+0441⟩"),
    ("g\u0585t", "g⟨U+0585⟩t"),  # Armenian
    ("https://a.com\u2215b.example", "https://a.com⟨U+2215⟩b.example"),  # a division
    ("rm \u2212rf a", "rm ⟨U+2212⟩rf a"),
    ("rm a\xa0/", "rm a⟨U+00A0⟩/"),
    ("a\u2800b", "a⟨U+2800⟩b"),
    ("a\u0301\u0302\u0303\u0304 b", "a\u0301\u0302⟨U+0303⟩⟨U+0304⟩ b"),
    ("rm -\u0338x", "rm -⟨U+0338⟩x"),  # a stroke through a dash
]


@table(("text", "marked"), ODD)
def test_what_looks_like_something_else_is_written_out(text: str, marked: str) -> None:
    assert mark_lookalikes(text) == marked


ORDINARY = [
    "git commit -m 'größer, naïve, Łódź, İstanbul, Việt Nam'",
    unicodedata.normalize("NFD", "cat größe.txt Việt ñandú"),
    "cat 'Отчёт за год.txt' заметки/план-2024.md README.md",
    "а я и он, сор и роса, и ещё что-то",  # short words of such letters only, among others
    "Ελληνικά: το αρχείο είναι εδώ",
    "Δt = 5 µs; λx: x², πr², Ω, ℝ → ℕ",
    "日本語のファイル.txt ＡＢＣ株式会社 ok",
    "한국어 파일 v2.txt",
    "हिन्दी फ़ाइल, ภาษาไทยgit, עברית, العربيّة, မြန်မာ, བོད་ཡིག",
    "Հայերեն ֆայլ",
    "emoji 👩‍👩‍👧 1️⃣ ✔️",
    "“quotes” and… — done",
]


@table("text", ORDINARY)
def test_what_people_write_stays(text: str) -> None:
    assert mark_lookalikes(text) == text


def test_prose_keeps_its_dashes_and_blanks() -> None:
    assert mark_lookalikes("voilà\xa0! 10\u202f000, a\u2011b \u2212 \u0455udo", prose=True) == (
        "voilà\xa0! 10\u202f000, a\u2011b \u2212 ⟨U+0455⟩udo"
    )


def test_it_is_said_what_each_looks_like() -> None:
    marked = mark_lookalikes("\u0455udo \u0455h a\u2215b\xa0c \U0001d42c\U0001d428 a\u0301\u0302\u0303")
    assert lookalike_words(marked) == (
        "⟨U+0455⟩ looks like s, ⟨U+2215⟩ looks like /, ⟨U+00A0⟩ looks like a blank, "
        "⟨U+1D42C⟩ looks like s, ⟨U+1D428⟩ looks like o"
    )
    assert lookalike_words("plain ⟨U+200B⟩") == ""


ANY = st.text(st.characters(exclude_characters="⟨⟩", exclude_categories=["Cs"]))
TRICKY = st.text(st.sampled_from("sudo/- .0сѕоуρνжλ漢ｒｍ𝐬ⅰ⁄\u0301\u0338\u20e3\xa0\u200b😀\n\t"))


@given(ANY | TRICKY)
@example("\u0395\uff210\u0300\xba")
def test_marking_loses_nothing_and_marking_twice_changes_nothing(text: str) -> None:
    marked = mark_lookalikes(text)
    assert mark_lookalikes(marked) == marked
    assert mark_lookalikes(visible(marked)) == visible(marked)
    assert re.sub(r"⟨U\+([0-9A-F]+)⟩", lambda found: chr(int(found[1], 16)), marked) == text


RUSSIAN = st.text(st.characters(min_codepoint=0x430, max_codepoint=0x44F), min_size=1)
LATIN = st.text(st.characters(max_codepoint=0x17F, categories=["Lu", "Ll"]), min_size=1)


@given(st.lists(RUSSIAN | LATIN.map(lambda word: unicodedata.normalize("NFD", word))))
def test_words_of_one_script_each_stay(words: list[str]) -> None:
    text = " ".join(["журнал", *words])
    assert mark_lookalikes(text) == text


ASCII = st.text(string.ascii_letters, min_size=1)


@given(st.sampled_from("асеорхуѕіј"), ASCII, ASCII)
def test_a_cyrillic_letter_in_a_latin_word_never_passes(letter: str, before: str, after: str) -> None:
    for word in (before + letter, letter + after, before + letter + after):
        assert letter not in mark_lookalikes(f"жж {word}")
