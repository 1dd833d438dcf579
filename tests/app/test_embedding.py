"""Bridle inside another program, by the face it shows: `import bridle`."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta

import bridle
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import PrefixSet, ToolResult
from bridle.providers.script import call, say
from tables import table


@bridle.tool(risk="read", mutating=False)
async def forecast(place: Annotated[str, Meta(description="A town.")], days: int = 1) -> str:
    """Tells the weather of a place."""
    return f"{days} day of sun in {place}"


def test_importing_bridle_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import bridle; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["bridle"]


def test_every_name_of_the_face_is_there_and_a_wrong_one_is_told() -> None:
    names = [name for name in dir(bridle) if not name.startswith("_")]
    assert {"open_engine", "tool", "CreateSession", "SendInput"} <= set(names)
    for name in names:
        assert getattr(bridle, name) is not None or name == "TYPE_CHECKING"
    with pytest.raises(AttributeError, match="has no attribute 'opne_engine'"):
        _ = bridle.opne_engine


async def test_a_typed_function_is_a_tool_whose_schema_the_model_reads() -> None:
    async with harness(
        scripted(call("forecast", place="Ulm"), call("forecast", place=3), say("Done.")),
        tools=[forecast],
        allow=("forecast",),
    ) as session:
        events = await session.ask("go")
    (prefix,) = of_kind(events, PrefixSet)
    shown = prefix.tools[-1]
    assert (shown.name, shown.description) == ("forecast", "Tells the weather of a place.")
    assert shown.input_schema == {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "A town."},
            "days": {"type": "integer", "default": 1},
        },
        "required": ["place"],
        "additionalProperties": False,
    }
    good, bad = of_kind(events, ToolResult)
    assert (good.outcome, good.content) == ("ok", "1 day of sun in Ulm")
    assert (bad.outcome, bad.reason) == ("error", "InvalidInput")


async def test_a_function_may_ask_for_the_context_of_its_call_and_need_not_be_async() -> None:
    @bridle.tool
    async def where(context: bridle.ToolContext) -> bridle.ToolOutput:
        """Says where it is."""
        return bridle.ToolOutput(content=context.cwd)

    @bridle.tool(name="sum_up")
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert (where.risk, where.mutating(None)) == ("dangerous", True), "who says nothing gets the strictest"
    async with harness(
        scripted(call("where"), call("sum_up", a=1, b=2), say("Done.")),
        tools=[where, add],
        allow=("where", "sum_up"),
    ) as session:
        first, second = of_kind(await session.ask("go"), ToolResult)
    assert (first.content, second.content) == (session.folder, "3")


def _no_type(place):
    """Says something."""


def _no_words(place: str) -> None: ...


def _many(*places: str) -> None:
    """Says something."""


@table(
    ("function", "problem"),
    [
        (_no_type, "the parameter place has no type"),
        (_no_words, "has no docstring"),
        (_many, "cannot be given by name"),
    ],
)
def test_a_function_that_no_model_could_call_is_no_tool(function: object, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        bridle.tool(function)


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_example_of_the_page_runs_as_it_stands(repository: Path, tmp_path: Path) -> None:
    blocks = python_blocks(repository / "docs/embedding.md")
    (example,) = [block for block in blocks if "asyncio.run" in block]
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "example.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-W", "error", "../example.py"],
        cwd=tmp_path / "work",
        env={"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode() == "[scripted] Sunny in Ulm.\n"
