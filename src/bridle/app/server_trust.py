"""What of MCP servers waits for a person, for a session that is not to begin before they agreed: `--require-trust`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridle.app.project_servers import ServerPlace, untrusted_servers
from bridle.app.server_values import ServerValues
from bridle.base.threads import in_thread
from bridle.base.visible import visible
from bridle.mcp.pin_gate import PinGate
from bridle.mcp.server_pins import PinStore
from bridle.mcp.value_references import BadReference, filled_launch
from bridle.protocol.errors import BridleError, CommandRefused

if TYPE_CHECKING:
    from bridle.app.session_parts import ProcessServices
    from bridle.app.settings import ServerSettings
    from bridle.safety.trust.approvals import Approvals


async def require_server_trust(
    settings: ServerSettings,
    services: ProcessServices,
    approvals: Approvals,
    *,
    cwd: str,
    env: Mapping[str, str],
) -> None:
    """Refuses to begin while a person has not seen what a server would start. `env` is that of the session."""
    state = services.where.state
    place = ServerPlace(cwd=cwd, env=env, state=state)
    for name in untrusted_servers(settings, place, approvals):
        raise CommandRefused(
            "NonInteractiveAckRefused", kind=f"program of MCP server {visible(name, newlines=False)}"
        )
    store = PinStore(state, services.clock)
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
