"""`bridle profiles`: list, show, create and check profiles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from bridle.app.queries.profile_answers import is_trusted_profile, profile_entries
from bridle.app.sources.skill_sources import session_skills
from bridle.app.user.setting_sections import load
from bridle.app.user.settings import skill_settings
from bridle.base.fs.files import private_folder, write_atomic
from bridle.base.text.phrases import counted
from bridle.base.text.spelling import meant_words
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import aligned, say, say_json, say_lines
from bridle.cli.option_values import problem_data, writing
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import Folders, folders, project_folder
from bridle.config.problems import Problem, shown, written
from bridle.config.profiles import (
    FOLDER,
    PROJECT_CHOICE_NAME,
    ProfileFile,
    about_words,
    chosen_by_project,
    find_profile,
    find_profiles,
    is_name,
    read_preset,
)
from bridle.config.settings_report import rows
from bridle.config.tiers import Tiers
from bridle.protocol.errors import UsageError
from bridle.protocol.queries import ProfileEntry
from bridle.safety.trust import Approvals

EXIT_INVALID = 2
TEMPLATE = """\
# {name}: choose it with --profile {name}, BRIDLE_PROFILE={name}, or profile = "{name}" in your config.toml.
# Whatever a config.toml may set may stand here; your own config.toml goes before it. bridle help settings lists all.
schema_version = 1
name = "{name}"
about = ""

# model = "provider:model"
# mode = "default"                          strict default safe auto yolo plan
# instructions = "Words for the system text."

# [context]
# sources = ["AGENTS.md"]

# [tools]
# packs = ["read", "edit", "shell", "web"]  what is not named is left out

# [mcp_servers.files]
# command = ["program", "argument"]
# sha256 = ""                               the digest the program must have

