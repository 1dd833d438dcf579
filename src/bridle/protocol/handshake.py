"""What two sides tell each other before anything else: versions, kinds and features.

A feature that is absent from `features` does not exist; a half-built one is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridle.protocol.codec import COMMAND_KINDS, EVENT_KINDS
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import CANONICAL_FORM_VERSION
from bridle.protocol.queries import QUERY_KINDS
from bridle.protocol.tokens import TOKEN_CLAIM_VERSION

PROTOCOL_VERSION = "0.2.0"
PROFILE_VERSION = 1
SESSION_LOG_VERSION = 1
RESOURCE_URI_SCHEME = "bridle-v1"

AWAITED_COMMANDS: Mapping[str, str] = {}
"""Kinds of commands that can be read and are not carried out before a capability is there: they are not announced."""
AWAITED_EVENTS: Mapping[str, str] = {
    "ClientRequest": "the editor client",
}
"""Kinds of events that can be read and never come before a capability is there."""
FEATURES: Mapping[str, tuple[str, ...]] = {
    "asides": ("AskAside", "AsideAsked", "AsideAnswered"),
    "background_commands": ("BackgroundStarted", "BackgroundEnded"),
    "branching": ("Branched",),
    "compaction": ("Compacted",),
    "cost": ("CostIncremented",),
    "changeable_queue": ("ChangeInput", "InputChanged"),
    "editor_buffers": ("ClientRequest",),
    "goals": ("GoalBegun", "GoalChecked", "GoalEnded"),
    "effort": ("SetEffort", "EffortChanged"),
    "grants": ("GrantAdded", "GrantRevoked", "RevokeGrant"),
    "hooks": ("HookError", "HookTimeout"),
    "mcp": ("MCPServerDown",),
    "modes": ("SetMode", "ModeChanged"),
    "plan_mode": ("EnterPlanMode", "ExitPlanMode"),
    "plugins": ("CustomCommand", "CustomEvent"),
    "presence": ("Presence",),
    "questions": ("QuestionAsked", "AnswerQuestion"),
    "shell_requests": ("ShellRequest",),
    "skills": ("SkillRegistryChanged",),
    "slash_commands": ("RunSlash",),
    "todos": ("TodosChanged",),
    "tokens": ("TokenExpiring",),
    "typed_trust": ("AnswerTrust",),
    "undo": ("Undo", "UndoApplied"),
}
"""What a client may rely on, by the kinds it consists of. A feature exists when all of them are carried out or come."""


class Handshake(msgspec.Struct, frozen=True, kw_only=True):
    protocol_version: str = PROTOCOL_VERSION
    canonical_form_version: int = CANONICAL_FORM_VERSION
    schema_version_token_claim: int = TOKEN_CLAIM_VERSION
    schema_version_profile: int = PROFILE_VERSION
    schema_version_session_log: int = SESSION_LOG_VERSION
    command_kinds: tuple[str, ...] = ()
    query_kinds: tuple[str, ...] = ()
    event_kinds: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    resource_uri_scheme: str = RESOURCE_URI_SCHEME


def handshake(*, features: tuple[str, ...] = ()) -> Handshake:
    """What this version says of itself: the kinds it knows what to do with, and the features they make.

    `features` are others, which the composition root built, such as its transports.
    """
    awaited = AWAITED_COMMANDS.keys() | AWAITED_EVENTS.keys()
    built = [name for name, kinds in FEATURES.items() if awaited.isdisjoint(kinds)]
    return Handshake(
        command_kinds=tuple(kind for kind in COMMAND_KINDS if kind not in awaited),
        query_kinds=QUERY_KINDS,
        event_kinds=tuple(kind for kind in EVENT_KINDS if kind not in awaited),
        features=tuple(sorted({*built, *features})),
    )


def check_version(theirs: str, ours: str = PROTOCOL_VERSION) -> None:
    """Refuses a peer we cannot speak to. Before 1.0 a minor version may break; after it only a major one."""
    if _line(theirs) == _line(ours):
        return
    older = "the client" if _numbers(theirs) < _numbers(ours) else "the server"
    raise CommandRefused("HandshakeVersionMismatch", client_version=theirs, server_version=ours, older=older)


def _numbers(version: str) -> tuple[int, ...]:
    core = version.split("-")[0].split("+")[0]
    return tuple(int(part) if part.isascii() and part.isdigit() else -1 for part in core.split("."))


def _line(version: str) -> tuple[int, ...]:
    numbers = _numbers(version)
    if len(numbers) != 3 or -1 in numbers:
        return (-1,)
    return numbers[:2] if numbers[0] == 0 else numbers[:1]
