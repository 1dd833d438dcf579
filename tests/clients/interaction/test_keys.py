"""Bytes of a terminal as keys: every key of the table, and nothing that depends on where reads are cut."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from bridle.clients.line.terminal_keys import KeyDecoder, LineDecoder
from tables import table


def decoded(*chunks: bytes) -> list[Key]:
    decoder = KeyDecoder()
    keys: list[Key] = []
    for chunk in chunks:
        for key in decoder.feed(chunk):
            if keys and isinstance(key, Text) and isinstance(keys[-1], Text):
                keys[-1] = Text(keys[-1].text + key.text)
            else:
                keys.append(key)
    return keys + decoder.settle()


@table(
    ("data", "name"),
    [
        (b"\r", "enter"),
        (b"\n", "ctrl-j"),
        (b"\t", "tab"),
        (b"\x7f", "backspace"),
        (b"\x08", "backspace"),
        (b"\x01", "ctrl-a"),
        (b"\x03", "ctrl-c"),
        (b"\x1a", "ctrl-z"),
        (b"\x1b[A", "up"),
        (b"\x1bOB", "down"),
        (b"\x1b[C", "right"),
        (b"\x1b[D", "left"),
        (b"\x1b[H", "home"),
        (b"\x1bOF", "end"),
        (b"\x1b[1~", "home"),
        (b"\x1b[4~", "end"),
        (b"\x1b[3~", "delete"),
        (b"\x1b[5~", "page-up"),
        (b"\x1b[Z", "shift-tab"),
        (b"\x1b[1;5C", "ctrl-right"),
        (b"\x1b[1;3D", "alt-left"),
        (b"\x1b[13;2u", "shift-enter"),
        (b"\x1b[27;2;13~", "shift-enter"),
        (b"\x1b\r", "alt-enter"),
        (b"\x1b\n", "alt-enter"),
        (b"\x1bb", "alt-b"),
        (b"\x1bf", "alt-f"),
        (b"\x1b\x7f", "alt-backspace"),
        (b"\x1b", "esc"),
        (b"\x1b[99;99X", "unknown"),
        (b"\x1b[12", "unknown"),
        (b"\x1b[" + b"1" * 60, "unknown"),
        (b"\x1c", "unknown"),
    ],
)
def test_a_key_has_one_name(data: bytes, name: str) -> None:
    keys = decoded(data)
    assert keys[0] == Press(name)
    assert all(isinstance(key, Text) for key in keys[1:])


def test_two_escapes_are_two_escapes() -> None:
    assert decoded(b"\x1b\x1b") == [Press("esc"), Press("esc")]


def test_a_character_cut_in_the_middle_is_one_character() -> None:
    assert decoded(b"caf\xc3", b"\xa9") == [Text("café")]
    assert decoded(b"\xff") == [Text("\ufffd")]


def test_a_marked_paste_is_one_thing_whatever_is_in_it() -> None:
    assert decoded(b"a\x1b[200~y\r\x03\x1b[A\x1b", b"[201~b") == [
        Text("a"),
        Paste("y\n\x03\x1b[A"),
        Text("b"),
    ]
    assert decoded(b"\x1b[200~one\r\ntwo") == [], "a paste that has not ended is not read as keys"


def test_many_characters_in_one_read_are_a_paste_where_the_terminal_does_not_mark_it() -> None:
    assert decoded(b"y\r" * 25) == [Paste("y\n" * 25)]
    assert decoded(b"y\r" * 2) == [Text("y"), Press("enter"), Text("y"), Press("enter")]


KEYS = [
    b"\x1b[A", b"\x1bOD", b"\x1b[1;5C", b"\x1b[3~", b"\r", b"\x03", b"\x1bb", b"\x1b\r",
    b"\x1b[200~a\rb\x1b[201~", "é".encode(), b"x y", b"\x1b[77q",
]  # fmt: skip


@given(st.lists(st.sampled_from(KEYS), max_size=8), st.data())
def test_where_a_read_is_cut_changes_nothing(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)[:49]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert decoded(*chunks) == decoded(whole)


@given(st.binary(max_size=49))
def test_any_bytes_become_keys_and_text_never_holds_what_a_terminal_obeys(data: bytes) -> None:
    for key in decoded(data):
        if isinstance(key, Text):
            assert key.text
            assert all(ord(character) >= 32 and not 0x7F <= ord(character) <= 0x9F for character in key.text)


def test_input_that_is_no_terminal_comes_in_lines() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"one\r\n\ntw") == [Text("one"), Press("enter"), Press("enter")]
    assert decoder.feed(b"o") == []
    assert decoder.settle() == [Text("two"), Press("enter")]
    assert decoder.settle() == []
