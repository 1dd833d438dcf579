"""What a listening engine serves over any transport: its clients, its tokens, what it says of itself and counts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridle.base.clock import Clock
from bridle.control.event_batches import OpenStreams
from bridle.control.minting import Minting
from bridle.control.request_guard import TokenReader
from bridle.control.served_clients import ServedClients
from bridle.control.service_metrics import ServiceCounters
from bridle.protocol.handshake import Handshake

_AT_THE_DOOR = frozenset(
    {
        "TokenMissing", "HostRefused", "OriginRefused", "NotAClient", "OtherUser", "HandshakeRequired",
        "HandshakeVersionMismatch", "BadFrame", "TooLarge", "TooSlow", "TooManyConnections",
    }
)  # fmt: skip


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """`gauges` are how many sessions are open and how many clients attached, `openapi` is the document of the routes.

    `hear_refusal` is told of what is refused at the door, with where it came from: what is refused for its token or for
    who asks is told by those who know. `hear_fault` hears of what nobody foresaw, and of parts that broke. `revoke`
    lets a token go, by the id of the one who wants that.
    """

    clients: ServedClients
    tokens: TokenReader
    hello: Callable[[], Handshake]
    clock: Clock
    counters: ServiceCounters
    streams: OpenStreams
    gauges: Callable[[], tuple[int, int]]
    openapi: Callable[[], bytes]
    hear_refusal: Callable[[str, str], None]
    hear_fault: Callable[[BaseException], None]
    is_stopping: Callable[[], bool]
    minting: Callable[[], Minting]
    revoke: Callable[[str, str], None]

    def note_refusal(self, reason: str, peer: str) -> None:
        """Counts a refusal and tells of it."""
        self.counters.refusals[reason] += 1
        if reason in _AT_THE_DOOR:
            self.hear_refusal(reason, peer)
