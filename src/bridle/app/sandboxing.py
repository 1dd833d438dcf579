"""The border around commands, put together: who holds it on this machine, and what a session's commands may do."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.app.settings import SandboxSettings
from bridle.base.processes import Processes
from bridle.config.folders import Folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.errors import sentence
from bridle.safety.paths import SessionFolders, is_beneath_any
from bridle.safety.sandbox.choosing import Chooser
from bridle.safety.sandbox.spawn import SandboxSpawn
from bridle.safety.spawn import UNCONFINED

if TYPE_CHECKING:
    from bridle.safety.sandbox.confinement import Place


TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  compared, never opened


def machine_spawn(processes: Processes, *, where: Folders, env: Mapping[str, str]) -> SandboxSpawn:
    """The `Spawn` of this process. What holds commands here is looked for with the first of them."""
    chooser = Chooser(processes, state=where.state)
    return SandboxSpawn(
        processes,
        place=lambda: this_place(where, env, caches=where.cache),
        choose=chooser.adapter,
        expected=chooser.expected,
        failed=chooser.drop,
    )


def this_place(where: Folders, env: Mapping[str, str], *, caches: str = "") -> Place:
    """The machine and the person, for the sandbox. Caches that are named are made with the first command."""
    from bridle.safety.sandbox.confinement import Place

    return Place(home=home_of(env), own=where.all, caches=caches, records=where.data, env=env)


def session_policy(
    settings: SandboxSettings, here: SessionFolders, *, env: Mapping[str, str], scratch: str
) -> SpawnPolicy:
    """What the commands of a session in these folders may do. `scratch` is its own temporary folder."""
    mode = "workspace-write" if settings.mode == "auto" else settings.mode
    home = env.get("HOME", "")
    asked = (_from_home(path, home) for path in settings.writable)
    return SpawnPolicy(
        mode=mode,
        workspace=here.workspace,
        writable=(*here.added, *asked) if mode == "workspace-write" else (),
        readable=(*here.added, *_our_programs(here)),
        network=settings.network,
        scratch=scratch,
        required=settings.required,
    )


def foreign_folder(policy: SpawnPolicy, held_by: str) -> str | None:
    """Why commands cannot write in the workspace after all; None where they can.

    Inside most borders the superuser is nobody special: files of other users stay closed.
    """
    if policy.mode != "workspace-write" or held_by == UNCONFINED or os.geteuid() != 0:
        return None
    owner = os.stat(policy.workspace).st_uid
    return sentence("ForeignFolder", {"owner": owner}) if owner else None


def _our_programs(here: SessionFolders) -> tuple[str, ...]:
    """Where Bridle itself is installed, if commands would not see it there: our own tools start programs from it."""
    installed = os.path.realpath(sys.prefix)
    hidden = is_beneath_any(installed, TEMPORARY) and here.place(installed) == "outside"
    return (installed,) if hidden else ()


def _from_home(path: str, home: str) -> str:
    """`~/x` is in the home of the person; anything else stays as it is."""
    return os.path.join(home, path[2:]) if home and path.startswith("~/") else path


def clear_away(scratch: str) -> None:
    """Removes a session's temporary folder with everything its commands left in it."""
    if os.path.isdir(scratch):
        import shutil  # slow to import, and most sessions run no command

        shutil.rmtree(scratch, ignore_errors=True)
