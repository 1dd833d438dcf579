"""The end of what others began in a session: it gets some time, and a session ends all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bridle.base.clock import Clock
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import Degraded

ENDING_S = 10.0
"""So long a feature or a service has to come to its end. Then it is cancelled, and nobody waits for it."""


async def finish(
    name: str, end: Callable[[], Awaitable[None]], clock: Clock, emit: Callable[[Degraded], object]
) -> None:
    """Awaits `end` for `ENDING_S` at most. What fails, or does not come to an end, is told of by `emit`.

    Code that blocks the loop itself cannot be left: nothing else runs then, nor does time pass for it.
    """

    def tell(reason: str, **data: str) -> None:
        with suppress(StoreError):  # whoever ends the session finds out by itself
            emit(Degraded(what=name, reason=reason, message=sentence(reason, data)))

    async def run() -> None:
        try:
            await end()
        except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: a session ends all the same
            problem = f"{type(fault).__name__}: {fault}"
            tell("FeatureFailed", feature=name, problem=problem)

    work = asyncio.ensure_future(run())
    late = asyncio.get_running_loop().create_future()
    timer = clock.call_later(ENDING_S, lambda: late.done() or late.set_result(None))
    try:
        await asyncio.wait((work, late), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
        work.cancel()
    if not work.done():
        tell("NotEnded", name=name, seconds=f"{ENDING_S:g}")
