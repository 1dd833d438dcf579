"""Small things people notice, one test each, at a real terminal wherever one is involved."""

from __future__ import annotations

import asyncio
import socket
import string
import subprocess
import time
from collections.abc import Callable

import pytest

from bridle.clients.interaction.session.key_router import GRACE_S, QUIET_S
from bridle.conformance.servers import JsonServer, ModelServer
from bridle.protocol.events import GrantAdded, InputAccepted, PermissionRequested, ToolResult, text_of
from bridle.providers.script import say
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran, SignOfLife
from cli_terminal import Sitting, sitting

READY = "Type what you want."
WAITING = "A question is waiting: Tab to answer"
KEY_VARIABLE = "WORK_SERVICE_KEY"
CHATS = "POST /v1/chat/completions"
CTRL_C, CTRL_R, ENTER = "\x03", "\x12", "\r"
GONE_S = 5


def key() -> str:
    return "sk-" + "Qx7w" * 6


def work_at(place: Place, base_url: str, *, more: str = "") -> None:
    """Makes `work` a provider at this address in the person's own config."""
    config = place.home / ".config/bridle/config.toml"
    config.parent.mkdir(parents=True)
    section = f'[providers.work]\nbase_url = "{base_url}"\nkey_env = "{KEY_VARIABLE}"\n{more}'
    config.write_text(section, encoding="utf-8")


def run(place: Place, *words: str) -> Ran:
    return place.bridle("run", "-m", "work:some-model", *words, env={KEY_VARIABLE: key()})


def results(place: Place) -> list[ToolResult]:
    return [e.event for e in place.events(place.only_session()) if isinstance(e.event, ToolResult)]


def reads_the_question(person: Sitting) -> None:
    """Sits still until the question has the keyboard, and for the moment in which no key is meant for it."""
    person.looks_for(QUIET_S)
    person.waits(lambda: WAITING not in person.text, "the question with the keyboard")
    person.looks_for(GRACE_S * 1.5)


def leaves(person: Sitting) -> None:
    person.types(CTRL_C * 2)
    assert person.ends(within_s=GONE_S) == 0
    assert person.modes == person.modes_found


def test_1_typing_cannot_approve(place: Place) -> None:
    (place.work / "keep").write_text("mine")
    model = place.script(
        'say Looking.\nwait 0.3\ncall bash {"command": "rm -rf keep"}\n---\nsay Then not.\n---\nsay Well.\n'
    )
    sentence = f"yes y p t a {string.ascii_letters} y"
    with sitting(place, "-m", model) as person:
        person.sees(READY)
        person.types("go\r")
        person.sees("Looking.")
        for letter in sentence:
            person.types(letter)
            person.looks_for(0.02)
        person.sees("Run this command?", WAITING, sentence)
        person.types(ENTER)
        person.sees(f"queued   {sentence}")
        assert (place.work / "keep").exists()
        reads_the_question(person)
        person.types(ENTER)
        person.sees("not run  rm -rf keep", "Then not.", "Well.")
        leaves(person)
    assert (place.work / "keep").read_text() == "mine"
    (result,) = results(place)
    assert result.outcome == "denied"
    prompts = [e.event for e in place.events(place.only_session()) if isinstance(e.event, InputAccepted)]
    assert [text_of(prompt.content) for prompt in prompts] == ["go", sentence]


def test_2_the_whole_command_or_no_yes(place: Place) -> None:
    lines = "\\n".join(f"touch line-{number}" for number in range(1, 60))
    model = place.script(f'call bash {{"command": "{lines}\\ntouch it-ran"}}\n---\nsay Done.\n')
    with sitting(place, "-m", model, "go", columns=44) as person:
        person.sees("Run this command?", "touch line-1")
        reads_the_question(person)
        assert "touch it-ran" not in person.text
        person.types("y\r")
        person.sees("y works when all of it was shown.")
        assert not (place.work / "it-ran").exists()
        while "y  yes, once" not in person.text:
            before = person.text
            person.types("v\r")
            person.waits(lambda before=before: len(person.text) > len(before) + 10, "the next page")
        assert "touch it-ran" in person.text
        person.types("y\r")
        person.sees("Done.")
        leaves(person)
    assert (place.work / "it-ran").exists()


