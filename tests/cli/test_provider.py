"""`bridle run` against a model server over HTTP: what is sent, what is printed, what goes wrong and how it is said."""

import asyncio
import base64
import json
import re
import signal
import socket
import struct
import subprocess
import time
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridle.conformance.servers import JsonServer, LoopbackServer, ModelServer, Received
from bridle.protocol.events import CostIncremented, StepFailed, ToolResult
from bridle.protocol.messages import Usage
from bridle.providers.script import Spend, answer, call, fail, say, think
from cli_kit import BRIDLE, Place, Ran, Running

VARIABLE = "WORK_SERVICE_KEY"
KEY = "sk-" + "Qx7w" * 6 + "Zp"
SHAPELESS = "plain" + "Zz42" * 6
FRAGMENT = 6
STDIN_WAIT_S = 3  # how long a prompt waits for more on stdin
CHATS = "POST /v1/chat/completions"
MODELS = "GET /v1/models"


class Office(Place):
    """A place with a provider `work` in the user's own config, a key for it in a variable, and a model chosen."""

    def environment(self, **also: str) -> dict[str, str]:
        return super().environment(**{VARIABLE: KEY, "BRIDLE_MODEL": "work:some-model", **also})

    def configure(self, base_url: str) -> None:
        folder = self.home / ".config/bridle"
        folder.mkdir(parents=True, exist_ok=True)
        section = f'[providers.work]\nbase_url = "{base_url}"\nkey_env = "{VARIABLE}"\n'
        (folder / "config.toml").write_text(section, encoding="utf-8")

    async def run(self, *words: str, **env: str) -> Ran:
        """`bridle run WORDS…` to its end, while the servers of this event loop answer."""
        return await asyncio.to_thread(self.bridle, "run", *words, env=env)

    async def ask(self, server: LoopbackServer, *words: str, **env: str) -> Ran:
        """The same, with `work` being the server."""
        self.configure(f"{server.origin}/v1")
        return await self.run(*words, **env)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def roles(request: Received) -> list[str]:
    return [message["role"] for message in request.json["messages"]]


def results(request: Received) -> list[str]:
    """What the calls of a request gave, in order."""
    return [message["content"] for message in request.json["messages"] if message["role"] == "tool"]


def shows_the_key(text: str | bytes, key: str = KEY) -> bool:
    """Whether any piece of the key is in a text."""
    data = text.encode() if isinstance(text, str) else text
    pieces = {key[at : at + FRAGMENT].encode() for at in range(len(key) - FRAGMENT + 1)}
    return any(piece in data for piece in pieces)


# Answers


@pytest.mark.requirement("G11.5", "D8.3", "D1.2")
async def test_a_model_from_config_and_environment_answers_on_stdout(office: Office) -> None:
    async with ModelServer.playing(answer(think("Hm."), say("Grüße ✓\nand more."))) as server:
        ran = await office.ask(server, "hello", "there")
    assert (ran.code, ran.out) == (0, "Grüße ✓\nand more.\n")
    assert ran.story[-1].startswith("done ")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json["model"] == "some-model"
    assert roles(request) == ["system", "user"]
    assert request.json["messages"][-1]["content"] == "hello there"


async def test_an_option_chooses_another_model_of_the_same_provider(office: Office) -> None:
    async with ModelServer.playing(say("ok")) as server:
        ran = await office.ask(server, "-m", "work:vendor/large:free", "x")
    assert (ran.code, server.chats[0].json["model"]) == (0, "vendor/large:free")


@pytest.mark.requirement("G6.4")
async def test_calls_over_several_steps_run_and_their_results_come_back_in_order(office: Office) -> None:
    for name in "abc":
        (office.work / f"{name}.txt").write_text(f"this is {name}\n")
    reads = answer(say("Reading."), *(call("read_file", path=f"{name}.txt") for name in "abc"))
    shell = answer(call("bash", command="echo out; echo err >&2; exit 3"), call("bash", command="pwd"))
    write = call("write_file", path="new.txt", content="täxt\n")
    async with ModelServer.playing(reads, shell, write, say("All done.")) as server:
        ran = await office.ask(server, "-y", "work")
    assert (ran.code, ran.out) == (0, "All done.\n")
    assert (office.work / "new.txt").read_text() == "täxt\n"
    assert len(server.chats) == 4
    told = "\n".join(ran.story)
    assert "ran      read a.txt" in told
    assert "ran      pwd" in told
    assert "exit 3" in told
    last = server.chats[-1]
    assert roles(last) == [
        "system", "user", "assistant", "tool", "tool", "tool", "assistant", "tool", "tool", "assistant", "tool",
    ]  # fmt: skip
    first, second, third, failed, folder, _written = results(last)
    assert ["this is a" in first, "this is b" in second, "this is c" in third] == [True, True, True]
    assert "out" in failed
    assert "err" in failed
    assert str(office.work) in folder


