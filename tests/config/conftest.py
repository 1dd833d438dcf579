"""What the tests of settings share."""

from pathlib import Path

import pytest

from config.config_kit import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
