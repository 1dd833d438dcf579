"""User intents, as values.

`Send` (what was written) and `Decided` (the answer to a question) stand beside what makes them.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridle.clients.interaction.composer.choice_list import ListPurpose
from bridle.clients.interaction.composer.composer import Send
from bridle.clients.interaction.questions.question_card import Decided


class StopTurn(msgspec.Struct, frozen=True):
    """The running turn is to stop."""


class NextMode(msgspec.Struct, frozen=True):
    """The mode after the one that holds."""


class RunCommand(msgspec.Struct, frozen=True):
    """A slash command, picked from a list instead of written."""

    name: str
    arguments: str = ""


class ChooseSession(msgspec.Struct, frozen=True):
    """Another session, picked from the list."""

    id: str


class ChooseRow(msgspec.Struct, frozen=True):
    """Something picked from a list that was for this purpose."""

    purpose: ListPurpose
    id: str


Intent: TypeAlias = Send | Decided | StopTurn | NextMode | RunCommand | ChooseSession | ChooseRow
