"""Settings as people read them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridle.app.user.setting_sections import TABLE
from bridle.config.settings_report import reference, rows, show, shown_value, validate
from config.config_kit import Desk


def test_every_value_is_shown_with_its_origin(desk: Desk):
    desk.write("user/config.toml", 'mode = "plan"\n[[permissions.rules]]\ntool = "bash"\nverdict = "deny"\n')
    desk.write("workspace/.bridle/config.toml", "[budget]\nmax_steps = 3\n")
    tiers = desk.load(env={"BRIDLE_MODEL": "a:b"})
    plain = show(tiers)
    assert plain[:2] == ['model = "a:b"', 'mode = "plan"']
    assert 'permissions.rules[0] = { tool = "bash", verdict = "deny" }' in plain
    with_origin = [line.split("  # ") for line in show(tiers, origin=True)]
    assert [line.rstrip() for line, _where in with_origin] == plain
    origins = {line.split(" = ")[0]: where for line, where in with_origin}
    assert [origins[key] for key in ("model", "mode", "permissions.rules[0]", "budget.max_steps", "paths")] == [
        "BRIDLE_MODEL", "user config, line 1", "user config, line 2", "project config, line 2", "default",
    ]  # fmt: skip


def test_secrets_are_not_shown(desk: Desk):
    secret = "hush-" * 5
    desk.write(
        "user/config.toml",
        f'[providers.a]\napi_key = "{secret}"\nheaders = {{ Authorization = "{secret}" }}\n'
        f'base_url = "https://me:{secret}@models.example/v1"\n'
        f'[mcp_servers.b]\ncommand = "x"\nenv = {{ T = "{secret}" }}\n',
    )
    tiers = desk.load(env={"BRIDLE_API_KEY": secret}).checked()
    shown = show(tiers, origin=True)
    assert not any(secret in line for line in shown)
    assert [line.split("  ")[0] for line in shown if line.startswith(("api_key", "providers.a.h"))] == [
        "api_key = (hidden)", 'providers.a.headers = { Authorization = "(hidden)" }',
    ]  # fmt: skip
    assert shown_value(tiers, "providers.a.api_key") == "(hidden)"
    assert shown_value(tiers, "providers.a.base_url") == '"https://…@models.example/v1"'


def test_one_value_is_shown_or_there_is_none(desk: Desk):
    tiers = desk.load()
    assert (shown_value(tiers, "budget.max_steps"), shown_value(tiers, "model")) == ("100", None)


def test_what_a_terminal_would_obey_is_written_out(desk: Desk):
    desk.write("workspace/.bridle/config.toml", '[ui]\ntheme = "\\u202Ex\\n"\n')
    assert 'ui.theme = "⟨U+202E⟩x\\n"' in show(desk.load())


def test_validation_is_data_errors_first(desk: Desk):
    desk.write("user/config.toml", 'modle = "x"\n[providers.a]\nwire = "smtp"\n')
    desk.write("user/settings.json", "{}")
    tiers = desk.load(sets=["mode=yollo"])
    found = msgspec.to_builtins(validate(tiers))
    assert [(row["severity"], row["source"], row["line"], row["key"]) for row in found] == [
        ("error", "config.toml", 3, "providers.a.wire"),
        ("error", "--set", None, "mode"),
        ("warning", "config.toml", None, None),
        ("warning", "config.toml", 1, "modle"),
    ]


def test_help_has_one_line_for_each_setting():
    lines = reference(TABLE)
    assert len(lines) == len(TABLE.settings)
    assert "mode " in lines[3]
    assert lines[3].endswith("What runs without a question. (strict, default, safe, auto, yolo, plan)")


TOML = """\
mode = "auto"
model = "work:one"
[providers.work]
base_url = "http://127.0.0.1:1/v1"
key_env = "WORK_KEY"
[budget]
max_steps = 7
"""
JSON = {
    "permissionMode": "auto",
    "defaultModel": "work:one",
    "providers": {"work": {"baseUrl": "http://127.0.0.1:1/v1", "apiKeyEnv": "WORK_KEY"}},
    "budget": {"maxSteps": 7},
}


@pytest.mark.requirement("C2")
def test_both_syntaxes_say_the_same_and_every_value_has_its_origin(tmp_path: Path):
    shown: list[list[tuple[str, object, str]]] = []
    for name, text in (("config.toml", TOML.encode()), ("settings.json", msgspec.json.encode(JSON))):
        (tmp_path / name).mkdir()
        desk = Desk(tmp_path / name)
        desk.write(f"user/{name}", text)
        desk.write(
            f"workspace/.bridle/{name}",
            b'mode = "strict"' if name.endswith("toml") else b'{"mode": "strict"}',
        )
        desk.write("workspace/given.toml", "ui.reader = true")
        tiers = desk.load(
            env={"BRIDLE_MODEL": "work:two"}, sets=["budget.max_steps=3"], config_file="given.toml"
        )
        tiers = tiers.checked()
        shown.append([(row.key, row.value, row.origin.tier) for row in rows(tiers)])
    assert shown[0] == shown[1]
    origins = {key: (value, tier) for key, value, tier in shown[0]}
    assert origins["model"] == ("work:two", "environment")
    assert origins["mode"] == ("strict", "project")
    assert origins["ui.reader"] == (True, "config")
    assert origins["budget.max_steps"] == (3, "flags")
    assert origins["providers.work.key_env"] == ("WORK_KEY", "user")
    assert origins["paths"] == ("workspace", "defaults")
