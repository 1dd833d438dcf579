"""A model for tests of agents that answers by what it is asked, and keeps every request."""

import json
import re

from bridle.engine.ports import ModelCall, ModelDone, ModelText
from bridle.providers.scripted import ScriptedWire


def sending(task, agent="explore", **given):
    """A call that sends an agent."""
    return ModelCall("delegate_agent", json.dumps({"agent": agent, "task": task, **given}))


def calling(tool, **given):
    return ModelCall(tool, json.dumps(given))


def kept_at(body):
    """Where a request says that the rest of an output is."""
    return re.search(r"path .{0,3}(output:call_[A-Za-z0-9_-]+)", body)[1]


class Answering:
    """`main(number, body)` and `child(number, body)` give the next answer of either: a text, a call, or several.
    Both count from 0, the child's in each of its runs."""

    name = "demo"
    wire = ScriptedWire()

    def __init__(self, main, child):
        self._main, self._child = main, child
        self.requests = []

    def bodies(self, agent=""):
        return [request.body.decode() for request in self.requests if request.agent == agent]

    async def stream(self, request):
        self.requests.append(request)
        answer = (self._child if request.agent else self._main)(request.answers, request.body.decode())
        parts = answer if isinstance(answer, tuple) else (answer,)
        for part in parts:
            yield ModelText(part) if isinstance(part, str) else part
        yield ModelDone("tool_use" if isinstance(parts[-1], ModelCall) else "end_turn")
