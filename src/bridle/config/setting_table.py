"""The one table of settings: every key that exists, what it takes, what it is when nobody says, one line of help.

A key names its place with dots: `*` stands for a name people choose (`providers.*.wire`), `[]` for the entries of a
list (`hooks[].event`). What a setting means belongs to the package that uses it; here is only what can be told from
the outside, so that a typing error is found before anything starts.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast, get_args

import msgspec

from bridle.base.net.hosts import host_rule
from bridle.base.text.spelling import folded_name
from bridle.protocol.events import Mode, Verdict

SettingPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands: names, and positions in lists."""
LineNumbers: TypeAlias = dict[SettingPath, int]
"""The line, counted from 1, of every key and every list entry of a file."""
Table: TypeAlias = dict[str, Any]

MODES: tuple[str, ...] = get_args(Mode)
WIRES = ("openai_chat", "openai_responses", "anthropic")
SANDBOX_MODES = ("auto", "off", "read-only", "workspace-write")
LARGEST = 10**9
"""No setting is a larger number: beyond it somebody slipped on a key."""

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ValueKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting takes. `wanted` completes the sentence "… is not …"."""

    wanted: str
    accepts: Callable[[object], bool]
    choices: tuple[str, ...] = ()


class Setting(msgspec.Struct, frozen=True):
    """One row of the table.

    `required`: an entry without it means nothing, unless it has `or_key` in its place. `secret`: never shown, never
    written by us, read from the user's own file and the environment only. `private`: the values of this map are not
    shown. `folds`: the names in this map are keys of ours, so they have two spellings too. `instead`: people expect
    this key, but it is read from no file; what they do instead, as a clause. `awaits`: nothing uses it before that
    capability is there; it may be written, and whoever writes it is told.
    """

    key: str
    kind: ValueKind
    help: str
    default: Any = None
    required: bool = False
    or_key: str = ""
    secret: bool = False
    private: bool = False
    folds: bool = False
    instead: str = ""
    awaits: str = ""


class Node(msgspec.Struct, kw_only=True):
    """A place in the tree of keys: a section with children, or a leaf with its setting."""

    key: str
    setting: Setting | None = None
    children: dict[str, Node] = {}

    @property
    def named(self) -> Node | None:
        """What stands under every name, where people choose the names."""
        return self.children.get("*")

    def child(self, name: str) -> Node | None:
        """What stands under a name: ours where there is one, else what stands under every name."""
        return self.children.get(name) or self.named

    @property
    def listed(self) -> Node | None:
        """What every entry looks like, where there is a list of tables."""
        return self.children.get("[]")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_text, cast("Iterable[object]", value)))


def _is_text_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, cast("Mapping[str, object]", value).values()))


def _is_plain(value: object) -> bool:
    """JSON can say it. TOML's dates, and numbers that are none, are left out."""
    match value:
        case float():
            return math.isfinite(value)
        case None | str() | bool() | int():
            return True
        case list() | tuple():
            return all(map(_is_plain, cast("Iterable[object]", value)))
        case dict():
            return all(map(_is_plain, cast("Table", value).values()))
        case _:
            return False


def _are_hosts(value: object) -> bool:
    if not _is_texts(value):
        return False
    try:
        return all(map(host_rule, cast("Iterable[str]", value)))
    except ValueError:
        return False


def _is_plain_map(value: object) -> bool:
    return isinstance(value, dict) and _is_plain(cast("object", value))


