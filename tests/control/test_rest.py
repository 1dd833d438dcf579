"""The engine over REST and server-sent events: the routes, their answers, and the same bytes as everywhere else."""

import asyncio
import json
from typing import Any

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.control.http_status import STATUSES, status_of
from bridle.control.routes import routes
from bridle.engine.features import Feature, FeatureQuery
from bridle.protocol.codec import COMMAND_KINDS, encode_envelope
from bridle.protocol.errors import SENTENCES, CommandRefused, StoreError
from bridle.protocol.events import Notice, PermissionRequested, QuestionAsked
from bridle.protocol.queries import QUERY_KINDS, CustomQuery
from bridle.protocol.questions import TokenQuestion
from bridle.protocol.slash_arguments import schema_arguments, usage_words
from bridle.providers.script import call, say
from bridle.sessions.memory_store import MemoryStore
from served_kit import UNIX, served, text
from tables import table


def test_every_command_and_every_query_has_a_route() -> None:
    placed = [kind.__name__ for route in routes() for kind in route.kinds]
    assert sorted(placed) == sorted((*COMMAND_KINDS, *QUERY_KINDS))


@pytest.mark.requirement("G17.1", "G17.4", "G17.7")
async def test_a_session_is_made_and_spoken_to_by_requests_alone(tmp_path) -> None:
    async with served(scripted(say("Hello.")), answers=False) as kit:
        await kit.shake_hands()
        made = await kit.ask("POST", "/v1/sessions", {"cwd": str(tmp_path), "model": "demo:scripted"})
        assert made.status == 201
        session = made.json["session"]
        sent = await kit.ask("POST", f"/v1/sessions/{session}/input?wait=turn", text("hi"))
        assert (sent.status, sent.json["stop"], sent.json["text"]) == (200, "end_turn", "[scripted] Hello.")
        listed = await kit.ask("GET", "/v1/sessions")
        assert [one["id"] for one in listed.json["sessions"]] == [session, kit.session.id]
        for place, body, reason in (
            ("cancel", {}, "NoTurn"),
            ("permission", {"call_id": "call_x", "answer": "once"}, "NoSuchQuestion"),
            ("plan-mode", {}, None),
            ("plan-mode", {"approve": True}, None),
            ("model", {"model": "demo:scripted"}, None),
        ):
            answer = await kit.ask("POST", f"/v1/sessions/{session}/{place}", body)
            assert answer.json.get("reason") == reason, place


async def test_the_handshake_says_which_client_a_token_is() -> None:
    async with served(scripted(say("Hello."))) as kit:
        client = (await kit.shake_hands()).headers["x-bridle-client"]
        sent = await kit.ask("POST", f"/v1/sessions/{kit.session.id}/input?wait=turn", text("hi"))
        stored = {one.id: one for one in await kit.session.stored()}
        assert stored[sent.json["event"]].originator == client


@pytest.mark.requirement("G17.7")
async def test_input_is_taken_at_once_where_nobody_waits_for_the_turn() -> None:
    async with served(scripted(say("Later."))) as kit:
        await kit.shake_hands()
        sent = await kit.ask("POST", f"/v1/sessions/{kit.session.id}/input", text("hi"))
        assert sent.status == 202
        assert sent.json["event"] > 0
        events = await kit.session.turn_of(sent.json["event"])
        assert type(events[-1]).__name__ == "TurnEnded"


@pytest.mark.requirement("G17.2")
async def test_a_session_is_shown_with_its_last_events_and_ending_it_keeps_the_log() -> None:
    async with served(scripted(say("One."))) as kit:
        await kit.shake_hands()
        place = f"/v1/sessions/{kit.session.id}"
        await kit.ask("POST", f"{place}/input?wait=turn", text("hi"))
        stored = await kit.session.stored()
        shown = await kit.ask("GET", f"{place}?events=3")
        assert shown.json["session"]["id"] == kit.session.id
        assert shown.json["events"] == [json.loads(encode_envelope(one)) for one in stored[-3:]]
        assert (await kit.ask("DELETE", place)).status == 200
        assert (await kit.ask("DELETE", place)).reason == "SessionNotOpen"
        again = await kit.ask("GET", f"{place}?events=1")
        assert again.json["events"][0]["kind"] == "SessionEnded"


