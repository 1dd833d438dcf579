"""Resolve the settings of one session from options and files."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bridle.base.net.hosts import host_rule
from bridle.config.folders import Folders
from bridle.config.origins import GivenOption, ValueOrigin, bundle_folders
from bridle.config.problems import shown
from bridle.config.profiles import DEFAULT, PROJECT_CHOICE_NAME, is_path
from bridle.config.setting_table import key_of
from bridle.config.tiers import Tiers, WrittenEntry, load
from bridle.context.compaction_layer import CompactionSettings
from bridle.context.instruction_files import DEFAULT_SOURCES
from bridle.context.skills.skill_records import SkillSettings
from bridle.engine.open_questions import PERMISSION_TIMEOUT_S
from bridle.protocol.commands import CreateSession, SystemText
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.protocol.events import Mode, Verdict
from bridle.protocol.messages import Effort
from bridle.safety.trust import Approvals
from bridle.sandbox.session_border import SandboxSettings

if TYPE_CHECKING:
    from bridle.agents.agent_settings import AgentSettings
    from bridle.config.workspace import WorkspaceFile
    from bridle.mcp.server_definitions import ServerDefinition
    from bridle.safety.path_guard import PathMode
    from bridle.safety.rules import Rule, RuleTier

HEADLESS_STEPS = 500
"""Model calls in one turn of a run, unless somebody named a number."""
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


# Annotations are values here, not text: decoding would have to compile each of them, at every start.
class SessionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client may ask for when it opens a session, as `CreateSession.config`; `profile` is a field beside it.

    `wide_folder` is one a person chose to work in although it holds more than a project.
    """

    yes: bool = False
    allow_policy_changes: bool = False
    allow_unsandboxed: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_steps: int | None = None
    config_file: SystemText | None = None
    profile: SystemText | None = None
    sets: tuple[str, ...] = ()
    persistent_grants: bool | None = None
    add_dirs: tuple[SystemText, ...] = ()
    dry_run: bool = False
    on_ask: Literal["deny", "fail", "wait"] = "deny"
    on_orphan: Literal["ask", "fail", "mark-unknown"] = "fail"
    lockfile: SystemText | None = None
    require_trust: bool = False
    allow_project_hooks: bool = False
    sandbox: str | None = None
    network: str | None = None
    allow_hosts: tuple[str, ...] = ()
    append_system: str = ""
    effort: str | None = None
    max_cost: float | None = None
    title: str | None = None
    headless: bool = False
    wide_folder: SystemText | None = None
    transcript: SystemText | None = None
    output_schema: dict[str, Any] | None = None
    memory: bool | None = None
    agent: str | None = None
    agent_mode: Literal["single", "multi"] | None = None


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What settings and options say about hooks."""

    written: tuple[WrittenEntry, ...] = ()
    timeout_ms: int | None = None
    failure_policy: str = "closed"
    allow_project_hooks: bool = False


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The MCP servers of a session. `tables` are their settings as they are written, for whoever judges trust."""

    definitions: "tuple[ServerDefinition, ...]" = ()
    tables: Mapping[str, Mapping[str, Any]] = {}
    start_s: float = 5.0
    sampling_requests: int = 10
    sampling_tokens: int = 20_000


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a session is composed from. `secret_files`: None where the built-in list holds.

    `tool_packs`: None where all tools are there. `bundles` are the folders of those that count. `unused` are settings
    that somebody has written and nothing uses yet. `plugin_tiers` are there where something is said about plugins: they
    read it themselves. `agents` is None where nothing is said of them.
    """

    options: SessionOptions
    model: str | None
    mode: Mode
    rules: "tuple[Rule, ...]"
    max_steps: int
    providers: Mapping[str, Mapping[str, Any]]
    credential_store: Literal["encrypted", "keyring"] = "encrypted"
    credential_helper: Literal["always", "serve", "never"] = "serve"
    models: Mapping[str, Mapping[str, Any]]
    fallback_model: str | None
    usd_per_session: float | None
    sources: tuple[str, ...]
    repo_map: Literal["off", "tool", "tail"] = "tool"
    instructions: str
    warnings: tuple[str, ...]
    unused: tuple[str, ...] = ()
    plugin_tiers: Tiers | None = None
    profile: str = "default"
    tool_packs: tuple[str, ...] | None = None
    bundles: tuple[str, ...] = ()
    permission_timeout_s: float = PERMISSION_TIMEOUT_S
    hooks: HookSettings = HookSettings()
    secret_files: tuple[str, ...] | None = None
    persist_grants: bool = True
    waiting: "tuple[WorkspaceFile, ...]" = ()
    named: "tuple[WorkspaceFile, ...]" = ()
    require_trust: bool = False
    sandbox: SandboxSettings = SandboxSettings()
    paths: "PathMode" = "workspace"
    effort: Effort | None = None
    notify: bool = True
    allowed_paths: tuple[str, ...] = ()
    compaction: CompactionSettings = CompactionSettings()
    idle_timeout_s: float = 1800.0
    log_levels: str = ""
    servers: ServerSettings = ServerSettings()
    skills: SkillSettings = SkillSettings()
    otel_endpoint: str | None = None
    raw_dumps: bool = False
    transcript: Literal["events", "envelope", "chain"] | None = None
    memory: bool = True
    prompt_folders: tuple[str, ...] = ()
    goal_rounds: int = 10
    agents: "AgentSettings | None" = None
    project_modules: bool = False


def session_options(command: CreateSession) -> SessionOptions:
    for beside in ("profile", "agent"):
        if beside in command.config:
            raise CommandRefused("BadCommand", kind="CreateSession", problem=f"{beside} is no part of config")
    try:
        given = {**command.config, "profile": command.profile, "agent": command.agent}
        return msgspec.convert(given, SessionOptions)
    except msgspec.ValidationError as problem:
        raise CommandRefused("BadCommand", kind="CreateSession", problem=str(problem)) from None


def resumed_options(options: SessionOptions, folder: str, profile: str) -> tuple[SessionOptions, bool]:
    """The options of a caller in `folder` for a session that goes on, and whether the profile in them is the session's
    own: it keeps it unless somebody names another."""
    options = _named_from(folder, options)
    if options.profile is not None or profile in (DEFAULT, PROJECT_CHOICE_NAME):
        return options, False
    return msgspec.structs.replace(options, profile=profile), True


def _named_from(folder: str, options: SessionOptions) -> SessionOptions:
    """The options with the files they name, which are relative to where the caller is."""
    file, profile = options.config_file, options.profile
    if profile is not None and is_path(profile):
        profile = os.path.normpath(os.path.join(folder, os.path.expanduser(profile)))
    file = file and os.path.join(folder, file)
    return msgspec.structs.replace(options, config_file=file, profile=profile)


def session_settings(
    options: SessionOptions,
    *,
    where: Folders,
    cwd: str,
    env: Mapping[str, str],
    approvals: Approvals | None = None,
    profile_kept: bool = False,
) -> SessionSettings:
    """Reads the settings for `cwd`. Raises `BadConfig` for a file that says something impossible.

    What a file of the workspace may set only with the person's consent counts where `approvals`, or else the person's
    own, hold its very bytes. `profile_kept`: a stored session has the profile of the options.
    """
    flags = _flag_rules(options)
    tiers = load(
        where=where,
        cwd=cwd,
        env=env,
        config_file=options.config_file,
        profile=options.profile,
        sets=options.sets,
        options=_flag_options(options),
        is_acked=is_acked(approvals or Approvals(where.config)),
        allow_project_hooks=options.allow_project_hooks,
        add_dirs=options.add_dirs,
        profile_kept=profile_kept,
    ).checked()
    sources = tiers.get("context.sources")
    return SessionSettings(
        options=options,
        model=tiers.get("model"),
        mode=tiers.get("mode") or "default",
        effort=tiers.get("effort"),
        notify=tiers.get("ui.notify") is not False,
        rules=(*flags, *_file_rules(tiers), *_listed_tools(tiers)),
        max_steps=options.max_steps or _max_steps(tiers, headless=options.headless),
        providers=tiers.get("providers") or {},
        credential_store=tiers.get("credentials.store") or "encrypted",
        credential_helper=tiers.get("credentials.helper") or "serve",
        models=tiers.get("models") or {},
        fallback_model=tiers.get("fallback_model"),
        usd_per_session=tiers.get("budget.usd_per_session"),
        sources=tuple(sources) if sources else DEFAULT_SOURCES,
        repo_map=tiers.get("context.repo_map") or "tool",
        goal_rounds=tiers.get("goal.rounds") or 10,
        instructions="\n\n".join(filter(None, (tiers.get("instructions"), options.append_system))),
        warnings=tuple(problem.text for problem in tiers.warnings),
        unused=tuple(map(key_of, tiers.unused)),
        plugin_tiers=tiers if tiers.get("plugins") else None,
        profile=tiers.get("profile"),
        tool_packs=tiers.get("tools.packs"),
        bundles=bundle_folders(tiers.sources),
        permission_timeout_s=float(tiers.get("permissions.timeout_s")),
        hooks=HookSettings(
            written=tuple(tiers.written("hooks")),
            timeout_ms=tiers.get("hook_defaults.timeout_ms"),
            failure_policy=tiers.get("hook_defaults.failure_policy") or "closed",
            allow_project_hooks=options.allow_project_hooks or bool(tiers.get("hook_defaults.allow_project")),
        ),
        secret_files=tuple(tiers.get("permissions.secret_files") or ()) or None,
        persist_grants=tiers.get("permissions.persist") is not False,
        waiting=tiers.waiting,
        named=tiers.named,
        require_trust=options.require_trust or bool(tiers.get("trust.required")),
        sandbox=SandboxSettings(
            mode=tiers.get("sandbox.mode") or "auto",
            network=tiers.get("sandbox.network") or "inherit",
            hosts=_hosts(tiers, options),
            required=bool(tiers.get("sandbox.required")),
            writable=tuple(tiers.get("sandbox.writable") or ()),
            max_file_mib=tiers.get("sandbox.max_file_mib"),
            max_processes=tiers.get("sandbox.max_processes"),
            max_memory_mib=tiers.get("sandbox.max_memory_mib"),
        ),
        paths=tiers.get("paths") or "workspace",
        allowed_paths=tuple(tiers.get("allowed_paths") or ()),
        compaction=_compaction(tiers),
        idle_timeout_s=float(tiers.get("sessions.idle_timeout_s")),
        log_levels=tiers.get("log.levels") or "",
        servers=server_settings(tiers),
        skills=skill_settings(tiers),
        otel_endpoint=tiers.get("otel.endpoint"),
        raw_dumps=bool(tiers.get("debug.raw")),
        transcript=_transcript(tiers),
        memory=_memory(tiers, options),
        prompt_folders=tuple(tiers.get("commands.folders") or ()),
        agents=agent_settings(tiers),
        project_modules=bool(tiers.get("tools.project_modules")),
    )


def skill_settings(tiers: Tiers) -> SkillSettings:
    return SkillSettings(
        enabled=tiers.get("skills.enabled") is not False,
        disabled=tuple(tiers.get("skills.disabled") or ()),
        folders=tuple(tiers.get("skills.folders") or ()),
        bundles=bundle_folders(tiers.sources),
    )


def agent_settings(tiers: Tiers) -> "AgentSettings | None":
    """What settings say of agents; None where they say nothing. Raises `BadConfig` for one that means nothing."""
    written = [source.values for source in tiers.sources if source.tier != "defaults"]
    said = any(one.keys() & _OF_AGENTS or one.get("context", {}).keys() & _OF_CHILDREN for one in written)
    if not said and not bundle_folders(tiers.sources):
        return None
    from bridle.app.user.agent_tables import settings_of_agents  # nobody pays for agents who has none

    return settings_of_agents(tiers)


def server_settings(tiers: Tiers) -> ServerSettings:
    """What settings say of MCP servers. Raises `BadConfig` for one that means nothing."""
    tables: Mapping[str, Mapping[str, Any]] = tiers.get("mcp_servers") or {}
    if not tables:
        return ServerSettings()
    definitions: list[ServerDefinition] = []
    for found in decoded_servers(tiers, tables):
        if isinstance(found, BadSetting):
            problem = f"{found.key}: {found.clause}"
            raise BridleError("BadConfig", where=found.origin.shown, problem=problem)
        definitions.append(found)
    return ServerSettings(
        definitions=tuple(definitions),
        tables=tables,
        start_s=float(tiers.get("mcp.start_s")),
        sampling_requests=tiers.get("mcp.sampling_requests"),
        sampling_tokens=tiers.get("mcp.sampling_tokens"),
    )


class BadSetting(msgspec.Struct, frozen=True):
    """A setting that means nothing, where it stands and why, as a clause."""

    key: str
    origin: ValueOrigin
    clause: str


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
            assert origin is not None, "somebody wrote it"
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
    """What somebody named; else more where nobody can be asked to go on: cost and loop limits are the better brake."""
    origin = tiers.origin("budget.max_steps")
    unnamed = origin is None or origin.tier == "defaults"
    return HEADLESS_STEPS if headless and unnamed else tiers.get("budget.max_steps") or 100


def _hosts(tiers: Tiers, options: SessionOptions) -> tuple[str, ...]:
    """What the settings say and the options add."""
    if options.allow_hosts:
        network = tiers.get("sandbox.network") or "inherit"
        if network != "filtered":
            raise UsageError(f'--allow-host is for --network filtered, and sandbox.network is "{network}"')
        for text in options.allow_hosts:
            try:
                host_rule(text)
            except ValueError as problem:
                raise UsageError(f"--allow-host {text}: {problem}") from None
    return tuple(dict.fromkeys((*(tiers.get("sandbox.hosts") or ()), *options.allow_hosts)))


def _compaction(tiers: Tiers) -> CompactionSettings:
    """`auto` is what the model takes; what a file leaves out is as the table of settings says."""
    given = {name: tiers.get(f"context.{name}") for name in CompactionSettings.__struct_fields__}
    return CompactionSettings(**{name: value for name, value in given.items() if value not in (None, "auto")})


def _memory(tiers: Tiers, options: SessionOptions) -> bool:
    """Notes of earlier sessions: in a run that nobody watches only where somebody asks for them."""
    if options.memory is not None:
        return options.memory
    is_on = tiers.get("memory.enabled") is not False
    return is_on and (not options.headless or bool(tiers.get("memory.headless")))


def _transcript(tiers: Tiers) -> Literal["events", "envelope", "chain"] | None:
    form = tiers.get("transcript.format")
    return None if form == "off" else form


def _flag_rules(options: SessionOptions) -> "list[Rule]":
    if not options.deny and not options.allow:
        return []
    from bridle.safety.rules import parse_rule

    return [
        *(parse_rule(text, "deny", origin="--deny") for text in options.deny),
        *(parse_rule(text, "allow", origin="--allow") for text in options.allow),
    ]


def _flag_options(options: SessionOptions) -> list[GivenOption]:
    keep = options.persistent_grants
    given: tuple[tuple[str, str, object], ...] = (
        ("--persistent-grants" if keep else "--no-persistent-grants", "permissions.persist", keep),
        ("--sandbox", "sandbox.mode", options.sandbox),
        ("--network", "sandbox.network", options.network),
        ("--effort", "effort", options.effort),
        ("--max-cost", "budget.usd_per_session", options.max_cost),
        ("--no-transcript", "transcript.format", options.transcript),
        ("--agent", "agent", options.agent),
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
        value = written.value
        if value.get("keys", 1) > 1 and value["verdict"] != "ask":
            problem = 'keys says how many people must say yes, so it goes with verdict = "ask"'
            raise BridleError("BadConfig", where=written.origin.shown, problem=problem)
        rules.append(
            Rule(
                tool=value["tool"],
                verdict=value["verdict"],
                path=value.get("path"),
                command=value.get("command"),
                program=value.get("program"),
                reason=value.get("reason"),
                keys=value.get("keys", 1),
                tier=_RULE_TIERS.get(written.origin.tier, "flags"),
                origin=written.origin.shown,
            )
        )
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
