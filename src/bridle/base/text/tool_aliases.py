"""The names that other agents use for our tools, in rules, hooks and agent definitions."""

from collections.abc import Mapping

TOOL_ALIASES: Mapping[str, tuple[str, ...]] = {
    "edit": ("write_file", "edit_file", "apply_patch"),
    "Edit": ("write_file", "edit_file", "apply_patch"),
    "MultiEdit": ("edit_file", "apply_patch"),
    "Read": ("read_file",),
    "Write": ("write_file",),
    "Bash": ("bash",),
    "run_powershell": ("bash",),
    "Grep": ("grep",),
    "Glob": ("glob",),
    "Ls": ("ls",),
    "LS": ("ls",),
    "WebFetch": ("web_fetch",),
    "TodoWrite": ("todo",),
    "Agent": ("delegate_agent",),
    "Task": ("delegate_agent",),
}
