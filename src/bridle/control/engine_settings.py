"""Settings of an engine that other clients attach to."""

from typing import Annotated

import msgspec

from bridle.engine.setting_fields import About


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    share: Annotated[bool, About("Let other clients attach to what runs at a terminal.")] = False
    listen: Annotated[str | None, About("Where bridle serve listens besides, as 127.0.0.1:PORT.")] = None
    origins: Annotated[tuple[str, ...], About("Pages that may use the engine, as https://host.")] = ()
