"""The list of sessions to resume: what it shows, how it is narrowed, what Enter picks."""

import asyncio
import os

from bridle.clients.interaction.cells import width_of
from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from bridle.clients.interaction.composer.picker import (
    Choice,
    Deed,
    Gone,
    Listed,
    Picked,
    Picker,
    picker_lines,
    press,
)
from bridle.clients.line.live_terminal import pick
from bridle.clients.line.terminal import Look, Terminal
from bridle.protocol.errors import CommandRefused
from clients.line.line_kit import COLOURLESS, DEADLINE_S, DUMB, Person, check_golden
from tables import table

SESSIONS = (
    Listed(
        id="sess_1",
        title="fix rounding in cart totals",
        when="12 min ago",
        turns=14,
        cost="$0.31",
        mark="● waiting for your answer",
        last="…the rounding error came from float prices, fixed in src/cart.py",
    ),
    Listed(id="sess_2", title="add csv export", when="yesterday", turns=6, cost="$0.12"),
    Listed(id="sess_3", words="why is the build slow", when="3 days ago", turns=1, mark="(run, CI)"),
    Listed(id="sess_4", title="release checklist", when="2 weeks ago", turns=22, cost="$1.40", pinned=True),
    Listed(id="sess_5", title="elsewhere", when="2 weeks ago", turns=2, here=False),
)
PICKER = Picker(sessions=SESSIONS, folder="~/code/shop")


def after(*keys: Key) -> tuple[Picker, Choice]:
    picker, choice = PICKER, None
    for key in keys:
        picker, choice = press(picker, key)
    return picker, choice


@table("columns", [44, 80, 100])
def test_the_list_reads_like_this(columns: int) -> None:
    filtered, _ = after(Text("cart"))
    everywhere, _ = after(Press("tab"), Press("down"), Press("down"))
    nothing, _ = after(Text("zzz"))
    pages = [picker_lines(picker, columns=columns) for picker in (PICKER, filtered, everywhere, nothing)]
    check_golden("picker", columns, "--\n".join("".join(f"{line}\n" for line in page) for page in pages))


@table("columns", [79, 80, 120])
def test_a_list_of_many_stands_in_columns_and_says_which_were_runs(columns: int) -> None:
    many = [Listed(id=f"sess_{n}", words="x", when="16 min ago", turns=1, mark="(run)") for n in range(12)]
    _, *rows = picker_lines(Picker(sessions=tuple(many), folder="~/shop"), columns=columns)
    rows = [row for row in rows if '"x"' in row]
    assert len(rows) > 9
    assert {(row.index('"x"'), row.index("16 min"), row.index("(run)")) for row in rows} == {(6, 41, 73)}


def test_enter_picks_where_the_mark_stands() -> None:
    assert after(Press("enter"))[1] == Picked("sess_1")
    assert after(Press("down"), Press("down"), Press("up"), Press("enter"))[1] == Picked("sess_2")
    assert after(*[Press("down")] * 9, Press("enter"))[1] == Picked("sess_4")


def test_typing_narrows_the_list_and_a_paste_never_picks() -> None:
    assert after(Text("build"), Press("enter"))[1] == Picked("sess_3")
    assert after(Paste("csv\n"))[1] is None
    assert after(Text("nothing like it"), Press("enter"))[1] is None
    assert after(Text("csvx"), Press("backspace"), Press("enter"))[1] == Picked("sess_2")
    assert after(Text("zzz"), Press("ctrl-u"), Press("enter"))[1] == Picked("sess_1")


def test_tab_shows_all_folders() -> None:
    assert after(Text("elsewhere"), Press("enter"))[1] is None
    assert after(Press("tab"), Text("elsewhere"), Press("enter"))[1] == Picked("sess_5")


@table("key", ["esc", "ctrl-d"])
def test_a_person_may_go_without_choosing(key: str) -> None:
    assert after(Press(key))[1] == Gone()


def test_two_ctrl_c_lead_out_and_one_never_does() -> None:
    warned, choice = after(Press("ctrl-c"))
    assert choice is None
    assert picker_lines(warned, columns=80)[-1] == "Ctrl-C again to leave"
    assert after(Press("ctrl-c"), Press("ctrl-c"))[1] == Gone()
    assert after(Press("ctrl-c"), Text("x"), Press("ctrl-c"))[1] is None


def test_esc_takes_the_filter_away_before_it_leaves() -> None:
    back, choice = after(Text("csv"), Press("esc"))
    assert (back.filter, choice) == ("", None)
    assert press(back, Press("esc"))[1] == Gone()


@table("columns", [20, 44, 60, 80, 100])
def test_however_long_the_folder_is_the_keys_are_named(columns: int) -> None:
    folder = "~/code/" + "a-long-name/" * 12 + "shop"
    lines = picker_lines(Picker(sessions=SESSIONS, folder=folder), columns=columns)
    assert "type to filter" in "".join(lines[:2])
    assert all(width_of(line) <= columns for line in lines)
    if columns >= 60:
        assert "shop" in lines[0]


