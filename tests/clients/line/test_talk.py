"""Whole conversations: a real engine, a real pseudo-terminal, a person who types. Only the model is a script."""

import asyncio
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridle.clients.interaction.render.start_info import StartInfo
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.line.client import talk
from bridle.clients.line.terminal import Look, Terminal
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import SilentModel, scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.engine.ports import ModelText, Provider
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission, CreateSession, SendInput
from bridle.protocol.messages import FileMention, TextBlock
from bridle.protocol.queries import ProviderEntry
from bridle.providers.script import call, say, wait
from clients.line.line_kit import (
    COLOURLESS,
    DEADLINE_S,
    DUMB,
    Person,
    Scene,
    at_terminal,
    commands,
    services,
)
from tables import table


@asynccontextmanager
async def conversation(
    model: Provider,
    *,
    look: Look = COLOURLESS,
    first_prompt: str | None = None,
    mode: e.Mode | None = None,
    **more: object,
) -> AsyncIterator[tuple[Person, asyncio.Task[int], HarnessSession]]:
    """A person in front of a session of their own, which is ready."""
    async with harness(model) as session:
        connection = session.engine.connect(name="line", answers=True)
        create = CreateSession(
            cwd=session.folder, env={"PATH": os.defpath}, model=f"{model.name}:scripted", mode=mode
        )
        async with at_terminal(connection, create, look=look, first_prompt=first_prompt, **more) as (
            person,
            task,
        ):
            await person.sees("Type what you want")
            yield person, task, session
        await connection.close()


async def code_of(task: asyncio.Task[int]) -> int:
    return await asyncio.wait_for(task, DEADLINE_S)


@pytest.mark.requirement("D13.2", "D13.3")
async def test_a_person_talks_until_they_leave() -> None:
    async with conversation(scripted(say("First answer."), say("Second answer."))) as (person, task, _):
        await person.types("one\r", then="First answer.")
        await person.sees("1 step")
        await person.types("two\r", then="Second answer.")
        await person.types("/quit\r")
        assert await code_of(task) == 0
        await person.sees('Saved as "one".  Come back: bridle -c   or   bridle -r ')


@pytest.mark.requirement("D13.2", "D13.3")
async def test_a_prompt_given_at_the_start_is_the_first_turn_and_the_person_stays() -> None:
    async with conversation(scripted(say("Answer.")), first_prompt="do it") as (person, task, _):
        await person.sees(f"{MARK}do it", "Answer.", "1 step")
        assert not task.done()
        await person.types("/exit\r")
        assert await code_of(task) == 0


async def test_the_first_lines_say_where_the_key_comes_from_and_what_else_there_is() -> None:
    scene = Scene(
        e.SessionCreated(log="log_1", cwd="/work"), e.ModelChanged(provider="work", model="some-model")
    )
    scene.providers = (
        ProviderEntry(name="work", key_from="WORK_KEY"),
        ProviderEntry(name="other", key_from="OTHER_KEY"),
    )
    start = StartInfo(model_from="config")
    async with at_terminal(scene, CreateSession(cwd="/work"), columns=120, start=start) as (person, _):
        await person.sees("config, key from WORK_KEY (also found: OTHER_KEY; switch with /model)")


async def test_a_command_runs_after_a_deliberate_yes() -> None:
    model = scripted(call("bash", command="touch it-ran"), say("Done."))
    async with conversation(model) as (person, _, session):
        await person.types("go\r", then="Run this command?")
        await person.types("y", then=f"{MARK}y")
        assert not Path(session.folder, "it-ran").exists(), "a key without Enter is not an answer yet"
        await person.types("\r", then="allowed by you")
        await person.sees("Done.")
        assert Path(session.folder, "it-ran").exists()


