"""Whatever a person reads on the command line does nothing to their terminal: one hostile text through every door."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bridle.base.text.terminal_text import visible
from bridle.conformance.servers import JsonServer
from cli_kit import Place
from cli_terminal import sitting
from hostile_text import A_NAME, HOSTILE, ONE_LINE, check_none_obeyed, check_safe

pytestmark = pytest.mark.through_engine(quick=False)


def quoted(text: str) -> str:
    """A string of JSON and of TOML at once."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


QUOTED = quoted(ONE_LINE)
MODEL = "demo:it.script"


class Door(NamedTuple):
    """A place where people read: what lies there, and the command that shows it."""

    name: str
    words: tuple[str, ...]
    lay: Callable[[Place], object] = lambda _place: None


def user_settings(text: str) -> Callable[[Place], object]:
    def lay(place: Place) -> None:
        folder = place.home / ".config/bridle"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(text, encoding="utf-8")

    return lay


def project(name: str, text: str) -> Callable[[Place], object]:
    def lay(place: Place) -> None:
        subprocess.run(
            ["git", "init", "--quiet", str(place.work)],
            env={"PATH": os.environ["PATH"], "HOME": str(place.home)},
            check=True,
        )
        (place.work / name).parent.mkdir(exist_ok=True)
        (place.work / name).write_text(text, encoding="utf-8")

    return lay


def script(text: str) -> Callable[[Place], object]:
    return lambda place: place.script(text)


def calls(*wanted: tuple[str, str, str]) -> Callable[[Place], object]:
    """A model that makes these calls, each with one argument."""
    lines = [f"call {tool} {json.dumps({name: value})}\n" for tool, name, value in wanted]
    return script("".join(lines) + "---\nsay ok\n")


def run_before(prompt: str = "hello") -> Callable[[Place], object]:
    """A session of the past, with everything hostile in it."""

    def lay(place: Place) -> None:
        calls(
            ("bash", "command", f"echo {ONE_LINE}"),
            ("read_file", "path", ONE_LINE),
            ("nobody", "a", ONE_LINE),
        )(place)
        before = (place.work / "it.script").read_text(encoding="utf-8")
        place.script(f"say {ONE_LINE}\n{before}\n---\nthink {ONE_LINE}\nsay {ONE_LINE}\n")
        assert place.bridle("run", "-m", MODEL, "--mode", "auto", prompt).code == 0

    return lay


def lock_file(place: Place) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "approved.lock").write_text(f"{ONE_LINE}\n", encoding="utf-8")


HOOK = f"printf '%b' '\\033[31mred\\033[0m\\r\\u202e'; printf '%s' {QUOTED!s} >&2; exit 2"
HOOKS = f'[[hooks]]\nevent = "PreToolUse"\ntool = "bash"\ncommand = {quoted(HOOK)}\n'
HOOK_OF_PROJECT = f'[[hooks]]\nevent = "PreToolUse"\ntool = "bash"\ncommand = [{quoted("./" + A_NAME)}]\n'
RULES = f'[[permissions.rules]]\ntool = "bash"\ncommand = {QUOTED}\nverdict = "ask"\n'

