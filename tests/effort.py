"""How much a run of the tests tries: `make test` a sample of random examples, `make test-all` everything."""

import os

EVERYTHING = os.environ.get("BRIDLE_TESTS") == "all"


def examples(number: int) -> int:
    """Return how many random examples a property test tries, of the `number` that a full run tries."""
    return number if EVERYTHING else max(5, number // 5)
