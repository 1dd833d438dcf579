"""Resolve the settings of one session from options and files."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from bridle.agents.agent_fields import decode_agent
from bridle.agents.agent_settings import (
    AgentChoice,
    AgentFolders,
    AgentSettings,
    ChildContext,
    DelegateResults,
    DelegationSettings,
    GoalSettings,
    MultiAgent,
)
from bridle.agents.definition import AgentDefinition, AgentOrigin
from bridle.agents.field_reader import FieldProblem
from bridle.app.user.setting_sections import (
    LogSettings,
    ProfileSettings,
    PromptSettings,
    TraceSettings,
    TranscriptSettings,
    UiSettings,
    load,
)
from bridle.base.net.hosts import host_rule
from bridle.config.folders import Folders
from bridle.config.origins import BadSetting, GivenOption, ValueOrigin, bundle_folders
from bridle.config.problems import shown
from bridle.config.profiles import DEFAULT, PROJECT_CHOICE_NAME, is_path
from bridle.config.setting_table import key_of
from bridle.config.tiers import Tiers, WrittenEntry
from bridle.context.context_settings import ContextSettings, MemorySettings, SkillSection
from bridle.context.skills.skill_records import SkillSettings
from bridle.credentials.credential_settings import CredentialSettings
from bridle.mcp.mcp_settings import McpSettings
from bridle.protocol.commands import CreateSession, SessionOptions
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.events import Mode, Verdict
from bridle.providers.provider_settings import DebugSettings, ModelChoice
from bridle.safety.safety_settings import (
    BudgetSettings,
    HookDefaults,
    ModeSettings,
    PathSettings,
    PermissionSettings,
    RuleSettings,
    TrustSettings,
)
from bridle.safety.trust import Approvals
from bridle.sandbox.sandbox_settings import SandboxSettings
from bridle.sessions.stored_session_settings import StoredSessionSettings
from bridle.tools.tool_settings import ToolSettings

if TYPE_CHECKING:
    from bridle.config.workspace import WorkspaceFile
    from bridle.mcp.server_definitions import ServerDefinition
    from bridle.safety.rules import Rule, RuleTier

HEADLESS_STEPS = 500
"""Model calls in one turn of a run, unless somebody named a number."""
_AGENT_FOLDERS = "folders"
"""The only key of `agents` that does not name an agent."""
_OF_AGENTS = frozenset({"agent", "agent_mode", "agents", "multi_agent", "delegation"})
_OF_CHILDREN = frozenset({"child", "delegates"})
"""The sections that say something of agents, and those of `context`."""
_RULE_TIERS: "Mapping[str, RuleTier]" = {
    "local": "local",
    "project": "project",
    "user": "user",
    "profile": "profile",
    "defaults": "builtin",
}


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The written hooks of a session, and what holds for those that say nothing themselves."""

    written: tuple[WrittenEntry, ...] = ()
    defaults: HookDefaults = HookDefaults()


class ServerSettings(McpSettings, frozen=True, kw_only=True):
    """The MCP servers of a session. `tables` are their settings as they are written, for the check of trust."""

    definitions: "tuple[ServerDefinition, ...]" = ()
    tables: Mapping[str, Mapping[str, Any]] = {}


class FeatureSections(msgspec.Struct, frozen=True, kw_only=True):
    """Sections that a session uses as they are, by their keys."""

    credentials: CredentialSettings = CredentialSettings()
    budget: BudgetSettings = BudgetSettings()
    context: ContextSettings = ContextSettings()
    permissions: PermissionSettings = PermissionSettings()
    tools: ToolSettings = ToolSettings()
    sessions: StoredSessionSettings = StoredSessionSettings()
    goal: GoalSettings = GoalSettings()
    commands: PromptSettings = PromptSettings()
    otel: TraceSettings = TraceSettings()
    debug: DebugSettings = DebugSettings()
    log: LogSettings = LogSettings()
    transcript: TranscriptSettings = TranscriptSettings()
    ui: UiSettings = UiSettings()


