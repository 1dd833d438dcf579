"""Schemathesis against the document that an engine gives of itself: a fixed seed, every check, on loopback alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_kit import Place
from serve_kit import ServedPlace, in_work, serving

ST = (
    os.path.join(os.path.dirname(sys.executable), "schemathesis"),
    "--config-file",
    "schemathesis.toml",
    "run",
)
NOBODY = "sess_00000000000000000000000000"
APART = {
    "/shell": (NOBODY, ()),
    "/delete": ("", ()),
    "/connect-provider": ("", ("--mode", "negative")),
    "/events": ("", ("--phases", "fuzzing", "--request-timeout", "1")),
    "/(preview-session|models|providers)": ("", ("--phases", "fuzzing", "--max-examples", "5")),
}
"""What is tried by itself, with which session ("" is a fresh one) and how. A command that nobody typed is run nowhere:
it is asked of a session that is not there. Deleting takes a session from the others. A provider that is connected would
be asked for its models, wherever its address leads: there only mistakes are made. A stream has no end. And in the last
two, coverage either wants unknown headers to be refused, which HTTP ignores, or has thousands of cases of lists."""


def tried(served: ServedPlace, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *ST, f"{url}/v1/openapi.json", "--url", url, "--phases", "coverage,fuzzing",
            "--seed", "1", "--continue-on-failure", "--request-timeout", "10", "--no-color", *options,
        ],
        cwd=served.home.work,
        env=served.home.environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.full
def test_the_engine_does_what_its_document_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, "--listen", "127.0.0.1:0") as served:
        url = f"http://127.0.0.1:{served.port}"
        without_auth = ("--exclude-checks", "ignored_auth", "--max-examples", "2")
        apart = "|".join(f"{path}$" for path in APART)
        use_session(served, new_session(served))
        pass_all(served, url, "--exclude-path-regex", apart, *without_auth)
        for path, (given, options) in APART.items():
            session = given or new_session(served)
            if path == "/delete":
                served.ask("DELETE", f"/v1/sessions/{session}")  # what is open is not deleted
            use_session(served, session)
            pass_all(served, url, "--include-path-regex", f"{path}$", *without_auth, *options)
        # Each of these fails on purpose, and who fails often has to wait: a few are enough.
        pass_all(
            served, url, "--checks", "ignored_auth", "--max-examples", "1",
            "--include-path-regex", "/v1/(health|sessions|profiles)$",
        )  # fmt: skip
        assert served.ask("GET", "/v1/health").status == 200


def new_session(served: ServedPlace) -> str:
    body = {"cwd": str(served.home.work), "model": "demo", "mode": "plan"}
    return served.ask("POST", "/v1/sessions", body).json["session"]


def use_session(served: ServedPlace, session: str) -> None:
    token = f'[headers]\nX-Bridle-Token = "{served.token}"\n'  # a token is no word of a command
    in_work(served.home, "schemathesis.toml", f'{token}[parameters]\nsession = "{session}"\n')


def pass_all(served: ServedPlace, url: str, *options: str) -> None:
    ran = tried(served, url, *options)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-1000:]
    assert "Tested: 0" not in ran.stdout, ran.stdout
