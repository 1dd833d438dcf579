"""Services and tool sources of a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridle.app.session_parts import SessionParts
from bridle.engine.features import Feature
from bridle.engine.foreign_output import checked_event
from bridle.engine.services import Service, Services, SessionDoor, ToolSource, UnusableService
from bridle.engine.tools import Tool
from bridle.protocol.events import DurableEvent


def session_services(parts: SessionParts, features: Sequence[Feature]) -> Services:
    """Return the services of these features."""
    running = [service for feature in features for service in feature.services]
    sources = [source for feature in features for source in feature.sources]
    everyone = [*running, *(_service(parts, source) for source in sources)]
    return Services(everyone, parts.journal.emit, parts.services.clock)


def _service(parts: SessionParts, source: ToolSource) -> Service:
    journal, opened = parts.journal, parts.opened

    def emit(event: DurableEvent) -> object:
        return journal.emit(checked_event(event))

    def offer(tools: Iterable[Tool]) -> None:
        for left in parts.registry.replace(source.name, tools, source.origin):
            journal.emit(left.notice())

    door = SessionDoor(
        offer=offer,
        spawn=parts.spawn,
        policy=parts.policy,
        cwd=opened.cwd,
        env=opened.env,
        clock=parts.services.clock,
        emit=emit,
    )
    try:
        return source.service(door)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: a session opens whatever a source does
        return UnusableService(source.name, fault)
