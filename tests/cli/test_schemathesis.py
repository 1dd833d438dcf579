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
LEFT_OUT = r"(/shell|/events|/delete|/detach|/connect-provider|/preview-session|/models|/providers)$"
"""A command typed by nobody, a stream without end, what would take the session away that the others use, and what asks
the network or has a whole session in its address, of which there are thousands of cases."""


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
def test_the_engine_does_what_its_document_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, "--listen", "127.0.0.1:0") as served:
        (url,) = [
            word.rstrip(",") for line in served.lines for word in line.split() if word.startswith("http")
        ]
        made = served.ask("POST", "/v1/sessions", {"cwd": str(place.work), "model": "demo", "mode": "plan"})
        session = f'[parameters]\nsession = "{made.json["session"]}"\n'
        token = f'[headers]\nX-Bridle-Token = "{served.token}"\n'  # a token is no word of a command
        in_work(place, "schemathesis.toml", token + session)
        ran = tried(
            served,
            url,
            "--max-examples",
            "2",
            "--exclude-path-regex",
            LEFT_OUT,
            "--exclude-checks",
            "ignored_auth",
        )
        assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-1000:]
        # Each of these fails on purpose, and who fails often has to wait: a few are enough.
        auth = tried(
            served, url, "--checks", "ignored_auth", "--max-examples", "1",
            "--include-path-regex", "/v1/(health|sessions|profiles)$",
        )  # fmt: skip
        assert auth.returncode == 0, auth.stdout[-6000:] + auth.stderr[-1000:]
        assert served.ask("GET", "/v1/health").status == 200
