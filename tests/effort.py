"""How much a run of the tests tries: `make test` a sample of random examples, `make test-all` everything."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

EVERYTHING = os.environ.get("BRIDLE_TESTS") == "all"


def examples(number: int) -> int:
    """Return how many random examples a property test tries, of the `number` that a full run tries."""
    return number if EVERYTHING else max(5, number // 5)


def sample(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return values for `parametrize`: the first `quick` of them for every run, the others for `make test-all`."""
    given = list(values)
    return [*given[:quick], *(pytest.param(value, marks=pytest.mark.full) for value in given[quick:])]