TEXT = ValueKind(wanted="text", accepts=_is_text)
TEXTS = ValueKind(wanted="a list of texts", accepts=_is_texts)
HOSTS = ValueKind(
    wanted="a list of hosts like example.org, *.example.com or example.com:8443", accepts=_are_hosts
)
TEXT_MAP = ValueKind(wanted="a table of texts", accepts=_is_text_map)
PLAIN = ValueKind(wanted="a plain value", accepts=_is_plain)
PLAIN_MAP = ValueKind(wanted="a table of plain values", accepts=_is_plain_map)
FLAG = ValueKind(wanted="true or false", accepts=lambda value: isinstance(value, bool))
WHOLE = ValueKind(
    wanted="a whole number above 0",
    accepts=lambda value: type(value) is int and 0 < value <= LARGEST,
)
PEOPLE = ValueKind(
    wanted="a whole number from 1 to 9",
    accepts=lambda value: type(value) is int and 0 < value <= 9,
)
NUMBER = ValueKind(
    wanted="a number above 0",
    accepts=lambda value: type(value) in {int, float} and 0 < cast("float", value) <= LARGEST,
)
PRICE = ValueKind(
    wanted="a number of dollars, 0 or more",
    accepts=lambda value: type(value) in {int, float} and 0 <= cast("float", value) <= LARGEST,
)
SHARE = ValueKind(
    wanted="a share above 0 and at most 1",
    accepts=lambda value: type(value) in {int, float} and 0 < cast("float", value) <= 1,
)
ADDRESS = ValueKind(
    wanted="an address that begins with http:// or https://",
    accepts=lambda value: isinstance(value, str) and value.startswith(("http://", "https://")),
)
FILLED_ADDRESS = ValueKind(
    wanted="an address that begins with http:// or https://, or a reference like ${NAME}",
    accepts=lambda value: isinstance(value, str) and value.startswith(("http://", "https://", "${")),
)
ENVIRONMENT_NAME = ValueKind(
    wanted="the name of an environment variable",
    accepts=lambda value: isinstance(value, str) and _ENVIRONMENT_NAME.fullmatch(value) is not None,
)
COMMAND = ValueKind(
    wanted="a command, as text or as a list of words",
    accepts=lambda value: _is_text(value) or (_is_texts(value) and bool(value)),
)
DAYS = ValueKind(
    wanted='"never" or a whole number of days above 0',
    accepts=lambda value: value == "never" or WHOLE.accepts(value),
)
TOKENS = ValueKind(
    wanted='"auto", "off" or a whole number above 0',
    accepts=lambda value: value in ("auto", "off") or WHOLE.accepts(value),
)


def one_of(noun: str, choices: tuple[str, ...]) -> ValueKind:
    return ValueKind(
        wanted=f"{noun} ({', '.join(choices)})",
        accepts=lambda value: isinstance(value, str) and value in choices,
        choices=choices,
    )


EFFORT = one_of("an effort", ("off", "low", "medium", "high", "max"))
MODE = one_of("a mode", MODES)
PATHS = one_of("a limit for file tools", ("workspace", "allowlist", "off"))
WIRE = one_of("a wire", WIRES)
VERDICT = one_of("a verdict", get_args(Verdict))
SANDBOX = one_of("a sandbox mode", SANDBOX_MODES)
NETWORK = one_of("a network choice", ("inherit", "filtered", "deny"))
ON_ERROR = one_of("an answer to errors", ("block", "warn"))
PHASE = one_of("a phase", ("before_permission", "after_permission"))
DETAIL = one_of("a level of detail", ("auto", "low", "high"))
SUMMARY = one_of("a way to summarise", ("auto", "model", "deterministic"))
REPO_MAP = one_of("a use of the repo map", ("off", "tool", "tail"))
CONTEXT_PRESET = one_of("a preset of the context", ("late", "messages", "fixed"))
TRANSCRIPT = one_of("a form of transcripts", ("off", "events", "envelope", "chain"))
FAILURE_POLICY = one_of("a failure policy", ("closed", "open"))
TOOL_NAMES = one_of("a way to spell names", ("underscore", "dotted"))
DISCOVERY = one_of("a way of discovery", ("eager", "lazy", "auto"))
SERVER_TRANSPORT = one_of("a transport", ("stdio", "http", "sse"))
SERVER_SANDBOX = one_of("a sandbox mode of a server", ("workspace-write", "read-only", "off"))

