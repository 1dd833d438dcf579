"""Runs Bridle up to the moment its first request to a model would leave, and ends there. For counting instructions.

Everything is slow where they are counted, so no time passes: what waits for one comes behind the request.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, NoReturn

from bridle.cli import lazy_imports, main

lazy_imports.import_less()
lazy_imports.compile_less()
lazy_imports.import_less = lambda: None

from bridle.base.clock import SystemClock  # noqa: E402  as the program itself would import them
from bridle.base.http import HttpConnections  # noqa: E402


async def wait(self: SystemClock, seconds: float) -> None:
    await asyncio.Event().wait()


async def end(*_given: Any, **_more: Any) -> NoReturn:
    os._exit(0)


SystemClock.sleep = wait
HttpConnections.post_stream = end
main()
