"""Runs Bridle up to the moment its first request to a model would leave, and ends there. For counting instructions."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from bridle.cli import lazy_imports, main

lazy_imports.import_less()
lazy_imports.import_less = lambda: None

from bridle.base.http import HttpConnections  # noqa: E402  as the program itself would import it


async def end(*_given: Any, **_more: Any) -> NoReturn:
    os._exit(0)


HttpConnections.post_stream = end
main()
