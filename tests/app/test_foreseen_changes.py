"""What a call would make of files is worked out by the engine, from the files as they are, before anybody is asked."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from bridle.base.text.line_diff import DiffLine
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.protocol.commands import AnswerPermission, PermissionChoice
from bridle.protocol.events import (
    FileChange,
    PermissionDecided,
    PermissionRequested,
    ToolCallStarted,
    ToolResult,
)
from bridle.providers.script import call, say
from bridle.tools.patches.foreseen_changes import MAX_SHOWN_CHARACTERS
from tables import table

OLD = "one\ntwo\nthree\n"
PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-two
+2
*** Add File: new.txt
+fresh
*** Delete File: gone.txt
*** End Patch"""


def write(folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8", newline="") as file:
            file.write(text)


async def answer(session: HarnessSession, request: PermissionRequested, word: PermissionChoice) -> None:
    await session.connection.send(
        AnswerPermission(session=session.id, call_id=request.call_id, answer=word, digest=request.digest)
    )


async def asked_about(tool: str, files: dict[str, str], **given: Any) -> tuple[FileChange, ...]:
    async with harness(scripted(call(tool, **given), say("Done.")), answers=True) as session:
        write(session.folder, files)
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await answer(session, request, "deny")
        await session.turn_of(number)
    return request.changes


async def test_a_replaced_text_is_shown_where_it_stands_in_the_file() -> None:
    (change,) = await asked_about("edit_file", {"a.txt": OLD}, path="a.txt", old_string="two", new_string="2")
    assert (change.path, change.kind, change.added, change.removed) == ("a.txt", "change", 1, 1)
    assert change.lines == (
        DiffLine(" ", 1, "one"),
        DiffLine("-", 2, "two"),
        DiffLine("+", 2, "2"),
        DiffLine(" ", 3, "three"),
    )
    assert change.sha256 == hashlib.sha256(OLD.encode()).hexdigest()


@table("before", ["x" * (MAX_SHOWN_CHARACTERS + 1), "line\n" * 30_000 + "line"])
async def test_nothing_that_stays_pushes_what_changes_out_of_sight(before: str) -> None:
    text = f"{before}\nend\nafter\n"
    (change,) = await asked_about(
        "edit_file", {"a.txt": text}, path="a.txt", old_string="end", new_string="END"
    )
    assert [line.text for line in change.lines if line.mark in "-+"] == ["end", "END"]
    assert (change.added, change.removed, change.cut) == (1, 1, 0)


@table(
    ("tool", "given"),
    [
        ("write_file", {"content": "nothing\n"}),
        ("edit_file", {"old_string": "# last", "new_string": "# end"}),
    ],
)
async def test_a_key_of_many_lines_in_the_file_is_not_told(tool: str, given: dict[str, str]) -> None:
    kind = "PRIVATE KEY"
    body = [f"{'Ab3' * 20}{number}" for number in range(4)]
    text = "\n".join((f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----", "# last", ""))
    (change,) = await asked_about(tool, {"a.txt": text}, path="a.txt", **given)
    told = [line.text for line in change.lines]
    assert not set(body) & set(told)
    assert "# last" in told
    assert len([line for line in change.lines if line.mark in "- "]) == 7, "what goes is still counted"


async def test_a_patch_is_shown_file_by_file() -> None:
    changes = await asked_about("apply_patch", {"a.txt": OLD, "gone.txt": "bye\n"}, patch=PATCH)
    assert [(change.path, change.kind, change.added, change.removed) for change in changes] == [
        ("a.txt", "change", 1, 1),
        ("new.txt", "create", 1, 0),
        ("gone.txt", "delete", 0, 1),
    ]
    assert changes[1].lines == (DiffLine("+", 1, "fresh"),)


async def test_a_new_file_and_one_that_stays_the_same_are_told_as_such() -> None:
    (new,) = await asked_about("write_file", {}, path="a.txt", content=OLD)
    assert (new.kind, new.added) == ("create", 3)
    (same,) = await asked_about("write_file", {"a.txt": OLD}, path="a.txt", content=OLD)
    assert (same.lines, same.only_ends) == ((), False)
    (ends,) = await asked_about("write_file", {"a.txt": OLD}, path="a.txt", content=OLD.rstrip())
    assert (ends.lines, ends.only_ends) == ((), True)


async def test_a_long_file_is_told_by_what_changes_and_a_long_change_is_cut() -> None:
    lines = [f"line {number} of a long file" for number in range(1_500)]
    text = "\n".join(lines) + "\n"
    (change,) = await asked_about(
        "edit_file", {"a.txt": text}, path="a.txt", old_string=lines[700], new_string="other"
    )
    assert len(change.lines) == 10, "three lines on either side, and how many are left out"
    (new,) = await asked_about("write_file", {}, path="b.txt", content=text * 10)
    assert new.added == 15_000
    assert new.cut == 15_000 - len(new.lines) > 0
    assert sum(len(line.text) for line in new.lines) <= MAX_SHOWN_CHARACTERS


UNFIT = pytest.mark.parametrize(
    ("tool", "given", "reason"),
    [
        ("edit_file", {"path": "a.txt", "old_string": "nowhere", "new_string": "x"}, "TextNotFound"),
        ("edit_file", {"path": "a.txt", "old_string": "e", "new_string": "x"}, "TextNotFound"),
        ("edit_file", {"path": "no.txt", "old_string": "e", "new_string": "x"}, "FileUnreadable"),
        ("apply_patch", {"patch": PATCH.replace("-two", "-zwei")}, "PatchDoesNotApply"),
        ("write_file", {"path": ".", "content": "x"}, "FileUnwritable"),
    ],
    ids=["a text that is not there", "one that is there twice", "no file", "a misfit patch", "a folder"],
)


@UNFIT
@pytest.mark.parametrize("nobody", [True, False], ids=["nobody is there", "somebody is"])
async def test_nobody_is_asked_about_a_change_that_cannot_be_made(
    tool: str, given: dict[str, Any], reason: str, nobody: bool
) -> None:
    async with harness(scripted(call(tool, **given), say("I see.")), answers=not nobody) as session:
        write(session.folder, {"a.txt": OLD, "gone.txt": "bye\n"})
        events = await session.ask("go")
        (result,) = of_kind(events, ToolResult)
        assert (result.outcome, result.reason) == ("error", reason)
        assert not of_kind(events, PermissionRequested)
        assert not of_kind(events, PermissionDecided), "nothing was decided"
        assert not of_kind(events, ToolCallStarted)
        with open(f"{session.folder}/a.txt", encoding="utf-8") as file:
            assert file.read() == OLD


@UNFIT
async def test_what_a_file_holds_is_told_after_the_question_where_reading_it_would_ask(
    tool: str, given: dict[str, Any], reason: str
) -> None:
    model = scripted(call(tool, **given), say("I see."))
    async with harness(model, answers=True, mode="strict") as session:  # reading asks too
        write(session.folder, {"a.txt": OLD, "gone.txt": "bye\n"})
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        assert request.changes == ()
        await answer(session, request, "once")
        (result,) = of_kind(await session.turn_of(number), ToolResult)
    assert (result.outcome, result.reason) == ("error", reason)


async def test_a_file_that_somebody_changed_since_it_was_read_is_shown_before_anybody_is_asked() -> None:
    model = scripted(
        call("read_file", path="a.txt"),
        say("Read."),
        call("write_file", path="a.txt", content="mine\n"),
        call("write_file", path="a.txt", content="mine\n"),
        say("Done."),
    )
    async with harness(model, answers=True) as session:
        write(session.folder, {"a.txt": OLD})
        await session.ask("look")
        write(session.folder, {"a.txt": "theirs\n"})
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await answer(session, request, "once")
        first, second = of_kind(await session.turn_of(number), ToolResult)
    assert (first.outcome, first.reason) == ("error", "ChangedSinceRead")
    assert "+theirs" in first.content
    assert (request.call_id, second.outcome) == (second.call_id, "ok"), "asked about the one that can be made"


async def test_a_secret_near_the_place_of_a_failed_edit_is_masked() -> None:
    secret = "ghp_" + "aB3" * 12
    model = scripted(
        call("edit_file", path="a.txt", old_string="first line\nother", new_string="x"), say("I see.")
    )
    async with harness(model, answers=True) as session:
        write(session.folder, {"a.txt": f"first line\ntoken: {secret}\n"})
        (result,) = of_kind(await session.ask("go"), ToolResult)
    assert "first line" in result.content
    assert secret not in result.content


async def test_a_file_that_changes_after_it_was_shown_is_not_written() -> None:
    model = scripted(call("edit_file", path="a.txt", old_string="two", new_string="2"), say("Done."))
    async with harness(model, answers=True) as session:
        write(session.folder, {"a.txt": OLD})
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        write(session.folder, {"a.txt": f"{OLD}four\n"})
        await answer(session, request, "once")
        (result,) = of_kind(await session.turn_of(number), ToolResult)
    assert result.reason == "ChangedSinceApproval"
