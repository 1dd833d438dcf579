"""Slips of the hand and places that cannot be used: the near name is offered, the place is named, nothing is left."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

from bridle.agents.delegation import DELEGATE
from bridle.app.sources.settings_use import COMING
from bridle.clients.interaction.composer.keys import KEYS
from bridle.config.origins import OTHER_VARIABLES, VARIABLES
from bridle.context.memory import memory_tool
from bridle.context.skills import session_skills
from bridle.mcp import presented_tools
from bridle.tools import repo_map
from cli_kit import Place

# Names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("help sesions", 'There is no help page "sesions". Did you mean sessions? Pages: '),
        ("hooks test PreTolUse", 'There is no hook event "PreTolUse". Did you mean PreToolUse? Events: '),
        ("agents show bild", 'There is no agent "bild". Did you mean build? Agents: '),
        ("run -m demo --agent bild hi", "(nearest: build). See: bridle agents"),
        ("skills show find-the-cuase", "(nearest: find-the-cause). See: bridle skills list"),
        ("login opnai", "(nearest: openai). What each has: bridle models"),
    ],
)
def test_a_slip_in_a_name_is_answered_with_the_near_one(place: Place, words: str, said: str) -> None:
    ran = place.bridle(*shlex.split(words))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.story[0]


@pytest.mark.parametrize("name", ["skill", "repo_map"])
def test_every_tool_that_is_listed_can_be_explained(place: Place, name: str) -> None:
    assert f"\n{name} " in place.bridle("tools").out
    ran = place.bridle("permissions", "explain", name, "{}")
    assert (ran.code, ran.out.split()[0]) == (0, "allow")


def test_the_map_is_not_listed_where_a_setting_leaves_it_out(place: Place) -> None:
    place.bridle("config", "set", "context.repo_map", "off")
    assert "repo_map" not in place.bridle("tools").out
    assert 'no tool "repo_map"' in place.bridle("permissions", "explain", "repo_map", "{}").err


def test_an_option_of_a_run_is_said_to_be_one(place: Place) -> None:
    ran = place.bridle("--json", "hi")
    said = 'There is no option "--json" here. It is one of a run: bridle run --json … See: bridle help'
    assert (ran.code, ran.story) == (2, [said])
    assert "one of a run" not in place.bridle("--nonsense", "hi").err


@pytest.mark.parametrize("option", ["-C", "-o", "--prompt-file", "--config", "--add-dir"])
def test_a_path_that_is_no_text_is_not_taken_for_another(place: Place, option: str) -> None:
    ran = place.bridle("run", "-m", "demo", option, os.fsdecode(b"a\xffb"), "hi")
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == ["a\ufffdb cannot be used: its name is not UTF-8 text. Rename it"]
    assert os.listdir(place.work) == []
    assert place.bridle("run", "-m", "demo", os.fsdecode(b"a prompt\xff.")).code == 0


def test_the_keys_of_a_conversation_are_a_page(place: Place) -> None:
    ran = place.bridle("help", "keys")
    assert (ran.code, ran.out.splitlines()) == (0, list(KEYS))


def test_the_demo_needs_no_key(place: Place) -> None:
    ran = place.bridle("login", "demo")
    said = "demo plays a script and needs no key. Try it: bridle run -m demo PROMPT"
    assert (ran.code, ran.story) == (2, [said])


def test_a_session_without_a_title_has_words_all_the_same(place: Place) -> None:
    place.bridle("run", "-m", "demo", "--session", "job", "one")
    place.bridle("sessions", "rename", "job")
    assert "(no title)" in place.bridle("sessions").out
    assert "(no title)" in place.bridle("sessions", "search", "scripted").out


def test_what_is_said_to_bring_an_undone_session_back_does(place: Place) -> None:
    model = place.script('call write_file {"path": "made", "content": "x"}\n---\nsay Done.\n')
    place.bridle("run", "-y", "-m", model, "--session", "job", "one")
    place.bridle("run", "-m", "demo", "two")
    undone = place.bridle("undo", "job", "-y")
    assert not (place.work / "made").exists()
    way_back = undone.out.splitlines()[-1].partition("Undone. bridle ")[2].partition(" brings it back")[0]
    assert place.bridle(*way_back.split(), "-y").code == 0
    assert (place.work / "made").exists()
    refused = place.bridle("undo", "job", "--redo", "-y")
    assert refused.story == ["--redo takes back the last undo. Of which session: --redo --session ID"]


def test_a_deadline_before_anything_has_begun_is_one_too(place: Place) -> None:
    ran = place.bridle("run", "-m", "demo", "--timeout", "0.000001", "hi")
    assert (ran.code, ran.out, ran.story) == (124, "", ["The run did not finish within 1e-06 s."])
    result = place.bridle("run", "-m", "demo", "--json", "--timeout", "0.000001", "hi").result
    assert (result["exit_code"], result["reason"]) == (124, "DeadlineReached")


# Variables


def test_every_variable_of_ours_is_on_its_page(place: Place) -> None:
    page = place.bridle("help", "env").out
    told_to_hooks = {name for name in OTHER_VARIABLES if name.startswith(("BRIDLE_HOOK", "BRIDLE_TOOL"))}
    for name in {*VARIABLES, *OTHER_VARIABLES} - told_to_hooks - {"BRIDLE_SESSION_ID"}:
        assert name in page or name.startswith(("BRIDLE_SUB_", "BRIDLE_MAIN_")), name


def test_a_bridle_that_a_hook_starts_knows_what_the_hook_was_told(place: Place) -> None:
    place.bridle("config", "set", "mode", "default")
    own = place.home / ".config/bridle/config.toml"
    own.write_text(
        'hooks = [{event = "PostToolUse", command = ["sh", "-c", "env > told"]}]\n', encoding="utf-8"
    )
    place.bridle("run", "-m", place.script("call ls {}\n---\nsay Done.\n"), "go")
    lines = (place.work / "told").read_text(encoding="utf-8").splitlines()
    told = {line.partition("=")[0] for line in lines if line.startswith("BRIDLE_")}
    assert {"BRIDLE_HOOK_EVENT", "BRIDLE_TOOL_NAME"} <= told
    checked = place.bridle("config", "validate", env=dict.fromkeys(told, "x"))
    assert "is not a variable Bridle knows" not in checked.out


# Settings


@pytest.mark.parametrize("name", sorted(COMING))
def test_a_rule_about_a_tool_that_only_some_sessions_have_is_no_slip(place: Place, name: str) -> None:
    (place.work / "given.toml").write_text(f'disallowed_tools = ["{name}"]\n', encoding="utf-8")
    checked = place.bridle("config", "validate", "--config", "given.toml")
    assert (checked.code, checked.out.split(".")[0]) == (0, "Nothing is wrong")
    ran = place.bridle("run", "-m", "demo", "--deny", name, "hi")
    assert "does nothing" not in ran.err


def test_the_tools_that_only_some_sessions_have_are_these() -> None:
    assert (
        frozenset({DELEGATE, memory_tool.NAME, repo_map.NAME, session_skills.TOOL, presented_tools.NAME})
        == COMING
    )


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            'tools.packs = ["fs", "foo"]',
            0,
            'warn   config.toml line 1: tools.packs: there is no pack "foo" (there are',
        ),
        (
            'engine.listen = "foo"',
            2,
            "error  config.toml line 1: engine.listen takes an address and a port, such as",
        ),
    ],
)
def test_what_a_session_or_an_engine_would_say_is_said_by_validate(
    place: Place, text: str, code: int, said: str
) -> None:
    own = place.home / ".config/bridle/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(text + "\n", encoding="utf-8")
    checked = place.bridle("config", "validate")
    assert checked.code == code
    assert checked.out.startswith(said)


def test_an_engine_names_the_setting_that_it_cannot_listen_by(place: Place) -> None:
    place.bridle("config", "set", "engine.listen", "127.0.0.1:0")
    own = place.home / ".config/bridle/config.toml"
    own.write_text('engine.listen = "foo"\n', encoding="utf-8")
    ran = place.bridle("serve")
    assert (ran.code, ran.story) == (
        2,
        ['engine.listen takes an address and a port, such as 127.0.0.1:8421, not "foo"'],
    )


# Places


@pytest.mark.parametrize("words", ["sandbox", "sandbox run -- true", "sandbox probe"])
def test_a_state_folder_that_cannot_be_made_is_named(place: Place, words: str) -> None:
    (place.work / "file").write_text("", encoding="utf-8")
    ran = place.bridle(*shlex.split(words), env={"XDG_STATE_HOME": str(place.work / "file")})
    why = "What holds commands here cannot be tried: the state folder cannot be written."
    assert (ran.code, ran.story) == (2, [f"{why} It is {place.work}/file/bridle"])


def test_a_command_that_has_no_place_for_its_sandbox_is_not_run(place: Place) -> None:
    (place.work / "file").write_text("", encoding="utf-8")
    model = place.script('call bash {"command": "touch made"}\n---\nsay Done.\n')
    ran = place.bridle("run", "-m", model, "-y", "go", env={"XDG_STATE_HOME": str(place.work / "file")})
    line = next(line for line in ran.story if "touch made" in line)
    assert line.startswith("not run  touch made")
    assert line.endswith("The command could not be started: the state folder cannot be written.")
    assert not (place.work / "made").exists()


def test_an_answer_that_has_no_place_is_refused_before_anything_runs(place: Place) -> None:
    name = "x" * 300
    ran = place.bridle("run", "-m", "demo", "-o", name, "hi")
    assert (ran.code, ran.out, ran.story) == (
        2,
        "",
        [f"The answer cannot be written to {name} (File name too long); nothing was run"],
    )
    assert place.sessions() == []


def test_a_profile_that_cannot_be_written_is_named(place: Place) -> None:
    name = "x" * 300
    ran = place.bridle("profiles", "new", name)
    path = place.home / f".config/bridle/profiles/{name}.toml"
    assert (ran.code, ran.story) == (1, [f"{path} cannot be written: File name too long."])


def test_a_backup_that_cannot_be_written_is_named(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hi")
    name = "x" * 300
    ran = place.bridle("sessions", "backup", name)
    assert (ran.code, ran.story) == (2, [f"{place.work / name} cannot be written (File name too long)"])


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_doctor_finds_a_store_that_cannot_be_written(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hi")
    home = str(place.home)
    read_only = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", home, home)
    ran = place.bridle("doctor", "--offline", around=read_only)
    row = next(line for line in ran.out.splitlines() if line.split()[1:2] == ["store"])
    assert (ran.code, row.split()[0]) == (1, "fail")
    assert row.endswith(f"{place.data}/sessions.db is not yours to write: nothing new can be kept")


@pytest.mark.parametrize(
    ("verb", "file"), [("agents", ".bridle/agents/foo.md"), ("skills", ".bridle/skills/foo/SKILL.md")]
)
def test_a_file_that_could_not_be_written_whole_is_not_left_behind(
    place: Place, verb: str, file: str
) -> None:
    full = (
        "sh",
        "-c",
        'ulimit -f 0; exec "$@"',
        "sh",
    )  # as a disk: a file can be made, and nothing written to it
    ran = place.bridle(verb, "new", "foo", around=full)
    assert (ran.code, ran.story) == (1, [f"{place.work}/{file} cannot be written: File too large."])
    assert not (place.work / file).exists()
    assert place.bridle(verb, "new", "foo").code == 0
