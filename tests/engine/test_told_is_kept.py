"""What a client was told survives the death of the process, and nothing silences a client."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridle.app.user.stored_keys import session_store
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.engine.bus import RING_BYTES
from bridle.protocol.codec import encode_payload
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Envelope, ToolCallStarted, TurnEnded
from bridle.providers.script import answer, call, say
from sessions.session_kit import python

DIES_AT_ONCE = """
import asyncio, json, os, signal
from bridle.conformance.harness import harness
from bridle.conformance.fake_models import scripted
from bridle.protocol.codec import encode_payload
from bridle.providers.script import answer, call, say

folder, home, kind = sys.argv[1:]

async def main():
    model = scripted(call("write_file", path="a.txt", content="x"), say("Done."))
    async with harness(model, folder=folder, home=home, mode="auto") as session:
        await session.send("go")
        async for envelope in session.connection.events(session.id):
            if envelope.id is not None:
                told = [envelope.id, encode_payload(envelope.event).decode()]
                os.write(1, (json.dumps([session.id, *told]) + "\\n").encode())
            if envelope.kind == kind:
                os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.requirement("G24.1")
@pytest.mark.parametrize(
    "kind", ["InputAccepted", "PermissionDecided", "ToolResult", "StepEnded", "TurnEnded"]
)
def test_every_event_a_client_has_read_is_there_after_the_process_was_killed(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "work").mkdir()
    dying = python(DIES_AT_ONCE, str(tmp_path / "work"), str(tmp_path / "home"), kind)
    out, said = dying.communicate(timeout=60)
    assert dying.returncode == -signal.SIGKILL, said
    told = [json.loads(line) for line in out.splitlines()]
    store = session_store({"BRIDLE_HOME": str(tmp_path / "home")})
    try:
        kept = {event.id: encode_payload(event.event).decode() for event in store.events(told[0][0])}
    finally:
        store.close()
    assert [(number, kept.get(number)) for _, number, _ in told] == [
        (number, content) for _, number, content in told
    ]


async def _follow_a_broken_disk(told: list[str]) -> None:
    async with harness(scripted(say("Hi."))) as session:
        await session.ask("go")
        following = session.connection.events(session.id, since=session.conversation.last_id)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)

        def broken(_connection: object) -> None:
            raise StoreError("StoreUnwritable", path="x", problem="the disk is gone")

        session.engine.store._writer.change(broken)
        with pytest.raises(StoreError) as failure:
            await asyncio.wait_for(waiting, 20)
        told.append(failure.value.reason)


async def test_a_writer_that_fails_behind_the_last_event_ends_its_readers_with_the_reason() -> None:
    told: list[str] = []
    with pytest.raises(StoreError):  # closing says it once more, also to who was told nothing
        await _follow_a_broken_disk(told)
    assert told == ["StoreFailed"]


async def test_an_event_that_is_larger_than_the_ring_reaches_a_client_that_follows() -> None:
    content = "x" * (RING_BYTES + 1)
    model = scripted(call("write_file", path="a.txt", content=content), say("Done."))
    async with harness(model, mode="auto") as session:
        events = await session.ask("go")
        assert [one.input["content"] for one in of_kind(events, ToolCallStarted)] == [content]
        assert isinstance(events[-1], TurnEnded)
        numbers = [envelope.id async for envelope in _until_the_end(session)]
        assert numbers == list(range(1, len(numbers) + 1))


async def test_a_burst_that_is_larger_than_the_ring_reaches_a_client_that_follows_without_a_gap() -> None:
    model = scripted(answer(*[say("x" * 4_000, chunk=4_000)] * (2 * RING_BYTES // 4_000)))
    async with harness(model) as session:
        await session.send("go")
        seen = [envelope async for envelope in _until_the_end(session)]
    assert [envelope.kind for envelope in seen if envelope.id is None] == []
    assert [envelope.id for envelope in seen] == list(range(1, len(seen) + 1))


async def _until_the_end(session: HarnessSession) -> AsyncIterator[Envelope]:
    async for envelope in session.connection.events(session.id):
        yield envelope
        if isinstance(envelope.event, TurnEnded):
            return
