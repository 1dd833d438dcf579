"""The composition root: the order of the layers, and an engine that opens and closes cleanly."""

import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bridle.app.engine import Engine
from bridle.app.user.stored_keys import session_store
from bridle.base.clock import SystemClock
from bridle.base.fs.files import mark_ms
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.features import GATE_SLOTS, OPEN_SLOTS, REQUEST_SLOTS, RUN_SLOTS
from bridle.engine.store_ports import Expired
from bridle.protocol.commands import CreateSession, SendInput, SessionOptions
from bridle.protocol.errors import BridleError, CommandRefused, StoreError
from bridle.protocol.messages import TextBlock
from bridle.providers.script import call, say
from bridle.sessions.archive.beside_store import forget_beside
from bridle.sessions.archive.stored_archive import StoredArchive
from bridle.sessions.memory_store import MemoryStore


def documented(page: str) -> dict[str, list[str]]:
    """The layers that the page on architecture lists, by group, outermost first."""
    (block,) = re.findall(r"^```\n(request layers.*?)^```", page, re.MULTILINE | re.DOTALL)
    request, tool = block.split("tool layers")
    one_at_a_time, together = tool.split("\n  together ")
    names = {
        "request": request,
        "one_at_a_time": one_at_a_time,
        "together": "                    " + together.strip(),
    }
    return {group: _first_words(text) for group, text in names.items()}


def _first_words(text: str) -> list[str]:
    """The name on every line: what stands at column 20, before two spaces and an explanation."""
    return [match[1] for line in text.splitlines() if (match := re.match(r".{0,20}\b(\w+)  ", line + "  "))]


def placed(sources: Path) -> list[str]:
    """The slots that our own features name, file by file; what explains a session stands beside one."""
    return [
        slot
        for path in sorted(sources.rglob("*.py"))
        if path.name != "explain.py" and path.parent.name != "plugin"  # one places what others bring
        for slot in re.findall(
            r"\bPlaced(?:Request|Tool)Layer\(\s*\"(\w+)\"", path.read_text(encoding="utf-8")
        )
    ]


def test_the_slots_are_in_the_documented_order(repository: Path) -> None:
    page = (repository / "docs/architecture.md").read_text(encoding="utf-8")
    slots = {"request": REQUEST_SLOTS, "one_at_a_time": GATE_SLOTS, "together": RUN_SLOTS}
    assert {group: list(names) for group, names in slots.items()} == documented(page)


def test_every_slot_of_ours_has_one_layer_and_the_open_ones_have_none(repository: Path) -> None:
    slots = {*REQUEST_SLOTS, *GATE_SLOTS, *RUN_SLOTS} - OPEN_SLOTS
    assert sorted(placed(repository / "src/bridle")) == sorted(slots)


@pytest.mark.requirement("D7.7")
def test_what_may_say_no_stands_before_what_records_and_runs() -> None:
    assert [*GATE_SLOTS, *RUN_SLOTS] == [
        "before_checks", "wait_for_tool", "known_and_visible", "validated", "guarded", "hooks_before_permission",
        "foreseen", "permitted", "hooks_after_permission", "dry_run",
        "still_offered", "unchanged_skills", "wait_for_disk", "undoable", "recorded", "deadline", "capped", "redacted",
        "sandboxed",
        "trust_approved_edits",
    ]  # fmt: skip


def engine_in(home: Path) -> Engine:
    return Engine(
        where=folders({"BRIDLE_HOME": str(home)}), env={}, clock=SystemClock(), model=scripted(say("hi"))
    )


def create(cwd: Path, **fields: object) -> CreateSession:
    return CreateSession(cwd=str(cwd), env={"PATH": os.defpath}, model=f"{scripted().name}:x", **fields)


@pytest.mark.requirement("H2.5")
async def test_an_engine_may_be_closed_twice_and_before_anything_was_opened(tmp_path: Path) -> None:
    engine = engine_in(tmp_path / "home")
    await engine.close()
    await engine.close()
    assert not (tmp_path / "home").exists()


async def test_an_engine_with_a_session_may_be_closed_twice_and_leaves_a_whole_log(tmp_path: Path) -> None:
    async with harness(scripted(say("hello")), home=str(tmp_path / "home")) as session:
        await session.ask("hi")
        await session.engine.close()
        await session.engine.close()
    again = engine_in(tmp_path / "home")
    try:
        log = again.store.open(session.id)
        log.verify()
        log.close()
    finally:
        await again.close()


class FaultyStore(MemoryStore):
    """Fails to let old content go, and to close."""

    async def expire(self, *_args: object, **_options: object) -> Expired:
        raise RuntimeError

    async def aclose(self) -> None:
        await super().aclose()
        raise StoreError("StoreUnwritable", path="x", problem="full")


