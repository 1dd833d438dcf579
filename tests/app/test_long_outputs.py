"""What a call printed beyond its result, and what a session changed, as clients ask for it."""

import os

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol import queries as q
from bridle.protocol.commands import AttachSession, ShellRequest
from bridle.protocol.errors import BridleError
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say
from bridle.tools.output import PART_BYTES


async def test_a_long_output_is_handed_out_in_parts_that_end_between_characters() -> None:
    count = PART_BYTES // 3  # of three bytes each, with one before them: a part would end inside one
    command = f"printf x; head -c {count + 400_000} /dev/zero | tr '\\0' a | sed 's/a/€/g'"
    async with harness(scripted(call("bash", command=command), say("Ok.")), mode="yolo") as session:
        events = await session.ask("go")
        (result,) = (event for event in events if isinstance(event, ToolResult))
        assert result.metadata["truncated"] is True
        parts: list[str] = []
        at: int | None = 0
        while at is not None:
            part = await session.connection.ask(
                q.ReadOutput(session=session.id, call_id=result.call_id, offset=at)
            )
            assert part.text is not None
            parts.append(part.text)
            at = part.next_offset
        assert len(parts) == 2
        assert "".join(parts) == "x" + "€" * (count + 400_000)


async def test_of_a_short_output_and_of_no_call_nothing_more_is_kept() -> None:
    async with harness(scripted(call("bash", command="echo short"), say("Ok.")), mode="auto") as session:
        events = await session.ask("go")
        (result,) = (event for event in events if isinstance(event, ToolResult))
        for call_id in (result.call_id, "call_nosuch", "../../etc/passwd", ""):
            query = q.ReadOutput(session=session.id, call_id=call_id)
            assert await session.connection.ask(query) == q.OutputPart()


async def test_what_commands_changed_is_told_by_undo_and_secrets_are_left_out() -> None:
    secret = "ghp_" + "A1b2" * 9
    model = scripted(call("bash", command="mkdir -p src; echo a > src/a.txt; rm old.txt"), say("Ok."))
    async with harness(model, mode="yolo") as session:
        with open(os.path.join(session.folder, "old.txt"), "w", encoding="utf-8") as file:
            file.write("old\n")
        assert await session.connection.ask(q.ListChanges(session=session.id)) == q.SessionChanges()
        events = await session.ask("go")
        (result,) = (event for event in events if isinstance(event, ToolResult))
        assert result.shown is not None
        assert result.shown.changed == ("old.txt", "src/a.txt")
        changes = await session.connection.ask(q.ListChanges(session=session.id))
        assert (changes.turn, changes.title) == (1, "go")
        assert [(file.path, file.kind, file.added, file.removed) for file in changes.files] == [
            ("old.txt", "delete", 0, 1),
            ("src/a.txt", "create", 1, 0),
        ]
        line = f"printf 'token = \"{secret}\"\\nplain = 1\\n' > conf.ini"
        before = session.conversation.last_id
        person = session.engine.connect(name="me", answers=True)
        await person.send(AttachSession(session=session.id))
        await person.send(ShellRequest(session=session.id, command=line))
        async for envelope in person.events(session.id, since=before):
            if isinstance(envelope.event, ToolResult):
                break
        own = await session.connection.ask(q.ListChanges(session=session.id))
        assert own.turn is None
        assert "plain = 1" in own.files[0].diff
        assert secret not in own.files[0].diff
        await person.close()
        with pytest.raises(BridleError, match="Turn 9 changed no files"):
            await session.connection.ask(q.ListChanges(session=session.id, what="9"))
