"""What whoever starts the line client knows and the client cannot: versions, folders, files, earlier prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bridle.base.clock import Clock
from bridle.base.visible import visible
from bridle.protocol.events import Mode, SessionCreated

MODE_WORDS: Final[dict[Mode, str]] = {
    "strict": "everything asks first",
    "default": "reading is quiet; changes, commands and network ask first",
    "safe": "reading only; nothing is asked, everything else is denied",
    "auto": "only what may do harm asks first",
    "yolo": "nothing asks first but leaving the sandbox and changing what later runs obey",
    "plan": "reading only, until you leave plan mode",
}

CONFINED_WORDS: Final = {
    "workspace-write": "commands can write in this folder and a private /tmp",
    "read-only": "commands can write in a private /tmp only",
    "off": "commands run with your rights",
}


_NAMED_HOSTS: Final = 3


class Fact(msgspec.Struct, frozen=True):
    """One line at the start: a name, its value, and where it comes from or what it means."""

    name: str
    value: str
    detail: str = ""


def sandbox_fact(created: SessionCreated | None) -> Fact | None:
    """What holds the commands of this session; where something should and does not, a warning says more."""
    if created is None or not created.sandbox or (created.confined == "off" and created.sandbox != "off"):
        return None
    reach = (
        f", and reach {_reach(created)}" if created.network != "inherit" and created.confined != "off" else ""
    )
    return Fact("sandbox", created.sandbox, CONFINED_WORDS[created.confined] + reach)


def _reach(created: SessionCreated) -> str:
    """What a command gets to whose network is limited: nothing, or hosts, of which a few are named."""
    if not created.hosts:
        return "no network" if created.network == "deny" else "no host (sandbox.hosts is empty)"
    named = [visible(host, newlines=False) for host in created.hosts[:_NAMED_HOSTS]]
    more = len(created.hosts) - len(named)
    return "only " + ", ".join(named) + (f" and {more} more" if more else "")


def _no_text(_path: str) -> bool:
    return False


def _nothing(_prompt: str) -> None:
    """Where prompts are not kept."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything has a harmless default but the clock.

    `folder` is the working folder as people write it (`~/code/shop`), `branch` its git branch. `model_from` says where
    the choice of model came from, `lines` are further start lines (sandbox, rules). `history` are the prompts of
    earlier sessions, oldest first; `save_prompt` keeps one more. `is_file` answers for a path relative to the folder.
    `cwd` is the folder as the system knows it, `home` the person's own.
    """

    clock: Clock
    version: str = ""
    folder: str = "."
    branch: str = ""
    model_from: str = ""
    lines: tuple[Fact, ...] = ()
    history: tuple[str, ...] = ()
    save_prompt: Callable[[str], None] = _nothing
    is_file: Callable[[str], bool] = _no_text
    cwd: str = ""
    home: str = ""
