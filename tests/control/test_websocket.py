"""The engine over a WebSocket: frames both ways, the older spelling, resuming, and what is turned away."""

import json

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.providers.script import call, say
from bridle.sessions.memory_store import MemoryStore
from served_kit import served, text
from tables import table


def command(kind: str, number: str = "1", **fields: object) -> dict[str, object]:
    return {"frame": "command", "id": number, "body": {"kind": kind, **fields}}


@pytest.mark.requirement("G18.1", "G24.2", "G23.2")
async def test_commands_queries_and_events_go_over_one_socket() -> None:
    async with served(scripted(say("Hello."))) as kit, kit.websocket() as socket:
        assert socket.hello["frame"] == "handshake"
        assert socket.hello["client"].startswith("cli_")
        await socket.tell(command("AttachSession", "a", session=kit.session.id))
        attached = await socket.hear()
        assert (attached["frame"], attached["id"]) == ("accepted", "a")
        await socket.tell({"frame": "follow", "id": "f", "body": {"session": kit.session.id}})
        await socket.tell(command("SendInput", "b", session=kit.session.id, **text("hi")))
        ended = await socket.event("TurnEnded")
        stored = await kit.session.stored()
        assert ended["id"] in {one.id for one in stored}
        await socket.tell({"frame": "query", "id": 7, "body": {"kind": "CheckHealth"}})
        answer = await socket.hear_kind("answer")
        assert (answer["id"], answer["body"]["open_sessions"]) == (7, 1)
        await socket.tell(command("EndSession", "c", session=kit.session.id))
        assert (await socket.hear_kind("end"))["id"] == "f"


@pytest.mark.requirement("G18.2", "C17")
async def test_the_older_spelling_of_a_command_is_read() -> None:
    async with served(scripted(say("Hello."))) as kit, kit.websocket() as socket:
        await socket.tell(command("AttachSession", session=kit.session.id))
        await socket.hear()
        older = {"kind": "command", "cmd": "SendInput", "sessionId": kit.session.id, **text("hi"), "id": "z"}
        await socket.tell(older)
        accepted = await socket.hear()
        assert (accepted["frame"], accepted["id"]) == ("accepted", "z")


@pytest.mark.requirement("G18.1", "G26.1")
async def test_an_address_with_a_session_goes_on_behind_the_last_event() -> None:
    async with served(scripted(say("One."))) as kit:
        await kit.session.ask("hi")
        last = (await kit.session.stored())[-1].id
        async with kit.websocket(f"/v1/ws?session={kit.session.id}&lastEventId={last - 2}") as socket:
            first = await socket.hear_kind("event")
            while "id" not in first["body"]:
                first = await socket.hear_kind("event")
            assert first["body"]["id"] == last - 1


@pytest.mark.requirement("G23.3")
async def test_a_frame_before_the_handshake_ends_the_socket() -> None:
    async with served(scripted()) as kit, kit.websocket(greeted=False) as socket:
        await socket.tell(command("AttachSession", session=kit.session.id))
        refused = await socket.hear()
        assert refused["body"]["reason"] == "HandshakeRequired"
        assert (await socket.closed)[0] == 4028
        assert kit.counters.refusals["HandshakeRequired"] == 1


async def test_another_version_is_told_and_turned_away() -> None:
    async with served(scripted()) as kit, kit.websocket(greeted=False) as socket:
        await socket.tell({"frame": "handshake", "body": {"protocol_version": "0.9.0"}})
        assert (await socket.hear())["body"]["reason"] == "HandshakeVersionMismatch"
        assert (await socket.closed)[0] == 4028


@table(
    ("frame", "code"),
    [
        ("not json", 1007),
        ("[]", 1007),
        ('{"body": {}}', 1007),
        ("[" * 200_000, 1007),
        (json.dumps({"frame": "command", "body": "x" * (1024 * 1024)}), 1009),
    ],
)
async def test_what_is_no_frame_ends_the_socket(frame: str, code: int) -> None:
    async with served(scripted()) as kit, kit.websocket() as socket:
        await socket.tell(frame)
        assert (await socket.closed)[0] == code


@pytest.mark.requirement("H15.4")
async def test_only_text_is_taken() -> None:
    async with served(scripted()) as kit, kit.websocket() as socket:
        await socket.given.put({"type": "websocket.receive", "bytes": b"{}"})
        assert (await socket.closed)[0] == 1003


