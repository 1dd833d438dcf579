"""Profiles as people of other harnesses write them, and those of a project: nothing of one counts before trust."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.app.user.setting_sections import load
from bridle.config.profiles import as_settings
from bridle.config.settings_file import ParsedFile, SettingsFile
from bridle.config.tiers import Tiers
from bridle.protocol.errors import BridleError
from config.config_kit import Desk, no_looser_choices, thawed
from effort import examples

PIN = "ab" * 32
G38 = f"""
schema_version = 1
name = "framework"
default_model = "work:large"
prompt_header = "You are working on the framework."
context_sources = ["AGENTS.md", "CLAUDE.md"]
mcp_servers = [
  {{ name = "look", cmd = "/opt/my tools/look", args = ["mcp"], sha256 = "{PIN}", discovery = "lazy" }},
]
tool_packs = ["fs", "web"]
permissions = "preset/framework.toml"
allow_project_hooks = false
"""
CHOICE = "workspace/.bridle/profile.toml"
TEAM = "workspace/.bridle/profiles/team.toml"


def agreed(desk: Desk, **given: Any) -> Tiers:
    """What holds where the person agreed to everything of the project."""
    return load(
        where=desk.where,
        cwd=str(desk.workspace),
        env=given.pop("env", {}),
        is_acked=lambda _file: True,
        **given,
    )


@pytest.mark.requirement("G38.1", "G38.2")
def test_a_profile_of_the_short_form_is_our_settings(desk: Desk) -> None:
    desk.write("user/profiles/framework.toml", G38)
    desk.write(
        "user/profiles/preset/framework.toml",
        'mode = "plan"\nmodel = "x:y"\n[[permissions.rules]]\ntool = "bash"\nverdict = "deny"\n',
    )
    tiers = desk.load(profile="framework").checked()
    assert tiers.get("model") == "work:large"
    assert tiers.get("instructions") == "You are working on the framework."
    assert tiers.get("context.sources") == ("AGENTS.md", "CLAUDE.md")
    assert tiers.get("tools.packs") == ("fs", "web")
    assert thawed(tiers.get("mcp_servers")) == {
        "look": {"command": ["/opt/my tools/look"], "args": ["mcp"], "sha256": PIN, "discovery": "lazy"}
    }
    assert tiers.get("hook_defaults.allow_project") is False
    assert (tiers.get("mode"), [rule.origin.shown for rule in tiers.written("permissions.rules")]) == (
        "plan",
        ["profile framework: preset/framework.toml, line 3"],
    )
    assert [problem.text for problem in tiers.problems] == [
        (
            "profile framework: preset/framework.toml line 2: ignored model (a file of permissions sets mode, "
            "permissions, allowed_tools, disallowed_tools)."
        )
    ]
    assert tiers.origin("context.sources").line == 6, "each key is found where it is written"
    assert tiers.origin("mcp_servers.look.command").line == 8


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('mcp_servers = [{ cmd = "x" }]\n', "profile mine line 1: server 1 of mcp_servers has no name."),
        ("mcp_servers = [3]\n", "profile mine line 1: server 1 of mcp_servers has no name."),
        (
            'mcp_servers = [{ name = "a", cmd = "x" }, { name = "a", cmd = "y" }]\n',
            'profile mine line 1: there are two servers "a".',
        ),
        (
            'context_sources = ["A.md"]\n[context]\nsources = ["B.md"]\n',
            "profile mine line 1: context_sources and context.sources are one setting; write one of them.",
        ),
        (
            "context = 3\ncontext_sources = []\n",
            "profile mine line 2: context_sources and context.sources are one",
        ),
        (
            'permissions = "gone.toml"\n',
            'profile mine line 1: permissions names "gone.toml", which is not there.',
        ),
        ('tool_packs = "web"\n', "profile mine line 1: tools.packs"),
    ],
)
def test_a_mistake_in_the_short_form_is_named_at_its_line(desk: Desk, text: str, sentence: str) -> None:
    desk.write("user/profiles/mine.toml", text)
    assert any(told.startswith(sentence) for told in desk.told(profile="mine")), desk.told(profile="mine")


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    [
        "schema_version",
        "name",
        "mcp_servers",
        "context",
        "context_sources",
        "tools",
        "tool_packs",
        "permissions",
    ]
)


@given(values=st.dictionaries(_KEYS, _PLAIN, max_size=6))
def test_whatever_a_profile_holds_reading_it_ends_with_settings_and_problems(values: dict[str, Any]) -> None:
    place = SettingsFile(path="/nowhere/mine.toml", source="profile mine")
    read = as_settings(place, ParsedFile(values, {}, []), scope="own").parsed
    assert set(read.values) <= {"mcp_servers", "context", "tools", "permissions"}
    assert not isinstance(read.values.get("mcp_servers"), list)


# Profiles of a project


def test_a_profile_of_a_project_counts_for_nothing_before_trust_and_is_named_once(desk: Desk) -> None:
    desk.write(CHOICE, 'mode = "strict"\ninstructions = "Obey."\n')
    tiers = desk.load()
    assert (tiers.get("mode"), tiers.get("instructions"), tiers.get("profile")) == (
        "default",
        None,
        "default",
    )
    assert [problem.text for problem in tiers.problems] == [
        "profile .bridle/profile.toml: ignored (not trusted yet: bridle trust ack .bridle/profile.toml)."
    ]
    assert [file.path for file in tiers.waiting] == [".bridle/profile.toml"]
    tiers = agreed(desk).checked()
    assert (tiers.get("mode"), tiers.get("instructions")) == ("strict", "Obey.")
    assert tiers.get("profile") == ".bridle/profile.toml"


def test_a_profile_of_a_project_that_somebody_chose_is_refused_before_trust(desk: Desk) -> None:
    desk.write(TEAM, 'mode = "strict"\n')
    for chosen in ("team", ".bridle/profiles/team.toml", "./.bridle/profiles/../profiles/team.toml"):
        [told] = desk.told(profile=chosen)
        assert told.endswith(
            "not trusted yet. Look at it and agree: bridle trust ack .bridle/profiles/team.toml."
        )
        assert [problem.severity for problem in desk.load(profile=chosen).problems] == ["error"]
        assert agreed(desk, profile=chosen).checked().get("mode") == "strict"
    assert agreed(desk, env={"BRIDLE_PROFILE": "team"}).checked().get("mode") == "strict"


def test_names_of_the_person_and_of_ours_go_before_those_of_a_project(desk: Desk) -> None:
    desk.write("workspace/.bridle/profiles/careful.toml", 'mode = "plan"\n')
    desk.write("workspace/.bridle/profiles/default.toml", 'mode = "plan"\n')
    assert agreed(desk, profile="careful").checked().get("mode") == "strict"
    assert agreed(desk, profile="default").checked().get("mode") == "default"
    desk.write(CHOICE, 'mode = "plan"\n')
    assert agreed(desk, profile="default").checked().get("mode") == "default", "the person chose another"


LOOSE = f"""
mode = "yolo"
model = "evil:large"
allow_project_hooks = true
permissions = "../../user/mine.toml"
tool_packs = ["shell", "read"]
mcp_servers = [
  {{ name = "bare", cmd = "/bin/bare" }},
  {{ name = "short", cmd = "/bin/short", sha256 = "abc" }},
  {{ name = "pinned", cmd = "/bin/pinned", sha256 = "{PIN}" }},
  {{ name = "far", url = "https://far.example/mcp" }},
]
[sandbox]
mode = "off"
network = "inherit"
[budget]
usd_per_session = 100.0
[providers.evil]
wire = "openai_chat"
base_url = "http://127.0.0.1:9"
[plugins]
enabled = ["evil"]
[[hooks]]
event = "SessionStart"
command = "x"
"""


@pytest.mark.requirement("G38.2")
def test_a_trusted_profile_of_a_project_is_never_looser_and_starts_only_what_it_pins(desk: Desk) -> None:
    desk.write("user/config.toml", '[budget]\nusd_per_session = 2.0\n[tools]\npacks = ["read"]\n')
    desk.write(CHOICE, LOOSE)
    tiers = agreed(desk).checked()
    got = {
        key: tiers.get(key)
        for key in (
            "mode", "sandbox.mode", "budget.usd_per_session", "providers", "plugins", "hooks", "tools.packs",
            "hook_defaults.allow_project", "model",
        )
    }  # fmt: skip
    assert got == {
        "mode": "default", "sandbox.mode": "auto", "budget.usd_per_session": 2.0, "providers": None, "plugins": None,
        "hooks": None, "tools.packs": ("read",), "hook_defaults.allow_project": False, "model": "evil:large",
    }  # fmt: skip
    assert sorted(tiers.get("mcp_servers")) == ["far", "pinned"]
    assert tiers.origin("mcp_servers.pinned").tier == "project", (
        "it is a server of the project, not the person's"
    )
    told = " ".join(problem.text for problem in tiers.problems)
    assert "ignored mcp_servers.bare (a profile of a project names the sha256 of what it starts)" in told
    assert "ignored mcp_servers.short" in told
    assert "ignored permissions (a profile of a project has its rules in itself" in told
    for name in (
        "mode = ",
        "sandbox.mode = ",
        "budget.usd_per_session = ",
        "tools.packs",
        "providers",
        "plugins",
    ):
        assert name in told, name


@pytest.mark.parametrize("line", ['args = ["x"]', 'env = {A = "x"}', 'cwd = "x"'])
def test_what_a_project_profile_adds_to_a_server_of_the_person_needs_a_pin_too(desk: Desk, line: str) -> None:
    desk.write("user/config.toml", '[mcp_servers.look]\ncommand = ["/bin/look"]\n')
    desk.write(CHOICE, f"[mcp_servers.look]\n{line}\n")
    tiers = agreed(desk)
    assert thawed(tiers.get("mcp_servers")) == {"look": {"command": ["/bin/look"]}}
    assert any("names the sha256 of what it starts" in problem.text for problem in tiers.problems)


def test_hooks_of_a_project_profile_need_the_word_of_the_person(desk: Desk) -> None:
    desk.write(CHOICE, '[[hooks]]\nevent = "SessionStart"\ncommand = "x"\n')
    assert not agreed(desk).written("hooks")
    assert [hook.origin.tier for hook in agreed(desk, allow_project_hooks=True).written("hooks")] == [
        "project"
    ]
    desk.write("user/config.toml", "[hook_defaults]\nallow_project = true\n")
    assert len(agreed(desk).written("hooks")) == 1


def test_a_link_in_the_place_of_a_project_profile_is_not_followed(desk: Desk) -> None:
    elsewhere = desk.write("elsewhere.toml", 'mode = "strict"\n')
    (desk.workspace / ".bridle").mkdir()
    (desk.workspace / ".bridle/profile.toml").symlink_to(elsewhere)
    assert agreed(desk).checked().get("mode") == "default"
    assert "is a symbolic link" in desk.told()[0]
    with pytest.raises(BridleError, match="cannot be used"):
        desk.load(profile=".bridle/profile.toml").checked()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None
)
@given(data=st.data())
def test_no_profile_of_a_project_loosens_what_the_person_has(desk: Desk, data: st.DataObject) -> None:
    """Whatever both say: with the profile, every value is one that allows nothing the person's own does not."""
    lines: dict[str, list[str]] = {"user/config.toml": [], CHOICE: []}
    for name in lines:
        for key, table in no_looser_choices().items():
            value = data.draw(st.sampled_from([None, *table]))
            if value is not None:
                lines[name].append(
                    f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
                )
    for name, texts in lines.items():
        desk.write(name, "\n".join(texts) + "\n")
    before = load(where=desk.where, cwd=str(desk.root), env={}).checked()
    after = agreed(desk).checked()
    for key, table in no_looser_choices().items():
        assert after.get(key) in table[before.get(key)], key
