"""The generated files of the JavaScript client are those of the types and routes."""

import runpy
from pathlib import Path


def test_the_committed_files_of_the_javascript_client_are_those_of_the_types(repository: Path) -> None:
    script = runpy.run_path(str(repository / "scripts/javascript.py"))
    written = {
        name: (repository / "clients/javascript" / name).read_text("utf-8") for name in script["files"]()
    }
    assert written == script["files"](), "run: .venv/bin/python scripts/javascript.py"
