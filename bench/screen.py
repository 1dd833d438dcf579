"""What a terminal costs: an answer of many deltas drawn as it comes, with the line that says what is under way."""

from __future__ import annotations

import time

from measure import Figure, in_turns, of_rounds, times

from bridle.base.clock import SystemClock
from bridle.clients.interaction.composer.composer import composer_with
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.interaction.session.status_line import StatusLine
from bridle.clients.interaction.view import SessionView
from bridle.clients.line.live_terminal import Footer
from bridle.clients.line.page import Page
from bridle.clients.line.screen import Screen
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e

DELTAS = 20_000
_TEXT = "- one **bold** word, `code`, and more of them until the row is full\n"


class _StillClock(SystemClock):
    """The real time, and timers that are only counted."""

    timers = 0

    def call_later(self, seconds: float, action: object) -> _Timer:
        self.timers += 1
        return _Timer()


class _Timer:
    def cancel(self) -> None:
        """Nothing was begun."""


def drawn() -> list[Figure]:
    """Own CPU per delta that is drawn, and whether anything is begun while nothing is under way."""
    plain_s, status_s = in_turns(
        5, lambda: _per_delta_s(with_status=False), lambda: _per_delta_s(with_status=True)
    )
    how = f"an answer of {DELTAS:,} deltas at 80 columns, all of it"
    return [
        of_rounds("delta, drawn", [one_s * 1e6 for one_s in status_s], "µs", 30, how),
        times("status line, share", status_s, plain_s, of="a delta without it", target=1.1),
    ]


def _per_delta_s(*, with_status: bool) -> float:
    written: list[int] = []
    clock = _StillClock()
    page = Page(lambda text: written.append(len(text)), columns=lambda: 80, rows=lambda: 40, moves=True)
    view, look = SessionView("cli_bench"), Look(codes=True, moves=True)
    screen = Screen(page, view, EngineInfo(), look=look, columns=80)
    line = StatusLine(clock)
    footer = Footer(
        page,
        KeyRouter(composer_with(()), lines_only=False),
        look=look,
        clock=clock,
        interactive=True,
        say=screen.say,
        active=lambda: with_status and view.running,
        status=lambda: [line.words(view, 79)],
    )
    footer.draw()
    assert clock.timers == 0, "nothing is under way, and something was begun"
    pieces = [_TEXT[at : at + 5] for at in range(0, len(_TEXT), 5)]
    before = time.process_time()
    events = (
        e.TurnStarted(input=1),
        e.StepStarted(step=1, provider="p", model="m"),
        *(e.TextDelta(text=pieces[number % len(pieces)]) for number in range(DELTAS)),
        e.StepEnded(step=1, stop="end_turn", text_sha256=""),
    )
    for number, event in enumerate(events, 1):
        envelope = e.Envelope(
            id=number, kind=type(event).__name__, session="s", originator="c", ts_ms=number, event=event
        )
        view.take(envelope)
        screen.show(envelope)
        footer.draw()
    spent = time.process_time() - before
    assert sum(written) > DELTAS
    return spent / DELTAS
