"""What a result is shown as: both ways as bytes, from logs that told it by loose keys, and from later versions."""

import json
import math
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridle.protocol.codec import decode_payload, encode_payload
from bridle.protocol.display_values import (
    AnyShown,
    EditedFile,
    ShownCommand,
    ShownEdit,
    ShownJudgement,
    ShownRead,
    ShownSearch,
    ShownWait,
)
from bridle.protocol.events import ToolResult
from tables import table

KEYS = (
    "judged", "judged_by", "timeout_s", "exit_code", "sandbox", "blocked", "hosts", "first_line", "last_line",
    "matches", "files", "entries", "more", "diff", "path", "created", "deleted", "moved_from", "added", "removed",
)  # fmt: skip
TOOLS = ("bash", "read_file", "grep", "glob", "ls", "write_file", "edit_file", "apply_patch", "other")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


def result(tool: str = "bash", **fields: Any) -> ToolResult:
    return ToolResult(call_id="c", tool=tool, outcome="ok", content="words", **fields)


def read(tool: str, **told: Any) -> AnyShown | None:
    """What is shown of a result that a log holds with these keys."""
    payload = {"call_id": "c", "tool": tool, "outcome": "ok", "content": "words", "metadata": told}
    event = decode_payload("ToolResult", json.dumps(payload).encode())
    assert isinstance(event, ToolResult)
    assert event.metadata == told
    return event.shown


@given(
    st.from_type(AnyShown).filter(
        lambda one: all(math.isfinite(getattr(one, name, 0.0)) for name in ("waited_s", "usd"))
    )
)
def test_whatever_is_shown_survives_a_round_trip(shown: AnyShown) -> None:
    event = result(shown=shown)
    assert decode_payload("ToolResult", encode_payload(event)) == event


@table(
    "shown",
    [
        {"as": "chart", "points": [1, 2]},
        {"as": "edit", "files": [{"path": "a", "kind": "linked"}]},
        {"as": "command", "exit_code": "none"},
        {"exit_code": 0},
        [],
    ],
)
def test_what_a_later_version_shows_in_another_way_is_plain_here(shown: object) -> None:
    payload = {"call_id": "c", "tool": "x", "outcome": "ok", "content": "words", "shown": shown}
    assert decode_payload("ToolResult", json.dumps(payload).encode()) == result("x")


def test_fields_a_reader_does_not_know_are_ignored_there_too() -> None:
    payload = (
        b'{"call_id":"c","tool":"bash","outcome":"ok","content":"words","shown":{"as":"command","cpu_s":1}}'
    )
    assert decode_payload("ToolResult", payload) == result(shown=ShownCommand())


@table(
    ("tool", "told", "shown"),
    [
        ("bash", {"judged": "undone", "judged_by": "cli_1"}, ShownJudgement(judgement="undone", by="cli_1")),
        ("bash", {"judged": "unknown"}, ShownJudgement(judgement="unknown")),
        ("edit_file", {"timeout_s": 5.0}, ShownWait(waited_s=5)),
        ("bash", {"exit_code": 3, "sandbox": "off"}, ShownCommand(exit_code=3, sandbox="off")),
        (
            "bash",
            {"exit_code": 1, "sandbox": "x", "blocked": True, "hosts": {"reached": [], "refused": ["a.b"]}},
            ShownCommand(exit_code=1, sandbox="x", blocked=True, refused=("a.b",)),
        ),
        ("bash", {"job": "job1", "sandbox": "off"}, ShownCommand(sandbox="off")),
        ("read_file", {"first_line": 2, "last_line": 5, "more": True}, ShownRead(first_line=2, last_line=5)),
        ("read_file", {"first_line": 0, "last_line": 0, "more": False}, ShownRead()),
        (
            "grep",
            {"matches": 4, "files": 2, "more": False},
            ShownSearch(found=4, files=2),
        ),
        ("glob", {"files": 9, "more": True}, ShownSearch(found=9, more=True)),
        ("ls", {"entries": 3, "more": False}, ShownSearch(found=3)),
        (
            "write_file",
            {"path": "a", "created": True, "diff": "+x\n", "added": 1, "removed": 0},
            ShownEdit(files=(EditedFile(path="a", kind="create", diff="+x\n", added=1),)),
        ),
        (
            "write_file",
            {"path": "a", "created": False, "diff": "", "added": 7, "removed": None},
            ShownEdit(files=(EditedFile(path="a", added=7, removed=None),)),
        ),
        (
            "apply_patch",
            {
                "files": [
                    {"path": "a", "added": 1, "removed": 0, "created": False, "deleted": False},
                    {"path": "b", "added": 0, "removed": 2, "created": False, "deleted": True},
                    {"path": "c", "added": 0, "removed": 0, "moved_from": "d"},
                ],
                "diff": "+x\n-y\n-z\n",
                "added": 1,
                "removed": 2,
            },
            ShownEdit(
                files=(
                    EditedFile(path="a", diff="+x\n-y\n-z\n", added=1),
                    EditedFile(path="b", kind="delete", removed=2),
                    EditedFile(path="c", kind="move", moved_from="d"),
                )
            ),
        ),
        ("todo", {"done": 1, "count": 2}, None),
        ("web_fetch", {"url": "http://a.b/", "status": 200}, None),
        ("bash", {"seen": {"/a": "0"}}, None),
        ("charts", {"exit_code": 1, "diff": "mine", "files": 3}, None),
    ],
)
def test_what_was_told_by_loose_keys_is_shown_as_it_was(
    tool: str, told: dict[str, Any], shown: AnyShown | None
) -> None:
    assert read(tool, **told) == shown


@example("apply_patch", {"diff": "", "files": []})
@given(st.sampled_from(TOOLS), st.dictionaries(st.sampled_from(KEYS), JSON))
def test_keys_of_any_shape_are_read_or_left_alone(tool: str, told: dict[str, Any]) -> None:
    read(tool, **told)