@pytest.mark.requirement("G17.3", "G24.2", "G26.1")
async def test_events_are_streamed_with_their_stored_bytes_and_go_on_behind_the_last_id() -> None:
    async with served(scripted(say("One."), say("Two."))) as kit:
        await kit.shake_hands()
        place = f"/v1/sessions/{kit.session.id}"
        seen = {}
        async with kit.stream(kit.session.id, since=0) as events:
            await kit.ask("POST", f"{place}/input", text("first"))
            async for event in events:
                if event.id is not None:  # who is here is told besides
                    seen[event.id] = event
                if event.event == "TurnEnded":
                    break
        last = max(seen)
        await kit.ask("POST", f"{place}/input?wait=turn", text("second"))
        async with kit.stream(kit.session.id, since=last) as events:
            async for event in events:
                assert event.id not in seen
                if event.id is not None:
                    seen[event.id] = event
                if event.event == "TurnEnded":
                    break
        stored = {one.id: one for one in await kit.session.stored() if one.id in seen}
        assert sorted(seen) == list(range(1, max(seen) + 1))
        assert {number: event.data for number, event in seen.items()} == {
            number: encode_envelope(one) for number, one in stored.items()
        }
        assert all(seen[number].event == one.kind for number, one in stored.items())


async def test_a_stream_ends_with_its_session_and_says_so_last() -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        async with kit.stream(kit.session.id) as events:
            await kit.ask("DELETE", f"/v1/sessions/{kit.session.id}")
            kinds = [event.event async for event in events]
    assert kinds[-1] == "SessionEnded"


@pytest.mark.requirement("G17.5")
@pytest.mark.requirement("G17.6")
async def test_what_there_is_can_be_listed() -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        for path, field in (
            ("profiles", "profiles"),
            ("providers", "providers"),
            (f"tools?session={kit.session.id}", "tools"),
            ("slash-commands", "commands"),
            ("skills", "skills"),
            (f"skills?session={kit.session.id}", "skills"),
            ("skills/find-the-cause", "body"),
            ("models?names=demo:scripted", "models"),
            ("costs?by=day", "rows"),
            ("search?words=nothing", "hits"),
            (f"grants?session={kit.session.id}", "grants"),
        ):
            answer = await kit.ask("GET", f"/v1/{path}")
            assert (answer.status, field in answer.json) == (200, True), path
        nobody = await kit.ask("GET", "/v1/skills/nothing")
        assert nobody.json["reason"] == "UnknownSkill"
        health = await kit.ask("GET", "/v1/health")
        assert health.json["open_sessions"] == 1
        assert health.json["version"]


@pytest.mark.requirement("G45.20")
async def test_commands_are_listed_with_what_they_take() -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        listed = (await kit.ask("GET", f"/v1/slash-commands?session={kit.session.id}")).json["commands"]
    commands = {one["name"]: one for one in listed}
    assert {usage_words(name, schema_arguments(one["args_schema"])) for name, one in commands.items()} == {
        "/init [words]",
        "/review [words]",
        "/diff [path]",
        "/branch NAME",
        "/commit [MESSAGE]",
        "/commit-push-pr [MESSAGE]",
        "/worktree NAME",
        "/stash",
        "/plan [words]",
        "/solve [words]",
        "/code [words]",
        "/auto [words]",
        "/goal [what]",
        "/worktrees [what] [NAME]",
        "/compact [words]",
        "/pin words",
        "/memory [words]",
        "/undo [what]",
        "/redo",
        "/skills",
        "/skills:reload",
        "/skills:find-the-cause [words]",
        "/skills:write-a-skill [words]",
    }
    undo = commands["undo"]
    assert (undo["namespace"], undo["description"][:9]) == ("", "take back")
    assert undo["args_schema"]["properties"]["what"]["examples"] == ["session"]


@table(("name", "words"), [("redo", "now"), ("pin", "")])
@pytest.mark.requirement("G45.20")
async def test_a_command_never_gets_words_it_does_not_take(name: str, words: str) -> None:
    problem = {"redo": "/redo takes no words.", "pin": "Which words? /pin words"}[name]
    async with served(scripted()) as kit:
        await kit.shake_hands()
        asked = {"name": name, "arguments": words}
        await kit.ask("POST", f"/v1/sessions/{kit.session.id}/slash", asked)
        assert (await kit.session.until(Notice)).message == problem


async def test_a_query_that_a_feature_brings_has_its_route() -> None:
    async def answer(query: CustomQuery) -> dict[str, object]:
        return {"got": query.payload}

    weather = Feature(name="weather", queries=(FeatureQuery(verb="today", answer=answer),))
    async with served(scripted(), features=(weather,)) as kit:
        await kit.shake_hands()
        told = await kit.ask("GET", '/v1/features/weather/today?payload={"in":"Bern"}')
        assert told.json == {"kind": "CustomAnswer", "payload": {"got": {"in": "Bern"}}}
        assert (await kit.ask("GET", "/v1/features/weather/tomorrow")).status == 404


