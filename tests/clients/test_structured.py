"""Answers that must fit a schema."""

import pytest

from bridle.clients.structured import asked_for, mismatch

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "answer", ['{"n": 3}', ' {"n": 3}\n', '```json\n{"n": 3}\n```', '```\n{"n": 3}\n```']
)
def test_an_answer_that_fits_has_no_problem(answer: str) -> None:
    assert mismatch(answer, SCHEMA) is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("three", "not JSON"), ("{}", "'n' is a required property"), ('{"n": "x"}', "n: 'x' is not")],
)
def test_an_answer_that_does_not_fit_says_where(answer: str, problem: str) -> None:
    assert problem in mismatch(answer, SCHEMA)


def test_the_model_is_told_the_schema() -> None:
    assert '"required":["n"]' in asked_for(SCHEMA)
