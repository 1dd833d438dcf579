"""The manual page: made from the help pages and the options, and fit for `man`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.cli.help import pages
from bridle.cli.verbs import VERBS, verb_names
from cli_kit import Place


def test_the_manual_page_has_every_help_page_and_every_option(place: Place) -> None:
    ran = place.bridle("help", "man")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(".TH BRIDLE 1 ")
    plain = ran.out.replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "").replace("\\(ti", "~")
    for page in pages().values():
        for line in page.splitlines()[1:]:
            assert line.replace("\\", "\\e").replace("`", "\\(ga").replace("^", "\\(ha") in plain, line
    assert all(verb in plain for verb in verb_names(VERBS))
    assert "--output-schema FILE" in plain


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_troff_finds_no_fault_in_the_manual_page(place: Place, tmp_path: Path) -> None:
    page = tmp_path / "bridle.1"
    page.write_text(place.bridle("help", "man").out, encoding="utf-8")
    groff = ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", str(page)]
    done = subprocess.run(groff, capture_output=True, check=False, timeout=40)
    faults = [
        line for line in done.stderr.decode().splitlines() if "adjust" not in line and "break" not in line
    ]
    assert (done.returncode, faults) == (0, [])
    assert "a coding agent that asks first" in done.stdout.decode()
