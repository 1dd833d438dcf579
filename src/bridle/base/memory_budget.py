"""One memory limit for the caches of an engine."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar, cast

V = TypeVar("V")

LIMIT_BYTES = 32 << 20


class MemoryBudget:
    """Entries of all caches, in the order of their last use. Over the limit, the one used longest ago is evicted,
    whichever cache it belongs to."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[tuple[str, str, Hashable], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.used_bytes = 0
        self.evictions = 0

    def get(self, key: tuple[str, str, Hashable]) -> Any:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: tuple[str, str, Hashable], value: Any, size_bytes: int) -> None:
        """Keep a value of this size, unless it alone is over the limit."""
        with self._lock:
            self._remove(key)
            if size_bytes > self._limit_bytes:
                return
            self._entries[key] = (value, size_bytes)
            self.used_bytes += size_bytes
            while self.used_bytes > self._limit_bytes:
                self._remove(next(iter(self._entries)))
                self.evictions += 1

    def drop(self, owner: str) -> None:
        """Forget everything of one owner, such as a session that ended."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == owner]:
                self._remove(key)

    def _remove(self, key: tuple[str, str, Hashable]) -> None:
        _, size_bytes = self._entries.pop(key, (None, 0))
        self.used_bytes -= size_bytes


class MemoryCache(Generic[V]):
    """A cache of one owner within a budget. Any entry may be gone at any time and is made again."""

    def __init__(self, budget: MemoryBudget, owner: str, name: str) -> None:
        self._budget = budget
        self._owner = owner
        self._name = name

    def get(self, key: Hashable) -> V | None:
        return cast("V | None", self._budget.get((self._owner, self._name, key)))

    def put(self, key: Hashable, value: V, size_bytes: int) -> None:
        self._budget.put((self._owner, self._name, key), value, size_bytes)