@pytest.mark.requirement("G23.2", "G23.3", "G47.2")
async def test_nothing_is_answered_before_the_handshake_of_a_token() -> None:
    async with served(scripted()) as kit:
        refused = await kit.ask("GET", "/v1/health")
        assert (refused.status, refused.reason) == (428, "HandshakeRequired")
        assert refused.json["message"].startswith("Send /v1/handshake before any command.")
        hello = await kit.shake_hands()
        assert "rest" not in hello.json["features"]  # this engine opened no listener
        assert hello.json["protocol_version"] == "0.2.0"
        assert (await kit.ask("GET", "/v1/health")).status == 200
        other = await kit.ask("GET", "/v1/health", headers={"x-bridle-token": kit.mint()})
        assert other.reason == "HandshakeRequired"


@pytest.mark.requirement("G47.16")
async def test_a_client_of_another_version_is_told_both() -> None:
    async with served(scripted()) as kit:
        refused = await kit.ask("GET", "/v1/handshake?protocol_version=9.0.0")
        assert (refused.status, refused.reason) == (409, "HandshakeVersionMismatch")
        assert refused.json["data"]["client_version"] == "9.0.0"
        assert (await kit.ask("GET", "/v1/health")).reason == "HandshakeRequired"


@pytest.mark.requirement("G25.1")
async def test_fields_nobody_knows_are_ignored() -> None:
    async with served(scripted(say("Yes."))) as kit:
        await kit.shake_hands()
        body = {**text("hi"), "x_vendor": {"deep": [1]}}
        sent = await kit.ask("POST", f"/v1/sessions/{kit.session.id}/input?wait=turn&colour=red", body)
        assert sent.status == 200


@table(
    ("method", "path", "raw", "headers", "reason", "status"),
    [
        ("GET", "/v1/nothing", None, {}, "UnknownPath", 404),
        ("GET", "/", None, {}, "UnknownPath", 404),
        ("PUT", "/v1/sessions", None, {}, "MethodNotAllowed", 405),
        ("POST", "/v1/sessions", b"[1]", {}, "BadCommand", 400),
        ("POST", "/v1/sessions", b"{", {}, "BadCommand", 400),
        ("POST", "/v1/sessions", b"[" * 100_000, {}, "BadCommand", 400),
        ("POST", "/v1/sessions", b"\xff\xfe", {}, "BadCommand", 400),
        ("POST", "/v1/sessions", b"{}", {}, "BadCommand", 400),
        ("POST", "/v1/sessions", b'{"cwd":"/"}', {"content-type": "text/plain"}, "NotJson", 415),
        ("POST", "/v1/sessions", b" " * (12 * 1024 * 1024 + 1), {}, "TooLarge", 413),
        ("GET", "/v1/sessions/sess_nobody", None, {}, "UnknownSession", 404),
        ("GET", "/v1/tools?session=sess_nobody", None, {}, "UnknownSession", 404),
        ("GET", "/v1/tools", None, {}, "BadCommand", 400),
        ("GET", "/v1/costs?since_ms=soon", None, {}, "BadCommand", 400),
        ("GET", "/v1/features/a/b?payload=x", None, {}, "BadCommand", 400),
        ("POST", "/v1/sessions/sess_nobody/input", b'{"content":[]}', {}, "UnknownSession", 404),
        ("GET", "/v1/sessions/sess_nobody/events", None, {}, "UnknownSession", 404),
        ("GET", "/v1/sessions/sess_nobody/events?since=-1", None, {}, "BadCommand", 400),
    ],
)
async def test_bad_requests_have_a_reason_and_a_status(method, path, raw, headers, reason, status) -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        answer = await kit.ask(method, path, raw=raw or b"", headers=headers)
        assert (answer.status, answer.reason) == (status, reason)
        assert answer.json["message"]
        assert set(answer.json) == {"reason", "message", "data"}


async def test_what_may_be_done_at_a_path_is_named_whole() -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        answer = await kit.ask("PUT", "/v1/sessions")
        assert answer.json["message"] == "PUT means nothing at /v1/sessions. Allowed: GET, POST."
        assert answer.headers["allow"] == "GET, POST"


async def test_a_client_that_is_gone_is_noticed_and_its_stream_ends() -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        async with kit.stream(kit.session.id):
            assert b"bridle_event_streams 1\n" in (await kit.ask("GET", "/v1/metrics")).body
        assert b"bridle_event_streams 0\n" in (await kit.ask("GET", "/v1/metrics")).body


