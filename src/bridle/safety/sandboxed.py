"""The layer that says how the commands of a call may run."""

from __future__ import annotations

import msgspec

from bridle.engine.ports import SpawnPolicy
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import sentence
from bridle.safety.command_guard import Understand, nothing_known
from bridle.safety.shell.facts import Part

# fmt: off
_WRITE_SETTINGS = frozenset({
    "branch", "checkout", "clone", "config", "init", "push", "remote", "sparse-checkout", "submodule", "switch",
    "worktree",
})
# fmt: on
"""Subcommands of git that keep something in the repository's settings: remotes, what a branch follows, submodules."""


def sandboxed(policy: SpawnPolicy, understand: Understand = nothing_known) -> ToolLayer:
    """Gives every call its policy: `policy`, narrowed to what the call is known to need.

    A call that is proven to change nothing may not change anything either: if the proof is wrong, the border holds. A
    call that a person let out of the sandbox runs without one, unless one is required. Git's settings are open for
    commands that are about them and do nothing else.
    """

    def about_git_settings(call: ToolCall) -> bool:
        """Whether a command is made of git commands that write its settings, and of others that only read."""
        if not any("git" in part.text for part in call.parts):
            return False
        command = next(subject.value for subject in call.subjects if subject.kind == "command")
        parts = understand(command, policy.workspace).parts
        return any(map(_writes_git_settings, parts)) and all(
            part.command_class == "read_only" or _writes_git_settings(part) for part in parts
        )

    reading = msgspec.structs.replace(policy, mode="read-only", writable=())
    outside = msgspec.structs.replace(policy, mode="off")

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        chosen = policy
        if getattr(call.args, "escalate", ""):
            if policy.required:
                return ToolOutput(
                    outcome="denied", reason="NoWayOut", content=sentence("NoWayOut", {})
                )
            chosen = outside
        elif policy.mode != "off" and not call.mutating:
            chosen = reading
        elif about_git_settings(call):
            chosen = msgspec.structs.replace(policy, git_config=True)
        return await proceed(msgspec.structs.replace(call, policy=chosen))

    return layer


def _writes_git_settings(part: Part) -> bool:
    program, subcommand = (*part.words, None, None)[:2]
    return program == "git" and subcommand in _WRITE_SETTINGS
