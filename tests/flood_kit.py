"""Floods under limits of their own: the program under test can fill neither the memory nor the disk of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bridle.conformance.servers import LoopbackServer, Received, ReplyWriter
from cli_kit import BRIDLE, Place, Ran

MEGABYTE = 1 << 20
ROOM_BYTES = 64 * MEGABYTE
"""What any flood may cost: of memory, and on the disk."""
MOST_MEMORY_BYTES = 1536 * MEGABYTE
MOST_FILE_BYTES = 256 * MEGABYTE
TIMEOUT_S = 60
SENT_BYTES = 160 * MEGABYTE
"""A flood ends here whatever its reader does."""

# A small process in between: the peak of a process counts from before its program was loaded, and ours is large.
_LIMITED = f"""
import json, os, resource, subprocess, sys
def limit():
    resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY_BYTES},) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({MOST_FILE_BYTES},) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
process = subprocess.Popen(sys.argv[2:], preexec_fn=limit)
_, status, used = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), used.ru_maxrss], file)
"""


class Flooded(NamedTuple):
    """How a run ended and how much memory it ever had."""

    ran: Ran
    peak_bytes: int


def flooded(place: Place, *words: str, env: Mapping[str, str] | None = None) -> Flooded:
    """Runs `bridle WORDS…` to its end, under limits."""
    report = place.home.parent / "report.json"
    done = subprocess.run(
        [sys.executable, "-S", "-c", _LIMITED, str(report), *BRIDLE, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=place.work,
        env=place.environment(**(env or {})),
        timeout=TIMEOUT_S,
        check=False,
    )
    code, peak_kb = json.loads(report.read_text())
    return Flooded(Ran(code, done.stdout.decode(), done.stderr.decode()), peak_kb * 1024)


def disk_bytes(folder: Path) -> int:
    """What lies in a folder and below, as it takes room."""
    return sum(
        os.lstat(os.path.join(root, name)).st_blocks * 512
        for root, _, names in os.walk(folder)
        for name in names
    )


class FloodServer(LoopbackServer):
    """Answers every request for an answer with the pieces of `flood`, over and over, up to `SENT_BYTES`.

    With `silent_after` it falls silent after so many bytes and leaves the answer open.
    """

    def __init__(
        self,
        flood: Iterator[bytes] | list[bytes],
        *,
        first: bytes = b"",
        silent_after: int | None = None,
    ) -> None:
        super().__init__()
        self._flood = flood
        self._first = first
        self.sent = 0
        self._silent_after = silent_after

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if request.method == "GET":
            return await reply.whole(404, {"error": "not found"})
        await reply.begin_stream()
        await reply.write(self._first)
        while self.sent < (self._silent_after or SENT_BYTES):
            for piece in self._flood:
                await reply.write(piece)
                self.sent += len(piece)
        if self._silent_after is not None:
            await asyncio.Event().wait()  # until the test ends
        return await reply.end_stream()
