"""`bridle` at a real terminal, as a person meets it: the first start, a conversation, leaving, coming back."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from bridle.clients.interaction.session.key_router import GRACE_S
from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.protocol.events import InputAccepted, ToolResult
from bridle.protocol.messages import FileMention, TextBlock
from bridle.providers.script import Say, Script, ScriptAnswer
from cli_kit import BRIDLE, TIMEOUT_S, Place, SignOfLife
from cli_terminal import Sitting, at_terminal, sitting

pytestmark = pytest.mark.through_engine

READY = "Type what you want."
NO_MODEL = "No model is connected yet, and nothing has been sent anywhere."
WAITING = "A question is waiting: Tab to answer"
GONE_S = 5
CTRL_C, CTRL_D, ENTER, UP = "\x03", "\x04", "\r", "\x1b[A"


def leaves(person: Sitting) -> str:
    """Leaves as people do; returns the short id in the way back."""
    person.types(CTRL_C * 2)
    assert person.ends() == 0
    assert person.modes == person.modes_found
    found = re.search(
        r'^Saved as ".+"\.  Come back: bridle -c   or   bridle -r (\w+)$', person.text, re.MULTILINE
    )
    assert found is not None, person.text
    return found[1]


def has_read_the_question(person: Sitting) -> None:
    """The question has the keyboard and was on the screen for the moment in which keys are not meant for it."""
    person.waits(lambda: WAITING not in person.text, "the question with the keyboard")
    person.looks_for(2 * GRACE_S)


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def prompts(place: Place, session: str) -> list[tuple[object, ...]]:
    return [e.event.content for e in place.events(session) if isinstance(e.event, InputAccepted)]


def results(place: Place, session: str) -> list[ToolResult]:
    return [e.event for e in place.events(session) if isinstance(e.event, ToolResult)]


class LongCommand:
    """A command that says when it has begun and would run for ten minutes."""

    def __init__(self, place: Place, life: SignOfLife) -> None:
        path = place.work / "begun"
        os.mkfifo(path)
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.model = place.script(f'call bash {{"command": "{life.hold}; echo > begun; sleep 600"}}\n')

    def has_begun(self) -> bool:
        return bool(select.select((self._reading,), (), (), TIMEOUT_S)[0])

    def close(self) -> None:
        os.close(self._reading)


@pytest.fixture
def command(place: Place, life: SignOfLife) -> Generator[LongCommand]:
    command = LongCommand(place, life)
    yield command
    command.close()


class Ollama(ModelServer):
    """A model server that lists its models as Ollama does."""

    def __init__(self, *said: str) -> None:
        super().__init__(Script("test", tuple(ScriptAnswer((Say(text),)) for text in said)))

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        match request.path:
            case "/api/tags":
                return await reply.whole(200, {"models": [{"name": "small:1b"}, {"name": "large:7b"}]})
            case "/api/ps":
                return await reply.whole(200, {"models": []})
            case "/api/show":
                return await reply.whole(200, {"capabilities": ["completion", "tools"]})
            case _:
                return await super().answer(request, reply)


def configure(place: Place, server: Ollama) -> Path:
    """Writes the user's config with Ollama at this server; returns the file."""
    config = place.home / ".config/bridle/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[providers.ollama]\nbase_url = "{server.url}"\n', encoding="utf-8")
    return config


# The first start


@pytest.mark.in_process("an engine leaves files of its own in the home that is looked at")
@pytest.mark.parametrize("key", ["q\r", CTRL_D])
def test_without_a_model_the_first_screen_says_so_and_leaving_it_creates_nothing(
    place: Place, key: str
) -> None:
    with sitting(place) as person:
        person.sees(NO_MODEL, "See the demo", "or q to leave [")
        person.types(key)
        assert person.ends() == 0
        assert person.modes == person.modes_found
    assert below(place.home) == below(place.work) == []


def test_enter_on_the_first_screen_runs_the_demo_somewhere_else(place: Place) -> None:
    (place.work / "cart.py").write_text("mine\n")
    scratch = place.home / "scratch"
    scratch.mkdir()
    with sitting(place, TMPDIR=str(scratch)) as person:
        person.sees("or q to leave [")
        person.types(ENTER)
        person.sees(
            "ran      write cart.py",
            "That was the real engine, tools, sandbox and log; only the model was a script.",
        )
        assert person.ends() == 0
    assert below(place.work) == ["cart.py"]
    assert (place.work / "cart.py").read_text() == "mine\n"
    (row,) = place.sessions()
    assert Path(row.cwd).parent == scratch
    assert not (place.home / ".config").exists(), "seeing the demo is no choice of a model"


