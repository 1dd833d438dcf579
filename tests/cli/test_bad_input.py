"""What people hand over by mistake: one sentence each, the right exit code, and nothing made or run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cli_kit import BRIDLE, Place

BROKEN = "mode = \n"
BAD_MODE = 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan).'


def refused(place: Place, *words: str, cwd: Path | None = None, **env: str) -> str:
    """The one sentence of a run that could not begin; in JSON it is the same, and nothing was made."""
    ran = place.bridle("run", "-m", "demo", *words, cwd=cwd, env=env)
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1), ran
    as_json = place.bridle("run", "--json", "-m", "demo", *words, cwd=cwd, env=env)
    result = as_json.result
    assert (as_json.code, result["exit_code"], result["success"]) == (2, 2, False)
    assert result["error"]["message"] == ran.story[0]
    assert place.sessions() == []
    return ran.story[0]


# Settings


@pytest.mark.requirement("C22")
@pytest.mark.parametrize(("text", "clause"), [(BROKEN, "invalid value."), ('mode = "yollo"\n', BAD_MODE)])
@pytest.mark.parametrize(
    ("tier", "name"),
    [
        ("user", "config.toml"),
        ("project", ".bridle/config.toml"),
        ("local", ".bridle/config.local.toml"),
        ("given", "given.toml"),
        ("profile", "mine.toml"),
    ],
)
def test_settings_that_are_wrong_are_named_with_file_and_line_in_every_tier(
    place: Place, tier: str, name: str, text: str, clause: str
) -> None:
    folder = place.home / ".config/bridle" if tier == "user" else place.work
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"# first\n{text}", encoding="utf-8")
    options = {"given": ("--config", "given.toml"), "profile": ("--profile", "./mine.toml")}
    sentence = refused(place, *options.get(tier, ()), "x")
    assert sentence.endswith(f"{name} line 2: {clause}")


@pytest.mark.parametrize(
    ("words", "env", "sentence"),
    [
        (("--set", "mode=yollo"), {}, f"--set: {BAD_MODE}"),
        (("--set", "mode"), {}, '--set: "mode" is not key=value.'),
        ((), {"BRIDLE_MODE": "yollo"}, f"BRIDLE_MODE: {BAD_MODE}"),
        (("--config", "nowhere.toml"), {}, "nowhere.toml: cannot be read (No such file or directory)."),
        (("--config", "."), {}, ".: cannot be read (Is a directory)."),
        ((), {"BRIDLE_CONFIG": "nowhere.toml"}, "nowhere.toml: cannot be read (No such file or directory)."),
    ],
    ids=lambda value: str(value) if not isinstance(value, dict) else "",
)
def test_settings_from_elsewhere_are_named_by_their_place(
    place: Place, words: tuple[str, ...], env: dict[str, str], sentence: str
) -> None:
    assert refused(place, *words, "x", **env) == sentence


@pytest.mark.parametrize("data", [b"\x00\x01\xff\xfe" * 1000, b"\x7fELF" + bytes(2_000_000)])
def test_a_file_that_is_no_settings_file_is_one_sentence(place: Place, data: bytes) -> None:
    (place.work / "given.toml").write_bytes(data)
    assert refused(place, "--config", "given.toml", "x").startswith("given.toml")


# Files


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--prompt-file", "The prompt file {name} cannot be read ({problem})"),
        ("--image", None),
        ("--output-schema", None),
    ],
)
@pytest.mark.parametrize("kind", ["missing", "folder", "endless", "pipe"])
def test_a_file_that_cannot_be_read_is_named_and_nobody_waits_for_it(
    place: Place, option: str, sentence: str | None, kind: str
) -> None:
    name = {"missing": "nowhere", "folder": "folder", "endless": "/dev/zero", "pipe": "pipe"}[kind]
    (place.work / "folder").mkdir()
    os.mkfifo(place.work / "pipe")
    words = (option, name) if option == "--prompt-file" else (option, name, "x")
    said = refused(place, *words)
    assert name in said
    if sentence is not None and kind == "missing":
        assert said == sentence.format(name=name, problem="No such file or directory")


def test_a_prompt_of_bytes_that_are_no_text_is_sent_as_what_can_be_shown(place: Place) -> None:
    (place.work / "data").write_bytes(b"look at \xff\xfe\x00 this")
    ran = place.bridle("run", "-m", "demo", "--prompt-file", "data")
    assert ran.code == 0
    (row,) = place.sessions()
    assert row.title.startswith("look at \ufffd\ufffd")


def test_a_prompt_file_that_is_too_long_is_refused(place: Place) -> None:
    (place.work / "long").write_bytes(b"x" * 2_100_000)
    assert refused(place, "--prompt-file", "long") == "The prompt file long is longer than 2 MiB"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no file that is always full")
def test_an_answer_that_cannot_be_kept_in_a_file_is_said_and_is_in_the_session(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script("say done\n"), "-o", "/dev/full", "x")
    assert (ran.code, ran.out) == (2, "[scripted] done\n")
    assert ran.story[-1] == "The answer cannot be written to /dev/full (No space left on device)"
    place.verify(place.only_session())


@pytest.mark.parametrize(
    ("path", "problem"), [("no/such/answer", "No such file or directory"), ("folder", "Is a directory")]
)
def test_where_no_answer_can_be_written_is_said_before_the_model_is_asked(
    place: Place, path: str, problem: str
) -> None:
    (place.work / "folder").mkdir()
    said = refused(place, "-o", path, "x")
    assert said == f"The answer cannot be written to {path} ({problem}); nothing was run"


def test_a_session_without_a_name_is_not_a_new_one(place: Place) -> None:
    assert refused(place, "-r", "", "x") == "-r needs a session. List them: bridle sessions"


def test_an_added_folder_that_is_not_there_is_named(place: Place) -> None:
    sentence = f"--add-dir: there is no folder {place.work / 'nope'}"
    assert refused(place, "--add-dir", "nope", "x") == sentence
    for words in (
        ("sandbox", "run", "--add-dir", "nope", "--", "true"),
        ("permissions", "explain", "--add-dir", "nope", "ls", "{}"),
    ):
        ran = place.bridle(*words)
        assert (ran.code, ran.out, ran.story) == (2, "", [sentence])


@pytest.mark.parametrize("name", ["dmeo", "dmeo:hello"])
def test_a_provider_that_is_mistyped_is_named_with_the_nearest(place: Place, name: str) -> None:
    ran = place.bridle("run", "-m", name, "x")
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)
    assert ran.story[0].startswith('There is no provider "dmeo". Known: anthropic, ')
    assert ran.story[0].endswith(" (nearest: demo). What each has: bridle models")


def test_a_key_that_does_not_say_whose_it_is_is_named(place: Place) -> None:
    ran = place.bridle("run", "x", env={"BRIDLE_API_KEY": "k" * 20})
    assert (ran.code, ran.out) == (4, "")
    assert "BRIDLE_API_KEY does not say whose key it is" in ran.err
    assert "k" * 20 not in ran.err


@pytest.mark.parametrize("words", [("run", "-m", "demo", "hi"), ("sessions", "list")])
def test_a_folder_that_is_gone_gets_a_sentence(place: Place, words: tuple[str, ...]) -> None:
    gone = place.work / "gone"
    gone.mkdir()
    inside = f"cd {gone} && rmdir {gone} && exec {' '.join((*BRIDLE, *words))}"
    ran = subprocess.run(
        ["/bin/sh", "-c", inside], capture_output=True, text=True, env=place.environment(), check=False
    )
    said = "bridle: The current folder is not a folder Bridle can work in (No such file or directory).\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", said)
