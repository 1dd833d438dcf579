"""Changing the person's own file: one setting, and nothing else."""

from __future__ import annotations

import os
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.app.user.setting_sections import TABLE
from bridle.config.problems import written
from bridle.config.settings_writer import SettingChange, set_value, unset
from bridle.protocol.errors import BridleError, UsageError
from config.config_kit import Desk, thawed
from effort import examples

COMMENTED = """\
# My settings.
mode = "default"   # asks first

[providers.work]     # the office
baseUrl = "https://models.example/v1"
wire = "openai_chat"

# What a turn may do
[budget]
max_steps = 7

[[permissions.rules]]
tool = "bash"
verdict = "deny"
"""


def test_comments_order_and_layout_stay(desk: Desk):
    path = desk.write("user/config.toml", COMMENTED)
    assert set_value(TABLE, desk.where, "mode", "plan") == SettingChange(
        os.path.join(desk.where.config, "config.toml"), "mode", "default", "plan"
    )
    assert path.read_text() == COMMENTED.replace('mode = "default"  ', 'mode = "plan"  ')


def test_a_setting_is_changed_under_the_name_it_has_there(desk: Desk):
    path = desk.write("user/config.toml", COMMENTED)
    set_value(TABLE, desk.where, "providers.work.base_url", "http://localhost:1")
    assert path.read_text() == COMMENTED.replace("https://models.example/v1", "http://localhost:1")
    desk.write("user/config.toml", 'permissionMode = "plan"\n')
    set_value(TABLE, desk.where, "mode", "auto")
    assert path.read_text() == 'permissionMode = "auto"\n'


def test_the_file_and_its_folder_are_made_private(tmp_path: Path):
    from bridle.config.folders import folders

    where = folders({"BRIDLE_HOME": str(tmp_path / "new")})
    change = set_value(TABLE, where, "model", "work:some-model")
    assert Path(change.path).read_text() == 'model = "work:some-model"\n'
    assert stat.S_IMODE(os.stat(change.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(where.config).st_mode) == 0o700


def test_a_linked_file_is_changed_where_it_really_is(desk: Desk):
    real = desk.write("dotfiles/bridle.toml", "# mine\n")
    (desk.root / "user" / "config.toml").symlink_to(real)
    set_value(TABLE, desk.where, "mode", "plan")
    assert (desk.root / "user" / "config.toml").is_symlink()
    assert real.read_text() == '# mine\nmode = "plan"\n'


def test_a_json_file_stays_json(desk: Desk):
    path = desk.write("user/settings.json", '{"budget": {"maxSteps": 7}, "unknown": [1]}')
    set_value(TABLE, desk.where, "budget.max_steps", "9")
    set_value(TABLE, desk.where, "ui.theme", "mono")
    assert msgspec.json.decode(path.read_bytes()) == {
        "budget": {"maxSteps": 9}, "unknown": [1], "ui": {"theme": "mono"},
    }  # fmt: skip
    assert path.read_text().startswith("{\n  ")
    assert not (desk.root / "user" / "config.toml").exists()


def test_unset_takes_one_setting_out(desk: Desk):
    path = desk.write("user/config.toml", COMMENTED)
    assert unset(TABLE, desk.where, "budget.max_steps").before == 7
    assert "max_steps" not in path.read_text()
    assert "# What a turn may do" in path.read_text()
    before = path.read_text()
    assert unset(TABLE, desk.where, "budget.max_steps").before is None
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("modle", "x", 'there is no setting "modle" (nearest: model)'),
        ("budget.max_step", "5", 'there is no setting "budget.max_step" (nearest: budget.max_steps)'),
        (
            "providers.work.wier",
            "5",
            'there is no setting "providers.work.wier" (nearest: providers.work.wire)',
        ),
        ("mode", "yollo", 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan)'),
        (
            "budget",
            "5",
            "budget is a section; name one of its settings (budget.usd_per_session, budget.max_steps)",
        ),
        ("hooks", '[{event = "Stop"}]', "hooks[0] has no command"),
    ],
)
def test_what_does_not_exist_is_not_written(desk: Desk, key: str, text: str, sentence: str):
    with pytest.raises(UsageError) as caught:
        set_value(TABLE, desk.where, key, text)
    assert caught.value.message == sentence
    assert not (desk.root / "user" / "config.toml").exists()


@pytest.mark.parametrize(
    "key", ["providers.work.api_key", "providers.work.apiKey", "api_key", "oauth_credentials"]
)
def test_a_secret_is_not_written(desk: Desk, key: str):
    with pytest.raises(UsageError, match="is a secret and is not written") as caught:
        set_value(TABLE, desk.where, key, "hush-hush")
    assert "hush" not in caught.value.message
    assert "key_env" in caught.value.message
    assert not (desk.root / "user" / "config.toml").exists()


