"""Who may reach an engine that others can: its tokens, how more of them are made, and what was given and refused.

Loaded by an engine that listens, and by one with a client that has a token.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from bridle.app.session_parts import ProcessServices
from bridle.control.authority import Asked, session_of
from bridle.control.capability_tokens import Tokens
from bridle.control.code_surfaces import CodeSurfaces, ShownCodes, machine_surfaces, surfaces_of
from bridle.control.minting import Minting
from bridle.control.multiplex import Multiplexer
from bridle.control.service_audit import ServiceAudit
from bridle.control.token_files import TokenFile, open_tokens
from bridle.credentials.locks import machine_key_of
from bridle.engine.open_questions import Client
from bridle.protocol.errors import BridleError


class ServiceAccess:
    """The access to one engine. `surfaces` of this machine show codes where nobody is here to be shown them."""

    def __init__(
        self, services: ProcessServices, multiplexer: Multiplexer, surfaces: CodeSurfaces | None
    ) -> None:
        self._services = services
        self._multiplexer = multiplexer
        self._surfaces = surfaces
        self.audit = ServiceAudit(services.where.state, services.clock)

    @functools.cached_property
    def tokens(self) -> Tokens:
        """The capability tokens of this data folder, with what is refused in the operational log and the audit."""
        services = self._services
        return open_tokens(
            TokenFile(services.where.state, services.clock),
            clock=services.clock,
            ids=services.ids,
            machine_key=machine_key_of(services.env),
            hear=self._note_refused,
        )

    @functools.cached_property
    def minting(self) -> Minting:
        """Tokens for those who ask for them, with a code on a surface of the person's own."""
        services, codes = self._services, ShownCodes(self._multiplexer.live)
        made = Minting(
            self.tokens,
            clock=services.clock,
            ids=services.ids,
            random_bytes=os.urandom,
            surfaces=surfaces_of(codes, self._surfaces or machine_surfaces(services.env)),
            hear=self.audit.write,
        )
        self._multiplexer.refuse_code = lambda client, asked: (
            codes.was_shown(client, asked) and made.refuse(asked)
        )
        return made

    def revoke(self, jti: str, by: str) -> None:
        """Nobody is admitted with it any more. Raises UnknownToken."""
        self.tokens.revoke(jti)
        self.audit.write("revoked", {"jti": jti, "by": by})

    def note_fault(self, fault: BaseException) -> None:
        """Something broke outside of any session; whoever asked is told no details."""
        known = f"{fault.reason}: {fault.message}" if isinstance(fault, BridleError) else type(fault).__name__
        self._services.notes.write("error", "engine", "fault", problem=known)

    def note_refusal(self, reason: str, peer: str) -> None:
        """A request was refused before anybody here looked at it."""
        self._note_refused(reason, {"peer": peer})

    def note_refused_client(self, client: Client, asked: Asked, reason: str) -> None:
        """A client was refused what it asked for."""
        about = {"client": client.id, "asked": type(asked).__name__, "reason": reason}
        self.audit.write("refused", {**about, "name": client.person, "session": session_of(asked)})

    def _note_refused(self, reason: str, data: Mapping[str, Any]) -> None:
        self._services.notes.write("warning", "auth", "refused", reason=reason, **data)
        self.audit.write("refused", {"reason": reason, **data})
