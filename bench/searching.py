"""Searching a large tree with `grep` and `glob`, against ripgrep alone with the same rules about what is left out."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from functools import partial

from measure import Figure, in_turns, plain_env, scratch, times

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say
from bridle.tools.search.file_search import RG_OPTIONS, find_ripgrep

FOLDERS, FILES, LINES = 1_000, 50, 20
ROUNDS = 7
FEW, MANY, ALL = "word199 word1[0-9]{2} word51", "word199 word1[0-9]{2} word5", "word"
"""Expressions that 100, 900 and all of the 1,000,000 lines fit; 200 are shown."""


def search() -> list[Figure]:
    """Regular expressions that few lines fit, more than are shown, and all of them; and names of files, among 50,000
    files. Only few are searched for everywhere, so that it can be said what was left out."""
    with scratch() as home, scratch() as tree:
        _plant(tree)
        rg = find_ripgrep(plain_env(home), tree)
        assert rg is not None
        plain = [rg, *RG_OPTIONS, "--sort=none"]
        python = ("--type-add=p:*.py", "--type=p")
        names = [*plain, "--files", *python]
        against = partial(_against, tree=tree, home=home)
        return [
            against("grep", [*plain, f"--regexp={MANY}"], target=1.3, tool="grep", pattern=MANY),
            against("grep of all", [*plain, f"--regexp={FEW}"], target=3, tool="grep", pattern=FEW),
            against("grep at its limit", [*plain, f"--regexp={ALL}"], target=0.1, tool="grep", pattern=ALL),
            against(
                "grep with a glob",
                [*plain, *python, f"--regexp={MANY}"],
                target=2.2,
                tool="grep",
                pattern=MANY,
                glob="*.py",
            ),
            against("glob", names, target=2.2, tool="glob", pattern="**/*.py"),
            against("glob by time", [*names, "--sortr=modified"], target=1.5, tool="glob", pattern="**/*.py"),
        ]


def _plant(tree: str) -> None:
    words, chance = [f"word{number}" for number in range(200)], random.Random(1)
    texts = ["".join(" ".join(chance.choices(words, k=8)) + "\n" for _ in range(LINES)) for _ in range(500)]
    for folder in range(FOLDERS):
        place = os.path.join(tree, f"pkg{folder % 40:02}", f"mod{folder}")
        os.makedirs(place)
        for number in range(FILES):
            with open(os.path.join(place, f"file{number}.{('py', 'ts', 'md')[number % 3]}"), "w") as file:
                file.write(texts[(folder * FILES + number) % len(texts)])


def _against(
    name: str, argv: list[str], tree: str, home: str, *, target: float, tool: str, **arguments: str
) -> Figure:
    def alone() -> float:
        begun = time.perf_counter()
        ended = subprocess.run([*argv, "--", "./"], cwd=tree, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return time.perf_counter() - begun

    def ours() -> float:
        return asyncio.run(_called(tree, home, tool, arguments))

    alone_s, ours_s = in_turns(ROUNDS, alone, ours)
    return times(f"{name} against rg", ours_s, alone_s, of=f"rg, {FOLDERS * FILES:,} files", target=target)


async def _called(tree: str, home: str, tool: str, arguments: dict[str, str]) -> float:
    """How long the turn takes in which the tool is called, less that of a turn in which it has nothing to do."""
    took: list[float] = []
    for wanted in ({"pattern": "nothing", "path": "pkg00/mod0"}, arguments):
        async with harness(
            scripted(call(tool, **wanted), say("done")), folder=tree, home=home, mode="auto", sandbox="off"
        ) as session:
            begun = time.perf_counter()
            events = await session.ask("go")
            took.append(time.perf_counter() - begun)
            assert [result.outcome for result in of_kind(events, ToolResult)] == ["ok"], events
    return took[1] - took[0]