def test_2_what_is_remembered_of_two_commands_allows_neither_alone(place: Place) -> None:
    both = "touch a && touch b"
    model = place.script(
        f'call bash {{"command": "{both}"}}\n---\ncall bash {{"command": "touch a"}}\n---\nsay Done.\n'
    )
    with sitting(place, "-m", model, "go") as person:
        person.sees("Run this command?", both)
        reads_the_question(person)
        person.types("p\r")
        person.waits(lambda: "allowed  bash(" in person.text or "was answered" in person.text, "what p does")
        if "allowed  bash(" not in person.text:  # for two commands at once nothing may be offered at all
            person.types("y\r")
        person.waits(lambda: person.text.count("Run this command?") == 2, "a second question")
        reads_the_question(person)
        person.types(ENTER)
        person.sees("not run  touch a", "Done.")
        leaves(person)
    events = [envelope.event for envelope in place.events(place.only_session())]
    remembered = [(event.pattern, event.match) for event in events if isinstance(event, GrantAdded)]
    assert remembered in ([], [(both, "literal")])


def test_3_not_run_is_unmistakable(place: Place) -> None:
    model = place.script('call bash {"command": "touch it-ran"}\n---\nsay Then not.\n')
    with sitting(place, "-m", model, "go") as person:
        person.sees("Run this command?")
        reads_the_question(person)
        person.types(ENTER)
        person.sees("Then not.")
        leaves(person)
    ran = place.bridle("run", "-m", model, "--json", "go")
    (told,) = (line for line in person.text.splitlines() if "touch it-ran" in line and "you said" in line)
    (said,) = (line for line in ran.err.splitlines() if "touch it-ran" in line)
    for line in (told, said.removeprefix("bridle: ")):
        assert line.startswith("not run  touch it-ran")
        assert "exit" not in line
        assert " s" not in line.replace(" said", "")
    assert "ran      touch" not in person.text + ran.err
    assert [call["call"] for call in ran.result["denied"]] == ["touch it-ran"]
    assert not (place.work / "it-ran").exists()


async def test_4_a_bad_key_costs_two_seconds_and_one_sentence(place: Place) -> None:
    async with JsonServer({CHATS: {"error": {"message": "no"}}}, status={CHATS: 401}) as server:
        work_at(place, f"{server.origin}/v1")
        begun_s = time.monotonic()
        ran = await asyncio.to_thread(run, place, "hello")
        took_s = time.monotonic() - begun_s
    assert ran.code == 4
    assert len(server.requests) == 1
    (line,) = (line for line in ran.err.splitlines() if "refused the key" in line)
    assert KEY_VARIABLE in line
    assert key()[:8] not in ran.err + ran.out
    assert took_s < 2 + 4, "the start of the interpreter and a busy machine included"


