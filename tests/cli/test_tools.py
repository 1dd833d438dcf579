"""`bridle tools`: what the model may ask for, and what is declared of it."""

import json
import os

import pytest

from bridle.context.skills.session_skills import Offered, SessionSkills, skill_tool
from bridle.engine.conversation import Conversation
from bridle.protocol.events import DurableEvent
from bridle.tools.builtin import builtin_tools
from bridle.tools.jobs import Jobs
from bridle.tools.repo_map import repo_map_tool
from cli_kit import Place


def ignore(_event: DurableEvent) -> None:
    """Nothing runs here."""


TOOLS = (
    *builtin_tools(Jobs(ignore)),
    repo_map_tool(""),
    skill_tool(SessionSkills(lambda: Offered(skills={})), Conversation),
)


@pytest.mark.requirement("T2.3", "T2.8a", "G7.20")
def test_every_tool_is_a_line_with_its_risk_and_source(place: Place) -> None:
    ran = place.bridle("tools")
    assert (ran.code, ran.err) == (0, "")
    head, *lines = ran.out.splitlines()
    assert head.split() == ["tool", "risk", "concurrency", "changes", "source", "what", "it", "does"]
    assert [line.split()[:5] for line in lines] == [
        [tool.name, tool.risk, tool.concurrency.replace("_", "-"), tool.side_effect, "builtin"]
        for tool in TOOLS
    ]
    assert all(len(line.split()) > 6 for line in lines), "each says what it does"
    assert os.listdir(place.home) == []


def test_the_list_for_programs_has_the_same_tools(place: Place) -> None:
    listed = json.loads(place.bridle("tools", "--json").out)
    assert [row["name"] for row in listed] == [tool.name for tool in TOOLS]
    bash = next(row for row in listed if row["name"] == "bash")
    assert (bash["risk"], bash["side_effect"], bash["source"], bash["trusted"]) == (
        "shell",
        "process",
        "builtin",
        True,
    )


def test_the_other_name_of_the_list_is_understood(place: Place) -> None:
    assert place.bridle("list-tools") == place.bridle("tools")
