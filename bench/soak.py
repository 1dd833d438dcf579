"""Sessions opened, left until they are idle, and opened again, for minutes: whether the engine grows by it."""

from __future__ import annotations

import asyncio
import time

from measure import Figure, middle
from served import Served, served, turn

from bridle.protocol.commands import AttachSession
from bridle.protocol.queries import CheckHealth

SESSIONS = 1_000
LASTS_S = 600.0
IDLE_S = 2
LATER = 20
"""So many sessions later one is opened again: it has been idle long enough by then."""
_SCRIPT = """\
call bash
    command: echo one
---
say Once.
---
say Twice.
"""


def soak() -> list[Figure]:
    with served(f"[sessions]\nidle_timeout_s = {IDLE_S}\n") as engine:
        sizes_mb, most_open = asyncio.run(_soak(engine))
        engine.end()
    quarter = len(sizes_mb) // 4
    begun, ended = middle(sizes_mb[quarter : 2 * quarter]), middle(sizes_mb[-quarter:])
    how = (
        f"{SESSIONS:,} sessions in {LASTS_S:.0f} s, each opened twice, at most {most_open} open at once: "
        f"{begun:.1f} MB in the second quarter, {ended:.1f} in the last"
    )
    return [Figure(name="soak, growth", value=ended - begun, unit="MB", target=2, how=how)]


async def _soak(engine: Served) -> tuple[list[float], int]:
    model = engine.script("soak.script", _SCRIPT)
    begun, sizes_mb, most_open = time.monotonic(), list[float](), 0
    sessions: list[str] = []
    for number in range(SESSIONS + LATER):
        if number < SESSIONS:
            async with engine.client(f"first-{number}") as client:
                session = await engine.session(client, model)
                sessions.append(session)
                await turn(client, session)
        if number >= LATER:
            async with engine.client(f"second-{number}") as client:
                again = await client.send(AttachSession(session=sessions[number - LATER]))
                await turn(client, again.session, again.event or 0)
                most_open = max(most_open, (await client.ask(CheckHealth())).open_sessions)
        sizes_mb.append(engine.size_mb())
        await asyncio.sleep(begun + (number + 1) * LASTS_S / (SESSIONS + LATER) - time.monotonic())
    assert most_open < SESSIONS / 10, f"{most_open} sessions were open at once: they were not idle"
    return sizes_mb, most_open