class SessionSettings(FeatureSections, frozen=True, kw_only=True):
    """Everything a session is composed from: the section of each feature, with the options of the command.

    `chosen` is the choice of models. `bundles` are the folders of those that count. `unused` are settings that are
    written and not used yet. `plugin_tiers` are there where plugins are set up: they read their sections themselves.
    `agents` is None where nothing is set for them.
    """

    options: SessionOptions
    chosen: ModelChoice
    mode: Mode
    rules: "tuple[Rule, ...]"
    max_steps: int
    providers: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, Mapping[str, Any]]
    files: PathSettings
    sandbox: SandboxSettings
    skills: SkillSettings
    instructions: str
    warnings: tuple[str, ...]
    unused: tuple[str, ...] = ()
    plugin_tiers: Tiers | None = None
    profile: str = "default"
    bundles: tuple[str, ...] = ()
    hooks: HookSettings = HookSettings()
    waiting: "tuple[WorkspaceFile, ...]" = ()
    named: "tuple[WorkspaceFile, ...]" = ()
    require_trust: bool = False
    servers: ServerSettings = ServerSettings()
    memory: bool = True
    agents: "AgentSettings | None" = None


def resumed_command(command: CreateSession, folder: str, profile: str) -> tuple[CreateSession, bool]:
    """Return the command of a caller in `folder` for a stored session, and whether that keeps its own `profile`.

    It does unless the command names another. Files that the command names are relative to `folder`.
    """
    file, named = command.config.config_file, command.profile
    options = msgspec.structs.replace(command.config, config_file=file and os.path.join(folder, file))
    keeps = named is None and profile not in (DEFAULT, PROJECT_CHOICE_NAME)
    if keeps:
        named = profile
    elif named is not None and is_path(named):
        named = os.path.normpath(os.path.join(folder, os.path.expanduser(named)))
    return msgspec.structs.replace(command, config=options, profile=named), keeps


def session_settings(
    options: SessionOptions | None = None,
    *,
    where: Folders,
    cwd: str,
    env: Mapping[str, str],
    profile: str | None = None,
    agent: str | None = None,
    approvals: Approvals | None = None,
    profile_kept: bool = False,
) -> SessionSettings:
    """Reads the settings for `cwd`. Raises `BadConfig` for a file that says something impossible.

    What a file of the workspace may set only with the person's consent counts where `approvals`, or else the person's
    own, hold its very bytes. `profile_kept`: a stored session has the `profile`.
    """
    options = options or SessionOptions()
    flags = _flag_rules(options)
    tiers = load(
        where=where,
        cwd=cwd,
        env=env,
        config_file=options.config_file,
        profile=profile,
        sets=options.sets,
        options=_flag_options(options, agent),
        is_acked=is_acked(approvals or Approvals(where.config)),
        allow_project_hooks=options.allow_project_hooks,
        add_dirs=options.add_dirs,
        profile_kept=profile_kept,
    ).checked()
    profile_section = tiers.section("", ProfileSettings)
    hook_defaults = tiers.section("hook_defaults", HookDefaults)
    if options.allow_project_hooks:
        hook_defaults = msgspec.structs.replace(hook_defaults, allow_project=True)
    return SessionSettings(
        **msgspec.structs.asdict(tiers.section("", FeatureSections)),
        options=options,
        chosen=tiers.section("", ModelChoice),
        mode=tiers.section("", ModeSettings).mode,
        rules=(*flags, *_file_rules(tiers), *_listed_tools(tiers)),
        max_steps=options.max_steps or _max_steps(tiers, headless=options.headless),
        providers=tiers.get("providers") or {},
        models=tiers.get("models") or {},
        files=tiers.section("", PathSettings),
        sandbox=_sandbox(tiers, options),
        skills=skill_settings(tiers),
        instructions="\n\n".join(filter(None, (profile_section.instructions, options.append_system))),
        warnings=tuple(problem.text for problem in tiers.warnings),
        unused=tuple(map(key_of, tiers.unused)),
        plugin_tiers=tiers if tiers.get("plugins") else None,
        profile=profile_section.profile,
        bundles=bundle_folders(tiers.sources),
        hooks=HookSettings(written=tuple(tiers.written("hooks")), defaults=hook_defaults),
        waiting=tiers.waiting,
        named=tiers.named,
        require_trust=options.require_trust or tiers.section("trust", TrustSettings).required,
        servers=server_settings(tiers),
        memory=_memory(tiers, options),
        agents=agent_settings(tiers),
    )


def skill_settings(tiers: Tiers) -> SkillSettings:
    section = tiers.section("skills", SkillSection)
    return SkillSettings(**msgspec.structs.asdict(section), bundles=bundle_folders(tiers.sources))


def agent_settings(tiers: Tiers) -> "AgentSettings | None":
    """What settings say of agents; None where they say nothing. Raises `BadConfig` for one that means nothing."""
    written = [source.values for source in tiers.sources if source.tier != "defaults"]
    said = any(one.keys() & _OF_AGENTS or one.get("context", {}).keys() & _OF_CHILDREN for one in written)
    if not said and not bundle_folders(tiers.sources):
        return None
    return settings_of_agents(tiers)


