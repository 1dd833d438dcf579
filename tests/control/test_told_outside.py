"""Whoever asks over a wire reads why not, but no detail of a part that broke, and no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from bridle.conformance.fake_models import scripted
from bridle.control.http_status import problem_of, status_of
from bridle.engine.features import Feature, FeatureQuery
from bridle.protocol.errors import SENTENCES, BridleError, StoreError
from bridle.protocol.queries import CustomQuery
from bridle.protocol.told_outside import BROKEN_PARTS, is_broken_part
from bridle.sessions.memory_store import MemoryStore
from outer_agents_kit import McpServed, mcp_served
from served_kit import Served, served
from tables import table

SECRET = "ghp_" + "a1B2" * 9
DETAIL = "line 7 of the innermost part"
WORDS = f"{DETAIL}: token {SECRET}"


class BrokenStore(MemoryStore):
    """One whose disk fails."""

    works = True

    async def list(self, **wanted: Any) -> Any:
        if not self.works:
            raise StoreError("StoreFailed", path=f"/home/somebody/{SECRET}/sessions.db", problem=WORDS)
        return await super().list(**wanted)


async def fails(query: CustomQuery) -> dict[str, object]:
    raise RuntimeError(WORDS)


BROKEN = Feature(name="weather", queries=(FeatureQuery(verb="today", answer=fails),))


@table("reason", sorted(SENTENCES))
@pytest.mark.requirement("G47.6")
def test_no_refusal_there_is_tells_a_secret_or_the_detail_of_a_broken_part(reason: str) -> None:
    names = re.findall(r"{(\w+)", SENTENCES[reason].text)
    failure = BridleError(reason, **dict.fromkeys((*names, "problem", "more"), WORDS))
    problem = problem_of(failure)
    assert SECRET not in str(problem)
    assert is_broken_part(failure) == (reason in BROKEN_PARTS)
    if reason in BROKEN_PARTS:
        assert problem.data["problem"] == "the engine's log says why"


def test_every_reason_that_is_a_fault_of_the_engine_hides_its_detail() -> None:
    faults = {reason for reason in SENTENCES if status_of(reason) == 500}
    told_with_a_type, of_a_run, of_a_goal = "EngineFault", "DeadlineReached", "GoalTime"
    assert faults - {told_with_a_type, of_a_run, of_a_goal} == BROKEN_PARTS


def test_a_fault_of_a_plugin_tells_whose_it_is_and_nothing_else() -> None:
    told = problem_of(BridleError("Custom:rain:Fault", message=f"The plugin rain failed ({WORDS})."))
    assert (told.message, told.data["message"]) == (told.message, told.message)
    assert told.message == "The plugin rain failed (the engine's log says why)."


def engine_log(kit: Served | McpServed) -> str:
    return "".join(one.read_text("utf-8") for one in Path(kit.session.home).rglob("*.log"))


@pytest.mark.requirement("G47.6")
async def test_requests_sockets_and_agents_read_no_detail_and_the_log_has_it() -> None:
    store = BrokenStore()
    said: list[str] = []
    async with served(scripted(), store=store, features=[BROKEN]) as kit:
        await kit.shake_hands()
        store.works = False
        paths = ("sessions", "features/weather/today", "search?words=x", "costs")
        said += [(await kit.ask("GET", f"/v1/{path}")).body.decode() for path in paths]
        async with kit.websocket() as socket:
            for query in (
                {"kind": "ListSessions"},
                {"kind": "CustomQuery", "namespace": "weather", "verb": "today"},
            ):
                await socket.tell({"frame": "query", "id": 1, "body": query})
                said.append(json.dumps(await socket.hear()))
        store.works = True
        log = engine_log(kit)
    assert log.count(DETAIL) >= 6
    assert SECRET not in log
    store = BrokenStore()
    async with mcp_served(scripted(), store=store) as door, door.agent(door.mint(door.session.id)) as agent:
        store.works = False
        said.append(str(await agent.call_tool("list_sessions", {})))
        with pytest.raises(MCPError) as refused:
            await agent.read_resource("bridle-v1://sessions")
        said.append(f"{refused.value.error}")
        store.works = True
        log = engine_log(door)
        assert (log.count(DETAIL), SECRET in log) == (2, False)
    failed = [one for one in said if "StoreFailed" in one or "FeatureFailed" in one]
    assert len(failed) == len(said), said
    for one in said:
        assert SECRET not in one
        assert DETAIL not in one
