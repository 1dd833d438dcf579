"""Settings of permissions, file limits, hooks, trust and budgets."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from bridle.engine.setting_fields import About, Command, Count, Number, Wanted, at_most, no_looser, tightening
from bridle.protocol.events import Mode, Verdict

PathMode: TypeAlias = Literal["workspace", "allowlist", "off"]


class ModeSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Annotated[
        Mode,
        Wanted("a mode"),
        About(
            "What runs without a question.",
            also=("permission_mode",),
            workspace=no_looser(  # strict and safe each allow something the other does not
                {
                    "strict": ("strict",),
                    "default": ("strict", "default", "safe", "plan"),
                    "safe": ("safe",),
                    "auto": ("strict", "default", "safe", "auto", "plan"),
                    "yolo": ("strict", "default", "safe", "auto", "yolo", "plan"),
                    "plan": ("safe", "plan"),
                }
            ),
        ),
    ] = "default"


class PathSettings(msgspec.Struct, frozen=True, kw_only=True):
    paths: Annotated[
        PathMode,
        Wanted("a limit for file tools"),
        About(
            "Where the file tools may go.",
            workspace=no_looser(
                {
                    "off": ("off", "workspace", "allowlist"),
                    "workspace": ("workspace",),
                    "allowlist": ("allowlist",),
                }
            ),
        ),
    ] = "workspace"
    allowed_paths: Annotated[tuple[str, ...], About('The folders they may use with "allowlist".')] = ()


class ToolLists(msgspec.Struct, frozen=True, kw_only=True):
    allowed_tools: Annotated[
        tuple[str, ...] | None,
        About(
            "Tools that run without a question, as the rules of --allow.", workspace="after ack", adds_up=True
        ),
    ] = None
    disallowed_tools: Annotated[
        tuple[str, ...] | None,
        About("Tools that never run, as the rules of --deny.", workspace="always", adds_up=True),
    ] = None


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True):
    tool: Annotated[str, About("The tool, or a pattern of tools.", also=("tool_pattern",))]
    path: Annotated[str | None, About("Only for files that match.")] = None
    command: Annotated[str | None, About("Only for commands that match.")] = None
    program: Annotated[str | None, About("Only for this program with harmless arguments.")] = None
    verdict: Annotated[Verdict, Wanted("a verdict"), About("allow, ask or deny.")]
    reason: Annotated[str | None, About("Shown where the rule applies.")] = None
    keys: Annotated[
        int,
        Meta(ge=1, le=9),
        Wanted("a whole number from 1 to 9"),
        About("How many different people must approve; with the verdict ask."),
    ] = 1


class PermissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    rules: tuple[RuleSettings, ...] = ()
    secret_files: Annotated[
        tuple[str, ...] | None, About("Names of files that hold secrets, in place of our list.")
    ] = None
    persist: Annotated[
        bool, About("Keep approvals for later sessions.", workspace=tightening(True, False))
    ] = True
    timeout_s: Annotated[Number, About("How long a question waits while no client is attached.")] = 60


class TrustSettings(msgspec.Struct, frozen=True, kw_only=True):
    required: Annotated[bool, About("Refuse to begin while something waits for trust.")] = False


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    usd_per_session: Annotated[Number | None, About("Dollars a session may cost.", workspace=at_most)] = None
    max_steps: Annotated[Count, About("Model calls in a turn; unset, 500 in a run.", workspace=at_most)] = 100


class HookTable(msgspec.Struct, frozen=True, kw_only=True):
    event: Annotated[str, About("When the hook runs.")]
    tool: Annotated[str | None, About("Only for tools that match.", also=("tool_pattern",))] = None
    command: Annotated[Command, About("What runs.", or_key="script")]
    script: Annotated[str | None, About("In your own file: a Python function, as module:function.")] = None
    timeout_ms: Annotated[Count | None, About("How long it may take.")] = None
    on_error: Annotated[
        Literal["block", "warn"] | None, Wanted("an answer to errors"), About("What its failure means.")
    ] = None
    phase: Annotated[
        Literal["before_permission", "after_permission"] | None,
        Wanted("a phase"),
        About("Before or after the question about a call."),
    ] = None
    disabled: Annotated[bool, About("Leave this hook out.")] = False


class HookDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for hooks that say nothing themselves.

    `failure_policy = "open"`: an error in the user's own program never blocks, unless that hook says so.
    """

    timeout_ms: Annotated[Count | None, About("How long a hook may take that says nothing itself.")] = None
    failure_policy: Annotated[
        Literal["closed", "open"],
        Wanted("a failure policy"),
        About("Whether the failure of your own hook stops a call."),
    ] = "closed"
    allow_project: Annotated[
        bool,
        About("Whether hooks of projects may run, each after your consent, as with --allow-project-hooks."),
    ] = False