async def test_what_was_typed_ahead_never_approves() -> None:
    model = scripted(call("bash", command="touch it-ran"), say("Done."))
    async with conversation(model) as (person, _, session):
        person.type("go\ry\rp\ra\rt\rall\r")
        await person.sees("Run this command?", '"y" was not sent', '"t" was not sent', "queued   all")
        await person.types("\r", then="not run  touch it-ran")
        assert not Path(session.folder, "it-ran").exists()


async def test_a_question_that_waits_is_put_to_somebody_who_comes_later() -> None:
    model = scripted(call("bash", command="touch it-ran"), say("Done."))
    async with harness(model, answers=True) as session:
        await session.send("go")
        await session.until(e.PermissionRequested)
        connection = session.engine.connect(name="line", answers=True)
        async with at_terminal(connection, CreateSession(cwd=session.folder, resume=session.id)) as (
            person,
            _,
        ):
            await person.sees("Run this command?", "touch it-ran")
            await person.types("y\r", then="allowed by you")
            await person.sees("Done.")
        assert Path(session.folder, "it-ran").exists()
        await connection.close()


@table("typed", ["y\r", "\x1b[200~y\r\x1b[201~", "y\ry\r\t", "all\ry"])
async def test_bytes_already_sent_when_a_question_arrives_stay_the_persons(typed: str) -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    async with at_terminal(scene, CreateSession(cwd="/work")) as (person, _):
        await person.sees("Type what you want")
        request = e.PermissionRequested(
            call_id="call_1", tool="bash", input={"command": "rm -rf /"}, risk="shell", why=""
        )
        accepted = e.InputAccepted(content=(TextBlock(text="go"),))
        person.type(typed)
        scene.tell(accepted, e.TurnStarted(input=2), request)
        await person.sees("Run this command?", "Tab to answer")
        assert commands(scene, AnswerPermission) == []


@pytest.mark.requirement("G28.5")
@table("look", [COLOURLESS, DUMB])
async def test_ctrl_c_stops_the_turn_and_twice_leaves(look: Look) -> None:
    model = SilentModel(ModelText("Hmm.\n"))
    async with conversation(model, look=look) as (person, task, _):
        await person.types("wait for ever\r", then="Hmm.")
        await person.types("\x03", then="Stopping… Ctrl-C again within 2 s to leave")
        await person.sees("stopped")
        await person.passes(2.5)
        await person.types("\x03", then="Ctrl-C again to leave")
        await person.passes(2.5)
        await person.types("\x03x", then=f"{MARK}x")
        assert not task.done(), "one Ctrl-C never leaves"
        person.type("\x03")
        assert await code_of(task) == 0
        assert model.closed == 1


async def test_ctrl_c_in_a_question_says_no_and_stops() -> None:
    model = scripted(call("bash", command="touch it-ran"), say("Not reached."))
    async with conversation(model) as (person, _, session):
        await person.types("go\r", then="Run this command?")
        await person.types("\x03", then="stopped")
        await person.sees("1 step")
        assert not Path(session.folder, "it-ran").exists()
        assert "Not reached" not in person.glass.text


async def test_leaving_during_a_turn_is_asked_for() -> None:
    model = SilentModel(ModelText("Hmm.\n"))
    async with conversation(model) as (person, task, _):
        await person.types("wait\r", then="Hmm.")
        await person.types("\x04", then="A turn is running.  s stop it and leave · Esc stay")
        await person.types("stay", then=f"{MARK}stay")
        assert not task.done()
        await person.types("\x15\x04", then="s stop it and leave")
        await person.types("s")
        assert await code_of(task) == 0
        assert model.closed == 1


async def test_a_turn_is_left_running_where_the_engine_stays() -> None:
    model = SilentModel(ModelText("Hmm.\n"))
    async with conversation(model, come_back="bridle attach") as (person, task, _):
        await person.types("wait\r", then="Hmm.")
        asked = "A turn is running.  l leave it running · s stop it and leave · Esc stay"
        await person.types("\x04", then=asked)
        await person.types("l")
        assert await code_of(task) == 0
        assert model.closed == 0
        await person.sees('Left running: "wait".  Come back: bridle attach 0')


