"""Calls a Python function as a hook. A program of its own: `python -I calling.py FOLDER MODULE:FUNCTION`.

The function gets what other hooks read on stdin, as a dict, and returns their answer as one, or None for nothing to
say. What it prints is for people and goes to stderr; an exception ends the program with an error, like any other hook.
It needs nothing of Bridle: an isolated interpreter may not find it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import operator
import sys
from collections.abc import Callable
from typing import Any


def call(folder: str, target: str) -> None:
    """Calls the function with the JSON on stdin and writes its answer."""
    module, _, name = target.partition(":")
    sys.path.insert(0, folder)
    with contextlib.redirect_stdout(sys.stderr):
        function: Callable[[Any], Any] = operator.attrgetter(name)(importlib.import_module(module))
        answer = function(json.load(sys.stdin))
    if answer is None:
        return
    if not isinstance(answer, dict):  # False, "block": whatever it was meant to say, it was not "go on"
        raise TypeError(f"{target} returned {type(answer).__name__}, not a dict or None")
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    call(*sys.argv[1:])
