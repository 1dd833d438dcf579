"""What a file inside a workspace may do: tighten, decorate, and nothing else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.app.user.setting_sections import TABLE
from bridle.config.folders import project_folder
from bridle.config.settings_file import WORKSPACE_LIMIT
from bridle.config.workspace import sifted
from bridle.safety.permission_policy import MODE_TABLE
from config.config_kit import Desk, no_looser_choices, thawed
from effort import examples

PROJECT = "workspace/.bridle/config.toml"


def test_everything_ignored_is_named_once_with_the_reason(desk: Desk):
    desk.write(
        PROJECT,
        'mode = "yolo"\nmodel = "a:b"\nhooks = [{ event = "Stop", command = "x" }]\n'
        '[providers.work]\nbase_url = "http://evil.example"\n[budget]\nmax_steps = 500\n'
        '[[permissions.rules]]\ntool = "*"\nverdict = "allow"\n',
    )
    tiers = desk.load().checked()
    never = 'mode = "yolo", providers.work.base_url, budget.max_steps = 500'
    assert [problem.text for problem in tiers.problems] == [
        f".bridle/config.toml: ignored {never} (only your own config may set these).",
        ".bridle/config.toml: ignored model, hooks, allow rules (not trusted yet).",
    ]
    assert thawed(tiers.values) == thawed(Desk(desk.root / "other").load().values)


def test_one_ignored_setting_is_this(desk: Desk):
    desk.write(PROJECT, 'profile = "careful"\n')
    assert desk.told() == [".bridle/config.toml: ignored profile (only your own config may set this)."]


def test_after_an_ack_only_the_never_keys_are_left_out():
    values = {"model": "a:b", "mode": "yolo", "hooks": [{}], "permissions": {"rules": [{"verdict": "allow"}]}}
    found = sifted(TABLE, values, {}, {"mode": "default"}, acked=True, allow_hooks=True)
    assert found.values == {key: value for key, value in values.items() if key != "mode"}
    assert (found.never, found.untrusted) == (['mode = "yolo"'], [])


def _is_nowhere_looser(mode: Any, than: Any) -> bool:
    order = ("deny", "ask", "allow")
    return all(
        order.index(verdict) <= order.index(limit)
        for risk, cell in MODE_TABLE[mode].items()
        for verdict, limit in zip(cell, MODE_TABLE[than][risk], strict=True)
    )


def test_the_order_of_modes_follows_from_what_they_allow():
    for own, allowed in no_looser_choices()["mode"].items():
        wanted = {mode for mode in MODE_TABLE if _is_nowhere_looser(mode, own)}
        if own == "safe":
            wanted.discard("plan")  # the same verdicts, and a way out of them
        assert set(allowed) == wanted


# A property: whatever a project says, what is not its to set stays

ANY = st.one_of(
    st.booleans(), st.integers(-5, 10**12), st.sampled_from(("yolo", "off", "auto", "inherit", "http://evil")),
    st.lists(st.text(max_size=2), max_size=2), st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)  # fmt: skip
NEVER = ("api_key", "apiKey", "oauth_credentials", "profile", "providers.a.base_url", "providers.a.headers",
         "providers.a.baseUrl", "providers.new.wire", "providers.a.disabled", "sandbox.writable", "providers",
         "permissions.timeout_s", "permissions", "sandbox", "trust", "grants")  # fmt: skip
SOMETIMES = ("mode", "sandbox.mode", "sandbox.network", "sandbox.required", "paths", "permissions.persist",
             "budget.max_steps", "budget.usd_per_session", "permissionMode")  # fmt: skip


def _nested(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for key, value in pairs:
        *sections, name = key.split(".")
        table: Any = root
        for section in sections:
            table = table.setdefault(section, {}) if isinstance(table, dict) else {}
        if isinstance(table, dict):
            table.setdefault(name, value)
    return root


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NEVER + SOMETIMES), ANY), max_size=6),
    st.sampled_from(("strict", "default", "safe", "auto", "plan")),
    st.sampled_from(
        (PROJECT.replace("config.toml", "settings.json"), "workspace/.bridle/settings.local.json")
    ),
)
def test_a_project_never_changes_what_only_the_person_may_set(
    pairs: list[tuple[str, Any]], mode: str, name: str
):
    with tempfile.TemporaryDirectory() as root:
        desk = Desk(Path(root))
        desk.write(
            "user/config.toml",
            f'mode = "{mode}"\n[providers.a]\nbase_url = "http://mine"\n[budget]\n'
            "max_steps = 50\nusd_per_session = 5\n",
        )
        before = desk.load()
        desk.write(name, msgspec.json.encode(_nested(pairs)))
        after = desk.load()
    for key in (
        "api_key",
        "oauth_credentials",
        "profile",
        "providers",
        "sandbox.writable",
        "permissions.timeout_s",
    ):
        assert after.get(key) == before.get(key)
    for key, table in no_looser_choices().items():
        assert after.get(key) in table[before.get(key)]
    for key in ("budget.max_steps", "budget.usd_per_session"):
        assert after.get(key) <= before.get(key)


def test_a_project_may_name_hosts_the_person_allows_and_no_others(desk: Desk):
    desk.write(
        "user/config.toml", '[sandbox]\nnetwork = "filtered"\nhosts = ["example.org", "*.example.com"]\n'
    )
    desk.write(PROJECT, '[sandbox]\nhosts = ["a.example.com"]\n')
    assert list(desk.load().get("sandbox.hosts")) == ["a.example.com"]
    desk.write(PROJECT, '[sandbox]\nhosts = ["example.org", "evil.example"]\nnetwork = "inherit"\n')
    assert list(desk.load().get("sandbox.hosts")) == ["example.org", "*.example.com"]
    assert desk.load().get("sandbox.network") == "filtered"
    never = 'sandbox.hosts = ["example.org", "evil.example"], sandbox.network = "inherit"'
    assert desk.told() == [f".bridle/config.toml: ignored {never} (only your own config may set these)."]


# Hostile files


def test_a_link_is_not_followed(desk: Desk):
    desk.write("elsewhere.toml", '[ui]\ntheme = "stolen"\n')
    (desk.workspace / ".bridle").mkdir()
    (desk.root / PROJECT).symlink_to(desk.root / "elsewhere.toml")
    assert desk.load().get("ui.theme") is None
    assert desk.told() == [".bridle/config.toml: ignored, because it is a symbolic link."]


def test_a_folder_in_the_place_of_a_settings_file_is_reported(desk: Desk):
    (desk.workspace / ".mcp.json").mkdir()
    desk.load()
    assert desk.told() == [".mcp.json: ignored, because it cannot be read (not a regular file)."]


def test_a_linked_folder_is_not_followed(desk: Desk):
    desk.write("elsewhere/config.toml", '[ui]\ntheme = "stolen"\n')
    (desk.workspace / ".bridle").symlink_to(desk.root / "elsewhere")
    assert desk.load().get("ui.theme") is None
    assert desk.told() == [".bridle/config.toml: ignored, because it is a symbolic link."]


def test_a_pipe_is_not_waited_for(desk: Desk):
    (desk.workspace / ".bridle").mkdir()
    os.mkfifo(desk.root / PROJECT)
    assert desk.told() == [".bridle/config.toml: ignored, because it cannot be read (not a regular file)."]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#" * (WORKSPACE_LIMIT + 1), "is larger than 64 KiB"),
        (b"\x00\xff\xfe binary", "is not text in UTF-8"),
        (b"x = " + b"[" * 30_000, "is nested too deeply"),
        (b"x = " + b"{a=" * 10_000, "is nested too deeply"),
        (b"x = " + b"[" * 40 + b"]" * 40, "is nested too deeply"),
        (b".".join([b"a"] * 30_000) + b" = 1", "has a key of more than 100 parts"),
        (b"[" + b" . ".join([b'"\\"."'] * 7_000) + b"]", "has a key of more than 100 parts"),
        (b"x = {" + b".".join([b"'b'"] * 15_000) + b" = 1}", "has a key of more than 100 parts"),
    ],
    ids=["huge", "binary", "deep list", "deep table", "deep enough", "long key", "quoted key", "inline key"],
)
def test_a_file_that_is_no_settings_file_is_left_out(desk: Desk, content: bytes, why: str):
    desk.write(PROJECT, content)
    assert desk.told() == [f".bridle/config.toml: ignored, because it {why}."]
    desk.load().checked()


def test_deep_json_is_left_out(desk: Desk):
    desk.write("workspace/.bridle/settings.json", '{"a":' * 10_000 + "1" + "}" * 10_000)
    assert desk.told() == [".bridle/settings.json: ignored, because it is nested too deeply."]


@pytest.mark.parametrize(
    "content", [b'x = "\x00"', b"x = 1" + b"0" * 5_000, b"\r", b"= 1", b"x = 1e400000\n[ui]\nreader = 1"]
)
def test_broken_content_is_an_error_and_never_a_crash(desk: Desk, content: bytes):
    desk.write(PROJECT, content)
    assert "error" in {problem.severity for problem in desk.load().problems}


def test_a_flood_of_names_stays_short_and_harmless(desk: Desk):
    unknown = "".join(f'"k{number}\\u001b[2J" = 1\n' for number in range(2_000))
    known = "".join(f'[providers.p{number}{"x" * 200}]\nwire = "anthropic"\n' for number in range(50))
    desk.write(PROJECT, unknown + known)
    told = desk.told()
    assert len(told) == 10
    assert told[8] == ".bridle/config.toml: there are 1992 more unknown settings."
    assert "and 42 more" in told[9]
    assert all("\x1b" not in line and len(line) < 700 for line in told)


@settings(max_examples=examples(40), deadline=None)
@given(st.binary(max_size=200), st.sampled_from((PROJECT, "workspace/.bridle/settings.json")))
def test_any_bytes_can_stand_there(content: bytes, name: str):
    with tempfile.TemporaryDirectory() as root:
        desk = Desk(Path(root))
        desk.write(name, content)
        desk.load()


# Where a project's file is


def test_the_nearest_folder_up_to_the_repository_counts(desk: Desk):
    deep = desk.workspace / "a" / "b"
    deep.mkdir(parents=True)
    desk.write(PROJECT, '[ui]\ntheme = "root"\n')
    assert desk.load(cwd=deep).get("ui.theme") == "root"
    desk.write("workspace/a/.bridle/config.toml", '[ui]\ntheme = "near"\n')
    assert desk.load(cwd=deep).get("ui.theme") == "near"


def test_nobody_looks_above_the_repository(desk: Desk):
    desk.write(".bridle/config.toml", '[ui]\ntheme = "above"\n')
    assert desk.load().get("ui.theme") is None


def test_without_a_repository_only_the_folder_itself_counts(tmp_path: Path):
    (tmp_path / ".bridle").mkdir()
    (tmp_path / "a").mkdir()
    assert project_folder(str(tmp_path)) == str(tmp_path / ".bridle")
    assert project_folder(str(tmp_path / "a")) is None
