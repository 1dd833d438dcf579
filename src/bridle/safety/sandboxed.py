"""The layer that says how the commands of a call may run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridle.engine.ports import SpawnPolicy
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.errors import sentence
from bridle.safety.guards import nothing_known
from bridle.shell.command_facts import Part, Understand

# fmt: off
_WRITE_SETTINGS = frozenset({
    "branch", "checkout", "clone", "config", "init", "push", "remote", "sparse-checkout", "submodule", "switch",
    "worktree",
})
# fmt: on
"""Subcommands of git that keep something in the repository's settings: remotes, what a branch follows, submodules."""
_STARTING_OPTIONS = (
    "--config",
    "--edit",
    "--edit-description",
    "--exec",
    "--receive-pack",
    "--template",
    "--upload-pack",
)
_STARTING_WORDS = {"clone": ("-c", "-u"), "config": ("-e", "edit"), "submodule": ("foreach",)}
"""What makes git start a program that it is told to."""
_MAKE_REPOSITORIES = frozenset({
    ("git", "init"), ("git", "clone"), ("gh", "repo"), ("cargo", "init"), ("cargo", "new"), ("uv", "init"),
    ("jj", "git"),
})  # fmt: skip


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
                return ToolOutput(outcome="denied", reason="NoWayOut", content=sentence("NoWayOut", {}))
            chosen = outside
        elif policy.mode != "off" and not call.mutating:
            chosen = reading
        elif (settings := about_git_settings(call)) | (
            new := any(makes_a_repository(part.text.split(maxsplit=2)) for part in call.parts)
        ):
            chosen = msgspec.structs.replace(policy, git_config=settings, new_repository=new)
        git = call.foreseen
        if git is not None and (git.files or git.unknown or git.unasked):  # what had to be asked about was
            chosen = msgspec.structs.replace(chosen, agreed=call.agreed, git_tree=True)
        elif call.agreed:
            chosen = msgspec.structs.replace(chosen, agreed=call.agreed)
        return await proceed(msgspec.structs.replace(call, policy=chosen))

    return layer


def makes_a_repository(words: Sequence[str]) -> bool:
    """Whether a command is there to make one."""
    return tuple(words[:2]) in _MAKE_REPOSITORIES


def _writes_git_settings(part: Part) -> bool:
    """Whether it does that and starts nothing that it is told to: what it starts would find the settings open too."""
    program, subcommand = (*part.words, "", "")[:2]
    if subcommand is None or program != "git" or subcommand not in _WRITE_SETTINGS:
        return False
    sets_variables = "=" in part.text.partition("git")[0]
    writes_files = any(use.access == "write" for use in part.uses)
    return (
        not sets_variables
        and not writes_files
        and not any(_starts_something(word, subcommand) for word in part.words[2:])
    )


def _starts_something(word: str | None, subcommand: str) -> bool:
    """Options can be shortened."""
    option = (word or "").partition("=")[0]
    if option.startswith("--"):
        return option != "--" and any(name.startswith(option) for name in _STARTING_OPTIONS)
    return word is None or option in _STARTING_WORDS.get(subcommand, ()) or option.startswith("ext::")