@table(
    ("frame", "reason"),
    [
        ({"frame": "dance"}, "BadFrame"),
        ({"frame": "handshake", "body": {}}, "BadFrame"),
        ({"frame": "follow", "body": {}}, "BadFrame"),
        (command("Dance"), "UnknownCommand"),
        (command("SendInput"), "BadCommand"),
        ({"frame": "query", "body": {"kind": "Dance"}}, "UnknownCommand"),
        ({"frame": "query", "body": {"kind": "ListTools"}}, "BadCommand"),
        ({"frame": "query", "body": {"kind": "DescribeSession", "session": "nobody"}}, "UnknownSession"),
        ({"frame": "follow", "body": {"session": "nobody"}}, "SessionNotOpen"),
        ({"frame": "follow", "body": {"session": "nobody", "since": 2**70}}, "BadFrame"),
        ({"frame": "follow", "body": {"session": "nobody", "since": -1}}, "BadFrame"),
        (command("CreateSession", cwd="no\0folder"), "BadCommand"),
    ],
)
async def test_what_is_refused_is_told_and_the_socket_goes_on(frame, reason) -> None:
    async with served(scripted()) as kit, kit.websocket() as socket:
        await socket.tell({**frame, "id": "x"})
        refused = await socket.hear()
        assert (refused["frame"], refused["id"], refused["body"]["reason"]) == ("error", "x", reason)
        await socket.tell({"frame": "query", "id": "y", "body": {"kind": "CheckHealth"}})
        assert (await socket.hear())["id"] == "y"


class BrokenStore(MemoryStore):
    """One in which something happens that nobody foresaw."""

    async def rename(self, session_id: str, title: str) -> None:
        raise ZeroDivisionError(session_id, title)


async def test_a_fault_is_told_and_the_socket_goes_on() -> None:
    async with served(scripted(), store=BrokenStore()) as kit, kit.websocket() as socket:
        await socket.tell(command("RenameSession", session=kit.session.id, title="new"))
        assert (await socket.hear())["body"]["reason"] == "EngineFault"
        await socket.tell({"frame": "query", "id": "y", "body": {"kind": "CheckHealth"}})
        assert (await socket.hear())["id"] == "y"


async def test_who_comes_back_is_the_same_client() -> None:
    async with served(scripted()) as kit:
        async with kit.websocket() as socket:
            before = socket.hello["client"]
        async with kit.websocket(client=before) as socket:
            assert socket.hello["client"] == before
            async with kit.websocket(client=before) as second:  # it is there already
                assert second.hello["client"] != before
        other = {"x-bridle-token": kit.mint()}
        async with kit.websocket(headers=other, client=before) as socket:
            assert socket.hello["client"] != before


@pytest.mark.requirement("G22.9")
async def test_a_revoked_token_ends_the_socket_that_follows_with_it() -> None:
    clock = FakeClock()
    async with served(scripted(), clock=clock) as kit:
        token = kit.mint()
        jti = kit.tokens.read(token).jti
        address = f"/v1/ws?session={kit.session.id}"
        async with kit.websocket(address, headers={"x-bridle-token": token}) as socket:
            await socket.hear_kind("event")
            kit.tokens.revoke(jti)
            await socket.tell({"frame": "query", "id": "q", "body": {"kind": "CheckHealth"}})
            assert (await socket.hear_kind("error"))["body"]["reason"] == "TokenRevoked"
            await clock.advance(6)
            assert (await socket.closed)[0] == 4001


async def test_a_question_can_be_answered_over_a_socket() -> None:
    model = scripted(call("bash", command="touch made"), say("Done."))
    async with served(model, mode="strict", sandbox="off") as kit, kit.websocket() as socket:
        await socket.tell(command("AttachSession", session=kit.session.id))
        await socket.tell({"frame": "follow", "id": "f", "body": {"session": kit.session.id}})
        await socket.tell(command("SendInput", session=kit.session.id, **text("go")))
        asked = (await socket.event("PermissionRequested"))["payload"]
        await socket.tell(
            command("AnswerPermission", session=kit.session.id, call_id=asked["call_id"], answer="once")
        )
        decided = (await socket.event("PermissionDecided"))["payload"]
        assert decided["verdict"] == "allow"
        await socket.event("TurnEnded")
