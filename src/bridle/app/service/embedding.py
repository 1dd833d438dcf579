"""The engine embedded in another program."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from bridle.agents.definition import AgentDefinition
from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.engine.ports import Provider
from bridle.engine.services import ToolSource
from bridle.engine.tools import Tool
from bridle.plugin.registrar import Plugin


@asynccontextmanager
async def open_engine(
    *,
    home: str | None = None,
    env: Mapping[str, str] | None = None,
    model: Provider | None = None,
    tools: Sequence[Tool | ToolSource] = (),
    agents: Sequence[AgentDefinition] = (),
    plugins: Sequence[Plugin] = (),
    notice: Callable[[str], None] = lambda _text: None,
) -> AsyncGenerator[Engine]:
    """An engine of this process; on the way out its sessions end, then its processes, then the store closes.

    It reads the person's own settings and keeps its sessions among theirs; with `home`, all of that is in one folder.
    `env` is the environment it looks into, that of the process where none is given. `model` stands in for a provider
    of its name. `tools` come behind the built-in ones and pass the same gates; `plugins` are used beside those the
    settings list. `agents` can be chosen and sent like any other. `notice` hears what it has to say beside its
    sessions. Raises `BridleError` with a stable reason.
    """
    known = _environment(home, env)
    async with Engine(
        where=folders(known),
        env=known,
        clock=SystemClock(),
        model=model,
        tools=tools,
        agents=agents,
        plugins=plugins,
        notice=notice,
    ) as engine:
        yield engine


def _environment(home: str | None, env: Mapping[str, str] | None) -> dict[str, str]:
    known = dict(os.environ if env is None else env)
    return known if home is None else {**known, "BRIDLE_HOME": os.path.abspath(home)}
