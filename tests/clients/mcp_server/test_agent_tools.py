"""What an outer agent's model reads of the tools."""

import re

import pytest

from bridle.base.text.json_schema import JsonSchema
from bridle.clients.mcp_server.agent_tools import (
    TOOLS,
    arguments_of,
    object_schema,
    tool_called,
    written_name,
)
from bridle.clients.mcp_server.turn_report import TurnReport
from bridle.protocol.errors import CommandRefused
from tables import table

NAMES = [
    "create_session",
    "list_sessions",
    "attach_session",
    "detach_session",
    "run_agent_with_shell_access",
    "wait_for_turn",
    "cancel_turn",
    "answer_permission",
    "set_model",
    "enter_plan_mode",
    "exit_plan_mode",
    "end_session",
]


@pytest.mark.requirement("G19.4")
@pytest.mark.requirement("P3")
def test_every_tool_has_a_name_that_model_services_take() -> None:
    written = [written_name(tool, "underscore") for tool in TOOLS]
    assert written == NAMES
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in written)
    assert [written_name(tool, "dotted") for tool in TOOLS] == [f"bridle.{name}" for name in NAMES]


@pytest.mark.requirement("P3")
@table("spelling", ["{}", "bridle.{}", "bridle_{}", "harness.{}"])
def test_a_tool_is_found_in_every_spelling(spelling: str) -> None:
    assert [tool_called(spelling.format(name)).name for name in NAMES] == NAMES


def test_a_tool_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(CommandRefused, match="create_session"):
        tool_called("bridle.rm")


@table("tool", TOOLS)
def test_its_schema_is_an_object_of_its_own(tool) -> None:
    JsonSchema(object_schema(tool.takes)).check()
    JsonSchema(object_schema(TurnReport)).check()


@pytest.mark.requirement("X12")
def test_fields_nobody_knows_are_ignored_and_wrong_ones_named() -> None:
    run = tool_called("run_agent_with_shell_access")
    assert arguments_of(run, {"prompt": "go", "colour": "red"}).prompt == "go"
    with pytest.raises(CommandRefused, match=r"wait"):
        arguments_of(run, {"prompt": "go", "wait": "forever"})
