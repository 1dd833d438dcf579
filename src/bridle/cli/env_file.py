"""`--env-file`: variables from a file the person names, such as keys kept beside a project."""

from __future__ import annotations

from collections.abc import Mapping

from bridle.base.visible import visible
from bridle.protocol.errors import UsageError


def with_env_file(env: Mapping[str, str], path: str | None) -> Mapping[str, str]:
    """The environment with what the file adds to it. What the shell sets goes before it. Raises `UsageError`."""
    if path is None:
        return env
    from bridle.base.files import read_limited
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
