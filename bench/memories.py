"""How long a choice among many memories takes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from measure import Figure, of_rounds, scratch

from bridle.context.memory.memory_choice import choose
from bridle.context.memory.memory_files import memory_files

MEMORIES = 500
CHOICES = 21
MOST_MS = 5
_SAID = "please look at the deploy of number 17 and the database tests " + "some more words " * 100
_SUBJECTS = ("deploy", "database", "tests", "tabs", "docs", "api", "cache", "login", "queue", "worker")


def memory_choice() -> list[Figure]:
    """Choose among memories, with the files looked at as in every turn."""
    with scratch() as home:
        files = memory_files(os.path.join(home, "data"), os.path.join(home, "state"), home).user
        _write_memories(files.path, MEMORIES)
        files.rows()
        took_ms: list[float] = []
        for _ in range(CHOICES):
            begun = time.perf_counter()
            chosen = choose([files.index()], _SAID)
            took_ms.append((time.perf_counter() - begun) * 1000)
            assert chosen, "some fit"
    how = f"among {MEMORIES}, slowest {max(took_ms):.1f} ms"
    return [of_rounds("choice of memories", took_ms, "ms", MOST_MS, how)]


def _write_memories(folder: str, count: int) -> None:
    os.makedirs(folder, mode=0o700)
    for number in range(count):
        first, second = _SUBJECTS[number % 10], _SUBJECTS[number // 10 % 10]
        fields = f"description: How {first} number {number} works with {second}\ntags: [{first}{number}]"
        Path(folder, f"note-{number}.md").write_text(f"---\n{fields}\n---\n\nText {number}.\n")
