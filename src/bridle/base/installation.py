"""How this program was installed, and so what installs the packages of one of its extras."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_IN_SETUP: Final = frozenset({"web", "mcp", "otel"})
"""The extras that the packages of a clone have."""
_ROOT: Final = Path(__file__).parents[3]


def install_command(extra: str, *, root: Path = _ROOT) -> str:
    """What a person types to have an extra; `root` is two folders above the package."""
    if not (root / "scripts" / "setup").is_file():
        return f"pip install 'bridle[{extra}]'"
    more = "" if extra in _IN_SETUP else f" && .venv/bin/python -m pip install {extra}"
    return f"make setup{more}, in {root}"
