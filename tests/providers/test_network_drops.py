"""Drops, silence and damage on the way to a provider, on every wire: what is asked for again, how often and when."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from typing import Any

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.conformance.servers import LoopbackServer, ModelServer, Received, ReplyWriter
from bridle.conformance.servers_anthropic import AnthropicSpeech
from bridle.conformance.servers_chat import ChatSpeech
from bridle.conformance.servers_responses import ResponsesSpeech
from bridle.conformance.servers_speech import Speech
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import AnyEvent, StepFailed, TextDelta, TurnEnded
from bridle.protocol.messages import Usage
from bridle.providers.endpoints import Endpoint, WireName
from bridle.providers.remote import RemoteModel
from bridle.providers.script import Stop, answer, fail, say
from providers.wire_kit import WIRES, Unhurried

SPEECHES: dict[WireName, type[Speech]] = {
    "openai_chat": ChatSpeech,
    "openai_responses": ResponsesSpeech,
    "anthropic": AnthropicSpeech,
}
EMPTY_PARTS: dict[WireName, bytes] = {
    "openai_chat": b'data: {"choices":[{"delta":{"content":""}}]}\n\n',
    "openai_responses": b'data: {"type":"response.in_progress"}\n\n',
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
}
CALL_BEGINS: dict[WireName, bytes] = {
    "openai_chat": b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a",'
    b'"function":{"name":"todo","arguments":"{"}}]}}]}\n\n',
    "openai_responses": b'data: {"type":"response.output_item.added","output_index":0,'
    b'"item":{"type":"function_call","id":"f","call_id":"a","name":"todo"}}\n\n',
    "anthropic": b'data: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"tool_use","id":"a","name":"todo","input":{}}}\n\n',
}
CALL_GROWS: dict[WireName, bytes] = {
    "openai_chat": b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}]}\n\n',
    "openai_responses": b'data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":" "}\n\n',
    "anthropic": b'data: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"input_json_delta","partial_json":" "}}\n\n',
}

Connect = Callable[..., RemoteModel]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A provider for a server; its connections are closed after the test."""
    connections = HttpConnections(env={}, clock=SystemClock())

    def connected(base_url: str, **more: Any) -> RemoteModel:
        key = "sk-" + "test" + "0123456789abcdef"
        endpoint = Endpoint(name="work", base_url=base_url, key_env="WORK_API_KEY", **more)
        return RemoteModel(endpoint, lambda: key, connections)

    yield connected
    await connections.close()


