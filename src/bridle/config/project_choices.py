"""What a person chose for one project and is not the project's to say: whom they talk with there.

It lies in their own state folder, by the project's root. It counts above every settings file and below `--config`, the
environment and flags.
"""

from __future__ import annotations

import os

import msgspec

from bridle.base.fs.files import FileLock, private_folder, read_trusted, repository_root, write_atomic
from bridle.config.folders import PROJECT_CHOICES
from bridle.config.origins import CHOSEN_HERE, SettingsSource
from bridle.config.problems import Problem
from bridle.config.settings_file import SettingsFile
from bridle.protocol.errors import BridleError

MAX_BYTES = 1_000_000
LOCK_TIMEOUT_S = 5.0


class ProjectChoice(msgspec.Struct, frozen=True, kw_only=True):
    agent: str


class _File(msgspec.Struct, frozen=True, kw_only=True):
    projects: dict[str, ProjectChoice] = {}


def chosen_agent_source(state_folder: str, cwd: str, problems: list[Problem]) -> list[SettingsSource]:
    """What holds in `cwd`. A file that cannot be read chooses nothing, and is said."""
    path = os.path.join(state_folder, PROJECT_CHOICES)
    try:
        choice = _read(path).projects.get(_root(cwd))
    except (OSError, msgspec.MsgspecError) as problem:
        clause = problem.strerror if isinstance(problem, OSError) else "it is not what Bridle wrote"
        place = SettingsFile(path=path, source=PROJECT_CHOICES)
        problems.append(place.report("warning", f"what was chosen for projects does not count: {clause}"))
        return []
    return [] if choice is None else [SettingsSource("user", CHOSEN_HERE, {"agent": choice.agent}, path=path)]


def choose_agent(state_folder: str, cwd: str, agent: str | None) -> str | None:
    """Has an agent chosen in the project around `cwd` from now on, None that none is. Returns the one before.

    Raises OSError, `FileUnwritable`; what was there and cannot be read gives way.
    """
    path = os.path.join(private_folder(state_folder), PROJECT_CHOICES)
    with FileLock(path + ".lock") as lock:
        if not lock.acquire(timeout_s=LOCK_TIMEOUT_S):
            raise BridleError("FileUnwritable", path=path, problem="another Bridle is changing it")
        try:
            projects = dict(_read(path).projects)
        except (OSError, msgspec.MsgspecError):
            projects = {}
        before = projects.pop(_root(cwd), None)
        if agent is not None:
            projects[_root(cwd)] = ProjectChoice(agent=agent)
        if agent is not None or before is not None:
            write_atomic(path, msgspec.json.encode(_File(projects=projects)) + b"\n")
    return None if before is None else before.agent


def _root(cwd: str) -> str:
    """The project around `cwd`, as text that JSON can hold whatever bytes the path has."""
    return repository_root(os.path.realpath(cwd)).encode("utf-8", "backslashreplace").decode()


def _read(path: str) -> _File:
    return msgspec.json.decode(read_trusted(path, MAX_BYTES).data, type=_File)
