"""Programs at a terminal as clients of an engine that runs already: whether there is one, and what keeps them from it.

Loaded where a socket was found; without one nothing of this costs anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import msgspec

from bridle._version import __version__
from bridle.base.net.engine_place import EnginePlace
from bridle.clients.engine_link import LOST
from bridle.clients.remote import MOST_BYTES, RemoteConnection, connect_remote, place_opener
from bridle.config.folders import folders
from bridle.config.tiers import load
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import BridleError
from bridle.protocol.messages import InputBlock
from bridle.providers import DEMO
from bridle.providers.presets import with_keys

ROOM_BESIDE = 4096
"""What a frame needs beside the input it carries."""
_SAID_ELSEWHERE = frozenset(
    {
        "BRIDLE_HOME",
        "BRIDLE_NO_ATTACH",
        "BRIDLE_URL",
        "BRIDLE_TOKEN_FILE",
        "BRIDLE_PLAIN",
        "BRIDLE_HUB_TASK",
        "BRIDLE_HUB_RUN",
        "BRIDLE_HUB_AGENT",
    }
)
"""Variables of ours that change nothing about a session."""


def why_in_process(parsed: argparse.Namespace, env: Mapping[str, str], create: CreateSession) -> str | None:
    """Why this has to run here although an engine listens; None where it can travel, as far as its input does."""
    note = EnginePlace(folders(env).runtime).found()
    if note is None:
        return "no engine left a note beside its socket"
    if note.version != __version__:
        return f"the engine is Bridle {note.version}"
    if note.data != folders(env).data:
        return "the engine has another home"
    if not note.stays:
        return "the engine ends with the program that started it"
    elsewhere = _SAID_ELSEWHERE | ({"BRIDLE_LOG"} if parsed.verbose else set[str]())
    own = sorted(name for name in env if name.startswith("BRIDLE_") and env[name] and name not in elsewhere)
    if own:
        return f"{own[0]} is set here and not in the engine"
    if parsed.env_file or parsed.log_level or parsed.log_to_stderr:
        return "its environment and its log are of this process"
    provider = (create.model or "").partition(":")[0]
    if provider != DEMO and _keys_here(env, create.cwd, provider):
        return "a key is in this environment"
    return None


def why_untold(create: CreateSession, content: tuple[InputBlock, ...] = ()) -> str | None:
    """Why an engine elsewhere cannot be told of this; None where it can."""
    try:
        length = len(msgspec.json.encode((create, content)))
    except UnicodeEncodeError:
        return "the name of a folder or a file is no text"
    return "the input is too long for a frame" if length > MOST_BYTES - ROOM_BESIDE else None


def _keys_here(env: Mapping[str, str], cwd: str, provider: str) -> bool:
    """Whether the environment has the key of this provider, or of any where nobody says which it will be."""
    tiers = load(where=folders(env), cwd=cwd, env=env).checked()
    configured: Mapping[str, Mapping[str, str]] = tiers.get("providers") or {}
    names = {known.name for known in with_keys(env)}
    names.update(name for name, one in configured.items() if env.get(one.get("key_env", "")))
    return provider in names if provider else bool(names)


async def connect_to_engine(env: Mapping[str, str], *, name: str, answers: bool) -> RemoteConnection | None:
    """A client of the engine of this person; None where none answers after all."""
    place = EnginePlace(folders(env).runtime)
    try:
        return await connect_remote(place_opener(place), address=place.socket, name=name, answers=answers)
    except BridleError:
        return None


def tell_link(say: Callable[[str], None]) -> Callable[[float | None], None]:
    """What hears of an engine that is lost, or found again, where lines are said one after the other."""

    def hear(gives_up_s: float | None) -> None:
        say("engine found again" if gives_up_s is None else f"{LOST}, gives up in {gives_up_s:.0f} s")

    return hear
