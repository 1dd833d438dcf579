"""Settings and folders for the sandbox verbs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bridle.app.user.settings import SessionSettings
from bridle.base.fs.paths import session_folders
from bridle.base.process.processes import CannotStart, Processes
from bridle.config.folders import Folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.adapter_choice import ORDER, ChosenAdapter, TriedAdapter, find_program
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.session_border import session_policy, this_place

_VERSION_S = 5.0


class SandboxContext(NamedTuple):
    """Where a command would run, and what the settings say there."""

    cwd: str
    where: Folders
    env: Mapping[str, str]
    settings: SessionSettings

    @property
    def policy(self) -> SpawnPolicy:
        options = self.settings.options
        return session_policy(
            self.settings.sandbox,
            session_folders(self.cwd, options.add_dirs),
            env=self.env,
            scratch="",
            shown=self.settings.skills.readable_folders(self.where.config),
        )

    @property
    def place(self) -> HostContext:
        """Without the caches, which would be made by asking."""
        return this_place(self.where, self.env, home=home_of(self.env))


async def version_of(chosen: ChosenAdapter, processes: Processes) -> str:
    """The version of what holds commands, as far as it tells one."""
    program = {"bubblewrap": "bwrap", "unshare": "unshare"}.get(chosen.way.name if chosen.way else "")
    path = find_program(program) if program else None
    if path is None:
        return ""
    try:
        done = await processes.run(
            [path, "--version"], cwd="/", env={"LANG": "C"}, timeout_s=_VERSION_S, max_output_bytes=200
        )
    except CannotStart:
        return ""
    words = done.output.decode("utf-8", "replace").split()
    return words[-1] if done.returncode == 0 and words else ""


def why_not(attempts: Sequence[TriedAdapter]) -> Iterator[tuple[str, str]]:
    """For each way to confine that does not work here, why; the strongest variant of each speaks for it."""
    told = {attempt.way.name: attempt.problem for attempt in reversed(attempts) if attempt.problem}
    for name in ORDER:
        if name != "sandbox-exec" or sys.platform == "darwin":
            yield name, told.get(name, "it is not there")
