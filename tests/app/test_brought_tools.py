"""Tools that somebody brings along: they stand behind the built-in ones and replace none."""

import msgspec
import pytest

from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.conformance.models import scripted
from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.events import Notice, PrefixSet, ToolResult
from bridle.providers.script import call, say


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class Path(msgspec.Struct, frozen=True):
    path: str


def brought(name: str, args: type[msgspec.Struct] = Nothing) -> Tool:
    async def run(_args: msgspec.Struct, _context: ToolContext) -> ToolOutput:
        return ToolOutput(content=f"the {name} that was brought")

    return Tool(
        name=name, description="Says who it is.", args=args, risk="read", run=run, mutating=never_mutating
    )


async def test_a_tool_that_was_brought_is_one_like_the_others():
    async with harness(
        scripted(call("weather"), say("Done.")), tools=[brought("weather")], allow=("weather",)
    ) as session:
        events = await session.ask("go")
    (prefix,) = of_kind(events, PrefixSet)
    assert prefix.tools[-1].name == "weather", "behind the built-in ones"
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.content) == ("ok", "the weather that was brought")


async def test_a_tool_that_was_brought_passes_every_gate():
    async with harness(
        scripted(call("weather"), say("Done.")), tools=[brought("weather")], deny=("weather",)
    ) as session:
        assert outcomes(await session.ask("go")) == ["denied"]


@pytest.mark.requirement("D5.3")
async def test_a_tool_cannot_take_a_built_in_name_and_that_is_told():
    model = scripted(call("read_file", path="a.txt"), call("weather"), say("Done."))
    tools = [brought("read_file", Path), brought("weather"), brought("weather")]
    async with harness(model, tools=tools, allow=("weather",)) as session:
        with open(f"{session.folder}/a.txt", "w") as file:
            file.write("what the file says")
        events = await session.ask("go")
        stored = [envelope.event for envelope in await session.stored()]
    read, weather = of_kind(events, ToolResult)
    assert "what the file says" in read.content, "the built-in one ran"
    assert weather.content == "the weather that was brought"
    (prefix,) = of_kind(events, PrefixSet)
    names = [tool.name for tool in prefix.tools]
    assert (names.count("read_file"), names.count("weather")) == (1, 1)
    assert [(notice.reason, notice.message) for notice in of_kind(stored, Notice)] == [
        (
            "ToolNameTaken",
            f'The programmatic tool "{name}" was left out: a tool of that name is there already.',
        )
        for name in ("read_file", "weather")
    ]
