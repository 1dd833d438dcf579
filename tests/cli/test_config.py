"""`bridle config`: what is set, from where, changing one's own file, and finding what is wrong with any."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridle.conformance.servers import ModelServer
from bridle.providers.script import say
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran

BAD_MODE = 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan)'


def own_file(place: Place) -> Path:
    return place.home / ".config/bridle/config.toml"


def write_own(place: Place, text: str) -> Path:
    file = own_file(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def settings(ran: Ran) -> dict[str, Any]:
    """The settings of `show --json` by their keys."""
    return {row["key"]: row for row in ran.result["settings"]}


def test_without_a_word_the_settings_in_force_are_shown_and_nothing_is_made(place: Place) -> None:
    shown = place.bridle("config")
    assert (shown.code, shown.err) == (0, "")
    assert {'mode = "default"', "budget.max_steps = 100"} <= set(shown.out.splitlines())
    assert place.bridle("config", "show") == shown
    assert os.listdir(place.home) == []


@pytest.mark.requirement("D12.1", "H4.4", "C2")
def test_every_value_can_say_where_it_comes_from(place: Place) -> None:
    write_own(place, '# mine\nmode = "plan"\n')
    project = place.work / ".bridle"
    project.mkdir()
    (project / "config.toml").write_text("[ui]\nreader = true\n")
    extra = place.work / "extra.toml"
    extra.write_text('effort = "low"\n')
    words = ("--config", "extra.toml", "--set", "budget.max_steps=7")
    shown = place.bridle("config", "--origin", *words, env={"BRIDLE_MODEL": "demo"})
    origins = dict(line.split("  # ") for line in shown.out.splitlines())
    assert {line.strip(): origin for line, origin in origins.items()}.items() >= {
        ('model = "demo"', "BRIDLE_MODEL"),
        ('mode = "plan"', "user config, line 2"),
        ("ui.reader = true", "project config, line 2"),
        ('effort = "low"', "extra.toml, line 1"),
        ("budget.max_steps = 7", "--set"),
        ("ui.notify = true", "default"),
    }
    listed = settings(place.bridle("config", "show", "--json", *words))
    assert listed["mode"] == {
        "key": "mode",
        "value": "plan",
        "origin": {"tier": "user", "name": "config.toml", "path": str(own_file(place)), "line": 2},
    }
    assert listed["budget.max_steps"]["value"] == 7


def test_what_is_set_is_got_again_as_plain_words(place: Place) -> None:
    file = own_file(place)
    for key, value in (
        ("model", "ollama:qwen3:8b"),
        ("budget.max_steps", "12"),
        ("sandbox.writable", '["a"]'),
    ):
        done = place.bridle("config", "set", key, value)
        assert done == (0, f"{key} is set in {file}.\n", "")
        assert place.bridle("config", "get", key) == (0, f"{value}\n", "")
    assert file.stat().st_mode & 0o777 == 0o600
    again = place.bridle("config", "set", "budget.max_steps", "12")
    assert again.out == f"budget.max_steps was so already in {file}.\n"
    assert place.bridle("config", "get", "budget.maxSteps").out == "12\n"
    assert place.bridle("config", "path") == (0, f"{file}\n", "")


def test_setting_keeps_what_else_stands_in_the_file(place: Place) -> None:
    file = write_own(place, '# my settings\nmode = "plan"  # careful\n')
    place.bridle("config", "set", "model", "demo")
    assert {"# my settings", 'mode = "plan"  # careful', 'model = "demo"'} <= set(
        file.read_text().splitlines()
    )


def test_a_setting_that_something_else_overrides_is_said_to_be_so(place: Place) -> None:
    done = place.bridle("config", "set", "mode", "auto", env={"BRIDLE_MODE": "plan"})
    assert done.out.splitlines() == [
        f"mode is set in {own_file(place)}.",
        'Here it is "plan", from BRIDLE_MODE.',
    ]


def test_what_is_unset_is_what_it_was_before(place: Place) -> None:
    file = write_own(place, 'mode = "plan"\nmodel = "demo"\n')
    done = place.bridle("config", "unset", "mode")
    assert done.out.splitlines() == [
        f"mode is no longer set in {file}.",
        'Here it is "default", from default.',
    ]
    assert file.read_text() == 'model = "demo"\n'
    assert place.bridle("config", "unset", "model") == (0, f"model is no longer set in {file}.\n", "")
    assert place.bridle("config", "unset", "model") == (0, f"model is not set in {file}.\n", "")
    gone = place.bridle("config", "get", "model")
    assert (gone.code, gone.out, gone.story) == (1, "", ["model is not set"])


def test_unsetting_what_was_never_set_makes_nothing(place: Place) -> None:
    assert place.bridle("config", "unset", "model") == (0, f"model is not set in {own_file(place)}.\n", "")
    assert os.listdir(place.home) == []


def test_a_removed_setting_can_be_unset_and_not_set(place: Place) -> None:
    file = write_own(place, 'mode = "plan"\n\n[engine]\nstandby = true\n')
    refused = place.bridle("config", "set", "engine.standby", "true")
    assert (refused.code, refused.story) == (2, ["engine.standby no longer does anything; remove it"])
    unset = place.bridle("config", "unset", "engine.standby")
    assert unset == (0, f"engine.standby is no longer set in {file}.\n", "")
    assert "standby" not in file.read_text()


@pytest.mark.parametrize("action", ["get", "set", "unset"])
def test_a_key_that_does_not_exist_is_refused_with_the_nearest_one(place: Place, action: str) -> None:
    words = ("modle", "x") if action == "set" else ("modle",)
    ran = place.bridle("config", action, *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == ['there is no setting "modle" (nearest: model)']
    assert os.listdir(place.home) == []


def test_a_value_the_setting_does_not_take_is_refused_and_nothing_is_written(place: Place) -> None:
    ran = place.bridle("config", "set", "mode", "yollo")
    assert (ran.code, ran.out, ran.story) == (2, "", [BAD_MODE])
    assert not own_file(place).exists()


def test_a_secret_is_neither_written_nor_shown(place: Place) -> None:
    secret = "sk-" + "a1b2c3d4" * 5
    refused = place.bridle("config", "set", "providers.work.api_key", secret)
    assert (refused.code, refused.out) == (2, "")
    write_own(
        place,
        f'[providers.work]\napi_key = "{secret}"\nbase_url = "https://me:{secret}@models.example/v1"\n'
        f'headers = {{ x-secret = "{secret}" }}\n',
    ).chmod(0o600)
    for words in (
        ("show",),
        ("show", "--origin"),
        ("show", "--json"),
        ("validate",),
        ("get", "providers.work.api_key"),
        ("get", "providers.work.base_url"),
        ("get", "providers.work.headers"),
        ("unset", "providers.work.api_key"),
    ):
        ran = place.bridle("config", *words)
        assert ran.code == 0, ran
        assert secret not in ran.out + ran.err
    assert secret not in refused.err


def test_a_sound_configuration_says_what_was_read(place: Place) -> None:
    assert place.bridle("config", "validate") == (
        0,
        "Nothing is wrong. Read: no settings file, there is none\n",
        "",
    )
    file = write_own(place, 'mode = "plan"\n')
    assert place.bridle("config", "validate") == (0, f"Nothing is wrong. Read: {file}\n", "")
    assert place.bridle("config", "validate", "--json").result == {"valid": True, "problems": []}


def test_validating_names_file_and_line_errors_first_and_exits_2(place: Place) -> None:
    file = write_own(place, 'modle = "x"\n\nmode = "yollo"\n[providers.work]\nwire = "smoke"\n')
    ran = place.bridle("config", "validate")
    assert (ran.code, ran.err) == (2, "")
    wires = "openai_chat, openai_responses, anthropic"
    assert ran.out.splitlines() == [
        f"error  config.toml line 3: {BAD_MODE}.",
        f'error  config.toml line 5: providers.work.wire = "smoke" is not a wire ({wires}).',
        'warn   config.toml line 1: there is no setting "modle" (nearest: model).',
        "2 errors, 1 warning.",
    ]
    for_programs = place.bridle("config", "validate", "--json")
    assert for_programs.code == 2
    assert for_programs.result["valid"] is False
    assert for_programs.result["problems"][0] == {
        "severity": "error",
        "source": "config.toml",
        "path": str(file),
        "line": 3,
        "key": "mode",
        "problem": BAD_MODE,
        "reason": "BadConfig",
        "text": f"config.toml line 3: {BAD_MODE}.",
    }


@pytest.mark.requirement("T17.2")
def test_validating_finds_unknown_wires_unknown_modes_and_tools_in_both_lists(place: Place) -> None:
    text = 'permissionMode = "sloppy"\nallowedTools = ["bash", "grep"]\ndisallowedTools = ["grep"]\n'
    write_own(place, f'{text}[providers.work]\nwire = "smoke"\n')
    ran = place.bridle("config", "validate", "--json")
    assert (ran.code, ran.result["valid"]) == (2, False)
    found = {(problem["key"], problem["line"]): problem["problem"] for problem in ran.result["problems"]}
    assert found == {
        ("mode", 1): BAD_MODE.replace("yollo", "sloppy"),
        ("allowed_tools", 2): "grep is in allowed_tools and in disallowed_tools",
        ("providers.work.wire", 5): 'providers.work.wire = "smoke" is not a wire '
        "(openai_chat, openai_responses, anthropic)",
    }
    assert {problem["severity"] for problem in ran.result["problems"]} == {"error"}


@pytest.mark.parametrize(
    ("text", "severity", "problem"),
    [
        ('[[hooks]]\nevent = "Sometime"\ncommand = "x"\n', "error", 'event = "Sometime" is not a hook event'),
        ('disallowed_tools = ["bash("]\n', "error", '"bash(" is not a tool, nor a tool and a pattern'),
        ('log.levels = "loud"\n', "error", '"loud" is no level'),
        ('disallowed_tools = ["bsah"]\n', "warn", 'there is no tool "bsah" (nearest: bash); this rule'),
        ('permissions.rules = [{ tool = "bsah", verdict = "deny" }]\n', "warn", 'there is no tool "bsah"'),
    ],
)
def test_validating_finds_what_a_run_would_refuse_or_say(
    place: Place, text: str, severity: str, problem: str
) -> None:
    write_own(place, text)
    validated, doctor = place.bridle("config", "validate"), place.bridle("doctor", "--offline")
    ran = place.bridle("run", "-m", "demo", "x")
    assert validated.out.startswith(f"{severity:<5}  config.toml line 1: ")
    assert problem in validated.out
    assert problem in doctor.out
    assert problem in ran.err
    code = 2 if severity == "error" else 0
    assert (validated.code, ran.code) == (code, code)


@pytest.mark.parametrize("option", ["--allow", "--deny"])
def test_a_rule_of_the_command_line_about_no_tool_is_said(place: Place, option: str) -> None:
    words = [
        word
        for rule in ("bsah", "mcp__git__*", "edit", "Bash(ls)", "exit_plan_mode")
        for word in (option, rule)
    ]
    ran = place.bridle("run", "-m", "demo", *words, "x")
    assert [line for line in ran.story if "no tool" in line] == [
        f'{option}: there is no tool "bsah" (nearest: bash); this rule does nothing.'
    ]


def test_a_file_and_a_value_of_the_command_line_are_validated_too(place: Place) -> None:
    (place.work / "extra.toml").write_text("budget = 3\n")
    ran = place.bridle("config", "validate", "--config", "extra.toml", "--set", "mode=yollo")
    assert ran.code == 2
    assert ran.out.splitlines()[-1] == "2 errors, 0 warnings."
    assert any(line.startswith("error  extra.toml line 1: ") for line in ran.out.splitlines())
    assert f"error  --set: {BAD_MODE}." in ran.out.splitlines()
    missing = place.bridle("config", "validate", "--config", "no-such.toml")
    assert (missing.code, missing.err) == (2, "")
    assert "no-such.toml" in missing.out


def test_a_file_that_is_no_settings_file_is_shown_as_a_mistake(place: Place) -> None:
    write_own(place, "this is = = no TOML\x1b[31m\n")
    shown = place.bridle("config")
    assert shown.code == 2
    assert 'mode = "default"' in shown.out
    assert len(shown.story) == 1
    assert "\x1b" not in shown.err
    got = place.bridle("config", "get", "mode")
    assert (got.code, got.out, got.story) == (2, "", shown.story)
    changed = place.bridle("config", "set", "mode", "plan")
    assert (changed.code, changed.out, len(changed.story)) == (2, "", 1)


@pytest.mark.requirement("G38.5")
def test_a_key_that_a_profile_should_not_have_is_named_and_the_run_goes_on(place: Place) -> None:
    (place.work / "mine.toml").write_text('mode = "plan"\nskil_packs = []\n')
    ran = place.bridle("run", "-m", "demo", "--profile", "./mine.toml", "hi")
    assert ran.code == 0
    assert 'mine.toml line 2: there is no setting "skil_packs"' in ran.err
    assert " · mode plan · " in ran.err


@pytest.mark.requirement("H4.1", "T17.1")
def test_a_project_goes_before_the_person_and_their_own_file_in_it_before_both(place: Place) -> None:
    write_own(place, 'ui.theme = "own"\nui.reader = true\nui.notify = false\n')
    project = place.work / ".bridle"
    project.mkdir()

    def shown() -> tuple[object, ...]:
        rows = settings(place.bridle("config", "show", "--json"))
        return tuple(rows[key]["value"] for key in ("ui.theme", "ui.reader", "ui.notify"))

    assert shown() == ("own", True, False)
    (project / "config.toml").write_text('ui.theme = "project"\nui.reader = false\n')
    assert shown() == ("project", False, False)
    (project / "config.local.toml").write_text('ui.theme = "local"\n')
    assert shown() == ("local", False, False)


@pytest.mark.requirement("H4.3", "D12.20")
def test_a_key_in_a_project_is_named_and_used_by_nobody(place: Place) -> None:
    secret = "sk-" + "a1b2c3d4" * 5
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text(f'[providers.work]\napi_key = "{secret}"\n')
    checked = place.bridle("config", "validate")
    assert checked.code == 0
    assert checked.out.startswith("warn   .bridle/config.toml")
    assert "providers.work.api_key" in checked.out
    ran = place.bridle("run", "-m", "work:some-model", "hi")
    assert ran.code != 0
    assert secret not in checked.out + checked.err + ran.out + ran.err
    assert "providers.work.api_key" not in settings(place.bridle("config", "show", "--json"))


def test_what_a_project_may_not_set_is_named(place: Place) -> None:
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text('mode = "yolo"\n')
    ran = place.bridle("config", "validate")
    assert ran.code == 0
    (line, count) = ran.out.splitlines()
    assert line.startswith("warn   .bridle/config.toml")
    assert "mode" in line
    assert count == "0 errors, 1 warning."
    assert place.bridle("config", "get", "mode").out == "default\n"


@pytest.mark.parametrize("action", [("set", "mode", "plan"), ("unset", "mode"), ("show",), ("get", "mode")])
def test_a_home_that_is_no_folder_gets_a_sentence(place: Place, action: tuple[str, ...]) -> None:
    file = place.work / "file"
    file.write_text("")
    ran = place.bridle("config", *action, env={"HOME": str(file)})
    assert ran.code == (1 if action[0] == "set" else 0)
    if action[0] == "set":
        (line,) = ran.story
        assert line.endswith(f"config.toml cannot be written: {file} is not a folder.")


def test_a_folder_that_is_gone_gets_a_sentence(place: Place) -> None:
    (place.work / "gone").mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh", *BRIDLE, "config"],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "bridle: The current folder is not a folder Bridle can work in (No such file or directory)."
    ]


def test_settings_for_programs_are_one_json_object(place: Place) -> None:
    shown = place.bridle("config", "--json", "--set", "mode=plan")
    assert json.loads(shown.out)["problems"] == []
    assert settings(shown)["mode"]["origin"]["name"] == "--set"


@pytest.mark.requirement("T17.3")
@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("anthropic", "/v1/messages"),
    ],
)
async def test_a_provider_is_a_wire_a_model_and_an_address(place: Place, wire: str, path: str) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    async with ModelServer.playing(say("Hello.")) as server:
        provider = {"wire": wire, "baseUrl": server.url, "local": True}
        settings = {"model": "work:some-model", "providers": {"work": provider}}
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        ran = await asyncio.to_thread(place.bridle, "run", "hi")
    assert (ran.code, ran.out) == (0, "Hello.\n")
    (request,) = (request for request in server.requests if request.method == "POST")
    assert (request.path, request.json["model"]) == (path, "some-model")
