"""Several runs at once on one home: nobody fails, nothing is lost, and what is done once is done once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bridle.protocol.events import ToolResult, TurnEnded
from cli_kit import BRIDLE, TIMEOUT_S, Place

RUNS = 6
STEPS = 4


def work(name: str) -> str:
    steps = (
        f"say Part {step}.\ncall bash\n    command: echo {step} >> {name}; cat {name}\n"
        for step in range(STEPS)
    )
    return "---\n".join([*steps, "say done\n"])


def at_once(place: Place, commands: list[list[str]]) -> list[str]:
    """What each of them printed; all of them have to end well, and with nothing to complain about."""
    running = [
        subprocess.Popen(
            [*BRIDLE, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place.work,
            env=place.environment(),
        )
        for words in commands
    ]
    try:
        said = [one.communicate(timeout=TIMEOUT_S) for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert [(one.returncode, err.decode()) for one, (_, err) in zip(running, said, strict=True)] == [
        (0, "") for _ in running
    ]
    return [out.decode() for out, _ in said]


@pytest.mark.parametrize("home", ["new", "used"])
def test_runs_that_begin_at_once_on_one_home_all_end_well_and_are_stored(place: Place, home: str) -> None:
    if home == "used":
        assert place.bridle("run", "-m", "demo", "hi").code == 0
    models = [place.script(work(f"notes-{number}"), f"{number}.script") for number in range(RUNS)]
    said = at_once(place, [["run", "-q", "-y", "-m", model, "Go"] for model in models])
    assert [text.splitlines()[-1] for text in said] == ["[scripted] done"] * RUNS
    rows = place.sessions()
    assert len(rows) == RUNS + (home == "used")
    printed = "".join(f"{step}\n" for step in range(STEPS))
    for row in rows[:RUNS]:
        events = [envelope.event for envelope in place.events(row.id)]
        assert [event.stop for event in events if isinstance(event, TurnEnded)] == ["end_turn"]
        results = [event for event in events if isinstance(event, ToolResult)]
        assert [event.outcome for event in results] == ["ok"] * STEPS, results
        assert results[-1].content == printed, results
        place.verify(row.id)
    for number in range(RUNS):
        assert Path(place.work, f"notes-{number}").read_text() == printed, "each step was done once"
    checked = place.bridle("sessions", "repair", "--check")
    assert checked.code == 0, checked.out + checked.err
