"""What the tests against foreign implementations may ask for."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.peer_kit import HERE, serving

MODEL_PACKAGES = Path(sys.prefix) / "peers-model"


ONE_BY_ONE = ("test_mcp_client_suite",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the tests of a file share is started once: they run in one process, and the small model is one for all."""
    for item in items:
        if item.path.parent == HERE and item.path.stem not in ONE_BY_ONE:
            shares_model = item.path.stem.startswith("test_small_model")
            item.add_marker(pytest.mark.xdist_group("small_model" if shares_model else item.path.stem))


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
