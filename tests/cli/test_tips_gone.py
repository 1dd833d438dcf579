"""The ends of stored logs are kept beside the database; where they are gone, that is said and never passed over."""

from __future__ import annotations

import shutil

import pytest

from cli_kit import Place


@pytest.fixture
def cut(place: Place) -> Place:
    """Two stored sessions, and nothing that says where they end."""
    for prompt in ("one", "two"):
        assert place.bridle("run", "-m", place.script("say hello\n"), prompt).code == 0
    shutil.rmtree(place.data / "tips")
    return place


def test_a_check_says_so_and_puts_nothing_back(cut: Place) -> None:
    ran = cut.bridle("sessions", "repair", "--check")
    assert ran.code == 1
    assert f"{cut.data}/tips" in ran.out
    assert "2 sessions" in ran.out
    assert not (cut.data / "tips").exists()
    checked = cut.bridle("sessions", "repair", "--check", "--json").result
    assert (checked["whole"], checked["report"]["without_tip"]) == (False, 2)


def test_the_doctor_says_so(cut: Place) -> None:
    (row,) = [
        line for line in cut.bridle("doctor", "--offline").out.splitlines() if "store" in line.split()[:2]
    ]
    assert "warn" in row
    assert f"{cut.data}/tips" in row


def test_a_new_session_says_so_before_it_makes_the_folder_again(cut: Place) -> None:
    ran = cut.bridle("run", "-m", cut.script("say hello\n"), "three")
    assert ran.code == 0
    assert [line for line in ran.story if f"{cut.data}/tips" in line and "bridle sessions repair" in line]
    assert "2 sessions" in cut.bridle("sessions", "repair", "--check").out


def test_going_on_with_a_session_without_its_end_says_so(cut: Place) -> None:
    first = cut.sessions()[-1].id
    ran = cut.bridle("run", "-r", first, "-m", cut.script("say hello\nsay again\n"), "more")
    assert [line for line in ran.story if f"{cut.data}/tips" in line]


def test_a_repair_takes_the_ends_as_they_are_and_says_so(cut: Place) -> None:
    ran = cut.bridle("sessions", "repair")
    assert (ran.code, "taken as they are" in ran.out) == (1, True)
    assert len(list((cut.data / "tips").iterdir())) == 2
    assert cut.bridle("sessions", "repair", "--check").code == 0
    quiet = cut.bridle("run", "-m", cut.script("say hello\n"), "three")
    assert [line for line in quiet.story if "tips" in line] == []


def test_nothing_is_said_where_nothing_was_stored_or_nothing_is_gone(place: Place) -> None:
    for prompt in ("one", "two"):
        ran = place.bridle("run", "-m", place.script("say hello\n"), prompt)
        assert [line for line in ran.story if "tips" in line] == []
    assert place.bridle("sessions", "repair", "--check").code == 0
