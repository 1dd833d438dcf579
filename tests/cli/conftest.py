"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import Place, SignOfLife
from serve_kit import PlaceWithEngine

ALONE, ENGINE = "alone", "engine"
FULL_ENGINE = pytest.param(ENGINE, marks=pytest.mark.full)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of what a run does, which is the same in a process of its own and through an engine, run in both."""
    marked = metafunc.definition.get_closest_marker
    if "place" in metafunc.fixturenames and marked("through_engine") and not marked("in_process"):
        engine = ENGINE if marked("through_engine").kwargs.get("quick", True) else FULL_ENGINE
        metafunc.parametrize("place", (ALONE, engine), indirect=True)


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    real_program = request.node.get_closest_marker("real_program") is not None
    if getattr(request, "param", ALONE) == ENGINE:
        served = PlaceWithEngine(tmp_path, real_program=real_program)
        yield served
        served.close()
    else:
        yield Place(tmp_path, real_program=real_program)


@pytest.fixture
def life(place: Place) -> Iterator[SignOfLife]:
    sign = SignOfLife(place.work)
    yield sign
    sign.close()
