"""Settings as people read them."""

from __future__ import annotations

import msgspec

from bridle.config.schema import SETTINGS
from bridle.config.showing import reference, show, shown_value, validate
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
    lines = reference()
    assert len(lines) == len(SETTINGS)
    assert "mode " in lines[3]
    assert lines[3].endswith("What runs without a question. (strict, default, safe, auto, yolo, plan)")
