"""Installed bundles against what a person agreed to: real folders, and no command that brings them."""

import os
from pathlib import Path

import msgspec
import pytest

from bridle.app.user.setting_sections import TABLE
from bridle.config.bundle_contents import read_bundle
from bridle.config.bundles import (
    BundleRecord,
    InstalledBundle,
    bundle_name,
    bundle_sources,
    bundles_folder,
    counting_bundles,
    has_bundle,
    installed_bundles,
    read_records,
    write_records,
    wrong_settings,
)
from bridle.config.problems import Problem

MANIFEST = """
name = "{name}"
[[hooks]]
event = "PreToolUse"
command = ["${{BUNDLE}}/check"]
[mcp_servers.files]
command = ["${{BUNDLE}}/serve"]
"""


def install(data: Path, name: str = "tidy", manifest: str = MANIFEST, **changed: str) -> BundleRecord:
    """A bundle that lies there as its record says, but for what is changed of the record."""
    scratch = Path(bundles_folder(str(data)), "new")
    scratch.mkdir(parents=True)
    (scratch / "bridle-bundle.toml").write_text(manifest.format(name=name))
    (scratch / "skills" / "sweep").mkdir(parents=True)
    (scratch / "skills" / "sweep" / "SKILL.md").write_text(
        "---\nname: sweep\ndescription: Sweeps.\n---\nSweep.\n"
    )
    record = BundleRecord(
        **{"name": name, "digest": read_bundle(str(scratch)).digest, "source": "x", **changed}
    )
    scratch.rename(scratch.with_name(record.folder_name))
    write_records(str(data), (*read_records(str(data)), record))
    return record


def problems_of(data: Path) -> list[str]:
    found: list[Problem] = []
    assert bundle_sources(TABLE, str(data), found) == []
    return [one.problem for one in found]


def only(data: Path) -> InstalledBundle:
    (bundle,) = installed_bundles(str(data))
    return bundle


def test_a_bundle_as_it_was_agreed_to_counts_and_sets_what_it_says(tmp_path: Path) -> None:
    record = install(tmp_path)
    assert only(tmp_path).counts
    (source,) = bundle_sources(TABLE, str(tmp_path), [])
    folder = os.path.realpath(os.path.join(bundles_folder(str(tmp_path)), record.folder_name))
    assert (source.tier, source.path) == ("user", folder)
    assert source.values["mcp_servers"]["tidy_files"]["command"] == [f"{folder}/serve"]
    assert len(source.values["hooks"]) == 1
    (counting,) = counting_bundles(str(tmp_path))
    assert (counting.name, counting.folder, counting.skills) == ("tidy", folder, ("skills",))
    assert bundle_name(folder) == "tidy"
    assert (has_bundle("tidy", str(tmp_path)), has_bundle("tid", str(tmp_path))) == (True, False)


def test_a_bundle_with_one_byte_changed_counts_for_nothing(tmp_path: Path) -> None:
    record = install(tmp_path)
    skill = Path(bundles_folder(str(tmp_path)), record.folder_name, "skills", "sweep", "SKILL.md")
    skill.write_text(skill.read_text() + "x")
    assert (only(tmp_path).counts, only(tmp_path).problem) == (False, "it changed since you agreed to it")
    assert list(counting_bundles(str(tmp_path))) == []
    assert problems_of(tmp_path) == [
        "left out, because it changed since you agreed to it (bridle plugins verify)"
    ]


def test_a_bundle_under_another_name_than_its_own_counts_for_nothing(tmp_path: Path) -> None:
    install(tmp_path, name="other")
    (record,) = read_records(str(tmp_path))
    renamed = msgspec.structs.replace(record, name="tidy")
    folder = Path(bundles_folder(str(tmp_path)))
    (folder / record.folder_name).rename(folder / renamed.folder_name)
    write_records(str(tmp_path), (renamed,))
    assert not only(tmp_path).counts


@pytest.mark.parametrize("name", ["../away", "a/b"])
def test_a_record_whose_name_leads_elsewhere_is_not_followed(tmp_path: Path, name: str) -> None:
    record = install(tmp_path)
    away = tmp_path / "bundles" / f"{name}-{record.digest[:16]}"
    away.parent.mkdir(parents=True, exist_ok=True)
    Path(bundles_folder(str(tmp_path)), record.folder_name).rename(away)
    write_records(str(tmp_path), (msgspec.structs.replace(record, name=name),))
    assert (only(tmp_path).contents, only(tmp_path).counts) == (None, False)


def test_a_bundle_that_is_gone_or_no_bundle_is_said(tmp_path: Path) -> None:
    record = install(tmp_path)
    Path(bundles_folder(str(tmp_path)), record.folder_name).rename(tmp_path / "gone")
    assert (only(tmp_path).counts, only(tmp_path).contents) == (False, None)
    assert problems_of(tmp_path)[0].startswith("left out, because ")


@pytest.mark.parametrize("text", ["x", '{"bundles": 5}'])
def test_a_list_that_cannot_be_read_brings_nothing_and_is_said(tmp_path: Path, text: str) -> None:
    install(tmp_path)
    path = Path(bundles_folder(str(tmp_path)), "bundles.json")
    path.write_text(text)
    assert "none of them is used, because bundles.json cannot be read" in problems_of(tmp_path)[0]
    assert (list(counting_bundles(str(tmp_path))), has_bundle("tidy", str(tmp_path))) == ([], False)


def test_a_list_that_others_may_write_brings_nothing(tmp_path: Path) -> None:
    install(tmp_path)
    Path(bundles_folder(str(tmp_path)), "bundles.json").chmod(0o666)
    assert "none of them is used" in problems_of(tmp_path)[0]


def test_only_the_bundles_of_some_folders_are_looked_for(tmp_path: Path) -> None:
    first, second = install(tmp_path), install(tmp_path, name="other")
    assert [one.name for one in counting_bundles(str(tmp_path))] == ["other", "tidy"], "by their names"
    some = counting_bundles(str(tmp_path), among=(f"/elsewhere/{second.folder_name}",))
    assert [one.name for one in some] == ["other"]
    assert list(counting_bundles(str(tmp_path), among=())) == []
    assert first.folder_name != second.folder_name


def test_hooks_of_a_bundle_whose_folder_cannot_stand_in_a_command_are_left_out(tmp_path: Path) -> None:
    data = tmp_path / "with blanks"
    install(data)
    problems: list[Problem] = []
    (source,) = bundle_sources(TABLE, str(data), problems)
    assert ("hooks" in source.values, "mcp_servers" in source.values) == (False, True)
    assert [one.problem for one in problems] == [
        "its hooks are left out, because its folder has blanks or quotes in it"
    ]


def test_settings_that_mean_nothing_are_named_before_they_are_agreed_to_and_left_out_after(
    tmp_path: Path,
) -> None:
    bad = 'name = "{name}"\n[mcp_servers.files]\ncommand = ["x"]\nconnect_s = "soon"\n'
    install(tmp_path, manifest=bad)
    contents = only(tmp_path).contents
    assert contents is not None
    assert "connect_s" in wrong_settings(TABLE, contents)
    (problem,) = problems_of(tmp_path)
    assert problem.startswith("left out, because mcp_servers.tidy_files.connect_s")


def test_without_bundles_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert (problems_of(tmp_path), read_records(str(tmp_path))) == ([], ())
