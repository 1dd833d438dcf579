"""One check per port, for every implementation of it: ours, a plugin's, a fake.

Each takes something that makes a fresh instance, talks to it through the port alone, and fails with an AssertionError
that names the promise that was broken. `check_provider` is in `conformance.models`, beside the models.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bridle.credentials.records import ApiKey, CredentialStore, SignIn
from bridle.engine.ports import SessionLog
from bridle.protocol.codec import encode_payload, payload_of
from bridle.protocol.commands import (
    AttachSession,
    CancelTurn,
    CreateSession,
    CustomCommand,
    DetachSession,
    EndSession,
    SendInput,
)
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.events import AnyEvent, Envelope, TextDelta, TurnEnded, TurnStarted
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import DescribeSession


async def check_session_log(log: SessionLog, session: str) -> None:
    """Ids from 1 without gaps, what was appended comes back in order and byte for byte, and pages join up."""
    assert log.last_id == 0, "a new log is empty"
    assert list(await log.since(0, limit=10)) == []
    written = [_envelope(session, number, TextDelta(text=f"event {number} é")) for number in range(1, 8)]
    payloads = ['{"text":"event 1 é","of a newer version":true}'.encode()]
    payloads += [encode_payload(envelope.event) for envelope in written[1:]]
    for envelope, payload in zip(written, payloads, strict=True):
        log.append(envelope, payload)
    assert log.last_id == 7, "the last id is known as soon as an event is appended"
    assert list(await log.since(0, limit=100)) == written, "a reader sees everything appended before it asked"
    await log.committed()
    await log.durable()
    first = list(await log.since(0, limit=3))
    rest = list(await log.since(3, limit=100))
    assert first + rest == written, "pages join up without a gap or a repetition"
    assert [payload_of(one) for one in first + rest] == payloads, (
        "an event keeps the bytes it was appended with"
    )
    assert list(await log.since(7, limit=10)) == []


def _envelope(session: str, number: int, event: AnyEvent) -> Envelope:
    return Envelope(
        id=number,
        kind=type(event).__name__,
        session=session,
        originator="cli_" + "0" * 26,
        ts_ms=1_700_000_000_000 + number,
        event=event,
        turn=1,
    )


def check_credential_store(make: Callable[[], CredentialStore]) -> None:
    """One credential per provider, seen at once by every instance on the same place, of which `make` gives another."""
    store = make()
    assert store.get("work") is None, "a new store is empty"
    assert store.list() == []
    assert not store.delete("work"), "what is not there is not deleted"
    key = ApiKey(provider="work", secret="é" * 40, account="mine", saved_ms=1)
    signed_in = SignIn(provider="a.b/c d", access_token="x" * 4000, refresh_token="y" * 40, expires_at_ms=2)
    store.put(key)
    store.put(signed_in)
    assert store.get("work") == key, "what was put comes back as it was"
    assert make().list() == [signed_in, key], "another instance sees it, by the names of the providers"
    renewed = SignIn(provider="a.b/c d", access_token="z" * 40)
    make().put(renewed)
    assert store.get("a.b/c d") == renewed, "the last one put is the one there is, whoever put it"
    assert not make().exchange(signed_in, key), "one that is not there any more is not replaced"
    assert store.exchange(renewed, signed_in)
    assert make().get("a.b/c d") == signed_in, "one that is there is"
    assert store.exchange(signed_in, renewed)
    assert store.delete("work"), "what was deleted was there"
    assert make().get("work") is None
    assert not store.exchange(key, key), "nor does one come back"
    assert store.list() == [renewed], "the others stay"


async def check_connection(connect: Callable[[], Awaitable[Connection]], create: CreateSession) -> None:
    """A client's whole life. `create` opens a session whose model ends a turn by itself."""
    connection = await connect()
    assert connection.hello.protocol_version, "the other side says what it speaks"
    session = (await connection.send(create)).session
    await _refused(connection, SendInput(session="sess_" + "0" * 26, content=()), "SessionNotOpen")
    await _refused(connection, CancelTurn(session=session), "NoTurn")
    unknown = CustomCommand(namespace="nobody", verb="knows", session=session)
    await _refused(connection, unknown, "NotSupported")

    described = await connection.ask(DescribeSession(session=session))
    assert described.session.id == session, "a query is answered about what was asked"
    assert connection.client in {client.id for client in described.clients}, "who is attached is known"
    assert "DescribeSession" in connection.hello.query_kinds, "what can be asked is announced"

    sent = await connection.send(SendInput(session=session, content=(TextBlock(text="hello"),)))
    seen = await _until_turn_ended(connection, session, since=0)
    ids = [envelope.id for envelope in seen if envelope.id is not None]
    assert ids == list(range(1, len(ids) + 1)), "ids start at 1 and have no gaps"
    assert any(isinstance(e.event, TurnStarted) and e.event.input == sent.event for e in seen)
    originators = {envelope.originator for envelope in seen if envelope.turn is not None}
    assert originators == {connection.client}, "every event of a turn names its originator"

    other = await connect()
    assert other.client != connection.client, "a client has an id of its own"
    await _refused(other, CancelTurn(session=session), "NotAttached")
    await _not_told(other, session)
    await other.send(AttachSession(session=session))
    again = await _until_turn_ended(other, session, since=0)
    durable = [envelope for envelope in seen if envelope.id is not None]
    assert [e for e in again if e.id is not None] == durable, "every client sees the same events"
    half = len(ids) // 2
    tail = await _until_turn_ended(other, session, since=half)
    assert [e for e in tail if e.id is not None] == durable[half:], "a client comes back at its last id"

    await other.send(DetachSession(session=session))
    await other.close()
    await other.close()
    await connection.send(EndSession(session=session))
    await _refused(connection, CancelTurn(session=session), "SessionNotOpen")
    await connection.close()


async def _until_turn_ended(connection: Connection, session: str, *, since: int) -> list[Envelope]:
    seen: list[Envelope] = []
    async for envelope in connection.events(session, since=since):
        seen.append(envelope)
        if isinstance(envelope.event, TurnEnded):
            return seen
    raise AssertionError("the events ended before the turn did")


async def _not_told(connection: Connection, session: str) -> None:
    try:
        async for _ in connection.events(session):
            break
    except BridleError as refused:
        assert refused.reason == "NotAttached", f"who is not attached is told so, not {refused.reason}"
        return
    raise AssertionError("who is not attached reads nothing")


async def _refused(
    connection: Connection, command: SendInput | CancelTurn | CustomCommand, reason: str
) -> None:
    try:
        await connection.send(command)
    except BridleError as refused:
        assert refused.reason == reason, (
            f"{type(command).__name__} is refused with {reason}, not {refused.reason}"
        )
        return
    raise AssertionError(f"{type(command).__name__} is refused with {reason}")