async def test_a_long_answer_arrives_whole(office: Office) -> None:
    text = "".join(f"line {number} of a long answer ✓\n" for number in range(30_000))
    async with ModelServer.playing(say(text, chunk=17)) as server:
        ran = await office.ask(server, "-q", "go on")
    assert (ran.code, ran.out, ran.err) == (0, text + "\n", "")


async def test_both_json_forms_carry_the_answer_and_the_exit_code(office: Office) -> None:
    async with ModelServer.playing(call("ls"), say("Done.")) as server:
        whole = await office.ask(server, "--json", "x")
        streamed = await office.ask(server, "--stream-json", "x")
    result, last = whole.result, streamed.stream[-1]
    assert last["eventType"] == "run.result"
    for one, ran in ((result, whole), (last, streamed)):
        assert (one["exit_code"], one["success"], one["reason"], ran.code) == (0, True, None, 0)
        assert one["finalResponse"] == "Done."
    assert [event["kind"] for event in result["events"]].count("StepStarted") == 2


async def test_tokens_are_counted_and_an_unknown_price_is_not_zero(office: Office) -> None:
    first = Usage(input_tokens=90, output_tokens=20, cache_read_tokens=10)
    second = Usage(input_tokens=5, output_tokens=7, cache_read_tokens=100)
    async with ModelServer.playing(
        answer(call("ls"), Spend(first)), answer(say("Done."), Spend(second))
    ) as server:
        ran = await office.ask(server, "--json", "x")
    assert ran.result["cost"] == {
        "usd": None,
        "input_tokens": 95,
        "output_tokens": 27,
        "cache_read_tokens": 110,
        "cache_write_tokens": 0,
        "by_model": {"work:some-model": None},
    }
    costs = [
        one.event for one in office.events(office.only_session()) if isinstance(one.event, CostIncremented)
    ]
    assert [(cost.provider, cost.model, cost.usage, cost.usd) for cost in costs] == [
        ("work", "some-model", first, None),
        ("work", "some-model", second, None),
    ]


async def test_a_call_that_nobody_allowed_is_said_to_be_not_run(office: Office) -> None:
    async with ModelServer.playing(call("bash", command="touch made"), say("I could not.")) as server:
        ran = await office.ask(server, "--json", "x")
    assert not (office.work / "made").exists()
    assert ran.result["denied"] == [{"tool": "bash", "call": "touch made", "reason": "NoApprover"}]
    (line,) = [line for line in ran.story if "touch made" in line]
    assert line.startswith("not run  touch made")
    assert "exit" not in line
    assert [line for line in ran.story if line.startswith("ran ")] == []
    (result,) = results(server.chats[1])
    assert "not run" in result


async def test_a_prompt_does_not_wait_for_an_open_stdin(office: Office) -> None:
    async with ModelServer.playing(say("hello")) as server:
        office.configure(server.url)
        process = subprocess.Popen(
            [*BRIDLE, "run", "say", "hello"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=office.work,
            env=office.environment(),
        )
        try:
            assert process.stdout is not None
            out = await asyncio.wait_for(asyncio.to_thread(process.stdout.read), STDIN_WAIT_S + 5)
        finally:
            process.kill()
            process.communicate()
    assert (out, len(server.chats)) == (b"hello\n", 1)


# Failures


class Trouble(NamedTuple):
    """A server that goes wrong, how often it is asked, and what a person and a program are told."""

    server: Callable[[], LoopbackServer]
    requests: int
    code: int
    reason: str
    sentence: str


def refusing(status: int, body: dict[str, Any], **listing: Any) -> Callable[[], LoopbackServer]:
    return lambda: JsonServer({CHATS: body, **listing}, status={CHATS: status})


def said(message: str, **more: Any) -> dict[str, Any]:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
    }


