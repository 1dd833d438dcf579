"""Build guards, rules and permissions of a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import msgspec

from bridle.app.user.setting_sections import load
from bridle.app.user.settings import SessionSettings
from bridle.base.fs.paths import SessionFolders, session_folders
from bridle.base.fs.private_places import PrivatePlaces
from bridle.base.secrets.secret_files import SECRET_FILES
from bridle.config.folders import Folders, home_of
from bridle.config.settings_writer import put_rule_first
from bridle.engine.layers import known_and_visible, validated
from bridle.engine.tools import Registry, RunTool, Sight, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import CommandRefused, sentence
from bridle.protocol.events import Mode, Notice
from bridle.safety.grants import Grant, SavedGrants
from bridle.safety.guards import PathPolicy, guarded
from bridle.safety.path_guard import JudgeUrl, sight, without
from bridle.safety.permission_policy import Permissions
from bridle.safety.rules import denied_paths, named_by_user, promoted_words, rule_of, urls_of_user
from bridle.safety.touched_files import Lifted
from bridle.safety.url_rules import fetch_problem
from bridle.shell.command_facts import ScriptContext, Understand, Understanding
from bridle.shell.understanding import understand as understand_command


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """The objects a call passes before anybody is asked. The engine runs calls behind the layers that explain them.

    `sight` is what a search or a listing may show of what that of the session, `session_sight`, does; `understand` is
    what reads commands.
    """

    paths: PathPolicy
    sight: Sight
    session_sight: Sight
    understand: Understand
    permissions: Permissions
    known_and_visible: ToolLayer
    validated: ToolLayer
    guarded: ToolLayer

    def of_agents(self, permissions: Permissions) -> Gates:
        """The gates of somebody with these permissions, who sees nothing that the rules of agents keep from them."""
        kept = permissions.kept_from_agents()
        seen = self.session_sight if kept is None else without(self.session_sight, kept)
        return msgspec.structs.replace(self, permissions=permissions, sight=seen)


def gates(
    settings: SessionSettings,
    registry: Registry,
    *,
    where: Folders,
    here: SessionFolders,
    understand: Understand,
    mode: Callable[[], Mode],
    saved: SavedGrants | None,
    env: Mapping[str, str],
) -> Gates:
    """The gates of a session in these folders. `saved` is None where no yes is kept; `env` says where secrets are."""
    private = PrivatePlaces(home_of(env), env, here)
    paths = PathPolicy(
        folders=here,
        protected=where.all,
        mode=settings.files.paths,
        allowed=session_folders(here.workspace, settings.files.allowed_paths).added,
        secret_files=settings.permissions.secret_files or SECRET_FILES,
        named_by_user=named_by_user(settings.rules, here),
        judge_url=_judge_url(settings),
        private=private,
        readable=tuple(map(os.path.realpath, settings.skills.readable_folders(where.config))),
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
        private=private,
        lifted=Lifted(
            policy_changes=settings.options.allow_policy_changes,
            unsandboxed=settings.options.allow_unsandboxed,
        ),
    )
    seen = sight(paths, denied_paths(settings.rules, here))
    return Gates(
        paths=paths,
        sight=seen,
        session_sight=seen,
        understand=understand,
        permissions=permissions,
        known_and_visible=tools_seen(registry),
        validated=validated(),
        guarded=guarded(paths, understand),
    )


def tools_seen(registry: Registry, *, whole: Registry | None = None) -> ToolLayer:
    """The layer that lets through what an agent sees, and nothing else. For one in a worktree, `whole` is what its
    session has: it is told which of that works elsewhere."""
    seen = known_and_visible(registry)
    if whole is None:
        return seen

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        tool = whole.visible(call.name)
        if tool is None or not tool.in_session_folder:
            return await seen(call, proceed)
        reason = "ToolNotInWorktree"
        return ToolOutput(outcome="error", reason=reason, content=sentence(reason, {"tool": call.name}))

    return layer


def _judge_url(settings: SessionSettings) -> JudgeUrl:
    """What says where `web_fetch` must not go in this session."""

    def judge(url: str) -> str | None:
        hosts = settings.sandbox.hosts if settings.sandbox.network == "filtered" else None
        return fetch_problem(url, allowed=urls_of_user(settings.rules), hosts=hosts)

    return judge


def understanding(env: Mapping[str, str], workspace: str) -> Understand:
    """What reads commands for a session whose commands run with this environment. The parser comes with the first."""

    home, search_path = env.get("HOME", ""), env.get("PATH", "")
    places: dict[str, ScriptContext] = {}

    def understand(command: str, cwd: str) -> Understanding:
        place = places.get(cwd)
        if place is None:
            place = places[cwd] = ScriptContext(
                cwd=cwd, home=home, search_path=search_path, workspace=workspace
            )
        return understand_command(command, place)

    return understand


def promoted(
    grants: Iterable[Grant], grant_id: str, *, where: Folders, cwd: str, env: Mapping[str, str]
) -> Notice:
    """Makes one of the grants a rule of the person's own settings. Raises `UnknownGrant`, `FileUnwritable`."""
    grant = next((one for one in grants if one.grant_id == grant_id), None)
    if grant is None:
        raise CommandRefused("UnknownGrant", grant=grant_id)
    path = put_rule_first(where, load(where=where, cwd=cwd, env=env).checked(), rule_of(grant))
    data = {"grant_id": grant_id, "what": promoted_words(grant), "path": path}
    return Notice(reason="GrantPromoted", message=sentence("GrantPromoted", data), data=data)
