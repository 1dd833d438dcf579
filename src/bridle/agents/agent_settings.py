"""What settings say of agents: whether there is more than one, who is talked to, and how far delegation goes."""

from __future__ import annotations

from typing import Literal

import msgspec

from bridle.agents.definition import CHILD_STEPS, AgentDefinition
from bridle.protocol.events import Verdict


class ChildContext(msgspec.Struct, frozen=True, kw_only=True):
    """How much a child reads and says, in tokens.

    `summary_tokens` is what a summary of its conversation may have, and what is remembered of it. `inline_tokens` is
    what a result of a tool may have that does something, `retrieval_tokens` one of a tool that looks something up; the
    rest of either can be asked for. `image_tokens` is what it may be shown of images.
    """

    max_tokens: int = 12_000
    compact_at: float = 0.7
    summary_tokens: int = 1_200
    recent_turns: int = 3
    handoff_tokens: int = 2_000
    delegate_context_tokens: int = 1_000
    result_tokens: int = 1_000
    inline_tokens: int = 2_000
    retrieval_tokens: int = 3_000
    image_tokens: int = 4_000


class DelegateResults(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what children came to stays in the conversation of whoever sent them."""

    kept_raw: int = 2
    result_tokens: int = 1_000
    ledger_tokens: int = 1_200


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`agent` is None where nobody chose one: then a session is what it is without agents.

    `invocation` is the verdict on sending an agent that says nothing itself; so many as `parallel` says work at once.
    `definitions` are the agents of settings and plugins, `folders` more places of a project that may have some, and
    `bundles` the folders of bundles that count.
    """

    mode: Literal["single", "multi"] = "single"
    agent: str | None = None
    max_depth: int = 1
    invocation: Verdict = "ask"
    max_steps: int = CHILD_STEPS
    parallel: int = 3
    catalog_tokens: int = 2_000
    child: ChildContext = ChildContext()
    results: DelegateResults = DelegateResults()
    definitions: tuple[AgentDefinition, ...] = ()
    folders: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()

    @property
    def in_use(self) -> bool:
        """Whether a session works as an agent: one was chosen, or it may send others."""
        return self.agent is not None or self.mode == "multi"
