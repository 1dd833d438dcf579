"""What a terminal may be sent: colours, codes, plain words, and how it calls for somebody."""

import os

from bridle.clients.line.terminal import Look, Terminal, look_of
from clients.line.line_kit import Person
from tables import table


@table(
    ("env", "codes", "colour", "reader"),
    [
        ({"TERM": "xterm"}, True, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, True, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, False, False),
        ({}, False, False, False),
        ({"TERM": "xterm", "ACCESSIBLE": "1"}, False, False, True),
    ],
)
def test_the_environment_says_what_may_be_sent(
    env: dict[str, str], codes: bool, colour: bool, reader: bool
) -> None:
    look = look_of(env, terminal=True)
    assert (look.codes, look.moves, look.colour, look.reader) == (codes, codes, colour, reader)


def test_a_pipe_gets_no_codes_and_plain_is_for_people_who_listen() -> None:
    assert not look_of({"TERM": "xterm", "FORCE_COLOR": "1"}, terminal=False).codes
    assert look_of({"TERM": "xterm"}, terminal=True, plain=True) == Look(reader=True)
    assert look_of({"TERM": "xterm", "BRIDLE_PLAIN": "1"}, terminal=True) == Look(reader=True)


@table(("lang", "unicode"), [("C", False), ("POSIX", False), ("", True), ("de_DE.UTF-8", True)])
def test_a_terminal_without_unicode_is_told_by_its_locale(lang: str, unicode: bool) -> None:
    assert look_of({"LANG": lang}, terminal=True).unicode is unicode


async def written(look: Look, text: str, *, notify: bool = False) -> bytes:
    person = Person(80, 24, None)
    try:
        terminal = Terminal(input_fd=person.slave, output_fd=person.slave, look=look)
        assert (terminal.columns, terminal.rows) == (80, 24)
        if notify:
            terminal.notify(text)
        else:
            terminal.write(text)
        terminal.write("|")
        await person.waits(lambda: person.bytes.endswith(b"|"), "the end")
        return person.bytes[:-1]
    finally:
        person.close()


async def test_without_unicode_marks_become_letters_everybody_has() -> None:
    assert await written(Look(unicode=False), "\u203a a · b… ☂") == b"> a - b... ?"
    assert await written(Look(unicode=False), "├ rm a └ make 9k → 3k") == b"+ rm a + make 9k -> 3k"


@table(
    ("env", "sent"),
    [
        ({"TERM": "xterm"}, b"\x07"),
        ({"TERM": "dumb"}, b"\x07"),
        ({"TERM": "xterm", "TERM_PROGRAM": "WezTerm"}, b"\x07\x1b]9;needs you\x07"),
        ({"TERM": "foot"}, b"\x07\x1b]777;notify;Bridle;needs you\x07"),
        (
            {"TERM": "xterm", "TERM_PROGRAM": "ghostty", "TMUX": "x"},
            b"\x07\x1bPtmux;\x1b\x1b]9;needs you\x07\x1b\\",
        ),
    ],
)
async def test_it_rings_and_says_why_where_the_terminal_can(env: dict[str, str], sent: bytes) -> None:
    person = Person(80, 24, None)
    read, write = os.pipe()
    try:
        terminal = Terminal(input_fd=person.slave, output_fd=write, look=look_of(env, terminal=True))
        terminal.notify("needs you")
        assert os.read(read, 1000) == sent
    finally:
        os.close(read)
        os.close(write)
        person.close()


def test_a_reader_that_went_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    terminal = Terminal(input_fd=write, output_fd=write, look=Look())
    terminal.write("nobody reads this")
    terminal.write("nor this")
    os.close(write)
