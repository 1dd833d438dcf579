"""Profiles: preset bundles of settings as TOML files, found by name or by path.

Those that ship lie in `profiles/`; the person's own in `profiles/` of the config folder, and go before. A file more
is a profile more. The `default` that ships sets nothing, so it is never even read.
"""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from bridle.config.problems import Problem, shown, shown_names
from bridle.config.setting_table import nearest
from bridle.config.settings_file import ParsedFile, SettingsFile, read

DEFAULT = "default"
SCHEMA_VERSION = 1
HEADER = ("schema_version", "name", "about")
"""Keys of a profile that are about the profile and not settings."""
TOLD = ("mode", "permissions", "sandbox", "budget", "context", "trust", "tools")
"""What of a profile anybody may know who may begin a session."""


class Preset(msgspec.Struct, frozen=True):
    """What a profile says besides its header, or why there is none."""

    place: SettingsFile | None
    parsed: ParsedFile


def shipped_folder() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiles")


def profile_names(config_folder: str) -> list[str]:
    """Every profile that can be chosen by name."""
    folders = (shipped_folder(), os.path.join(config_folder, "profiles"))
    files = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    return sorted({name.removesuffix(".toml") for name in files if name.endswith(".toml")})


def read_profile(chosen: str, *, config_folder: str, relative_to: str) -> Preset:
    """The profile a person chose: a name, or a path (with a slash, or ending in .toml), which must exist."""
    if chosen == DEFAULT and not os.path.lexists(_own(config_folder, DEFAULT)):
        return Preset(None, ParsedFile({}, {}, []))
    path = _path_of(chosen, config_folder, relative_to)
    if path is None:
        return _missing(chosen, profile_names(config_folder))
    place = SettingsFile(path=path, source=f"profile {shown(chosen)}")
    parsed = read(place)
    return Preset(place, _without_header(place, parsed))


class DescribedProfile(msgspec.Struct, frozen=True):
    about: str
    settings: dict[str, Any]


def described_profile(name: str, *, config_folder: str) -> DescribedProfile | None:
    """What others may know of a profile of this name: of its settings, those that say how a session works."""
    if name not in profile_names(config_folder):
        return None
    path = _path_of(name, config_folder, "")
    values = {} if path is None else read(SettingsFile(path=path, source=f"profile {shown(name)}")).values
    return DescribedProfile(str(values.get("about", "")), {key: values[key] for key in TOLD if key in values})


def is_path(chosen: str) -> bool:
    """Whether a profile is chosen by its file and not by its name."""
    return "/" in chosen or chosen.endswith(".toml")


def _path_of(chosen: str, config_folder: str, relative_to: str) -> str | None:
    if is_path(chosen):
        path = os.path.join(relative_to, os.path.expanduser(chosen))
        return os.path.abspath(path) if os.path.lexists(path) else None
    if not re.fullmatch(r"[A-Za-z0-9_-]+", chosen):
        return None
    candidates = (_own(config_folder, chosen), os.path.join(shipped_folder(), f"{chosen}.toml"))
    return next((path for path in candidates if os.path.lexists(path)), None)


def _own(config_folder: str, name: str) -> str:
    return os.path.join(config_folder, "profiles", f"{name}.toml")


def _missing(chosen: str, names: list[str]) -> Preset:
    close = nearest(chosen, names)
    there = f"there are {shown_names(names)}"
    hint = f"nearest: {close}; {there}" if close else there
    clause = f'there is no profile "{shown(chosen)}" ({hint})'
    return Preset(None, ParsedFile({}, {}, [Problem(severity="error", source="profile", problem=clause)]))


def _without_header(place: SettingsFile, parsed: ParsedFile) -> ParsedFile:
    version = parsed.values.get("schema_version", SCHEMA_VERSION)
    values = {key: value for key, value in parsed.values.items() if key not in HEADER}
    if type(version) is int and 0 < version <= SCHEMA_VERSION:
        return ParsedFile(values, parsed.lines, parsed.problems)
    line = parsed.lines.get(("schema_version",))
    clause = f"schema_version = {shown(str(version))} is not one this Bridle knows (up to {SCHEMA_VERSION})"
    return ParsedFile({}, {}, [*parsed.problems, place.error(clause, line)])
