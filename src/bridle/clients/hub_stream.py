"""A run as a hub of agents reads it: the `agent.stream` envelopes of version 2, and approval requests. Pure.

    {"schema_version": 2, "sdk_contract_version": "bridle-sdk.v1", "source": "bridle", "id": "…", "task_id": "…",
     "edge_run_id": "…", "session_id": "sess_…", "agent_instance_id": "…", "event_seq": 7,
     "event_type": "run.agent.tool_call", "source_event_type": "ToolCallRequested", "payload": {…}, "created_at": "…"}

What an agent does that was sent carries `invocation_id`, `parent_invocation_id` and `agent_path` besides; its words
have a name of their own, so that nobody takes them for the answer.

Every run ends with exactly one `run.agent.result`, whether it went well, failed, or could not begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

import msgspec

from bridle.base.clock import iso_ms
from bridle.clients.dotted_events import (
    DottedEvents,
    Fields,
    InvocationFields,
    Told,
    given_fields,
    usage_fields,
)
from bridle.protocol import events as e
from bridle.protocol.messages import Usage

CONTRACT = "bridle-sdk.v1"
SCHEMA_VERSION = 2
APPROVAL_VERSION = 1
SOURCE = "bridle"
EVENT_TYPES = {
    "model.text.delta": "run.agent.text_delta",
    "model.text": "run.agent.text_block",
    "tool.requested": "run.agent.tool_call",
    "permission.requested": "run.agent.permission_requested",
    "permission.granted": "run.agent.permission_decided",
    "permission.denied": "run.agent.permission_decided",
    "tool.completed": "run.agent.tool_result",
    "tool.failed": "run.agent.tool_result",
    "goal.started": "run.agent.goal_started",
    "goal.checked": "run.agent.goal_checked",
    "goal.ended": "run.agent.goal_ended",
}
"""What is told of a run, and how a hub calls it."""
CHILD_EVENT_TYPES = {
    **EVENT_TYPES,
    "agent.invocation.started": "run.agent.child_started",
    "agent.invocation.completed": "run.agent.child_ended",
    "agent.invocation.failed": "run.agent.child_ended",
    "agent.invocation.cancelled": "run.agent.child_ended",
    "model.text": "run.agent.child_text",
}
"""The same of agents that were sent."""
del CHILD_EVENT_TYPES["model.text.delta"]
RESULT = "run.agent.result"


class HubTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a hub calls this work; each of its envelopes says so."""

    task_id: str = ""
    edge_run_id: str = ""
    agent_instance_id: str = ""


class HubEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened in a run. `event_seq` counts from 1 without gaps. The last three are there for what an
    agent did that was sent."""

    schema_version: int = SCHEMA_VERSION
    sdk_contract_version: str = CONTRACT
    source: str = SOURCE
    id: str
    task_id: str
    edge_run_id: str
    session_id: str | None
    agent_instance_id: str
    event_seq: int
    event_type: str
    source_event_type: str
    payload: Fields
    created_at: str
    invocation_id: str | msgspec.UnsetType = msgspec.UNSET
    parent_invocation_id: str | msgspec.UnsetType | None = msgspec.UNSET
    agent_path: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question that waits for a yes or a no. A call that asks again gets `#2`, `#3` behind its id.

    `agent_path` is there where an agent asks that was sent; `handoff` where one would be, with all it would be told.
    """

    schema_version: int = APPROVAL_VERSION
    request_id: str
    call_id: str
    tool_name: str
    tool_risk: str
    reason: str
    input: Fields
    decision_channel: Literal["hub"] = "hub"
    agent_path: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    handoff: e.Handoff | msgspec.UnsetType = msgspec.UNSET


class HubResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a run came to. `error` says why it came to nothing, with `code` where another run has the session."""

    success: bool
    final_response: str = ""
    error: dict[str, str] | None = None
    steps: int = 0
    usage: dict[str, int] = {}
    cost_usd: float | None = None


class HubStream:
    """Takes the events of one run in order; gives the envelopes that a hub reads."""

    def __init__(self, task: HubTask, now_ms: Callable[[], int]) -> None:
        self._task = task
        self._now_ms = now_ms
        self._dotted = DottedEvents()
        self._invocations = InvocationFields()
        self._asked: Counter[str] = Counter()
        self._requests: dict[str, ApprovalRequest] = {}
        self._digests: dict[str, str] = {}
        self._seq = 0
        self._answer = ""
        self._used: Counter[str] = Counter(usage_fields(Usage()))
        self._usd: float | None = 0.0

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        return tuple(self._requests.values())

    def digest_of(self, request: ApprovalRequest) -> str:
        """What an answer says it is about: one to a question that has changed is refused."""
        return self._digests.get(request.request_id, "")

    def of(self, envelope: e.Envelope) -> Iterator[HubEnvelope]:
        if isinstance(envelope.event, e.CostIncremented):
            self._count(envelope.event)
        whose, is_own = self._invocations.of(envelope), e.concerns(envelope)
        if is_own and isinstance(envelope.event, e.StepStarted):
            self._answer = ""
        if isinstance(envelope.event, e.ToolResult):  # whoever was stopped waits for nothing any more
            self._requests.pop(envelope.event.call_id, None)
        of_child = not is_own or isinstance(envelope.event, e.ChildStarted | e.ChildEnded)
        for told in self._dotted.of(envelope):
            if is_own and told.name == "model.text":
                self._answer = str(told.fields["text"])
            if (kind := (CHILD_EVENT_TYPES if of_child else EVENT_TYPES).get(told.name)) is not None:
                payload = self._payload(told, envelope)
                yield self._envelope(
                    kind, envelope.kind, payload, session=envelope.session, at_ms=envelope.ts_ms, whose=whose
                )

    def result(
        self,
        *,
        session: str | None,
        ended: e.TurnEnded | None = None,
        error: dict[str, str] | None = None,
    ) -> HubEnvelope:
        """The last one. `ended` is how the turn ended, `error` why there was none."""
        if ended is not None and ended.stop != "end_turn" and error is None:
            error = {"name": ended.reason or ended.stop, "message": ended.message or ended.stop}
        result = HubResult(
            success=error is None,
            final_response=self._answer,
            error=error,
            steps=0 if ended is None else ended.steps,
            usage=dict(self._used),
            cost_usd=self._usd,
        )
        source = "" if ended is None else "TurnEnded"
        return self._envelope(
            RESULT, source, msgspec.to_builtins(result), session=session, at_ms=self._now_ms()
        )

    def _count(self, cost: e.CostIncremented) -> None:
        self._used.update(usage_fields(cost.usage))
        self._usd = None if self._usd is None or cost.usd is None else self._usd + cost.usd

    def _payload(self, told: Told, envelope: e.Envelope) -> Fields:
        match envelope.event:
            case e.PermissionRequested() as asked:
                return msgspec.to_builtins(self._request(asked, envelope.agent_path))
            case e.PermissionDecided(call_id=call_id):
                request = self._requests.pop(call_id, None)
                asked = None if request is None else request.request_id
                return {"requestId": asked, **given_fields(told.fields)}
            case _:
                return given_fields(told.fields)

    def _request(self, asked: e.PermissionRequested, path: tuple[str, ...]) -> ApprovalRequest:
        self._asked[asked.call_id] += 1
        times = self._asked[asked.call_id]
        request = ApprovalRequest(
            request_id=asked.call_id if times == 1 else f"{asked.call_id}#{times}",
            call_id=asked.call_id,
            tool_name=asked.tool,
            tool_risk=asked.risk,
            reason=asked.because or asked.why,
            input=asked.input,
            agent_path=path or msgspec.UNSET,
            handoff=msgspec.UNSET if asked.handoff is None else asked.handoff,
        )
        self._requests[asked.call_id] = request
        self._digests[request.request_id] = asked.digest
        return request

    def _envelope(
        self,
        kind: str,
        source_kind: str,
        payload: Fields,
        *,
        session: str | None,
        at_ms: int,
        whose: Fields | None = None,
    ) -> HubEnvelope:
        self._seq += 1
        task = self._task
        run = task.edge_run_id or session or ""
        child = whose or {}
        return HubEnvelope(
            id=str(uuid5(NAMESPACE_URL, f"bridle:hub:{task.task_id}/{run}/{self._seq}")),
            task_id=task.task_id,
            edge_run_id=task.edge_run_id,
            session_id=session,
            agent_instance_id=task.agent_instance_id,
            event_seq=self._seq,
            event_type=kind,
            source_event_type=source_kind,
            payload=payload,
            created_at=iso_ms(at_ms),
            invocation_id=child.get("invocationId", msgspec.UNSET),
            parent_invocation_id=child.get("parentInvocationId", msgspec.UNSET),
            agent_path=child.get("agentPath", msgspec.UNSET),
        )
