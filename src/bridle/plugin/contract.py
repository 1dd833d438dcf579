"""What a plugin is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bridle.plugin.registrar import Registrar


class Plugin(Protocol):
    """Something installed beside Bridle that adds to its sessions.

    `name` is its namespace: small letters, digits and single underscores. What it adds is known as `NAME__tool`,
    `/NAME:command` and `plugins.NAME.setting`, and as nothing else.
    """

    @property
    def name(self) -> str: ...
    def register(self, registrar: Registrar) -> None:
        """Puts into the registrar what it adds to one session; called for every session that opens, and to look.

        It does no work: nothing is read, started or contacted here.

        Raises: whatever keeps it from being used. Then no session opens with it.
        """
        ...
