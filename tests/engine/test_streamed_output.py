"""Tool layers stand in the stream of a call: they see what it prints as it prints, and may change it."""

import os

import msgspec
import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.dispatch import ToolLayers
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.protocol.events import ToolCallProgress, ToolResult
from bridle.providers.script import call, say
from bridle.safety.redacted import redacted


def a_secret() -> str:
    return "AKIA" + "Q7ZX" * 4


async def at_once() -> None:
    """Nobody to wait for."""


@pytest.mark.requirement("G7.4")
async def test_a_layer_sees_streamed_output_piece_by_piece_and_may_change_it():
    seen: list[str] = []
    shown: list[str] = []
    secret = a_secret()

    async def shouting(given: ToolCall, proceed: RunTool) -> ToolOutput:
        def write(text: str) -> None:
            seen.append(text)
            given.write(text.upper())

        return await proceed(msgspec.structs.replace(given, write=write))

    async def printing(given: ToolCall) -> ToolOutput:
        given.write("one ")
        assert seen == ["one "], "before the call has ended"
        given.write(f"key {secret[:9]}")
        given.write(f"{secret[9:]} two")
        return ToolOutput(content="done")

    layers = ToolLayers(one_at_a_time=(), together=(shouting, redacted()))
    given = ToolCall(
        id="call_1",
        name="bash",
        input={},
        step=1,
        originator="cli_1",
        write=shown.append,
        passed_gates=at_once,
        partial=[],
    )
    output = await layers.around(printing)(given)
    assert output.content == "done"
    assert secret[:9] not in "".join(seen), "the inner layer redacts what the outer one sees"
    assert "".join(shown) == "".join(seen).upper()
    assert "".join(seen).startswith("one key «redacted:")
    assert "".join(seen).endswith("» two")


@pytest.mark.requirement("G7.4")
async def test_what_a_command_prints_meanwhile_reaches_nobody_unredacted():
    secret = a_secret()
    command = f"printf 'key {secret[:9]}'; printf '{secret[9:]}\\n'; read x < go; echo end"
    async with harness(scripted(call("bash", command=command), say("Done.")), mode="auto") as session:
        os.mkfifo(os.path.join(session.folder, "go"))
        number = await session.send("go")
        live = (await session.until(ToolCallProgress, since=number)).text
        with open(os.path.join(session.folder, "go"), "w", encoding="ascii"):
            pass
        events = await session.turn_of(number)
    (result,) = of_kind(events, ToolResult)
    for text in (live, result.content):
        assert secret not in text
        assert "«redacted:" in text
    assert result.content.endswith("end\n")
