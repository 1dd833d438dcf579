"""The first ten minutes, byte for byte: what somebody sees who has just installed Bridle.

Ids, times, paths and ports are made the same everywhere. UPDATE_GOLDEN=1 writes the files anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.protocol.messages import Usage
from bridle.providers.script import Say, Script, ScriptAnswer, Spend, answer, say
from cli_kit import Place, Ran
from cli_terminal import Sitting, sitting

GOLDEN = Path(__file__).parent / "golden/first_minutes"
KEY = "sk-" + "Qx7w" * 8
CTRL_D, ENTER = "\x04", "\r"
SAME: tuple[tuple[str, str], ...] = (
    (r"(sess|call|log)_[0-9A-HJKMNP-TV-Z]{26}", r"\1_ID"),
    (r"bridle -r [0-9A-Z]{6,26}\b", "bridle -r ID"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"(exit \d+)   \d+\.\d s\b", r"\1"),  # told only where it took a while
    (r"\b\d+\.\d s\b", "0.0 s"),
    (r"works, inside \w+;", "works;"),
    (r"; memory and the number of processes are not limited", ""),  # some machines count them
    (r'"ts":"[^"]*"', '"ts":"TIME"'),
    (r'"log_digest": ?"[0-9a-f]{64}"', '"log_digest": "DIGEST"'),
    (r"bridle(\s+)\d+\.\d+\.\S+, Python \S+, .*", r"bridle\1VERSION, Python VERSION, SYSTEM"),
    (r"^ok    git( +)\S+$", r"ok    git\1VERSION"),
    (r"^(ok|warn|fail)( +)disk( +)\d+\.\d GB free", r"\1\2disk\3ROOM free"),
    (r"^ok    extras( +).*$", r"ok    extras\1THOSE"),
    (r"^Bridle \d+\.\d+\.\S+", "Bridle VERSION"),
)


class FirstDay(Place):
    """Somebody's home with one project in it: paths are short, as people have them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.work.rmdir()
        self.work = self.home / "shop"
        self.work.mkdir()

    @property
    def is_untouched(self) -> bool:
        return list(self.home.rglob("*")) == [self.work]


@pytest.fixture
def place(tmp_path: Path) -> FirstDay:
    return FirstDay(tmp_path)


def same(place: Place, text: str) -> str:
    """A text without what differs from run to run."""
    text = text.replace(str(place.home), "HOME")
    for pattern, put in SAME:
        text = re.sub(pattern, put, text, flags=re.MULTILINE)
    return text


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; UPDATE_GOLDEN=1 rewrites it"


def check_ran(name: str, place: Place, ran: Ran, *words: str) -> None:
    shown = " ".join(f"'{word}'" if " " in word else word for word in ("bridle", *words))
    parts = [f"$ {shown}", "--- stdout", ran.out.rstrip("\n"), "--- stderr", ran.err.rstrip("\n")]
    lines = [part for part in (*parts, f"--- exit {ran.code}") if part]
    check_golden(name, same(place, "\n".join(lines) + "\n"))


def check_seen(name: str, place: Place, person: Sitting) -> None:
    """The whole of what was on the screen, without what fills a line to its end."""
    lines = [line.rstrip() for line in person.text.splitlines()]
    check_golden(name, same(place, "\n".join(lines).strip("\n") + "\n"))


class Ollama(ModelServer):
    """A model server that lists its models as Ollama does: one large, one small, one that cannot chat."""

    def __init__(self) -> None:
        super().__init__(
            Script(
                "test",
                (ScriptAnswer((Say("Hi from here."), Spend(Usage(input_tokens=12, output_tokens=4)))),),
            )
        )

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        match request.path:
            case "/api/tags":
                sizes = {"qwen3-coder:30b": 18, "llama3.1:8b": 5, "nomic-embed-text": 0.3}
                models = [{"name": name, "size": int(size * 1e9)} for name, size in sizes.items()]
                return await reply.whole(200, {"models": models})
            case "/api/ps":
                running = {"qwen3-coder:30b": 32768, "llama3.1:8b": 8192}
                models = [{"name": name, "context_length": tokens} for name, tokens in running.items()]
                return await reply.whole(200, {"models": models})
            case "/api/show":
                can = ["embedding"] if "embed" in request.body.decode() else ["completion", "tools"]
                return await reply.whole(200, {"capabilities": can})
            case _:
                return await super().answer(request, reply)


def configure(place: Place, name: str, server: ModelServer) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[providers.{name}]\nbase_url = "{server.url}"\n', encoding="utf-8")


# Nobody has a key yet


@pytest.mark.requirement("C22")
def test_a_run_without_a_model(place: FirstDay) -> None:
    check_ran("run_without_a_model", place, place.bridle("run", "hi"), "run", "hi")
    assert place.is_untouched


@pytest.mark.parametrize("columns", [44, 80, 100])
def test_the_first_screen_without_a_model(place: FirstDay, columns: int) -> None:
    with sitting(place, columns=columns) as person:
        person.sees("or q to leave")
        person.types("q" + ENTER)
        assert person.ends() == 0
    check_seen(f"first_screen.{columns}", place, person)
    assert place.is_untouched


def test_a_slip_on_the_first_screen_is_asked_about_again(place: FirstDay) -> None:
    with sitting(place) as person:
        person.sees("or q to leave")
        person.types("9" + ENTER)
        person.sees('"9" is none of them.')
        person.types("q" + ENTER)
        assert person.ends() == 0
    assert place.is_untouched


def test_asking_the_first_screen_for_a_key_lists_who_has_one(place: FirstDay) -> None:
    with sitting(place) as person:
        person.sees("or q to leave")
        person.types("1" + ENTER)
        person.sees("Which provider?")
        person.types("q" + ENTER)
        assert person.ends() == 0
    check_seen("first_screen_key", place, person)


