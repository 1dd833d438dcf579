"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import Place, SignOfLife
from serve_kit import EngineHost, PlaceWithEngine

ALONE, ENGINE = "alone", "engine"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of what a run does, which is the same in a process of its own and through an engine, run in both."""
    marked = metafunc.definition.get_closest_marker
    if "place" in metafunc.fixturenames and marked("through_engine") and not marked("in_process"):
        metafunc.parametrize("place", (ALONE, ENGINE), indirect=True)


@pytest.fixture(scope="session")
def engine_host() -> Iterator[EngineHost]:
    host = EngineHost()
    yield host
    host.close()


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if getattr(request, "param", ALONE) == ENGINE:
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
