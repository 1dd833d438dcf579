"""What a `bridle` costs at a terminal while nothing happens: before a word, and while a question waits."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
import time
from pathlib import Path

from measure import BRIDLE, Figure, plain_env, scratch

LOOKED_S = 5.0
_SETTLED_S = 2.0
_DEADLINE_S = 60.0
_SCRIPT = 'call bash {"command": "touch made"}\n---\nsay Done.\n'


def idle() -> list[Figure]:
    """CPU time and switches of the program and of what it started, as the kernel counts them."""
    with scratch() as folder:
        Path(folder, "asks.script").write_text(_SCRIPT)
        terminal, side = pty.openpty()
        termios.tcsetwinsize(side, (40, 100))
        process = subprocess.Popen(
            [BRIDLE, "-m", "demo:asks.script", "-C", folder],
            stdin=side,
            stdout=side,
            stderr=side,
            cwd=folder,
            env={**plain_env(folder), "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(side)
        try:
            _reads(terminal, until=b"twice leaves")
            figures = _figures("idle", process.pid, terminal)
            os.write(terminal, b"go\r")
            _reads(terminal, until=b"Run this command?")
            return [*figures, *_figures("idle, question waits", process.pid, terminal)]
        finally:
            process.kill()
            process.wait()
            os.close(terminal)


def _figures(name: str, pid: int, terminal: int) -> list[Figure]:
    _reads(terminal, for_s=_SETTLED_S)
    before = _used(pid)
    assert not _reads(terminal, for_s=LOOKED_S), "something was drawn"
    after = _used(pid)
    how = f"{LOOKED_S:g} s at a terminal, all its processes and threads"
    return [
        Figure(name=f"{name}, CPU", value=(after[0] - before[0]) / 1e6, unit="ms", target=1, how=how),
        Figure(name=f"{name}, switches", value=after[1] - before[1], unit="", target=5, how=how),
    ]


def _used(pid: int) -> tuple[int, int]:
    """The nanoseconds that the process and its children were on a CPU, and how often they were put on one."""
    spent = slices = 0
    waiting = [pid]
    while waiting:
        tasks = Path(f"/proc/{waiting.pop()}/task")
        for task in tasks.iterdir():
            on_cpu, _, times = (task / "schedstat").read_text().split()
            spent, slices = spent + int(on_cpu), slices + int(times)
            waiting += map(int, (task / "children").read_text().split())
    return spent, slices


def _reads(terminal: int, *, until: bytes | None = None, for_s: float = _DEADLINE_S) -> bytes:
    """What comes, up to some words or for so long."""
    end_s, read = time.monotonic() + for_s, b""
    while until is None or until not in read:
        left_s = end_s - time.monotonic()
        if left_s <= 0 or not select.select([terminal], [], [], left_s)[0]:
            assert until is None, f"never seen: {until.decode()}\n{read.decode(errors='replace')}"
            break
        read += os.read(terminal, 65536)
    return read
