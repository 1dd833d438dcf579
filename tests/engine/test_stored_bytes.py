"""Who follows a session gets its events byte for byte as they are stored: live, late, from the ring or the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.bus import RING_BYTES, Bus
from bridle.protocol import events as e
from bridle.protocol.codec import EXPIRED, decode_envelope, decode_payload, encode_envelope, encode_payload
from bridle.protocol.commands import AttachSession
from bridle.protocol.events import AnyEvent, Envelope
from bridle.providers.script import say
from bridle.sessions.store import SessionStore
from protocol.test_codec import value_of
from sessions.session_kit import envelope, opened, put, raw

EVERY_KIND: tuple[AnyEvent, ...] = tuple(map(value_of, e.DurableEvent.__args__))
OF_A_NEWER_VERSION = (
    ("TextDelta", b'{"text":"a","tone":"warm"}'),
    ("TextDelta", b'{ "text" : "with room" }'),
    (
        "QuestionAsked",
        b'{"question_id":"q","question":{"about":"words","text":"?"},"sound":1}',
    ),
    ("Weather", b'{"rain":[1,2.50,"\\u00e4"]}'),
)
IN_WORDS = Path(__file__).parents[1] / "sessions/old/questions-0.1.jsonl"


async def read_by_a_client(home: Path, rows: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """The payloads a client gets that attaches to a stored session with these events."""
    async with harness(scripted(say("x")), home=str(home)) as here:
        model = here.conversation.model
        assert model is not None
        session = kept(here.engine.store, rows, model)
        client = here.engine.connect(name="late", answers=False)
        await client.send(AttachSession(session=session))
        reader = client.events(session, since=1)
        return [_payload(encode_envelope(await anext(reader))) for _ in rows]


def _payload(wire: bytes) -> bytes:
    return bytes(msgspec.json.decode(wire, type=dict[str, msgspec.Raw])["payload"])


def kept(store: SessionStore, rows: Iterable[tuple[str, bytes]], *before: AnyEvent) -> str:
    """A closed session with these events in it."""
    with closing(store.create("/work", profile="default")) as log:
        put(log, *before)
        for kind, payload in rows:
            log.append(envelope(log, decode_payload(kind, payload)), payload)
        return log.session


async def test_an_event_of_any_kind_is_the_same_bytes_live_and_after_reopening(tmp_path: Path) -> None:
    with opened(tmp_path) as store, closing(store.create("/work", profile="default")) as log:
        bus, stored = Bus(1), put(log, *EVERY_KIND)
        for one in stored:
            bus.publish(one, encode_payload(one.event))
        bus.close()
        live = [encode_envelope(one) async for one in bus.follow(log, 0)]
        session = log.session
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        closed = Bus(log.last_id + 1)
        closed.close()
        late = [encode_envelope(one) async for one in closed.follow(log, 0)]
        past = [encode_envelope(one) for one in store.events(session)]
    assert len(live) == len(EVERY_KIND)
    assert late == live
    assert past == live
    assert [encode_envelope(decode_envelope(one)) for one in live] == live


@pytest.mark.requirement("G25.1")
async def test_what_a_newer_version_wrote_reaches_a_client_unchanged(tmp_path: Path) -> None:
    got = await read_by_a_client(tmp_path, OF_A_NEWER_VERSION)
    assert got == [payload for _, payload in OF_A_NEWER_VERSION]


async def test_a_wire_hands_on_the_bytes_it_received() -> None:
    for kind, payload in OF_A_NEWER_VERSION:
        event = decode_payload(kind, payload)
        place = Envelope(id=1, kind=kind, session="s", originator="c", ts_ms=0, event=event)
        wire = encode_envelope(place, payload)
        assert encode_envelope(decode_envelope(wire)) == wire


async def test_an_event_larger_than_the_ring_is_the_bytes_that_are_stored(tmp_path: Path) -> None:
    payload = b'{"text":"%s","tone":"warm"}' % (b"x" * RING_BYTES)
    with opened(tmp_path) as store, closing(store.create("/work", profile="default")) as log:
        bus = Bus(1)
        reader = bus.follow(log, 0)
        large = envelope(log, decode_payload("TextDelta", payload))
        log.append(large, payload)
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        bus.publish(large, payload)
        assert _payload(encode_envelope(await waiting)) == payload


async def test_questions_of_an_old_log_are_handed_out_in_the_shape_of_today(tmp_path: Path) -> None:
    lines = [msgspec.json.decode(line) for line in IN_WORDS.read_bytes().splitlines()]
    rows = [(line["kind"], msgspec.json.encode(line["payload"])) for line in lines]
    asked = [(kind, payload) for kind, payload in rows if kind.startswith("Question")]
    assert asked
    got = await read_by_a_client(tmp_path, asked)
    today = [encode_payload(decode_payload(kind, payload)) for kind, payload in asked]
    assert got == today
    assert today != [payload for _, payload in asked]


async def test_what_has_expired_stays_what_is_left_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        session = kept(store, OF_A_NEWER_VERSION[:2])
    with closing(raw(tmp_path)) as connection:
        connection.execute("update events set payload = null, salt = null where id = 2")
    with opened(tmp_path) as store:
        first, expired = map(encode_envelope, store.events(session))
        assert (_payload(first), _payload(expired)) == (OF_A_NEWER_VERSION[0][1], EXPIRED)