class Beating(LoopbackServer):
    """Begins a stream with `first` and then says `beat` every so many seconds, for ever or `times`.

    A dozen beats at most come before their end: more of them, without real time between, are gathered by the reader.
    """

    def __init__(
        self,
        clock: FakeClock,
        first: bytes,
        beat: bytes,
        every_s: float = 50,
        then: bytes = b"",
        times: int = 10**6,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._first = first
        self._beats = (beat, every_s, then, times)

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        beat, every_s, then, times = self._beats
        await reply.begin_stream()
        await reply.write(self._first)
        for _ in range(times):
            await self._clock.sleep(every_s)
            await reply.write(beat)
        await reply.write(then)
        return await reply.end_stream()


class Fixed(LoopbackServer):
    """Every request gets this status, these headers and this body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__()
        self._given = (status, headers, body)

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        return await reply.raw(*self._given)


class Passing:
    """A turn as time passes: fast while a request is under way, and slowly between, where threads have work to do."""

    def __init__(self, session: HarnessSession, server: LoopbackServer, clock: FakeClock) -> None:
        self.events: list[AnyEvent] = []
        self.waited_s: list[float] = []
        """How long each request that failed was waited for."""
        self._failed_s: list[float] = []
        self._start_ms = clock.now_ms() - round(clock.monotonic() * 1000)
        self._session = session
        self._server = server
        self._clock = clock

    async def ask(self) -> list[AnyEvent]:
        number = await self._session.send("hello")
        turn = asyncio.ensure_future(self._listen(number))
        asked_s = list[float]()
        while not turn.done():
            failed = len(of_kind(self.events, StepFailed))
            await self._clock.advance(1 if len(asked_s) > failed else 0.05)
            asked_s += [self._clock.monotonic()] * (len(self._server.requests) - len(asked_s))
        self.waited_s = [failed - asked for failed, asked in zip(self._failed_s, asked_s, strict=False)]
        return self.events

    async def _listen(self, number: int) -> None:
        async for envelope in self._session.connection.events(self._session.id, since=number):
            self.events.append(envelope.event)
            if isinstance(envelope.event, StepFailed):
                self._failed_s.append((envelope.ts_ms - self._start_ms) / 1000)
            if isinstance(envelope.event, TurnEnded):
                return


def spoken(wire: WireName) -> Speech:
    return SPEECHES[wire]({}, number=0, usage=Usage())


def gaps(text: str | None) -> list[str]:
    """What a sentence names without a value."""
    return re.findall(r"<\w+>", text or "")


# Nobody there


@pytest.mark.requirement("D8.70", "C27")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_that_is_reset_is_tried_five_times(connect: Connect, wire: WireName) -> None:
    async with ModelServer.playing(say("Hi."), faults=["reset"] * 9) as server:
        async with harness(connect(server.url, wire=wire), clock=Unhurried()) as session:
            events = await session.ask("hello")
        assert len(server.chats) == 5
    failed = of_kind(events, StepFailed)
    assert [(one.reason, one.attempt, one.attempts) for one in failed] == [
        ("ProviderUnreachable", number, 5) for number in (1, 2, 3, 4, 5)
    ]
    assert [one.retry_in_ms is None for one in failed] == [False] * 4 + [True]
    assert of_kind(events, TurnEnded)[0].reason == "ProviderUnreachable"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_short_drop_does_not_end_a_turn(connect: Connect, wire: WireName) -> None:
    async with (
        ModelServer.playing(say("Hi."), faults=["reset"] * 4) as server,
        harness(connect(server.url, wire=wire), clock=Unhurried()) as session,
    ):
        events = await session.ask("hello")
    assert of_kind(events, TurnEnded)[0].stop == "end_turn"


@pytest.mark.parametrize(("local", "tries"), [(False, 5), (True, 2)])
async def test_a_refused_connection_is_tried_five_times_and_a_local_one_twice(
    connect: Connect, local: bool, tries: int
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        async with harness(connect(url, local=local), clock=Unhurried()) as session:
            events = await session.ask("hello")
    failed = of_kind(events, StepFailed)
    assert [one.attempts for one in failed] == [tries] * tries
    assert not any(gaps(one.message) for one in failed)


# Silence


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("first", "beat", "silent_s"),
    [
        ("nothing", b"", 120),
        ("words", b"", 60),
        ("words", b"d", 60),
        ("words", b": alive\n", 600),
        ("nothing", b": alive\n\n", 600),
        ("words", b"an empty part", 600),
    ],
    ids=["deaf", "stalled", "lone bytes", "comments", "comments before words", "empty parts"],
)
async def test_silence_ends_a_request_when_its_time_has_come_and_one_more_is_made(
    connect: Connect, wire: WireName, first: str, beat: bytes, silent_s: int
) -> None:
    clock = FakeClock()
    begun = spoken(wire)
    words = begun.begin() + begun.text("half an ans") if first == "words" else b""
    beat = EMPTY_PARTS[wire] if beat == b"an empty part" else beat
    async with Beating(clock, words, beat) as server:
        async with harness(connect(f"{server.origin}/v1", wire=wire), clock=clock) as session:
            passing = Passing(session, server, clock)
            events = await passing.ask()
        assert len(server.requests) == 2, "what was silent may have been paid for"
    again, ended = (one.message for one in of_kind(events, StepFailed))
    assert again.startswith(f"No data for {silent_s} s; the request was ended and sent again (try 2 of 2).")
    assert ended == f"No data from work for {silent_s} s; the request was ended."
    assert all(abs(waited_s - silent_s) <= 3 for waited_s in passing.waited_s), passing.waited_s
    assert of_kind(events, TurnEnded)[0].reason == "StreamSilent"


@pytest.mark.parametrize(
    ("more", "silent_s"),
    [({"local": True}, 600), ({"first_part_s": 45}, 45), ({"local": True, "first_part_s": 900}, 900)],
    ids=["local", "set", "local and set"],
)
async def test_a_local_server_may_take_longer_to_begin_and_a_setting_says_otherwise(
    connect: Connect, more: dict[str, Any], silent_s: int
) -> None:
    clock = FakeClock()
    async with (
        ModelServer.playing(say("Hi."), faults=["deaf"] * 2) as server,
        harness(connect(server.url, **more), clock=clock) as session,
    ):
        passing = Passing(session, server, clock)
        events = await passing.ask()
    assert of_kind(events, StepFailed)[-1].message.startswith(f"No data from work for {silent_s} s;")
    assert all(abs(waited_s - silent_s) <= 3 for waited_s in passing.waited_s), passing.waited_s


@pytest.mark.parametrize(("more", "silent_s"), [({"idle_s": 20}, 20), ({"alive_s": 100}, 100)])
async def test_the_limits_within_an_answer_are_settings(
    connect: Connect, more: dict[str, Any], silent_s: int
) -> None:
    clock, begun = FakeClock(), spoken("openai_chat")
    beat = b": alive\n\n" if "alive_s" in more else b""
    async with (
        Beating(clock, begun.begin() + begun.text("half"), beat, 10) as server,
        harness(connect(f"{server.origin}/v1", first_part_s=40, **more), clock=clock) as session,
    ):
        events = await Passing(session, server, clock).ask()
    assert of_kind(events, StepFailed)[0].message.startswith(f"No data for {silent_s} s;")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_thinks_behind_signs_of_life_is_waited_for(
    connect: Connect, wire: WireName
) -> None:
    clock, said = FakeClock(), spoken(wire)
    then = said.begin() + said.text("Hi.") + said.end()
    async with Beating(clock, b"", b": alive\n\n", 50, then, 11) as server:
        async with harness(connect(f"{server.origin}/v1", wire=wire), clock=clock) as session:
            events = await Passing(session, server, clock).ask()
        assert len(server.requests) == 1
    assert of_kind(events, TurnEnded)[0].stop == "end_turn"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_that_takes_longer_than_signs_of_life_may_is_no_silence(
    connect: Connect, wire: WireName
) -> None:
    """Its pieces show nothing to anybody until it is whole."""
    clock = FakeClock()
    first = spoken(wire).begin() + spoken(wire).text("Now.") + CALL_BEGINS[wire]
    async with (
        Beating(clock, first, CALL_GROWS[wire], 58) as server,
        harness(connect(f"{server.origin}/v1", wire=wire), clock=clock) as session,
    ):
        number = await session.send("hello")
        await session.until(TextDelta, since=number)
        for _ in range(900):
            await clock.advance(1)
        assert len(server.requests) == 1


# What cannot be read


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        ({"content-type": "text/event-stream"}, b'data: {"choices":"\xff"}\n\n', "it is not UTF-8"),
        ({"content-type": "application/json"}, b'{"choices":"\xff"}', "it is not UTF-8"),
        (
            {"content-type": "text/event-stream", "content-encoding": "gzip"},
            b"\x1f\x8b\x08\x00",
            "the answer is compressed, which was not asked for",
        ),
        ({"content-type": "text/event-stream"}, b"data: {nothing\n\n", "it is not JSON"),
    ],
    ids=["stream", "document", "compressed", "garbage"],
)
async def test_what_cannot_be_read_is_asked_for_once(
    connect: Connect, wire: WireName, headers: dict[str, str], body: bytes, problem: str
) -> None:
    async with Fixed(200, headers, body) as server:
        async with harness(connect(f"{server.origin}/v1", wire=wire), clock=Unhurried()) as session:
            events = await session.ask("hello")
        assert len(server.requests) == 1
    ended = of_kind(events, TurnEnded)[0]
    assert ended.message == f"work sent an answer that cannot be read: {problem}."


# When to ask again


@pytest.mark.requirement("D8.71")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_date_to_wait_for_needs_no_date_of_the_answer(connect: Connect, wire: WireName) -> None:
    later = formatdate(SystemClock().now_ms() / 1000 + 20, usegmt=True)
    async with (
        Fixed(429, {"retry-after": later}, b"{}") as server,
        harness(connect(f"{server.origin}/v1", wire=wire), clock=Unhurried()) as session,
    ):
        events = await session.ask("hello")
    assert {15_000 <= (one.retry_in_ms or 0) <= 20_000 for one in of_kind(events, StepFailed)[:4]} == {True}


# Sentences


@pytest.mark.parametrize("stop", ["content_filter", "error"])
async def test_an_answer_that_ended_badly_names_its_provider(connect: Connect, stop: Any) -> None:
    async with (
        ModelServer.playing(answer(say("I will"), Stop(stop))) as server,
        harness(connect(server.url), clock=Unhurried()) as session,
    ):
        events = await session.ask("hello")
    ended = of_kind(events, TurnEnded)[0]
    assert not gaps(ended.message)
    assert "work" in (ended.message or "")


async def test_a_listing_that_is_refused_for_its_rate_names_no_wait(connect: Connect) -> None:
    async with Fixed(429, {}, b"{}") as server:
        with pytest.raises(ProviderError) as refused:
            await connect(f"{server.origin}/v1").models()
    assert refused.value.reason == "StillRateLimited"
    assert not gaps(refused.value.message)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("given", ["rate_limited", "overloaded", "bad_credentials", "unreachable", "cut"])
async def test_no_sentence_about_a_provider_has_a_gap(connect: Connect, wire: WireName, given: Any) -> None:
    async with (
        ModelServer.playing(answer(say("Hel"), fail(given))) as server,
        harness(connect(server.url, wire=wire), clock=Unhurried()) as session,
    ):
        events = await session.ask("hello")
    told = [one.message for one in events if isinstance(one, StepFailed | TurnEnded)]
    assert [gaps(message) for message in told] == [[] for _ in told]