def settings_of_agents(tiers: Tiers) -> AgentSettings:
    """Decode everything settings say about agents. Raises `BadConfig` for an invalid agent."""
    definitions: list[AgentDefinition] = []
    for found in decoded_agents(tiers):
        if isinstance(found, BadSetting):
            raise found.error()
        definitions.append(found)
    return AgentSettings(
        **msgspec.structs.asdict(tiers.section("delegation", DelegationSettings)),
        mode=_mode(tiers),
        agent=tiers.section("", AgentChoice).agent,
        child=tiers.section("context.child", ChildContext),
        results=tiers.section("context.delegates", DelegateResults),
        definitions=tuple(definitions),
        folders=tiers.section("agents", AgentFolders).folders,
        bundles=bundle_folders(tiers.sources),
    )


def decoded_agents(tiers: Tiers) -> Iterator[AgentDefinition | BadSetting]:
    """Yield each agent of the settings, or its first problem."""
    tables = cast("Mapping[str, Any]", tiers.get("agents") or {})
    for name, table in tables.items():
        if name == _AGENT_FOLDERS:
            continue
        place = ("agents", name)
        origin = tiers.origin(place)
        assert origin is not None, "a written setting has an origin"
        of_project = origin.tier in ("project", "local")
        found = decode_agent(
            table,
            name=name,
            origin=AgentOrigin(scope="project" if of_project else "settings", place=origin.shown),
        )
        if found.agent is not None and found.agent.name == name:
            yield found.agent
            continue
        named = FieldProblem(field="name", clause="name is that of the table, or it is left out")
        problem = (*found.problems, named)[0]
        at = tiers.origin((*place, problem.field)) or origin
        yield BadSetting(f"agents.{shown(name)}", at, problem.clause)


def _mode(tiers: Tiers) -> Literal["single", "multi"]:
    """Return the mode of `agent_mode` in either spelling; without it, that of `multi_agent.enabled`."""
    said = tiers.section("", AgentChoice).agent_mode
    is_multi = tiers.section("multi_agent", MultiAgent).enabled if said is None else said.startswith("multi")
    return "multi" if is_multi else "single"


def server_settings(tiers: Tiers) -> ServerSettings:
    """What settings say of MCP servers. Raises `BadConfig` for one that means nothing."""
    tables: Mapping[str, Mapping[str, Any]] = tiers.get("mcp_servers") or {}
    if not tables:
        return ServerSettings()
    definitions: list[ServerDefinition] = []
    for found in decoded_servers(tiers, tables):
        if isinstance(found, BadSetting):
            raise found.error()
        definitions.append(found)
    section = msgspec.structs.asdict(tiers.section("mcp", McpSettings))
    return ServerSettings(**section, definitions=tuple(definitions), tables=tables)


def decoded_servers(
    tiers: Tiers, tables: Mapping[str, Mapping[str, Any]]
) -> "Iterator[ServerDefinition | BadSetting]":
    """Every server of the settings, or what is wrong with it."""
    from bridle.base.text.tool_names import unique_server_parts
    from bridle.mcp.server_definitions import BadServer, decode_server

    parts, project = unique_server_parts(tables), _of_project(tiers)
    for name, table in tables.items():
        try:
            yield decode_server(name, table, part=parts[name], of_project=name in project)
        except BadServer as bad:
            place = ("mcp_servers", name)
            origin = (bad.key and tiers.origin((*place, bad.key))) or tiers.origin(place)
            assert origin is not None, "a written setting has an origin"
            yield BadSetting(f"mcp_servers.{shown(name)}{f'.{bad.key}' if bad.key else ''}", origin, str(bad))


def _of_project(tiers: Tiers) -> frozenset[str]:
    """The servers that a file of the workspace has a say in."""
    sources = [source.values for source in tiers.sources if source.tier in ("project", "local")]
    return frozenset(name for values in sources for name in values.get("mcp_servers", ()))


def is_acked(approvals: Approvals) -> "Callable[[WorkspaceFile], bool]":
    """For `load`: whether a person agreed to a settings file of the workspace, to these very bytes, in this place. Who
    names one as their own for the first time agrees to it."""

    def acked(file: "WorkspaceFile") -> bool:
        kind, root, path = consent_kind(file), file.root, file.path
        if approvals.holds(file.sha256, kind=kind, root=root, path=path):
            return True
        return file.spoken_for == "now" and approvals.last(kind=kind, root=root, path=path) is None

    return acked


