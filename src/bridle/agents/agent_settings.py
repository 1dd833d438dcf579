"""Settings of agents: whether there is more than one, which one the user talks to, and how far delegation goes."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from bridle.agents.definition import CHILD_STEPS, AgentDefinition
from bridle.engine.setting_fields import About, Count, Plain, Section, Share, Wanted, at_most, tightening
from bridle.protocol.events import Verdict


class AgentChoice(msgspec.Struct, frozen=True, kw_only=True):
    agent: Annotated[
        str | None,
        About(
            "The agent you talk with: bridle agents list; unset, none in particular.",
            workspace="after ack",
            also=("default_agent",),
        ),
    ] = None
    agent_mode: Annotated[
        Literal["single", "multi", "single-agent", "multi-agent"] | None,
        Wanted("an agent mode"),
        About("Whether it may use subagents: single by default, or multi.", workspace="after ack"),
    ] = None


class MultiAgent(msgspec.Struct, frozen=True, kw_only=True):
    enabled: Annotated[bool | None, About("The same as agent_mode = multi, if that is not set.")] = None


class AgentTable(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as it is written; `agent_fields` reads its fields."""

    disabled: Annotated[bool, About("Leave this agent out.")] = False
    fields: Annotated[
        Plain, About("An agent: description, prompt, tools, permissions and more; docs/agents.md.")
    ] = field(name="*", default=None)


class AgentFolders(msgspec.Struct, frozen=True, kw_only=True):
    folders: Annotated[tuple[str, ...], About("More folders with agents, such as .claude/agents.")] = ()


class ChildContext(msgspec.Struct, frozen=True, kw_only=True):
    """How much a subagent reads and says, in tokens. The rest of a long tool result can be asked for."""

    max_tokens: Annotated[
        Count, About("How much a subagent reads at most.", also=("max_context_tokens", "max_input_tokens"))
    ] = 12_000
    compact_at: Annotated[
        Share,
        About(
            "The share of that from which it is summarised.", also=("compact_at_ratio", "compress_at_ratio")
        ),
    ] = 0.7
    summary_tokens: Annotated[
        Count,
        About(
            "How long such a summary may be, and what is remembered of it.", also=("summary_target_tokens",)
        ),
    ] = 1_200
    recent_turns: Annotated[Count, About("How many of its last turns stay as they are.")] = 3
    handoff_tokens: Annotated[Count, About("How much it is handed over.", also=("max_handoff_tokens",))] = (
        2_000
    )
    delegate_context_tokens: Annotated[
        Count,
        About(
            "How much of that may be what its parent writes besides the task.",
            also=("max_delegate_context_tokens",),
        ),
    ] = 1_000
    result_tokens: Annotated[
        Count,
        About(
            "How long its result may be.", also=("max_result_tokens_to_main", "max_delegate_result_tokens")
        ),
    ] = 1_000
    inline_tokens: Annotated[
        Count,
        About(
            "How much of a result it reads at once of a tool that does something.",
            also=("max_inline_tool_result_tokens",),
        ),
    ] = 2_000
    retrieval_tokens: Annotated[
        Count, About("The same of a tool that looks something up.", also=("retrieval_max_tokens",))
    ] = 3_000
    image_tokens: Annotated[
        Count, About("How much it sees of images.", also=("reserve_for_images_tokens",))
    ] = 4_000


class DelegateResults(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the results of subagents stays in the conversation of their parent."""

    kept_raw: Annotated[
        Count,
        About(
            "How many results of subagents stay as they came in the conversation of their parent.",
            also=("keep_raw_delegate_results",),
        ),
    ] = 2
    result_tokens: Annotated[
        Count,
        About(
            "How long each of those may be.", also=("max_delegate_result_tokens", "max_result_tokens_to_main")
        ),
    ] = 1_000
    ledger_tokens: Annotated[
        Count, About("How long the list of earlier ones may be.", also=("ledger_target_tokens",))
    ] = 1_200


class DelegationSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_depth: Annotated[
        int,
        Meta(ge=0, le=8),
        Wanted("a whole number from 0 to 8"),
        About("How deep subagents may use subagents.", workspace=at_most),
    ] = 1
    invocation: Annotated[
        Verdict,
        Wanted("a verdict"),
        About(
            "The verdict on using an agent that says nothing itself.",
            workspace=tightening("allow", "ask", "deny"),
            also=("default_invocation_decision",),
        ),
    ] = "ask"
    max_steps: Annotated[
        Count,
        About("Model calls of a subagent, at most.", workspace=at_most, also=("sub_invocation_max_turns",)),
    ] = CHILD_STEPS
    parallel: Annotated[
        int,
        Meta(ge=1, le=16),
        Wanted("a whole number from 1 to 16"),
        About("How many subagents work at once.", workspace=at_most),
    ] = 3
    catalog_tokens: Annotated[Count, About("How much it is told about other agents.", workspace=at_most)] = (
        2_000
    )


class GoalSettings(msgspec.Struct, frozen=True, kw_only=True):
    rounds: Annotated[Count, About("How often the check of a goal may fail.", workspace=at_most)] = 10


AGENT_SECTIONS = (
    Section("", AgentChoice),
    Section("multi_agent", MultiAgent),
    Section("agents.*", AgentTable, workspace="after ack"),
    Section("agents", AgentFolders, workspace="after ack"),
)
DELEGATION_SECTIONS = (
    Section("context.child", ChildContext, workspace="after ack", also=("sub_agent",)),
    Section("context.delegates", DelegateResults, workspace="after ack"),
    Section("delegation", DelegationSettings),
    Section("goal", GoalSettings),
)


class AgentSettings(DelegationSettings, frozen=True, kw_only=True):
    """All settings of agents. `agent` is None where the user chose none: then a session works without agents.

    `definitions` are the agents of settings and plugins, `folders` more places of a project that may have some, and
    `bundles` the folders of bundles that count.
    """

    mode: Literal["single", "multi"] = "single"
    agent: str | None = None
    child: ChildContext = ChildContext()
    results: DelegateResults = DelegateResults()
    definitions: tuple[AgentDefinition, ...] = ()
    folders: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()

    @property
    def in_use(self) -> bool:
        """Whether a session works as an agent: one was chosen, or it may send others."""
        return self.agent is not None or self.mode == "multi"
