"""What counts as an answer: JSON with a decision first, the exit code otherwise, and never a slip as a yes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.safety.hooks.hook_process import (
    CUT,
    DECISIONS,
    LIMIT_BYTES,
    HookAnswer,
    KeptOutput,
    UnusableAnswer,
    answer_of,
    patched,
)
from tables import table


def answer(exit_code: int = 0, stdout: bytes = b"", stderr: bytes = b"", *, cut: bool = False) -> Any:
    return answer_of(exit_code, KeptOutput(stdout, cut), KeptOutput(stderr))


@pytest.mark.requirement("H9.2", "H9.3")
def test_without_a_decision_the_exit_code_counts() -> None:
    assert answer(0) == answer(0, b"just talk\n") == answer(0, b'{"note": 1}') == HookAnswer()
    assert answer(2, b"", b" generated file\n") == HookAnswer(decision="block", message="generated file")
    assert answer(2).message == "it gave no reason"
    assert answer(1, b"", b"no such module") == UnusableAnswer("exit code 1: no such module")
    assert answer(-9) == UnusableAnswer("killed by signal 9")


@pytest.mark.requirement("D10.8", "C7")
def test_a_decision_on_stdout_wins_over_the_exit_code() -> None:
    said = {"decision": "allow", "message": "m", "patch": {"path": "b"}, "metadata": {"k": [1]}}
    wanted = HookAnswer(decision="allow", message="m", patch={"path": "b"}, metadata={"k": [1]})
    for code in (0, 1, 2):
        assert answer(code, json.dumps(said, indent=2).encode()) == wanted
        assert answer(code, b"checking {a}\n" + json.dumps(said).encode() + b"\n") == wanted
    for decision in DECISIONS:
        assert answer(0, json.dumps({"decision": decision}).encode()).decision == decision
    assert answer(0, b'{"decision": "block", "message": 5, "metadata": 5}') == HookAnswer(decision="block")


@table(
    "stdout",
    [
        b'{"decision": "deny"}',
        b'{"decision": "block", "message": "the "best" file"}',
        b'{"decision": "block"',
        b'{"decision": null}',
        b'{"decision": ["block"]}',
        b'{"decision": "allow", "patch": "path=b"}',
        b'{"decision": "block", "message": "\xff"}',
        b'{"decision":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
def test_a_decision_that_cannot_be_read_is_a_failure_and_never_a_pass(stdout: bytes) -> None:
    assert isinstance(answer(0, stdout), UnusableAnswer)


def test_an_answer_that_was_cut_off_is_a_failure() -> None:
    assert isinstance(
        answer(0, b'{"decision": "block", "x": "' + b"a" * LIMIT_BYTES, cut=True), UnusableAnswer
    )
    assert answer(0, b"talk" * 1000, cut=True) == HookAnswer()
    assert KeptOutput(b"a\xff", cut=True).text == "a\ufffd" + CUT


@given(st.integers(-20, 255), st.binary(max_size=60), st.binary(max_size=20), st.booleans())
def test_whatever_a_program_leaves_behind_it_is_read(
    code: int, stdout: bytes, stderr: bytes, cut: bool
) -> None:
    said = answer(code, stdout, stderr, cut=cut)
    assert isinstance(said, HookAnswer | UnusableAnswer)
    if code not in (0, 2) and b"decision" not in stdout:
        assert isinstance(said, UnusableAnswer)


KEYS = st.sampled_from("abc")
VALUES = st.none() | st.integers()


@given(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES))
def test_a_patch_replaces_adds_and_takes_out_by_name(
    given_input: dict[str, Any], patch: dict[str, Any]
) -> None:
    result = patched(given_input, patch)
    for name in "abc":
        if name not in patch:
            assert (name in result, result.get(name)) == (name in given_input, given_input.get(name))
        else:
            assert (name in result) == (patch[name] is not None)
            assert result.get(name) == patch[name]
