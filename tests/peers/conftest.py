"""What the tests against foreign implementations may ask for."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _foreign_packages() -> Iterator[None]:
    """The packages of requirements/peers.txt, behind all others: they never hide one that Bridle uses."""
    place = str(Path(sys.prefix) / "peers")
    sys.path.append(place)
    yield
    sys.path.remove(place)
