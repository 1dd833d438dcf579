"""The scenarios of the wire played against a server, and the card that says how it did."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible
from bridle.conformance.wire_scenarios import SCENARIOS, Door, NotOffered, Scenario, Scene
from bridle.protocol.errors import BridleError
from bridle.protocol.handshake import PROTOCOL_VERSION

ScenarioOutcome: TypeAlias = Literal["passed", "failed", "left out"]
SCENARIO_S = 30.0
"""How long one of them may take before it has failed."""


class Played(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One scenario and what became of it. `why` says what was wrong, or what the door does not offer."""

    name: str
    says: str
    outcome: ScenarioOutcome
    why: str = ""


class Badge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a badge service draws: https://shields.io/badges/endpoint-badge."""

    schema_version: int = 1
    label: str = "bridle conformance"
    message: str
    color: Literal["brightgreen", "red", "yellow"]


class Scorecard(msgspec.Struct, frozen=True, kw_only=True):
    """How a server did. `left_out` scenarios count for nothing, and are named."""

    against: str
    protocol_version: str
    passed: int
    failed: int
    left_out: int
    scenarios: tuple[Played, ...]
    badge: Badge

    @property
    def conforms(self) -> bool:
        return self.failed == 0 and self.passed > 0


async def score(
    door: Door,
    *,
    against: str,
    scenarios: Iterable[Scenario] = tuple(SCENARIOS),
    told: Callable[[Played], None] = lambda _played: None,
) -> Scorecard:
    """Plays scenarios one after the other, each with clients and sessions of its own. `told` hears of each."""
    played: list[Played] = []
    for scenario in scenarios:
        one = await _play(door, scenario)
        played.append(one)
        told(one)
    counts = {
        outcome: sum(one.outcome == outcome for one in played) for outcome in ("passed", "failed", "left out")
    }
    return Scorecard(
        against=against,
        protocol_version=PROTOCOL_VERSION,
        passed=counts["passed"],
        failed=counts["failed"],
        left_out=counts["left out"],
        scenarios=tuple(played),
        badge=_badge(counts["passed"], counts["failed"], counts["left out"]),
    )


async def _play(door: Door, scenario: Scenario) -> Played:
    outcome, why = "passed", ""
    scene = Scene(door)
    try:
        async with asyncio.timeout(SCENARIO_S):
            try:
                await scenario.run(scene)
            finally:
                await scene.close()
    except NotOffered as lacking:
        outcome, why = "left out", str(lacking)
    except TimeoutError:
        outcome, why = "failed", f"it did not end within {SCENARIO_S:g} s"
    except BridleError as refusal:
        outcome, why = "failed", f"{refusal.reason}: {refusal.message}"
    except Exception as problem:  # noqa: BLE001  a server under test may do anything
        outcome, why = "failed", _problem(problem)
    return Played(name=scenario.name, says=scenario.says, outcome=outcome, why=visible(why, newlines=False))


def _problem(problem: Exception) -> str:
    """What was expected, or what broke, with the line of the scenario."""
    frames = [
        frame for frame in traceback.extract_tb(problem.__traceback__) if "wire_scenarios" in frame.filename
    ]
    line = frames[-1] if frames else None
    where = f" (line {line.lineno}: {line.line})" if line else ""
    return f"{type(problem).__name__}: {problem}{where}"


def badge_of(cards: Sequence[Scorecard]) -> Badge:
    """One for all transports of a server together."""
    return _badge(
        sum(card.passed for card in cards),
        sum(card.failed for card in cards),
        sum(card.left_out for card in cards),
    )


def _badge(passed: int, failed: int, left_out: int) -> Badge:
    message = f"{passed} of {passed + failed}"
    if failed:
        return Badge(message=message, color="red")
    return Badge(message=message, color="yellow" if left_out or not passed else "brightgreen")