# With a key in the environment


async def test_a_run_with_a_key_that_does_not_say_which_model(place: FirstDay) -> None:
    ran = await asyncio.to_thread(place.bridle, "run", "hi", env={"OPENAI_API_KEY": KEY})
    check_ran("run_with_a_key_only", place, ran, "run", "hi")


async def test_a_run_with_a_key_and_a_model(place: FirstDay) -> None:
    words = ("run", "-m", "openai:scripted-large", "hi")
    spent = Spend(Usage(input_tokens=12, output_tokens=4))
    async with ModelServer.playing(answer(say("Hello from the model."), spent)) as server:
        configure(place, "openai", server)
        ran = await asyncio.to_thread(place.bridle, *words, env={"OPENAI_API_KEY": KEY})
    check_ran("run_with_a_key", place, ran, *words)
    assert server.chats[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("columns", [44, 80, 100])
async def test_a_key_in_the_environment_goes_straight_in_and_sends_nothing(
    place: FirstDay, columns: int
) -> None:
    def first_time() -> None:
        keys = {"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}
        with sitting(place, columns=columns, **keys) as person:
            person.sees("Type what you want.")
            person.types(CTRL_D)
            assert person.ends() == 0
        check_seen(f"first_screen_with_a_key.{columns}", place, person)
        assert KEY not in person.bytes.decode()

    async with ModelServer.playing(say("unused")) as server:
        configure(place, "openai", server)
        await asyncio.to_thread(first_time)
    assert server.requests == [], "nothing leaves the machine before the first word"


async def test_a_key_that_does_not_say_which_model_is_a_choice(place: FirstDay) -> None:
    def first_time() -> None:
        with sitting(place, OPENROUTER_API_KEY=KEY) as person:
            person.sees("or q to leave")
            assert server.requests == [], "nothing leaves the machine before the choice"
            person.types("1" + ENTER)
            person.sees("Use which?")
            person.types("2" + ENTER)
            person.sees("Saved: openrouter:scripted-small", "Type what you want.")
            person.types(CTRL_D)
            assert person.ends() == 0
        check_seen("first_screen_with_a_choice", place, person)

    async with ModelServer.playing(say("unused")) as server:
        configure(place, "openrouter", server)
        await asyncio.to_thread(first_time)
    assert [request.path for request in server.requests] == ["/v1/models"]


@pytest.mark.parametrize("columns", [44, 80, 100])
def test_the_second_start_says_only_what_changed(place: FirstDay, columns: int) -> None:
    def start(*words: str) -> str:
        with sitting(place, "-m", "demo", *words, columns=columns) as person:
            person.sees("Type what you want.")
            person.types(CTRL_D)
            assert person.ends() == 0
        lines = [line.rstrip() for line in person.text.splitlines()]
        return same(place, "\n".join(lines).strip("\n"))

    first, second, looser = start(), start(), start("--mode", "auto")
    (place.work / "AGENTS.md").write_text("Be brief.\n", encoding="utf-8")
    changed, still_waiting = start(), start()
    parts = (first, second, looser, changed, still_waiting)
    check_golden(f"starts.{columns}", "\n----\n".join(parts) + "\n")
    assert "mode" in looser, "what is weaker than usual is said every time"
    assert "AGENTS.md found, not trusted yet" in " ".join(still_waiting.split())


# With a local server


@pytest.mark.parametrize("columns", [44, 80, 100])
async def test_the_first_screen_with_a_local_server(place: FirstDay, columns: int) -> None:
    def first_time() -> None:
        with sitting(place, columns=columns) as person:
            person.sees("Use which?")
            person.types("3" + ENTER)
            person.waits(lambda: person.text.count("Use which?") == 2, "the question again")
            person.types(ENTER)
            person.sees("Type what you want.")
            person.types(CTRL_D)
            assert person.ends() == 0
        check_seen(f"local_server.{columns}", place, person)

    async with Ollama() as server:
        configure(place, "ollama", server)
        await asyncio.to_thread(first_time)
    assert server.chats == []


async def test_a_run_takes_the_local_server_that_is_there(place: FirstDay) -> None:
    async with Ollama() as server:
        configure(place, "ollama", server)
        ran = await asyncio.to_thread(place.bridle, "run", "hi")
    check_ran("run_with_a_local_server", place, ran, "run", "hi")


# In CI


def test_a_run_in_ci_is_one_json_object_and_a_plain_story(place: FirstDay) -> None:
    model = place.script(
        'call bash {"command": "touch built"}\n---\ncall bash {"command": "touch other"}\n---\nsay Done.\n'
    )
    words = ("run", "--json", "-m", model, "--allow", "bash(touch built)", "build it")
    ran = place.bridle(*words, env={"CI": "1"})
    result = {**ran.result, "events": [event["kind"] for event in ran.result["events"]]}
    shown = json.dumps(result, indent=1)
    check_ran("ci", place, Ran(ran.code, shown, ran.err), *words)
    assert (place.work / "built").exists()
    assert not (place.work / "other").exists()
    assert "\x1b" not in ran.out + ran.err


def test_ci_without_a_model_is_never_green(place: FirstDay) -> None:
    ran = place.bridle("run", "--json", "fix it", env={"CI": "1"})
    check_ran("ci_without_a_model", place, ran, "run", "--json", "fix it")


# Looking around


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("doctor_offline", ("doctor", "--offline")),
        ("help", ("--help",)),
        ("help_run", ("help", "run")),
    ],
)
def test_what_is_shown_to_somebody_who_looks_around(
    place: FirstDay, name: str, words: tuple[str, ...]
) -> None:
    check_ran(name, place, place.bridle(*words), *words)
    assert place.is_untouched