def test_5_a_dead_server_is_said_quickly(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    work_at(place, f"{address}/v1", more="local = true\n")
    begun_s = time.monotonic()
    ran = run(place, "hello")
    assert ran.code == 5
    assert f"Cannot reach {address} (connection refused)." in ran.err
    assert time.monotonic() - begun_s < 5 + 4


async def test_6_a_prompt_never_waits_for_stdin(place: Place) -> None:
    async with ModelServer.playing(say("Here.")) as server:
        work_at(place, f"{server.origin}/v1")
        process = subprocess.Popen(
            [*BRIDLE, "run", "-m", "work:some-model", "hello"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place.work,
            env=place.environment(**{KEY_VARIABLE: key()}),
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                assert process.stdout is not None
                assert await asyncio.to_thread(process.stdout.read) == b"Here.\n"
            assert len(server.chats) == 1
            assert process.stdin is not None
            assert process.wait(TIMEOUT_S) == 0, "although nobody closed its stdin"
        finally:
            process.kill()
            process.communicate()


def asks_something(place: Place) -> str:
    return place.script('call bash {"command": "touch it-ran"}\n---\nsay Then not.\n')


def waits_long(place: Place) -> str:
    return place.script("say Hm.\n    Hm\nwait 600\n")


SCREENS: dict[str, tuple[Callable[[Place], str], str, str]] = {
    "the prompt": (lambda _place: "demo", READY, ""),
    "a draft": (lambda _place: "demo", "› half a thought", "half a thought"),
    "a search": (lambda _place: "demo", "search: x", f"{CTRL_R}x"),
    "a turn": (waits_long, "Hm", "go\r"),
    "a question": (asks_something, "Run this command?", "go\r"),
    "the list of sessions": (lambda _place: "demo", "type to filter", "/resume\r"),
}


@pytest.mark.parametrize("screen", SCREENS)
def test_8_leaving_is_one_habit_and_leaves_nothing(place: Place, life: SignOfLife, screen: str) -> None:
    model_of, seen, typed = SCREENS[screen]
    if screen == "the list of sessions":
        assert place.bridle("run", "-q", "-m", "demo", "an older thing").code == 0
    with sitting(place, "-m", model_of(place)) as person:
        person.sees(READY)
        person.types(f"!{life.hold}; sleep 600 & echo begun-$((1 + 1))\r")
        person.sees("begun-2", "exit 0")  # while the command runs there is no other session to go to
        person.types(typed)
        person.sees(seen)
        person.types(CTRL_C)
        person.sees("Ctrl-C again")
        assert person.process.poll() is None, "one never leaves"
        person.types(CTRL_C)
        assert person.ends(within_s=GONE_S) == 0
        assert person.modes == person.modes_found
    assert life.ends_within(GONE_S)
    assert not (place.work / "it-ran").exists()


def test_8_one_ctrl_c_never_leaves_the_list_of_sessions_and_two_do(place: Place) -> None:
    assert place.bridle("run", "-q", "-m", "demo", "a thing").code == 0
    with sitting(place, "-r") as person:
        person.sees('> 1  "a thing"')
        person.types(CTRL_C)
        person.sees("Ctrl-C again to leave")
        person.types("thi")
        person.waits(lambda: "again to leave" not in person.text, "the hint gone")
        leaves(person)


def test_8_a_closed_window_ends_with_129_and_leaves_nothing(place: Place, life: SignOfLife) -> None:
    with sitting(place, "-m", "demo") as person:
        person.sees(READY)
        person.types(f"!{life.hold}; sleep 600 & echo begun-$((1 + 1))\r")
        person.sees("begun-2")
        person.hangs_up()
        assert person.process.wait(GONE_S) == 129
    assert life.ends_within(GONE_S)


FAILURES: dict[str, tuple[list[str], int]] = {
    "no model": (["hello"], 4),
    "unknown provider": (["-m", "nobody:knows", "hello"], 2),
    "no such script": (["-m", "demo:nowhere.script", "hello"], 2),
    "nothing listens": (["-m", "work:some-model", "hello"], 5),
    "no prompt": (["-m", "demo", ""], 2),
    "a refused key": (["-m", "demo:fails.script", "hello"], 4),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_9_machines_get_the_truth(place: Place, failure: str) -> None:
    words, code = FAILURES[failure]
    place.script("fail bad_credentials\n", "fails.script")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        work_at(place, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    env = {KEY_VARIABLE: key(), "FORCE_COLOR": "1"}
    whole = place.bridle("run", "--json", *words, env=env)
    streamed = place.bridle("run", "--stream-json", *words, env=env)
    last = streamed.stream[-1]
    assert (last["eventType"], last["success"], whole.result["success"]) == ("run.result", False, False)
    assert whole.result["exit_code"] == whole.code
    assert last["exit_code"] == streamed.code
    assert whole.code == streamed.code == code, whole.err
    assert "\x1b" not in whole.out + whole.err + streamed.out + streamed.err


@pytest.mark.parametrize(("term", "tmux"), [("xterm", ""), ("screen", "here"), ("dumb", "")])
def test_10_you_notice_when_you_are_needed(place: Place, term: str, tmux: str) -> None:
    with sitting(place, "-m", asks_something(place), TERM=term, TMUX=tmux) as person:
        person.sees(READY)
        assert b"\x07" not in person.bytes
        person.types("go\r")
        person.sees("Run this command?")
        person.waits(lambda: b"\x07" in person.bytes, "the bell", within_s=10)
        person.types(CTRL_C)
        person.sees("stopped")
        leaves(person)
    asked = [e.event for e in place.events(place.only_session()) if isinstance(e.event, PermissionRequested)]
    assert len(asked) == 1
    begun_s = time.monotonic()
    ran = place.bridle("run", "-m", asks_something(place), "go")
    assert "not run  touch it-ran" in ran.err
    assert "nobody is here to ask" in ran.err
    assert time.monotonic() - begun_s < 20, "where nobody is attached nothing waits"