async def test_the_engine_counts_what_it_is_asked_and_what_it_refuses() -> None:
    async with served(scripted(say("Yes."))) as kit:
        await kit.ask("GET", "/v1/health", headers={"host": "evil.example"})
        await kit.shake_hands()
        await kit.ask("POST", f"/v1/sessions/{kit.session.id}/input?wait=turn", text("hi"))
        told = (await kit.ask("GET", "/v1/metrics")).body.decode()
        assert 'bridle_requests_total{kind="SendInput"} 1\n' in told
        assert 'bridle_refusals_total{reason="HostRefused"} 1\n' in told
        assert "bridle_sessions_open 1\n" in told
        assert "bridle_cache_evictions_total 0\n" in told
        assert ("HostRefused", "127.0.0.1") in kit.refused


async def test_a_question_is_answered_by_a_request() -> None:
    model = scripted(call("bash", command="touch made"), say("Done."))
    async with served(model, answers=True, mode="strict", sandbox="off") as kit:
        await kit.shake_hands()
        place = f"/v1/sessions/{kit.session.id}"
        waiting = asyncio.ensure_future(kit.ask("POST", f"{place}/input?wait=turn", text("go")))
        async with kit.stream(kit.session.id, since=0) as events:
            async for event in events:
                if event.event == "PermissionRequested":
                    break
        question = json.loads(event.data)["payload"]
        body = {"call_id": question["call_id"], "answer": "once", "digest": question["digest"]}
        assert (await kit.ask("POST", f"{place}/permission", body)).status == 200
        assert (await waiting).json["text"] == "[scripted] Done."


@pytest.mark.requirement("G22.7", "G22.9", "P18")
async def test_a_token_is_asked_for_on_the_socket_confirmed_with_its_code_and_revoked() -> None:
    async with served(scripted(), answers=True) as kit:
        await kit.shake_hands()
        wanted = f"/v1/auth/token?identity_class=agent&sessions={kit.session.id}&commands=CheckHealth"
        assert (await kit.ask("GET", wanted)).reason == "MintRefused"
        events = kit.session.connection.events(kit.session.id)
        await anext(events)  # from now on somebody follows
        asked = await kit.ask("GET", wanted, listener=UNIX, headers={"host": "localhost"})
        assert (asked.status, asked.json["channel"]) == (202, "client")
        question = await anext(one.event async for one in events if isinstance(one.event, QuestionAsked))
        assert isinstance(question.question, TokenQuestion)
        wrong = await kit.ask("POST", "/v1/auth/token", {"mint_id": asked.json["mint_id"], "code": "x"})
        assert (wrong.status, wrong.reason) == (403, "WrongCode")
        right = {"mint_id": asked.json["mint_id"], "code": question.question.code}
        minted = await kit.ask("POST", "/v1/auth/token", right)
        assert minted.status == 201
        new = {"x-bridle-token": minted.json["token"]}
        await kit.shake_hands(headers=new)
        assert (await kit.ask("GET", "/v1/health", headers=new)).status == 200
        assert (await kit.ask("GET", "/v1/sessions", headers=new)).reason == "NotGranted"
        jti = kit.tokens.read(minted.json["token"]).jti
        other = {"x-bridle-token": kit.mint()}
        await kit.shake_hands(headers=other)
        assert (await kit.ask("DELETE", f"/v1/auth/tokens/{jti}", headers=other)).reason == "NotGranted"
        assert (await kit.ask("DELETE", f"/v1/auth/tokens/{jti}")).status == 200
        assert (await kit.ask("GET", "/v1/health", headers=new)).reason == "TokenRevoked"


@pytest.mark.requirement("G22.9")
async def test_who_is_bound_to_a_session_revokes_what_it_minted_and_no_other_token() -> None:
    async with served(scripted()) as kit:
        minter, own = kit.mint(can_mint=True, name="Ana"), kit.mint(can_mint=True, identity_class="agent")
        ana = kit.tokens.read(minter)
        child = kit.tokens.new_claims(identity_class="human", sessions=(kit.session.id,), can_mint=True)
        grandchild = kit.tokens.new_claims(identity_class="human", sessions=(kit.session.id,))
        kit.tokens.issue(child, by=ana.jti)
        kit.tokens.issue(grandchild, by=child.jti)
        stranger, boss = kit.tokens.read(kit.mint(name="Ben")).jti, kit.tokens.read(kit.token).jti

        async def revoke(jti: str, token: str = minter) -> str | int:
            headers = {"x-bridle-token": token}
            await kit.shake_hands(headers=headers)
            answer = await kit.ask("DELETE", f"/v1/auth/tokens/{jti}", headers=headers)
            return 200 if answer.status == 200 else answer.reason

        for other in (stranger, boss, "tok_nobody"):
            assert await revoke(other) == "NotGranted"
        assert await revoke(child.jti, own) == "NotGranted", "an agent mints nothing, and so revokes nothing"
        assert [await revoke(grandchild.jti), await revoke(child.jti)] == [200, 200]
        assert await revoke(kit.tokens.read(own).jti, own) == 200, "everybody their own"
        assert await revoke(stranger, kit.token) == 200, "a person at the engine's own terminal, any"
        assert await revoke("tok_nobody", kit.token) == "UnknownToken"
        assert await revoke(ana.jti) == 200
        with pytest.raises(CommandRefused):
            kit.tokens.read(minter)


