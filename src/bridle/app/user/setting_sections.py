"""All settings of Bridle: the section of every package, in the order in which help lists them.

`load` reads settings files against `TABLE`. Sections of what `app` and the clients do themselves stand here.
"""

import functools
from typing import Annotated, Literal

import msgspec
from msgspec import field

from bridle.agents.agent_settings import (
    AGENT_SECTIONS,
    DELEGATION_SECTIONS,
)
from bridle.config import settings_loading
from bridle.config.setting_table import SettingTable
from bridle.context.context_settings import ContextSettings, MemorySettings, SkillSection
from bridle.control.engine_settings import EngineSettings
from bridle.credentials.credential_settings import CredentialSettings
from bridle.engine.setting_fields import About, Address, Count, Plain, Section, Wanted
from bridle.mcp.mcp_settings import McpSettings, ServerTable
from bridle.providers.provider_settings import (
    DebugSettings,
    KeySettings,
    ModelChoice,
    ModelSettings,
    ProviderSettings,
)
from bridle.safety.safety_settings import (
    BudgetSettings,
    HookDefaults,
    HookTable,
    ModeSettings,
    PathSettings,
    PermissionSettings,
    ToolLists,
    TrustSettings,
)
from bridle.sandbox.sandbox_settings import SandboxSettings
from bridle.sessions.stored_session_settings import StoredSessionSettings
from bridle.tools.tool_settings import ToolSettings

_SCREEN = "the full-screen client"


class ProfileSettings(msgspec.Struct, frozen=True, kw_only=True):
    profile: Annotated[str, About("A preset bundle of settings: a name, or a TOML file.")] = "default"
    instructions: Annotated[
        str | None,
        About(
            "Your own text, added to the system prompt.",
            workspace="after ack",
            also=("custom_instructions", "prompt_header"),
        ),
    ] = None


class PromptSettings(msgspec.Struct, frozen=True, kw_only=True):
    folders: Annotated[tuple[str, ...], About("More folders with prompts, such as .claude/commands.")] = ()


class MultimodalSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_image_bytes: Annotated[Count, About("The largest image that is read from a file.")] = 8_388_608
    detail: Annotated[
        Literal["auto", "low", "high"],
        Wanted("a level of detail"),
        About("How closely the model looks at an image."),
    ] = "auto"


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bridle as an MCP server."""

    attach_command: Annotated[
        tuple[str, ...] | None,
        About(
            "The command that opens a session an outer agent began, with {session} in it, if you always want to "
            "see them."
        ),
    ] = None
    tool_names: Annotated[
        Literal["underscore", "dotted"],
        Wanted("a way to spell names"),
        About("How tools are spelt for other agents: create_session, or bridle.create_session."),
    ] = "underscore"


class TranscriptSettings(msgspec.Struct, frozen=True, kw_only=True):
    format: Annotated[
        Literal["off", "events", "envelope", "chain"],
        Wanted("a form of transcripts"),
        About("Keep a plain text file of every session in this form, next to the encrypted log."),
    ] = "off"


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: Annotated[
        Address | None,
        About(
            "The OpenTelemetry collector that traces go to, as http://127.0.0.1:4318; unset, as OTEL_ variables say."
        ),
    ] = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    levels: Annotated[str | None, About("What the log takes: debug, or engine=debug,provider=off.")] = None


class UiSettings(msgspec.Struct, frozen=True, kw_only=True):
    reader: Annotated[bool, About("Plain text that only grows, for screen readers.", awaits=_SCREEN)] = False
    theme: Annotated[str | None, About("The colours.", awaits=_SCREEN)] = None
    quiet_cost: Annotated[bool, About("Leave out the cost line.", awaits=_SCREEN)] = False
    notify: Annotated[bool, About("Ring when a question waits, and when a long turn is over.")] = True


class PluginSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: Annotated[
        tuple[str, ...] | None, About("The plugins to load. Each runs as a part of Bridle.")
    ] = None


class PluginTable(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one plugin, which declares them itself."""

    fields: Annotated[Plain, About("A setting of a plugin: bridle plugins list.")] = field(
        name="*", default=None
    )


SECTIONS = (
    Section("", ModelChoice),
    Section("", ModeSettings),
    Section("", ProfileSettings),
    *AGENT_SECTIONS,
    Section("", PathSettings),
    Section("", KeySettings),
    Section("providers.*", ProviderSettings),
    Section("models.*", ModelSettings),
    Section("credentials", CredentialSettings),
    Section("", ToolLists),
    Section("permissions", PermissionSettings),
    Section("sandbox", SandboxSettings),
    Section("skills", SkillSection, workspace="after ack"),
    Section("context", ContextSettings, workspace="after ack"),
    Section("commands", PromptSettings),
    Section("memory", MemorySettings),
    Section("multimodal", MultimodalSettings),
    Section("budget", BudgetSettings),
    *DELEGATION_SECTIONS,
    Section("trust", TrustSettings),
    Section("sessions", StoredSessionSettings),
    Section("engine", EngineSettings),
    Section("mcp_server", McpServerSettings),
    Section("transcript", TranscriptSettings),
    Section("otel", TraceSettings),
    Section("debug", DebugSettings),
    Section("log", LogSettings),
    Section("ui", UiSettings, workspace="always"),
    Section("hooks[]", HookTable, workspace="after ack"),
    Section("hook_defaults", HookDefaults),
    Section("tools", ToolSettings),
    Section("plugins", PluginSettings),
    Section("plugins.*", PluginTable),
    Section("mcp_servers.*", ServerTable, workspace="after ack"),
    Section("mcp", McpSettings),
)

TABLE = SettingTable(SECTIONS)
load = functools.partial(settings_loading.load, TABLE)
