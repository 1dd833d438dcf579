"""A section is declared once, as a Struct; everything that knows settings follows from it."""

import importlib.util
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from bridle.app.user.setting_sections import SECTIONS
from bridle.config.setting_table import SettingTable
from bridle.config.settings_loading import load
from bridle.config.settings_report import reference, reference_page, show
from bridle.config.settings_writer import set_value
from bridle.engine.setting_fields import About, Count, Section, Wanted, at_most
from bridle.protocol.errors import UsageError
from config.config_kit import Desk


class TrialSettings(msgspec.Struct, frozen=True, kw_only=True):
    rounds: Annotated[Count, About("How often it is tried.", workspace=at_most, also=("tries",))] = 3
    style: Annotated[Literal["plain", "loud"], Wanted("a style"), About("How it sounds.")] = "plain"
    key: Annotated[str | None, About("A key.", secret=True)] = None


TABLE = SettingTable((*SECTIONS, Section("trial", TrialSettings)))


def test_a_section_is_checked_and_decoded(desk: Desk) -> None:
    desk.write("user/config.toml", "[trial]\ntries = 5\n")
    tiers = load(TABLE, where=desk.where, cwd=str(desk.workspace), env={}, sets=["trial.style=loud"])
    assert tiers.checked().section("trial", TrialSettings) == TrialSettings(rounds=5, style="loud")
    desk.write("user/config.toml", '[trial]\nrounds = 0\nstyle = "shrill"\nround = 1\n')
    problems = load(TABLE, where=desk.where, cwd=str(desk.workspace), env={}).problems
    assert [problem.text for problem in problems] == [
        'config.toml line 4: there is no setting "trial.round" (nearest: trial.rounds).',
        "config.toml line 2: trial.rounds = 0 is not a whole number above 0.",
        'config.toml line 3: trial.style = "shrill" is not a style (plain, loud).',
    ]


def test_a_workspace_file_is_held_to_the_rule_of_each_field(desk: Desk) -> None:
    desk.write("workspace/.bridle/config.toml", '[trial]\nrounds = 2\nstyle = "loud"\n')
    tiers = load(TABLE, where=desk.where, cwd=str(desk.workspace), env={})
    assert tiers.section("trial", TrialSettings) == TrialSettings(rounds=2)
    assert [problem.problem for problem in tiers.problems] == [
        "ignored trial.style (only your own config may set this)"
    ]
    desk.write("workspace/.bridle/config.toml", "[trial]\nrounds = 4\n")
    tiers = load(TABLE, where=desk.where, cwd=str(desk.workspace), env={})
    assert tiers.section("trial", TrialSettings) == TrialSettings()
    assert [problem.problem for problem in tiers.problems] == [
        "ignored trial.rounds = 4 (only your own config may set this)"
    ]


def test_a_section_is_in_help_config_show_and_the_docs(desk: Desk) -> None:
    desk.write("user/config.toml", '[trial]\nkey = "hush"\n')
    tiers = load(TABLE, where=desk.where, cwd=str(desk.workspace), env={})
    lines = [line.split(None, 1) for line in reference(TABLE)]
    assert ["trial.style", "How it sounds. (plain, loud)"] in lines
    assert {"trial.rounds = 3", 'trial.style = "plain"', "trial.key = (hidden)"} <= {*show(tiers)}
    page = reference_page(TABLE)
    assert "| `trial.rounds` | a whole number above 0 | `3` | only tighter | How often it is tried. |" in page
    assert '| `trial.style` | a style (plain, loud) | `"plain"` | never | How it sounds. |' in page


def test_a_section_can_be_written_and_its_secret_cannot(desk: Desk) -> None:
    change = set_value(TABLE, desk.where, "trial.rounds", "9")
    assert (change.key, change.after) == ("trial.rounds", 9)
    with pytest.raises(UsageError, match=r"trial\.key is a secret"):
        set_value(TABLE, desk.where, "trial.key", "hush")


def test_the_page_of_settings_is_up_to_date(repository: Path) -> None:
    spec = importlib.util.spec_from_file_location("settings_page", repository / "scripts/settings_page.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (repository / "docs/settings.md").read_text()
    assert page == script.updated(page)