@pytest.mark.requirement("G22.11", "G17.7")
@table(("end", "reason"), [("revoked", "TokenRevoked"), ("expired", "TokenExpired")])
async def test_who_waits_for_a_turn_is_refused_when_the_token_holds_no_more(end: str, reason: str) -> None:
    clock = FakeClock()
    model = scripted(call("bash", command="touch made"), say("Done."))
    async with served(model, clock=clock, answers=True, mode="strict", sandbox="off") as kit:
        token = kit.mint(life_s=600)
        headers = {"x-bridle-token": token}
        await kit.shake_hands(headers=headers)
        place = f"/v1/sessions/{kit.session.id}/input?wait=turn"
        waiting = asyncio.ensure_future(kit.ask("POST", place, text("go"), headers=headers))
        await kit.session.until(PermissionRequested)
        if end == "revoked":
            kit.tokens.revoke(kit.tokens.read(token).jti)
            await clock.advance(6)
        else:
            await clock.advance(655)
            assert not waiting.done(), "what waits drains for a minute"
            await clock.advance(10)
        answer = await asyncio.wait_for(waiting, 20)
        assert (answer.status, answer.reason) == (401, reason)


@table("reason", sorted(SENTENCES))
def test_every_reason_has_a_status_that_the_document_names(reason: str) -> None:
    assert status_of(reason) in STATUSES


@pytest.mark.requirement("G17.6")
async def test_health_is_told_part_by_part() -> None:
    class Broken(MemoryStore):
        works = True

        def enough(self) -> bool:
            return self.works

        def stuck(self) -> bool:
            return not self.works

        async def list(self, *, cwd: str | None = None) -> Any:
            if not self.works:
                raise StoreError("StoreFailed", path="x", problem="it is gone")
            return await super().list(cwd=cwd)

    store = Broken()
    async with served(scripted(), store=store, sandbox="off") as kit:
        await kit.shake_hands()

        async def health() -> tuple[bool, dict[str, str]]:
            told = (await kit.ask("GET", "/v1/health")).json
            return told.get("ok", True), {one["part"]: one["status"] for one in told["parts"]}

        assert await health() == (True, {"store": "ok", "disk": "ok", "sandbox": "skip"})
        store.works = False
        assert await health() == (False, {"store": "fail", "disk": "fail", "sandbox": "skip"})
        store.works = True


@pytest.mark.requirement("X23")
async def test_only_an_open_stream_says_that_somebody_is_here() -> None:
    async with served(scripted(say("Yes."))) as kit:
        await kit.shake_hands()
        place = f"/v1/sessions/{kit.session.id}"
        await kit.ask("POST", f"{place}/input?wait=turn", text("hi"))

        async def names() -> list[str]:
            return [one["name"] for one in (await kit.ask("GET", place)).json["clients"]]

        assert await names() == ["harness"]
        async with kit.stream(kit.session.id) as events:
            async for _ in events:
                break
            assert sorted(await names()) == ["harness", "rest"]
        assert await names() == ["harness"]


async def test_an_object_in_an_address_is_json(tmp_path) -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        create = json.dumps({"cwd": str(tmp_path), "model": "demo:scripted"})
        shown = await kit.ask("GET", f"/v1/preview-session?create={create}")
        assert (shown.status, shown.json["model"]) == (200, "demo:scripted")
        models = await kit.ask("GET", f"/v1/models?names=demo:scripted&create={create}")
        assert models.status == 200, "where it may be left out too"
        bad = await kit.ask("GET", "/v1/preview-session?create=x")
        assert (bad.status, bad.reason) == (400, "BadCommand")


def test_a_query_has_a_place_of_its_own() -> None:
    assert [route.path for route in routes() if route.is_query and len(route.kinds) != 1] == []
