"""What skills and memories that somebody has add to a run, in instructions; and how long a choice among memories takes.

Nothing but the list of skills and the choice of memories may grow with their number. Needs valgrind.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from instructions import counted_warm
from measure import Figure, of_rounds, plain_env, scratch

from bridle.app.skill_sources import project_skill_items
from bridle.config.folders import folders
from bridle.context.memory.memory_choice import choose
from bridle.context.memory.memory_files import memory_files
from bridle.context.skills.skill_records import SkillSettings
from bridle.safety.trust import Approvals

SKILLS, MEMORIES = 200, 500
CHOICES = 21
MOST = 1.05
MOST_MS = 5
_SETTLED_S = 2.1
"""What changed so lately is read again at the next start: nobody has made all of it just now."""
_SAID = "please look at the deploy of number 17 and the database tests " + "some more words " * 100
_SUBJECTS = ("deploy", "database", "tests", "tabs", "docs", "api", "cache", "login", "queue", "worker")


def brought() -> list[Figure]:
    """A run with each of them against one with none, all else being the same."""
    assert shutil.which("valgrind"), "install valgrind to count instructions"
    none = _run(0, 0, 0)
    how = f"of a run with none, {none / 1e6:.0f} M"
    found = {
        f"{SKILLS} own skills": _run(SKILLS, 0, 0),
        f"{SKILLS} trusted skills of a project": _run(0, SKILLS, 0),
        f"{MEMORIES} memories": _run(0, 0, MEMORIES),
    }
    return [
        *(
            Figure(name=f"instructions, {name}", value=count / none, unit="x", target=MOST, how=how)
            for name, count in found.items()
        ),
        _choice(),
    ]


def _run(own: int, of_project: int, memories: int) -> int:
    with scratch() as home, scratch() as cwd:
        env = plain_env(home) | {"PYTHONHASHSEED": "0"}
        where = folders(env)
        os.makedirs(where.config, mode=0o700)
        Path(where.config, "config.toml").write_text("[memory]\nheadless = true\n")
        os.makedirs(os.path.join(cwd, ".bridle"))
        _write_skills(Path(where.config, "skills"), own)
        _write_skills(Path(cwd, ".bridle", "skills"), of_project)
        _write_memories(memory_files(where.data, where.state, cwd).user.path, memories)
        approvals = Approvals(where.config)
        now_ms = time.time_ns() // 1_000_000
        asked = project_skill_items(SkillSettings(), where=where, cwd=cwd, env=env, now_ms=now_ms)
        agreed = [item.approve(approvals) for item in asked]
        assert len(agreed) == of_project, "each was asked about"
        time.sleep(_SETTLED_S)
        return counted_warm(["run", "-m", "demo", "hi"], env=env, cwd=cwd)


def _write_skills(folder: Path, count: int) -> None:
    for number in range(count):
        scripts = folder / f"skill-{number}" / "scripts"
        scripts.mkdir(parents=True)
        (scripts / "run.sh").write_text(f"echo {number}\n")
        about = f"How to do number {number} of what this project needs, step by step. Use it for {number}."
        (scripts.parent / "SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: {about}\n---\n\nDo {number}.\n"
        )


def _write_memories(folder: str, count: int) -> None:
    os.makedirs(folder, mode=0o700)
    for number in range(count):
        first, second = _SUBJECTS[number % 10], _SUBJECTS[number // 10 % 10]
        fields = f"description: How {first} number {number} works with {second}\ntags: [{first}{number}]"
        Path(folder, f"note-{number}.md").write_text(f"---\n{fields}\n---\n\nText {number}.\n")


def _choice() -> Figure:
    """With the files looked at, as every turn does."""
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
    return of_rounds("choice of memories", took_ms, "ms", MOST_MS, how)
