"""Checks for every store of sessions: ours, and another one.

    await check_session_store(make)
    await check_archive(make)
    await check_undo_store(make)

`make` gives a new, empty store each time. The checks talk to it through the ports alone and fail with an AssertionError
that names the promise that was broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

import msgspec

from bridle.base.fs.files import write_atomic
from bridle.base.ids import CALL
from bridle.conformance.port_checks import check_session_log
from bridle.engine.store_ports import CLOSING, OPENING, OpenLog, Restored, Store, UndoStore
from bridle.engine.undo_records import Change, Item, Kept, NewCall, Seen, State
from bridle.protocol.codec import EXPIRED, decode_payload, encode_envelope, encode_payload
from bridle.protocol.errors import BridleError, StoreError, UsageError
from bridle.protocol.events import (
    AnyEvent,
    Branched,
    CostIncremented,
    Envelope,
    InputAccepted,
    Mode,
    ModelChanged,
    SessionCreated,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolCallRequested,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UndoApplied,
)
from bridle.protocol.messages import TextBlock, Usage

HERE = "/somewhere/work"
DAY_MS = 24 * 3600 * 1000
_LATER_MS = 4_000_000_000_000
"""Events are newer than the sessions they are in, whatever the clock of a store says."""
_PAST_DAYS = -100_000
_CALL_ID = f"{CALL}_{'0' * 25}1"


class StoreUnderTest(msgspec.Struct, frozen=True, kw_only=True):
    """A store, and what its check needs beside it.

    `beside` is another store on the same sessions, as another process would have one. `abandon` makes the holder of an
    open log one that others may take it from, as its death or the end of its lease would; the log stays in our hands.
    """

    store: Store
    beside: Store
    abandon: Callable[[OpenLog], Awaitable[None]]


MakeStore = Callable[[], StoreUnderTest]


async def check_session_store(make: MakeStore) -> None:
    """Creating, opening with a lease, finding, listing, describing, reading."""
    for check in (_log, _names, _rows, _reading, _leases, _taken_over):
        await _on(make(), check)


async def check_archive(make: MakeStore) -> None:
    """Branching, importing, searching, retention, deleting, backups."""
    for check in (_branches, _imports, _searches, _expires, _deletes, _backs_up):
        await _on(make(), check)


async def check_undo_store(make: MakeStore) -> None:
    """What is kept of files: contents, calls, undos."""
    for check in (_calls, _contents, _actions):
        await _on(make(), check)


async def _on(given: StoreUnderTest, check: Callable[[StoreUnderTest], Awaitable[None]]) -> None:
    try:
        await check(given)
    finally:
        await given.beside.aclose()
        await given.store.aclose()


# Sessions


async def _log(given: StoreUnderTest) -> None:
    log = await given.store.create(HERE, profile="default")
    await check_session_log(log, log.session)
    assert [one.payload for one in log.records(6)] == [encode_payload(TextDelta(text="event 7 é"))], (
        "a record has the very bytes that were appended"
    )
    key = log.outputs_key()
    assert len(key) >= 16, "long outputs are encrypted"
    assert log.outputs_key() == key, "with one key for a session"
    heard: list[int] = []
    log.listen(lambda last_id, _failure: heard.append(last_id), lambda _failure: None)
    _put(log, TextDelta(text="told"))
    await log.committed()
    assert heard[-1:] == [8], "who listens is told before those who wait go on"
    await log.aclose()
    await log.aclose()


async def _names(given: StoreUnderTest) -> None:
    store = given.store
    one = await _told(store, "first words", aliases=("nightly",))
    other = await _told(store, "other words", cwd="/elsewhere")
    for text in (one, one.removeprefix("sess_"), "nightly", "first words"):
        assert (await given.beside.find(text)).id == one, f"{text!r} means the session, in every store"
    await _refused("UnknownSession", store.find("nobody"))
    await _refused("UnknownSession", store.describe("sess_" + "0" * 26))
    await store.rename(other, "first words")
    await _refused("AmbiguousSession", store.find("first words"))
    assert (await store.find("first words", cwd="/elsewhere")).id == other, "the folder decides"
    moved = await _told(store, "third", aliases=("nightly",))
    assert (await store.find("nightly")).id == moved, "a name in use moves to the new session"
    assert (await store.find("nightly", exact=True)).id == moved, "and means it exactly"
    await _refused("UnknownSession", store.find("third", exact=True))
    assert (await store.newest(HERE)).id == moved, "the one used last in a folder"
    later = await store.create(HERE, profile="default")
    _put(later, ModelChanged(provider="work", model="m"), turn=None, at_ms=100)
    await later.committed()
    assert (await store.newest(HERE)).id == moved, "somebody who came and left without a word used none"
    _put(later, ToolCallRequested(call_id="call_typed", tool="bash", input={}, step=0), turn=None, at_ms=100)
    await later.aclose()
    assert (await store.newest(HERE)).id == later.session, "a command that a person typed is something done"
    await _refused("NoSessionHere", store.newest("/nowhere"))


async def _rows(given: StoreUnderTest) -> None:
    store = given.store
    first = await _told(store, "one")
    second = await _told(store, "two", cwd="/elsewhere", at_ms=10_000)
    assert [row.id for row in await store.list()] == [second, first], "the one used last comes first"
    assert [row.id for row in await store.list(cwd=HERE)] == [first], "of one folder"
    (page,) = await store.list(limit=1)
    assert page.id == second, "no more than were wanted"
    assert [row.id for row in await store.list(after=page.place)] == [first], "and those behind them"
    assert await store.list(cwd="/elsewhere", after=page.place) == [], "of one folder"
    short = await store.short_ids([first, second])
    assert all(one.startswith(f"sess_{short[one]}") for one in (first, second)), "a beginning that names each"
    row = await store.find(first)
    said = (row.title, row.turns, row.stop, row.model, row.usd, row.cwd, row.profile, row.headless)
    assert said == ("one", 1, "end_turn", "work:m", 0.25, HERE, "default", False), (
        f"what is known follows from the events, not {said}"
    )
    await store.rename(first, "mine")
    await store.pin(first, pinned=True)
    row = await given.beside.find(first)
    assert (row.title, row.renamed, row.pinned) == ("mine", True, True), "other stores see what was changed"
    log = await store.open(first)
    assert log.last_id == 9, "a log goes on where it ended"
    _put(log, InputAccepted(content=(TextBlock(text="more"),)), turn=None)
    await log.aclose()
    assert (await store.find(first)).title == "mine", "a title of a person's choice stays"
    digest = await given.beside.digest(first)
    assert digest == await store.digest(first), "a log has one digest"
    log = await store.open(first)
    _put(log, InputAccepted(content=(TextBlock(text="still more"),)), turn=None)
    await log.aclose()
    assert await given.beside.digest(first) != digest, "and another with each event"
    await _refused("UnknownSession", store.rename("sess_" + "0" * 26, "x"))


async def _reading(given: StoreUnderTest) -> None:
    store = given.store
    session = await _told(store, "words")
    events = [envelope async for envelope in given.beside.events(session)]
    assert [envelope.id for envelope in events] == list(range(1, 10)), "every event, in order"
    after = [envelope async for envelope in store.events(session, after=5)]
    assert after == events[5:], "and those above an id"
    costs = await store.costs(session)
    assert [type(one.event) for one in costs] == [CostIncremented], "costs are read alone"
    assert not await store.costs(session, since_ms=costs[0].ts_ms + 1), "and since a time"
    assert await store.fold(session) is None
    log = await store.open(session)
    log.keep_fold(9, b"folded")
    await log.aclose()
    assert await given.beside.fold(session) == b"folded", "a fold that was kept comes back"
    await store.verify(session)
    await store.verify(session, last=3)
    described = await store.describe(session)
    assert (described.last_kind, described.lease) == ("TurnEnded", None), "nobody has it open"
    last = [envelope async for envelope in store.events(described.session.id)][-1]
    assert described.last_id == last.id, "what is described is the last event"


# Leases


async def _leases(given: StoreUnderTest) -> None:
    log = await given.store.create(HERE, profile="default")
    held = (await given.beside.describe(log.session)).lease
    assert held is not None, "who looks sees that it is held"
    assert (held.holder, held.epoch) == (log.lease.holder, log.lease.epoch), "and by whom"
    await _refused("SessionBusy", given.beside.open(log.session))
    await _refused("SessionBusy", given.store.open(log.session))
    await log.aclose()
    assert (await given.beside.describe(log.session)).lease is None, "what was closed is free"
    again = await given.beside.open(log.session)
    assert again.lease.epoch > log.lease.epoch, "who takes a lease has a higher epoch"
    assert again.lease.holder != log.lease.holder, "and is somebody else"
    await again.aclose()


async def _taken_over(given: StoreUnderTest) -> None:
    """Whoever lost the lease writes nothing, whatever it still tries; whoever has it goes on."""
    log = await given.store.create(HERE, profile="default")
    other = await given.store.create(HERE, profile="default")
    _put(log, TextDelta(text="kept"))
    await log.durable()
    told: list[StoreError | None] = []
    log.listen(lambda _last, failure: told.append(failure), lambda _failure: None)
    undo = log.undo_store()
    await given.abandon(log)
    taken = await given.beside.open(log.session)
    assert taken.lease.epoch > log.lease.epoch, "a takeover raises the epoch"
    assert taken.last_id == 1, "and goes on behind what was kept"
    await _loses(log)
    await _loses(log)
    assert [failure.reason for failure in told if failure] == ["LeaseLost"], "who listens is told, once"
    _put(taken, TextDelta(text="new"))
    await taken.committed()
    found = [envelope.event async for envelope in given.beside.events(log.session)]
    assert found == [TextDelta(text="kept"), TextDelta(text="new")], "nothing of an old epoch is written"
    await _lost(asyncio.to_thread(log.keep_fold, 1, b"of another past"))
    assert await given.beside.fold(log.session) is None, "nor what it folds"
    await _lost(undo.keep({sha256(b"x").digest(): b"x"}, 1))
    assert await taken.undo_store().content(sha256(b"x").digest()) is None, "nor what it keeps for undo"
    _put(other, TextDelta(text="beside"))
    await other.committed()
    assert other.last_id == 1, "other logs of the store go on"
    await other.aclose()
    await _lost(log.aclose())
    assert (await given.beside.describe(log.session)).lease is not None, "who lost it gives nothing back"
    await taken.aclose()


async def _loses(log: OpenLog) -> None:
    try:
        _put(log, TextDelta(text="too late"))
        await log.committed()
    except StoreError as failure:
        assert failure.reason == "LeaseLost", f"the reason is LeaseLost, not {failure.reason}"
        await asyncio.sleep(0)
        return
    raise AssertionError("an append of an old epoch is refused")


async def _lost(work: Awaitable[object]) -> None:
    try:
        await work
    except StoreError as failure:
        assert failure.reason == "LeaseLost", f"the reason is LeaseLost, not {failure.reason}"
        return
    raise AssertionError("who lost its lease is told so")


# The archive


async def _branches(given: StoreUnderTest) -> None:
    store = given.store
    log = await store.create(HERE, profile="careful")
    _begin_session(log)
    called = ToolCallStarted(call_id=_CALL_ID, tool="bash", input={}, mutating=False, input_sha256="")
    _say(log, "first", 1, called)
    _say(log, "second", 2)
    await log.committed()
    made = await store.branch(log.session, turn=1)
    assert made != log.session
    events = [envelope async for envelope in given.beside.events(made)]
    assert [envelope.id for envelope in events] == list(range(1, 12)), "a branch is numbered from 1"
    assert {envelope.session for envelope in events} == {made}, "its events are its own"
    row = await store.find(made)
    assert events[-1].event == Branched(parent_log=log.log, at=10), "it says where it comes from"
    assert (row.branch_of, row.turns, row.cwd, row.profile) == (log.session, 1, HERE, "careful")
    assert row.title == "first (branch)"
    assert row.log != log.log, "it has a log of its own"
    began = events[0].event
    assert isinstance(began, SessionCreated), "its beginning stays"
    assert began.log == row.log, "and names its own log"
    calls = [one.event.call_id for one in events if isinstance(one.event, ToolCallStarted)]
    assert len(calls) == 1, "its calls stay"
    assert calls[0] != _CALL_ID, "under new ids"
    assert (await store.find(await store.branch(log.session))).turns == 2, "without a turn, all that ended"
    assert len([one async for one in store.events(log.session)]) == 17, "nothing of the parent changes"
    await _refused_use(store.branch(log.session, turn=3))
    await log.aclose()


async def _imports(given: StoreUnderTest) -> None:
    store = given.store
    session = await _told(store, "exported", mode="yolo")
    lines = [encode_envelope(one) + b"\n" async for one in store.events(session)]
    await store.delete(session)
    made = await store.import_lines(lines, cwd="/new", profile="default", missing="")
    assert (await given.beside.find(session)).id == made, "it is found by the id it had elsewhere"
    row = await store.find(made)
    assert (row.cwd, row.turns, row.title) == ("/new", 1, "exported"), "it belongs to where it came in"
    assert row.imported_ms is not None
    first, *_ = [one.event async for one in store.events(made)]
    assert isinstance(first, SessionCreated)
    assert (first.cwd, first.mode) == ("/new", "default"), "no file gives rights"
    await _refused_use(store.import_lines([b"no event\n"], cwd="/new", profile="default"))
    await _refused_use(store.import_lines([], cwd="/new", profile="default"))
    assert len(await store.list()) == 1, "of what is refused nothing stays"


async def _backs_up(given: StoreUnderTest) -> None:
    store = given.store
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kept")
        await _refused("NothingStored", store.back_up(path))
        assert os.listdir(folder) == [], "of what is refused nothing stays"
        session = await _told(store, "first words")
        await store.rename(session, "mine")
        await store.pin(session, pinned=True)
        running = await store.create(HERE, profile="default")
        _begin_session(running)
        await running.committed()
        before, row = await _kept_events(store, session), await store.find(session)
        count = len(before) + running.last_id
        made = await given.beside.back_up(path)
        assert (made.path, made.sessions, made.events) == (path, 2, count), "all of it, what runs too"
        await _refused_use(store.back_up(path))
        here_already = await store.restore(path, cwd="/new")
        assert here_already == Restored(sessions=(), left_out=2), "what is here stays as it is"
        await store.delete(session)
        came = await store.restore(path, cwd="/new")
        assert (len(came.sessions), came.left_out) == (1, 1), "what is not here comes in"
        back = await given.beside.find(session)
        assert back.id == came.sessions[0], "found by the id it had"
        assert (back.title, back.renamed, back.pinned, back.turns) == ("mine", True, True, row.turns)
        assert await _kept_events(store, back.id) == before, "with every event"
        nothing = os.path.join(folder, "nothing")
        write_atomic(nothing, b"no backup" * 1000)
        with contextlib.suppress(UsageError, StoreError):
            await store.restore(nothing, cwd="/new")
            raise AssertionError("a file that is no backup is refused")
        await running.aclose()


async def _kept_events(store: Store, session: str) -> list[tuple[object, ...]]:
    """What must be the same of events that went and came back: all but the ids of their session and its folder."""
    return [
        (one.id, one.kind, one.ts_ms, b"" if one.kind == "SessionCreated" else encode_payload(one.event))
        async for one in store.events(session)
    ]


async def _searches(given: StoreUnderTest) -> None:
    store = given.store
    one = await _told(store, "round the cart to whole cents")
    other = await _told(store, "rounding errors in the cart", at_ms=10_000)
    assert [hit.session for hit in await store.search("cart", limit=9)] == [other, one], (
        "the last comes first"
    )
    assert [hit.session for hit in await store.search("round", limit=9)] == [one, other], "whole words first"
    assert [hit.session for hit in await store.search('"whole cents"', limit=9)] == [one], "words together"
    assert not await store.search("cart zebra", limit=9), "every word has to be there"
    assert len(await store.search("cart", limit=1)) == 1
    assert not await store.search('" * ', limit=9), "whatever is typed is only looked for"
    hit = (await given.beside.search("CENTS", limit=1))[0]
    assert (hit.who, hit.turn) == ("you", None), "it says who said it"
    assert f"{OPENING}cents{CLOSING}" in hit.excerpt, "and marks the words"
    answered = await store.search("answer", limit=9)
    assert {found.who for found in answered} == {"model"}, "what models said is found too"
    assert await store.last_answers([one]) == {one: "an answer"}, "and what each said last"


async def _expires(given: StoreUnderTest) -> None:
    store = given.store
    old = await _told(store, "old words")
    pinned = await _told(store, "pinned words")
    await store.pin(pinned, pinned=True)
    busy = await store.create(HERE, profile="default")
    _say(busy, "busy words")
    await busy.committed()
    for_ever = await _told(store, "for ever", profile="archive")
    forgotten: list[str] = []

    def days(profile: str) -> int | None:
        return None if profile == "archive" else 30

    at_ms = (await store.find(old)).updated_ms + 30 * DAY_MS
    due = await store.expiring(days, until_ms=at_ms)
    assert old in {one.id for one in due}, "what is due is known before"
    assert {one.at_ms for one in due if one.id == old} == {at_ms}, "to the moment"
    assert pinned not in {one.id for one in due}, "what is pinned never is"
    assert for_ever not in {one.id for one in due}, "nor what is kept for ever"
    stopped = await store.expire(lambda _profile: _PAST_DAYS, stopped=lambda: True)
    assert stopped.sessions == (), "it can be stopped"
    gone = await store.expire(lambda profile: days(profile) and _PAST_DAYS, beside=forgotten.append)
    assert (gone.sessions, gone.busy) == ((old,), (busy.session,)), "what is in use is spared"
    assert forgotten == [old], "what lies beside it goes too"
    row = await given.beside.find(old)
    assert row.expired_ms is not None
    assert row.title == "old words", "that it was stays"
    kinds = {one.kind: one.event async for one in store.events(old)}
    assert kinds["InputAccepted"] == decode_payload("InputAccepted", EXPIRED), "what was said is gone"
    assert isinstance(kinds["CostIncremented"], CostIncremented), "what it cost stays"
    assert old not in {hit.session for hit in await store.search("old words", limit=9)}
    await store.verify(old)
    await busy.aclose()


async def _deletes(given: StoreUnderTest) -> None:
    store = given.store
    session = await _told(store, "to go", aliases=("gone",))
    log = await given.beside.open(session)
    forgotten: list[str] = []
    await _refused("SessionBusy", store.delete(session, beside=forgotten.append))
    assert forgotten == [], "what is in use loses nothing"
    await log.aclose()
    await store.delete(session, beside=forgotten.append)
    assert forgotten == [session]
    for text in (session, "gone", "to go"):
        await _refused("UnknownSession", given.beside.find(text))
    await _refused("UnknownSession", store.open(session))
    await _refused("UnknownSession", store.delete(session))
    assert not await store.search("go", limit=9), "nothing of it is found"


# Undo


async def _calls(given: StoreUnderTest) -> None:
    log = await given.store.create(HERE, profile="default")
    undo = log.undo_store()
    assert await undo.next_number() == 1
    assert await undo.calls() == []
    seen = _seen("a", b"before")
    begun = _new_call(1, Kept(whole=True, seen=(seen,)))
    assert await undo.begin_whole(begun, _contents_of(b"before"), sweeps=await undo.sweeps())
    (row,) = await undo.calls()
    assert (row.call_id, row.open, row.undone, row.kept) == (_CALL_ID, True, False, begun.kept)
    change = Change(seen.path, seen.state, _state(b"after"))
    kept = msgspec.structs.replace(begun.kept, changes=(change,))
    await undo.end(1, kept, _contents_of(b"after"))
    (row,) = await undo.calls()
    assert (row.open, row.kept) == (False, kept), "a call that is over says what it changed"
    assert await undo.content(sha256(b"after").digest()) == b"after", "and what it left is kept"
    await undo.begin(_new_call(2, Kept(exact=True)), {})
    assert await undo.next_number() == 3, "calls are numbered in the order they began"
    await undo.end(2, Kept(exact=True))
    assert [row.number for row in await undo.calls()] == [1], "a call that changed nothing leaves no trace"
    near = await given.store.create(HERE, profile="default")
    far = await given.store.create("/elsewhere", profile="default")
    assert [row.number for row in await near.undo_store().calls_nearby()] == [1], (
        "a neighbour knows the folder"
    )
    assert await far.undo_store().calls_nearby() == []
    assert await near.undo_store().calls() == [], "and calls belong to one session"
    for one in (far, near, log):
        await one.aclose()
    again = await given.beside.open(log.session)
    assert [row.kept for row in await again.undo_store().calls()] == [kept], "what was kept stays"
    await again.aclose()


async def _contents(given: StoreUnderTest) -> None:
    log = await given.store.create(HERE, profile="default")
    undo = log.undo_store()
    digest, gone = sha256(b"kept").digest(), sha256(b"gone").digest()
    await undo.keep(_contents_of(b"kept"), 1)
    assert await undo.content(digest) == b"kept"
    assert await undo.content(gone) is None
    assert await undo.stored([digest, gone]) == {digest}
    relying = _new_call(1, Kept(whole=True, seen=(_seen("a", b"gone"),)))
    assert await undo.begin_whole(relying, _contents_of(b"gone"), sweeps=await undo.sweeps() + 1), (
        "it came along"
    )
    lying = _new_call(2, Kept(whole=True, seen=(_seen("b", b"missing"),)))
    assert not await undo.begin_whole(lying, {}, sweeps=await undo.sweeps() - 1), (
        "a call relies on what is there"
    )
    assert [row.number for row in await undo.calls()] == [1], "and else nothing is stored"
    await undo.end(1, msgspec.structs.replace(relying.kept, missed=()))
    before = await undo.sweeps()
    assert not await undo.forget_old(DAY_MS), "nothing is old yet"
    assert await undo.forget_old(100 * DAY_MS), "what is old goes"
    assert await undo.calls() == []
    assert await undo.sweeps() != before, "and that contents went can be seen"
    assert await undo.stored([digest, gone]) == set(), "with what only it needed"
    await log.aclose()


async def _actions(given: StoreUnderTest) -> None:
    log = await given.store.create(HERE, profile="default")
    _say(log, "the words of the turn")
    undo = log.undo_store()
    assert await undo.title_of(1) == "the words of the turn"
    assert await undo.title_of(9) == ""
    change = Change(b"/a", _state(b"before"), _state(b"after"))
    await undo.begin(_new_call(1, Kept()), {})
    await undo.end(1, Kept(changes=(change,)), _contents_of(b"before", b"after"))
    item = Item(change.path, change.after, change.before)
    first = await _begin(undo, item)
    await undo.close_action(first)
    assert await undo.actions() == [], "one that was cut off can be left"
    number = await _begin(undo, item)
    (action,) = await undo.actions()
    assert (action.done, action.items, action.calls, action.turn) == (False, (item,), (_CALL_ID,), 1)
    _put(log, UndoApplied(turn=1, paths=("a",), calls=(_CALL_ID,), action=number))
    assert [(one.done, one.reversed) for one in await undo.actions()] == [(True, False)], (
        "done with its event"
    )
    assert [row.undone for row in await undo.calls()] == [True], "and its calls are undone"
    await undo.close_action(number)
    assert len(await undo.actions()) == 1, "what is done stays"
    back = await _begin(undo, item.reversed(), redo_of=number)
    _put(log, UndoApplied(turn=1, paths=("a",), redone=True, calls=(_CALL_ID,), action=back))
    assert [(one.done, one.reversed) for one in await undo.actions()] == [(True, True), (True, False)]
    assert [row.undone for row in await undo.calls()] == [False], "a redo takes it back"
    await log.aclose()


async def _begin(undo: UndoStore, item: Item, *, redo_of: int | None = None) -> int:
    return await undo.begin_action([item], calls=[_CALL_ID], turn=1, redo_of=redo_of, started_ms=1)


def _state(content: bytes) -> State:
    return State("file", 0o644, sha256(content).digest(), size=len(content))


def _seen(name: str, content: bytes) -> Seen:
    return Seen(f"{HERE}/{name}".encode(), (1, 1, len(content), 1, 0o644), _state(content))


def _contents_of(*contents: bytes) -> dict[bytes, bytes]:
    return {sha256(content).digest(): content for content in contents}


def _new_call(number: int, kept: Kept) -> NewCall:
    return NewCall(number=number, call_id=_CALL_ID, turn=1, tool="bash", does="work", started_ms=1, kept=kept)


# A session to look at


def _put(log: OpenLog, *events: AnyEvent, turn: int | None = 1, at_ms: int = 0) -> None:
    for event in events:
        number = log.last_id + 1
        envelope = Envelope(
            id=number,
            kind=type(event).__name__,
            session=log.session,
            originator="cli_" + "0" * 26,
            ts_ms=_LATER_MS + at_ms + number,
            event=event,
            turn=turn,
        )
        log.append(envelope, encode_payload(event))


def _begin_session(log: OpenLog, mode: Mode = "default") -> None:
    _put(log, SessionCreated(log=log.log, cwd=HERE, mode=mode), turn=None)
    _put(log, ModelChanged(provider="work", model="m"), turn=None)


def _say(log: OpenLog, words: str, turn: int = 1, *also: AnyEvent, at_ms: int = 0) -> None:
    """A turn of seven events, and what is to happen in it."""
    _put(log, InputAccepted(content=(TextBlock(text=words),)), turn=None, at_ms=at_ms)
    _put(
        log,
        TurnStarted(input=log.last_id),
        StepStarted(step=1, provider="work", model="m"),
        TextDelta(text="an answer"),
        StepEnded(step=1, stop="end_turn", text_sha256=sha256(b"an answer").hexdigest()),
        CostIncremented(provider="work", model="m", usage=Usage(), usd=0.25),
        *also,
        TurnEnded(stop="end_turn"),
        turn=turn,
        at_ms=at_ms,
    )


async def _told(
    store: Store,
    words: str,
    *,
    profile: str = "default",
    cwd: str = HERE,
    aliases: Sequence[str] = (),
    at_ms: int = 0,
    mode: Mode = "default",
) -> str:
    """A session of nine events that nobody has open. Returns its id."""
    log = await store.create(cwd, profile=profile, aliases=aliases)
    _begin_session(log, mode)
    _say(log, words, at_ms=at_ms)
    await log.aclose()
    return log.session


async def _refused(reason: str, work: Awaitable[object]) -> None:
    try:
        await work
    except BridleError as refused:
        assert refused.reason == reason, f"it is refused with {reason}, not {refused.reason}"
        return
    raise AssertionError(f"it is refused with {reason}")


async def _refused_use(work: Awaitable[object]) -> None:
    try:
        await work
    except UsageError:
        return
    except BridleError as refused:
        raise AssertionError(f"it is a mistake of use, not {refused.reason}") from refused
    raise AssertionError("it is refused as a mistake of use")