def test_a_file_that_cannot_be_read_is_left_alone(desk: Desk):
    path = desk.write("user/config.toml", 'mode = "plan\n')
    with pytest.raises(BridleError) as caught:
        set_value(TABLE, desk.where, "mode", "auto")
    assert (caught.value.reason, caught.value.data["line"]) == ("BadConfig", 1)
    assert path.read_text() == 'mode = "plan\n'


INLINE = (
    'providers = { x = { wire = "anthropic", local = true }, y = { wire = "anthropic" } }\n',
    'providers = {x={wire="anthropic",local=true},y={wire="anthropic"}}\n',
    'providers = { x.wire = "anthropic", x.local = true, y.wire = "anthropic" }\n',
    'providers = { x.local = true, x.wire = "anthropic", y.wire = "anthropic" }\n',
    'providers.x = { wire = "anthropic", local = true }\nproviders.y = { wire = "anthropic" }\n',
    'providers.x.wire = "anthropic"\nproviders.x.local = true\nproviders.y.wire = "anthropic"\n',
    '[providers]\nx = { wire = "anthropic", local = true } # mine\ny.wire = "anthropic"\n[ui]\n',
    '[providers.x]\nwire = "anthropic"\nlocal = true\n[providers.y]\nwire = "anthropic"\n',
)


@pytest.mark.parametrize("text", INLINE)
def test_a_setting_is_taken_out_however_its_table_is_written(desk: Desk, text: str):
    path = desk.write("user/config.toml", text)
    assert unset(TABLE, desk.where, "providers.x.wire").before == "anthropic"
    assert tomllib.loads(path.read_text())["providers"] == {"x": {"local": True}, "y": {"wire": "anthropic"}}
    for key in ("providers.x.local", "providers.y.wire"):
        unset(TABLE, desk.where, key)
    left = tomllib.loads(path.read_text())
    assert [table for table in left.get("providers", {}).values() if table] == []
    set_value(TABLE, desk.where, "providers.x.wire", "anthropic")
    assert desk.load().get("providers.x.wire") == "anthropic"


# Reading gives back what was set, and everything else is as before

NAMES = st.sampled_from(["a", "b", "my.host", "c d", "é"])
EDITS = st.one_of(
    st.tuples(st.just(("mode",)), st.sampled_from(("plan", "auto"))),
    st.tuples(st.just(("model",)), st.text(max_size=8)),
    st.tuples(
        st.just(("instructions",)), st.sampled_from(("two\nlines", '"quoted"', "tab\t", "5", "true", "[1]"))
    ),
    st.tuples(st.just(("budget", "max_steps")), st.integers(1, 99)),
    st.tuples(st.just(("context", "sources")), st.lists(st.text(max_size=3), max_size=3)),
    st.tuples(st.just(("ui", "reader")), st.booleans()),
    st.tuples(NAMES.map(lambda name: ("providers", name, "wire")), st.just("anthropic")),
    st.tuples(
        NAMES.map(lambda name: ("providers", name, "headers")),
        st.dictionaries(st.sampled_from(("X", "y-z", "q r")), st.text(max_size=3)),
    ),
)
STARTS = st.sampled_from(
    ["", "# nothing yet\n", COMMENTED, 'model = "x"\n[ui]\nreader = true', "providers.a.wire = 'anthropic'\n",
     '[providers]\na = { wire = "anthropic" }\n', '[providers.a]\n[budget]\n[providers.b]\nwire = "anthropic"\n',
     "[ui] # look\r\n\r\ntheme = 'mono'\r\n"]
)  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(STARTS, st.lists(EDITS, min_size=1, max_size=4), st.booleans())
def test_reading_gives_back_what_was_set(start: str, edits: list[tuple[tuple[str, ...], Any]], as_json: bool):
    with tempfile.TemporaryDirectory() as root:
        desk = Desk(Path(root))
        if as_json:
            desk.write("user/settings.json", msgspec.json.encode(tomllib.loads(start)))
        else:
            desk.write("user/config.toml", start)
        wanted = {path: thawed(desk.load().get(path)) for path, _value in edits}
        for path, value in edits:
            text = value if isinstance(value, str) and not _looks_like_toml(value) else written(value)
            set_value(TABLE, desk.where, ".".join(f'"{part}"' for part in path), text)
            wanted[path] = value
        tiers = desk.load().checked()
        assert {path: thawed(tiers.get(path)) for path in wanted} == wanted


def _looks_like_toml(text: str) -> bool:
    try:
        tomllib.loads(f"value = {text}")
    except ValueError:
        return False
    return True