def echoed(request: Received) -> dict[str, Any]:
    return said(f"Incorrect API key provided: {request.headers['authorization']}.", code="invalid_api_key")


QUOTA = said("You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota")
NO_MODEL = said("The model `some-model` does not exist.", code="model_not_found")
NAMES = {"object": "list", "data": [{"id": "some-model-2"}, {"id": "other"}]}
UNREADABLE = "work sent an answer that cannot be read"

TROUBLES = {
    "bad key": Trouble(
        lambda: JsonServer({CHATS: echoed}, status={CHATS: 401}),
        1, 4, "BadCredentials", f"work refused the key from {VARIABLE} (401).",
    ),
    "forbidden": Trouble(
        refusing(403, said("Not for you.")),
        1, 4, "BadCredentials", f"work refused the key from {VARIABLE} (403).",
    ),
    "no credit": Trouble(
        refusing(429, QUOTA),
        1, 4, "NoCredit",
        "work says this account has no credit left (429, insufficient_quota). Trying again will not help.",
    ),
    "unknown model": Trouble(
        refusing(404, NO_MODEL, **{MODELS: NAMES}),
        2, 2, "UnknownModel", 'work has no model "some-model". Close: some-model-2.  All: bridle models work',
    ),
    "bad request": Trouble(
        refusing(400, said("No such field. More words")),
        1, 5, "ProviderRejected", "work refused the request (400): No such field.",
    ),
    "rate limit for ever": Trouble(
        lambda: ModelServer.playing(fail("rate_limited", retry_after_s=0.01)),
        5, 5, "StillRateLimited", "work keeps asking us to wait (rate limit). Try again later.",
    ),
    "server error": Trouble(
        lambda: ModelServer.playing(fail("overloaded", status=500, retry_after_s=0.01)),
        5, 5, "Overloaded", "work is overloaded (500).",
    ),
    "overloaded": Trouble(
        lambda: ModelServer.playing(fail("overloaded", retry_after_s=0.01)),
        5, 5, "Overloaded", "work is overloaded (503).",
    ),
    "web page": Trouble(
        lambda: ModelServer.playing(say("x"), faults=["page"]),
        1, 5, "BadStream", f"{UNREADABLE}: it is a web page; check base_url.",
    ),
    "garbage": Trouble(
        lambda: ModelServer.playing(say("x"), faults=["garbage"]),
        1, 5, "BadStream", f"{UNREADABLE}: it is not JSON.",
    ),
    "garbage after words": Trouble(
        lambda: ModelServer.playing(answer(say("half an answer"), fail("garbage"))),
        1, 5, "BadStream", f"{UNREADABLE}: it is not JSON.",
    ),
    "nothing": Trouble(
        lambda: ModelServer.playing(say("x"), faults=["empty"]),
        1, 5, "BadStream", f"{UNREADABLE}: it is empty.",
    ),
    "another address": Trouble(
        lambda: ModelServer.playing(say("x"), faults=["redirect"]),
        1, 5, "ProviderRejected",
        "work refused the request (307): it redirects to another address; check base_url.",
    ),
}  # fmt: skip


@pytest.mark.requirement("T6.4")
@pytest.mark.parametrize("form", ["--json", "--stream-json"])
@pytest.mark.parametrize("name", TROUBLES)
async def test_a_provider_error_is_never_a_success_and_both_json_forms_say_so(
    office: Office, name: str, form: str
) -> None:
    trouble = TROUBLES[name]
    async with trouble.server() as server:
        ran = await office.ask(server, form, "x")
    last = ran.stream[-1]
    assert (ran.code, last["exit_code"]) == (trouble.code, trouble.code)
    assert (last["success"], last["reason"], last["error"]["name"]) == (False, trouble.reason, trouble.reason)
    assert trouble.sentence in last["error"]["message"]
    assert last["finalResponse"] == "", "nothing partial is kept"
    assert trouble.sentence in ran.err
    assert (last.get("eventType"), "events" in last) in {("run.result", False), (None, True)}
    assert len(server.requests) == trouble.requests
    assert "Traceback" not in ran.err
    assert "\x1b" not in ran.out + ran.err
    assert not shows_the_key(ran.out + ran.err)


