"""Nothing heavy at start-up: what each entry point may not import.

A name that stands here costs time before the first word. Whoever needs one imports it where it is used; a list
gets shorter only with a reason.
"""

import json
import os
import subprocess
import sys

import pytest

from cli_kit import Place

# Says on its last line what was imported by the time the command ended.
WITNESS = """
import atexit, sys
from bridle.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""

NEVER = {
    # extras and what they bring; wires are plain functions over JSON
    "pydantic", "mcp", "acp", "textual", "httpx2", "httpx", "uvicorn", "starlette", "websockets", "PIL",
    "keyring", "opentelemetry", "yaml", "anthropic", "openai", "sqlite3",
    # of the standard library, slow and not needed for a local turn
    "importlib.metadata", "http.client", "email", "unittest", "multiprocessing", "xml", "urllib.request",
    "tomllib", "pdb", "doctest", "curses",
}  # fmt: skip
# asyncio imports ssl and socket; msgspec imports uuid (so platform), typing_extensions and inspect: a command that
# reads the log or runs a turn has those anyway. These it does not need.
ENGINE = NEVER | {
    "json", "random", "tempfile", "zipfile", "pathlib", "difflib", "shutil", "importlib.resources", "ctypes",
    "concurrent.futures.process", "bz2", "lzma", "secrets",
}  # fmt: skip
HELP = ENGINE | {
    "asyncio", "msgspec", "apsw", "argparse", "subprocess", "ssl", "socket", "logging", "threading",
    "re", "typing", "dataclasses", "enum", "functools", "collections", "contextlib", "inspect",
    "bridle.app", "bridle.protocol", "bridle.engine", "bridle.sessions",
}  # fmt: skip


def imported(place: Place, *words: str) -> set[str]:
    """The modules a command ended with, less those that Python itself began with."""
    own = _modules(place, "import sys; print(*sys.modules, file=sys.stderr)")
    return _modules(place, WITNESS, *words) - own


def _modules(place: Place, code: str, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stderr.decode().splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (("--version",), HELP | {"bridle.cli.help", "bridle.cli.verbs"}),
        (("--help",), HELP | {"bridle.cli.verbs"}),
        (("run", "-m", "demo", "hi"), ENGINE),
        (("sessions", "list"), ENGINE),
        (("config",), ENGINE | {"asyncio", "apsw", "bridle.app", "bridle.sessions"}),
        (("tools",), ENGINE | {"apsw", "bridle.app", "bridle.sessions"}),
        (("models", "--keys"), ENGINE | {"bridle.sessions"}),
        (("doctor", "--offline"), ENGINE),
        (("completion", "bash"), ENGINE | {"asyncio", "apsw", "bridle.app", "bridle.sessions"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_entry_point_imports_nothing_it_does_not_need(
    place: Place, words: tuple[str, ...], forbidden: set[str]
) -> None:
    assert imported(place, *words) & forbidden == set()


def test_the_witness_sees_what_is_imported(place: Place) -> None:
    assert {"asyncio", "msgspec", "apsw", "bridle.app"} <= imported(place, "run", "-m", "demo", "hi")


def test_looking_at_sessions_that_are_not_there_makes_nothing(place: Place) -> None:
    listed = place.bridle("sessions", "list", "--json")
    assert (listed.code, json.loads(listed.out), listed.err) == (0, [], "")
    assert os.listdir(place.home) == []
