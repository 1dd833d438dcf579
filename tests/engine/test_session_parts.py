"""A session is put together from a few things that each say what they are."""

import inspect

from bridle.engine.session import Session
from bridle.engine.turn_runner import TurnRunner

MOST_PARAMETERS = 8
MOST_METHODS = 25


def test_a_session_and_its_turns_are_two_small_objects():
    for part in (Session, TurnRunner):
        given = inspect.signature(part).parameters
        methods = [name for name, value in vars(part).items() if inspect.isfunction(value)]
        properties = [name for name, value in vars(part).items() if isinstance(value, property)]
        assert len(given) <= MOST_PARAMETERS, given
        assert len(methods) + len(properties) <= MOST_METHODS, methods
