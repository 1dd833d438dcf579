"""Writing, finding and going elsewhere at a real terminal: the keys and commands that make it pleasant."""

from __future__ import annotations

import base64
import os
import signal
import termios
from pathlib import Path

import pytest

from bridle.cli.terminal_services import paths_below
from bridle.clients.interaction.session.key_router import GRACE_S, QUIET_S
from bridle.protocol import events as e
from cli_kit import BRIDLE, Place
from cli_terminal import Sitting, at_terminal, sitting

READY = "Type what you want."
CTRL_C, CTRL_G, CTRL_J, CTRL_L, CTRL_R, CTRL_U, CTRL_Z = "\x03", "\x07", "\n", "\x0c", "\x12", "\x15", "\x1a"
SHIFT_TAB, UP = "\x1b[Z", "\x1b[A"
EDITOR = "#!/bin/sh\nstty -a | grep -q -- ' icanon' && printf 'and more' >> \"$1\"\n"
"""An editor that adds to the text, if it finds the terminal as programs expect it."""


def editor(place: Place, text: str = EDITOR) -> str:
    path = place.home / "editor"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def leaves(person: Sitting) -> None:
    person.types(CTRL_C * 2)
    assert person.ends() == 0
    assert person.modes == person.modes_found


def inputs(place: Place, session: str | None = None) -> list[str]:
    events = place.events(session or place.only_session())
    return [e.text_of(each.event.content) for each in events if isinstance(each.event, e.InputAccepted)]


# Writing


def test_ctrl_g_writes_the_draft_in_the_editor(place: Place) -> None:
    with sitting(place, "-m", "demo:hello", EDITOR=editor(place)) as person:
        person.sees(READY)
        person.types(f"a draft {CTRL_G}")
        person.sees("› a draft and more")
        person.types("\x18\x05")
        person.sees("› a draft and moreand more")
        person.types("!\r")
        person.sees("1 step")
        leaves(person)
    assert inputs(place) == ["a draft and moreand more!"]
    assert not list(place.home.rglob("draft-*")), "the file of the editor does not stay"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("", "No editor is set."),
        ("/nowhere/at/all", "could not be started"),
        ("false", "The draft is as it was"),
    ],
)
def test_a_draft_survives_an_editor_that_fails(place: Place, program: str, said: str) -> None:
    with sitting(place, "-m", "demo:hello", VISUAL=program) as person:
        person.sees(READY)
        person.types(f"a draft{CTRL_G}")
        person.sees(said)
        person.types("!")
        person.sees("› a draft!")
        leaves(person)


def test_an_answer_that_comes_while_the_editor_is_open_is_printed_afterwards(place: Place) -> None:
    begun, may_end = place.work / "begun", place.work / "may-end"
    os.mkfifo(begun)
    os.mkfifo(may_end)
    model = place.script("say Looking.\nwait 0.2\nsay The whole answer.\n")
    slow = f'#!/bin/sh\necho > {begun}\ncat {may_end}\necho edited > "$1"\n'
    with sitting(place, "-m", model, EDITOR=editor(place, slow)) as person:
        person.sees(READY)
        person.types("go\r")
        person.sees("Looking.")
        person.types(CTRL_G)
        begun.read_text()
        person.looks_for(0.5)
        assert "The whole answer." not in person.text
        may_end.write_text("")
        person.sees("The whole answer.", "› edited")
        leaves(person)


def test_a_question_that_comes_while_the_editor_is_open_gets_none_of_its_keys(place: Place) -> None:
    begun, may_end = place.work / "begun", place.work / "may-end"
    os.mkfifo(begun)
    os.mkfifo(may_end)
    model = place.script(
        'say Looking.\nwait 0.2\ncall bash {"command": "touch it-ran"}\n---\nsay Then not.\n---\nsay Well.\n'
    )
    slow = f"#!/bin/sh\necho > {begun}\ncat {may_end}\n"
    with sitting(place, "-m", model, EDITOR=editor(place, slow)) as person:
        person.sees(READY)
        person.types("go\r")
        person.sees("Looking.")
        person.types(CTRL_G)
        begun.read_text()
        person.looks_for(QUIET_S + GRACE_S + 0.5)
        may_end.write_text("")
        person.sees("Run this command?")
        person.types("y\r")
        person.sees('"y" was not sent')
        person.types(CTRL_C)
        person.sees("not run  touch it-ran", "stopped")
        person.looks_for(2.1)
        leaves(person)
    assert not (place.work / "it-ran").exists()


