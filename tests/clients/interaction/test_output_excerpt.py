"""A little of what a command printed: first and last lines, colours apart, nothing lost and nothing obeyed."""

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.render.call_text import (
    coloured_parts,
    excerpt,
    last_lines,
    plain_line,
    printed_text,
)
from bridle.protocol import events as e
from bridle.protocol.display_values import ShownCommand
from rows_kit import told
from tables import table

COLOURS = ("\x1b[31m", "\x1b[0;1m", "\x1b[38;5;9m", "\x1b[38;2;1;2;3m", "\x1b[8m", "\x1b[7;41m")
PIECES = st.sampled_from((*COLOURS, "\x1b[2J", "\x1b]0;x\x07", "a", " ", "\x1b", "[", "m", "\x9b"))
ALLOWED = re.compile(
    r"(?:[1-4]|3[0-7]|9[0-7]|38;5;\d*|38;2;\d*;\d*;\d*)(?:;(?:[1-4]|3[0-7]|9[0-7]|38;[\d;]+))*"
)


def result(content: str, exit_code: int | None = 0, lines: int = 0) -> e.ToolResult:
    shown = ShownCommand(exit_code=exit_code, lines=lines)
    return e.ToolResult(call_id="c", tool="bash", outcome="ok", content=content, shown=shown)


@given(st.lists(PIECES).map("".join))
def test_of_a_line_only_the_codes_of_colours_are_taken_out(line: str) -> None:
    parts = list(coloured_parts(line))
    assert "".join(text for text, _ in parts) == re.sub(r"\x1b\[[0-9;:]*m", "", line)
    assert all(not code or ALLOWED.fullmatch(code) for _, code in parts)
    assert plain_line(line) == visible(plain_line(line), newlines=False)


@given(st.text(alphabet="0123456789;:", max_size=30))
def test_every_code_of_colours_is_understood_or_dropped(numbers: str) -> None:
    ((_, code),) = coloured_parts(f"\x1b[{numbers}mtext")
    assert not code or ALLOWED.fullmatch(code)


@given(st.lists(st.text(alphabet="ab \x1b", max_size=5), max_size=60), st.integers(-9, 9))
def test_it_has_the_first_and_the_last_line_and_never_many(lines: list[str], exit_code: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    shown = excerpt(result(text, exit_code, len(lines)))
    assert len(shown) <= (15 if exit_code else 5)
    if kept := text.rstrip("\n").split("\n") if text.strip("\n") else []:
        assert (shown[0], shown[-1]) == (kept[0], kept[-1])


@table(
    ("content", "exit_code", "lines", "shown"),
    [
        ("[no output]\n", 0, 0, []),
        ("[no output]\n", 0, 1, ["[no output]"]),
        ("a\n[exit code 1]\n", 1, 1, ["a"]),
        ("[exit code 1]\n[exit code 1]\n", 1, 1, ["[exit code 1]"]),
        ("a\n[exit code 1]\nThe sandbox kept it from x.\n", 1, 1, ["a", "The sandbox kept it from x."]),
        ("a\n[killed by SIGKILL]\n", -9, 1, ["a"]),
        ("a\r\nb\r\n", 0, 2, ["a", "b"]),
    ],
)
def test_what_says_how_it_ended_is_left_out(
    content: str, exit_code: int, lines: int, shown: list[str]
) -> None:
    assert excerpt(result(content, exit_code, lines)) == shown


def test_the_last_lines_are_plain_words() -> None:
    assert last_lines("1\n2\n3\n4\n5\n\x1b[32m6\x1b[m\nseven") == ["3", "4", "5", "6", "seven"]
    assert last_lines("\n") == []


def test_a_story_tells_a_little_of_it_where_it_is_wanted() -> None:
    many = result("".join(f"\x1b[32mline {number}\x1b[m\n" for number in range(1, 101)), lines=100)
    assert len(told(many)) == 1
    _, *lines = told(many, also={"output"})
    assert lines == ["    line 1", "    line 2", "    … 100 lines", "    line 99", "    line 100"]


def test_of_a_call_that_did_not_run_there_is_no_output() -> None:
    denied = e.ToolResult(call_id="c", tool="bash", outcome="denied", content="no", reason="PermissionDenied")
    assert len(told(denied, also={"output"})) == 1


def test_how_to_read_the_rest_is_told_to_people_in_their_words() -> None:
    marker = '[… 70000 bytes left out; read_file with path "output:call_1", offset and limit shows them]'
    cut = e.ToolResult(
        call_id="call_1",
        tool="bash",
        outcome="ok",
        content=f"first\n{marker}\nlast\n[exit code 2]\n",
        shown=ShownCommand(exit_code=2, lines=9000),
        metadata={"truncated": True},
    )
    assert printed_text(cut) == "first\n… 70000 bytes more: /output\nlast\n"
    own = msgspec.structs.replace(cut, metadata={})
    assert marker in printed_text(own)  # a command that prints such a line itself
