"""`bridle run --output-format hub`: what a hub of agents reads."""

import json
from typing import Any

import pytest

from cli_kit import Place

pytestmark = pytest.mark.through_engine

NAMES = {"BRIDLE_HUB_TASK": "t1", "BRIDLE_HUB_RUN": "r1", "BRIDLE_HUB_AGENT": "a1"}


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.requirement("T18.6", "P15")
def test_a_run_is_a_stream_of_envelopes_with_its_result_last(place: Place) -> None:
    model = place.script("say I look.\ncall bash\n    command: touch made\n---\nsay Done.\n")
    done = place.bridle("run", "--output-format", "hub", "-m", model, "Go", env=NAMES)
    told = lines(done.out)
    assert done.code == 0
    assert [one["event_type"].removeprefix("run.agent.") for one in told] == [
        "text_delta",
        "text_block",
        "tool_call",
        "permission_decided",
        "tool_result",
        "text_delta",
        "text_block",
        "result",
    ]
    assert [one["event_seq"] for one in told] == list(range(1, len(told) + 1))
    assert {(one["task_id"], one["edge_run_id"], one["agent_instance_id"]) for one in told} == {
        ("t1", "r1", "a1")
    }
    assert told[-1]["payload"]["success"] is True
    assert told[-1]["payload"]["finalResponse"] == "[scripted] Done."


@pytest.mark.parametrize(
    ("words", "name", "code"),
    [(("-m", "nobody:x", "Go"), "UnknownProvider", 2), (("--no-such-option", "Go"), "Usage", 2)],
)
def test_a_run_that_cannot_begin_is_one_failed_result(
    place: Place, words: tuple[str, ...], name: str, code: int
) -> None:
    done = place.bridle("run", "--output-format", "hub", *words, env=NAMES)
    (only,) = lines(done.out)
    assert (done.code, only["event_type"], only["event_seq"]) == (code, "run.agent.result", 1)
    assert only["payload"]["success"] is False
    assert only["payload"]["error"]["name"] == name
    assert (only["task_id"], only["session_id"]) == ("t1", None)
