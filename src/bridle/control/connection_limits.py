"""What connections may take: how many there are, how many from one peer, and how long a request may be on its way.

A connection that has not sent a whole head yet is pending. There are only so many of those: where one more comes, the
oldest goes, so that those who send nothing are in nobody's way.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

HEAD_S = 10.0
"""So long the head of a request may take."""
HEAD_BYTES = 64 * 1024
MOST_CONNECTIONS = 600
MOST_PENDING = 100
MOST_OF_A_PEER = 300


class ConnectionLimits:
    """Which connections there are, over all listeners."""

    def __init__(
        self,
        *,
        most: int = MOST_CONNECTIONS,
        most_pending: int = MOST_PENDING,
        most_of_a_peer: int = MOST_OF_A_PEER,
        head_s: float = HEAD_S,
    ) -> None:
        self.head_s = head_s
        self._most = most
        self._most_pending = most_pending
        self._most_of_a_peer = most_of_a_peer
        self._pending: OrderedDict[Hashable, Callable[[], None]] = OrderedDict()
        self._peers: Counter[str] = Counter()
        self._of: dict[Hashable, str] = {}

    @property
    def count(self) -> int:
        return len(self._of)

    def admits(self, connection: Hashable, peer: str, shed: Callable[[], None]) -> bool:
        """Takes a connection in, which is pending; False where there is no room. `shed` closes it when its time is up
        for another one."""
        if len(self._pending) >= self._most_pending:
            _, oldest = self._pending.popitem(last=False)
            oldest()
        if len(self._of) >= self._most or self._peers[peer] >= self._most_of_a_peer:
            return False
        self._of[connection] = peer
        self._peers[peer] += 1
        self._pending[connection] = shed
        return True

    def has_asked(self, connection: Hashable) -> None:
        """Its head is whole: it is not pending any more."""
        self._pending.pop(connection, None)

    def gone(self, connection: Hashable) -> None:
        """Safe for one that was never admitted."""
        self._pending.pop(connection, None)
        peer = self._of.pop(connection, None)
        if peer is not None:
            self._peers[peer] -= 1
            if not self._peers[peer]:
                del self._peers[peer]