AGENT_MODES = ("single", "multi", "single-agent", "multi-agent")
AGENT_MODE = one_of("an agent mode", AGENT_MODES)
DEPTH = ValueKind(
    wanted="a whole number from 0 to 8",
    accepts=lambda value: type(value) is int and 0 <= value <= 8,
)
AT_ONCE = ValueKind(
    wanted="a whole number from 1 to 16",
    accepts=lambda value: type(value) is int and 0 < value <= 16,
)
CREDENTIAL_STORE = one_of("a credential store", ("encrypted", "keyring"))
CREDENTIAL_HELPER = one_of("a use of the credential helper", ("always", "serve", "never"))

SCREEN = "the full-screen client"

SETTINGS: tuple[Setting, ...] = (
    Setting("model", TEXT, "The model to use, as provider:model."),
    Setting("fallback_model", TEXT, "The model to go on with when the first is overloaded."),
    Setting("effort", EFFORT, "How much the model thinks."),
    Setting("mode", MODE, "What runs without a question.", default="default"),
    Setting("profile", TEXT, "A preset bundle of settings: a name, or a TOML file.", default="default"),
    Setting("instructions", TEXT, "Your own words, added to the system text."),
    Setting("agent", TEXT, "The agent you talk with: bridle agents list; unset, none in particular."),
    Setting("agent_mode", AGENT_MODE, "Whether it may send others: single unless said otherwise, or multi."),
    Setting("multi_agent.enabled", FLAG, "The same as agent_mode = multi, where nothing says agent_mode."),
    Setting("agents.*.disabled", FLAG, "Leave this agent out."),
    Setting(
        "agents.*.*", PLAIN, "An agent: description, prompt, tools, permissions and more; docs/agents.md."
    ),
    Setting(
        "agents.folders",
        TEXTS,
        "More folders of a project with agents, such as .claude/agents.",
        default=[],
    ),
    Setting("paths", PATHS, "Where the file tools may go.", default="workspace"),
    Setting("allowed_paths", TEXTS, 'The folders they may use when paths is "allowlist".', default=[]),
    Setting(
        "api_key",
        TEXT,
        "The key for the provider of the chosen model, from BRIDLE_API_KEY only; in files use providers.*.key_env.",
        secret=True,
        instead="name the environment variable that holds the key: providers.NAME.key_env",
    ),
    Setting(
        "oauth_credentials",
        PLAIN_MAP,
        "What a sign-in left behind; bridle login keeps that encrypted.",
        secret=True,
        awaits="sign-ins written by hand",
    ),
    Setting("providers.*.wire", WIRE, "The protocol this endpoint speaks."),
    Setting("providers.*.base_url", ADDRESS, "Where requests go."),
    Setting("providers.*.model", TEXT, "Its model for agents that name this provider, and for -m NAME."),
    Setting("providers.*.key_env", ENVIRONMENT_NAME, "The environment variable that holds the key."),
    Setting("providers.*.api_key", TEXT, "The key itself; the variable or a login is better.", secret=True),
    Setting("providers.*.auth", TEXT, 'How the key travels: "bearer", or the header that carries it.'),
    Setting("providers.*.local", FLAG, "Whether it runs on this machine: no key needed, no cost."),
    Setting(
        "providers.*.first_part_s",
        NUMBER,
        "How long its answer may take to begin; 120, or 600 where it runs on this machine.",
    ),
    Setting("providers.*.idle_s", NUMBER, "How long it may be silent within an answer; 60."),
    Setting("providers.*.alive_s", NUMBER, "How long signs of life may take the place of an answer; 600."),
    Setting("providers.*.headers", TEXT_MAP, "Headers added to every request.", private=True),
    Setting("providers.*.quirks", PLAIN_MAP, "What this endpoint does differently.", folds=True),
    Setting("providers.*.oauth.client_id", TEXT, "Signing in: as which program."),
    Setting("providers.*.oauth.token_url", ADDRESS, "Where tokens are given out."),
    Setting("providers.*.oauth.authorize_url", ADDRESS, "Where a browser begins to sign in."),
    Setting("providers.*.oauth.device_url", ADDRESS, "Where signing in by a code begins."),
    Setting("providers.*.oauth.redirect_uri", ADDRESS, "The address on this machine that was registered."),
    Setting("providers.*.oauth.scopes", TEXTS, "What a sign-in is for."),
    Setting("providers.*.oauth.parameters", TEXT_MAP, "More fields for the address a browser begins at."),
    Setting("providers.*.disabled", FLAG, "Leave this provider out."),
    Setting("models.*.context_tokens", WHOLE, "How many tokens a model, as provider:model, takes."),
    Setting("models.*.max_output_tokens", WHOLE, "How many tokens it answers at most."),
    Setting("models.*.tools", FLAG, "Whether it can use tools."),
    Setting("models.*.images", FLAG, "Whether it reads images."),
    Setting("models.*.price_in", PRICE, "Dollars for a million tokens it reads."),
    Setting("models.*.price_out", PRICE, "Dollars for a million tokens it writes."),
    Setting("models.*.price_cache_read", PRICE, "Dollars for a million tokens it reads from its cache."),
    Setting("models.*.price_cache_write", PRICE, "Dollars for a million tokens it writes into its cache."),
    Setting("credentials.store", CREDENTIAL_STORE, "Where login keeps keys.", default="encrypted"),
    Setting(
        "credentials.helper",
        CREDENTIAL_HELPER,
        "Whether a process of its own holds the key: always, only when others can reach the engine (serve), or never.",
        default="serve",
    ),
    Setting("allowed_tools", TEXTS, "Tools that run without a question, as the rules of --allow."),
    Setting("disallowed_tools", TEXTS, "Tools that never run, as the rules of --deny."),
    Setting("permissions.rules[].tool", TEXT, "The tool, or a pattern of tools.", required=True),
    Setting("permissions.rules[].path", TEXT, "Only for files that match."),
    Setting("permissions.rules[].command", TEXT, "Only for commands that match."),
    Setting(
        "permissions.rules[].program",
        TEXT,
        "Only for this program with harmless arguments inside the workspace.",
    ),
    Setting("permissions.rules[].verdict", VERDICT, "allow, ask or deny.", required=True),
    Setting("permissions.rules[].reason", TEXT, "Told to whoever meets the rule."),
    Setting(
        "permissions.rules[].keys",
        PEOPLE,
        "How many different people must say yes; with the verdict ask.",
    ),
    Setting(
        "permissions.secret_files",
        TEXTS,
        "Names of files that hold secrets, in place of the list Bridle brings.",
    ),
    Setting("permissions.persist", FLAG, "Whether a yes may be kept for later sessions.", default=True),
    Setting(
        "permissions.timeout_s", NUMBER, "How long a question waits while nobody is attached.", default=60
    ),
    Setting("sandbox.mode", SANDBOX, "What commands may write.", default="auto"),
    Setting("sandbox.network", NETWORK, "Whether commands reach the network.", default="inherit"),
    Setting(
        "sandbox.hosts", HOSTS, 'The hosts commands reach while sandbox.network is "filtered".', default=[]
    ),
    Setting(
        "sandbox.required",
        FLAG,
        "Refuse to run commands where nothing can enforce the sandbox.",
        default=False,
    ),
    Setting(
        "sandbox.max_file_mib",
        WHOLE,
        "The largest file a sandboxed command may make, in MiB.",
        default=16_384,
    ),
    Setting(
        "sandbox.max_processes",
        WHOLE,
        "How many processes the commands of a session may have together, where the system counts them.",
        default=4_096,
    ),
    Setting(
        "sandbox.max_memory_mib",
        WHOLE,
        "How much memory they may use together, in MiB, where the system counts it; at most nine tenths of it all.",
        default=1_048_576,
    ),
    Setting("sandbox.writable", TEXTS, "More folders commands may write to.", default=[]),
    Setting("skills.enabled", FLAG, "Whether the model is told of skills.", default=True),
    Setting("skills.disabled", TEXTS, "Names of skills that are left out.", default=[]),
    Setting(
        "skills.folders",
        TEXTS,
        'More folders of skills, such as ".claude/skills": looked for in the project and in your home.',
        default=[],
    ),
    Setting(
        "context.sources",
        TEXTS,
        "Instruction files to look for: names, paths below a folder, or patterns (.cursor/rules/*.mdc).",
        default=["AGENTS.md"],
    ),
    Setting(
        "context.repo_map",
        REPO_MAP,
        "The repo map, where its extra is installed: as a tool, also after the first request by itself (tail), or off.",
        default="tool",
    ),
    Setting(
        "context.preset",
        CONTEXT_PRESET,
        "Several of the settings below at once; whatever somebody wrote goes before it.",
    ),
    Setting(
        "context.max_tokens",
        TOKENS,
        "How much of a conversation is sent at most: a number, what the model takes (auto), or no limit (off).",
        default="auto",
    ),
    Setting("context.compact_at", SHARE, "From which share of that on it is summarised.", default=0.7),
    Setting("context.recent_turns", WHOLE, "How many of the last turns stay as they are.", default=6),
    Setting("context.max_messages", WHOLE, "From how many messages on it is summarised in any case."),
    Setting("context.recent_messages", WHOLE, "How many of the last messages stay at most."),
    Setting(
        "context.summary",
        SUMMARY,
        "Who writes the summary: the model, nobody, or the model where its window is known (auto).",
        default="auto",
    ),
    Setting("context.summary_tokens", WHOLE, "How long a summary may be.", default=3_000),
    Setting(
        "context.child.max_tokens", WHOLE, "How much an agent that was sent reads at most.", default=12_000
    ),
    Setting("context.child.compact_at", SHARE, "From which share of that on it is summarised.", default=0.7),
    Setting(
        "context.child.summary_tokens",
        WHOLE,
        "How long such a summary may be, and what is remembered of it.",
        default=1_200,
    ),
    Setting("context.child.recent_turns", WHOLE, "How many of its last turns stay as they are.", default=3),
    Setting("context.child.handoff_tokens", WHOLE, "How much it is handed over at most.", default=2_000),
    Setting(
        "context.child.delegate_context_tokens",
        WHOLE,
        "How much of that may be what its sender writes beside the task.",
        default=1_000,
    ),
    Setting("context.child.result_tokens", WHOLE, "How long what it comes to may be.", default=1_000),
    Setting(
        "context.child.inline_tokens",
        WHOLE,
        "How much of a result it reads at once of a tool that does something.",
        default=2_000,
    ),
    Setting(
        "context.child.retrieval_tokens",
        WHOLE,
        "The same of a tool that looks something up.",
        default=3_000,
    ),
    Setting("context.child.image_tokens", WHOLE, "How much it is shown of images.", default=4_000),
    Setting(
        "context.delegates.kept_raw",
        WHOLE,
        "How many results of agents stay as they came in the conversation of who sent them.",
        default=2,
    ),
    Setting("context.delegates.result_tokens", WHOLE, "How long each of those may be.", default=1_000),
    Setting(
        "context.delegates.ledger_tokens", WHOLE, "How long the list of earlier ones may be.", default=1_200
    ),
    Setting(
        "commands.folders",
        TEXTS,
        "More folders of a project with prompts, such as .claude/commands.",
        default=[],
    ),
    Setting("memory.enabled", FLAG, "Whether notes of earlier sessions are kept and used.", default=True),
    Setting("memory.headless", FLAG, "The same for runs that nobody watches.", default=False),
    Setting(
        "multimodal.max_image_bytes", WHOLE, "The largest image that is read from a file.", default=8_388_608
    ),
    Setting("multimodal.detail", DETAIL, "How closely the model looks at an image.", default="auto"),
    Setting("budget.usd_per_session", NUMBER, "What a session may cost, in dollars."),
    Setting("budget.max_steps", WHOLE, "Model calls in one turn; unset, 500 in a run.", default=100),
    Setting("delegation.max_depth", DEPTH, "How deep agents may send agents.", default=1),
    Setting(
        "delegation.invocation",
        VERDICT,
        "The verdict on sending an agent that says nothing itself.",
        default="ask",
    ),
    Setting("delegation.max_steps", WHOLE, "Model calls of an agent that was sent, at most.", default=10),
    Setting("delegation.parallel", AT_ONCE, "How many of them work at once.", default=3),
    Setting(
        "delegation.catalog_tokens",
        WHOLE,
        "How much an agent is told about those it may send.",
        default=2_000,
    ),
    Setting(
        "goal.rounds", WHOLE, "How often the check of a goal may fail before it is given up.", default=10
    ),
    Setting(
        "trust.required",
        FLAG,
        "Refuse to begin while something of the project waits for trust.",
        default=False,
    ),
    Setting(
        "sessions.retention_days",
        DAYS,
        "How long what was said and done is kept after a session was last used.",
        default=30,
    ),
    Setting(
        "sessions.idle_timeout_s",
        NUMBER,
        "How long a session without clients and without work stays open.",
        default=1800,
    ),
    Setting("engine.share", FLAG, "Let other clients attach to what runs at a terminal.", default=False),
    Setting("engine.listen", TEXT, "Where bridle serve listens besides, as 127.0.0.1:PORT."),
    Setting(
        "engine.origins",
        TEXTS,
        "Pages of other servers that may use the engine, as https://host.",
        default=[],
    ),
    Setting(
        "mcp_server.attach_command",
        TEXTS,
        "What shows you a session that an outer agent began, with {session} in it, where you always want to see them.",
    ),
    Setting(
        "mcp_server.tool_names",
        TOOL_NAMES,
        "How tools are spelt for other agents: create_session, or bridle.create_session.",
        default="underscore",
    ),
    Setting(
        "transcript.format",
        TRANSCRIPT,
        "Keep a plain text file of every session in this form, beside the encrypted log.",
        default="off",
    ),
    Setting(
        "otel.endpoint",
        ADDRESS,
        "The OpenTelemetry collector that traces go to, as http://127.0.0.1:4318; unset, as OTEL_ variables say.",
    ),
    Setting(
        "debug.raw",
        FLAG,
        "Keep every request to a provider and its answer as they were, encrypted, for bridle debug raw.",
        default=False,
    ),
    Setting("log.levels", TEXT, "What the operational log takes: debug, or engine=debug,provider=off."),
    Setting(
        "ui.reader", FLAG, "Plain text that only grows, for screen readers.", default=False, awaits=SCREEN
    ),
    Setting("ui.theme", TEXT, "The colours.", awaits=SCREEN),
    Setting("ui.quiet_cost", FLAG, "Leave out the cost line.", default=False, awaits=SCREEN),
    Setting("ui.notify", FLAG, "Ring when a question waits, and when a long turn is over.", default=True),
    Setting("hooks[].event", TEXT, "When the hook runs.", required=True),
    Setting("hooks[].tool", TEXT, "Only for tools that match."),
    Setting("hooks[].command", COMMAND, "What runs.", required=True, or_key="script"),
    Setting("hooks[].script", TEXT, "In its place, in your own file: a Python function, as module:function."),
    Setting("hooks[].timeout_ms", WHOLE, "How long it may take."),
    Setting("hooks[].on_error", ON_ERROR, "What its failure means."),
    Setting("hooks[].phase", PHASE, "Before or after the question about a call."),
    Setting("hooks[].disabled", FLAG, "Leave this hook out."),
    Setting("hook_defaults.timeout_ms", WHOLE, "How long a hook may take that says nothing itself."),
    Setting(
        "hook_defaults.failure_policy",
        FAILURE_POLICY,
        "Whether the failure of your own hook stops a call.",
        default="closed",
    ),
    Setting(
        "hook_defaults.allow_project",
        FLAG,
        "Whether hooks of projects may count, each after your consent, as with --allow-project-hooks.",
        default=False,
    ),
    Setting(
        "tools.packs",
        TEXTS,
        "The groups of tools a session has: read, edit, fs (both), shell, web, and plugins by name; unset, all.",
    ),
    Setting(
        "tools.project_modules",
        FLAG,
        "Whether tools that are files of a project (.bridle/tools) may run, each after your consent.",
        default=False,
    ),
    Setting("plugins.enabled", TEXTS, "The installed plugins to load. Each runs as a part of Bridle."),
    Setting("plugins.*.*", PLAIN, "A setting of a plugin, which says itself what it takes."),
    Setting("mcp_servers.*.command", COMMAND, "What starts the server."),
    Setting("mcp_servers.*.args", TEXTS, "More words for the command. ${NAME} is filled when it starts."),
    Setting("mcp_servers.*.env", TEXT_MAP, "Variables for the server.", private=True),
    Setting("mcp_servers.*.cwd", TEXT, "Where it starts, seen from the folder of the session."),
    Setting("mcp_servers.*.url", FILLED_ADDRESS, "Where a server that is already running listens."),
    Setting("mcp_servers.*.headers", TEXT_MAP, "Headers added to every request.", private=True),
    Setting(
        "mcp_servers.*.transport",
        SERVER_TRANSPORT,
        "How it is talked with: a command stdio, a url http or sse.",
    ),
    Setting("mcp_servers.*.sha256", TEXT, "The sha256 its program must have to be started."),
    Setting(
        "mcp_servers.*.discovery",
        DISCOVERY,
        "Whether the model is told of its tools (eager) or searches for them (lazy); auto goes by their number.",
    ),
    Setting("mcp_servers.*.lazy_above", WHOLE, "From how many tools on auto is lazy; 20."),
    Setting("mcp_servers.*.connect_s", NUMBER, "How long it may take until it is ready; 30."),
    Setting("mcp_servers.*.call_s", NUMBER, "How long a call may take; 120. Progress gives it more."),
    Setting(
        "mcp_servers.*.idle_s", NUMBER, "After so long without a call it is stopped until the next; 1800."
    ),
    Setting("mcp_servers.*.enabled_tools", TEXTS, "The only tools of it that are used."),
    Setting("mcp_servers.*.disabled_tools", TEXTS, "Tools of it that are not used."),
    Setting(
        "mcp_servers.*.sandbox",
        SERVER_SANDBOX,
        "What it may write: workspace-write unless said otherwise, read-only, or off.",
    ),
    Setting(
        "mcp_servers.*.network",
        NETWORK,
        "Whether it reaches the network; as commands do unless said otherwise.",
    ),
    Setting(
        "mcp_servers.*.read_only_trusted",
        FLAG,
        "Whether you believe it when it says that a tool changes nothing: such tools run without a question.",
    ),
    Setting("mcp_servers.*.disabled", FLAG, "Leave this server out."),
    Setting(
        "mcp_servers.*.sampling",
        FLAG,
        "Whether it may ask for answers of your model; each is a question to you.",
    ),
    Setting(
        "mcp_servers.*.client_document_url",
        ADDRESS,
        "Where a document says who Bridle is when you sign in at it, in place of mcp.client_document_url.",
    ),
    Setting("mcp_servers.*.oauth_client_id", TEXT, "As what Bridle was registered for signing in at it."),
    Setting(
        "mcp_servers.*.oauth_secret_env",
        ENVIRONMENT_NAME,
        "The variable with the secret of oauth_client_id; else: bridle mcp login NAME --secret.",
    ),
    Setting(
        "mcp_servers.*.oauth_redirect_uri",
        ADDRESS,
        "Where browsers come back to on this machine, if what was registered says so.",
    ),
    Setting("mcp.client_document_url", ADDRESS, "Where a document says who Bridle is at MCP servers."),
    Setting("mcp.sampling_requests", WHOLE, "How many such answers servers get in a session.", default=10),
    Setting(
        "mcp.sampling_tokens",
        WHOLE,
        "How many tokens such requests and their answers may have in a session, as estimated.",
        default=20_000,
    ),
    Setting("mcp.start_s", NUMBER, "How long a run waits for servers before its first request.", default=5),
)