@pytest.mark.in_process("the first screen is the program's own; what it asks an engine is asked above")
def test_two_ctrl_c_lead_out_of_the_first_screen(place: Place) -> None:
    with sitting(place) as person:
        person.sees("or q to leave [")
        person.types(CTRL_C)
        person.sees("Ctrl-C again to leave", within_s=GONE_S)
        person.types(CTRL_C)
        assert person.ends(within_s=GONE_S) == 0
        assert person.modes == person.modes_found


@pytest.mark.in_process("the first screen is the program's own; what it asks an engine is asked above")
def test_one_ctrl_c_on_the_first_screen_changes_nothing(place: Place) -> None:
    with sitting(place) as person:
        person.sees("or q to leave [")
        person.types(CTRL_C)
        person.sees("^C")
        person.types("q\r")
        assert person.ends(within_s=GONE_S) == 0


@pytest.mark.requirement("D13.20")
async def test_a_server_found_on_this_machine_is_chosen_saved_and_used(place: Place) -> None:
    def first_time() -> None:
        with sitting(place) as person:
            person.sees("Found Ollama on this machine with 2 models.")
            person.sees("1  small:1b", "2  large:7b", "Use which? [1]")
            assert server.chats == []
            person.types("2\r")
            person.sees("Saved: ollama:large:7b. Cost: none, it is local.", "model    ollama:large:7b", READY)
            person.types("hello\r")
            person.sees("Hi from here.", "1 step")
            leaves(person)

    def second_time() -> None:
        with sitting(place) as person:
            person.sees("model    ollama:large:7b", READY)
            assert NO_MODEL not in person.text
            person.types(CTRL_D)
            assert person.ends() == 0

    async with Ollama("Hi from here.") as server:
        config = configure(place, server)
        await asyncio.to_thread(first_time)
        assert 'model = "ollama:large:7b"' in config.read_text(encoding="utf-8")
        assert [chat.json["model"] for chat in server.chats] == ["large:7b"]
        await asyncio.to_thread(second_time)


# A conversation


def test_an_answer_streams_and_one_ctrl_c_stops_it_without_leaving(place: Place) -> None:
    model = place.script("say The beginning.\n    More\nwait 600\nsay The end.\n")
    with sitting(place, "-m", model) as person:
        person.sees(READY)
        person.types("tell me\r")
        person.sees("The beginning.")
        person.types(CTRL_C)
        person.sees("Stopping… Ctrl-C again within 2 s to leave", "stopped")
        person.types("still here")
        person.sees("› still here")
        leaves(person)
    assert "The end." not in person.text
    place.verify(place.only_session())


def test_what_was_typed_before_a_question_never_answers_it_and_enter_says_no(place: Place) -> None:
    model = place.script(
        "say Looking.\n    Hm\nwait 1\ncall write_file\n    path: new.txt\n    content: hi\n"
        "---\nsay Then not.\n"
    )
    with sitting(place, "-m", model) as person:
        person.sees(READY)
        person.types("go on\r")
        person.sees("Looking.")
        person.types("y\rt\ry")
        person.sees('"y" was not sent', '"t" was not sent', "Create new.txt?", WAITING, "› y")
        assert not (place.work / "new.txt").exists()
        person.types("\x15")
        has_read_the_question(person)
        person.types(ENTER)
        person.sees("not run  write new.txt", "you said no", "Then not.")
        leaves(person)
    assert not (place.work / "new.txt").exists()
    (result,) = results(place, place.only_session())
    assert (result.outcome, result.reason) == ("denied", "PermissionDenied")
    assert prompts(place, place.only_session()) == [(TextBlock(text="go on"),)]


def test_y_and_enter_approve_an_edit(place: Place) -> None:
    model = place.script('call write_file {"path": "new.txt", "content": "hi"}\n---\nsay Done so.\n')
    with sitting(place, "-m", model, "write it please") as person:
        person.sees("› write it please", "Create new.txt?   +1", "1  + hi")
        has_read_the_question(person)
        person.types("y")
        person.sees("› y")
        assert not (place.work / "new.txt").exists(), "a letter alone is no answer"
        person.types(ENTER)
        person.sees("Done so.", "2 steps")
        leaves(person)
    assert (place.work / "new.txt").read_text() == "hi"
    assert "not run" not in person.text


