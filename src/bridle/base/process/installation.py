"""Detect how Bridle was installed, and the command that installs an extra."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from typing import Final

_IN_SETUP: Final = frozenset({"web", "mcp", "otel", "map"})
"""The extras that the packages of a clone have."""
_GRAMMAR: Final = "tree_sitter_python"
"""The package of the extra `map` that is looked for; the others come with it."""
_ROOT: Final = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..", ".."))


def is_map_installed() -> bool:
    """Whether the extra that the map of a project needs is there. Nothing of it is loaded."""
    return PathFinder.find_spec(_GRAMMAR) is not None


def install_command(extra: str, *, root: str = _ROOT) -> str:
    """What a person types to have an extra; `root` is two folders above the package."""
    if not os.path.isfile(os.path.join(root, "scripts", "setup")):
        return f"pip install 'bridle[{extra}]'"
    more = "" if extra in _IN_SETUP else f" && .venv/bin/python -m pip install -e '.[{extra}]'"
    return f"make setup{more}, in {root}"
