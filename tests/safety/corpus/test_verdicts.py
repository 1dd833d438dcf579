"""The whole corpus put to the permission engine: what `explain` says, and that a real engine does the same.

The real engine runs with `--dry-run` inside bubblewrap: should a verdict be wrong, nothing comes of it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridle.app.queries.explain import Explained, Unexplainable, explain, standing
from safety.corpus.loading import SYSTEM_PATH, Scene, daily, daily_deeds, ordinary, tricky

MAY_ASK = 0.02


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Scene:
    return Scene.make(tmp_path_factory.mktemp("verdicts"))


def environment(scene: Scene) -> dict[str, str]:
    own = os.path.join(scene.home, "bridle")
    return {"PATH": SYSTEM_PATH, "HOME": scene.home, "BRIDLE_HOME": own, "LC_ALL": "C.UTF-8"}


async def verdicts(scene: Scene, commands: list[str]) -> dict[str, Explained | None]:
    """What is said of each command in mode default; None for one that is no call at all."""
    here = standing(environment(scene), cwd=scene.cwd, mode="default")
    found: dict[str, Explained | None] = {}
    for command in commands:
        try:
            found[command] = await explain(here, "bash", {"command": command})
        except Unexplainable:
            found[command] = None
    return found


@pytest.mark.requirement("C26", "G8.4")
async def test_ordinary_commands_hardly_ever_ask(scene: Scene) -> None:
    cases = ordinary()
    said = await verdicts(scene, [case.command for case in cases])
    wrong = {
        case.command: answer.because
        for case in cases
        if (answer := said[case.command]) is None or (answer.verdict == "allow") != case.quiet
    }
    assert wrong == {}
    asking = [case for case in cases if not case.quiet]
    assert len(cases) >= 200
    assert len(asking) <= len(cases) * MAY_ASK


@pytest.mark.requirement("C26", "G8.4")
@pytest.mark.parametrize(
    ("make", "cases"), [(Scene.make, ordinary()), (Scene.make_daily, daily())], ids=["ordinary", "daily"]
)
async def test_at_most_two_in_a_hundred_ask_for_nothing(tmp_path: Path, make, cases) -> None:
    said = await verdicts(make(tmp_path), [case.command for case in cases])
    asking = {
        command: answer.because for command, answer in said.items() if answer and answer.verdict != "allow"
    }
    marked = {case.command for case in cases if not case.quiet}
    figure = f"{len(asking)} of {len(cases)} ask for nothing: {len(asking) / len(cases):.1%}"
    assert len(cases) >= 200
    assert (set(asking), len(asking) <= len(cases) * MAY_ASK) == (marked, True), f"{figure}, {asking}"
    print(figure)


async def test_what_a_day_changes_or_runs_asks(tmp_path: Path) -> None:
    said = await verdicts(Scene.make_daily(tmp_path), list(daily_deeds()))
    assert [command for command, answer in said.items() if answer is None or answer.verdict == "allow"] == []


async def test_no_tricky_command_runs_without_a_question(scene: Scene) -> None:
    cases = [
        case for case in tricky() if not (case.files or case.links or case.git_config or case.search_path)
    ]
    said = await verdicts(scene, [scene.filled(case.command) for case in cases])
    for case in cases:
        answer = said[scene.filled(case.command)]
        if answer is None:
            continue
        if case.refused:
            assert (answer.verdict, answer.step) == ("deny", 1), case.command
        elif case.at_least != "read_only":
            assert answer.verdict != "allow", case.command


def confinement(scene: Scene) -> list[str]:
    root = os.path.dirname(scene.home)
    bubblewrap = shutil.which("bwrap", path=SYSTEM_PATH)
    confined = [
        bubblewrap or "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/",
        "--dev", "/dev", "--proc", "/proc", "--bind", root, root,
    ]  # fmt: skip
    if bubblewrap is None or subprocess.run([*confined, "true"], capture_output=True).returncode:
        pytest.skip("needs bubblewrap that works: quiet commands are run for real")
    return confined


@pytest.mark.timeout(240)
async def test_what_is_explained_is_what_happens(scene: Scene, tmp_path: Path) -> None:
    special = [
        case for case in tricky() if not (case.files or case.links or case.git_config or case.search_path)
    ]
    commands = [case.command for case in ordinary()]
    commands += [scene.filled(case.command) for case in special if not case.cwd]
    commands = [
        command
        for command in dict.fromkeys(commands)
        if command.isprintable() and command.strip() and not command.startswith("sleep")
    ]
    said = await verdicts(scene, commands)
    commands = [command for command in commands if said[command] is not None]
    script = "---\n".join(f"call bash {json.dumps({'command': command})}\n" for command in commands)
    path = Path(os.path.dirname(scene.home), "corpus.script")
    path.write_text(f"{script}---\nsay done\n", encoding="utf-8")
    options = ("--dry-run", "--stream-json", "--max-steps", str(len(commands) + 1), "-m", f"demo:{path}")
    ran = subprocess.run(
        [*confinement(scene), sys.executable, "-m", "bridle", "run", *options, "go"],
        cwd=scene.cwd,
        env=environment(scene),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=200,
        check=False,
    )
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    results = [event["event"]["payload"] for event in events if event["eventType"] == "ToolResult"]
    assert len(results) == len(commands), ran.stderr.decode()[-2000:]
    happened = {command: _verdict(result) for command, result in zip(commands, results, strict=True)}
    explained = {command: _short(answer) for command, answer in said.items() if answer is not None}
    assert {c: (explained[c], happened[c]) for c in commands if explained[c] != happened[c]} == {}


def _short(answer: Explained) -> str:
    return "blocked" if answer.step == 1 else answer.verdict


def _verdict(result: dict[str, str]) -> str:
    match result["outcome"], result.get("reason"):
        case "blocked", _:
            return "blocked"
        case "denied", "NoApprover":
            return "ask"
        case "denied", "DryRun":
            return "allow"
        case "denied", _:
            return "deny"
        case _:
            return "allow"
