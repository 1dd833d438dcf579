"""Events as the lines that users read."""

from collections.abc import Iterable
from typing import Any

from bridle.clients.interaction.render.event_rows import (
    NOT_IN_TRANSCRIPTS,
    EventRows,
    RowKind,
    Wording,
    path_lines,
)
from bridle.protocol import events as e

LEFT_OUT = NOT_IN_TRANSCRIPTS | frozenset[RowKind](
    {"input", "delta", "said", "answer", "child_said", "edit", "output", "ended", "gap"}
)


def enveloped(*events: e.AnyEvent) -> list[e.Envelope]:
    """The events of the main agent, in order."""
    return [
        e.Envelope(
            id=number, kind=type(event).__name__, session="sess_1", originator="cli_1", ts_ms=0, event=event
        )
        for number, event in enumerate(events, 1)
    ]


def lines_of(envelopes: Iterable[e.Envelope], *, also: Iterable[RowKind] = (), **wording: Any) -> list[str]:
    """The progress lines of these events; `also` names kinds of rows that most clients leave out."""
    rows = EventRows(left_out=LEFT_OUT - set(also), wording=Wording(**wording))
    return [line for one in envelopes for row in rows.take(one) for line in path_lines(row)]


def told(*events: e.AnyEvent, also: Iterable[RowKind] = (), **wording: Any) -> list[str]:
    return lines_of(enveloped(*events), also=also, **wording)
