"""The same command id twice is one command with one answer: at once, on another connection, after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.test_people_together import Room, refusal, room_of, until, yes
from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.control.command_ids import REMEMBERED_S, CommandIds, stamp_of
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.codec import decode_command, encode_command
from bridle.protocol.commands import Accepted
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import CommandStamp
from bridle.protocol.messages import TextBlock
from bridle.providers.script import call, say


def said(session: str, text: str = "hi", **fields: Any) -> c.SendInput:
    return c.SendInput(session=session, content=(TextBlock(text=text),), mode="queue", **fields)


def home_env(tmp_path: Path) -> dict[str, str]:
    return {
        "BRIDLE_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path / "person"),
        "PATH": "/usr/bin:/bin",
    }


def engine_at(tmp_path: Path, *said: Any) -> Engine:
    env = home_env(tmp_path)
    return Engine(where=folders(env), env=env, clock=SystemClock(), model=scripted(*said))


async def kinds(engine: Engine, session: str) -> list[str]:
    return [one.kind async for one in engine.sessions.events(session)]


async def test_input_sent_twice_is_heard_once_on_whatever_connection(tmp_path: Path) -> None:
    async with room_of(tmp_path) as room:
        owner, other = (room.engine.connect(name=name, answers=True) for name in ("a", "b"))
        await room.open(owner)
        await other.send(c.AttachSession(session=room.session))
        command = said(room.session, id="in-1")
        together = await asyncio.gather(owner.send(command), other.send(command), owner.send(command))
        assert len(set(together)) == 1
        assert await other.send(command) == together[0]
        await until(owner, room.session, e.PermissionRequested)
        reused = await refusal(owner.send(said(room.session, "other words", id="in-1")))
        assert reused.reason == "CommandIdUsed"
        assert (await kinds(room.engine, room.session)).count("InputAccepted") == 1
        fresh = await owner.send(said(room.session, id="in-2"))
        assert fresh != together[0]


async def test_after_a_restart_a_session_knows_the_commands_it_took(tmp_path: Path) -> None:
    (tmp_path / "person").mkdir()
    (tmp_path / "work").mkdir()
    first = engine_at(tmp_path, call("bash", command="touch asked"), say("Done."))
    client = first.connect(name="a", answers=True)
    create = c.CreateSession(cwd=str(tmp_path / "work"), model="demo:scripted", id="new-1")
    session = (await client.send(create)).session
    commands: list[c.AnyCommand] = [
        said(session, id="in-1"),
        c.SetMode(session=session, mode="strict", id="mode-1"),
        c.SetModel(session=session, model="demo:other", id="model-1"),
    ]
    answers = [await client.send(command) for command in commands]
    asked = await until(client, session, e.PermissionRequested)
    answer = c.AnswerPermission(session=session, call_id=asked.event.call_id, answer="once", id="yes-1")
    answers.append(await client.send(answer))
    commands.append(answer)
    await until(client, session, e.TurnEnded)
    typed = c.ShellRequest(session=session, command="echo x >> typed", id="shell-1")
    answers.append(await client.send(typed))
    commands.append(typed)
    await until(client, session, e.ToolResult, since=answers[-1].event or 0)
    await first.close()

    second = engine_at(tmp_path, say("More."))
    try:
        client = second.connect(name="b", answers=True)
        again = await client.send(create)
        assert again.session == session, "the session it opened, and no other"
        before = await kinds(second, session)
        assert [await client.send(command) for command in commands] == answers
        assert await kinds(second, session) == before
        assert (tmp_path / "work" / "typed").read_text() == "x\n"
        other = c.CreateSession(cwd=str(tmp_path / "work"), model="demo:other", id="new-1")
        assert (await refusal(client.send(other))).reason == "CommandIdUsed"
        louder = said(session, "louder", id="in-1")
        assert (await refusal(client.send(louder))).reason == "CommandIdUsed"
        branch = (await client.send(c.BranchSession(session=session))).session
        await client.send(c.AttachSession(session=branch))
        assert (await client.send(said(branch, id="in-1"))).session == branch, "another session's commands"
    finally:
        await second.close()


async def test_who_repeats_the_opening_of_a_session_is_in_it(tmp_path: Path) -> None:
    async with room_of(tmp_path) as room:
        owner, other = (room.engine.connect(name=name, answers=True) for name in ("a", "b"))
        create = c.CreateSession(cwd=str(room.folder), model="demo:scripted", id="new-1")
        first = await owner.send(create)
        assert await other.send(create) == first
        await other.send(said(first.session, id="in-1"))


async def test_what_was_refused_may_be_tried_again_under_its_id(tmp_path: Path) -> None:
    async with room_of(tmp_path) as room:
        owner = room.engine.connect(name="a", answers=True)
        await room.open(owner)
        cancel = c.CancelTurn(session=room.session, id="stop-1")
        assert (await refusal(owner.send(cancel))).reason == "NoTurn"
        await owner.send(said(room.session))
        await until(owner, room.session, e.PermissionRequested)
        taken = await owner.send(cancel)
        assert taken.event is not None
        assert await owner.send(cancel) == taken


async def test_an_answer_is_for_those_who_could_have_sent_the_command(tmp_path: Path) -> None:
    async with room_of(tmp_path) as room:
        owner = room.engine.connect(name="a", answers=True)
        await room.open(owner)
        command = said(room.session, id="in-1")
        await owner.send(command)
        stranger = room.person("Eve", sessions=("sess_other",))
        assert (await refusal(stranger.send(command))).reason == "UnknownSession"
        watcher = room.person("Ben", commands=("AttachSession",))
        assert (await refusal(watcher.send(command))).reason == "NotGranted"


@pytest.mark.parametrize("bad", ["with space", "a" * 129, "new\nline", "ümlaut"])
async def test_an_id_is_short_and_plain(tmp_path: Path, bad: str) -> None:
    async with room_of(tmp_path) as room:
        owner = room.engine.connect(name="a", answers=True)
        assert (await refusal(owner.send(said("sess_1", id=bad)))).reason == "BadCommand"


async def test_ten_minutes_for_what_leaves_no_event_and_bounded_memory() -> None:
    clock = FakeClock()
    ids = CommandIds(clock, most=100)
    ran: list[str] = []

    def carry_out(name: str):
        async def work() -> Accepted:
            ran.append(name)
            return Accepted(session=name)

        return work

    one = CommandStamp("one", "d")
    assert await ids.once("s", one, carry_out("one")) == (Accepted(session="one"), True)
    assert await ids.once("s", one, carry_out("again")) == (Accepted(session="one"), False)
    assert await ids.once("another", one, carry_out("elsewhere")) == (Accepted(session="elsewhere"), True)
    await clock.advance(REMEMBERED_S - 1)
    assert (await ids.once("s", one, carry_out("again")))[1] is False
    await clock.advance(2)
    assert (await ids.once("s", one, carry_out("later")))[1] is True
    for number in range(1000):
        await ids.once("s", CommandStamp(str(number), "d"), carry_out(str(number)))
    assert len(ids._answers) <= 100
    assert ran[:3] == ["one", "elsewhere", "later"]


async def test_a_command_that_is_cut_off_does_not_leave_others_waiting() -> None:
    ids = CommandIds(FakeClock())
    begun = asyncio.Event()

    async def stuck() -> Accepted:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    stamp = CommandStamp("one", "d")
    first = asyncio.ensure_future(ids.once("s", stamp, stuck))
    await begun.wait()
    second = asyncio.ensure_future(ids.once("s", stamp, stuck))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(CommandRefused) as refused:
        await second
    assert refused.value.reason == "CommandCutOff"


@given(st.text(max_size=20), st.text(max_size=20))
def test_the_digest_is_of_everything_but_the_id(one: str, two: str) -> None:
    with_id = said("sess_1", one, id="a")
    assert stamp_of(with_id).id == "a"
    assert (stamp_of(said("sess_1", two, id="b")).digest == stamp_of(with_id).digest) is (one == two)
    assert decode_command(encode_command(with_id)) == with_id
    assert b'"id"' not in encode_command(said("sess_1", one))


async def test_a_yes_that_is_sent_twice_counts_once_where_two_people_are_needed(tmp_path: Path) -> None:
    settings = '[[permissions.rules]]\ntool = "bash"\nverdict = "ask"\nkeys = 2\n'
    async with room_of(tmp_path, settings) as room:
        owner = room.engine.connect(name="a", answers=True)
        await room.open(owner)
        ana = room.person("Ana")
        await ana.send(c.AttachSession(session=room.session))
        asked = await room.asked(owner)
        command = yes(room, asked, id="yes-1")
        assert await owner.send(command) == await owner.send(command)
        await ana.send(yes(room, asked, id="yes-2"))
        decided = (await until(owner, room.session, e.PermissionDecided, since=asked.id or 0)).event
        assert len(decided.approvals) == 2
        assert isinstance(room, Room)