OTHER_NAMES: Mapping[str, str] = {
    "permission_mode": "mode",
    "custom_instructions": "instructions",
    "prompt_header": "instructions",
    "default_model": "model",
    "api_key_env": "key_env",
    "tool_pattern": "tool",
    "max_context_tokens": "max_tokens",
    "max_input_tokens": "max_tokens",
    "compact_at_ratio": "compact_at",
    "compress_at_ratio": "compact_at",
    "summary_target_tokens": "summary_tokens",
    "default_agent": "agent",
    "default_invocation_decision": "invocation",
    "sub_invocation_max_turns": "max_steps",
    "sub_agent": "child",
    "max_handoff_tokens": "handoff_tokens",
    "max_delegate_context_tokens": "delegate_context_tokens",
    "max_result_tokens_to_main": "result_tokens",
    "max_inline_tool_result_tokens": "inline_tokens",
    "retrieval_max_tokens": "retrieval_tokens",
    "reserve_for_images_tokens": "image_tokens",
    "keep_raw_delegate_results": "kept_raw",
    "max_delegate_result_tokens": "result_tokens",
    "ledger_target_tokens": "ledger_tokens",
}
"""Names that are understood besides ours, where ours exists."""

RETIRED = frozenset({"engine.standby", "sandbox.warm"})
"""Settings of the release before. They are accepted with a notice and do nothing."""

