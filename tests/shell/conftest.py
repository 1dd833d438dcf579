"""A place to understand commands in. Nothing is run."""

from collections.abc import Callable

import pytest

from bridle.shell.command_facts import ScriptContext, Understanding
from bridle.shell.understanding import understand

HERE = ScriptContext(cwd="/w/shop", home="/home/ana", search_path="/usr/local/bin:/usr/bin:/bin")
Read = Callable[[str], Understanding]


@pytest.fixture
def read() -> Read:
    return lambda command: understand(command, HERE)
