"""How long the command line takes: its version, one whole run, and a run up to its first request."""

from __future__ import annotations

import json
import os

from measure import BRIDLE, PYTHON, Child, Figure, child, interleaved, middle, plain_env, scratch

_FIRST_REQUEST = b'"eventType":"StepStarted"'
"""Written when the body is complete and before anything is asked of the model."""


def version() -> list[Figure]:
    """`bridle --version`, both ways of calling it, against a Python that does nothing."""
    rounds = 21
    with scratch() as home:
        env = plain_env(home)

        def run(*argv: str) -> Child:
            return child(argv, env=env, cwd=home)

        bare, script, module = interleaved(
            rounds,
            lambda: run(PYTHON, "-c", "pass"),
            lambda: run(BRIDLE, "--version"),
            lambda: run(PYTHON, "-m", "bridle", "--version"),
        )
        assert os.listdir(home) == [], "asking for the version writes no file"
    assert all(one.out.startswith(b"bridle ") and one.out.count(b"\n") == 1 for one in script + module)
    floor = _wall(bare)
    how = f"N={rounds}, bare Python {floor * 1000:.1f} ms"
    return [
        Figure(name="--version, bridle", value=_wall(script) / floor, unit="x", target=2, how=how),
        Figure(name="--version, python -m", value=_wall(module) / floor, unit="x", target=2, how=how),
    ]


def one_turn() -> list[Figure]:
    """`bridle run -m demo hi` in a home that has sessions already, and once in a home that has nothing."""
    rounds = 9
    with scratch() as home, scratch() as cwd:
        env = plain_env(home)
        homes = (os.path.join(home, f"new{number}") for number in range(rounds + 1))

        def run(*options: str, marks: tuple[bytes, ...] = (), home_env: dict[str, str] = env) -> Child:
            return child([BRIDLE, "run", "-m", "demo", *options, "hi"], env=home_env, cwd=cwd, marks=marks)

        bare, text, streamed, fresh = interleaved(
            rounds,
            lambda: child([PYTHON, "-c", "pass"], env=env, cwd=cwd),
            run,
            lambda: run("--stream-json", marks=(_FIRST_REQUEST,)),
            lambda: run(home_env=plain_env(next(homes))),
        )
    for one in text + fresh:
        assert one.out.startswith(b"[scripted] "), one.out
    for one in streamed:
        _check_stream(one)
    floor, floor_cpu = _wall(bare), _cpu(bare)
    first = middle([one.marks_s[_FIRST_REQUEST] for one in streamed])
    how = f"N={rounds}, bare Python {floor * 1000:.1f} ms wall, {floor_cpu * 1000:.1f} ms CPU"
    return [
        Figure(name="exec to first request", value=first / floor, unit="x", target=9, how=how),
        Figure(name="one-turn run, CPU", value=_cpu(text), unit="s", target=0.12, how=how),
        Figure(name="one-turn run, CPU ratio", value=_cpu(text) / floor_cpu, unit="x", how=how),
        Figure(name="one-turn run, wall", value=_wall(text) / floor, unit="x", how=how),
        Figure(
            name="one-turn run, empty home",
            value=_wall(fresh) / floor,
            unit="x",
            how="makes key and database",
        ),
    ]


def _check_stream(run: Child) -> None:
    kinds = [json.loads(line)["eventType"] for line in run.out.splitlines()]
    assert kinds.count("StepStarted") == 1, f"one turn is one request: {kinds}"
    assert kinds[-2:] == ["TurnEnded", "run.result"], kinds


def _wall(runs: list[Child]) -> float:
    return middle([run.wall_s for run in runs])


def _cpu(runs: list[Child]) -> float:
    return middle([run.cpu_s for run in runs])
