"""Hooks in a session as a feature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from bridle.app.user.settings import HookSettings
from bridle.base.clock import Clock
from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import SessionFolders
from bridle.config.folders import Folders, project_folder
from bridle.config.origins import BUNDLE
from bridle.config.tiers import WrittenEntry
from bridle.engine.features import Feature, PlacedRequestLayer, PlacedToolLayer
from bridle.engine.journal import Journal
from bridle.engine.ports import Spawn, SpawnPolicy
from bridle.engine.tools import ToolLayer
from bridle.protocol.events import Notice
from bridle.safety.hooks.definitions import Actor, Phase
from bridle.safety.hooks.hook_process import started_by
from bridle.safety.hooks.hook_sources import Project, WrittenHook, find_hooks
from bridle.safety.hooks.layer import hooked, passing, tell_hooks
from bridle.safety.hooks.session_hooks import HookDependencies, Hooks
from bridle.safety.trust.approvals import Approvals, is_trusted_file


class HookedSession(msgspec.Struct, frozen=True, kw_only=True):
    """What of a session its hooks need."""

    where: Folders
    here: SessionFolders
    journal: Journal
    spawn: Spawn
    policy: SpawnPolicy
    env: Mapping[str, str]
    clock: Clock
    approvals: Approvals
    secrets: Callable[[], Iterable[str]]


class SessionHooks(msgspec.Struct, frozen=True):
    """The hooks that count in a session, None where there are none; `ignored` says in one sentence which do not."""

    hooks: Hooks | None = None
    ignored: str | None = None


def session_hooks(settings: HookSettings, around: HookedSession) -> SessionHooks:
    """Finds the hooks of a session. Raises `BadConfig` for one of the person's own that means nothing."""
    cwd = around.here.workspace
    project = project_folder(cwd)
    root, journal = repository_root(cwd), around.journal
    is_trusted = is_trusted_file(around.approvals, root)
    found = find_hooks(
        map(written_hook, settings.written),
        config_folder=around.where.config,
        project=Project(root=root, folder=project),
        cwd=cwd,
        is_trusted=is_trusted,
        allow_project_hooks=settings.defaults.allow_project,
        defaults=settings.defaults,
    )
    if not found.hooks:
        return SessionHooks(None, found.notice)
    hooks = Hooks(
        found.hooks,
        actor=Actor(session=journal.session, cwd=cwd),
        around=HookDependencies(
            start=started_by(around.spawn, around.env, around.policy),
            clock=around.clock,
            emit=journal.emit,
            is_trusted=is_trusted,
            workspaces=(around.here.workspace, *around.here.added),
            turn=lambda: journal.conversation.turn,
            secrets=around.secrets,
        ),
    )
    return SessionHooks(hooks, found.notice)


def hooks(found: SessionHooks, checks: Callable[[], tuple[ToolLayer, ...]]) -> Feature:
    """Hooks around the model and around a tool; `checks` look at an input they changed."""

    def notices() -> Iterator[Notice]:
        if found.ignored is not None:
            yield Notice(reason="HooksIgnored", message=found.ignored)

    if (counting := found.hooks) is None:
        return Feature(name="hooks", notices=notices)

    def asked(phase: Phase) -> ToolLayer:
        return hooked(counting, passing(*checks()), phase=phase)

    return Feature(
        name="hooks",
        request_layers=(PlacedRequestLayer("tell_hooks", tell_hooks(counting)),),
        tool_layers=(
            PlacedToolLayer("hooks_before_permission", lambda: asked("before_permission")),
            PlacedToolLayer("hooks_after_permission", lambda: asked("after_permission")),
        ),
        notices=notices,
    )


def written_hook(entry: WrittenEntry) -> WrittenHook:
    """An entry of a settings file as hooks read it."""
    origin = entry.origin
    return WrittenHook(
        value=entry.value,
        scope="project" if origin.tier in ("project", "local") else "user",
        where=origin.name if origin.line is None else f"{origin.name}:{origin.line}",
        path=origin.path or "",
        confined=origin.name.startswith(BUNDLE),
    )
