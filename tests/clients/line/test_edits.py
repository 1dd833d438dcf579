"""What changed in files, seen at a terminal: after every edit, after commands, and whole with /diff and /output."""

import os
import re
from pathlib import Path

from bridle.base.text.line_diff import diff_of
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.line.terminal import Look
from bridle.conformance.fake_models import scripted
from bridle.protocol import events as e
from bridle.protocol import queries as q
from bridle.protocol.display_values import EditedFile, ShownCommand, ShownEdit
from bridle.providers.script import call, say
from clients.line.line_kit import READER, Scene, at_terminal, check_golden
from clients.line.test_screens import CREATE, PAST, seen, settled
from clients.line.test_talk import conversation
from tables import table

PLAIN = Look(moves=True)
COLOUR = Look(codes=True, moves=True, colour=True)
OLD = (
    "def total(items):\n    return sum(i.price for i in items)\n\n\ndef empty(items):\n    return not items\n"
)
NEW = OLD.replace("i.price for", "i.price * i.count for")


def edited(path: str, old: str | None, new: str) -> EditedFile:
    diff = diff_of(path, old, new)
    kind = "create" if old is None else "change"
    return EditedFile(path=path, kind=kind, diff=diff.text, added=diff.added, removed=diff.removed)


CART = edited("src/cart.py", OLD, NEW)
PAGE = edited("web/new-page.html", None, "".join(f"<li>Order {number}</li>\n" for number in range(1, 41)))


def ran(tool: str, shown: object, call_id: str = "call_1", **given: object) -> tuple[e.AnyEvent, ...]:
    return (
        e.ToolCallRequested(call_id=call_id, tool=tool, input=given, step=1),
        e.ToolCallStarted(call_id=call_id, tool=tool, input=given, mutating=True, input_sha256=""),
        e.ToolResult(call_id=call_id, tool=tool, outcome="ok", content="", shown=shown),
    )


@table("columns", [44, 80, 100])
async def test_an_edit_shows_what_it_changed_and_a_turn_how_many_files(columns: int) -> None:
    text = await seen(
        Scene(*PAST),
        columns,
        e.ModeChanged(mode="auto"),
        *ran("edit_file", ShownEdit(files=(CART,)), path="src/cart.py"),
        *ran("apply_patch", ShownEdit(files=(CART, PAGE)), patch="…"),
        *ran("bash", ShownCommand(exit_code=0, changed=("dist/a.js", "dist/b.js")), command="npm run build"),
        e.ModeChanged(mode="default"),
        e.TurnEnded(stop="end_turn", steps=3),
        until="3 steps",
    )
    check_golden("edits", columns, text)
    assert "changed 4 files · /diff · /undo" in text


async def test_words_that_changed_and_code_are_told_apart_by_their_looks() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=COLOUR) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*ran("edit_file", ShownEdit(files=(CART,)), path="src/cart.py"))
        await person.sees("i.price * i.count for")
    assert b"\x1b[31m    2  - \x1b[m" in person.bytes
    assert b"\x1b[35mreturn\x1b[m" in person.bytes  # code, in the line that came
    assert b"\x1b[32m\x1b[1m\x1b[4m* i.count \x1b[m" in person.bytes  # what is new in it
    assert b"\x1b[1m\x1b[4mprice" not in person.bytes


async def test_without_colours_marks_and_bold_tell_it() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*ran("edit_file", ShownEdit(files=(CART,)), path="src/cart.py"))
        await person.sees("    2  +     return sum(i.price * i.count for")
    assert b"\x1b[3" not in person.bytes
    assert b"\x1b[1m\x1b[4m* i.count \x1b[mfor" in person.bytes


async def test_people_who_listen_hear_a_change_whole_lines() -> None:
    long = edited("a.txt", None, "word " * 40 + "\n")
    text = await seen(
        Scene(*PAST),
        44,
        *ran("write_file", ShownEdit(files=(long,)), path="a.txt"),
        e.TurnEnded(stop="end_turn", steps=1),
        until="1 step",
        look=READER,
    )
    assert "    1  + word word" in text
    assert "…" not in text.partition("write a.txt")[2].partition("changed")[0]