def consent_kind(file: "WorkspaceFile") -> 'Literal["config", "settings"]':
    """What somebody agrees to: that a project has a say, or that a file of it counts like their own settings."""
    return "settings" if file.spoken_for else "config"


def _max_steps(tiers: Tiers, *, headless: bool) -> int:
    """Return the number that is set; by default more in a run without a user: cost and loop limits stop it earlier."""
    origin = tiers.origin("budget.max_steps")
    is_default = origin is None or origin.tier == "defaults"
    return HEADLESS_STEPS if headless and is_default else tiers.section("budget", BudgetSettings).max_steps


def _sandbox(tiers: Tiers, options: SessionOptions) -> SandboxSettings:
    """Return the section with the hosts of `--allow-host` added."""
    section = tiers.section("sandbox", SandboxSettings)
    if not options.allow_hosts:
        return section
    if section.network != "filtered":
        raise UsageError(
            f'--allow-host is for --network filtered, and sandbox.network is "{section.network}"'
        )
    for text in options.allow_hosts:
        try:
            host_rule(text)
        except ValueError as problem:
            raise UsageError(f"--allow-host {text}: {problem}") from None
    return msgspec.structs.replace(
        section, hosts=tuple(dict.fromkeys((*section.hosts, *options.allow_hosts)))
    )


def _memory(tiers: Tiers, options: SessionOptions) -> bool:
    """Return whether notes of earlier sessions are used: in a run without a user only if that is asked for."""
    if options.memory is not None:
        return options.memory
    section = tiers.section("memory", MemorySettings)
    return section.enabled and (not options.headless or section.headless)


def _flag_rules(options: SessionOptions) -> "list[Rule]":
    if not options.deny and not options.allow:
        return []
    from bridle.safety.rules import parse_rule

    return [
        *(parse_rule(text, "deny", origin="--deny") for text in options.deny),
        *(parse_rule(text, "allow", origin="--allow") for text in options.allow),
    ]


def _flag_options(options: SessionOptions, agent: str | None) -> list[GivenOption]:
    keep = options.persistent_grants
    given: tuple[tuple[str, str, object], ...] = (
        ("--persistent-grants" if keep else "--no-persistent-grants", "permissions.persist", keep),
        ("--sandbox", "sandbox.mode", options.sandbox),
        ("--network", "sandbox.network", options.network),
        ("--effort", "effort", options.effort),
        ("--max-cost", "budget.usd_per_session", options.max_cost),
        ("--no-transcript", "transcript.format", options.transcript),
        ("--agent", "agent", agent),
        ("--agent-mode", "agent_mode", options.agent_mode),
    )
    return [GivenOption(name, key, value) for name, key, value in given if value is not None]


def _file_rules(tiers: Tiers) -> "list[Rule]":
    entries = tiers.written("permissions.rules")
    if not entries:
        return []
    from bridle.safety.rules import Rule

    rules: list[Rule] = []
    for written in entries:
        rule = msgspec.convert(dict(written.value), RuleSettings)
        if rule.keys > 1 and rule.verdict != "ask":
            problem = 'keys says how many people must say yes, so it goes with verdict = "ask"'
            raise BridleError("BadConfig", where=written.origin.shown, problem=problem)
        tier = _RULE_TIERS.get(written.origin.tier, "flags")
        rules.append(Rule(**msgspec.structs.asdict(rule), tier=tier, origin=written.origin.shown))
    return rules


def _listed_tools(tiers: Tiers) -> "list[Rule]":
    """The two lists of tools as rules of the file each stands in. Every list counts: none takes another's place.

    They come behind the written rules of their tier, which say more.
    """
    lists: tuple[tuple[str, Verdict], ...] = (("disallowed_tools", "deny"), ("allowed_tools", "allow"))
    return [
        _listed_rule(text, verdict, source.origin((key, index)))
        for source in reversed(tiers.sources)
        for key, verdict in lists
        for index, text in enumerate(source.values.get(key, ()))
    ]


def _listed_rule(text: str, verdict: Verdict, origin: ValueOrigin) -> "Rule":
    from bridle.safety.rules import parse_rule

    tier = _RULE_TIERS.get(origin.tier, "flags")
    try:
        return parse_rule(text, verdict, tier=tier, origin=origin.shown)
    except UsageError:
        problem = f'"{shown(text)}" is not a tool, nor a tool and a pattern like bash(npm test*)'
        raise BridleError("BadConfig", where=origin.shown, problem=problem) from None
