"""Tools as files: code in a process of its own, after a person agreed to it, and never before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.app.features.tool_module_source import module_items
from bridle.config.folders import folders
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind, outcomes
from bridle.protocol import events as e
from bridle.providers.script import call, say
from bridle.safety.trust.approvals import Approvals
from bridle.sessions.memory_store import MemoryStore

COUNT = """\
import os, sys
print("loud")
def execute(given):
    return {"ok": True, "content": f"{len(given['word'])} in {os.path.basename(os.getcwd())}, {os.getpid() != %d}"}
tool = {"name": "count", "description": "Counts letters.",
        "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        "execute": execute}
"""


class Bench:
    """A person's folder and a project, with tools in them."""

    def __init__(self, root: Path) -> None:
        self.work = (root / "work").resolve()
        (self.work / ".git").mkdir(parents=True)
        self.home = root / "home"
        (self.home / "config").mkdir(parents=True)
        self.where = folders({"BRIDLE_HOME": str(self.home)})
        self.approvals = Approvals(str(self.home / "config"), copies=str(self.home / "state" / "approved"))

    @property
    def places(self) -> dict[str, Any]:
        return {"folder": str(self.work), "home": str(self.home), "store": MemoryStore()}

    def own(self, name: str, text: str) -> None:
        self._write(self.home / "config/tools" / f"{name}.py", text)

    def project(self, name: str, text: str) -> None:
        self._write(self.work / ".bridle/tools" / f"{name}.py", text)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def agree(self) -> None:
        for item in module_items(self.where, str(self.work)):
            item.approve(self.approvals)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def said(session: HarnessSession) -> list[str]:
    return [
        one.event.message
        for one in await session.stored()
        if isinstance(one.event, e.Notice) and one.event.reason == "ToolModuleLeftOut"
    ]


def tools_of(model: RecordingModel) -> set[str]:
    return {tool["name"] for tool in msgspec.json.decode(model.bodies[0])["tools"]}


@pytest.mark.requirement("D12.47", "D12.43")
async def test_a_tool_of_the_person_runs_in_a_process_of_its_own_once_they_agreed(bench: Bench) -> None:
    bench.own("count", COUNT % os.getpid())
    model = RecordingModel(scripted(say("hi")))
    async with harness(model, **bench.places) as session:
        await session.ask("go")
        assert [
            one.endswith("nobody agreed to it yet (bridle trust ack).") for one in await said(session)
        ] == [True]
    assert "count" not in tools_of(model)
    bench.agree()
    model = RecordingModel(scripted(call("count", word="beans"), say("done")))
    async with harness(model, yes=True, **bench.places) as session:
        events = await session.ask("go")
        (result,) = of_kind(events, e.ToolResult)
        assert (result.outcome, result.content) == ("ok", "5 in work, True")
        assert not await said(session)
    assert "count" in tools_of(model)


@pytest.mark.requirement("D12.43")
async def test_a_tool_of_a_project_needs_consent_and_a_setting_of_the_persons_own(bench: Bench) -> None:
    bench.project("count", COUNT % os.getpid())
    bench.agree()
    for settings, there in (("", False), ("tools.project_modules = true", True)):
        (bench.home / "config/config.toml").write_text(settings)
        model = RecordingModel(scripted(say("hi")))
        async with harness(model, **bench.places) as session:
            await session.ask("go")
            assert bool(await said(session)) != there
        assert ("count" in tools_of(model)) == there
    bench.project("count", (COUNT % os.getpid()) + "# other\n")
    model = RecordingModel(scripted(say("hi")))
    async with harness(model, **bench.places) as session:
        await session.ask("go")
        assert len(await said(session)) == 1
    assert "count" not in tools_of(model), "other bytes, no trust"


async def test_a_project_does_not_let_its_own_tools_in(bench: Bench) -> None:
    bench.project("evil", "raise SystemExit(open('ran', 'w'))\n")
    (bench.work / ".bridle/config.toml").write_text("tools.project_modules = true\n")
    async with harness(scripted(say("hi")), **bench.places) as session:
        await session.ask("go")
        assert await said(session) == [
            "The tool of .bridle/tools/evil.py was left out: nobody agreed to it yet (bridle trust ack)."
        ]
    assert not (bench.work / "ran").exists()


@pytest.mark.requirement("D5.5", "D12.50")
async def test_it_counts_as_a_command_that_changes_things_and_asks_like_one(bench: Bench) -> None:
    bench.own("count", COUNT % os.getpid())
    bench.agree()
    model = scripted(call("count", word="beans"), call("count"), say("done"))
    async with harness(model, **bench.places) as session:
        events = await session.ask("go")
        assert outcomes(events) == ["denied", "error"], "nobody can be asked; and its input is checked"


@pytest.mark.requirement("D12.50")
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("x = 1", "it has no object called tool"),
        ("tool = {'name': 'odd'}", "its tool has no description and no input_schema and no execute"),
        ("1/0", "ZeroDivisionError: division by zero"),
        (
            "tool = {'name': 'even', 'description': 'x', 'input_schema': {}, 'execute': print}",
            'its tool is called "even"',
        ),
        ("import os; os._exit(3)", "it ended with exit code 3 and no answer"),
        ("def (", "SyntaxError"),
    ],
)
async def test_what_is_no_tool_is_left_out_with_the_reason(bench: Bench, source: str, problem: str) -> None:
    bench.own("odd", source)
    bench.agree()
    model = RecordingModel(scripted(say("hi")))
    async with harness(model, **bench.places) as session:
        await session.ask("go")
        (words,) = await said(session)
    assert problem in words
    assert "odd" not in tools_of(model)


async def test_a_call_that_fails_is_told_to_the_model(bench: Bench) -> None:
    bench.own(
        "odd",
        "async def run(given):\n    raise ValueError('no beans')\n"
        "class tool:\n    name, description, input_schema, execute = 'odd', 'x', {'type': 'object'}, run\n",
    )
    bench.agree()
    async with harness(scripted(call("odd"), say("done")), yes=True, **bench.places) as session:
        (result,) = of_kind(await session.ask("go"), e.ToolResult)
        assert (result.outcome, result.content) == ("error", "odd failed: ValueError: no beans")
