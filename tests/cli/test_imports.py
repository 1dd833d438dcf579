"""Heavy packages that a plain run does not import."""

import json
import os
import subprocess
import sys

from cli_kit import Place

NOT_FOR_A_RUN = frozenset(
    {
        "PIL", "acp", "httptools", "httpx", "httpx2", "keyring", "mcp", "opentelemetry", "pydantic", "pygments",
        "sqlite3", "starlette", "textual", "tomlkit", "tree_sitter", "uvicorn", "websockets", "yaml",
    }
)  # fmt: skip
"""Packages of extras, and large ones that only some features need. Each is imported inside its feature."""

BEHIND_A_DOOR = frozenset(
    {
        "bridle.agents.session_goal", "bridle.app.engine_answers", "bridle.app.features.git_feature",
        "bridle.app.project_trust",
        "bridle.app.service_access", "bridle.app.session_past",
        "bridle.app.records.session_undo", "bridle.app.features.tool_layers",
        "bridle.base.git.git_repository", "bridle.base.net.web", "bridle.clients.dotted_events",
        "bridle.context.skills.skill_reading", "bridle.credentials.oauth",
        "bridle.sessions.log.undo_store", "bridle.tools.search.file_search", "bridle.undo", "urllib.parse",
    }
)  # fmt: skip
"""The first modules of features that a plain run does not use, and what only they need of the standard library."""

WITNESS = """
import atexit, sys
from bridle.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""


def test_a_run_imports_no_package_that_it_does_not_need(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITNESS, "run", "-m", "demo", "hi"],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    loaded = set(done.stderr.decode().splitlines()[-1].split())
    assert {"asyncio", "msgspec", "apsw", "bridle.app"} <= loaded, "the witness sees what is imported"
    assert loaded & (NOT_FOR_A_RUN | BEHIND_A_DOOR) == set()


def test_looking_at_sessions_that_are_not_there_makes_nothing(place: Place) -> None:
    listed = place.bridle("sessions", "list", "--json")
    assert (listed.code, json.loads(listed.out), listed.err) == (0, [], "")
    assert os.listdir(place.home) == []
