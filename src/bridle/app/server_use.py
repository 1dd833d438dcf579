"""What the MCP servers of a session use of it: where they start, whom they ask, whose model writes for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bridle.app.mcp_sampling import sample_writer, sampling_budget
from bridle.app.project_servers import ServerPlace, project_server_item
from bridle.app.server_values import ServerValues
from bridle.app.stored_keys import StoredKeys
from bridle.engine.deltas import ProgressWriter
from bridle.mcp.running_servers import SessionUse
from bridle.mcp.server_run import LaunchPlace
from bridle.sandbox.session_border import claimed_spawn

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.mcp.pin_gate import PinReview
    from bridle.mcp.server_tokens import ServerTokens
    from bridle.protocol.questions import TrustQuestion
    from bridle.safety.trust.trust_items import TrustItem


def session_use(parts: SessionParts) -> SessionUse:
    """For all servers of a session."""
    services, opened, journal = parts.services, parts.opened, parts.journal

    def weaker(words: Any) -> None:
        services.notes.write("warning", "mcpclient", "weaker sandbox", reason=words.reason)

    is_off = parts.policy.mode == "off"
    budget = sampling_budget(parts.settings.servers)
    return SessionUse(
        place=LaunchPlace(
            spawn=services.spawn if is_off else claimed_spawn(services.spawn, opened.held_by, weaker),
            policy=parts.policy,
            cwd=opened.cwd,
            env=opened.env,
            roots=(opened.cwd, *parts.settings.options.add_dirs),
            tokens=_tokens(parts),
            values=ServerValues(opened.env, services.env, services.models.stored),
        ),
        emit=journal.emit,
        review_pin=lambda server, review: _review_pin(parts, server, review),
        write_sample=sample_writer(parts) if budget is not None else None,
        sampling=budget,
        progress_of=lambda call_id: ProgressWriter(journal, services.clock, call_id),
    )


def _tokens(parts: SessionParts) -> Callable[[str], ServerTokens] | None:
    """What people signed in with, where this process keeps credentials at all."""
    from bridle.app.server_sign_ins import stored_tokens

    models = parts.services.models
    stored = models.stored
    if not isinstance(stored, StoredKeys):
        return None
    kept = stored.kept_in(parts.settings.credential_store or stored.back_end)
    return stored_tokens(kept, lambda: models.connections)


async def _review_pin(parts: SessionParts, server: str, review: PinReview) -> bool | None:
    """Puts the question; a yes to the launch of a project's server is kept with the other approvals too."""
    from bridle.protocol.questions import TrustAnswer

    starts = review.launch is not None and not review.launch.is_address
    item = _project_launch(parts, server) if starts else None
    now_ms = parts.services.clock.now_ms()
    question = pin_question(review, now_ms)
    answer = await parts.questions.ask(f"mcp-pin-{question.sha256[:12]}-{now_ms}", question)
    if not isinstance(answer, TrustAnswer):
        return None
    if answer.use and item is not None:
        item.approve(parts.opened.approvals)
    return answer.use


def pin_question(review: PinReview, now_ms: int) -> TrustQuestion:
    """What a person is shown of a server before they agree: all of it, or the change since they did."""
    from bridle.safety.trust.approvals import content_digest
    from bridle.safety.trust.trust_questions import ApprovedBefore, ReviewedText, file_question

    before = None
    if review.agreed_ms is not None:
        before = ApprovedBefore(approved_ms=review.agreed_ms, text=review.before)
    text = ReviewedText(shown=review.subject, text=review.after, kind="mcp_server", before=before)
    digest = content_digest(review.after.encode("utf-8", "surrogateescape"))
    return file_question(text, sha256=digest, now_ms=now_ms)


def _project_launch(parts: SessionParts, server: str) -> TrustItem | None:
    """What a project would have started, if it is the project that has a say in this server."""
    settings, opened = parts.settings.servers, parts.opened
    if not any(one.of_project and one.name == server for one in settings.definitions):
        return None
    place = ServerPlace(cwd=opened.cwd, env=opened.env, state=parts.services.where.state)
    return project_server_item(server, settings.tables[server], place)
