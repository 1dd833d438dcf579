"""What the terminal of this process may be sent, as options and environment say."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from bridle.clients.line.terminal import Look, look_of


def terminal_look(parsed: argparse.Namespace, env: Mapping[str, str]) -> Look:
    """`--plain` and `--no-color` go before the environment."""
    env = {**env, "NO_COLOR": "1"} if parsed.no_color else env
    return look_of(_as_given(env), terminal=True, plain=parsed.plain)


def _as_given(env: Mapping[str, str]) -> Mapping[str, str]:
    """The environment without the LC_CTYPE that Python sets for itself where the locale is C (PEP 538)."""
    if sys.flags.utf8_mode and env.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        return {name: value for name, value in env.items() if name != "LC_CTYPE"}
    return env
