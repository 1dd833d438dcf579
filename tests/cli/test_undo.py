"""`bridle undo`, and `/undo` at a terminal: shown first, then asked, then done."""

from __future__ import annotations

import re
import shutil

import pytest

from bridle.clients.interaction.session.key_router import GRACE_S
from bridle.protocol.events import ContextAdded, UndoApplied
from cli_kit import Place
from cli_terminal import Sitting, sitting
from git_kit import Repository
from secret_kit import tokens

pytestmark = pytest.mark.through_engine

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SCRIPT = (
    'call bash {"command": "sed -i s/one/ONE/ a.txt && rm gone.txt && mkdir new && echo made > new/b.txt"}\n'
    "---\nsay first\n---\n"
    'call write_file {"path": "c.txt", "content": "third\\n"}\n'
    "---\nsay second\n"
)


def files(place: Place) -> dict[str, str]:
    found = (path for path in place.work.rglob("*") if path.is_file() and path.suffix != ".script")
    return {str(path.relative_to(place.work)): path.read_text() for path in found}


WAITING = "A question is waiting: Tab to answer"
BEFORE = {"a.txt": "one\n", "gone.txt": "gone\n"}
FIRST = {"a.txt": "ONE\n", "new/b.txt": "made\n"}


def worked(place: Place, prompt: str = "speed up the cart") -> None:
    for name, text in BEFORE.items():
        (place.work / name).write_text(text)
    ran = place.bridle("run", "-y", "-m", place.script(SCRIPT), prompt)
    assert ran.code == 0, ran.err
    assert files(place) == FIRST


def test_the_last_turn_is_shown_undone_and_redone(place: Place):
    worked(place)
    shown = place.bridle("undo", "--dry-run")
    assert (shown.code, shown.err) == (0, "")
    assert re.sub(" {2,}", "  ", shown.out) == (
        'Undo turn 1 "speed up the cart"?\n'
        "  changed  a.txt  +1 −1  goes back\n"
        "  deleted  gone.txt  restored\n"
        "  created  new/b.txt  removed\n"
        "Nothing was changed (--dry-run).\n"
    )
    assert files(place) == FIRST

    done = place.bridle("undo", "-y")
    assert done.code == 0
    assert done.out.splitlines()[-1] == (
        "Undone. bridle undo --redo brings it back. The conversation is unchanged; the model has been told."
    )
    assert files(place) == BEFORE
    session = place.only_session()
    place.verify(session)
    events = [envelope.event for envelope in place.events(session)]
    assert [type(event) for event in events[-2:]] == [ContextAdded, UndoApplied]

    again = place.bridle("undo", "-y").out
    assert again.startswith("There is nothing to undo in sess_")
    assert again.endswith(" For another session: bridle undo ID; list them: bridle sessions\n")
    assert place.bridle("undo", "--redo", "-y").code == 0
    assert files(place) == FIRST
    assert place.bridle("undo", session, "-y").code == 0
    assert files(place) == BEFORE


def test_a_turn_and_a_call_are_named(place: Place):
    worked(place)
    ran = place.bridle("run", "-y", "-c", "and now c")
    assert ran.code == 0, ran.err
    assert place.bridle("undo", "1", "-y").code == 0
    assert files(place) == {**BEFORE, "c.txt": "third\n"}
    (call,) = {
        envelope.event.call_id
        for envelope in place.events(place.only_session())
        if envelope.kind == "ToolCallStarted" and envelope.event.tool == "write_file"
    }
    assert place.bridle("undo", call, "-y").code == 0
    assert files(place) == BEFORE
    unknown = place.bridle("undo", "9", "-y")
    assert (unknown.code, unknown.err) == (2, "bridle: Turn 9 changed no files that undo knows of.\n")
    unnamed = place.bridle("undo", "call_", "-y")
    problem = '"call_" names no call that changed files of this session.'
    assert (unnamed.code, unnamed.err) == (2, f"bridle: {problem}\n")


def test_a_file_that_changed_since_stops_it_unless_somebody_says_otherwise(place: Place):
    worked(place)
    (place.work / "a.txt").write_text("mine\n")
    mine = {**FIRST, "a.txt": "mine\n"}
    stopped = place.bridle("undo", "-y")
    assert stopped.code == 1
    assert "  conflict: a.txt changed after this turn (by you, just now)\n" in stopped.out
    assert files(place) == mine
    skipped = place.bridle("undo", "-y", "--conflicts", "skip")
    assert skipped.out.splitlines()[-1] == "Left as they are: a.txt"
    assert files(place) == {**BEFORE, "a.txt": "mine\n"}
    assert place.bridle("undo", "--redo", "-y").code == 0
    assert files(place) == mine
    assert place.bridle("undo", "-y", "--conflicts", "overwrite").code == 0
    assert files(place) == BEFORE
    assert place.bridle("undo", "--redo", "-y").code == 0
    assert files(place) == mine, "the version that was written over comes back"