async def test_where_no_engine_stays_l_is_a_letter_of_the_draft() -> None:
    async with conversation(SilentModel(ModelText("Hmm.\n"))) as (person, task, _):
        await person.types("wait\r", then="Hmm.")
        await person.types("\x04", then="A turn is running.  s stop it and leave")
        await person.types("l", then=f"{MARK}l")
        assert not task.done()


async def test_what_cannot_be_done_during_ones_own_turn_is_said_without_talk_of_others() -> None:
    model = SilentModel(ModelText("Hmm.\n"))
    async with conversation(model) as (person, _, __):
        await person.types("wait\r", then="Hmm.")
        await person.types("/undo\r", then="A turn is running. /stop ends it, then /undo goes on.")
        await person.types("!ls\r", then="A turn is running. /stop ends it, then that goes on.")
        assert "Another client" not in person.glass.text


async def test_input_during_a_turn_waits_and_is_said_when_its_turn_comes() -> None:
    clock = FakeClock()
    model = scripted((say("Hmm.\n"), wait(5), say("First.")), say("Second."), clock=clock)
    async with conversation(model) as (person, _, __):
        await person.types("one\r", then="Hmm.")
        await person.types("two\r", then="queued   two")
        await person.types("/queue\r", then="/queue\n1  two")
        while "First." not in person.glass.text:
            await clock.advance(1)
        await person.sees("First.", f"{MARK}two", "Second.")


@pytest.mark.requirement("D13.30", "G45.1")
async def test_up_recalls_prompts_and_never_commands_for_the_client() -> None:
    saved: list[str] = []
    async with conversation(scripted(say("Yes.")), save_prompt=saved.append, history=("older",)) as (
        person,
        _,
        session,
    ):
        await person.types("a prompt\r", then="1 step")
        await person.types("/mode plan\r", then="mode     plan")
        await person.types("\x1b[A", then=f"{MARK}a prompt")
        await person.types("\x1b[A", then=f"{MARK}older")
        assert saved == ["a prompt"]
        texts = [
            e.text_of(envelope.event.content)
            for row in session.engine.store.list()
            for envelope in session.engine.store.events(row.id)
            if isinstance(envelope.event, e.InputAccepted)
        ]
        assert texts == ["a prompt"]


async def test_a_long_paste_is_folded_on_the_screen_and_sent_whole() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    text = "\n".join(f"line {number}" for number in range(5000))
    async with at_terminal(scene, CreateSession(cwd="/work"), is_file="notes.txt".__eq__) as (person, _):
        await person.sees("Type what you want")
        person.type("see @notes.txt and ")
        await person.pastes(text)
        await person.sees("[pasted 5000 lines]")
        await person.types("\r")
        await person.waits(lambda: bool(commands(scene, SendInput)), "the input")
    (sent,) = commands(scene, SendInput)
    assert isinstance(sent, SendInput)
    assert sent.content == (
        TextBlock(text="see "),
        FileMention(path="notes.txt"),
        TextBlock(text=f" and {text}"),
    )
    assert sent.mode == "queue"


async def test_ctrl_s_says_it_during_the_turn() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    async with at_terminal(scene, CreateSession(cwd="/work")) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.InputAccepted(content=(TextBlock(text="go"),)), e.TurnStarted(input=2))
        await person.types("not that one\x13", then="now      not that one")
        await person.waits(lambda: bool(commands(scene, SendInput)), "the input")
    (sent,) = commands(scene, SendInput)
    assert isinstance(sent, SendInput)
    assert sent.mode == "steer"


async def test_another_width_draws_the_draft_anew() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    async with at_terminal(scene, CreateSession(cwd="/work")) as (person, _):
        await person.sees("Type what you want")
        await person.types("a draft of several words", then=f"{MARK}a draft of several words")
        termios.tcsetwinsize(person.slave, (24, 21))
        signal.raise_signal(signal.SIGWINCH)
        await person.sees(f"{MARK}a draft of several\n words")


