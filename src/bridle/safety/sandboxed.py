"""The layer that says how the commands of a call may run."""

from __future__ import annotations

from typing import Literal

import msgspec

from bridle.engine.ports import SandboxMode, SpawnPolicy
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.safety.paths import SessionFolders


def sandboxed(
    folders: SessionFolders,
    *,
    mode: SandboxMode = "workspace-write",
    network: Literal["inherit", "deny"] = "inherit",
) -> ToolLayer:
    """Gives every call the same policy. What of it is enforced is up to the adapter behind `Spawn`."""
    policy = SpawnPolicy(
        mode=mode,
        workspace=folders.workspace,
        writable=(folders.workspace, *folders.added) if mode == "workspace-write" else (),
        network=network,
    )

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        return await proceed(msgspec.structs.replace(call, policy=policy))

    return layer
