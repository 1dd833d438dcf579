"""Read what options name: settings, added folders and the environment file."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from bridle.app.user.setting_sections import load
from bridle.base.fs.files import read_limited
from bridle.base.text.terminal_text import visible_line
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders, home_of
from bridle.config.problems import Problem
from bridle.config.tiers import Tiers
from bridle.credentials.project_secrets import MAX_BYTES, Unusable, parse
from bridle.protocol.errors import BridleError, UsageError


def added_folders(given: Iterable[str]) -> tuple[str, ...]:
    """The folders as absolute paths. Raises `UsageError` for one that is not there: it would allow nothing."""
    folders = tuple(map(os.path.abspath, given))
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"--add-dir: there is no folder {folder}")
    return folders


def with_env_file(env: Env, path: str | None) -> Mapping[str, str]:
    """The environment with what the file adds to it. What the shell sets goes before it. Raises `UsageError`."""
    if path is None:
        return env
    try:
        contents = read_limited(path, MAX_BYTES)
        if contents.truncated:
            raise Unusable("it is too large")
        return {**parse(contents.data), **env}
    except OSError as problem:
        why = problem.strerror or "it cannot be read"
    except Unusable as problem:
        why = str(problem)
    raise UsageError(f"--env-file {visible_line(path)} cannot be used: {why}")


def settings_here(parsed: Args, env: Env, *, cwd: str | None = None, **more: Any) -> Tiers:
    """Return the settings of this folder, or of `cwd`, with the options of the command line, unchecked."""
    return load(
        where=folders(env),
        cwd=cwd or os.getcwd(),
        env=env,
        config_file=getattr(parsed, "config", None),
        profile=getattr(parsed, "profile", None),
        sets=getattr(parsed, "set", ()),
        **more,
    )


def has_any_content(_file: object) -> bool:
    """For settings as they are written, approved or not."""
    return True


def user_settings(env: Env) -> Tiers:
    """Return the user's own settings, as they apply in every folder. Raises `BadConfig`."""
    return load(where=folders(env), cwd=home_of(env), env=env).checked()


def problem_data(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON: its fields, and the sentence for users."""
    return {**msgspec.to_builtins(problem), "text": problem.text}


@contextmanager
def writing(path: str) -> Generator[None]:
    """Raise `FileUnwritable` where a settings file cannot be changed meanwhile."""
    try:
        yield
    except OSError as problem:
        is_folder = not isinstance(problem, FileExistsError | NotADirectoryError)
        clause = problem.strerror if is_folder else f"{problem.filename} is not a folder"
        raise BridleError("FileUnwritable", path=path, problem=clause) from None
