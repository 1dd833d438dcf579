"""Answers that must fit a schema."""

from bridle.base.text.json_schema import CheckedAnswer, checked
from bridle.clients.run_result import schema_prompt, schema_retry_prompt
from tables import table

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


@table(
    "answer",
    [
        '{"n": 3}',
        ' {"n": 3}\n',
        '```json\n{"n": 3}\n```',
        '```\n{"n": 3}\n```',
        'Here it is:\n```json\n{"n": 3}\n```\nAnything else?',
    ],
)
def test_an_answer_that_fits_is_exactly_its_json(answer: str) -> None:
    assert checked(answer, SCHEMA) == CheckedAnswer('{"n": 3}')


@table("answer", ['```\n{"n": 3}\n```\n```\n{"n": 4}\n```', 'So: {"n": 3}', '"```"'])
def test_nothing_is_guessed_where_json_is_not_all_there_is(answer: str) -> None:
    assert checked(answer, SCHEMA).problem is not None


@table(
    ("answer", "problem"),
    [("three", "not JSON"), ("{}", "'n' is a required property"), ('{"n": "x"}', "n: 'x' is not")],
)
def test_an_answer_that_does_not_fit_says_where(answer: str, problem: str) -> None:
    found = checked(answer, SCHEMA).problem or ""
    assert problem in found
    assert found in schema_retry_prompt(found), "the model is told the same"


def test_the_model_is_told_the_schema() -> None:
    assert '"required":["n"]' in schema_prompt(SCHEMA)
