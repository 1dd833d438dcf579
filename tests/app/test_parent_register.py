"""Programs that may use Bridle as a tool, as a file of the person's."""

import os
from pathlib import Path

import pytest

from bridle.app.user.parent_register import MOST_WAITING, ParentRegister
from bridle.base.process.peer_process import ParentProgram
from bridle.conformance.fake_clock import FakeClock
from bridle.protocol.errors import CommandRefused


def program(word: str, sha256: str = "a" * 64) -> ParentProgram:
    return ParentProgram(pid=1, word=word, path=f"/bin/{word}", sha256=sha256)


@pytest.mark.requirement("G19.3")
@pytest.mark.requirement("G19.12")
def test_what_a_person_said_is_kept_for_that_very_program(tmp_path: Path) -> None:
    register = ParentRegister(str(tmp_path / "config"), FakeClock())
    asked = register.ask(program("agent"))
    assert asked.state == "waiting"
    register.allow(asked, auto_attach=True)
    again = ParentRegister(str(tmp_path / "config"), FakeClock())
    known = again.ask(program("agent"))
    assert (known.state, known.auto_attach) == ("allowed", True)
    assert again.ask(program("agent", "b" * 64)).state == "waiting"  # its file was replaced
    assert again.ask(program("other")).state == "waiting"
    again.forget(again.find(known.id))
    assert register.ask(program("agent")).state == "waiting"
    assert os.path.basename(register.path) == "mcp-parents.lock"
    assert os.stat(register.path).st_mode & 0o777 == 0o600


def test_programs_that_nobody_answered_do_not_pile_up(tmp_path: Path) -> None:
    register = ParentRegister(str(tmp_path), FakeClock())
    register.allow(register.ask(program("good")), auto_attach=False)
    for number in range(MOST_WAITING + 20):
        register.ask(program(f"agent{number}"))
    known = register.parents()
    assert len(known) == MOST_WAITING + 1
    assert register.ask(program("good")).state == "allowed"


@pytest.mark.parametrize("damage", ["{", '{"version": 1, "parents": 3}'])
def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path, damage: str) -> None:
    register = ParentRegister(str(tmp_path), FakeClock())
    Path(register.path).write_text(damage)
    os.chmod(register.path, 0o600)
    with pytest.raises(CommandRefused) as refused:
        register.ask(program("agent"))
    assert refused.value.reason == "ParentsUnusable"


def test_a_file_that_others_can_write_lets_nobody_in(tmp_path: Path) -> None:
    register = ParentRegister(str(tmp_path), FakeClock())
    register.allow(register.ask(program("agent")), auto_attach=False)
    os.chmod(register.path, 0o666)
    with pytest.raises(CommandRefused, match="others can write"):
        register.ask(program("agent"))


def test_an_id_that_means_nobody_or_several_is_refused(tmp_path: Path) -> None:
    register = ParentRegister(str(tmp_path), FakeClock())
    register.ask(program("agent"))
    for beginning in ("", "zzz"):
        with pytest.raises(CommandRefused):
            register.find(beginning)
