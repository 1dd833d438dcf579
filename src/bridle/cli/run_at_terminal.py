"""A run where somebody sits: questions are put to them, and the answer is rendered as they read it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from bridle.base.clock import SystemClock
from bridle.cli.console import safe, tell
from bridle.cli.terminal_look import terminal_look
from bridle.clients.line.run_terminal import RunTerminal
from bridle.clients.line.terminal import Terminal


class RunAtTerminal:
    """`page` is the terminal; `asks` whether they can be asked, `renders` whether they read the answer there."""

    def __init__(
        self, parsed: argparse.Namespace, env: Mapping[str, str], *, asks: bool, renders: bool
    ) -> None:
        stream = sys.stdout if renders else sys.stderr
        terminal = Terminal(
            input_fd=sys.stdin.fileno(),
            output_fd=stream.fileno(),
            look=terminal_look(parsed, env),
            put=stream.buffer.write,
        )
        self.asks = asks
        self.renders = renders
        self.page = RunTerminal(terminal, SystemClock(), asks=asks, home=env.get("HOME", ""))
        self._tells_on_page = sys.stderr.isatty()

    def tell(self, line: str) -> None:
        """One line of the story: on stderr, unless it would come in the middle of what is drawn on that terminal."""
        if self._tells_on_page and self.page.is_open:
            self.page.say(f"bridle: {safe(line)}")
        else:
            tell(line)
