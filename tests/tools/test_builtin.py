"""The built-in tools as values: what they declare and what the model reads."""

import inspect

import msgspec
import pytest

from bridle.engine.tools import BUILTIN, Registry, ToolOrigin
from bridle.safety.patterns import tool_matches
from bridle.tools.builtin import builtin_tools
from bridle.tools.jobs import Jobs

BUILTIN_TOOLS = builtin_tools(Jobs(lambda event: None))

DECLARED = {
    "read_file": ("read", "parallel_safe", "none"),
    "write_file": ("write", "exclusive", "workspace"),
    "edit_file": ("write", "exclusive", "workspace"),
    "apply_patch": ("write", "exclusive", "workspace"),
    "bash": ("shell", "exclusive", "process"),
    "grep": ("read", "parallel_safe", "none"),
    "glob": ("read", "parallel_safe", "none"),
    "ls": ("read", "parallel_safe", "none"),
    "web_fetch": ("network", "parallel_safe", "network"),
    "todo": ("read", "serial", "none"),
    "ask_user": ("read", "serial", "none"),
}


@pytest.mark.requirement("T2.1", "T2.3", "T2.5", "D9.10")
def test_every_tool_declares_risk_concurrency_side_effect_and_notes() -> None:
    assert {tool.name: (tool.risk, tool.concurrency, tool.side_effect) for tool in BUILTIN_TOOLS} == DECLARED
    assert all(tool.description for tool in BUILTIN_TOOLS)
    assert all(tool.safety_notes for tool in BUILTIN_TOOLS if tool.risk != "read")


@pytest.mark.requirement("G7.20", "T2.8a")
def test_there_are_tools_for_files_search_shell_and_web_under_both_kinds_of_names() -> None:
    older = {
        "Read": "read_file", "Write": "write_file", "Edit": "edit_file", "Bash": "bash", "Grep": "grep", "Glob": "glob",
        "Ls": "ls", "WebFetch": "web_fetch",
    }  # fmt: skip
    assert {*older.values()} <= {tool.name for tool in BUILTIN_TOOLS}
    assert [name for name, tool in older.items() if not tool_matches(name, tool)] == []


@pytest.mark.requirement("G7.21")
def test_tools_say_whether_they_change_anything() -> None:
    given = {
        "write_file": {"path": "a", "content": ""},
        "edit_file": {"path": "a", "old_string": "a", "new_string": "b"},
        "apply_patch": {"patch": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"},
        "bash": {"command": "true"},
        "read_file": {"path": "a"},
        "grep": {"pattern": "a"},
        "glob": {"pattern": "a"},
        "ls": {},
        "web_fetch": {"url": "https://example.com/"},
    }
    mutating = [
        tool.name
        for tool in BUILTIN_TOOLS
        if tool.name in given and tool.mutating(msgspec.convert(given[tool.name], tool.input))
    ]
    assert mutating == ["write_file", "edit_file", "apply_patch", "bash"]


@pytest.mark.requirement("G7.3")
def test_a_tool_is_a_name_a_schema_of_its_arguments_and_one_function() -> None:
    for tool in BUILTIN_TOOLS:
        schema = tool.schema()
        assert (schema.name, schema.input_schema["type"]) == (tool.name, "object")
        assert set(schema.input_schema["properties"]) <= {*tool.input.__struct_encode_fields__}
        assert inspect.iscoroutinefunction(tool.run)


def test_what_the_model_reads_about_them_stays_small() -> None:
    assert len(msgspec.json.encode([tool.schema() for tool in BUILTIN_TOOLS])) < 6400


@pytest.mark.requirement("T2.2", "D5.2")
def test_a_second_tool_of_a_built_in_name_is_refused() -> None:
    registry = Registry()
    assert registry.replace("builtin", BUILTIN_TOOLS, BUILTIN) == ()
    project = ToolOrigin(scope="project", path=".bridle/tools/bash.py")
    (left_out,) = registry.replace("mine", [msgspec.structs.replace(BUILTIN_TOOLS[0], name="bash")], project)
    assert left_out.reason == "ToolNameTaken"
    assert registry.list() == BUILTIN_TOOLS
    assert registry.origin("bash") == BUILTIN


@pytest.mark.requirement("T2.2")
async def test_an_unknown_tool_fails_closed(bench) -> None:
    output = await bench.run("format_disk")
    assert (output.outcome, output.reason) == ("error", "UnknownTool")


@pytest.mark.requirement("D9.6")
async def test_both_spellings_of_a_parameter_are_understood(bench) -> None:
    assert (await bench.run("bash", command="true", timeoutMs=5000)).ok
    assert (await bench.run("bash", command="true", timeout_ms=5000)).ok
