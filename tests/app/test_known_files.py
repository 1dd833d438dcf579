"""Files that change under the model's feet: what it did not see is not overwritten unasked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.events import AnyEvent, PermissionRequested, ToolResult
from bridle.providers.script import call, say

pytestmark = pytest.mark.requirement("D9.4")


def results(events: list[AnyEvent]) -> list[ToolResult]:
    return [event for event in events if isinstance(event, ToolResult)]


def write(content: str):
    return call("write_file", path="a.txt", content=content)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "work" / "a.txt"
    file.parent.mkdir()
    file.write_text("one\ntwo\nthree\n")
    return file


async def test_a_file_that_changed_since_it_was_read_is_kept_once_and_the_change_is_shown(file: Path) -> None:
    model = scripted(
        call("read_file", path="a.txt"), say("read"), write("1\n"), say("oh"), write("1\n"), say("done")
    )
    async with harness(model, folder=str(file.parent), mode="yolo") as session:
        await session.ask("read it")
        file.write_text("one\nTWO, by hand\nthree\n")
        [refused] = results(await session.ask("write it"))
        assert (refused.outcome, refused.reason) == ("error", "ChangedSinceRead")
        assert "-two\n+TWO, by hand\n" in refused.content
        assert file.read_text() == "one\nTWO, by hand\nthree\n"
        [written] = results(await session.ask("write it all the same"))
        assert written.outcome == "ok"
        assert file.read_text() == "1\n"


async def test_what_was_read_is_known_after_a_resume_too(file: Path, tmp_path: Path) -> None:
    model = scripted(call("read_file", path="a.txt"), say("read"), write("1\n"), say("oh"))
    places = {"folder": str(file.parent), "home": str(tmp_path / "home")}
    async with harness(model, mode="yolo", **places) as session:
        await session.ask("read it")
        name = session.id
    file.write_text("by hand\n")
    async with harness(model, mode="yolo", resume=name, **places) as session:
        [refused] = results(await session.ask("write it"))
    assert refused.reason == "ChangedSinceRead"
    assert file.read_text() == "by hand\n"


async def test_a_file_changed_again_after_the_refusal_is_kept_again(file: Path) -> None:
    model = scripted(
        call("read_file", path="a.txt"), say("read"), write("1\n"), say("oh"), write("1\n"), say("oh")
    )
    async with harness(model, folder=str(file.parent), mode="yolo") as session:
        await session.ask("read it")
        for words in ("by hand\n", "by hand again\n"):
            file.write_text(words)
            [refused] = results(await session.ask("write it"))
            assert refused.reason == "ChangedSinceRead"
            assert file.read_text() == words


async def test_a_file_never_read_is_not_replaced_unasked_the_first_time(file: Path) -> None:
    model = scripted(write("1\n"), write("1\n"), say("done"))
    async with harness(model, folder=str(file.parent), mode="yolo") as session:
        refused, written = results(await session.ask("write it"))
    assert (refused.outcome, refused.reason) == ("error", "NeverRead")
    assert "read it first" in refused.content
    assert written.outcome == "ok"
    assert file.read_text() == "1\n"


async def test_a_file_never_read_is_replaced_when_a_person_said_yes_to_it(file: Path) -> None:
    async with harness(
        scripted(write("1\n"), say("done")), folder=str(file.parent), mode="default", answers=True
    ) as session:
        turn = asyncio.ensure_future(session.ask("write it"))
        asked = await session.until(PermissionRequested)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=asked.call_id, digest=asked.digest, answer="once")
        )
        [written] = results(await turn)
    assert written.outcome == "ok"
    assert file.read_text() == "1\n"


@pytest.mark.parametrize(
    "command", ["cat a.txt", "head -1 ./a.txt | tr a-z A-Z", "echo mine > a.txt", "f=a; printf x >> $f.t?t"]
)
async def test_what_a_command_read_or_made_is_known(file: Path, command: str) -> None:
    model = scripted(call("bash", command=command), write("1\n"), say("done"))
    async with harness(model, folder=str(file.parent), mode="yolo") as session:
        _, written = results(await session.ask("write it"))
    assert written.outcome == "ok", written.content


async def test_what_the_model_wrote_or_edited_itself_is_known(file: Path) -> None:
    patch = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-new\n+newer\n"
    model = scripted(
        call("edit_file", path="a.txt", old_string="two", new_string="2"),
        write("1\n"),
        call("write_file", path="b.txt", content="new\n"),
        call("apply_patch", patch=patch),
        call("write_file", path="b.txt", content="newest\n"),
        say("done"),
    )
    async with harness(model, folder=str(file.parent), mode="yolo") as session:
        assert [result.outcome for result in results(await session.ask("go"))] == ["ok"] * 5


async def test_a_file_changed_by_a_command_that_nobody_could_read_is_kept_once(file: Path) -> None:
    """A formatter that ran outside: the model wrote the file, then somebody else changed it."""
    model = scripted(
        call("write_file", path="new.txt", content="a\nb\n"),
        say("made"),
        call("write_file", path="new.txt", content="a\nc\n"),
        say("oh"),
    )
    async with harness(model, folder=str(file.parent), mode="yolo") as session:
        await session.ask("make it")
        (file.parent / "new.txt").write_text("a\nb\nfrom elsewhere\n")
        [refused] = results(await session.ask("change it"))
    assert refused.reason == "ChangedSinceRead"
    assert "+from elsewhere\n" in refused.content


async def test_a_pipe_that_a_command_will_read_is_not_opened_before(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    opened: list[int] = []

    def write() -> None:
        with open(tmp_path / "go", "w", encoding="utf-8") as go:
            opened.append(go.write("hello\n"))

    writing = asyncio.create_task(asyncio.to_thread(write))
    model = scripted(call("bash", command="cat go"), say("Done."))
    async with harness(model, mode="yolo", folder=str(tmp_path)) as session:
        (result,) = results(await session.ask("go"))
    await writing
    assert (result.content, opened) == ("hello\n", [6])
