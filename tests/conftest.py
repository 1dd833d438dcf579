"""What every test may ask for."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout the tests run from."""
    return Path(__file__).resolve().parent.parent
