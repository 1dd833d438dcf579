"""What every test may ask for."""

import ipaddress
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from effort import EVERYTHING, examples

# No deadline: how long an example takes depends on the machine. In CI every run tries the same examples.
settings.register_profile("steady", deadline=None, max_examples=examples(100), derandomize="CI" in os.environ)
settings.load_profile("steady")

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, for what tests start too


def _stay_on_this_machine(event: str, given: tuple[object, ...]) -> None:
    """No test connects to another machine, or sends it anything."""
    if event in ("socket.connect", "socket.sendto"):
        address = given[1]
        if isinstance(address, tuple) and not _is_here(str(address[0])):
            raise AssertionError(f"a test reaches for {address}")


def _is_here(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host in ("localhost", "")
    return address.is_loopback or address.is_unspecified


sys.addaudithook(_stay_on_this_machine)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests with the mark `full` to `make test-all`."""
    if not EVERYTHING:
        full = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


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