def test_a_low_terminal_gets_a_short_list() -> None:
    many = tuple(Listed(id=f"sess_{n}", title=f"session {n}", when="today", turns=n) for n in range(40))
    lines = picker_lines(Picker(sessions=many, folder="~", at=20), columns=80, rows=8)
    assert len(lines) <= 6
    assert any(line.startswith("> 21") for line in lines)


def test_a_long_list_moves_with_the_mark() -> None:
    many = tuple(Listed(id=f"sess_{n}", title=f"session {n}", when="today", turns=n) for n in range(40))
    picker = Picker(sessions=many, folder="~", at=30)
    lines = picker_lines(picker, columns=0)
    assert any(line.startswith("> 31") for line in lines)
    assert "  … 9 more" in lines


@table("look", [COLOURLESS, DUMB])
async def test_a_person_types_some_words_and_enter(look: Look) -> None:
    person = Person(100, 24, None)
    terminal = Terminal(input_fd=person.slave, output_fd=person.slave, look=look)
    choosing = asyncio.create_task(pick(PICKER, terminal))
    try:
        await person.sees("> 1  fix rounding in cart totals")
        person.type("csv")
        await person.sees("> 1  add csv export")
        person.type("\r")
        assert await asyncio.wait_for(choosing, DEADLINE_S) == "sess_2"
        terminal.write("end")
        await person.sees("end")
        assert ("fix rounding" in person.glass.text) == (not look.moves), (
            "the list goes when somebody has chosen"
        )
    finally:
        person.close()


async def test_where_nobody_can_choose_the_list_is_printed() -> None:
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    terminal = Terminal(input_fd=in_read, output_fd=out_write, look=Look())
    assert await pick(PICKER, terminal) is None
    assert "add csv export" in os.read(out_read, 65536).decode()
    for descriptor in (in_read, in_write, out_read, out_write):
        os.close(descriptor)


# Changing what is listed

CHANGING = Picker(sessions=SESSIONS, folder="~/code/shop", changes=True)


def changed_by(*keys: Key) -> tuple[Picker, Choice]:
    picker, choice = CHANGING, None
    for key in keys:
        picker, choice = press(picker, key)
    return picker, choice


def test_keys_fork_pin_rename_and_delete_the_session_one_is_at() -> None:
    assert changed_by(Press("alt-f"))[1] == Deed("fork", "sess_1")
    assert changed_by(Press("down"), Press("alt-p"))[1] == Deed("pin", "sess_2")
    renamed = (Press("down"), Press("alt-r"), Press("ctrl-u"), Text("two"), Paste(" words\n"), Press("enter"))
    assert changed_by(*renamed)[1] == Deed("rename", "sess_2", "two words")
    assert changed_by(Press("delete"), Text("y"))[1] == Deed("delete", "sess_1")


@table("key", [Press("enter"), Press("esc"), Press("delete"), Text("n"), Text("yes"), Paste("y")])
def test_only_a_typed_y_deletes(key: Key) -> None:
    picker, choice = changed_by(Press("delete"), key)
    assert (choice, picker.asking) == (None, "")


def test_nothing_is_changed_where_it_is_not_offered() -> None:
    for name in ("alt-f", "alt-p", "alt-r", "delete"):
        assert after(Press(name)) == (PICKER, None)
    nothing = Picker(sessions=(), folder="~", changes=True)
    assert press(nothing, Press("delete")) == (nothing, None)


def test_the_list_says_what_can_be_done_and_what_is_asked() -> None:
    assert picker_lines(CHANGING, columns=100)[-1].startswith("  Enter resume · Alt-F fork")
    asked = picker_lines(changed_by(Press("delete"))[0], columns=100)[-1]
    assert asked == "  Delete fix rounding in cart totals for good? y delete · any other key keeps it"
    naming = picker_lines(changed_by(Press("alt-r"), Text("!"))[0], columns=100)[-1]
    assert naming.startswith("  New title: fix rounding in cart totals!")


async def test_what_is_done_shows_in_the_list_and_a_fork_is_picked() -> None:
    person = Person(100, 24, None)
    terminal = Terminal(input_fd=person.slave, output_fd=person.slave, look=COLOURLESS)
    done: list[Deed] = []

    async def do(deed: Deed) -> tuple[Listed, ...]:
        done.append(deed)
        if deed.what == "delete":
            return SESSIONS[1:]
        if deed.what == "pin":
            raise CommandRefused("UnknownSession", session="gone")
        return (Listed(id="sess_new", title="a fork", when="just now", turns=6), *SESSIONS[1:])

    choosing = asyncio.create_task(pick(CHANGING, terminal, do=do))
    try:
        await person.sees("> 1  fix rounding in cart totals")
        person.type("\x1b[3~")
        await person.sees("for good?")
        person.type("y")
        await person.sees("> 1  add csv export")
        person.type("\x1bp")
        await person.sees('There is no session "gone".')
        person.type("\x1bf")
        assert await asyncio.wait_for(choosing, DEADLINE_S) == "sess_new"
        assert done == [Deed("delete", "sess_1"), Deed("pin", "sess_2"), Deed("fork", "sess_2")]
    finally:
        person.close()