async def test_clear_begins_a_new_session_and_keeps_the_old_one() -> None:
    async with conversation(scripted(say("One."))) as (person, task, session):
        await person.types("first\r", then="1 step")
        await person.types("/clear\rsecond\r", then='The last one is saved as "first": bridle -r ')
        await person.waits(lambda: person.glass.text.count("1 step") == 2, "a second turn")
        await person.types("/quit\r")
        assert await code_of(task) == 0
        await person.sees('Saved as "second"')
        assert "first" in {row.title for row in session.engine.store.list()}


@table("look", [COLOURLESS, DUMB])
async def test_the_terminal_is_left_as_it_was_found(look: Look) -> None:
    async with conversation(scripted(say("**Hi.**")), look=look) as (person, task, _):
        during = termios.tcgetattr(person.slave)
        await person.types("hello\r", then="1 step")
        await person.types("\x04")
        assert await code_of(task) == 0
        after = termios.tcgetattr(person.slave)
        assert during[3] & termios.ICANON == 0
        assert after[3] & (termios.ICANON | termios.ECHO | termios.ISIG) == (
            termios.ICANON | termios.ECHO | termios.ISIG
        )
        await person.sees("Saved as")
        assert (b"\x1b" in person.bytes) == look.codes
        assert b"\x1b[2J" not in person.bytes
        opened = person.bytes.count(b"\x1b[?2004h")
        await person.waits(lambda: person.bytes.count(b"\x1b[?2004l") == opened, "the end of marked pastes")


async def test_ctrl_z_gives_the_terminal_back_while_it_is_stopped() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    modes: list[int] = []
    person = Person(80, 24, FakeClock())
    terminal = Terminal(
        input_fd=person.slave,
        output_fd=person.slave,
        look=COLOURLESS,
        stop=lambda: modes.append(termios.tcgetattr(person.slave)[3]),
    )
    task = asyncio.create_task(
        talk(scene, CreateSession(cwd="/work"), terminal, services=services(FakeClock()))
    )
    try:
        await person.sees("Type what you want")
        person.type("a draft\x1a")
        await person.waits(lambda: bool(modes), "the stop")
        assert modes[0] & termios.ICANON
        person.type("!")
        await person.sees(f"{MARK}a draft!")
        assert not termios.tcgetattr(person.slave)[3] & termios.ICANON
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        person.close()


async def test_a_session_that_cannot_go_on_says_so_and_restores_the_terminal() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    async with at_terminal(scene, CreateSession(cwd="/work")) as (person, task):
        await person.sees("Type what you want")
        scene.end()
        assert await code_of(task) == 0
        assert termios.tcgetattr(person.slave)[3] & termios.ICANON


async def test_a_terminal_that_hangs_up_ends_the_client() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    async with at_terminal(scene, CreateSession(cwd="/work")) as (person, task):
        await person.sees("Type what you want")
        asyncio.get_running_loop().remove_reader(person.master)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, person.master)
        os.close(nowhere)
        assert await code_of(task) == 129


async def piped(text: str, model: Provider) -> str:
    """What the client writes to a pipe when it reads from one."""
    async with harness(model) as session:
        connection = session.engine.connect(name="line", answers=True)
        create = CreateSession(cwd=session.folder, env={"PATH": os.defpath}, model=f"{model.name}:scripted")
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        os.write(in_write, text.encode())
        os.close(in_write)
        terminal = Terminal(input_fd=in_read, output_fd=out_write, look=Look())
        assert (
            await asyncio.wait_for(
                talk(connection, create, terminal, services=services(FakeClock())), DEADLINE_S
            )
            == 0
        )
        os.close(out_write)
        written = os.read(out_read, 1_000_000).decode()
        os.close(in_read)
        os.close(out_read)
        return written