JOINED = frozenset({"permissions.rules", "hooks", "allowed_tools", "disallowed_tools"})
"""Lists whose tiers add up instead of replacing each other: a project must not remove a rule by adding one."""


@functools.cache
def tree() -> Node:
    """The table as a tree. Nobody changes it."""
    root = Node(key="", children={})
    for setting in SETTINGS:
        node = root
        for part in setting.key.replace("[]", ".[]").split("."):
            key = part if not node.key else f"{node.key}[]" if part == "[]" else f"{node.key}.{part}"
            node = node.children.setdefault(part, Node(key=key, children={}))
        node.setting = setting
    return root


@functools.cache
def awaited() -> Mapping[str, str]:
    """The settings that nothing uses yet, each with the capability that will."""
    return {setting.key: setting.awaits for setting in SETTINGS if setting.awaits}


def defaults() -> Table:
    """What holds when nobody says anything."""
    values: Table = {}
    for setting in SETTINGS:
        if setting.default is not None:
            *sections, name = setting.key.split(".")
            table = values
            for section in sections:
                table = table.setdefault(section, {})
            table[name] = setting.default
    return values


def node_at(path: Iterable[str | int]) -> Node | None:
    """The node that describes a place; None where the table knows nothing."""
    node = tree()
    for part in path:
        child = node.listed if isinstance(part, int) else node.child(part)
        if child is None:
            return None
        node = child
    return node


