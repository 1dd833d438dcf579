"""One memory limit for all caches."""

import pytest

from bridle.base.memory_budget import MemoryBudget, MemoryCache


@pytest.mark.requirement("G42.3")
def test_the_entry_used_longest_ago_is_evicted_whichever_cache_it_is_in() -> None:
    budget = MemoryBudget(limit_bytes=10)
    names, texts = (
        MemoryCache[str](budget, "a session", "names"),
        MemoryCache[str](budget, "a session", "texts"),
    )
    names.put(1, "one", 4)
    texts.put(1, "uno", 4)
    assert names.get(1) == "one"
    texts.put(2, "due", 4)
    assert (names.get(1), texts.get(1), texts.get(2)) == ("one", None, "due")
    texts.put(2, "too large", 11)
    assert (texts.get(2), names.get(1)) == (None, "one")
    assert (budget.used_bytes, budget.evictions) == (4, 1)
