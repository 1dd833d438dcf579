"""An engine that runs for weeks: what came and went leaves nothing behind."""

import asyncio
import gc
from collections import Counter

import pytest

from bridle.clients.remote import connect_remote
from bridle.conformance.asgi_client import open_asgi_websocket
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.control.live import LiveSession
from bridle.control.live_sessions import ENDED_KEPT, _keep
from bridle.control.served_clients import TokenClient
from bridle.engine.session import Session
from bridle.protocol.commands import AttachSession
from bridle.providers.script import say
from served_kit import Served, served, text

HALF_HOUR_S = 1800
ROUNDS = 6


def there(*kinds: type) -> Counter[str]:
    """How many objects of these kinds there are."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in kinds)


async def at_rest(*kinds: type) -> Counter[str]:
    """The same once what is ending has ended: that takes threads, which no clock of ours knows."""
    async with asyncio.timeout(30):
        while sum(type(one) is LiveSession and one.state != "ended" for one in gc.get_objects()) > 1:
            await asyncio.sleep(0)
    return there(*kinds)


async def come_and_go(kit: Served, clock: FakeClock, model_cwd: str) -> None:
    """A person with a token opens a session by requests and leaves; another one looks at it again over a socket."""
    headers = {"x-bridle-token": kit.token}
    made = (
        await kit.ask("POST", "/v1/sessions", {"cwd": model_cwd, "model": "demo:scripted"}, headers=headers)
    ).json
    guest = {"x-bridle-token": kit.mint(sessions=(made["session"],), life_s=60)}
    await kit.shake_hands(headers=guest)
    turn = await kit.ask("POST", f"/v1/sessions/{made['session']}/input?wait=turn", text("hi"), headers=guest)
    assert turn.json["stop"] == "end_turn"
    await clock.advance(HALF_HOUR_S + 1)
    await asyncio.sleep(0)
    again = await connect_remote(
        lambda: open_asgi_websocket(kit.app, kit.token), address="there", name="again", answers=True
    )
    await again.send(AttachSession(session=made["session"]))
    await again.close()
    await clock.advance(HALF_HOUR_S + 1)


@pytest.mark.requirement("X17")
async def test_sessions_that_were_opened_idled_and_reopened_and_tokens_that_expired_leave_no_objects(
    tmp_path,
) -> None:
    clock, kinds = FakeClock(), (Session, LiveSession, TokenClient)
    async with served(scripted(*(say("Yes.") for _ in range(ROUNDS + 2))), clock=clock) as kit:
        await kit.shake_hands()
        for _ in range(2):
            await come_and_go(kit, clock, str(tmp_path))
        before = await at_rest(*kinds)
        for _ in range(ROUNDS):
            await come_and_go(kit, clock, str(tmp_path))
        assert await at_rest(*kinds) - before == Counter(), "some are left of what came and went"


def test_of_what_ended_only_so_much_is_known() -> None:
    kept: dict[int, str] = {}
    for number in range(ENDED_KEPT + 5):
        _keep(kept, number, "")
    _keep(kept, 5, "again")
    assert len(kept) == ENDED_KEPT
    assert (min(kept), list(kept)[-1]) == (5, 5)
