"""The border around commands, put together: who holds it on this machine, and what a session's commands may do."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bridle.app.settings import SandboxSettings
from bridle.base.processes import Processes
from bridle.config.folders import Folders
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.errors import sentence
from bridle.safety.paths import SessionFolders, is_beneath_any
from bridle.safety.spawn import UNCONFINED, ConfinedProcess

if TYPE_CHECKING:
    from bridle.safety.sandbox.choosing import Chooser
    from bridle.safety.sandbox.spawn import SandboxSpawn


TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  compared, never opened


class MachineSpawn:
    """The `Spawn` of this process. What confines commands is loaded, and looked for, with the first of them."""

    def __init__(self, processes: Processes, *, where: Folders, env: Mapping[str, str]) -> None:
        self._processes = processes
        self._where = where
        self._env = env

    @property
    def adapter(self) -> str:
        return self._chooser.expected() or UNCONFINED

    async def held_by(self) -> str | None:
        """What really confines commands here, found out; None where nothing does."""
        adapter = await self._chooser.adapter()
        return adapter.name if adapter is not None else None

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        stdin: bytes | None = None,
    ) -> ConfinedProcess:
        return await self._spawn(
            argv,
            cwd=cwd,
            env=env,
            policy=policy,
            call_id=call_id,
            on_output=on_output,
            on_error=on_error,
            stdin=stdin,
        )

    @functools.cached_property
    def _chooser(self) -> Chooser:
        from bridle.safety.sandbox.choosing import Chooser

        return Chooser(self._processes, state=self._where.state)

    @functools.cached_property
    def _spawn(self) -> SandboxSpawn:
        from bridle.safety.sandbox.confinement import Place
        from bridle.safety.sandbox.spawn import SandboxSpawn

        place = Place(
            home=self._env.get("HOME") or os.path.expanduser("~"),
            own=self._where.all,
            caches=self._where.cache,
            env=self._env,
        )
        return SandboxSpawn(
            self._processes, place=place, choose=self._chooser.adapter, failed=self._chooser.drop
        )


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