DOORS = (
    Door("an unknown verb", (ONE_LINE.replace(" ", ""),)),
    Door("an unknown option", ("run", f"--{ONE_LINE}")),
    Door("an option with a value", ("run", "--mode", ONE_LINE, "hello")),
    Door("an unknown help page", ("help", ONE_LINE)),
    Door("a missing folder", ("run", "-C", A_NAME, "hello")),
    Door("a missing session", ("sessions", "show", ONE_LINE)),
    Door("a missing session to resume", ("run", "-r", ONE_LINE, "hello")),
    Door("a missing prompt file", ("run", "--prompt-file", A_NAME)),
    Door("a missing schema", ("run", "--output-schema", A_NAME, "hello")),
    Door("a missing image", ("run", "-i", A_NAME, "hello")),
    Door("a missing settings file", ("config", "show", "--config", A_NAME)),
    Door("a missing model", ("run", "-m", ONE_LINE, "hello")),
    Door("a missing provider", ("run", "-m", f"{ONE_LINE}:x", "hello")),
    Door("a missing script", ("run", "-m", f"demo:{A_NAME}", "hello")),
    Door("a missing provider to list", ("models", ONE_LINE)),
    Door("a missing profile", ("config", "show", "--profile", ONE_LINE)),
    Door("a missing grant", ("permissions", "revoke", ONE_LINE)),
    Door("nothing to trust", ("trust", "ack", A_NAME)),
    Door("nothing to revoke", ("trust", "revoke", A_NAME)),
    Door("a missing lock file", ("trust", "verify", "--lockfile", A_NAME)),
    Door("a missing event", ("hooks", "test", ONE_LINE)),
    Door("a shell nobody has", ("completion", ONE_LINE)),
    Door("a setting given", ("config", "show", "--set", f"model={ONE_LINE}")),
    Door("a setting given that is none", ("config", "show", "--set", f"{ONE_LINE}=1")),
    Door("a setting that is none", ("config", "get", ONE_LINE)),
    Door("a value that is none", ("config", "set", "mode", ONE_LINE)),
    Door("a value", ("config", "get", "model"), user_settings(f"model = {QUOTED}\n")),
    Door("all values", ("config", "show", "--origin"), user_settings(f"model = {QUOTED}\n")),
    Door("hostile keys", ("config", "validate"), user_settings(f"{QUOTED} = 1\n[providers.{QUOTED}]\na = 1\n")),
    Door("hostile settings", ("config", "validate"), user_settings(f"mode = {QUOTED}\n")),
    Door("a provider's name", ("models",), user_settings(f'[providers.{QUOTED}]\nwire = "openai_chat"\n')),
    Door("a key's name", ("models", "--keys"), user_settings(
        f'[providers.a]\nwire = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = {QUOTED}\n')),
    Door("doctor", ("doctor", "--offline"), user_settings(f"model = {QUOTED}\n{QUOTED} = 1\n")),
    Door("rules", ("permissions", "list"), user_settings(RULES)),
    Door("an explained command", ("permissions", "explain", "bash", json.dumps({"command": f"ls {ONE_LINE}"}))),
    Door("an explained path", ("permissions", "explain", "write_file", json.dumps({"path": A_NAME, "content": ""}))),
    Door("an explained tool", ("permissions", "explain", ONE_LINE, "{}")),
    Door("hooks", ("hooks", "list"), user_settings(HOOKS)),
    Door("a tried hook", ("hooks", "test", "PreToolUse"), user_settings(HOOKS)),
    Door("things to trust", ("trust", "list"), lambda place: (
        user_settings(HOOK_OF_PROJECT)(place), project(A_NAME, "words\n")(place))),
    Door("a file to trust", ("trust", "diff", "AGENTS.md"), project("AGENTS.md", f"# Rules\n{HOSTILE}\n")),
    Door("settings to trust", ("trust", "diff", ".bridle/config.toml"), project(
        ".bridle/config.toml", f"[mcp_servers.{QUOTED}]\ncommand = [{QUOTED}]\n")),
    Door("settings that are ignored", ("run", "-m", MODEL, "hello"), lambda place: (
        script("say ok\n")(place), project(".bridle/config.toml", f'{QUOTED} = 1\nmode = "yolo"\n')(place))),
    Door("calls", ("run", "-m", MODEL, "hello"), calls(
        ("bash", "command", f"secret-tool lookup {ONE_LINE}"), ("read_file", "path", ONE_LINE),
        ("grep", "pattern", ONE_LINE), ("ls", "path", ONE_LINE), ("glob", "pattern", ONE_LINE))),
    Door("calls that are asked about", ("run", "-m", MODEL, "hello"), calls(
        ("bash", "command", f"touch {ONE_LINE}"), ("read_file", "path", f"/{A_NAME}"))),
    Door("a tool nobody knows", ("run", "-m", MODEL, "hello"), calls(("nobody", "path", ONE_LINE))),
    Door("a script that is none", ("run", "-m", MODEL, "hello"), script(f"{ONE_LINE}\n")),
    Door("a hook that says no", ("run", "-m", MODEL, "--mode", "auto", "hello"), lambda place: (
        user_settings(HOOKS)(place), calls(("bash", "command", "ls"))(place))),
    Door("sessions", ("sessions", "list"), run_before(HOSTILE)),
    Door("sessions everywhere", ("sessions", "list", "--all"), run_before(HOSTILE)),
    Door("a damaged lock file", ("trust", "list"), lock_file),
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_nothing_that_is_printed_is_obeyed(place: Place, door: Door) -> None:
    door.lay(place)
    ran = place.bridle(*door.words)
    assert "Traceback" not in ran.err
    if door.name == "a damaged lock file":  # says where, never what
        assert "approved.lock" in ran.err
        return
    check_safe(ran.out + ran.err)


def test_an_answer_is_written_out_at_a_terminal_and_left_alone_in_a_pipe(place: Place) -> None:
    place.script(f"think {ONE_LINE}\nsay {ONE_LINE}\n")
    piped = place.bridle("run", "-m", MODEL, "hello")
    assert piped.out == f"[scripted] {ONE_LINE}\n"
    with sitting(place, "run", "--plain", "-m", MODEL, "hello") as person:
        assert person.ends() == 0
        check_safe(person.bytes.decode())
    with sitting(place, "run", "-m", MODEL, "hello") as person:
        assert person.ends() == 0
        drawn = re.sub(r"\x1b\[(K|\d*[AC]|[0-9;]*m)|\r", "", person.bytes.decode())  # what we draw with
        check_safe(drawn)
        assert "⟨ESC⟩[31mred" in drawn


def test_a_session_of_the_past_is_safe_to_read(place: Place) -> None:
    run_before(HOSTILE)(place)
    ran = place.bridle("sessions", "show", place.only_session())
    check_safe(ran.out + ran.err)
    assert ran.out.count("[31mred") >= 5


@pytest.mark.parametrize(
    "words",
    [
        ("config", "path"),
        ("config", "validate"),
        ("config", "set", "mode", "auto"),
        ("doctor", "--offline", "--set", f"{ONE_LINE}=1"),
        ("sessions", "list", "--all"),
        ("trust", "diff", "AGENTS.md"),
        ("permissions", "explain", "read_file", '{"path": "../b"}'),
        ("run", "-m", "demo:none", "hello"),
        ("-r",),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_folders_with_such_names_are_safe_to_read_about(tmp_path: Path, words: tuple[str, ...]) -> None:
    root = tmp_path / A_NAME
    root.mkdir()
    place = Place(root)
    project("AGENTS.md", f"{ONE_LINE}\n")(place)
    user_settings('mode = "default"\n')(place)
    place.script("say ok\n")
    place.bridle("run", "-m", MODEL, HOSTILE)
    ran = place.bridle(*words)
    assert "Traceback" not in ran.err
    check_safe(ran.out + ran.err)


def test_the_first_lines_at_a_terminal_are_safe(tmp_path: Path) -> None:
    """The folder, the branch, a question of trust, an answer, the title and the history, as they are drawn."""
    root = tmp_path / A_NAME
    root.mkdir()
    place = Place(root)
    project("AGENTS.md", f"# Rules\n{HOSTILE}\n")(place)
    (place.work / ".git/HEAD").write_text(f"ref: refs/heads/{ONE_LINE}\n", encoding="utf-8")
    place.script(f"say {ONE_LINE}\n")
    place.bridle("run", "-m", MODEL, HOSTILE)
    with sitting(place, "-c", "-m", MODEL) as person:
        person.sees("Type what you want.")
        person.types("/sessions\r")
        person.sees("Go to one: /resume")
        person.types("hello\r")
        person.sees("1 step")
        person.types("/quit\r")
        assert person.ends() == 0
        check_none_obeyed(person.bytes.decode())


@pytest.fixture
async def server() -> AsyncIterator[JsonServer]:
    routes = {
        "GET /v1/models": {"data": [{"id": ONE_LINE}, {"id": "plain"}]},
        "GET /api/tags": {"models": [{"name": ONE_LINE, "size": 1}]},
    }
    async with JsonServer(routes) as running:
        yield running


@pytest.mark.parametrize(
    "words", [("models", "work"), ("models", "work:nothing-like-it" + ONE_LINE), ("doctor",)], ids=repr
)
async def test_what_a_server_says_is_safe_to_read(
    place: Place, server: JsonServer, words: tuple[str, ...]
) -> None:
    at = ("--set", f"providers.work.base_url={server.origin}/v1", "--set", "providers.work.key_env=WORK_KEY")
    chosen = ("--set", f"model=work:{ONE_LINE}")
    ran = await asyncio.to_thread(place.bridle, *words, *at, *chosen, env={"WORK_KEY": "a" * 20})
    assert "Traceback" not in ran.err
    check_safe(ran.out + ran.err)


EXPLAINED = json.dumps({"command": f"ls {ONE_LINE}"})
JSON_DOORS: dict[str, tuple[str, ...]] = {
    "settings": ("config", "show", "--json"),
    "sessions": ("sessions", "list", "--json"),
    "a session": ("sessions", "show", "--json", "SESSION"),
    "an export": ("sessions", "export", "SESSION"),
    "its events": ("sessions", "export", "--format", "events", "SESSION"),
    "its chain": ("sessions", "export", "--format", "chain", "SESSION"),
    "a run": ("run", "--on-ask", "deny", "-m", MODEL, "--json", ONE_LINE),
    "a run as it goes": ("run", "--on-ask", "deny", "-m", MODEL, "--stream-json", ONE_LINE),
    "an explained call": ("permissions", "explain", "--json", "bash", EXPLAINED),
    "explained calls": ("permissions", "explain", "--batch"),
    "rules": ("permissions", "list", "--json"),
    "hooks": ("hooks", "list", "--json"),
    "things to trust": ("trust", "list", "--json"),
    "the sandbox": ("sandbox", "--json"),
}
SHORTENED = ("sessions", "hooks", "the sandbox")
"""Doors that show only the beginning of such a text, or none of it."""


def lay_all(place: Place) -> None:
    run_before(HOSTILE)(place)
    project(A_NAME, "words\n")(place)
    user_settings(
        f"model = {QUOTED}\n{HOOKS}{HOOK_OF_PROJECT}{RULES}[sandbox]\nwritable = [{quoted('/' + A_NAME)}]\n"
    )(place)


@pytest.mark.parametrize("door", JSON_DOORS)
def test_json_at_a_terminal_is_safe_and_says_the_text_itself(place: Place, door: str) -> None:
    lay_all(place)
    words = [place.only_session() if word == "SESSION" else word for word in JSON_DOORS[door]]
    stdin = f'{{"tool": "bash", "input": {EXPLAINED}}}\n' if "--batch" in words else ""
    if stdin:
        printed = place.bridle(*words, stdin=stdin).out
    else:
        with sitting(place, *words) as person:
            person.ends()
            printed = person.bytes.decode().replace("\r\n", "\n")
    lines = [line for line in printed.splitlines() if line.startswith(("{", "["))]
    assert lines, printed
    assert [line for line in lines if visible(line) != line] == []
    known = [text for line in lines for text in strings_of(json.loads(line))]
    whole = [text for text in known if "\x1b[31mred\x1b[0m" in text and "\x9b31mC1\x7fdel\u202egnp" in text]
    assert whole or door in SHORTENED, known


def test_an_exported_page_is_safe_at_a_terminal_and_untouched_in_a_pipe(place: Place) -> None:
    lay_all(place)
    words = ("sessions", "export", "--format", "md", place.only_session())
    with sitting(place, *words) as person:
        assert person.ends() == 0
        check_safe(person.bytes.decode())


def strings_of(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, one in value.items():
                yield str(name)
                yield from strings_of(one)
        case list():
            for one in value:
                yield from strings_of(one)
        case _:
            pass