async def test_nothing_in_a_change_is_obeyed() -> None:
    scene = Scene(*PAST)
    hostile = edited("a\x1b]0;x\x07.py", "a = 1\n", "a = '\x1b[2J\u202e'\n")
    async with at_terminal(scene, CREATE, look=COLOUR) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*ran("apply_patch", ShownEdit(files=(hostile,)), patch="…"))
        await person.sees("⟨ESC⟩[2J⟨U+202E⟩", "a⟨ESC⟩]0;x⟨BEL⟩.py")
    assert b"\x1b[2J" not in person.bytes
    assert b"\x1b]0" not in person.bytes


@table("columns", [44, 80, 100])
async def test_diff_opens_what_the_last_turn_changed(columns: int) -> None:
    scene = Scene(*PAST)
    scene.changes = q.SessionChanges(
        turn=2,
        title="speed up the cart",
        files=(CART, PAGE, EditedFile(path="logo.png", removed=None)),
        hidden=(".env",),
        more_files=3,
    )
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("/diff\r", then="3 more files")
        await settled(person)
        await person.shows("turn-diff", columns)


async def test_diff_and_output_of_a_real_session() -> None:
    read: list[str] = []

    async def page(text: str) -> None:
        read.append(text)

    model = scripted(
        call("write_file", path="cart.py", content="a = 1\nb = 2\n"),
        call("bash", command="echo 'c = 3' > made.py; rm old.py"),
        say("Ok."),
        say("Nothing to do."),
    )
    async with conversation(model, mode="yolo", look=PLAIN, page=page) as (person, _, session):
        Path(session.folder, "old.py").write_text("old = 1\n")
        await person.types("go\r")
        await person.sees("    2  + b = 2", "3 steps", "changed 3 files · /diff · /undo")
        await person.types("again\r", then="Nothing to do.")
        await person.sees("1 step")
        for number, typed in enumerate(("/diff", "/diff 1", "/diff session", "/output 2", "/output"), 1):
            await person.types(f"{typed}\r")
            await person.waits(lambda wanted=number: len(read) == wanted, typed)
        await person.types("/diff 7\r", then="Turn 7 changed no files that undo knows of.")
        await person.types("!echo more > more.py\r", then="changed 1 file · /diff · /undo")
        await person.types("/diff git\r", then="git")
    whole, first, everything, edit, command = read
    assert whole.startswith('Turn 1 "go" changed 3 files\n')
    assert whole == first
    assert "cart.py   +2   new\n    1  + a = 1\n    2  + b = 2\n" in whole
    assert "made.py   +1   new\n    1  + c = 3\n" in whole
    assert "old.py   -1   deleted\n    1  - old = 1\n" in whole
    assert everything.startswith("This session changed 3 files\n")
    assert edit == "cart.py   +2   new\n    1  + a = 1\n    2  + b = 2\n"
    assert command == "[no output]\n" or command.strip() == ""


@table("columns", [44, 80, 100])
async def test_a_change_that_cannot_be_made_fails_and_nobody_is_asked(columns: int) -> None:
    missing = "*** Begin Patch\n*** Update File: cart.py\n@@\n-c = 3\n+c = 4\n*** End Patch"
    model = scripted(
        call("edit_file", path="cart.py", old_string="a = 9", new_string="a = 2"),
        call("edit_file", path="cart.py", old_string="= 1", new_string="= 2"),
        call("apply_patch", patch=missing),
        say("I read it first."),
    )
    async with conversation(model, columns=columns) as (person, _, session):
        Path(session.folder, "cart.py").write_text("a = 1\nb = 1\n")
        await person.types("speed up the cart\r", then="4 steps")
        await settled(person)
        asked = f"{MARK}speed up the cart"
        _, _, turn = person.glass.text.partition(asked)
        assert "y yes" not in turn
        check_golden("cannot-be-made", columns, asked + re.sub(r"[0-9.]+ s ", "0 s ", turn))


async def test_a_change_of_links_in_a_folder_breaks_nothing() -> None:
    model = scripted(
        call("bash", command="mkdir sub; ln -s nowhere link; printf 'a\\0b' > binary"), say("Ok.")
    )
    read: list[str] = []

    async def page(text: str) -> None:
        read.append(text)

    async with conversation(model, mode="auto", look=PLAIN, page=page) as (person, _, session):
        await person.types("go\r", then="changed 2 files")
        await person.types("/diff\r")
        await person.waits(lambda: bool(read), "the pager")
        assert os.path.islink(os.path.join(session.folder, "link"))
    what = "no text, or too large to compare"
    assert read[0] == f'Turn 1 "go" changed 2 files\nbinary   {what}   new\nlink   {what}   new\n'
