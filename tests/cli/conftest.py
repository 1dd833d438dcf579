"""What the tests of the command line share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import Place, SignOfLife
from serve_kit import EngineHost, PlaceWithEngine


@pytest.fixture(scope="session")
def engine_host() -> Iterator[EngineHost]:
    host = EngineHost()
    yield host
    host.close()


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if os.environ.get("TRY_ENGINE"):
        served = PlaceWithEngine(tmp_path, request.getfixturevalue("engine_host"))
        yield served
        served.close()
    else:
        yield Place(tmp_path)


@pytest.fixture
def life(place: Place) -> Iterator[SignOfLife]:
    sign = SignOfLife(place.work)
    yield sign
    sign.close()