async def test_input_that_is_no_terminal_is_read_in_lines_to_its_end() -> None:
    written = await piped("first\nsecond\n", scripted(say("One."), say("Two.")))
    assert "One." in written
    assert "Two." in written
    assert "\x1b" not in written


async def test_a_line_that_waits_in_a_pipe_does_not_answer_the_question_that_comes() -> None:
    scene = Scene(e.SessionCreated(log="log_1", cwd="/work"))
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    terminal = Terminal(input_fd=in_read, output_fd=out_write, look=Look())
    task = asyncio.create_task(
        talk(scene, CreateSession(cwd="/work"), terminal, services=services(FakeClock()))
    )
    assert b"Bridle" in await asyncio.to_thread(os.read, out_read, 65536)
    os.write(in_write, b"y\n")
    request = e.PermissionRequested(call_id="call_1", tool="bash", input={}, risk="shell", why="")
    scene.tell(e.InputAccepted(content=(TextBlock(text="go"),)), e.TurnStarted(input=2), request)
    written = b""
    while b"Allow bash?" not in written:
        written += await asyncio.to_thread(os.read, out_read, 65536)
    assert commands(scene, AnswerPermission) == []
    scene.end()
    assert await code_of(task) == 0
    for descriptor in (in_read, in_write, out_read, out_write):
        os.close(descriptor)


async def test_lines_sent_before_a_second_question_was_printed_do_not_answer_it() -> None:
    model = scripted((call("bash", command="touch one"), call("bash", command="touch two")), say("Done."))
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    async with harness(model) as session:
        connection = session.engine.connect(name="line", answers=True)
        create = CreateSession(cwd=session.folder, env={"PATH": os.defpath}, model=f"{model.name}:scripted")
        terminal = Terminal(input_fd=in_read, output_fd=out_write, look=Look())
        task = asyncio.create_task(talk(connection, create, terminal, services=services(FakeClock())))
        os.write(in_write, b"go\n")
        written = b""
        while b"Run this command?" not in written:
            written += await asyncio.to_thread(os.read, out_read, 65536)
        os.write(in_write, b"y\ny\n")
        os.close(in_write)
        assert await code_of(task) == 0
        assert sorted(os.listdir(session.folder)) == ["one"]
    for descriptor in (in_read, out_read, out_write):
        os.close(descriptor)


async def test_when_the_input_is_over_nobody_can_say_yes() -> None:
    written = await piped("go\ny\n", scripted(call("bash", command="touch x"), say("Done."), say("Again.")))
    assert "not run  touch x" in written
    assert "ran      touch x" not in written


PROGRAM = """
import asyncio, os, sys
from bridle.base.clock import SystemClock
from bridle.clients.line.client import talk
from bridle.clients.interaction.effects import ClientServices
from bridle.clients.line.terminal import Terminal, look_of
from bridle.conformance.harness import harness
from bridle.conformance.fake_models import SilentModel
from bridle.protocol.commands import CreateSession

async def main():
    model = SilentModel()
    async with harness(model) as session:
        connection = session.engine.connect(name="line", answers=True)
        create = CreateSession(cwd=session.folder, model=f"{model.name}:scripted")
        terminal = Terminal(look=look_of(os.environ, terminal=True))
        return await talk(connection, create, terminal, services=ClientServices(clock=SystemClock()))

sys.exit(asyncio.run(main()))
"""


@table(("ends", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("\x03\x03", 0)])
async def test_a_process_that_is_ended_leaves_the_terminal_sane(ends: str, code: int) -> None:
    person = Person(80, 24, None)
    before = termios.tcgetattr(person.slave)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        stdin=person.slave,
        stdout=person.slave,
        stderr=person.slave,
        env={"PATH": os.defpath, "TERM": "xterm", "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        await person.sees("Type what you want")
        if ends.startswith("SIG"):
            process.send_signal(signal.Signals[ends])
        else:
            person.type(ends)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == code
        assert termios.tcgetattr(person.slave) == before
    finally:
        process.kill()
        process.wait()
        person.close()