# [budget]
# usd_per_session = 5.0
"""


class ProfilePage(msgspec.Struct, frozen=True, kw_only=True):
    """One profile as people look at it: what it sets where it counts, without secrets, and what is to be said of it.

    `skills` are those that a session with it would have here.
    """

    name: str
    scope: str
    path: str
    trusted: bool
    about: str
    settings: dict[str, Any]
    skills: tuple[str, ...]
    problems: tuple[str, ...]


def profiles(parsed: Args, env: Env) -> int:
    where, cwd = folders(env), os.path.realpath(os.getcwd())
    match parsed.action:
        case "show":
            return _show(parsed, where, cwd, env)
        case "new":
            return _new(parsed, where, cwd)
        case "check":
            return _check(parsed, where, cwd, env)
        case _:
            return _list(parsed, where, cwd, env)


# Looking


def _list(parsed: Args, where: Folders, cwd: str, env: Env) -> int:
    in_force = load(where=where, cwd=cwd, env=env).get("profile") or ""
    entries = profile_entries(where, cwd=cwd, in_force=in_force)
    return say_json(entries) if parsed.json else say_lines(_lines(entries))


def _lines(entries: list[ProfileEntry]) -> list[str]:
    rows: list[tuple[str, str, str]] = []
    for row in entries:
        untrusted = f"waits for your trust: bridle trust ack {_path_in_project(row.name)}"
        about = row.about if row.trusted else untrusted
        rows.append((f"{'*' if row.in_force else ' '} {row.name}", f"{row.scope:<7}", about))
    return aligned(rows, gap="  ")


def _path_in_project(name: str) -> str:
    return name if name == PROJECT_CHOICE_NAME else f".bridle/{FOLDER}/{name}.toml"


def _show(parsed: Args, where: Folders, cwd: str, env: Env) -> int:
    file = _named(parsed.name, where, cwd)
    tiers = _alone(file, where, cwd, env)
    of_it = Tiers(
        tiers.table, [one for one in tiers.sources if one.path == file.path or one.tier == "profile"]
    )
    page = ProfilePage(
        name=file.name,
        scope=file.scope,
        path=file.path,
        trusted=file.scope != "project" or is_trusted_profile(file, where),
        about=about_words(file),
        settings={row.key: row.value for row in rows(of_it) if row.key != "profile"},
        skills=_skills(tiers, where, cwd, env),
        problems=tuple(problem.text for problem in _problems(file, tiers)),
    )
    return say_json(page) if parsed.json else say_lines(_page(page))


def _skills(tiers: Tiers, where: Folders, cwd: str, env: Env) -> tuple[str, ...]:
    approvals = Approvals(where.config)
    found = session_skills(skill_settings(tiers), where=where, cwd=cwd, env=env, approvals=approvals)
    return () if found is None else tuple(found.offered.skills)


def _page(page: ProfilePage) -> Iterator[str]:
    yield f"{page.name}  {page.about}".rstrip()
    yield f"  file     {page.path}"
    yield f"  scope    {page.scope}{'' if page.trusted else ', not trusted yet: it counts for nothing'}"
    for key, value in page.settings.items():
        yield f"  {key} = {written(value)}"
    if not page.settings:
        yield "  It sets nothing."
    yield f"  skills   {', '.join(page.skills) or 'none'}"
    for problem in page.problems:
        yield f"  {problem}"


def _check(parsed: Args, where: Folders, cwd: str, env: Env) -> int:
    """What is wrong with one, or with all there are. Exit 2 where something is."""
    wanted = chosen_by_project(project_folder(cwd))
    every = [*find_profiles(where.config, project_folder(cwd)), *([wanted] if wanted is not None else [])]
    files = every if parsed.name is None else [_named(parsed.name, where, cwd)]
    found = [problem for file in files for problem in _problems(file, _alone(file, where, cwd, env))]
    errors = [problem for problem in found if problem.severity == "error"]
    if parsed.json:
        return say_json([problem_data(problem) for problem in found]) or (EXIT_INVALID if errors else 0)
    lines = [f"{problem.severity}: {problem.text}" for problem in found]
    end = f"{counted(len(files), 'profile')}, {counted(len(found), 'problem')}."
    return say_lines((*lines, end)) or (EXIT_INVALID if errors else 0)


def _alone(file: ProfileFile, where: Folders, cwd: str, env: Env) -> Tiers:
    """The settings with this profile. One of a project is looked at as if it were trusted; nothing comes of that."""
    plain = {
        name: value for name, value in env.items() if not name.startswith("BRIDLE_") or name == "BRIDLE_HOME"
    }
    chosen = None if file.name == PROJECT_CHOICE_NAME else file.path if file.scope == "path" else file.name
    return load(where=where, cwd=cwd, env=plain, profile=chosen, is_acked=lambda _file: True)


def _problems(file: ProfileFile, tiers: Tiers) -> list[Problem]:
    """What is to be said of a profile, and of the file of permissions it names."""
    places = {file.path, *(one.path for one in tiers.sources if one.tier == "profile")}
    return [problem for problem in tiers.problems if problem.path in places]


def _named(name: str, where: Folders, cwd: str) -> ProfileFile:
    """Raises `UsageError` where there is none of this name and at this path."""
    project = project_folder(cwd)
    if name == PROJECT_CHOICE_NAME and (wanted := chosen_by_project(project)) is not None:
        return wanted
    found = find_profile(name, config_folder=where.config, project=project, relative_to=cwd)
    if found is None:
        hint = meant_words(name, [file.name for file in find_profiles(where.config, project)])
        raise UsageError(f'There is no profile "{shown(name)}" here.{hint} See: bridle profiles list')
    return found


# Making one


def _new(parsed: Args, where: Folders, cwd: str) -> int:
    name: str = parsed.name
    if not is_name(name):
        raise UsageError(f'"{shown(name)}" is no name for a profile (letters, digits, - and _)')
    folder = os.path.join(where.config, FOLDER)
    path = os.path.join(folder, f"{name}.toml")
    if os.path.lexists(path):
        raise UsageError(f'There is a profile "{name}" of yours already: {shown(path)}')
    text = TEMPLATE.format(name=name) if parsed.like is None else _copied(parsed.like, name, where, cwd)
    with writing(path):
        private_folder(folder)
        write_atomic(path, text.encode())
    return say(
        visible_line(f'Profile "{name}" is in {path} now. Look at it: bridle profiles show {name}') + "\n"
    )


def _copied(like: str, name: str, where: Folders, cwd: str) -> str:
    """The text of another profile, under the new name."""
    file = _named(like, where, cwd)
    if file.scope == "project":
        raise UsageError("A profile of a project is no profile of yours: trust it, or write your own")
    data = read_preset(file).parsed.data
    text = data.decode("utf-8", "replace")
    return re.sub(r"(?m)^name = .*$", f'name = "{name}"', text, count=1)
