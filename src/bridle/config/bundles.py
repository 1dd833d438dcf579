"""Installed bundles: which there are, whether they are as a person agreed to them, and what they set.

`bundles.json` in the data folder lists them with the digest of all their files; the files lie beside it. What differs
from its digest counts for nothing, whoever changed it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Final, Literal

import msgspec

from bridle.base.fs.files import private_folder, read_trusted, write_atomic
from bridle.config.bundle_contents import BadBundle, BundleContents, is_plain_folder, read_bundle
from bridle.config.origins import BUNDLE, SettingsSource
from bridle.config.problems import Problem
from bridle.config.setting_table import SettingTable
from bridle.config.settings_file import SettingsFile
from bridle.config.value_check import folded, validated

FOLDER: Final = "bundles"
LIST: Final = "bundles.json"
_MAX_LIST_BYTES: Final = 1024 * 1024
_IN_NAME: Final = 16
"""So many characters of its digest stand in the name of a folder."""


class BundleRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bundle that a person agreed to: where it came from, and what stands for its content.

    `commit` is that of a repository; `ref` what was asked for there.
    """

    name: str
    digest: str
    source: str
    kind: Literal["path", "git"] = "path"
    ref: str = ""
    commit: str = ""
    version: str = ""
    added_ms: int = 0

    @property
    def folder_name(self) -> str:
        return f"{self.name}-{self.digest[:_IN_NAME]}"


class _BundleFile(msgspec.Struct, frozen=True):
    bundles: tuple[BundleRecord, ...] = ()


class InstalledBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle as it lies there now. `problem` says, as a clause, why it counts for nothing."""

    record: BundleRecord
    folder: str
    contents: BundleContents | None = None
    problem: str = ""

    @property
    def counts(self) -> bool:
        return self.contents is not None and not self.problem


def bundles_folder(data_folder: str) -> str:
    return os.path.join(data_folder, FOLDER)


def read_records(data_folder: str) -> tuple[BundleRecord, ...]:
    """The list; empty where there is none. Raises `OSError` where it cannot be read or others could have written it,
    and `msgspec.DecodeError` where it is none."""
    try:
        data = read_trusted(os.path.join(bundles_folder(data_folder), LIST), _MAX_LIST_BYTES).data
    except FileNotFoundError:
        return ()
    return msgspec.json.decode(data, type=_BundleFile).bundles


def write_records(data_folder: str, records: tuple[BundleRecord, ...]) -> None:
    folder = private_folder(bundles_folder(data_folder))
    ordered = tuple(sorted(records, key=lambda record: record.name))
    write_atomic(os.path.join(folder, LIST), msgspec.json.encode(_BundleFile(ordered)))


def installed_bundles(data_folder: str) -> list[InstalledBundle]:
    """Every bundle of the list, looked at file by file. Raises as `read_records` does."""
    return [_installed(record, data_folder) for record in read_records(data_folder)]


class CountingBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that is, file by file, as a person agreed to it. `skills` and `commands` are folders below its own,
    `agents` files."""

    name: str
    folder: str
    skills: tuple[str, ...]
    commands: tuple[str, ...]
    agents: tuple[str, ...]


def counting_bundles(data_folder: str, among: Collection[str] | None = None) -> Iterator[CountingBundle]:
    """Those that count as they lie there now, of all or of those in these folders; none without a readable list."""
    try:
        records = read_records(data_folder)
    except (OSError, msgspec.DecodeError):
        return
    for record in records:
        if among is not None and not any(os.path.basename(one) == record.folder_name for one in among):
            continue
        bundle = _installed(record, data_folder)
        if (contents := bundle.contents) is not None and bundle.counts:
            yield CountingBundle(
                name=record.name,
                folder=bundle.folder,
                skills=contents.skills,
                commands=contents.commands,
                agents=contents.agents,
            )


def has_bundle(name: str, data_folder: str) -> bool:
    """Whether the list names such a bundle, whatever has become of it."""
    try:
        return any(record.name == name for record in read_records(data_folder))
    except (OSError, msgspec.DecodeError):
        return False


def bundle_name(folder: str) -> str:
    return os.path.basename(folder)[: -_IN_NAME - 1]


def _installed(record: BundleRecord, data_folder: str) -> InstalledBundle:
    folder = os.path.join(os.path.realpath(bundles_folder(data_folder)), record.folder_name)
    if os.path.basename(folder) != record.folder_name:
        return InstalledBundle(record=record, folder=folder, problem="its name leads elsewhere")
    try:
        contents = read_bundle(folder)
    except BadBundle as bad:
        return InstalledBundle(record=record, folder=folder, problem=str(bad))
    if contents.digest != record.digest or contents.name != record.name:
        changed = "it changed since you agreed to it"
        return InstalledBundle(record=record, folder=folder, contents=contents, problem=changed)
    return InstalledBundle(record=record, folder=folder, contents=contents)


def bundle_sources(table: SettingTable, data_folder: str, problems: list[Problem]) -> list[SettingsSource]:
    """What installed bundles set, each as a source of its own; what is wrong with one is said, and it sets nothing."""
    if not os.path.isdir(bundles_folder(data_folder)):
        return []
    try:
        found = installed_bundles(data_folder)
    except (OSError, msgspec.DecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        clause = f"none of them is used, because {LIST} cannot be read ({why})"
        problems.append(Problem(severity="warning", source="bundles", problem=clause))
        return []
    return [source for bundle in found for source in _source(table, bundle, problems)]


def wrong_settings(table: SettingTable, contents: BundleContents) -> str:
    """What settings would not take of what a bundle sets, as a clause; empty where nothing is wrong."""
    place = SettingsFile(path="", source="bundle")
    names = folded(table, contents.settings("/"), {}, place.report)
    kept = validated(table, names.values, {}, place.report)
    return next((problem.problem for problem in kept.problems if problem.severity == "error"), "")


def _source(table: SettingTable, bundle: InstalledBundle, problems: list[Problem]) -> list[SettingsSource]:
    name = f"{BUNDLE}{bundle.record.name}"
    place = SettingsFile(path=bundle.folder, source=name)
    if not bundle.counts or bundle.contents is None:
        clause = f"left out, because {bundle.problem} (bridle plugins verify)"
        problems.append(place.report("warning", clause))
        return []
    values = bundle.contents.settings(bundle.folder)
    if values.get("hooks") and not is_plain_folder(bundle.folder):
        problems.append(
            place.report("warning", "its hooks are left out, because its folder has blanks or quotes in it")
        )
        del values["hooks"]
    names = folded(table, values, {}, place.report)
    kept = validated(table, names.values, {}, place.report)
    wrong = [problem for problem in kept.problems if problem.severity == "error"]
    if wrong:  # it was looked at when it was added; a newer Bridle may take less
        problems.append(place.report("warning", f"left out, because {wrong[0].problem}"))
        return []
    problems += names.problems
    return [SettingsSource("user", name, kept.values, path=bundle.folder)]
