"""Settings found, merged and explained."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.app.user.setting_sections import TABLE, load
from bridle.config.origins import GivenOption, SettingsSource
from bridle.config.setting_table import key_of, path_of
from bridle.config.tiers import Tiers, merge, merged
from bridle.conformance import vectors
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Mode
from config.config_kit import Desk, thawed


def answers(case_input: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as root:
        desk = Desk(Path(root))
        for name, text in case_input["files"].items():
            desk.write(name, text)
        given_file = str(desk.root / "given.toml") if "given.toml" in case_input["files"] else None
        tiers = desk.load(
            env=case_input.get("environment"), sets=case_input.get("set", ()), config_file=given_file
        )
        return {key: _answer(tiers, key) for key in case_input["ask"]}


def _answer(tiers: Tiers, key: str) -> dict[str, Any] | None:
    origin = tiers.origin(key)
    return None if origin is None else {"value": thawed(tiers.get(key)), "tier": origin.tier}


@pytest.mark.requirement("H4.1", "H4.4", "H4.6", "H4.7", "H18.7", "T17.1", "D12.1")
def test_our_tiers_pass_every_vector():
    assert vectors.run("config-merge", answers) == []


@pytest.mark.requirement("H18.8")
def test_an_implementation_that_obeys_the_workspace_is_caught():
    def naive(case_input: dict[str, Any]) -> dict[str, Any]:
        files = {
            name.replace("workspace/.bridle", "user"): text for name, text in case_input["files"].items()
        }
        return answers({**case_input, "files": files})

    failed = {failure.case for failure in vectors.run("config-merge", naive)}
    assert "a workspace cannot loosen the mode" in failed
    assert "the user's file is above the defaults" not in failed


# Merging, as a function

MAPS = st.dictionaries(st.sampled_from("xyz"), st.text(max_size=3), max_size=3)
RULE = st.fixed_dictionaries({"tool": st.sampled_from("ab"), "verdict": st.sampled_from(("allow", "deny"))})
PROVIDER = st.fixed_dictionaries(
    {},
    optional={
        "wire": st.sampled_from(("anthropic", "openai_chat")),
        "base_url": st.sampled_from(("http://a", "http://b")),
        "headers": MAPS,
        "disabled": st.booleans(),
    },
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(get_args(Mode)),
        "model": st.sampled_from(("a:b", "c:d")),
        "budget": st.fixed_dictionaries(
            {}, optional={"max_steps": st.integers(1, 200), "usd_per_session": st.integers(1, 9)}
        ),
        "context": st.fixed_dictionaries({}, optional={"sources": st.lists(st.sampled_from("pq"))}),
        "permissions": st.fixed_dictionaries({}, optional={"rules": st.lists(RULE, max_size=3)}),
        "providers": st.dictionaries(st.sampled_from(("one", "two")), PROVIDER),
    },
)


laid = partial(merge, TABLE)


@given(VALUES, VALUES, VALUES)
def test_merging_is_associative(low: dict[str, Any], middle: dict[str, Any], high: dict[str, Any]):
    assert laid(laid(low, middle), high) == laid(low, laid(middle, high))


@given(VALUES)
def test_nothing_merged_with_a_table_is_the_table(table: dict[str, Any]):
    assert laid({}, table) == table == laid(table, {})


SCALARS = ("mode", "model", "budget.max_steps", "budget.usd_per_session", "context.sources",
           "providers.one.wire", "providers.two.base_url", "providers.one.headers.x")  # fmt: skip


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_the_origin_is_the_highest_place_that_says_something(tables: list[dict[str, Any]]):
    sources = [SettingsSource("config", str(number), table) for number, table in enumerate(tables)]
    tiers = Tiers(TABLE, sources)
    for key in SCALARS:
        value, origin = tiers.get(key), tiers.origin(key)
        assert (value is None) == (origin is None)
        if origin is not None:
            number = int(origin.name)
            assert thawed(value) == _says(tables[number], key)
            assert all(_says(table, key) is None for table in tables[number + 1 :])


def _says(table: dict[str, Any], key: str) -> Any:
    value: Any = table
    for part in path_of(key):
        value = value.get(part) if isinstance(value, dict) else None
    return value


@given(st.lists(VALUES, max_size=3))
def test_merging_changes_none_of_its_tables(tables: list[dict[str, Any]]):
    before = msgspec.json.encode(tables)
    merged(TABLE, tables)
    assert msgspec.json.encode(tables) == before


@pytest.mark.requirement("H4.6")
def test_a_disabled_entry_can_be_enabled_again_higher_up():
    low = {"mcp_servers": {"a": {"command": "x"}}}
    off = {"mcp_servers": {"a": {"disabled": True}}}
    on = {"mcp_servers": {"a": {"disabled": False}}}
    assert merged(TABLE, [low, off]) == {"mcp_servers": {}}
    assert merged(TABLE, [low, off, on]) == low


# What comes out


class BudgetSettings(msgspec.Struct, frozen=True):
    max_steps: int = 1
    usd_per_session: float | None = None


class ProviderSettings(msgspec.Struct, frozen=True):
    wire: str
    headers: dict[str, str] = {}


def test_a_package_decodes_its_own_section(desk: Desk):
    desk.write(
        "user/config.toml",
        '[budget]\nusd_per_session = 2\n[providers.a]\nwire = "anthropic"\nheaders = { X = "y" }\n',
    )
    tiers = desk.load().checked()
    assert tiers.section("budget", BudgetSettings) == BudgetSettings(max_steps=100, usd_per_session=2.0)
    assert tiers.section("providers", dict[str, ProviderSettings]) == {
        "a": ProviderSettings(wire="anthropic", headers={"X": "y"})
    }


def test_a_section_its_package_cannot_use_is_bad_config_with_a_line(desk: Desk):
    path = desk.write("user/config.toml", '\n[providers.a]\nbase_url = "http://x"\n')
    with pytest.raises(BridleError) as caught:
        desk.load().section("providers", dict[str, ProviderSettings])
    assert caught.value.reason == "BadConfig"
    assert (caught.value.data["path"], caught.value.data["line"]) == (
        str(desk.where.config + "/" + path.name),
        2,
    )


@pytest.mark.requirement("H4.5")
def test_settings_are_read_once_and_cannot_be_changed(desk: Desk):
    path = desk.write("user/config.toml", 'mode = "plan"\n[context]\nsources = ["A.md"]\n')
    tiers = desk.load()
    path.write_text('mode = "yolo"\n')
    assert tiers.get("mode") == "plan"
    assert tiers.get("context.sources") == ("A.md",)
    with pytest.raises(TypeError):
        tiers.get("context")["sources"] = ("B.md",)


def test_every_rule_knows_where_it_stands(desk: Desk):
    desk.write("user/config.toml", '[[permissions.rules]]\ntool = "a"\nverdict = "allow"\n')
    desk.write(
        "workspace/.bridle/config.toml",
        "[permissions]\nrules = [\n"
        '  { tool = "x", verdict = "allow" },\n'
        '  { tool = "b", verdict = "deny" },\n]\n',
    )
    found = [
        (rule.value["tool"], rule.origin.tier, rule.origin.shown)
        for rule in desk.load().written("permissions.rules")
    ]
    assert found == [("b", "project", "project config, line 4"), ("a", "user", "user config, line 1")]


def test_origins_are_named_the_way_people_say_them(desk: Desk):
    desk.write("user/config.toml", '\nmodel = "a:b"\n')
    tiers = load(
        where=desk.where,
        cwd=str(desk.workspace),
        env={"BRIDLE_SANDBOX": "off"},
        sets=["effort=low"],
        options=[GivenOption("--mode", "mode", "plan")],
        profile="careful",
    )
    keys = ("model", "sandbox.mode", "effort", "mode", "paths", "permissions.persist", "profile")
    origins = [tiers.origin(key) for key in keys]
    assert [origin.shown for origin in origins if origin] == [
        "user config, line 2", "BRIDLE_SANDBOX", "--set", "--mode", "default", "profile careful, line 9", "--profile",
    ]  # fmt: skip


# What is wrong


@pytest.mark.parametrize(
    ("text", "line", "clause"),
    [
        ("\n" * 6 + 'mode = "yollo"', 7, 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan).'),
        ('[budget]\nmax_steps = "many"', 2, 'budget.max_steps = "many" is not a whole number above 0.'),
        ("[budget]\nmax_steps = true", 2, "budget.max_steps = true is not a whole number above 0."),
        ("[budget]\nusd_per_session = nan", 2, "budget.usd_per_session = nan is not a number above 0."),
        ("budget = 5", 1, "budget = 5 is not a section ([budget])."),
        ("hooks = 5", 1, "hooks = 5 is not a list of tables ([[hooks]])."),
        ("hooks = [5]", 1, "hooks[0] = 5 is not a table ([[hooks]])."),
        ('[[permissions.rules]]\ntool = "a"', 1, "permissions.rules[0] has no verdict."),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\non_error = "no"', 4,
         'hooks[0].on_error = "no" is not an answer to errors (block, warn).'),
        ('[providers.a]\nwire = "smtp"', 2,
         'providers.a.wire = "smtp" is not a wire (openai_chat, openai_responses, anthropic).'),
        ('[providers.a]\nbase_url = "file:///etc"', 2,
         'providers.a.base_url = "file:///etc" is not an address that begins with http:// or https://.'),
        ("[providers.a]\nheaders = { Authorization = 5 }", 2, "providers.a.headers = … is not a table of texts."),
        ('modle = "x"', 1, 'there is no setting "modle" (nearest: model).'),
        ("\n[bugdet]\nmax_steps = 5", 2, 'there is no setting "bugdet" (nearest: budget).'),
        ("[budget]\nmaxSteps = 5\nmax_step = 6", 3,
         'there is no setting "budget.max_step" (nearest: budget.max_steps).'),
        ("max_steps = 5", 1, 'there is no setting "max_steps" (nearest: budget.max_steps).'),
        ("[sandbox]\nwarm = false", 2,
         "sandbox.warm no longer does anything; remove it."),
        ("[budget]\nmaxSteps = 5\nmax_steps = 6", 3, "budget.max_steps is written twice."),
        ('mode = "plan"\nmode = ', 2, "invalid value."),
        ('a = 1\n\nmode "plan"\n', 3, "expected '=' after a key in a key/value pair."),
        ('mode = "plan', 1, "unterminated string."),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_and_line(desk: Desk, text: str, line: int, clause: str):
    desk.write("user/config.toml", text)
    assert desk.told() == [f"config.toml line {line}: {clause}"]


@pytest.mark.parametrize(
    ("text", "line", "clause"),
    [
        ('{\n "mode": "yollo"}', 2, 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan).'),
        ('{"budget": {\n "maxSteps":\n 0}}', 2, "budget.max_steps = 0 is not a whole number above 0."),
        ('{"mode": "plan"\n "model": "x"}', 2, "expecting ',' delimiter."),
        ("[]", 1, "is not an object, with { first and } last."),
        ("", 1, "expecting value."),
    ],
)  # fmt: skip
def test_json_mistakes_have_lines_too(desk: Desk, text: str, line: int, clause: str):
    desk.write("user/settings.json", text)
    assert desk.told() == [f"settings.json line {line}: {clause}"]


def test_null_in_json_says_nothing(desk: Desk):
    desk.write("user/settings.json", '{"model": null, "budget": {"max_steps": null}}')
    assert desk.told() == []
    assert desk.load().get("budget.max_steps") == 100


def test_the_second_file_in_a_folder_is_named_and_not_read(desk: Desk):
    desk.write("user/config.toml", 'mode = "plan"')
    desk.write("user/settings.json", "not even JSON")
    assert desk.told() == ["config.toml: is used; settings.json beside it is not."]


def test_a_removed_setting_is_accepted_with_a_notice(desk: Desk):
    desk.write("user/config.toml", "[engine]\nstandby = false\n")
    notice = "engine.standby no longer does anything; remove it."
    assert desk.told() == [f"config.toml line 2: {notice}"]
    [_, given] = desk.load(sets=["engine.standby=true"]).checked().warnings
    assert given.text == f"--set: {notice}"


def test_an_error_stops_a_run_and_a_warning_does_not(desk: Desk):
    desk.write("user/config.toml", 'modle = "x"\n')
    assert [problem.severity for problem in desk.load().checked().warnings] == ["warning"]
    desk.write("user/config.toml", 'modle = "x"\nmode = "yollo"\n')
    with pytest.raises(BridleError) as caught:
        desk.load().checked()
    assert caught.value.reason == "BadConfig"
    assert caught.value.data["where"] == "config.toml line 2"
    assert caught.value.data["line"] == 2


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("mdoe=plan", 'there is no setting "mdoe" (nearest: mode).'),
        ("mode", '"mode" is not key=value.'),
        ("mode=yollo", 'mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan).'),
        ("budget=5", "budget is a section; name one of its settings (budget.usd_per_session, budget.max_steps)."),
        ("budget.max_steps=many", 'budget.max_steps = "many" is not a whole number above 0.'),
        ("=5", '"" is not a key; write it as in budget.max_steps.'),
        ("providers.a.api_key=x", "providers.a.api_key cannot be given on the command line, where others can read it."),
        ('permissions.rules=[{tool="x"}]', "permissions.rules[0] has no verdict."),
    ],
)  # fmt: skip
def test_a_mistake_on_the_command_line_is_an_error(desk: Desk, text: str, clause: str):
    [problem] = desk.load(sets=[text]).problems
    assert (problem.severity, problem.text) == ("error", f"--set: {clause}")


def test_a_setting_inside_a_map_can_be_given_on_the_command_line(desk: Desk):
    tiers = desk.load(
        sets=['providers."my.host".wire=anthropic', "providers.a.headers.X=y", "model=5"]
    ).checked()
    assert tiers.get(("providers", "my.host", "wire")) == "anthropic"
    assert thawed(tiers.get("providers.a.headers")) == {"X": "y"}
    assert tiers.get("model") == "5"


def test_unknown_variables_are_named_once(desk: Desk):
    env = {"BRIDLE_MODLE": "x", "BRIDLE_HOME": "/h", "BRIDLE_MODE": "yollo", "HOME": "/h", "BRIDLE_EMPTY": ""}
    assert desk.told(env=env) == [
        'BRIDLE_MODE: mode = "yollo" is not a mode (strict, default, safe, auto, yolo, plan).',
        "BRIDLE_MODLE: is not a variable Bridle knows (nearest: BRIDLE_MODEL).",
    ]


def test_a_given_file_must_be_there(desk: Desk):
    assert desk.told(config_file="nowhere.toml") == [
        "nowhere.toml: cannot be read (No such file or directory)."
    ]
    assert desk.told(env={"BRIDLE_CONFIG": "no.toml"}) == [
        "no.toml: cannot be read (No such file or directory)."
    ]


def test_a_broken_link_is_not_the_same_as_no_file(desk: Desk):
    (desk.root / "user" / "config.toml").symlink_to("nowhere")
    assert desk.told() == ["config.toml: cannot be read (No such file or directory)."]


@pytest.mark.requirement("H4.3", "D12.20")
def test_a_key_counts_in_the_users_file_only_and_elsewhere_is_named(desk: Desk):
    secret = "-".join(("sk", "x" * 20))
    text = f'api_key = "{secret}"\noauth_credentials = {{ token = "{secret}" }}\n[providers.a]\napi_key = "{secret}"\n'
    desk.write("user/config.toml", text.partition("\n")[2])
    desk.write("workspace/.bridle/config.toml", text)
    desk.write("workspace/given.toml", text)
    tiers = desk.load(config_file="given.toml")
    keys = ("oauth_credentials.token", "providers.a.api_key")
    assert [tiers.origin(key).tier for key in keys] == ["user"] * 2  # type: ignore[union-attr]
    told = [problem.text for problem in tiers.problems]
    names = "api_key, oauth_credentials.token, providers.a.api_key"
    assert told == [
        "given.toml line 1: ignored api_key (only your own config.toml may hold a key).",
        "given.toml line 2: ignored oauth_credentials (only your own config.toml may hold a key).",
        "given.toml line 4: ignored providers.a.api_key (only your own config.toml may hold a key).",
        f".bridle/config.toml: ignored {names} (only your own config may set these).",
    ]
    assert secret not in repr(tiers)


def test_a_key_that_belongs_to_no_provider_is_an_error_that_says_what_to_do(desk: Desk):
    secret = "-".join(("sk", "x" * 20))
    desk.write("user/config.toml", f'mode = "plan"\napi_key = "{secret}"\n')
    tiers = desk.load()
    (problem,) = tiers.problems
    assert problem.text == (
        "config.toml line 2: api_key is never read from a settings file; "
        "name the environment variable that holds the key: providers.NAME.key_env."
    )
    assert (problem.severity, tiers.get("api_key"), tiers.get("mode")) == ("error", None, "plan")


def test_a_key_others_can_read_is_said(desk: Desk):
    desk.write("user/config.toml", 'providers.a.api_key = "x"', mode=0o644)
    [told] = desk.told()
    assert told.startswith(
        "config.toml line 1: holds providers.a.api_key and others can read it; run: chmod 600 "
    )


def test_a_secret_in_the_wrong_place_is_not_repeated(desk: Desk):
    secret = "-".join(("sk", "ant", "a1" * 20))
    desk.write("user/config.toml", f'[providers.a]\nkey_env = "{secret}"\n')
    [told] = desk.told()
    assert secret not in told
    assert "is not the name of an environment variable" in told


# Profiles


@pytest.mark.requirement("G38.3", "G38.4", "G38.5", "G25.4")
def test_profiles_are_found_by_name_or_path_and_unknown_keys_warn(desk: Desk):
    assert desk.load(profile="careful").checked().get("sandbox.network") == "deny"
    desk.write(
        "user/profiles/mine.toml",
        'schema_version = 1\nname = "mine"\ndefault_model = "a:b"\nskil_packs = []\n',
    )
    mine = desk.load(profile="mine")
    assert (mine.get("model"), mine.get("profile")) == ("a:b", "mine")
    assert [problem.text for problem in mine.checked().problems] == [
        'profile mine line 4: there is no setting "skil_packs" (all of them: bridle help settings).'
    ]
    desk.write("workspace/team.toml", 'mode = "plan"\n')
    assert desk.load(profile="./team.toml").checked().get("mode") == "plan"
    assert desk.load(env={"BRIDLE_PROFILE": "careful"}).checked().get("mode") == "strict"


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (
            "carful",
            'profile: there is no profile "carful" (nearest: careful; there are careful, default, t-compat).',
        ),
        (
            "../default",
            'profile: there is no profile "../default" (nearest: default; there are careful, default, t-compat).',
        ),
        ("gone.toml", 'profile: there is no profile "gone.toml" (there are careful, default, t-compat).'),
        ("a\x1bb", 'profile: there is no profile "a⟨ESC⟩b" (there are careful, default, t-compat).'),
    ],
)
@pytest.mark.requirement("G38.4")
def test_a_profile_that_is_not_there_is_an_error(desk: Desk, chosen: str, sentence: str):
    [problem] = desk.load(profile=chosen).problems
    assert (problem.severity, problem.text) == ("error", sentence)


def test_a_profile_from_the_future_is_refused(desk: Desk):
    desk.write("user/profiles/new.toml", 'name = "new"\nschema_version = 2\n')
    assert desk.told(profile="new") == [
        "profile new line 2: schema_version = 2 is not one this Bridle knows (up to 1)."
    ]


@pytest.mark.requirement("G38.3")
def test_the_profiles_that_ship_are_sound_and_default_sets_nothing(desk: Desk):
    from bridle.config.profiles import profile_names, shipped_folder

    names = profile_names(str(desk.root / "nowhere"))
    assert names == ["careful", "default", "t-compat"]
    for name in names:
        tiers = desk.load(config_file=None, profile=os.path.join(shipped_folder(), f"{name}.toml")).checked()
        own = [source.values for source in tiers.sources if source.tier == "profile"]
        assert (own == [{}]) == (name == "default")


# The table itself


def test_defaults_are_values_their_settings_take():
    values = TABLE.defaults()
    for setting in TABLE.settings:
        if setting.default is not None and not {"*", "[]"} & {*setting.key.replace("[]", ".[]").split(".")}:
            said = values
            for part in setting.key.split("."):
                said = said[part]
            assert setting.kind.accepts(said), setting.key
        assert setting.about.help.endswith(".")


@given(
    st.lists(
        st.text(st.characters(exclude_characters='"\n', exclude_categories=("C",)), min_size=1), min_size=1
    )
)
def test_a_key_is_read_back_from_its_spelling(parts: list[str]):
    assert path_of(key_of(parts)) == tuple(parts)


def test_nothing_heavy_is_imported_where_no_file_is(desk: Desk):
    code = (
        "import sys\nfrom bridle.config.folders import folders\nfrom bridle.app.user.setting_sections import load\n"
        f"load(where=folders({{'BRIDLE_HOME': {str(desk.root)!r}}}), cwd={str(desk.workspace)!r}, env={{}}).checked()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert not {"tomllib", "tomlkit", "json", "difflib", "pathlib"} & set(done.stdout.split())


@pytest.mark.parametrize("pair", list(itertools.pairwise(("user", "project", "local"))))
def test_each_file_tier_is_below_the_next(desk: Desk, pair: tuple[str, str]):
    files = {
        "user": "user/config.toml",
        "project": "workspace/.bridle/config.toml",
        "local": "workspace/.bridle/config.local.toml",
    }
    for name in pair:
        desk.write(files[name], f'[ui]\ntheme = "{name}"\n')
    assert desk.load().get("ui.theme") == pair[1]