async def test_a_bad_key_costs_one_request_and_two_seconds(office: Office) -> None:
    await office.run("-m", "demo", "x")  # the home is made and the files are warm: only the key is measured
    async with JsonServer({CHATS: echoed}, status={CHATS: 401}) as server:
        begun = time.perf_counter()
        ran = await office.ask(server, "x")
        took_s = time.perf_counter() - begun
    assert (ran.code, ran.out, len(server.requests)) == (4, "", 1)
    assert took_s < 2
    assert f"work refused the key from {VARIABLE} (401). Check it, or run: bridle login work" in ran.err
    assert not shows_the_key(ran.err)


async def test_a_bad_key_is_one_sentence(office: Office) -> None:
    async with ModelServer.playing(fail("bad_credentials")) as server:
        ran = await office.ask(server, "x")
    assert len([line for line in ran.story if VARIABLE in line]) == 1


async def test_without_a_key_nothing_is_sent(office: Office) -> None:
    async with ModelServer.playing(say("x")) as server:
        ran = await office.ask(server, "--json", "x", **{VARIABLE: ""})
    assert (ran.code, ran.result["reason"], server.connections) == (4, "NoKey", 0)
    assert VARIABLE in ran.result["error"]["message"]


@pytest.mark.parametrize("key", [KEY + "\nx-more: 1", KEY + " two", KEY + "ä"])
async def test_a_key_that_is_none_is_not_sent_and_not_shown(office: Office, key: str) -> None:
    async with ModelServer.playing(say("x")) as server:
        ran = await office.ask(server, "--json", "x", **{VARIABLE: key})
    assert (ran.code, ran.result["reason"], server.connections) == (4, "UnusableKey", 0)
    assert not shows_the_key(ran.out + ran.err)


async def test_a_dead_server_is_named_within_five_seconds(office: Office) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, and nobody listens
        origin = f"http://127.0.0.1:{bound.getsockname()[1]}"
        office.configure(f"{origin}/v1")
        begun = time.perf_counter()
        ran = await office.run("--json", "--set", "providers.work.local=true", "x")
        took_s = time.perf_counter() - begun
    assert (ran.code, ran.result["exit_code"], ran.result["reason"]) == (5, 5, "ProviderUnreachable")
    assert took_s < 5
    assert ran.result["error"]["message"] == f"Cannot reach {origin} (connection refused)."
    assert f"Cannot reach {origin} (connection refused). Trying again in " in ran.err
    assert "(try 2 of 2)." in ran.err


