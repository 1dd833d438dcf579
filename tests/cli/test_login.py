"""`bridle login` and `logout`: at a real terminal and through pipes, against servers on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.process.installation import install_command
from bridle.config.folders import folders
from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.credentials.records import SignIn
from bridle.providers.script import call, say
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran
from cli_terminal import Sitting, sitting
from credentials.authorization_server import AuthorizationServer, facts_of_call
from credentials.credential_kit import a_secret, made_key

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
T = TypeVar("T")


class KeyedServer(ModelServer):
    """A model server that wants a key it knows."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.good: set[str] = set()

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.good:
            return await reply.whole(
                401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}
            )
        return await super().answer(request, reply)


@pytest.fixture
def secret() -> str:
    return a_secret(20)


def configured(place: Place, server: ModelServer, *lines: str, key_env: str | None = "WORK_KEY") -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    variable = [f'key_env = "{key_env}"'] if key_env else []
    text = "\n".join(["[providers.work]", f'base_url = "{server.url}"', *variable, *lines])
    (folder / "config.toml").write_text(text + "\n", encoding="utf-8")


async def bridle(place: Place, *words: str, stdin: str = "", **env: str) -> Ran:
    return await asyncio.to_thread(place.bridle, *words, stdin=stdin, env=env)


async def at_terminal(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


def store(place: Place) -> Path:
    return place.home / ".config/bridle/creds.enc"


def nowhere(place: Place, secret: str, *texts: str) -> None:
    """The secret stands in no text, and in no file below the home."""
    assert all(secret not in text for text in texts)
    for path in place.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert secret.encode() not in path.read_bytes(), path


# A key


@pytest.mark.requirement("C10", "G36.3", "H13.5", "G36.1")
async def test_a_key_from_stdin_is_checked_stored_and_used_and_appears_nowhere(
    place: Place, secret: str
) -> None:
    async with KeyedServer.playing(call("bash", command="env"), say(f"The key is {secret}.")) as server:
        server.good = {secret}
        configured(place, server)
        stored = await bridle(place, "login", "work", stdin=f"{secret}\n")
        assert (stored.code, stored.out, stored.err) == (0, "Stored. Its models: bridle models work\n", "")
        assert [request.path for request in server.requests] == ["/v1/models"]
        ran = await bridle(place, "run", "-m", "work:some-model", "-y", "--json", "show me")
    assert ran.code == 0, ran.err
    assert {request.headers["authorization"] for request in server.chats} == {f"Bearer {secret}"}
    assert ran.result["finalResponse"].startswith("The key is «redacted")
    nowhere(place, secret, ran.out, ran.err)
    assert all(secret.encode() not in request.body for request in server.chats)


@pytest.mark.requirement("H6.5", "C10")
async def test_a_key_in_the_environment_goes_before_a_stored_one(place: Place, secret: str) -> None:
    other = a_secret(20)
    async with KeyedServer.playing(say("One."), say("Two.")) as server:
        server.good = {secret, other}
        configured(place, server)
        stored = await bridle(place, "login", "work", stdin=secret, WORK_KEY=other)
        assert stored.story == ["WORK_KEY is set and goes before what is stored."]
        for env, key in (({"WORK_KEY": other}, other), ({}, secret), ({"WORK_KEY": " "}, secret)):
            ran = await bridle(place, "run", "-m", "work:some-model", "hi", **env)
            assert ran.code == 0, ran.err
            assert server.chats[-1].headers["authorization"] == f"Bearer {key}"


async def test_a_key_that_is_refused_is_not_stored(place: Place, secret: str) -> None:
    async with KeyedServer.playing(say("unused")) as server:
        configured(place, server)
        ran = await bridle(place, "login", "work", stdin=secret)
    assert (ran.code, ran.out) == (4, "")
    assert ran.story == ["work refused it (401). Nothing was stored."]
    assert not store(place).exists()


async def test_a_key_that_cannot_be_checked_is_stored_only_when_asked_for(place: Place, secret: str) -> None:
    async with KeyedServer.playing(say("unused")) as server:
        configured(place, server)
    ran = await bridle(place, "login", "work", stdin=secret)
    assert ran.code == 5
    assert ran.story[-1] == (
        "It could not be checked, and nothing was stored. Unchecked: bridle login work --no-check"
    )
    assert not store(place).exists()
    assert (await bridle(place, "login", "work", "--no-check", stdin=secret)).code == 0
    assert store(place).exists()


@pytest.mark.parametrize(
    ("words", "stdin", "sentence"),
    [
        (("login",), "", "Which provider? bridle login PROVIDER; bridle models lists them"),
        (("login", "openai"), "", "No key was given; nothing was stored"),
        (
            ("login", "openai"),
            "two words",
            "That is no key: it holds characters that no key has. Nothing was stored",
        ),
        (("login", "openai"), "k" * 70_000, "What came in is too long for key"),
        (("login", "nobody"), "k", 'There is no provider "nobody". Known: '),
        (
            ("login", "ollama"),
            "k",
            "ollama runs on this machine and needs no key. Its models: bridle models ollama",
        ),
        (
            ("login", "openai", "--device"),
            "",
            "openai has no account to sign in with: set providers.openai.oauth",
        ),
        (("logout",), "", "Of which provider? bridle logout PROVIDER"),
        (("logout", "openai"), "", "Nothing is stored for openai"),
        (("login", "--check", "openai"), "", "Nothing is stored for openai"),
        (("login", "--export", "f"), "", "Nothing is stored, so nothing was exported"),
        (("login", "--import", "missing"), "", "missing cannot be read (No such file or directory)"),
        (("login", "--import", "-"), "no export", "What came in is no export: bridle login --export FILE"),
        (("login", "--lock", "machine"), "", "Set BRIDLE_MACHINE_KEY first"),
        (("login", "--lock", "passphrase"), "", "A passphrase is needed: set BRIDLE_PASSPHRASE"),
        (("creds", "add", "openai", "me", "the-key"), "", "A key is never a word of a command"),
        (("creds", "frobnicate"), "", "See: bridle help login"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_makes_nothing(
    place: Place, words: tuple[str, ...], stdin: str, sentence: str
) -> None:
    ran = place.bridle(*words, stdin=stdin)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.story
    assert line.startswith(sentence)
    assert os.listdir(place.home) == []


def test_there_is_no_option_that_takes_a_key(place: Place) -> None:
    for words in (("--key", "abc"), ("--key=abc",), ("--api-key", "abc"), ("openai", "abc")):
        ran = place.bridle("login", *words)
        assert ran.code == 2
        assert not store(place).exists()


# Listing, checking, forgetting


@pytest.mark.requirement("G36.3")
async def test_what_is_stored_is_listed_without_secrets_and_forgotten_on_demand(
    place: Place, secret: str
) -> None:
    for name in ("openai", "groq"):
        assert place.bridle("login", name, "--no-check", "--account", "mine", stdin=secret).code == 0
    listed = place.bridle("login", "--list")
    assert [line.split()[:3] for line in listed.out.splitlines()[:2]] == [
        ["groq", "key", "mine"],
        ["openai", "key", "mine"],
    ]
    assert listed.out.splitlines()[-1] == (
        f"Locked with the key in {place.data}/machine.key, which Bridle made by itself. Keys are never shown."
    )
    assert place.bridle("creds", "list").out == listed.out
    rows = place.bridle("login", "--list", "--json").result
    assert [(row["provider"], row["kind"], row["account"]) for row in rows["credentials"]] == [
        ("groq", "key", "mine"),
        ("openai", "key", "mine"),
    ]
    assert (rows["store"], rows["lock"]) == ("encrypted", "automatic")
    nowhere(place, secret, listed.out, json.dumps(rows))
    gone = place.bridle("logout", "groq", env={"GROQ_API_KEY": secret})
    assert (gone.code, gone.out) == (0, "Forgotten: groq. GROQ_API_KEY is still set.\n")
    assert place.bridle("creds", "delete", "openai", "mine").out == "Forgotten: openai.\n"
    assert place.bridle("login", "--list").out == "Nothing is stored. Connect a provider: bridle login\n"
    assert not store(place).exists()


async def test_stored_keys_are_checked_and_a_bad_one_decides_the_exit_code(place: Place, secret: str) -> None:
    async with KeyedServer.playing(say("unused")) as server:
        server.good = {secret}
        configured(place, server)
        await bridle(place, "login", "work", "--no-check", stdin=secret)
        good = await bridle(place, "login", "--check")
        server.good.clear()
        bad = await bridle(place, "login", "--check", "work", "--json", WORK_KEY=a_secret())
    assert (good.code, good.out) == (0, "ok    work  lists 2 models\n")
    assert bad.code == 4
    (row,) = bad.result["credentials"]
    assert row == {
        "provider": "work",
        "ok": False,
        "text": "work refused the key from bridle login (401). Check it, or run: bridle login work",
    }
    nowhere(place, secret, good.out, bad.out)


async def test_a_stored_key_that_is_refused_in_a_run_says_where_it_is_from(place: Place, secret: str) -> None:
    async with KeyedServer.playing(say("unused")) as server:
        configured(place, server)
        await bridle(place, "login", "work", "--no-check", stdin=secret)
        ran = await bridle(place, "run", "-m", "work:some-model", "--json", "hi")
    assert (ran.code, ran.result["reason"]) == (4, "BadCredentials")
    assert "work refused the key from bridle login (401). Check it, or run: bridle login work" in ran.err


def test_models_shows_a_stored_key_and_a_run_without_a_model_names_it(place: Place, secret: str) -> None:
    place.bridle("login", "groq", "--no-check", stdin=secret)
    listed = place.bridle("models")
    assert [line for line in listed.out.splitlines() if "groq" in line] == [
        "✓ groq         key from bridle login"
    ]
    ran = place.bridle("run", "hi")
    assert ran.code == 4
    assert "A key for groq is there (bridle login); which of its models? bridle models groq" in ran.err


# What locks it


@pytest.mark.requirement("G36.4")
async def test_a_passphrase_of_the_environment_locks_a_new_store_and_without_it_a_run_is_refused(
    place: Place, secret: str
) -> None:
    phrase = a_secret()
    async with KeyedServer.playing(say("One."), say("Two.")) as server:
        server.good = {secret}
        configured(place, server)
        words = ("run", "-m", "work:some-model", "--json", "hi")
        assert (await bridle(place, "login", "work", stdin=secret, BRIDLE_PASSPHRASE=phrase)).code == 0
        assert (await bridle(place, *words, BRIDLE_PASSPHRASE=phrase)).code == 0
        locked = await bridle(place, *words)
        wrong = await bridle(place, *words, BRIDLE_PASSPHRASE=a_secret())
        listed = await bridle(place, "login", "--list")
    assert (locked.code, locked.result["reason"]) == (4, "SessionsLocked")
    assert "Your sessions are locked: set BRIDLE_PASSPHRASE. Nothing was changed." in locked.err
    assert (wrong.code, wrong.result["reason"]) == (4, "SessionsWrongKey")
    assert "BRIDLE_PASSPHRASE does not open your sessions. Nothing was changed." in wrong.err
    assert f"The stored keys in {store(place)} are locked: set BRIDLE_PASSPHRASE." in listed.err
    nowhere(place, phrase, locked.err, wrong.err, listed.err)


@pytest.mark.requirement("G36.4")
def test_the_lock_is_changed_and_the_list_says_so(place: Place, secret: str) -> None:
    place.bridle("login", "groq", "--no-check", stdin=secret)
    key = {"BRIDLE_MACHINE_KEY": made_key()}
    changed = place.bridle("login", "--lock", "machine", env=key)
    assert (changed.code, changed.out) == (0, "Locked with BRIDLE_MACHINE_KEY.\n")
    assert place.bridle("login", "--list", env=key).out.startswith("groq")
    refused = place.bridle("login", "--list")
    assert (refused.code, refused.out) == (4, "")
    bad = place.bridle("login", "--list", env={"BRIDLE_MACHINE_KEY": "no key at all"})
    assert bad.code == 4
    (line,) = bad.story
    assert line.startswith("BRIDLE_MACHINE_KEY is no key: 32 bytes are needed")


@pytest.mark.requirement("G36.2")
def test_the_keychain_without_its_extra_is_one_sentence(place: Place, secret: str) -> None:
    words = ("login", "groq", "--no-check", "--set", "credentials.store=keyring")
    ran = place.bridle(*words, stdin=secret)
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == [
        f"The system keychain needs a package more. Install it: {install_command('keyring')}"
    ]


def test_a_project_cannot_choose_the_store_or_where_people_sign_in(place: Place) -> None:
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text(
        'credentials.store = "keyring"\n[providers.openai.oauth]\nclient_id = "evil"\ntoken_url = "https://evil.example/"\n'
    )
    ran = place.bridle("config", "validate")
    assert "credentials.store" in ran.out + ran.err
    assert "providers" in ran.out + ran.err
    shown = place.bridle("config", "show")
    assert "evil" not in shown.out


# From one machine to another


def test_everything_moves_in_one_file_that_only_its_passphrase_opens(
    place: Place, secret: str, tmp_path: Path
) -> None:
    phrase = {"BRIDLE_PASSPHRASE": a_secret()}
    for name in ("openai", "groq"):
        place.bridle("login", name, "--no-check", stdin=secret)
    exported = place.bridle("login", "--export", "keys.bridle", env=phrase)
    assert exported.code == 0, exported.err
    assert exported.story == [
        "Exported: groq, openai. Only that passphrase opens it: bridle login --import FILE"
    ]
    file = place.work / "keys.bridle"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret.encode() not in file.read_bytes()
    again = place.bridle("login", "--export", "keys.bridle", env=phrase)
    assert (again.code, again.story) == (2, ["keys.bridle is there already; nothing was written"])
    (tmp_path / "else").mkdir()
    elsewhere = Place(tmp_path / "else")
    elsewhere.bridle("login", "groq", "--no-check", stdin=a_secret())
    wrong = elsewhere.bridle("login", "--import", str(file), env={"BRIDLE_PASSPHRASE": a_secret()})
    assert (wrong.code, wrong.story) == (
        4,
        [f"That passphrase does not open the stored keys in {file}. Nothing was changed."],
    )
    taken = elsewhere.bridle("login", "--import", str(file), env=phrase)
    assert (taken.code, taken.out) == (0, "Stored: groq, openai. Replaced: groq.\n")
    assert [
        row["provider"] for row in elsewhere.bridle("login", "--list", "--json").result["credentials"]
    ] == [
        "groq",
        "openai",
    ]
    spoilt = file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1])
    file.write_bytes(spoilt)
    assert elsewhere.bridle("login", "--import", str(file), env=phrase).code == 4


def test_forgetting_everything_where_nothing_is_stored_says_so(place: Place) -> None:
    assert place.bridle("logout", "--all") == (0, "Nothing is stored.\n", "")


def test_an_export_goes_through_a_pipe(place: Place, secret: str, tmp_path: Path) -> None:
    phrase = {"BRIDLE_PASSPHRASE": a_secret()}
    place.bridle("login", "groq", "--no-check", stdin=secret)
    (tmp_path / "else").mkdir()
    elsewhere = Place(tmp_path / "else")
    sent = subprocess.run(
        [*BRIDLE, "login", "--export", "-"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(**phrase),
        timeout=TIMEOUT_S,
        check=True,
    )
    taken = subprocess.run(
        [*BRIDLE, "creds", "import", "-"],
        input=sent.stdout,
        capture_output=True,
        cwd=elsewhere.work,
        env=elsewhere.environment(**phrase),
        timeout=TIMEOUT_S,
        check=True,
    )
    assert taken.stdout == b"Stored: groq.\n"


# At a terminal


def typed_key(person: Sitting, secret: str) -> None:
    person.sees("Key (hidden) ›")
    person.types(secret + ENTER)


async def test_a_person_chooses_pastes_and_picks_a_model_and_the_key_is_never_on_the_screen(
    place: Place, secret: str
) -> None:
    def sits() -> str:
        with sitting(place, "login") as person:
            person.sees("OPENAI_API_KEY", "Which provider?")
            person.types("wor" + ENTER)
            typed_key(person, secret)
            person.sees("Stored.", "Use which?")
            person.types("2" + ENTER)
            assert person.ends() == 0
            assert person.modes == person.modes_found
            return person.text + person.bytes.decode()

    async with KeyedServer.playing(say("Hello.")) as server:
        server.good = {secret}
        configured(place, server)
        text = await at_terminal(sits)
        assert "Default model: work:scripted-small. Change it with /model." in text
        ran = await bridle(place, "run", "hi")
    assert (ran.code, ran.out) == (0, "Hello.\n")
    nowhere(place, secret, text)


async def test_ctrl_c_at_the_hidden_prompt_leaves_and_gives_the_echo_back(place: Place) -> None:
    def sits() -> None:
        with sitting(place, "login", "openai") as person:
            person.sees("Key (hidden) ›")
            person.types("half" + CTRL_C)
            assert person.ends() == 130
            assert person.modes == person.modes_found
            assert "half" not in person.text

    await at_terminal(sits)
    assert os.listdir(place.home) == []


async def test_a_store_is_locked_with_a_passphrase_typed_twice_and_opened_with_it(
    place: Place, secret: str
) -> None:
    phrase = a_secret(10)
    place.bridle("login", "groq", "--no-check", stdin=secret)

    def locks() -> str:
        with sitting(place, "login", "--lock", "passphrase") as person:
            person.sees("The new passphrase (hidden) ›")
            person.types(phrase + ENTER)
            person.sees("The same again ›")
            person.types(phrase + ENTER)
            person.sees("Locked with a passphrase.")
            assert person.ends() == 0
            return person.text

    def opens() -> str:
        with sitting(place, "login", "--list") as person:
            person.sees("Passphrase (hidden) ›")
            person.types(phrase + ENTER)
            person.sees("groq")
            assert person.ends() == 0
            return person.text

    assert phrase not in await at_terminal(locks)
    assert phrase not in await at_terminal(opens)


async def test_a_session_asks_for_the_passphrase_first_and_goes_on_with_the_stored_key(
    place: Place, secret: str
) -> None:
    phrase = a_secret(10)

    def talks() -> str:
        with sitting(place, "-m", "work:some-model", GROQ_API_KEY=a_secret()) as person:
            person.sees("Passphrase for your stored keys (hidden; Enter goes on without) ›")
            person.types("wrong" + ENTER)
            person.waits(lambda: person.text.count("Passphrase for") == 2, "a second question")
            person.sees("That is not it.")
            person.types(phrase + ENTER)
            person.sees("Type what you want.")
            person.types("hello" + ENTER)
            person.sees("Hello from the model.")
            person.types(CTRL_D)
            assert person.ends() == 0
            return person.text + person.bytes.decode()

    async with KeyedServer.playing(say("Hello from the model.")) as server:
        server.good = {secret}
        configured(place, server)
        await bridle(place, "login", "work", stdin=secret, BRIDLE_PASSPHRASE=phrase)
        text = await at_terminal(talks)
    assert "key from bridle login (also found: GROQ_API_KEY; switch with /model)" in " ".join(text.split())
    assert {request.headers["authorization"] for request in server.chats} == {f"Bearer {secret}"}
    nowhere(place, phrase, text)
    nowhere(place, secret, text)


async def test_the_first_screen_takes_a_key_and_goes_on_talking(place: Place, secret: str) -> None:
    def sits() -> str:
        with sitting(place) as person:
            person.sees("Paste an API key", "or q to leave")
            person.types("1" + ENTER)
            person.sees("Which provider?")
            person.types("work" + ENTER)
            typed_key(person, secret)
            person.sees("Stored.", "Use which?")
            person.types(ENTER)
            person.sees("Saved: work:scripted-large", "Type what you want.")
            person.types("hello" + ENTER)
            person.sees("Hello from the model.")
            person.types(CTRL_D)
            assert person.ends() == 0
            return person.text + person.bytes.decode()

    async with KeyedServer.playing(say("Hello from the model.")) as server:
        server.good = {secret}
        configured(place, server)
        text = await at_terminal(sits)
    assert {request.headers["authorization"] for request in server.chats} == {f"Bearer {secret}"}
    nowhere(place, secret, text)


# An account


def signs_in_at(server: AuthorizationServer, *, authorize: bool = True) -> list[str]:
    lines = ["[providers.work.oauth]", 'client_id = "bridle-test"', f'token_url = "{server.origin}/token"']
    lines.append(f'device_url = "{server.origin}/device"')
    return [*lines, f'authorize_url = "{server.origin}/authorize"'] if authorize else lines


@pytest.mark.requirement("H13.1", "H13.2", "H13.3")
async def test_a_person_signs_in_by_code_where_no_browser_is_and_the_token_is_used_and_renewed(
    place: Place,
) -> None:
    async with (
        AuthorizationServer(lasts_s=30) as accounts,
        KeyedServer.playing(say("One."), say("Two.")) as server,
    ):
        accounts.device = {"interval": 1}
        server.good = accounts.access
        configured(place, server, *signs_in_at(accounts), key_env=None)
        signed_in = await bridle(place, "login", "work")
        assert signed_in.code == 0, signed_in.err
        assert f"open   {accounts.origin}/activate\nand type this code there   WDJB-MJHT\n" in signed_in.out
        assert "Waiting, 15 minutes at most." in signed_in.out
        (first,) = accounts.access
        listed = await bridle(place, "login", "--list")
        assert listed.out.split()[:2] == ["work", "account"]
        for _ in range(2):  # a token of 30 s is renewed before each request
            ran = await bridle(place, "run", "-m", "work:some-model", "hi")
            assert ran.code == 0, ran.err
    assert [form["grant_type"] for form in accounts.forms if "refresh_token" in form] == ["refresh_token"] * 2
    used = [request.headers["authorization"].removeprefix("Bearer ") for request in server.chats]
    assert len({first, *used}) == 3
    for token in accounts.access | accounts.renewing:
        nowhere(place, token, signed_in.out, listed.out)


@pytest.mark.requirement("H13.1")
@pytest.mark.requirement("H6.2")
async def test_a_browser_is_opened_with_the_address_and_nothing_secret_around_it(
    place: Place, secret: str
) -> None:
    browser = place.home / "browser"
    browser.write_text(
        "#!/usr/bin/env python3\nimport os, sys, urllib.request\n"
        f"open({str(place.home / 'seen')!r}, 'w').write(repr((sys.argv[1:], dict(os.environ))))\n"
        "urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1]).read()\n"
    )
    browser.chmod(0o700)
    async with AuthorizationServer() as accounts, KeyedServer.playing(say("One.")) as server:
        server.good = accounts.access
        configured(place, server, *signs_in_at(accounts), key_env=None)
        words = ("login", "work", "--browser")
        signed_in = await bridle(
            place, *words, BROWSER=str(browser), BRIDLE_PASSPHRASE=secret, OTHER_KEY=secret
        )
    assert signed_in.code == 0, signed_in.err
    assert "To sign in at work, open this page:" in signed_in.out
    seen = (place.home / "seen").read_text()
    address = next(line.strip() for line in signed_in.out.splitlines() if "code_challenge=" in line)
    assert repr(address) in seen
    assert secret not in seen
    assert facts_of_call(address)["code_challenge_method"] == "S256"


async def test_a_sign_in_that_was_ended_elsewhere_says_what_to_type(place: Place) -> None:
    async with AuthorizationServer() as accounts, KeyedServer.playing(say("unused")) as server:
        configured(place, server, *signs_in_at(accounts), key_env="WORK_KEY")
        stored = StoredKeys(where=folders(place.environment()), env={}, clock=SystemClock())
        ended = SignIn(provider="work", access_token=a_secret(), refresh_token=a_secret(), expires_at_ms=1)
        stored.store.put(ended)
        ran = await bridle(place, "run", "-m", "work:some-model", "--json", "hi")
    assert (ran.code, ran.result["reason"]) == (4, "SignInEnded")
    assert "The sign-in at work has ended. Sign in again: bridle login work" in ran.err
    assert server.requests == []


async def test_a_key_can_be_stored_where_an_account_would_do(place: Place, secret: str) -> None:
    async with AuthorizationServer() as accounts, KeyedServer.playing(say("One.")) as server:
        server.good = {secret}
        configured(place, server, *signs_in_at(accounts), key_env=None)
        for option in ("--key", "--stdin"):
            assert (await bridle(place, "login", "work", option, stdin=secret)).code == 0
        ran = await bridle(place, "run", "-m", "work:some-model", "hi")
    assert (ran.code, accounts.requests) == (0, [])


async def test_an_account_that_is_refused_stores_nothing(place: Place) -> None:
    async with (
        AuthorizationServer(device_answers=["access_denied"]) as accounts,
        ModelServer.playing(say("x")) as server,
    ):
        accounts.device = {"interval": 1}
        configured(place, server, *signs_in_at(accounts), key_env=None)
        ran = await bridle(place, "login", "work", "--device")
    assert (ran.code, ran.story) == (4, ["Signing in at work did not work: it was not allowed."])
    assert not store(place).exists()


@pytest.mark.requirement("H6.5")
async def test_a_key_in_the_environment_goes_before_an_account(place: Place, secret: str) -> None:
    async with AuthorizationServer(lasts_s=1) as accounts, KeyedServer.playing(say("One.")) as server:
        accounts.device = {"interval": 1}
        server.good = {secret}
        configured(place, server, *signs_in_at(accounts))
        assert (await bridle(place, "login", "work", "--device", "--no-check")).code == 0
        asked = len(accounts.requests)
        ran = await bridle(place, "run", "-m", "work:some-model", "hi", WORK_KEY=secret)
    assert ran.code == 0, ran.err
    assert len(accounts.requests) == asked, "nobody renews what is not needed"


async def test_a_key_typed_inside_a_conversation_is_hidden_and_used_at_once(
    place: Place, secret: str
) -> None:
    async with KeyedServer.playing(say("With a key.")) as server:
        server.good = {secret}
        configured(place, server)

        def work() -> str:
            with sitting(place, "-m", "demo") as person:
                person.sees("Type what you want.")
                person.types("/login work\r")
                person.sees("Key (hidden)")
                person.types(f"{secret}\r")
                person.sees("Stored.", "Use which?")
                person.types(ENTER)
                person.sees("Default model: work:scripted-large.")
                person.waits(lambda: person.text.rstrip().endswith("/model.\n›"), "the prompt again")
                person.types("/model work:some-model\r")
                person.sees("model    work:some-model")
                person.types("hello\r")
                person.sees("With a key.")
                person.types(CTRL_C * 2)
                assert person.ends() == 0
                return person.text

        shown = await at_terminal(work)
    nowhere(place, secret, shown)
    assert server.chats[-1].headers["authorization"] == f"Bearer {secret}"
