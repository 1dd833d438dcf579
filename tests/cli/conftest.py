"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import Place, SignOfLife


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def life(place: Place) -> Iterator[SignOfLife]:
    sign = SignOfLife(place.work)
    yield sign
    sign.close()
