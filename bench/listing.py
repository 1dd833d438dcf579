"""`bridle sessions list`: nothing stored, a thousand sessions, and these handed over to who stands by at an engine."""

from __future__ import annotations

from contextlib import closing

import logs
from measure import BRIDLE, Child, Figure, child, in_turns, plain_env, scratch, times, walls
from served import served

from bridle.app.machine_store import session_store
from bridle.protocol import events as e
from bridle.protocol.codec import encode_payload
from bridle.protocol.messages import TextBlock
from bridle.sessions.store import SessionStore

SESSIONS = 1_000
ROUNDS = 21
HELP = "bridle --help"


def lists() -> list[Figure]:
    """The first page, against one of an empty store, and both against the page of help."""
    with scratch() as home, served() as engine:
        empty = plain_env(home)
        with closing(session_store(engine.env)) as store:
            for number in range(SESSIONS):
                _write(store, engine.cwd, f"Session {number}")

        def listed(env: dict[str, str], *, alone: bool) -> Child:
            ran = child(
                [BRIDLE, "sessions", "list", "--all"],
                env=env | ({"BRIDLE_NO_ATTACH": "1"} if alone else {}),
                cwd=engine.cwd,
            )
            assert (ran.out.count(b" 1 turn") >= 10) == (env is engine.env), ran.out
            return ran

        helped, none, many, handed = in_turns(
            ROUNDS,
            lambda: child([BRIDLE, "--help"], env=empty, cwd=engine.cwd),
            lambda: listed(empty, alone=True),
            lambda: listed(engine.env, alone=True),
            lambda: listed(engine.env, alone=False),
        )
        engine.end()
    return [
        times("sessions list, none", walls(none), walls(helped), of=HELP, target=4),
        times("sessions list, 1,000", walls(many), walls(none), of="none", target=1.2),
        times("sessions list, handed over", walls(handed), walls(helped), of=HELP, target=2),
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
