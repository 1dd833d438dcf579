"""How a server is, as data: for `/mcp`, for clients, for health."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ServerPhase: TypeAlias = Literal[
    "untrusted", "waiting", "connecting", "up", "down", "given up", "changed", "stopped", "needs sign-in"
]
"""`waiting`: it is started when it is needed. `down`: it ended, and is started again. `given up`: not any more, until
an hour has passed or a person says so. `changed`: what it launches is not what was agreed to. `needs sign-in`: it lets
nobody in, until a person has signed in."""

PinState: TypeAlias = Literal["", "first use", "agreed", "new", "changed", "mismatch"]
"""Nothing is pinned; pinned by its first use; by a person. What stands there now waits for a person, because it is new
here, or another than was pinned, or not what settings expect."""


class ServerState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server now. `problem` says why it is not up, as the end of a sentence.

    `failures` counts how often it failed since it last ran well; `ended` how often it ended at all. `kept`: what it
    offers is known from an earlier run. `lazy`: its tools are searched for. `garbage` counts lines of its output that
    were no message, `too_long` those that were longer than is read. `log` is where its own words are kept. `process` is
    the same for sessions that share it. `pin` says how what it is relates to what was agreed to, `unpinned` what of it
    can be other code the next time, and `held_back` names its tools that wait for a person.
    """

    name: str
    phase: ServerPhase = "waiting"
    problem: str = ""
    failures: int = 0
    ended: int = 0
    tools: int = 0
    prompts: int = 0
    resources: bool = False
    kept: bool = False
    lazy: bool = False
    protocol: str = ""
    calls: int = 0
    garbage: int = 0
    too_long: int = 0
    log: str = ""
    pin: PinState = ""
    unpinned: str = ""
    held_back: tuple[str, ...] = ()
    process: str = ""