async def test_a_local_server_that_does_not_run_is_named_with_the_command_that_starts_it(
    office: Office,
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, and nobody listens
        origin = f"http://127.0.0.1:{bound.getsockname()[1]}"
        ran = await office.run(
            "--set", f"providers.ollama.base_url={origin}/v1", "-m", "ollama:small", "--json", "x"
        )
    sentence = f"Cannot reach {origin} (connection refused). Is Ollama running?  ollama serve"
    assert (ran.code, ran.result["error"]["message"]) == (5, sentence)
    assert any(sentence in line for line in ran.story)


@pytest.mark.requirement("G47.11", "D8.72")
async def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks_and_said_once(office: Office) -> None:
    limit = fail("rate_limited", times=1, retry_after_s=0.125)
    async with ModelServer.playing(answer(limit, say("Now."))) as server:
        ran = await office.ask(server, "x")
    assert (ran.code, ran.out, len(server.chats)) == (0, "Now.\n", 2)
    (line,) = [line for line in ran.story if "rate" in line]
    assert line == "work asks us to wait 0.125 s (rate limit, try 2 of 5). Ctrl-C stops."
    (failure,) = [
        one.event for one in office.events(office.only_session()) if isinstance(one.event, StepFailed)
    ]
    assert (failure.reason, failure.retry_in_ms) == ("RateLimited", 125)
    assert failure.message == (
        "Provider work rate-limited the request. Retrying in 0.125s… (Ctrl-C to cancel, /model to switch)."
    )
    assert server.chats[0].body == server.chats[1].body


async def test_a_cut_answer_is_asked_for_again_and_nothing_of_it_is_kept(office: Office) -> None:
    async with ModelServer.playing(say("A whole answer."), faults=["cut"]) as server:
        ran = await office.ask(server, "--json", "x")
    assert (ran.code, ran.result["finalResponse"], len(server.chats)) == (0, "A whole answer.", 2)
    assert f"{UNREADABLE}: it ended in the middle." in ran.err
    assert server.chats[0].body == server.chats[1].body, "the half answer is not sent back"


async def test_a_reset_connection_is_tried_again(office: Office) -> None:
    async with ModelServer.playing(say("Now."), faults=["reset"]) as server:
        ran = await office.ask(server, "x")
    assert (ran.code, ran.out, len(server.chats)) == (0, "Now.\n", 2)


async def test_a_reset_in_a_later_step_runs_no_call_twice(office: Office) -> None:
    append = call("bash", command="echo once >> count")
    async with ModelServer.playing(append, say("Done."), faults=[None, "reset"]) as server:
        ran = await office.ask(server, "-y", "x")
    assert (ran.code, ran.out, len(server.chats)) == (0, "Done.\n", 3)
    assert (office.work / "count").read_text() == "once\n"


# Stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopping_ends_the_request_and_the_run_at_once(office: Office, number: signal.Signals) -> None:
    async with ModelServer.playing(say("word " * 1000, pace=50)) as server:
        office.configure(server.url)
        with office.started("run", "--stream-json", "x") as running:
            await asyncio.to_thread(running.until, "TextDelta")
            (conversation,) = server.conversations
            begun = time.perf_counter()
            running.process.send_signal(number)
            await asyncio.wait_for(conversation, 5)  # ends when writing fails: the other side has closed
            ran = await asyncio.to_thread(running.end)
            took_s = time.perf_counter() - begun
    assert ran.code == 130
    assert took_s < 3
    last = json.loads(ran.out.splitlines()[-1])
    assert (last["eventType"], last["exit_code"], last["success"]) == ("run.result", 130, False)
    assert len(server.chats) == 1


async def test_stopping_ends_a_wait_between_attempts(office: Office) -> None:
    async with ModelServer.playing(fail("rate_limited", retry_after_s=25)) as server:
        office.configure(server.url)
        with office.started("run", "--stream-json", "x") as running:
            await asyncio.to_thread(running.until, "StepFailed")
            begun = time.perf_counter()
            ran = await asyncio.to_thread(running.signal, signal.SIGINT)
            took_s = time.perf_counter() - begun
    assert (ran.code, len(server.chats)) == (130, 1)
    assert took_s < 3


# Secrets


async def test_the_key_is_in_the_header_of_the_request_and_nowhere_else(office: Office) -> None:
    seen = ""
    async with ModelServer.playing(
        call("bash", command="env; cat /proc/self/environ; echo end"), say("word " * 100, pace=20)
    ) as server:
        office.configure(server.url)
        with office.started("run", "-y", "--stream-json", "look") as running:
            await asyncio.to_thread(running.until, "ToolResult")
            seen += _command_lines(running)
            await asyncio.to_thread(running.until, "TextDelta")
            ran = await asyncio.to_thread(running.signal, signal.SIGINT)
    seen += ran.out + ran.err + json.dumps(running.printed)
    exported = office.bridle("sessions", "export", office.only_session())
    shown = office.bridle("sessions", "show", office.only_session())
    assert (exported.code, shown.code) == (0, 0)
    assert not shows_the_key(seen + exported.out + shown.out)
    assert VARIABLE not in exported.out, "a command does not even learn the name"
    first, second = server.chats
    for request in (first, second):
        assert request.headers["authorization"] == f"Bearer {KEY}"
        others = {name: value for name, value in request.headers.items() if name != "authorization"}
        assert not shows_the_key(json.dumps(others) + request.path)
        assert not shows_the_key(request.body)
    (printed,) = results(second)
    assert "PATH=" in printed
    assert printed.removesuffix("</untrusted-tool-result>").rstrip().endswith("end")
    for file in office.home.rglob("*"):
        assert not (file.is_file() and shows_the_key(file.read_bytes())), file


def _command_lines(running: Running) -> str:
    """The command line of the process, and that of everything it started."""
    own = running.process.pid
    return "".join(
        entry.read_bytes().decode(errors="replace")
        for process in (own, *_children(own))
        if (entry := Path(f"/proc/{process}/cmdline")).exists()
    )


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children")
    return [int(number) for number in found.read_text().split()] if found.exists() else []


async def test_a_secret_that_a_command_prints_is_gone_before_the_next_request(office: Office) -> None:
    token = "ghp_" + "a1B2" * 9
    (office.work / "deploy.log").write_text(f"pushing with {token}\nok\n")
    commands = call("bash", command="cat deploy.log"), call("read_file", path="deploy.log")
    async with ModelServer.playing(answer(*commands), say(f"I saw {token} there.")) as server:
        ran = await office.ask(server, "-y", "--json", "look")
    printed, read = results(server.chats[1])
    for text in (printed, read):
        assert "pushing with «redacted:" in text
        assert "ok" in text
    everything = ran.out + ran.err + "".join(request.body.decode() for request in server.chats)
    assert token not in everything
    assert "«redacted:" in ran.result["finalResponse"]
    stored = [one.event for one in office.events(office.only_session()) if isinstance(one.event, ToolResult)]
    assert [token in result.content for result in stored] == [False, False]


async def test_a_key_of_any_shape_that_a_command_finds_in_our_process_stays_here(office: Office) -> None:
    command = r"tr '\0' '\n' < /proc/$PPID/environ; echo end"
    async with ModelServer.playing(call("bash", command=command), say("ok")) as server:
        ran = await office.ask(server, "-y", "x", **{VARIABLE: SHAPELESS})
    (printed,) = results(server.chats[1])
    whole = printed.removesuffix("</untrusted-tool-result>").rstrip().endswith("end")
    assert (ran.code, whole) == (0, True)
    assert SHAPELESS not in printed


@pytest.mark.parametrize("key", [KEY, SHAPELESS], ids=["known shape", "no shape"])
async def test_a_vendor_that_repeats_the_key_in_its_words_is_not_repeated(office: Office, key: str) -> None:
    def repeating(request: Received) -> dict[str, Any]:
        return said(f"Cannot use {request.headers['authorization'].removeprefix('Bearer ')} here")

    async with JsonServer({CHATS: repeating}, status={CHATS: 400}) as server:
        ran = await office.ask(server, "--json", "x", **{VARIABLE: key})
    assert (ran.code, ran.result["reason"]) == (5, "ProviderRejected")
    assert "Cannot use [redacted] here" in ran.result["error"]["message"]
    exported = office.bridle("sessions", "export", office.only_session())
    assert not shows_the_key(ran.out + ran.err + exported.out, key)


# The bytes of a request


def conversation_bytes(request: Received) -> bytes:
    """A request up to the end of its messages: what a later one must begin with."""
    head, tail = re.fullmatch(rb'(.*)(\],"stream":true.*)', request.body, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert json.loads(head + tail) == request.json
    return head


async def test_a_continued_session_sends_the_same_bytes_first(office: Office) -> None:
    (office.work / "a.txt").write_text("one\n")
    script = (answer(say("Reading."), call("read_file", path="a.txt")), say("One."), call("ls"), say("Two."))
    async with ModelServer.playing(*script) as server:
        first = await office.ask(server, "what is in a.txt?")
        second = await office.ask(server, "-c", "and now?")
    assert (first.out, second.out) == ("One.\n", "Two.\n")
    bodies = server.chats
    assert [len(request.json["messages"]) for request in bodies] == [2, 4, 6, 8]
    for earlier, later in pairwise(bodies):
        begins = conversation_bytes(earlier)
        assert later.body.startswith(begins + b",")
        assert later.body.endswith(earlier.body[len(begins) :]), "tools and settings are the same bytes"


@pytest.mark.requirement("D7.4")
async def test_images_follow_the_text_in_the_order_of_their_flags(office: Office) -> None:
    images = {"red.png": png(b"\xff\x00\x00"), "blue.png": png(b"\x00\x00\xff")}
    for name, data in images.items():
        (office.work / name).write_bytes(data)
    address = "https://example.invalid/cat.png"
    async with ModelServer.playing(say("A cat.")) as server:
        ran = await office.ask(server, "-i", "red.png", "-i", address, "-i", "blue.png", "what is it?")
    assert (ran.code, ran.out) == (0, "A cat.\n")
    urls = [
        "data:image/png;base64," + base64.b64encode(images["red.png"]).decode(),
        address,
        "data:image/png;base64," + base64.b64encode(images["blue.png"]).decode(),
    ]
    messages = server.chats[0].json["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[-1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is it?"},
            *({"type": "image_url", "image_url": {"url": url, "detail": "auto"}} for url in urls),
        ],
    }


def png(pixel: bytes) -> bytes:
    """A picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00" + pixel)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
