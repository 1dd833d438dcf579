"""What a program really asks of the kernel, in order: a witness of syncs that needs no power cut."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

TIMEOUT_S = 60
_SYNC = re.compile(r"\b(?:fsync|fdatasync)\(\d+<([^>]*)>")
_FOLDER = r"(?:\w+<([^>]*)>, )?"
_RENAME = re.compile(rf'\brename\w*\({_FOLDER}"[^"]*", {_FOLDER}"([^"]*)"')


class Asked(NamedTuple):
    """`sync` of a file or folder, or `rename` to a path."""

    what: str
    path: str


def traced(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], scratch: Path
) -> tuple[subprocess.CompletedProcess[bytes], list[Asked]]:
    """Runs a command to its end; what it and its children synced and renamed."""
    strace = shutil.which("strace")
    out = scratch / "strace.out"
    if strace is None or subprocess.run([strace, "-o", str(out), "true"], check=False).returncode != 0:
        pytest.skip("needs strace, and a system that lets it look")
    tracing = [
        strace,
        "-f",
        "-y",
        "-s",
        "400",
        "-o",
        str(out),
        "-e",
        "trace=fsync,fdatasync,rename,renameat,renameat2",
    ]
    done = subprocess.run(
        [*tracing, *command], cwd=cwd, env=dict(env), capture_output=True, timeout=TIMEOUT_S, check=False
    )
    asked: list[Asked] = []
    for line in out.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := _SYNC.search(line):
            asked.append(Asked("sync", found[1]))
        elif found := _RENAME.search(line):
            asked.append(Asked("rename", os.path.join(found[2] or "", found[3])))
    return done, asked
