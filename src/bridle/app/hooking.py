"""The hooks of a session, wired. Where a session has none, nothing of them is even imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bridle.app.trusting import is_trusted_file, written_hook
from bridle.base.files import repository_root
from bridle.base.paths import SessionFolders
from bridle.config.tiers import WrittenEntry
from bridle.config.workspace import project_folder
from bridle.engine.journal import Journal
from bridle.engine.ports import Spawn, SpawnPolicy
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.safety.trust import Approvals

if TYPE_CHECKING:
    from bridle.base.clock import Clock
    from bridle.config.folders import Folders
    from bridle.safety.hooks.definitions import HookDefaults, Phase
    from bridle.safety.hooks.session_hooks import Hooks


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What settings and options say about hooks."""

    written: tuple[WrittenEntry, ...] = ()
    timeout_ms: int | None = None
    failure_policy: str = "closed"
    allow_project_hooks: bool = False


class Around(msgspec.Struct, frozen=True, kw_only=True):
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


def session_hooks(settings: HookSettings, around: Around) -> SessionHooks:
    """Finds the hooks of a session. Raises `BadConfig` for one of the person's own that means nothing."""
    cwd = around.here.workspace
    project = project_folder(cwd)
    if not settings.written and not any(
        os.path.isdir(os.path.join(folder, "hooks")) for folder in (around.where.config, project) if folder
    ):
        return SessionHooks()
    from bridle.safety.hooks.context import Actor
    from bridle.safety.hooks.hook_process import started_by
    from bridle.safety.hooks.hook_sources import Project, find_hooks
    from bridle.safety.hooks.session_hooks import HookDependencies, Hooks

    root, journal = repository_root(cwd), around.journal
    is_trusted = is_trusted_file(around.approvals, root)
    found = find_hooks(
        map(written_hook, settings.written),
        config_folder=around.where.config,
        project=Project(root=root, folder=project),
        cwd=cwd,
        is_trusted=is_trusted,
        allow_project_hooks=settings.allow_project_hooks,
        defaults=_defaults(settings),
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


def hooked(
    hooks: Hooks | None, checks: tuple[ToolLayer, ...], *, phase: Phase = "before_permission"
) -> ToolLayer:
    """Asks hooks before a tool is used; `checks` look at an input they changed."""
    if hooks is None:
        return _straight_on
    from bridle.safety.hooks.layer import hooked as layer
    from bridle.safety.hooks.layer import passing

    return layer(hooks, passing(*checks), phase=phase)


def told(hooks: Hooks | None) -> RequestLayer:
    """Tells hooks of every request to the model and its answer."""
    if hooks is None:
        return _ask_straight_on
    from bridle.safety.hooks.layer import told as layer

    return layer(hooks)


async def _straight_on(call: ToolCall, proceed: RunTool) -> ToolOutput:
    return await proceed(call)


async def _ask_straight_on(step: Step, proceed: AskModel) -> Reply:
    return await proceed(step)


def _defaults(settings: HookSettings) -> HookDefaults:
    from bridle.safety.hooks.definitions import HookDefaults

    return HookDefaults(
        timeout_ms=settings.timeout_ms,
        failure_policy="open" if settings.failure_policy == "open" else "closed",
    )
