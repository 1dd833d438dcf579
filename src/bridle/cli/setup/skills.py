"""`bridle skills`: list, show, check and create skills."""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

import msgspec

from bridle.app.sources.skill_sources import agreed_of, find_all
from bridle.app.user.settings import is_acked, skill_settings
from bridle.base.fs.files import read_limited
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.console import say, say_json, say_lines, tell
from bridle.cli.option_values import settings_here
from bridle.cli.policy.trust import stored_approvals
from bridle.cli.setup.agents import folder_of_new, report_checked, shown_path, write_beginning
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.context.skills.session_skills import Offered, SessionSkills, offered_of
from bridle.context.skills.skill_file import BadSkill, read_skill
from bridle.context.skills.skill_records import MAX_BODY_BYTES, SKILL_FILE
from bridle.context.skills.skill_views import skill_description, skill_lines, skill_list
from bridle.protocol.errors import UsageError

_BEGINNING: Final = """\
---
name: {name}
description: {description}
---

# {title}

1. …
2. …
"""


def skills(parsed: Args, env: Env) -> int:
    match parsed.action:
        case "show":
            return _show(parsed, env)
        case "check":
            return _check(parsed, env)
        case "new":
            return _new(parsed, env)
        case _:
            return _list(parsed, env)


def skills_here(parsed: Args, env: Env) -> SessionSkills:
    """The skills that a session here would have. Nothing of them is run, and nobody is asked."""
    approvals = stored_approvals(env)
    cwd = os.path.realpath(os.getcwd())
    settings = skill_settings(settings_here(parsed, env, is_acked=is_acked(approvals)))

    def find() -> Offered:
        if not settings.enabled:
            return Offered(skills={})
        found = find_all(settings, where=folders(env), cwd=cwd, env=env)
        return offered_of(found, agreed_of(approvals), settings.disabled)

    return SessionSkills(find)


def _list(parsed: Args, env: Env) -> int:
    found = skill_list(skills_here(parsed, env).offered)
    if parsed.json:
        return say_json(found)
    for problem in found.problems:
        tell(visible_line(problem))
    return say_lines(skill_lines(found.skills))


def _show(parsed: Args, env: Env) -> int:
    found = skill_description(skills_here(parsed, env), parsed.name)
    if parsed.json:
        return say_json(found)
    one = found.skill
    facts = [
        f"{one.name}  {one.source}  {one.folder}",
        one.description,
        *(f"{name}: {_written(value)}" for name, value in found.fields.items()),
        *((f"files: {', '.join(found.files)}",) if found.files else ()),
    ]
    return say("\n".join(visible_line(fact) for fact in facts) + f"\n\n{visible(found.body)}\n")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# Checking


class CheckedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about one folder: nothing, or what to change."""

    path: str
    name: str = ""
    problem: str = ""
    line: int = 0
    warnings: tuple[str, ...] = ()


def _check(parsed: Args, env: Env) -> int:
    paths = parsed.path or _folders_here(parsed, env)
    found = [_checked(path, env) for path in paths]
    lines = [line for one in found for line in _checked_lines(one)]
    return report_checked(parsed, found, lines, has_problems=any(one.problem for one in found))


def _folders_here(parsed: Args, env: Env) -> list[str]:
    """Every folder here that wants to be a skill, but for those that Bridle brings."""
    offered = skills_here(parsed, env).offered
    found = [
        skill.folder for skill in (*offered.skills.values(), *offered.waiting) if skill.source != "built-in"
    ]
    for problem in offered.problems:
        path = os.path.expanduser(problem.shown)
        found.append(os.path.dirname(path) if os.path.basename(path) == SKILL_FILE else path)
    return sorted(found)


def _checked(path: str, env: Env) -> CheckedSkill:
    folder = os.path.dirname(path) if os.path.basename(path) == SKILL_FILE else path
    folder = os.path.abspath(folder)
    file = os.path.join(folder, SKILL_FILE)
    shown = shown_path(file, env)
    try:
        contents = read_limited(file, MAX_BODY_BYTES)
        if contents.truncated:
            return CheckedSkill(path=shown, problem=f"it has more than {MAX_BODY_BYTES:,} bytes: shorten it")
        found = read_skill(contents.data.decode(), folder=os.path.basename(folder))
    except (FileNotFoundError, NotADirectoryError):
        return CheckedSkill(path=path, problem=f"there is no {SKILL_FILE} in a folder of that name")
    except OSError as problem:
        return CheckedSkill(path=shown, problem=f"it cannot be read: {problem.strerror or problem}")
    except UnicodeDecodeError:
        return CheckedSkill(path=shown, problem="it is not UTF-8 text: save it as that")
    except BadSkill as bad:
        return CheckedSkill(path=shown, problem=str(bad), line=bad.line)
    return CheckedSkill(path=shown, name=found.head.name, warnings=found.head.warnings)


def _checked_lines(one: CheckedSkill) -> list[str]:
    place = visible_line(one.path)
    if one.problem:
        return [f"{place}{f':{one.line}' if one.line else ''}: {visible_line(one.problem)}"]
    return [f"{place}: good", *(f"{place}: {visible_line(text)}" for text in one.warnings)]


# Beginning one


def _new(parsed: Args, env: Env) -> int:
    description = parsed.description or "What it does. Use it when …"
    text = _BEGINNING.format(
        name=parsed.name,
        description=msgspec.json.encode(description).decode(),
        title=parsed.name.replace("-", " ").capitalize(),
    )
    try:
        read_skill(text, folder=parsed.name)
    except BadSkill as bad:
        raise UsageError(f'"{visible_line(parsed.name)[:100]}" cannot be a skill: {bad}') from None
    file = os.path.join(folder_of_new(parsed, env), "skills", parsed.name, SKILL_FILE)
    return write_beginning(file, text, parsed, env)


def skill_names(env: Env) -> list[str]:
    """For Tab: the names of the skills that are offered here."""
    return list(skills_here(argparse.Namespace(), env).offered.skills)
