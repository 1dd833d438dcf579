"""Who may ask at all: the Host, the Origin, the header, the token, and where they came from."""

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.protocol.commands import CreateSession
from bridle.protocol.tokens import WATCH
from bridle.providers.script import say
from served_kit import LAN, PORT, Served, served, text
from tables import table


@pytest.mark.requirement("G21.2")
@table(
    "host",
    [
        "-", "", "evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost", f"127.0.0.1:{PORT}.evil.example",
        f"127.0.0.1.evil.example:{PORT}", "127.0.0.1:1", f"[::1]:{PORT}", f"0.0.0.0:{PORT}", f"127.1:{PORT}",
        f"localhost.:{PORT}", f"user@localhost:{PORT}",
    ],
)  # fmt: skip
async def test_only_the_exact_host_is_answered(host: str) -> None:
    async with served(scripted()) as kit:
        answer = await kit.shake_hands(headers={"host": host})
        assert (answer.status, answer.reason) == (403, "HostRefused")
        assert kit.counters.refusals["HostRefused"] == 1
        assert (await kit.shake_hands(headers={"host": f"LOCALHOST:{PORT}"})).status == 200


@pytest.mark.requirement("G21.3", "H15.2")
@table(
    "origin",
    [
        "null",
        "https://evil.example",
        f"http://127.0.0.1:{PORT}.evil.example",
        f"https://127.0.0.1:{PORT}",
        "",
    ],
)
async def test_pages_of_other_origins_are_refused_whatever_token_they_have(origin: str) -> None:
    async with served(scripted()) as kit:
        answer = await kit.shake_hands(headers={"origin": origin})
        assert (answer.status, answer.reason) == (403, "OriginRefused")
        assert "access-control-allow-origin" not in answer.headers
        async with kit.websocket(headers={"origin": origin}, greeted=False) as socket:
            assert await socket.denied == 403


async def test_a_listed_page_may_ask_and_no_other_reads_its_answer() -> None:
    async with served(scripted()) as kit:
        answer = await kit.shake_hands(headers={"origin": "https://page.example"})
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
        assert answer.headers["vary"] == "origin"
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.requirement("G21.5")
async def test_a_preflight_fails_closed() -> None:
    async with served(scripted()) as kit:
        wanted = {"access-control-request-headers": "x-bridle-token", "x-bridle-token": "-"}
        listed = await kit.ask(
            "OPTIONS", "/v1/sessions", headers={**wanted, "origin": "https://page.example"}
        )
        assert listed.status == 204
        assert "x-bridle-token" in listed.headers["access-control-allow-headers"]
        for origin in ({"origin": "https://evil.example"}, {}):
            refused = await kit.ask("OPTIONS", "/v1/sessions", headers={**wanted, **origin})
            assert refused.status == 403
            assert not [name for name in refused.headers if name.startswith("access-control")]


@pytest.mark.requirement("G21.5", "G21.1")
async def test_the_token_travels_in_its_own_header_alone() -> None:
    async with served(scripted()) as kit:
        without = {"x-bridle-token": "-"}
        for headers in (
            without,
            {"x-bridle-token": ""},
            {**without, "authorization": f"Bearer {kit.token}"},
            {**without, "cookie": f"token={kit.token}"},
        ):
            answer = await kit.shake_hands(headers=headers)
            assert (answer.status, answer.reason) == (401, "TokenMissing")
        in_url = await kit.ask("GET", f"/v1/handshake?token={kit.token}", headers=without)
        assert in_url.status == 401
        older = await kit.shake_hands(headers={**without, "x-harness-token": kit.token})
        assert older.status == 200
        two = await kit.shake_hands(headers={"x-harness-token": kit.mint()})
        assert (two.status, two.reason) == (401, "TokenInvalid")


@table(
    "path",
    ["/v1/health", "/v1/metrics", "/v1/openapi.json", "/v1/handshake", "/v1/sessions", "/", "/v1/none"],
)
async def test_nothing_answers_without_a_token(path: str) -> None:
    async with served(scripted()) as kit:
        assert (await kit.ask("GET", path, headers={"x-bridle-token": "-"})).status == 401


async def refused_for(kit: Served, token: str) -> str:
    answer = await kit.shake_hands(headers={"x-bridle-token": token})
    assert answer.status == 401, answer
    return answer.reason


