"""Trust in MCP servers: project servers, pins and value references."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.base.fs.files import repository_root
from bridle.base.text.terminal_text import visible
from bridle.base.threads import in_thread
from bridle.mcp.pin_gate import PinGate, PinReview
from bridle.mcp.server_definitions import BadReference, filled_launch
from bridle.mcp.server_pins import PinStore
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.questions import TrustQuestion
from bridle.safety.trust.approvals import content_digest
from bridle.safety.trust.trust_items import TrustItem, launch_item, server_launch
from bridle.safety.trust.trust_questions import ApprovedBefore, ReviewedText, file_question

if TYPE_CHECKING:
    from bridle.app.session_parts import ProcessServices
    from bridle.app.user.settings import ServerSettings
    from bridle.providers.credential_ports import Credentials
    from bridle.safety.trust.approvals import Approvals


class ServerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The folder and the variables that servers would start with."""

    cwd: str
    env: Mapping[str, str]


def untrusted_servers(settings: ServerSettings, place: ServerPlace, approvals: Approvals) -> Iterator[str]:
    """Yield the names of the project's servers that no user has approved."""
    for one in settings.definitions:
        if one.of_project and one.transport == "stdio":
            item = project_server_item(one.name, settings.tables[one.name], place)
            if not item.is_trusted(approvals):
                yield one.name


def project_server_item(name: str, table: Mapping[str, Any], place: ServerPlace) -> TrustItem:
    """Return the program that a project asks to start as a server. Reads files."""
    root = repository_root(place.cwd)
    search_path = place.env.get("PATH", os.defpath)
    launch = server_launch(table, root=root, cwd=place.cwd, search_path=search_path)
    return launch_item("mcp_server", root, f"mcp_servers.{name}", launch, "Bridle starts")


def pin_question(review: PinReview, now_ms: int) -> TrustQuestion:
    """Return the question about a server: all of it, or the change since it was approved."""
    before = None
    if review.agreed_ms is not None:
        before = ApprovedBefore(approved_ms=review.agreed_ms, text=review.before)
    text = ReviewedText(shown=review.subject, text=review.after, kind="mcp_server", before=before)
    digest = content_digest(review.after.encode("utf-8", "surrogateescape"))
    return file_question(text, sha256=digest, now_ms=now_ms)


async def require_server_trust(
    settings: ServerSettings,
    services: ProcessServices,
    approvals: Approvals,
    *,
    cwd: str,
    env: Mapping[str, str],
) -> None:
    """Refuse to begin (`--require-trust`) while no user has seen what a server would start. `env` is that of the
    session."""
    place = ServerPlace(cwd=cwd, env=env)
    for name in untrusted_servers(settings, place, approvals):
        raise CommandRefused(
            "NonInteractiveAckRefused", kind=f"program of MCP server {visible(name, newlines=False)}"
        )
    store = PinStore(services.where.state, services.clock)
    for one in settings.definitions:
        gate = PinGate(one, cwd=cwd, env=env, store=store)
        try:
            values = ServerValues(env, services.env, services.models.stored)
            gate.launched = (await filled_launch(one, values)).definition
        except (BadReference, BridleError):
            continue  # what has no value here does not start
        if (review := await in_thread(gate.unseen_launch)) is not None:
            problem = review.data.get("problem") or "its program is not the one settings expect"
            raise CommandRefused(
                "MCPServerUnseen",
                name=visible(one.name, newlines=False),
                problem=visible(problem, newlines=False),
            )


class ServerValues:
    """The values that `${NAME}` stands for in the settings of servers: a variable, or a stored value.

    `session_env` is what commands of the session see, `process_env` all that this process has.
    """

    def __init__(
        self, session_env: Mapping[str, str], process_env: Mapping[str, str], stored: Credentials | None
    ) -> None:
        self._session_env = session_env
        self._process_env = process_env
        self._stored = stored

    async def find(self, names: Collection[str], *, of_project: bool) -> Mapping[str, str]:
        env = self._session_env if of_project else {**self._process_env, **self._session_env}
        found = {name: env[name] for name in names if env.get(name)}
        if of_project or self._stored is None:
            return found
        for name in names:
            if name not in found and (value := await self._stored.value(name)):
                found[name] = value
        return found
