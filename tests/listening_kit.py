"""An engine of this process that listens on real sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bridle.app.engine import Engine
from bridle.app.service.serving import ListeningEngine, ListenOptions, listening_engine
from bridle.base.clock import Clock, SystemClock
from bridle.base.net.engine_place import EnginePlace
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.control.http_server import ConnectionLimits
from bridle.control.listening_socket import TcpAddress
from bridle.engine.ports import Provider
from bridle.plugin.registrar import Plugin
from bridle.providers.script import say


class Listening(NamedTuple):
    engine: Engine
    at: ListeningEngine
    place: EnginePlace
    port: int
    work: str

    @property
    def token(self) -> str:
        return self.place.token()

    def audited(self) -> Counter[str]:
        """The reasons of what was refused, as the audit has them."""
        entries = self.engine.access.audit.entries()
        return Counter(one["reason"] for one in entries if one["what"] == "refused")


@asynccontextmanager
async def listening(
    tmp_path: Path,
    model: Provider | None = None,
    *,
    limits: ConnectionLimits | None = None,
    clock: Clock | None = None,
    plugins: Sequence[Plugin] = (),
    **options: Any,
) -> AsyncIterator[Listening]:
    home, person, work = tmp_path / "home", tmp_path / "person", tmp_path / "work"
    for folder in (person, work):
        folder.mkdir(exist_ok=True)
    env = {"BRIDLE_HOME": str(home), "HOME": str(person)}
    engine = Engine(
        where=folders(env),
        env=env,
        clock=SystemClock(),
        model=model or scripted(say("Hello.")),
        listening=True,
        plugins=plugins,
    )
    options.setdefault("address", TcpAddress("127.0.0.1", 0))
    try:
        async with listening_engine(
            engine,
            ListenOptions(**options),
            where=folders(env),
            clock=clock or SystemClock(),
            limits=limits,
            hear=engine.access.note_refusal,
        ) as at:
            port = int(at.url.rpartition(":")[2]) if at.url else 0
            yield Listening(engine, at, EnginePlace(folders(env).runtime), port, str(work))
    finally:
        await engine.close()
