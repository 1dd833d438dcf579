"""The process beside `bridle serve` that carries out commands of scripts, with everything they need loaded."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import msgspec

from bridle._version import __version__
from bridle.base.engine_place import EngineNote
from bridle.base.hand_over import start_of
from bridle.base.peer_process import comes_from_a_call
from bridle.base.standby import Standby, decline, take_listener
from bridle.base.surviving_processes import recording_processes
from bridle.cli.arguments import parser
from bridle.cli.console import flush_streams, leave_on_ctrl_c
from bridle.config.folders import Folders
from bridle.config.tiers import load
from bridle.protocol.codec import make_decoders
from bridle.protocol.commands import Accepted
from bridle.protocol.errors import BridleError
from bridle.protocol.handshake import Handshake
from bridle.protocol.queries import AnyQueryAnswer
from bridle.sandbox.session_border import records_of

PRELOADED = (
    "bridle.cli.run",
    "bridle.cli.run_attached",
    "bridle.cli.sessions",
    "bridle.config.lines",
    "bridle.credentials.key_wrap",
    "bridle.credentials.locks",
    "bridle.protocol.display_values",
    "bridle.protocol.queries",
    "bridle.providers.presets",
    "ctypes",
    "encodings.utf_8_sig",
    "tomllib",
)
"""What a run through an engine, or a list of sessions, loads beside what is imported here."""


CarryOut = Callable[[list[str], Callable[[], NoReturn]], int]
"""Carries out a command of these words, or declines: the exit code."""


def stand_by(link: socket.socket, *, where: Folders, engine: int, carry_out: CarryOut) -> None:
    """Stands by for as long as the engine of this number lives, in the process that it started for that."""
    for name in PRELOADED:
        importlib.import_module(name)
    make_decoders()
    msgspec.json.Decoder(tuple[EngineNote, Accepted, Handshake, AnyQueryAnswer])
    records = records_of(where)

    def may_ask(pid: int | None) -> bool:
        return not comes_from_a_call(pid, {engine, *recording_processes(records)})

    def rehearse() -> None:
        """Does what every command does first: what is touched then has been copied, and is not later."""
        for words in (["run", "-m", "model", "words"], ["sessions", "list"]):
            parser(only=words[0]).parse_words(words)
        with suppress(BridleError):  # settings that are wrong now are told to whoever needs them
            load(where=where, cwd="/", env=os.environ).checked()
        asyncio.run(_nothing())
        may_ask(os.getpid())

    def carry(arguments: list[str]) -> int:
        leave_on_ctrl_c()
        return flush_streams(carry_out(arguments, decline))

    rehearse()
    if (given := take_listener(link)) is not None:
        listener, token = given
        start = start_of(__version__, token)
        Standby(listener, link, start=start, carry=carry, rehearse=rehearse, may_ask=may_ask).run()


async def _nothing() -> None:
    pass
