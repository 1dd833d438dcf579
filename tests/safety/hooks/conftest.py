"""Hooks as real programs: scripts written into a folder, run by the real starter, their events kept."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from bridle.base.clock import Clock, SystemClock
from bridle.base.process.processes import Processes
from bridle.engine.tools import Tool, ToolCall, ToolOutput
from bridle.protocol.events import DurableEvent
from bridle.safety.hooks.definitions import Actor, Hook, hook_from
from bridle.safety.hooks.hook_process import started_by
from bridle.safety.hooks.session_hooks import HookDependencies, Hooks
from bridle.sandbox.plain_spawn import EnvOnlySpawn


class Bench:
    """One session's hooks, the workspace it works in, and a folder of the person's own programs."""

    def __init__(self, root: Path, processes: Processes, clock: Clock) -> None:
        self.workspace = root / "shop"
        self.own = root / "own"
        self.workspace.mkdir()
        self.own.mkdir()
        self.clock = clock
        self.events: list[DurableEvent] = []
        self.trusted: set[tuple[str, str]] = set()
        self.secrets: list[str] = []
        self.env = {"PATH": os.environ["PATH"], "HOME": str(root), "SOME_API_KEY": "not for hooks"}
        self.start = started_by(EnvOnlySpawn(processes), self.env)

    def script(self, name: str, body: str, *, folder: Path | None = None) -> str:
        """An executable file; without a first line of its own it is a shell script."""
        path = (folder or self.own) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body if body.startswith("#!") else f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def python(self, name: str, body: str) -> str:
        return self.script(name, f"#!{sys.executable}\n{body}\n")

    def hook(self, body: str, *, event: str = "PreToolUse", name: str = "check", **more: Any) -> Hook:
        """A hook of the person's own, as settings would say it."""
        return hook_from({"event": event, "command": [self.script(name, body)], **more})

    def hooks(self, *hooks: Hook, kill_after_s: float = 5.0) -> Hooks:
        return Hooks(
            hooks,
            actor=Actor(session="sess_1", cwd=str(self.workspace)),
            around=HookDependencies(
                start=self.start,
                clock=self.clock,
                emit=self.events.append,
                is_trusted=lambda path, sha256: (path, sha256) in self.trusted,
                workspaces=(str(self.workspace),),
                turn=lambda: 3,
                secrets=self._secrets,
                kill_after_s=kill_after_s,
            ),
        )

    def _secrets(self) -> Iterable[str]:
        return self.secrets

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


class Ready:
    """A named pipe through which a program says that it is where a test wants it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ready"
        os.mkfifo(self._path)
        self.tell = "echo >ready"

    async def told(self) -> None:
        """Returns once a program has said so."""
        await asyncio.to_thread(self._path.read_bytes)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    processes = Processes()
    try:
        yield Bench(tmp_path, processes, SystemClock())
    finally:
        await processes.close()


async def _unused(_args: Any, _context: Any) -> ToolOutput:
    return ToolOutput()


async def _at_once() -> None:
    """A single call waits for no other."""


def call_of(tool: Tool, **given: Any) -> ToolCall:
    return ToolCall(
        id="call_7",
        name=tool.name,
        input=given,
        step=1,
        originator="client_1",
        write=lambda _text: None,
        passed_gates=_at_once,
        partial=[],
        tool=tool,
    )
