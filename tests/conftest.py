"""What every test may ask for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

if "CI" not in os.environ:  # there the library's own profile holds: the same examples every time
    settings.register_profile("steady", deadline=None)  # how long an example takes is the machine's affair
    settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def _scratch_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds the home of whoever runs the tests through the environment."""
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    if before is None:
        del os.environ["HOME"]
    else:
        os.environ["HOME"] = before


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout the tests run from."""
    return Path(__file__).resolve().parent.parent