@pytest.mark.requirement("G22.9", "X11")
async def test_forged_expired_revoked_and_early_tokens_are_refused() -> None:
    clock = FakeClock()
    async with served(scripted(), clock=clock) as kit:
        body, _, signature = kit.mint().partition(".")
        other, _, _ = kit.mint(can_mint=True).partition(".")
        assert await refused_for(kit, f"{other}.{signature}") == "TokenInvalid"
        assert await refused_for(kit, f"{body}.{signature[:-4]}AAAA") == "TokenInvalid"
        assert await refused_for(kit, body) == "TokenInvalid"
        revoked = kit.mint()
        kit.tokens.revoke(kit.tokens.read(revoked).jti)
        assert await refused_for(kit, revoked) == "TokenRevoked"
        early = kit.mint(nbf=clock.now_ms() // 1000 + 60)
        assert await refused_for(kit, early) == "TokenNotYetValid"
        short = kit.mint(life_s=10)
        await kit.shake_hands(headers={"x-bridle-token": short})
        await clock.advance(11)
        assert await refused_for(kit, short) == "TokenExpired"


@pytest.mark.requirement("G2.2", "G22.14")
async def test_a_narrowed_token_does_what_it_names_and_nothing_else(tmp_path) -> None:
    async with served(scripted(say("Yes."))) as kit:
        watch = {"x-bridle-token": kit.mint(commands=WATCH)}
        await kit.shake_hands(headers=watch)
        place = f"/v1/sessions/{kit.session.id}"
        assert (await kit.ask("GET", place, headers=watch)).status == 200
        sent = await kit.ask("POST", f"{place}/input", text("hi"), headers=watch)
        assert (sent.status, sent.reason) == (403, "NotGranted")
        made = await kit.ask("POST", "/v1/sessions", {"cwd": str(tmp_path)}, headers=watch)
        assert made.reason == "NotGranted"
        none = {"x-bridle-token": kit.mint(sessions=())}
        await kit.shake_hands(headers=none)
        assert (await kit.ask("GET", place, headers=none)).reason == "UnknownSession"


async def test_who_may_open_no_session_learns_nothing_by_trying(tmp_path) -> None:
    """Whether there is such a folder, or a session of this name."""
    async with served(scripted()) as kit:
        other = await kit.session.connection.send(
            CreateSession(cwd=str(tmp_path), model="demo", aliases=("of-others",))
        )
        headers = {"x-bridle-token": kit.mint(identity_class="agent", commands=("FollowEvents",))}
        await kit.shake_hands(headers=headers)
        answers = {
            (await kit.ask("POST", "/v1/sessions", {"cwd": str(cwd), "resume": resume}, headers=headers)).body
            for cwd in (tmp_path, tmp_path / "missing")
            for resume in (None, kit.session.id, other.session, "of-others", "nobody-has-this")
        }
        (body,) = answers
        assert b"NotGranted" in body


@pytest.mark.requirement("G21.6", "G22.12")
async def test_on_the_network_a_token_has_to_name_its_sessions() -> None:
    async with served(scripted()) as kit:
        host = {"host": "192.0.2.7:8421"}
        everything = await kit.shake_hands(headers=host, listener=LAN)
        assert (everything.status, everything.reason) == (401, "TokenInvalid")
        bound = await kit.shake_hands(headers={**host, "x-bridle-token": kit.mint()}, listener=LAN)
        assert bound.status == 200


async def test_many_failures_of_one_peer_are_slowed_down() -> None:
    async with served(scripted()) as kit:
        reasons = [(await kit.shake_hands(headers={"x-bridle-token": "x.y"})).status for _ in range(25)]
        assert reasons[0] == 401
        last = await kit.shake_hands(headers={"x-bridle-token": "x.y"})
        assert (last.status, last.reason) == (429, "TooManyFailures")
        assert int(last.headers["retry-after"]) > 0
        assert (await kit.shake_hands()).status == 200  # a good token is heard all the same


@table("reason", ["NotAClient", "OtherUser"])
async def test_who_is_refused_for_where_they_came_from_is_not_heard(reason: str) -> None:
    async with served(scripted()) as kit:
        answer = await kit.shake_hands(refused=reason)
        assert (answer.status, answer.reason) == (403, reason)
        assert (reason, "127.0.0.1") in kit.refused


async def test_answers_are_kept_out_of_caches_and_frames() -> None:
    async with served(scripted()) as kit:
        headers = (await kit.shake_hands()).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
