"""The folders of `--add-dir`, and the variables in the file of `--env-file`, such as keys kept beside a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from bridle.base.fs.files import read_limited
from bridle.base.text.terminal_text import visible
from bridle.protocol.errors import UsageError


def added_folders(given: Iterable[str]) -> tuple[str, ...]:
    """The folders as absolute paths. Raises `UsageError` for one that is not there: it would allow nothing."""
    folders = tuple(map(os.path.abspath, given))
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"--add-dir: there is no folder {folder}")
    return folders


def with_env_file(env: Mapping[str, str], path: str | None) -> Mapping[str, str]:
    """The environment with what the file adds to it. What the shell sets goes before it. Raises `UsageError`."""
    if path is None:
        return env
    from bridle.credentials.project_secrets import MAX_BYTES, Unusable, parse

    try:
        contents = read_limited(path, MAX_BYTES)
        if contents.truncated:
            raise Unusable("it is too large")
        return {**parse(contents.data), **env}
    except OSError as problem:
        why = problem.strerror or "it cannot be read"
    except Unusable as problem:
        why = str(problem)
    raise UsageError(f"--env-file {visible(path, newlines=False)} cannot be used: {why}")
