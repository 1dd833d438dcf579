"""What stands before every call of a session: for the engine, and for explaining what it would decide."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

import msgspec

from bridle.app.settings import SessionSettings
from bridle.config.folders import Folders
from bridle.engine.layers import known_and_visible, validated
from bridle.engine.tools import BUILTIN, Registry, Tool, ToolLayer
from bridle.protocol.events import Mode
from bridle.safety.grants import SavedGrants
from bridle.safety.guards import PathPolicy, guarded, workspace_policy
from bridle.safety.paths import session_folders
from bridle.safety.permissions import Permissions
from bridle.safety.queries import Understand
from bridle.safety.rules import named_by_user
from bridle.safety.shell.facts import Surroundings, Understanding
from bridle.tools.exit_plan_mode import EXIT_PLAN_MODE


class Gates(msgspec.Struct, frozen=True):
    """The objects a call passes before anybody is asked. `layers` stand in this order, outermost first."""

    registry: Registry
    paths: PathPolicy
    permissions: Permissions
    layers: tuple[ToolLayer, ...]


def gates(
    settings: SessionSettings,
    *,
    tools: Iterable[Tool],
    where: Folders,
    cwd: str,
    understand: Understand,
    mode: Callable[[], Mode],
    saved: SavedGrants | None,
) -> Gates:
    """The gates of a session in `cwd`. `saved` is None where no yes is kept."""
    registry = Registry()
    for tool in tools:
        registry.register(tool, BUILTIN)
    registry.show_while(EXIT_PLAN_MODE, lambda: mode() == "plan")
    registry.show_while("web_fetch", lambda: settings.sandbox.network == "inherit")
    here = session_folders(cwd, settings.options.add_dirs)
    paths = workspace_policy(
        here,
        where.all,
        mode=settings.paths,
        allowed=session_folders(cwd, settings.allowed_paths).added,
        secret_files=settings.secret_files,
        named_by_user=named_by_user(settings.rules, here),
    )
    permissions = Permissions(
        folders=here,
        mode=mode,
        rules=settings.rules,
        yes=settings.options.yes,
        understand=understand,
        protected=where.all,
        secret_files=paths.secret_files,
        saved=saved,
    )
    layers = (known_and_visible(registry), validated(), guarded(paths, understand))
    return Gates(registry, paths, permissions, layers)


def understanding(env: Mapping[str, str], workspace: str) -> Understand:
    """What reads commands for a session whose commands run with this environment. The parser comes with the first."""

    home, search_path = env.get("HOME", ""), env.get("PATH", "")
    places: dict[str, Surroundings] = {}

    def understand(command: str, cwd: str) -> Understanding:
        place = places.get(cwd)
        if place is None:
            place = places[cwd] = Surroundings(
                cwd=cwd, home=home, search_path=search_path, workspace=workspace
            )
        return _reader()(command, place)

    return understand


@functools.cache
def _reader() -> Callable[[str, Surroundings], Understanding]:
    from bridle.safety.shell.understanding import understand

    return understand
