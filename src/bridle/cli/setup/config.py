"""`bridle config`: show, edit and validate settings."""

from __future__ import annotations

import argparse
import asyncio
import os

import msgspec

from bridle.app.features.alias_source import alias_problems
from bridle.app.sources.settings_use import all_problems
from bridle.app.user.setting_sections import TABLE
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.console import say, say_json, say_lines, tell
from bridle.cli.option_values import problem_data, settings_here, writing
from bridle.cli.stdin import typed_answer
from bridle.cli.terminal_services import editor_of, has_terminal, open_editor
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import Folders, folders
from bridle.config.origins import settable
from bridle.config.problems import Problem
from bridle.config.setting_table import key_of
from bridle.config.settings_report import HIDDEN, rows, show, shown_value, validate
from bridle.config.settings_writer import (
    OwnTier,
    SettingChange,
    file_of,
    forgotten,
    keep_out_of_git,
    made_for_editing,
    set_value,
    unset,
    user_file,
)
from bridle.config.tiers import Tiers
from bridle.protocol.errors import BridleError, UsageError

EXIT_NOT_SET = 1
EXIT_INVALID = 2
EXIT_EDITOR_FAILED = 1


def config(parsed: Args, env: Env) -> int:
    where = folders(env)
    match parsed.action:
        case "get":
            return _get(settings_here(parsed, env).checked(), parsed.key)
        case "set":
            return _set(where, env, parsed)
        case "unset":
            return _unset(where, env, parsed)
        case "edit":
            return _edit(where, env, parsed)
        case "validate":
            return _validate(settings_here(parsed, env), where, as_json=parsed.json)
        case "path":
            return say(visible_line(user_file(where)) + "\n")
        case _:
            return _show(settings_here(parsed, env), origin=parsed.origin, as_json=parsed.json)


def _show(tiers: Tiers, *, origin: bool, as_json: bool) -> int:
    problems = validate(tiers)
    if as_json:
        listed = [
            {"key": row.key, "value": row.value, "origin": msgspec.to_builtins(row.origin)}
            for row in rows(tiers)
        ]
        answer = {"settings": listed, "problems": [problem_data(problem) for problem in problems]}
        code = say_json(answer)
    else:
        code = say_lines(show(tiers, origin=origin))
        for problem in problems:
            tell(visible_line(problem.text))
    return code or _exit_code(problems)


def _validate(tiers: Tiers, where: Folders, *, as_json: bool) -> int:
    problems = [*all_problems(tiers), *alias_problems(where)]
    errors = sum(problem.severity == "error" for problem in problems)
    if as_json:
        answer = {"valid": not errors, "problems": [problem_data(problem) for problem in problems]}
        return say_json(answer) or _exit_code(problems)
    words = {"error": "error", "warning": "warn "}
    lines = [f"{words[problem.severity]}  {visible_line(problem.text)}" for problem in problems]
    if problems:
        lines.append(f"{counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}.")
    else:
        read = ", ".join(visible_line(source.path) for source in tiers.sources if source.path)
        lines.append(f"Nothing is wrong. Read: {read or 'no settings file, there is none'}")
    return say_lines(lines) or _exit_code(problems)


def _exit_code(problems: list[Problem]) -> int:
    return EXIT_INVALID if any(problem.severity == "error" for problem in problems) else 0


def _get(tiers: Tiers, key: str) -> int:
    path = _path_of(key)
    value = shown_value(tiers, path)
    if value is None:
        tell(f"{visible_line(key)} is not set")
        return EXIT_NOT_SET
    if isinstance(tiers.get(path), str) and value != HIDDEN:
        value = visible(msgspec.json.decode(value, type=str))  # a script wants the words, not the quotes
    return say(value + "\n")


def _path_of(key: str) -> tuple[str, ...]:
    try:
        return settable(TABLE, key).path
    except ValueError as problem:
        raise UsageError(str(problem)) from None


def _set(where: Folders, env: Env, parsed: Args) -> int:
    if parsed.key.startswith("plugins."):
        _ask_plugins(parsed, env)
    with writing(user_file(where)):
        change = set_value(TABLE, where, parsed.key, parsed.value)
    said = "was so already" if change.before == change.after else "is set"
    return _report(change, f"{change.key} {said} in {change.path}", parsed, env)


def _ask_plugins(parsed: Args, env: Env) -> None:
    """Raises `UsageError` where a plugin could not be used with the value: only they know what their settings take."""
    wanted = argparse.Namespace(set=[f"{parsed.key}={parsed.value}"])
    for problem in all_problems(settings_here(wanted, env)):
        if problem.key == parsed.key:
            raise UsageError(problem.problem)


def _unset(where: Folders, env: Env, parsed: Args) -> int:
    file = user_file(where)
    if not os.path.lexists(file):  # nothing is made in order to take something out of it
        path = _path_of(parsed.key)
        change = SettingChange(file, key_of(path), None, None)
    else:
        with writing(file):
            change = unset(TABLE, where, parsed.key)
    said = "is not set" if change.before is None else "is no longer set"
    return _report(change, f"{change.key} {said} in {change.path}", parsed, env)


def _report(change: SettingChange, sentence: str, parsed: Args, env: Env) -> int:
    """What was done, and what holds here where that is something else."""
    lines = [visible_line(sentence) + "."]
    tiers = settings_here(parsed, env)
    origin = tiers.origin(change.key)
    if origin is not None and origin.path != change.path:
        value = shown_value(tiers, change.key)
        lines.append(f"Here it is {value}, from {visible_line(origin.shown)}.")
    return say_lines(lines)


def _edit(where: Folders, env: Env, parsed: Args) -> int:
    """Lets the person change a whole file; says what is wrong with it afterwards and offers to go on."""
    if parsed.local and parsed.project:
        raise UsageError("--project and --local exclude each other. Choose one")
    tier: OwnTier = "local" if parsed.local else "project" if parsed.project else "user"
    file = file_of(where, os.getcwd(), tier)
    if not has_terminal():
        raise UsageError(f"An editor needs a terminal. The file is {visible_line(file)}")
    command = editor_of(env)
    try:
        made = made_for_editing(where, file, tier)
        code = _edited(command, file, parsed, env)
        if made is not None and forgotten(file, made):
            return say("Nothing was written.\n") or code
    except OSError as problem:
        raise BridleError("FileUnwritable", path=file, problem=problem.strerror) from None
    if tier == "local":
        keep_out_of_git(file)
    return code


def _edited(command: list[str], file: str, parsed: Args, env: Env) -> int:
    """The exit code: 0 when nothing is wrong, 2 when a mistake was kept, 1 when the editor failed."""
    while True:
        ended = asyncio.run(open_editor(command, file, env))
        if ended != 0:
            tell(f"the editor ended with exit code {ended}; the file was not looked at")
            return EXIT_EDITOR_FAILED
        problems = [one for one in validate(settings_here(parsed, env)) if one.path == file]
        for problem in problems:
            tell(visible_line(problem.text))
        if not any(problem.severity == "error" for problem in problems):
            return 0
        if typed_answer("e edit again · Enter keep it as it is › ") != "e":
            return EXIT_INVALID