@pytest.mark.requirement("G40.2")
async def test_a_service_that_fails_to_stop_is_noted_and_keeps_no_other_from_stopping(tmp_path: Path) -> None:
    home = tmp_path / "home"
    where = folders({"BRIDLE_HOME": str(home)})
    os.makedirs(where.data)
    mark_ms(os.path.join(where.data, "swept"), SystemClock().now_ms() - 2 * 24 * 3600 * 1000)
    with pytest.raises(StoreError):
        async with harness(scripted(), home=str(home), store=FaultyStore()):
            pass
    (log,) = home.rglob("bridle*.log*")
    noted = [json.loads(line) for line in log.read_text().splitlines()]
    stopped = [(one["service"], one["reason"]) for one in noted if one["msg"] == "not stopped"]
    assert stopped == [("housekeeping", "RuntimeError"), ("store", "StoreUnwritable")]


async def test_an_engine_whose_store_cannot_be_written_refuses_and_runs_nothing(tmp_path: Path) -> None:
    in_the_way = tmp_path / "a-file"
    in_the_way.write_text("precious")
    engine = engine_in(in_the_way / "home")
    connection = engine.connect(name="test", answers=False)
    try:
        with pytest.raises(StoreError) as refusal:
            await connection.send(create(tmp_path))
        assert (refusal.value.reason, refusal.value.exit_code) == ("StoreUnwritable", 2)
        assert str(in_the_way) in refusal.value.message
        with pytest.raises(CommandRefused, match="is not open"):
            await connection.send(SendInput(session="sess_x", content=(TextBlock(text="x"),)))
    finally:
        await engine.close()
    assert in_the_way.read_text() == "precious"


async def test_looking_for_sessions_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    engine = engine_in(tmp_path / "a-file/home")
    assert engine.store.list() == []
    await engine.close()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (CreateSession(cwd="."), "NoModel"),
        (CreateSession(cwd=".", model="nobody:x"), "UnknownProvider"),
        (CreateSession(cwd="/nonexistent/folder", model="demo"), "UnreadableFolder"),
        (CreateSession(cwd=".", model="demo", config=SessionOptions(allow=("(",))), "Usage"),
        (CreateSession(cwd=".", model="demo", resume="sess_nowhere"), "UnknownSession"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_session_that_cannot_be_opened_is_refused_with_a_reason_and_leaves_nothing(
    tmp_path: Path, command: CreateSession, reason: str
) -> None:
    engine = Engine(where=folders({"BRIDLE_HOME": str(tmp_path / "home")}), env={}, clock=SystemClock())
    try:
        with pytest.raises(BridleError) as refusal:
            await engine.connect(name="test", answers=False).send(command)
        assert refusal.value.reason == reason
        assert engine.store.list() == []
    finally:
        await engine.close()


@pytest.mark.requirement("T18.12")
async def test_a_session_open_in_one_engine_is_busy_for_another(tmp_path: Path) -> None:
    async with harness(scripted(say("hello")), home=str(tmp_path / "home")) as session:
        other = engine_in(tmp_path / "home")
        try:
            with pytest.raises(CommandRefused) as refusal:
                await other.connect(name="test", answers=False).send(create(tmp_path, resume=session.id))
            assert refusal.value.reason == "SessionBusy"
            assert refusal.value.data["pid"] == os.getpid()
        finally:
            await other.close()


async def test_closing_an_engine_stops_a_command_that_is_still_running(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        model = scripted(call("bash", command=f"exec 9>{fifo}; echo begun; sleep 600"), say("done"))
        async with harness(model, yes=True) as session:
            async for envelope in _following(session):
                if envelope.kind in ("ToolCallProgress", "TurnEnded"):
                    break
            assert envelope.kind == "ToolCallProgress"
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)


async def _following(session):
    number = await session.send("go")
    async for envelope in session.connection.events(session.id, since=number):
        yield envelope


class ClockWith(SystemClock):
    """Does something else the n-th time somebody asks it."""

    def __init__(self, number: int, work: Callable[[], object]) -> None:
        self._left = number
        self._work = work

    def now_ms(self) -> int:
        self._left -= 1
        if not self._left:
            self._work()
        return super().now_ms()


async def test_a_session_whose_content_expires_while_it_is_opened_is_refused(tmp_path: Path) -> None:
    """Whenever that happens: nobody goes on with a conversation of which nothing is left."""
    where = folders({"BRIDLE_HOME": str(tmp_path / "home")})
    work = str(tmp_path)
    refused = 0
    for number in range(1, 12):
        async with harness(scripted(say("hello")), folder=work, home=str(tmp_path / "home")) as session:
            await session.ask("hi")
            name = session.id

        def expire_all() -> None:
            with closing(session_store({"BRIDLE_HOME": str(tmp_path / "home")})) as store:
                StoredArchive(store).expire(lambda _profile: 0, beside=forget_beside(where.state))

        engine = Engine(where=where, env={}, clock=ClockWith(number, expire_all))
        try:
            command = CreateSession(cwd=work, model="demo", resume=name)
            await engine.connect(name="test", answers=False).send(command)
            assert engine.store.find(name).expired_ms is None
        except CommandRefused as refusal:
            assert refusal.reason == "SessionExpired"
            refused += 1
        finally:
            await engine.close()
    assert refused
