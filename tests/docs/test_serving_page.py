"""The recipes of the page about serving work as written, against an engine as people start it."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import TIMEOUT_S, Place
from serve_kit import serving


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """curl takes no socket whose path is longer than its address."""
    with tempfile.TemporaryDirectory(prefix="b") as folder:
        yield Path(folder)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
@pytest.mark.requirement("G30.1")
def test_the_curl_recipes_do_what_the_page_says(short_folder: Path, repository: Path) -> None:
    page = (repository / "docs/serving.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    place = Place(short_folder)
    with serving(place) as served:
        ran = subprocess.run(
            ["bash", "-e", "-c", recipe],
            cwd=place.work,
            env=place.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert served.ask("GET", "/v1/health").json["open_sessions"] == 1  # the first one of the two
    assert ran.returncode == 0, ran.stderr
    assert '"protocol_version"' in ran.stdout
    assert '"stop":"end_turn"' in ran.stdout
    assert "event: " in ran.stdout
    assert "bridle_requests_total" in ran.stdout
    assert '"reason"' not in ran.stdout