def test_a_shell_line_shows_its_output_and_is_in_the_log(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("!echo one-$((1 + 1))\r")
        person.sees("one-2", "exit 0")
        person.types(CTRL_D)
        assert person.ends() == 0
    (result,) = results(place, place.only_session())
    assert (result.tool, result.outcome) == ("bash", "ok")
    assert "one-2" in result.content


async def test_a_mentioned_file_reaches_the_model(place: Place) -> None:
    (place.work / "notes.txt").write_text("The password of the cellar is Grimaldi.\n")

    def asks() -> None:
        with sitting(place, "-m", "ollama:large:7b") as person:
            person.sees(READY)
            person.types("what is in @notes.txt here\r")
            person.sees("A password.", "1 step")
            leaves(person)

    async with Ollama("A password.") as server:
        configure(place, server)
        await asyncio.to_thread(asks)
        (chat,) = server.chats
    assert b"is Grimaldi." in chat.body
    (content,) = prompts(place, place.only_session())
    assert FileMention(path="notes.txt") in content


# Leaving


def test_leaving_ends_what_was_started_and_says_the_way_back(
    place: Place, life: SignOfLife, command: LongCommand
) -> None:
    with sitting(place, "-y", "-m", command.model) as person:
        person.sees(READY)
        assert person.modes != person.modes_found
        person.types("start it\r")
        person.sees("running exec 9")
        assert command.has_begun()
        short = leaves(person)
        assert 'Saved as "start it".' in person.text
    assert life.ends_within(GONE_S)
    session = place.only_session()
    assert session.startswith(f"sess_{short}")
    place.verify(session)
    assert b"\x1b[2J" not in person.bytes
    assert b"\x1b[?1049h" not in person.bytes


def test_ctrl_d_leaves_and_nothing_is_ever_cleared(place: Place) -> None:
    with sitting(place, "-m", "demo:hello") as person:
        person.sees(READY)
        person.types("hello\r")
        person.sees("1 step")
        person.types(CTRL_D)
        assert person.ends() == 0
        assert person.modes == person.modes_found
    assert 'Saved as "hello".  Come back: bridle -c   or   bridle -r ' in person.text
    assert person.bytes.count(b"\x1b[?2004h") == person.bytes.count(b"\x1b[?2004l") == 1
    assert b"\x1b[2J" not in person.bytes


@pytest.mark.in_process("a terminal that goes away leaves its session in the engine: test_attach.py")
def test_sigterm_restores_the_terminal_and_ends_what_runs(
    place: Place, life: SignOfLife, command: LongCommand
) -> None:
    with sitting(place, "-y", "-m", command.model, "start it now") as person:
        person.sees("running exec 9")
        assert command.has_begun()
        person.process.send_signal(signal.SIGTERM)
        assert person.ends() == 128 + signal.SIGTERM
        assert person.modes == person.modes_found
    assert life.ends_within(GONE_S)
    place.verify(place.only_session())


@pytest.mark.in_process("a terminal that goes away leaves its session in the engine: test_attach.py")
def test_a_terminal_that_goes_away_ends_everything(
    place: Place, life: SignOfLife, command: LongCommand
) -> None:
    with sitting(place, "-y", "-m", command.model, "start it now") as person:
        person.sees("running exec 9")
        assert command.has_begun()
        person.hangs_up()
        assert person.process.wait(TIMEOUT_S) == 128 + signal.SIGHUP
    assert life.ends_within(GONE_S)
    place.verify(place.only_session())


def test_a_dumb_terminal_gets_no_escape_code(place: Place) -> None:
    model = place.script('call write_file {"path": "new.txt", "content": "hi"}\n---\nsay **Bold** words.\n')
    with sitting(place, "-m", model, TERM="dumb") as person:
        person.sees(READY)
        person.types("hello\r")
        person.sees("Create new.txt?")
        person.types(CTRL_C)
        person.sees("stopped")
        person.types(CTRL_C * 2)
        assert person.ends() == 0
        assert person.modes == person.modes_found
    assert 'Saved as "hello".' in person.text
    assert b"\x1b" not in person.bytes


# Coming back


@pytest.mark.in_process("which letters a terminal gets is decided in it")
def test_a_terminal_without_unicode_gets_none(place: Place) -> None:
    env = place.environment(TERM="xterm-256color", LANG="C")
    clean = ("/usr/bin/env", "-u", "LC_CTYPE", "-u", "LC_ALL")  # the Python before ours has set one of them
    with at_terminal(*clean, *BRIDLE, "-m", "demo:hello", cwd=place.work, env=env) as person:
        person.sees("Type what you want.", "\n>")
        person.types("\x04")
        assert person.ends() == 0
    assert person.bytes.isascii()


def test_c_goes_on_with_the_session_and_up_brings_back_what_was_typed(place: Place) -> None:
    model = place.script("say First answer.\n---\nsay Second answer.\n")
    with sitting(place, "-m", model) as person:
        person.sees(READY)
        person.types("the first question\r")
        person.sees("First answer.", "1 step")
        leaves(person)
    with sitting(place, "-c") as person:
        person.sees('Back in "the first question", 1 turn so far.', "First answer.", READY)
        person.types(UP)
        person.sees("› the first question")
        person.types(" again\r")
        person.sees("Second answer.", "1 step")
        leaves(person)
    assert prompts(place, place.only_session()) == [
        (TextBlock(text="the first question"),),
        (TextBlock(text="the first question again"),),
    ]


def test_r_shows_the_sessions_and_enter_or_an_id_resumes_one(place: Place) -> None:
    for prompt in ("older thing", "newer thing"):
        assert place.bridle("run", "-q", "-m", "demo", prompt).code == 0
    newer, older = (row.id for row in place.sessions())
    with sitting(place, "-r") as person:
        person.sees('> 1  "newer thing"', '  2  "older thing"')
        person.types("older")
        person.sees('> 1  "older thing"', "› older")
        person.types(ENTER)
        person.sees('Back in "older thing", 1 turn so far.', READY)
        assert older.startswith(f"sess_{leaves(person)}")
    with sitting(place, "-r", newer) as person:
        person.sees('Back in "newer thing", 1 turn so far.', READY)
        short = leaves(person)
    with sitting(place, "-r", short) as person:
        person.sees('Back in "newer thing", 1 turn so far.', READY)
        leaves(person)
    assert len(place.sessions()) == 2


@pytest.mark.in_process("an engine leaves files of its own in the home that is looked at")
@pytest.mark.parametrize("word", ["-c", "-r"])
def test_where_no_session_is_there_is_none_to_go_on_with(place: Place, word: str) -> None:
    with sitting(place, word) as person:
        assert person.ends() == 2
        assert person.modes == person.modes_found
    assert person.text.startswith("bridle: ")
    assert below(place.home) == []


def test_esc_leaves_the_list_of_sessions_without_one(place: Place) -> None:
    assert place.bridle("run", "-q", "-m", "demo", "a thing").code == 0
    with sitting(place, "-r") as person:
        person.sees('> 1  "a thing"')
        person.types("\x1b")
        assert person.ends() == 0
        assert person.modes == person.modes_found
    assert READY not in person.text


def test_the_way_back_still_names_one_session_when_the_next_has_begun(place: Place):
    with sitting(place, "-m", "demo:hello") as person:
        person.sees("›")
        person.types("hello\r")
        person.sees("1 step")
        short = leaves(person)
    assert place.bridle("run", "-m", "demo", "the next one").code == 0
    shown = place.bridle("sessions", "show", short)
    assert shown.code == 0, shown.err


def test_what_a_person_should_know_is_shown_once_where_a_session_begins_and_within_bounds(
    place: Place,
) -> None:
    own = place.home / ".config/bridle"
    own.mkdir(parents=True)
    (own / "aliases.toml").write_text("".join(f'x{number} = "no command"\n' for number in range(9)))
    (own / "config.toml").write_text('modle = "x"\n')
    (own / "approved.lock").write_text("")
    (own / "approved.lock").chmod(0o666)
    with sitting(place, "-m", place.script("say Hi.\n")) as person:
        person.sees("chmod go-w", 'aliases.toml: "x3" stands for no command', "Type what you want.")
        person.sees("and 5 more notices: bridle doctor")
        assert '"x4"' not in person.text
        assert person.text.count('there is no setting "modle"') == 1
        person.types("\x04")
        assert person.ends() == 0