def canonical(node: Node, written: str) -> str | None:
    """Our name for a key as somebody wrote it below `node`; None if there is no such key.

    Names that people choose are theirs and stay as they are.
    """
    if node.named is not None:
        return written
    name = folded_name(written)
    if name not in node.children:
        name = OTHER_NAMES.get(name, "")
    return name if name in node.children and name != "[]" else None


def path_of(key: str) -> tuple[str, ...]:
    """`providers.work.base_url` as its parts. A name with dots is written in quotes: `providers."my.host".wire`.

    Raises ValueError if it cannot be read.
    """
    plain = tuple(key.split("."))
    if all(map(str.isidentifier, plain)):
        return plain
    parts: list[str] = []
    rest = key.strip()
    while True:
        found = re.match(r'"([^"]+)"|([^."\s]+)', rest)
        if found is None:
            raise ValueError(key)
        parts.append(found[1] or found[2])
        rest = rest[found.end() :]
        if not rest:
            return tuple(parts)
        if not rest.startswith("."):
            raise ValueError(key)
        rest = rest[1:]


def key_of(path: Iterable[str | int]) -> str:
    """The dotted spelling of a path, the inverse of `path_of`; positions in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[^.\"\s\[\]]+", part) else f'"{part}"'
            text += f".{name}" if text else name
    return text
