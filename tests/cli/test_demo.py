"""`bridle demo` on a machine where nothing is set up, and what of its caller's environment gets anywhere."""

import secrets
import subprocess
import sys
from pathlib import Path

from cli_kit import Place
from cli_terminal import sitting


def a_secret() -> tuple[str, str]:
    """A variable as people have them, made up here and now."""
    return "ACME_API_KEY", "-".join(("sk", "live", secrets.token_hex(16)))


def test_the_demo_needs_nothing_and_shows_what_it_did(place: Place) -> None:
    name, value = a_secret()
    temporary = place.home / "tmp"
    temporary.mkdir()
    ran = place.bridle("demo", env={name: value, "TMPDIR": str(temporary)})
    assert (ran.code, ran.err) == (0, "")
    lines = [line.strip() for line in ran.out.splitlines()]
    calls = [line[:38].rstrip() for line in lines if line.startswith("ran ")]
    assert sorted(calls) == [
        "ran      python3 -m unittest -q",
        "ran      python3 -m unittest -q",
        "ran      read cart.py",
        "ran      read test_cart.py",
        "ran      write cart.py",
    ]
    assert '6  -     return sum(item["price"] for item in items)' in lines
    assert '6  +     return sum(item["price"] * item["count"] for item in items)' in lines
    assert f"The log, encrypted     {place.data / 'sessions.db'}" in lines
    assert (place.data / "sessions.db").exists()

    (folder,) = (line.split()[1] for line in lines if line.startswith("folder "))
    tested = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, timeout=30, check=False
    )
    assert tested.returncode == 0

    assert f"Remove the folder      rm -rf {folder}" in lines
    assert Path(folder).parent == temporary, "and it is the only one"
    assert [one for one in temporary.iterdir() if one.name.startswith("bridle-demo")] == [Path(folder)]

    session = place.only_session()
    assert f"What just happened     bridle sessions show {session}" in lines
    place.verify(session)
    assert value not in ran.out + place.bridle("sessions", "export", session).out


def test_a_secret_of_the_caller_reaches_neither_a_command_nor_the_output_nor_the_log(place: Place) -> None:
    name, value = a_secret()
    model = place.script('call bash {"command": "env; env > seen"}\n---\nsay done\n')
    ran = place.bridle(
        "run", "-y", "--stream-json", "-m", model, "x", env={name: value, "BRIDLE_MODE": "auto"}
    )
    assert ran.code == 0
    seen = (place.work / "seen").read_text()
    assert f"HOME={place.home}" in seen.splitlines()
    exported = place.bridle("sessions", "export", place.only_session()).out
    for text in (seen, ran.out, ran.err, exported):
        assert value not in text
        assert name not in text
        assert "BRIDLE_" not in text
    for file in place.data.rglob("*"):
        assert file.is_dir() or value.encode() not in file.read_bytes()


def test_a_secret_in_the_output_of_a_command_is_masked_everywhere(place: Place) -> None:
    token = "_".join(("ghp", secrets.token_hex(18)))
    (place.work / "config").write_text(f"token = {token}\n")
    model = place.script('call bash {"command": "cat config"}\n---\nsay done\n')
    ran = place.bridle("run", "-y", "--stream-json", "-m", model, "x")
    assert ran.code == 0
    assert token not in ran.out + ran.err
    assert token not in place.bridle("sessions", "export", place.only_session()).out


def test_the_demo_model_of_a_conversation_plays_a_story_with_a_real_question(place: Place) -> None:
    with sitting(place, "-m", "demo") as person:
        person.sees("Type what you want.")
        person.types("hello\r")
        person.sees("Say anything, and you will be asked first.")
        person.types("go on\r")
        person.sees("Create bridle-demo.txt?", "n no (Enter)")
        person.looks_for(1.5)
        person.types("y\r")
        person.sees("the last part is a command")
        assert (place.work / "bridle-demo.txt").exists()
        person.types("and now\r")
        person.sees("hello from the sandbox", "That is all I know.")
        person.types("\x04")
        assert person.ends() == 0


def test_the_demo_model_of_a_run_says_one_thing(place: Place) -> None:
    ran = place.bridle("run", "-q", "-m", "demo", "say hello")
    assert ran.out.startswith("[scripted] This is the scripted model that comes with Bridle")
