"""Local services of a client: clock, files, editor, prompt history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from bridle.base.clock import Clock
from bridle.clients.engine_address import EngineLink
from bridle.clients.interaction.composer.composer import Picture
from bridle.protocol.tokens import Claims


def _no_paths() -> Sequence[str]:
    return ()


def _no_file(_path: str) -> bool:
    return False


def _no_picture(_path: str) -> Picture | None:
    return None


def _nothing(_prompt: str) -> None:
    """Where prompts are not kept."""


class ClientServices(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever starts a client decides what it can reach. Only the clock is needed: what is missing is not offered.

    `home` is the person's own folder. `history` are the prompts of earlier sessions, oldest first; `save_prompt` keeps
    one more. `is_file` answers for a path relative to the session's folder; `paths` are the files and folders a mention
    may complete to. `edit` lets a person change a text in their own editor and gives it back, None if they did not save
    it. `page` shows them a text in their own pager; `run_verb` lets a verb of the program have their terminal. `save`
    writes a new file at a path a person named and returns where it is. `picture` is the image at a path, None where
    there is none; `clipboard_picture` the one on their clipboard. `come_back` is the command that, with the session
    behind it, leads back to what runs on in an engine that outlives the client; empty where none does. `link` tells
    when the engine is out of reach; None where it is in this process. `claims` are those of the token the engine was
    reached with; None where everything may be asked for. What does something may raise `BridleError`.
    """

    clock: Clock
    home: str = ""
    history: tuple[str, ...] = ()
    save_prompt: Callable[[str], None] = _nothing
    is_file: Callable[[str], bool] = _no_file
    paths: Callable[[], Sequence[str]] = _no_paths
    edit: Callable[[str], Awaitable[str | None]] | None = None
    page: Callable[[str], Awaitable[None]] | None = None
    run_verb: Callable[[Sequence[str]], Awaitable[None]] | None = None
    save: Callable[[str, str], str] | None = None
    picture: Callable[[str], Picture | None] = _no_picture
    clipboard_picture: Callable[[], Awaitable[Picture]] | None = None
    come_back: str = ""
    link: EngineLink | None = None
    claims: Claims | None = None

    def covers(self, kind: str) -> bool:
        """Whether the engine takes this kind of command or query from here, as far as its token says."""
        return self.claims is None or self.claims.covers_command(kind)
