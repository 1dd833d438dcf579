"""How long the command line takes: its version, one whole run, and a run up to its first request."""

from __future__ import annotations

import json
import os

from measure import BRIDLE, PYTHON, Child, Figure, child, cpus, in_turns, plain_env, scratch, times, walls

_BARE = "a bare Python"
_FIRST_REQUEST = b'"eventType":"StepStarted"'
"""Written when the body is complete and before anything is asked of the model."""


def version() -> list[Figure]:
    """`bridle --version`, both ways of calling it, against a Python that does nothing."""
    rounds = 21
    with scratch() as home:
        env = plain_env(home)

        def run(*argv: str) -> Child:
            return child(argv, env=env, cwd=home)

        bare, script, module = in_turns(
            rounds,
            lambda: run(PYTHON, "-c", "pass"),
            lambda: run(BRIDLE, "--version"),
            lambda: run(PYTHON, "-m", "bridle", "--version"),
        )
        assert os.listdir(home) == [], "asking for the version writes no file"
    assert all(one.out.startswith(b"bridle ") and one.out.count(b"\n") == 1 for one in script + module)
    return [
        times("--version, bridle", walls(script), walls(bare), of=_BARE, target=2),
        times("--version, python -m", walls(module), walls(bare), of=_BARE, target=2),
    ]


def one_turn() -> list[Figure]:
    """`bridle run -m demo hi` in a home that has sessions already, and once in a home that has nothing."""
    rounds = 9
    with scratch() as home, scratch() as cwd:
        env = plain_env(home)
        homes = (os.path.join(home, f"new{number}") for number in range(rounds + 1))

        def run(*options: str, marks: tuple[bytes, ...] = (), home_env: dict[str, str] = env) -> Child:
            return child([BRIDLE, "run", "-m", "demo", *options, "hi"], env=home_env, cwd=cwd, marks=marks)

        bare, text, streamed, fresh = in_turns(
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
    first_s = [one.marks_s[_FIRST_REQUEST] for one in streamed]
    return [
        times("exec to first request", first_s, walls(bare), of=_BARE, target=9),
        times("one-turn run, CPU", cpus(text), cpus(bare), of=_BARE, target=10),
        times("one-turn run, wall", walls(text), walls(bare), of=_BARE),
        times("one-turn run, empty home", walls(fresh), walls(text), of="one that has sessions"),
    ]


def _check_stream(run: Child) -> None:
    kinds = [json.loads(line)["eventType"] for line in run.out.splitlines()]
    assert kinds.count("StepStarted") == 1, f"one turn is one request: {kinds}"
    assert kinds[-2:] == ["TurnEnded", "run.result"], kinds
