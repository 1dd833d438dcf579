"""The table of verbs: what stands in a row is known to the parser and every page, script and document."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import msgspec
import pytest

from bridle.app.user.setting_sections import TABLE
from bridle.cli.command_line import parse
from bridle.cli.completion import bash_script, fish_script, levels, zsh_script
from bridle.cli.help import man_page, option_page, pages
from bridle.cli.verbs import VERBS
from bridle.cli.verbs.rows import Option
from cli_kit import Place
from tables import table


def test_an_option_that_is_added_to_a_row_is_known_everywhere(repository: Path) -> None:
    added = Option("-z, --zeal", "how eager it is", "ZEAL", choices=("some", "much"), default="some")
    run = msgspec.structs.replace(VERBS["run"], options=(*VERBS["run"].options, added))
    verbs = {**VERBS, "run": run}
    assert parse(["run", "-z", "much", "x"], verbs).zeal == "much"
    assert parse(["run", "x"], verbs).zeal == "some"
    line = "how eager it is (some, much)"
    assert f"{added.usage:<33}  {line}\n" in pages(verbs)["run"]
    assert f"{added.usage:<22}  {line}\n" in option_page(verbs)
    assert f".TP\n\\fB\\-z, \\-\\-zeal ZEAL\\fR\n{line}\n" in man_page(verbs)
    found = list(levels(verbs))
    for script in (bash_script, zsh_script):
        assert "' run -z'|' run --zeal') " in script(found)
    assert "-s z -l zeal -x -a 'some much'" in fish_script(found)
    document = runpy.run_path(str(repository / "scripts/command_page.py"))
    assert f"| `-z, --zeal ZEAL` | {line} |" in document["commands"](verbs)


def test_an_option_that_is_short_for_a_setting_sets_it() -> None:
    parsed = parse(
        ["run", "--main-compact-at", "0.6", "--set", "log.levels=debug", "--sub-compact-at", "0.5"]
    )
    assert parsed.set == ["context.compact_at=0.6", "log.levels=debug", "context.child.compact_at=0.5"]
    short = [one for verb in VERBS.values() for one in verb.options if one.setting]
    assert short
    assert {one.setting for one in short} <= {setting.key for setting in TABLE.settings}


def test_the_document_is_that_of_the_table(repository: Path) -> None:
    document = runpy.run_path(str(repository / "scripts/command_page.py"))
    written = document["PAGE"].read_text(encoding="utf-8").partition(document["MARK"])[2]
    assert written == document["commands"]() + "\n", "run: .venv/bin/python scripts/command_page.py"


@table("verb", VERBS)
def test_every_verb_has_a_function_and_a_purpose_of_one_line(verb: str) -> None:
    for row in (VERBS[verb], *VERBS[verb].actions):
        assert row.purpose
        assert "\n" not in row.purpose
        if row.module:
            module, _, function = row.module.partition(":")
            name = f"bridle.cli.{module}"
            assert hasattr(__import__(name, fromlist=["*"]), function or name.rpartition(".")[2])


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "backup"),
        ("sessions", "export", "x", "-o"),
        ("login", "--export"),
        ("token", "mint", "--out"),
    ],
    ids=" ".join,
)
def test_a_path_that_is_no_text_is_refused_by_every_verb(place: Place, words: tuple[str, ...]) -> None:
    ran = place.bridle(*words, os.fsdecode(b"a\xffb"))
    assert (ran.code, ran.story) == (2, ["a\ufffdb cannot be used: its name is not UTF-8 text. Rename it"])
    assert os.listdir(place.work) == []
