"""What a call that is stopped in the middle leaves behind in words."""

import os
import re

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.commands import CancelTurn
from bridle.protocol.events import ToolCallProgress, ToolResult
from bridle.providers.script import call, say


async def cancelled_result(command: str) -> ToolResult:
    async with harness(scripted(call("bash", command=command), say("never")), mode="auto") as session:
        os.mkfifo(os.path.join(session.folder, "pipe"))
        number = await session.send("go")
        await session.until(ToolCallProgress, since=number)
        await session.connection.send(CancelTurn(session=session.id))
        (result,) = of_kind(await session.turn_of(number), ToolResult)
    assert result.outcome == "cancelled"
    return result


@pytest.mark.requirement("G47.13")
async def test_a_stopped_command_names_the_files_it_may_have_changed():
    result = await cancelled_result("echo x > notes.txt; touch sub.txt; echo begun; read x < pipe")
    assert result.reason == "BashCancelledMidCommand"
    assert re.fullmatch(
        r"begun\nCancelled mid-Bash\. The command ran for \d+\.\d s and may have modified files\. "
        r"Files possibly affected: notes\.txt, sub\.txt\. Review /diff to see what changed\.",
        result.content,
    )


async def test_where_a_command_names_no_file_that_is_said():
    result = await cancelled_result("echo begun; python3 -c 'open(\"pipe\")'")
    assert "Files possibly affected: not known." in result.content


async def test_a_stopped_command_that_only_reads_has_changed_nothing():
    result = await cancelled_result("echo begun; cat pipe")
    assert (result.reason, result.content) == (
        "ToolCancelled",
        "begun\nbash was cancelled before it finished.",
    )
