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


_CHANGE = re.compile(
    r'\b(write|pwrite64|writev|pwritev|ftruncate|fsync|fdatasync|unlink)\((?:\d+<([^>]*)>|"([^"]*)")'
)


class Asked(NamedTuple):
    """`sync` of a file or folder, or `rename` to a path."""

    what: str
    path: str


def traced(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], scratch: Path
) -> tuple[subprocess.CompletedProcess[bytes], list[Asked]]:
    """Runs a command to its end; what it and its children synced and renamed."""
    options = ("-e", "trace=fsync,fdatasync,rename,renameat,renameat2")
    done, lines = _strace(command, *options, cwd=cwd, env=env, scratch=scratch)
    asked: list[Asked] = []
    for line in lines:
        if found := _SYNC.search(line):
            asked.append(Asked("sync", found[1]))
        elif found := _RENAME.search(line):
            asked.append(Asked("rename", os.path.join(found[2] or "", found[3])))
    return done, asked


def unsynced(
    command: Sequence[str],
    *,
    failing: Path,
    nth: int,
    watched: Sequence[Path] = (),
    cwd: Path,
    env: Mapping[str, str],
    scratch: Path,
) -> tuple[subprocess.CompletedProcess[bytes], list[Asked] | None]:
    """Runs a command to its end on a disk where a thread's `nth` sync of the file `failing` is an I/O error, and no
    other. What was done after that to this file and to those `watched`, or None where it never came to it.
    """
    paths = [word for path in (failing, *watched) for word in ("-P", str(path))]
    only = ("-e", "trace=fsync,fdatasync,write,pwrite64,writev,pwritev,ftruncate,unlink")
    fault = ("-e", f"inject=fsync,fdatasync:error=EIO:when={nth}")
    done, lines = _strace(command, *paths, *only, *fault, cwd=cwd, env=env, scratch=scratch)
    at = next((number for number, line in enumerate(lines) if line.endswith("(INJECTED)")), None)
    if at is None:
        return done, None
    changes = (found for line in lines[at + 1 :] if (found := _CHANGE.search(line)))
    return done, [Asked(found[1], found[2] or found[3]) for found in changes]


def _strace(
    command: Sequence[str], *options: str, cwd: Path, env: Mapping[str, str], scratch: Path
) -> tuple[subprocess.CompletedProcess[bytes], list[str]]:
    strace = shutil.which("strace")
    out = scratch / "strace.out"
    if strace is None or subprocess.run([strace, "-o", str(out), "true"], check=False).returncode != 0:
        pytest.skip("needs strace, and a system that lets it look")
    done = subprocess.run(
        [strace, "-f", "-y", "-s", "400", "-o", str(out), *options, *command],
        cwd=cwd,
        env=dict(env),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done, out.read_text(encoding="utf-8", errors="replace").splitlines()
