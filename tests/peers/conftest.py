"""What the tests against foreign implementations may ask for."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.peer_kit import serving

MODEL_PACKAGES = Path(sys.prefix) / "peers-model"


@pytest.fixture(scope="session", autouse=True)
def _foreign_packages() -> Iterator[None]:
    """The packages of requirements/peers.txt, behind all others: they never hide one that Bridle uses."""
    place = str(Path(sys.prefix) / "peers")
    sys.path.append(place)
    yield
    sys.path.remove(place)


@pytest.fixture(scope="session")
def small_model() -> Iterator[str]:
    """The address of a small real model, served by llama.cpp."""
    if not (MODEL_PACKAGES / ".ready").exists():
        pytest.skip("needs the packages of requirements/peers-model.txt: run make test-peers")
    with serving(sys.executable, "small_model_peer.py", PYTHONPATH=str(MODEL_PACKAGES)) as address:
        yield f"{address}/v1"
