"""The session log has the lock of the stored keys: what a person sees of it, at a terminal and without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import pytest

from cli_kit import Place
from cli_terminal import sitting
from credentials.credential_kit import a_secret, made_key

CTRL_D, ENTER = "\x04", "\r"
T = TypeVar("T")
LOCKED = "Your sessions are locked: set BRIDLE_PASSPHRASE. Nothing was changed."
ASKED = "Passphrase for your sessions (hidden) ›"


async def at_terminal(story: Callable[[], T]) -> T:
    return await asyncio.to_thread(story)


@pytest.fixture
def phrase() -> str:
    return a_secret(10)


def locked(place: Place, phrase: str) -> str:
    """A session, and everything under a passphrase."""
    assert place.bridle("run", "-m", "demo", "first words").code == 0
    changed = place.bridle("login", "--lock", "passphrase", env={"BRIDLE_PASSPHRASE": phrase})
    assert (changed.code, changed.out) == (0, "Locked with a passphrase. Your sessions too.\n")
    return place.bridle("sessions", "list", "--json", env={"BRIDLE_PASSPHRASE": phrase}).result[0]["id"]


def _digests(place: Place) -> dict[Path, str]:
    """Every file of the home, but for the operational log: it may say what went wrong."""
    files = (path for path in place.home.rglob("*") if path.is_file() and path.suffix != ".log")
    return {path: sha256(path.read_bytes()).hexdigest() for path in files}


def test_without_the_passphrase_every_command_that_needs_the_log_says_one_sentence(
    place: Place, phrase: str
) -> None:
    session = locked(place, phrase)
    before = _digests(place)
    for words in (
        ("run", "-m", "demo", "hi"),
        ("run", "-c", "-m", "demo", "hi"),
        ("sessions", "list"),
        ("sessions", "show", session),
        ("sessions", "rekey"),
        ("sessions", "repair"),
        ("undo", "--session", session),
        ("cost",),
    ):
        ran = place.bridle(*words)
        assert (words, ran.code, ran.story[-1]) == (words, 4, LOCKED)
    for words in (("--version",), ("--help",), ("config", "show"), ("models", "--keys"), ("tools",)):
        assert place.bridle(*words).code == 0
    assert _digests(place) == before


def test_the_variable_opens_it_for_every_command(place: Place, phrase: str) -> None:
    session = locked(place, phrase)
    env = {"BRIDLE_PASSPHRASE": phrase}
    assert place.bridle("sessions", "show", session, env=env).code == 0
    assert place.bridle("sessions", "rekey", env=env).code == 0
    assert place.bridle("run", "-m", "demo", "-c", "again", env=env).code == 0
    assert place.bridle("sessions", "repair", env=env).code == 0
    opened = place.bridle("login", "--lock", "automatic", env=env)
    assert (opened.code, "Your sessions too." in opened.out) == (0, True)
    assert len(place.events(session)) > 5


async def test_at_a_terminal_a_person_is_asked(place: Place, phrase: str) -> None:
    session = locked(place, phrase)

    def lists() -> str:
        with sitting(place, "sessions", "list") as person:
            person.sees(ASKED)
            person.types("wrong" + ENTER)
            person.waits(lambda: person.text.count(ASKED) == 2, "a second question")
            person.sees("That is not it.")
            person.types(phrase + ENTER)
            person.sees(session.removeprefix("sess_")[:10])
            assert person.ends() == 0
            return person.text

    def talks() -> str:
        with sitting(place, "-m", "demo") as person:
            person.sees(ASKED)
            person.types(phrase + ENTER)
            person.sees("Type what you want.")
            person.types(CTRL_D)
            assert person.ends() == 0
            return person.text

    def gives_nothing() -> str:
        with sitting(place, "sessions", "list") as person:
            person.sees(ASKED)
            person.types(ENTER)
            assert person.ends() == 4
            return person.text

    assert phrase not in await at_terminal(lists) + await at_terminal(talks)
    assert "Your sessions are locked" in await at_terminal(gives_nothing)


@pytest.mark.parametrize(("typed", "said"), [(CTRL_D, "empty"), ("\udcff" + ENTER, "not UTF-8 text")])
async def test_what_is_no_passphrase_is_said_and_locks_nothing(place: Place, typed: str, said: str) -> None:
    def changes() -> str:
        with sitting(place, "login", "--lock", "passphrase") as person:
            person.sees("The new passphrase")
            person.types(typed)
            assert person.ends() == 2
            return person.text

    text = await at_terminal(changes)
    assert said in text
    assert "Traceback" not in text
    assert not list(place.home.rglob("creds.enc"))


async def test_giving_no_passphrase_leaves_stored_keys_locked(place: Place, phrase: str) -> None:
    locked(place, phrase)

    def gives_nothing() -> str:
        with sitting(place, "login", "--list") as person:
            person.sees("Passphrase (hidden)")
            person.types(CTRL_D)
            assert person.ends() == 4
            return person.text

    assert "are locked: set BRIDLE_PASSPHRASE" in (await at_terminal(gives_nothing)).replace("\n", "")


def test_doctor_says_how_the_log_is_locked_and_asks_nobody(place: Place, phrase: str) -> None:
    def store_row(**env: str) -> tuple[str, str]:
        rows = place.bridle("doctor", "--offline", "--json", env=env).result["rows"]
        (found,) = [(row["status"], row["text"]) for row in rows if row["part"] == "store"]
        return found

    locked(place, phrase)
    assert store_row() == (
        "warn",
        "locked with a passphrase; BRIDLE_PASSPHRASE is not set, so it was not looked at",
    )
    status, text = store_row(BRIDLE_PASSPHRASE=phrase)
    assert (status, text.partition(", ")[0]) == ("ok", "1 session")
    assert store_row(BRIDLE_PASSPHRASE="wrong") == (
        "fail",
        "BRIDLE_PASSPHRASE does not open your sessions. Nothing was changed.",
    )


@pytest.mark.parametrize(
    ("use", "status", "text"),
    [
        ("never", "skip", "never: Bridle itself sends keys with its requests"),
        ("serve", "skip", "only for an engine that others can reach, which this is not"),
        ("always", "ok", "always: a process of its own holds the keys of 1 provider"),
    ],
)
def test_doctor_says_who_holds_the_keys(place: Place, use: str, status: str, text: str) -> None:
    place.bridle("login", "groq", "--no-check", stdin=a_secret())
    place.bridle("config", "set", "credentials.helper", use)
    rows = place.bridle("doctor", "--offline", "--json").result["rows"]
    assert [(row["status"], row["text"]) for row in rows if row["part"] == "helper"] == [(status, text)]


def test_what_was_imported_takes_the_log_along_and_says_so(place: Place, phrase: str) -> None:
    place.bridle("login", "groq", "--no-check", stdin=a_secret())
    place.bridle("login", "--export", "keys.bridle", env={"BRIDLE_PASSPHRASE": phrase})
    place.bridle("logout", "--all")
    place.bridle("run", "-m", "demo", "hi")
    taken = place.bridle("login", "--import", "keys.bridle", env={"BRIDLE_PASSPHRASE": phrase})
    assert (taken.code, taken.story) == (0, ["Your sessions have the same lock as your stored keys now."])
    assert place.bridle("sessions", "list").story == [LOCKED]
    assert place.bridle("sessions", "list", env={"BRIDLE_PASSPHRASE": phrase}).code == 0


def test_an_export_holds_nothing_of_the_log(place: Place, phrase: str) -> None:
    place.bridle("login", "groq", "--no-check", stdin=a_secret())
    place.bridle("run", "-m", "demo", "hi")
    key = (place.data / "sessions.key").read_bytes()
    env = {"BRIDLE_PASSPHRASE": phrase}
    assert place.bridle("login", "--export", "keys.bridle", env=env).code == 0
    assert place.bridle("login", "--import", "keys.bridle", env=env).code == 0
    assert (place.data / "sessions.key").read_bytes() == key
    assert place.bridle("sessions", "list").code == 0


def test_with_a_machine_key_nobody_is_asked_and_both_need_it(place: Place) -> None:
    env = {"BRIDLE_MACHINE_KEY": made_key()}
    assert place.bridle("run", "-m", "demo", "hi", env=env).code == 0
    assert place.bridle("run", "-m", "demo", "-c", "hi", env=env).code == 0
    refused = place.bridle("sessions", "list")
    assert (refused.code, refused.story) == (
        4,
        ["Your sessions are locked: set BRIDLE_MACHINE_KEY. Nothing was changed."],
    )
    assert not (place.data / "machine.key").exists()


def test_a_log_key_that_is_no_file_is_told_in_one_sentence(place: Place) -> None:
    assert place.bridle("run", "-m", "demo", "first words").code == 0
    (key,) = place.home.rglob("sessions.key")
    key.unlink()
    key.mkdir()
    ran = place.bridle("login", "--lock", "automatic")
    assert (ran.code, len(ran.story)) == (2, 1)
    assert "sessions.key holds no usable key (Is a directory)" in ran.story[0]


def test_a_store_that_cannot_be_used_is_named_by_a_run_that_would_begin_the_log(place: Place) -> None:
    store = place.home / ".config/bridle/creds.enc"
    store.mkdir(parents=True)
    ran = place.bridle("run", "-m", "demo", "first words")
    assert (ran.code, ran.story[-1]) == (4, f"{store} cannot be used for stored keys: Is a directory.")
