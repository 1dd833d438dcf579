"""A bench that runs the built-in tools as a session would: real files, real processes, the real layers."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bridle.base.clock import SystemClock
from bridle.base.fs.paths import session_folders
from bridle.base.process.processes import Processes
from bridle.engine.dispatch import ToolLayers
from bridle.engine.layers import deadline, known_and_visible, validated
from bridle.engine.ports import SpawnPolicy
from bridle.engine.tools import BUILTIN, EVERYTHING, Registry, ToolCall, ToolContext, ToolOutput
from bridle.safety.guards import PathPolicy, guarded
from bridle.safety.redacted import redacted
from bridle.safety.sandboxed import sandboxed
from bridle.sandbox.plain_spawn import EnvOnlySpawn
from bridle.tools.builtin import builtin_tools
from bridle.tools.jobs import Jobs
from bridle.tools.output import Spill, capped


class Bench:
    def __init__(self, workspace: Path, state: Path, processes: Processes) -> None:
        self.workspace = workspace
        self.live: list[str] = []
        self.partial: list[str] = []
        self.env = {"PATH": os.environ["PATH"], "HOME": str(workspace)}
        self.spill = Spill(str(state / "outputs"), lambda: bytes(32))
        self.emitted: list[Any] = []
        self.answer: str | None = None
        self.sight = EVERYTHING
        self.before_run: Callable[[], object] = lambda: None
        self.spawn = EnvOnlySpawn(processes)
        registry = Registry()
        self.jobs = Jobs(self.emitted.append)
        assert registry.replace("builtin", builtin_tools(self.jobs), BUILTIN) == ()
        folders = session_folders(str(workspace))
        policy = SpawnPolicy(mode="workspace-write", workspace=folders.workspace)
        clock = SystemClock()
        self._run = ToolLayers(
            one_at_a_time=(known_and_visible(registry), validated(), guarded(PathPolicy(folders=folders))),
            together=(deadline(clock), capped(self.spill), redacted(), sandboxed(policy)),
        ).around(self._execute)
        self._clock = clock

    async def run(self, tool: str, call_id: str = "call_1", **arguments: Any) -> ToolOutput:
        call = ToolCall(
            id=call_id,
            name=tool,
            input=arguments,
            step=1,
            originator="client_1",
            write=self.live.append,
            passed_gates=_at_once,
            partial=self.partial,
            asked=True,
        )
        return await self._run(call)

    async def _execute(self, call: ToolCall) -> ToolOutput:
        context = ToolContext(
            call=call,
            session="sess_1",
            cwd=str(self.workspace),
            env=self.env,
            clock=self._clock,
            spawn=self.spawn,
            spilled=self.spill.read,
            emit=self.emitted.append,
            ask=self._ask,
            sight=self.sight,
        )
        self.before_run()
        return await call.definition.run(call.args, context)

    async def _ask(self, _question_id: str, _question: str, _choices: tuple[str, ...]) -> str | None:
        return self.answer


async def _at_once() -> None:
    """A single call waits for no other."""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    processes = Processes()
    yield Bench(workspace, tmp_path / "state", processes)
    await processes.close()