@pytest.mark.requirement("G46.1")
def test_tab_completes_names_and_paths(place: Place) -> None:
    (place.work / "src").mkdir()
    (place.work / "src" / "cart.py").write_text("")
    (place.work / "my notes.txt").write_text("")
    (place.work / ".hidden").write_text("")
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("/mo\t")
        person.sees("/mode  /model", "› /mode")
        person.types("l\t")
        person.waits(lambda: "/mode  /model" not in person.text, "the choices gone")
        person.types(f"{CTRL_U}see @ca\t")
        person.sees("› see @src/cart.py")
        person.types(f"{CTRL_U}@my\t")
        person.sees('› @"my notes.txt"')
        person.types(f"{CTRL_U}@.hid\t!")
        person.sees("› @.hid!")
        leaves(person)


def test_shift_tab_changes_the_mode_and_the_prompt_names_it(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        for mode, lead in (("auto", "auto ›"), ("plan", "plan ›"), ("default", "›")):
            person.types(SHIFT_TAB)
            person.sees(f"mode     {mode} ")
            person.waits(lambda lead=lead: person.text.splitlines()[-1] == lead, f"the prompt {lead}")
        leaves(person)
    changed = [each.event for each in place.events(place.only_session())]
    assert [event.mode for event in changed if isinstance(event, e.ModeChanged)] == [
        "auto",
        "plan",
        "default",
    ]


def test_ctrl_r_finds_a_prompt_of_an_earlier_session(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("fix the rounding of totals\r")
        person.sees("1 step")
        leaves(person)
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types(f"a draft{CTRL_R}ROUND")
        person.sees("› fix the rounding of totals", "search: ROUND")
        person.types("\x1b")
        person.waits(lambda: person.text.rstrip().endswith("› a draft"), "the draft again")
        person.types(f"{CTRL_R}round\r")
        person.waits(lambda: "search:" not in person.text, "the end of the search")
        assert "1 step" not in person.text, "taking it does not send it"
        leaves(person)


def test_several_lines_are_written_and_sent_as_one(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types(f"one{CTRL_J}two\\\rthree")
        person.types("\x1b\rfour")
        person.sees("› one\n  two\n  three\n  four")
        person.types("\x1b[200~\r\nfive\r\nsix\x1b[201~")
        person.sees("  five\n  six")
        person.types("\r")
        person.sees("1 step")
        leaves(person)
    assert inputs(place) == ["one\ntwo\nthree\nfour\nfive\nsix"]


def test_letters_with_accents_and_emoji_are_one_character_each(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("e\u0301\U0001f469\u200d\U0001f467日x\x7f\x7f\x7f\x7f")
        person.types("left\r")
        person.sees("1 step")
        leaves(person)
    assert inputs(place) == ["left"]


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_brings_the_draft_back(place: Place) -> None:
    bridle = " ".join(f"'{word}'" for word in (*BRIDLE, "-m", "demo:hello"))
    env = place.environment(TERM="xterm", PS1="$ ", ENV="")
    with at_terminal("/bin/sh", "-i", cwd=place.work, env=env) as person:
        person.sees("$")
        person.types(f"{bridle}\n")
        person.sees(READY)
        person.types(f"a draft{CTRL_J}of two lines")
        person.sees("  of two lines")
        person.types(CTRL_Z)
        person.waits(lambda: bool(person.modes[3] & termios.ICANON), "the shell's terminal")
        person.types("echo in-the-shell-$((1 + 1))\n")
        person.sees("in-the-shell-2")
        person.types("fg\n")
        person.waits(lambda: not person.modes[3] & termios.ICANON, "our terminal")
        person.types("!")
        person.sees("› a draft\n  of two lines!")
        assert person.text.count("› a draft") == 1, "it is drawn once"
        person.types(f"{CTRL_L}{CTRL_L}?")
        person.sees("› a draft\n  of two lines!?")
        assert person.text.count("› a draft") == 1
        person.types(CTRL_C)
        person.sees("Draft cleared")
        person.types(CTRL_C)
        person.waits(lambda: bool(person.modes[3] & termios.ICANON), "the shell's terminal")
        person.types("exit\n")
        assert person.ends() == 0


def test_an_interrupt_from_outside_is_a_ctrl_c_and_one_never_leaves(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.process.send_signal(signal.SIGINT)
        person.sees("Ctrl-C again to leave")
        person.types("still here")
        person.sees("› still here")
        leaves(person)


def test_ctrl_c_stops_a_command_the_person_typed(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("!echo on-$((1 + 1)); sleep 600\r")
        person.sees("running echo")
        person.types(CTRL_C)
        person.sees("Stopping… Ctrl-C again within 2 s to leave")
        person.waits(lambda: "running echo" not in person.text, "the end of the command")
        person.types("still here")
        person.sees("› still here")
        leaves(person)


@pytest.mark.parametrize("columns", [20, 100])
def test_another_width_while_an_answer_streams_breaks_nothing(place: Place, columns: int) -> None:
    words = "".join(f"say Word{number} 日本語 e\u0301 and more of it.\nwait 0.01\n" for number in range(20))
    with sitting(place, "-m", place.script(words), columns=columns) as person:
        person.sees("Type what")
        person.types("go\r")
        person.sees("Word1")
        person.types("a draft")
        os.kill(person.process.pid, signal.SIGWINCH)
        person.waits(lambda: "1 step" in person.text, "the end of the turn")
        person.sees("Word19", "› a draft")
        leaves(person)
    assert b"\x1b[2J" not in person.bytes


# Going elsewhere


def test_resume_picks_another_session_and_leaves_this_one_listed(place: Place) -> None:
    assert place.bridle("run", "-q", "-m", "demo", "the older thing").code == 0
    (older,) = (row.id for row in place.sessions())
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("/sessions\r")
        person.sees('1  "the older thing"', "Go to one: /resume")
        person.types("the newer thing\r")
        person.sees("1 step")
        person.types("/resume\r")
        person.sees('> 1  "the older thing"')
        person.types("zzz")
        person.sees("Nothing fits.")
        person.types("\x1b")
        person.sees('> 1  "the older thing"')
        person.types("\r")
        person.sees(
            'The last one is saved as "the newer thing": bridle -r',
            'Back in "the older thing", 1 turn so far.',
        )
        person.types("goes on\r")
        person.waits(lambda: person.text.count("1 step") == 3, "the turn, below the earlier ones")
        leaves(person)
    assert 'Saved as "the older thing".' in person.text
    assert inputs(place, older) == ["the older thing", "goes on"]
    assert len(place.sessions()) == 2


def test_a_session_of_another_folder_is_not_gone_to_from_here(place: Place) -> None:
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    assert place.bridle("run", "-q", "-m", "demo", "far away", cwd=elsewhere).code == 0
    (far,) = (row.id for row in place.sessions())
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("/resume\r")
        person.sees("There is no other session in this folder.")
        person.types(f"/resume {far}\r")
        person.sees("That session belongs to ~/elsewhere. In a shell: bridle -C ~/elsewhere -r")
        leaves(person)
    assert inputs(place, far) == ["far away"]


def test_a_resumed_session_shows_the_files_of_its_own_folder(place: Place) -> None:
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cart.py").write_text("old\n")
    (place.work / "cart.py").write_text("another file of that name\n")
    place.script('say Hi.\n---\ncall write_file {"path": "cart.py", "content": "new\\n"}\n---\nsay Done.\n')
    model = f"demo:{place.work / 'it.script'}"
    assert place.bridle("run", "-q", "-m", model, "far away", cwd=elsewhere).code == 0
    with sitting(place, "-r", place.only_session()) as person:
        person.sees("Bridle 0.1.0 · ~/elsewhere", READY)
        person.types("change it\r")
        person.sees("Change cart.py?   +1 −1", "1  - old", "1  + new")
        person.types(CTRL_C)
        person.sees("stopped")
        leaves(person)


def test_a_title_a_person_gave_stays(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("something long\r")
        person.sees("1 step")
        person.types("/rename Cart totals\r")
        person.sees('This session is now called "Cart totals".')
        leaves(person)
    assert 'Saved as "Cart totals".' in person.text
    assert [row.title for row in place.sessions()] == ["Cart totals"]
    with sitting(place, "-c") as person:
        person.sees('Back in "Cart totals", 1 turn so far.')
        leaves(person)


def test_export_writes_a_new_file_and_never_over_an_old_one(place: Place) -> None:
    model = place.script('say **Found** it.\ncall read_file {"path": "it.script"}\n---\nsay Done.\n')
    with sitting(place, "-m", model, columns=300) as person:
        person.sees(READY)
        person.types("where is it?\r")
        person.sees("Done.", "2 steps")
        person.types("/export talk.md\r")
        person.sees("Written: ")
        person.types("/export talk.md\r")
        person.sees("talk.md is there already.")
        leaves(person)
    text = (place.work / "talk.md").read_text()
    assert text.startswith(
        "# where is it?\n\n## You\n\n> where is it?\n\n## Bridle\n\n[scripted] **Found** it.\n"
    )
    assert "```\nran read it.script" in text
    assert text.count("where is it?") == 2


def test_copy_hands_the_last_answer_to_the_terminal_and_says_so(place: Place) -> None:
    with sitting(place, "-m", place.script("say One **bold** word.\n")) as person:
        person.sees(READY)
        person.types("go\r")
        person.sees("1 step")
        person.types("/copy\r")
        person.sees("was given to the terminal for the clipboard (OSC 52).")
        leaves(person)
    copied = person.bytes.split(b"\x1b]52;c;")[1].partition(b"\x07")[0]
    assert base64.b64decode(copied).decode() == "[scripted] One **bold** word."


def test_a_name_that_is_none_is_answered_with_the_closest_one(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("/reveiw\r")
        person.sees("There is no command /reveiw. /help lists them. Close: /review")
        person.types("/help\r")
        person.sees("/review ", "/init ", "/quit ")
        leaves(person)


def test_a_yes_that_was_remembered_is_listed_and_can_be_taken_back(place: Place) -> None:
    touch = 'call bash {"command": "touch made"}\n---\n'
    model = place.script(f"{touch}say One.\n---\n{touch}say Two.\n---\n{touch}say Three.\n")

    def reads_the_question() -> None:
        person.looks_for(QUIET_S + GRACE_S * 1.5)

    with sitting(place, "-m", model) as person:
        person.sees(READY)
        person.types("go\r")
        person.sees("Run this command?", "until the session ends")
        reads_the_question()
        person.types("p\r")
        person.sees("One.")
        person.types("again\r")
        person.sees("Two.")
        assert person.text.count("Run this command?") == 1
        person.types("/permissions\r")
        person.sees("> 1  bash(touch", "Enter revokes")
        person.types("\r")
        person.sees("revoked  the next such call asks again")
        person.types("once more\r")
        person.waits(lambda: person.text.count("Run this command?") == 2, "the question again")
        reads_the_question()
        person.types("\r")
        person.sees("not run  touch made", "Three.")
        person.types("/permissions\r")
        person.sees("Nothing is allowed beyond mode default in this session.")
        leaves(person)


# Parts


def test_paths_to_complete_are_near_ones_first_and_no_hidden_ones(tmp_path: Path) -> None:
    for name in ("b/c/deep.txt", "a.txt", ".git/config", "node_modules/x/index.js", "b/near.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert paths_below(str(tmp_path)) == ["a.txt", "b/", "loop", "b/c/", "b/near.txt", "b/c/deep.txt"]
    assert len(paths_below(str(tmp_path), most=3)) == 3
    assert paths_below(str(tmp_path / "nowhere")) == []
