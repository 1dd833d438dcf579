"""What was sent to a connection, for when a stream of it breaks."""

import pytest
from mcp_types import JSONRPCNotification

from bridle.clients.mcp_server.http_mount import KEPT_BYTES, KEPT_MESSAGES, SentMessages


def message(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=text)


async def again(sent: SentMessages, event_id: str) -> tuple[str | None, list[str]]:
    came: list[str] = []

    async def take(one) -> None:
        came.append(one.message.method)

    return await sent.replay_events_after(event_id, take), came


@pytest.mark.requirement("X26")
async def test_what_came_behind_a_message_on_its_stream_is_sent_again() -> None:
    sent = SentMessages()
    first = await sent.store_event("1", None)
    for stream, text in (("1", "a"), ("2", "other"), ("1", "b")):
        await sent.store_event(stream, message(text))
    assert await again(sent, first) == ("1", ["a", "b"])
    assert await again(sent, "nobody") == (None, [])


async def test_only_so_much_is_kept() -> None:
    sent = SentMessages()
    first = await sent.store_event("1", message("a"))
    for _ in range(KEPT_MESSAGES):
        last = await sent.store_event("1", message("b"))
    assert (await again(sent, first))[0] is None
    assert await again(sent, last) == ("1", [])
    await sent.store_event("1", message("x" * KEPT_BYTES))
    assert (await again(sent, last))[0] is None
