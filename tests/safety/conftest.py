"""Calls as they stand in front of a safety layer, and a tool that says whether it ran."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.engine.tools import Subject, Tool, ToolCall, ToolOutput
from bridle.protocol.events import Risk


class Arguments(msgspec.Struct, frozen=True):
    path: str | None = None
    command: str | None = None
    paths: tuple[str, ...] = ()


def _subjects_for(access: str) -> Callable[[Arguments], tuple[Subject, ...]]:
    def subjects(args: Arguments) -> tuple[Subject, ...]:
        paths = (args.path,) if args.path is not None else args.paths
        found = [Subject(kind="path", access=access, value=path) for path in paths]
        if args.command is not None:
            found.append(Subject(kind="command", access="run", value=args.command))
        return tuple(found)

    return subjects


async def _unused(_args: Any, _context: Any) -> ToolOutput:
    return ToolOutput()


async def _at_once() -> None:
    """A single call waits for no other."""


class Calls:
    """Makes calls and remembers which of them got through a layer."""

    def __init__(self) -> None:
        self.ran: list[ToolCall] = []
        self.printed: list[str] = []

    def make(
        self, tool: str = "read_file", *, risk: Risk = "read", access: str = "read", **arguments: Any
    ) -> ToolCall:
        definition = Tool(
            name=tool,
            description="",
            input=Arguments,
            risk=risk,
            run=_unused,
            subjects=_subjects_for(access),
            safety_notes=("a note",),
        )
        return ToolCall(
            id="call_7",
            name=tool,
            input=arguments,
            step=1,
            originator="client_1",
            write=self.printed.append,
            passed_gates=_at_once,
            partial=[],
            tool=definition,
            args=Arguments(**arguments),
        )

    async def proceed(self, call: ToolCall) -> ToolOutput:
        self.ran.append(call)
        return ToolOutput(content="ran")


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a neighbour of a similar name, and links that lead in and out."""
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x")
    (tmp_path / "shop-old").mkdir()
    (tmp_path / "shop-old" / "secret").write_text("s")
    (root / "out").symlink_to(tmp_path / "shop-old")
    (root / "up").symlink_to("..")
    (root / "in").symlink_to("src")
    (root / "dangling").symlink_to(tmp_path / "not-there")
    (root / "circle").symlink_to("circle")
    return root
