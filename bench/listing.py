"""`bridle sessions list` with nothing stored and with a thousand sessions."""

from __future__ import annotations

from contextlib import closing

import logs
from measure import BRIDLE, Child, Figure, child, in_turns, plain_env, scratch, times, walls

from bridle.app.user.stored_keys import session_store
from bridle.protocol import events as e
from bridle.protocol.codec import encode_payload
from bridle.protocol.messages import TextBlock
from bridle.sessions.store import SessionStore

SESSIONS = 1_000
ROUNDS = 21
HELP = "bridle --help"


def lists() -> list[Figure]:
    """The first page, against one of an empty store, and both against the page of help."""
    with scratch() as home, scratch() as full_home, scratch() as cwd:
        empty, full = plain_env(home), plain_env(full_home)
        with closing(session_store(full)) as store:
            for number in range(SESSIONS):
                _write(store, cwd, f"Session {number}")

        def listed(env: dict[str, str]) -> Child:
            ran = child([BRIDLE, "sessions", "list", "--all"], env=env, cwd=cwd)
            assert (ran.out.count(b" 1 turn") >= 10) == (env is full), ran.out
            return ran

        helped, none, many = in_turns(
            ROUNDS,
            lambda: child([BRIDLE, "--help"], env=empty, cwd=cwd),
            lambda: listed(empty),
            lambda: listed(full),
        )
    return [
        times("sessions list, none", walls(none), walls(helped), of=HELP),
        times("sessions list, 1,000", walls(many), walls(none), of="none", target=1.2),
    ]


def _write(store: SessionStore, cwd: str, title: str) -> None:
    """A session of one turn."""
    log = store.create(cwd, profile="default")
    turn: tuple[tuple[e.DurableEvent, int | None], ...] = (
        (e.SessionCreated(log=log.log, cwd=cwd, profile="default", mode="auto", resumed=False), None),
        (e.InputAccepted(content=(TextBlock(text=title),), mode="queue"), None),
        (e.TurnStarted(input=2), 1),
        (e.TurnEnded(stop="end_turn", steps=1), 1),
    )
    for number, (event, of_turn) in enumerate(turn, 1):
        log.append(logs.envelope_of(log.session, number, event, of_turn), encode_payload(event))
    log.close()
    store.rename(log.session, title)