def test_nothing_happens_where_nobody_can_agree(place: Place):
    worked(place)
    refused = place.bridle("undo")
    assert refused.code == 3
    assert refused.err == "bridle: Nobody is here to answer for undo, so it was not run. Let it with -y.\n"
    assert files(place) == FIRST


def test_a_person_is_asked_at_the_shell(place: Place):
    worked(place)
    (place.work / "a.txt").write_text("mine\n")
    with sitting(place, "undo") as person:
        person.sees("y undo · d diff · Enter keep ›")
        person.types("d\n")
        person.sees("+gone")
        person.types("y\n")
        person.sees("s skip it · o overwrite (your version is kept for --redo) · Enter stop ›")
        person.types("s\n")
        assert person.ends() == 0
    assert files(place) == {**BEFORE, "a.txt": "mine\n"}


def test_a_person_is_told_that_a_redo_keeps_nothing_it_writes_over(place: Place):
    worked(place)
    assert place.bridle("undo", "-y").code == 0
    (place.work / "a.txt").write_text("mine\n")
    with sitting(place, "undo", "--redo") as person:
        person.sees("y redo · d diff · Enter keep ›")
        person.types("y\n")
        person.sees("s skip it · o overwrite (your version is not kept) · Enter stop ›")
        person.types("\n")
        assert person.ends() == 1
    assert files(place) == {**BEFORE, "a.txt": "mine\n"}


def test_the_diff_shows_no_secrets_and_says_so(place: Place):
    token = next(planted for planted in tokens() if planted.kind == "github-token")
    (place.work / "make.sh").write_text(
        f"echo hidden-away > .env\necho 'beside {token.text}' > a.txt\necho '{token.text}' > b.txt\n"
    )
    (place.work / "a.txt").write_text("before\n")
    (place.work / "b.txt").write_text("«redacted:github-token»\n")
    script = place.script('call bash {"command": "sh make.sh"}\n---\nsay done\n')
    ran = place.bridle("run", "-y", "-m", script, "go")
    assert ran.code == 0, ran.err
    assert (place.work / ".env").read_text() == "hidden-away\n"
    with sitting(place, "undo") as person:
        person.sees("y undo · d diff · Enter keep ›")
        person.types("d\n")
        person.sees(
            ".env: secret-looking, not shown", "-beside", "+before", "b.txt: what changes is secret-looking"
        )
        person.types("y\n")
        assert person.ends() == 0
        assert token.secret not in person.text
        assert "hidden-away" not in person.text
    assert not (place.work / ".env").exists()


def answers(person: Sitting, key: str) -> None:
    """Reads the question first: keys that come too soon are not meant for it."""
    person.waits(lambda: WAITING not in person.text, "the question with the keyboard")
    person.looks_for(GRACE_S)
    person.types(f"{key}\r")


def test_slash_undo_and_redo_at_a_terminal(place: Place):
    worked(place)
    with sitting(place, "-c") as person:
        person.sees("Back in")
        person.types("/undo\r")
        person.sees('Undo turn 1 "speed up the cart"?', "y undo · d diff · Enter keep", WAITING)
        answers(person, "d")
        person.sees("+gone")
        person.waits(lambda: person.text.count("y undo · d diff · Enter keep") > 1, "the question again")
        person.sees(WAITING)
        answers(person, "y")
        person.sees("Undone. /redo brings it back.")
        assert files(place) == BEFORE
        person.types("/redo\r")
        person.sees("y redo · d diff · Enter keep", WAITING)
        answers(person, "y")
        person.sees("Done again. /undo takes it back.")
        assert files(place) == FIRST
        person.types("/quit\r")
        assert person.ends() == 0


WIPE = (
    "import os, shutil\n"
    "git = os.path.join(os.path.dirname(os.path.abspath(__file__)), '.git')\n"
    "assert os.path.exists(os.path.join(git, os.pardir, 'it.script')), git\n"
    "shutil.rmtree(git, ignore_errors=True)\n"
)


@needs_bubblewrap
def test_a_repository_that_a_script_destroyed_comes_back(place: Place):
    repository = Repository(place.work, place.home).fill()
    (place.work / "wipe.py").write_text(WIPE)
    script = place.script('call bash {"command": "python3 wipe.py"}\n---\nsay done\n')
    before = repository.told()
    ran = place.bridle("run", "--mode", "auto", "-m", script, "clean up")
    assert ran.code == 0, ran.err
    assert not (place.work / ".git/HEAD").exists()
    said = "The command took away parts of .git. /undo gives them back."
    assert any(line.endswith(said) for line in ran.story), ran.story

    shown = place.bridle("undo", "--dry-run").out
    assert re.search(
        r"  deleted   \.git .* HEAD, index, packed-refs, \d+ refs, \d+ other files restored\n", shown
    )
    assert re.search(r"  deleted   \.git/objects .* \d+ objects, 1 pack restored\n", shown)
    assert place.bridle("undo", "-y").code == 0
    assert repository.told() == before
