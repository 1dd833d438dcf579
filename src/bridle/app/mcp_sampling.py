"""The session's model, asked for an MCP server: these messages, no tools, nothing of the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridle.app.model_features import asking_aside, refuse_beyond_budget
from bridle.base.token_estimate import estimated_tokens
from bridle.mcp.sampling_requests import SampleReply, SampleRequest, SamplingBudget, WriteSample
from bridle.protocol.errors import BridleError
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message, Parameters, TextBlock

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.app.settings import ServerSettings

SAMPLE_TIMEOUT_S: Final = 120.0


def sampling_budget(settings: ServerSettings) -> SamplingBudget | None:
    """What servers may have of the model; None where no setting lets one ask."""
    if not any(one.sampling for one in settings.definitions):
        return None
    return SamplingBudget(requests=settings.sampling_requests, tokens=settings.sampling_tokens)


def sample_writer(parts: SessionParts) -> WriteSample:
    """What it costs is a cost of the session, and what could cost more than its budget is not sent."""
    ask = asking_aside(parts, SAMPLE_TIMEOUT_S)

    async def write(request: SampleRequest) -> SampleReply:
        chosen = parts.journal.conversation.model
        assert chosen is not None, "a session is created with a model"
        prefix = PrefixSet(
            provider=chosen.provider,
            model=chosen.model,
            system=request.system,
            parameters=Parameters(max_tokens=request.max_tokens),
        )
        messages = [
            Message(role=message.role, content=(TextBlock(text=message.text),))
            for message in request.messages
        ]
        try:
            refuse_beyond_budget(parts, prefix, estimated_tokens(request.characters))
            answer = await ask(prefix, messages)
        except BridleError as failure:
            return SampleReply(refusal=failure.message.rstrip("."))
        return SampleReply(text=answer.text, model=f"{chosen.provider}:{chosen.model}", stop=answer.stop)

    return write
