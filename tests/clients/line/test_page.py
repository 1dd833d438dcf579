"""The paper: what was printed stays, the prompt stays below it, and no width or split changes the words."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.cells import chopped, width_of, wrapped
from bridle.clients.line.page import Ink, Page, Prompt
from clients.line.line_kit import Glass


class Sheet:
    """A page on an emulated terminal."""

    def __init__(self, columns: int, *, moves: bool = True) -> None:
        self.glass = Glass(columns)
        self.written: list[str] = []
        self.page = Page(self._write, columns=lambda: self.glass.columns, moves=moves)

    def _write(self, text: str) -> None:
        self.written.append(text)
        self.glass.write(text.replace("\n", "\r\n"))

    @property
    def text(self) -> str:
        return self.glass.text


def typing(text: str, *hints: str, at: int | None = None) -> Prompt:
    return Prompt(lead="> ", cells=tuple(text), at=len(text) if at is None else at, hints=hints)


def test_text_streams_above_the_line_being_typed() -> None:
    sheet = Sheet(40)
    sheet.page.prompt(typing("my draft"))
    for part in ("Hello ", "wor", "ld.\nSecond", " line"):
        sheet.page.stream(Ink(part))
    assert sheet.text == "Hello world.\nSecond line\n> my draft\n"
    sheet.page.prompt(typing("my draft, longer"))
    sheet.page.line(Ink("a whole line"))
    assert sheet.text == "Hello world.\nSecond line\na whole line\n> my draft, longer\n"
    assert (sheet.glass.row, sheet.glass.column) == (3, 18)


def test_the_cursor_stands_where_the_person_edits() -> None:
    sheet = Sheet(20)
    sheet.page.prompt(typing("one\ntwo three four five six", at=2))
    assert sheet.text == "> one\n  two three four fi\nve six\n"
    assert (sheet.glass.row, sheet.glass.column) == (0, 4)
    sheet.page.prompt(typing("日本", "a hint", at=1))
    assert sheet.text == "a hint\n> 日本\n"
    assert (sheet.glass.row, sheet.glass.column) == (1, 4)


def test_leaving_takes_the_prompt_away_and_nothing_else() -> None:
    sheet = Sheet(30)
    sheet.page.stream(Ink("an answer"))
    sheet.page.prompt(typing("draft\nin two", "hint"))
    sheet.page.leave()
    assert sheet.text == "an answer\n"
    assert sheet.glass.column == 0


def test_a_row_is_broken_at_a_blank_also_inside_a_style() -> None:
    sheet = Sheet(12)
    sheet.page.stream(Ink("one "), Ink("two three", "\x1b[1m"), Ink(" abcdefghijklmnop"))
    sheet.page.end()
    sheet.page.leave()
    assert sheet.text == "one two\nthree\nabcdefghijk\nlmnop\n"


def test_without_cursor_movement_everything_is_appended() -> None:
    sheet = Sheet(40, moves=False)
    sheet.page.prompt(typing("ab"))
    sheet.page.prompt(typing("abc"))
    sheet.page.prompt(typing("ab"))
    sheet.page.line(Ink("news"))
    sheet.page.prompt(typing("abd"))
    sheet.page.stream(Ink("Hel"))
    sheet.page.stream(Ink("lo"))
    sheet.page.end()
    assert "\x1b" not in "".join(sheet.written)
    assert sheet.text == "> ab\nnews\n> abd\nHello\n"


actions = st.lists(
    st.one_of(
        st.text(alphabet="ab cde\n日", max_size=30).map(lambda text: ("stream", text)),
        st.text(alphabet="xyz ", min_size=1, max_size=30).map(lambda text: ("line", text)),
        st.text(alphabet="pqr \n", max_size=50).map(lambda text: ("prompt", text)),
    ),
    max_size=20,
)


@given(actions, st.integers(10, 60))
def test_whatever_happens_every_printed_word_is_there_once_and_in_order(
    sequence: list[tuple[str, str]], columns: int
) -> None:
    sheet = Sheet(columns)
    printed = ""
    for what, text in sequence:
        match what:
            case "stream":
                sheet.page.stream(Ink(text))
                printed += text
            case "line":
                sheet.page.line(Ink(text))
                printed += "\n" + text + "\n"
            case _:
                sheet.page.prompt(typing(text, at=len(text) // 2))
    sheet.page.leave()
    assert sheet.text.replace("\n", "").replace(" ", "") == printed.replace("\n", "").replace(" ", "")
    assert all(width_of(line) <= columns for line in sheet.text.splitlines())
    assert "\x1b[2J" not in "".join(sheet.written)


@given(st.text(alphabet="ab 日\u0301", max_size=80), st.integers(2, 30))
def test_rows_hold_every_character_but_the_blank_at_a_break(text: str, columns: int) -> None:
    rows = list(wrapped(text, columns))
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
    assert all(width_of(row) <= columns for row in rows)
    assert "".join(chopped(text, columns)) == text


def test_a_line_without_end_is_broken_in_little_time() -> None:
    sheet = Sheet(80)
    sheet.page.stream(Ink("x" * 200_000))
    sheet.page.leave()
    assert sheet.text.count("x") == 200_000
