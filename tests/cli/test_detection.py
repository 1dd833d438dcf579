"""Which model and which key a run gets when several say so, or nobody: the documented order, and the secrets file."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.providers.script import call, say
from cli_kit import Place, Ran
from cli_terminal import sitting
from credentials.credential_kit import a_secret, made_key

DOCS = Path(__file__).parents[2] / "docs/credentials.md"
ENTER = "\r"


class LocalServer(ModelServer):
    """Lists its models as vLLM does."""

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if request.path == "/v1/models":
            return await reply.whole(200, {"data": [{"id": "small-one", "owned_by": "vllm"}]})
        return await super().answer(request, reply)


def configure(place: Place, text: str) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text, encoding="utf-8")


def provider(name: str, server: ModelServer, *more: str) -> str:
    return "\n".join((f"[providers.{name}]", f'base_url = "{server.origin}/v1"', *more, ""))


async def run(place: Place, *words: str, **env: str) -> Ran:
    return await asyncio.to_thread(place.bridle, "run", *words, "hi", env=env)


def model_of(ran: Ran) -> str:
    """What the first line of the story says."""
    (line,) = [line for line in ran.story if line.startswith("model ")]
    return line.split(" · ")[0].removeprefix("model ")


@pytest.mark.requirement("H13.4")
async def test_the_model_is_the_first_of_flag_variable_settings_key_store_and_local_server(
    place: Place,
) -> None:
    async with ModelServer.playing(say("ok")) as server, LocalServer.playing(say("ok")) as local:
        work = provider("work", server, 'key_env = "WORK_KEY"')
        keyed = provider("zai", server)
        here = provider("vllm", local)
        env = {"WORK_KEY": a_secret(), "BRIDLE_MODEL": "work:from-variable", "ZAI_API_KEY": a_secret()}
        configure(place, f'model = "work:from-settings"\n{work}{keyed}{here}')
        assert model_of(await run(place, "-m", "work:from-flag", **env)) == "work:from-flag"
        assert model_of(await run(place, **env)) == "work:from-variable"
        del env["BRIDLE_MODEL"]
        assert model_of(await run(place, **env)) == "work:from-settings"
        configure(place, f"{work}{keyed}{here}")
        assert model_of(await run(place, **env)) == "zai:glm-4.6"
        del env["ZAI_API_KEY"]
        stored = await asyncio.to_thread(place.bridle, "login", "zai", "--no-check", stdin=a_secret())
        assert stored.code == 0
        assert model_of(await run(place, **env)) == "zai:glm-4.6"
        await asyncio.to_thread(place.bridle, "logout", "zai")
        assert model_of(await run(place, **env)) == "vllm:small-one"
    configure(place, work)
    nothing = await run(place, "--json", **env)
    assert (nothing.code, nothing.result["reason"]) == (4, "NoModel")
    order = DOCS.read_text(encoding="utf-8").partition("## Which model")[2].partition("\n## ")[0]
    words = ("`--model`", "`BRIDLE_MODEL`", "`model`", "key variable", "`bridle login`", "on this machine")
    places = [order.index(word) for word in words]
    assert places == sorted(places), "and the page says the same order"


class SecretProject:
    """A repository with a secrets file that everything is in order with, but nobody agreed to it yet."""

    def __init__(self, place: Place, secret: str) -> None:
        subprocess.run(
            ["git", "init", "-q", str(place.work)], env=place.environment(), check=True, capture_output=True
        )
        self.file = place.work / ".bridle-secrets/env"
        self.file.parent.mkdir()
        self.file.write_text(f"WORK_KEY={secret}\nFROM_FILE=yes-it-is\n")
        self.file.chmod(0o600)
        (place.work / ".gitignore").write_text(".bridle-secrets/\n")


def agree(place: Place) -> str:
    with sitting(place, "trust", "ack", ".bridle-secrets/env") as person:
        person.sees("want to: give the key WORK_KEY", "u use it")
        person.types("u" + ENTER)
        assert person.ends() == 0
        return person.text + person.bytes.decode()


@pytest.mark.requirement("G36.9")
async def test_a_secrets_file_that_was_agreed_to_gives_the_key_and_the_shell_wins(place: Place) -> None:
    secret, shell = a_secret(), a_secret()
    SecretProject(place, secret)
    script = (call("bash", command="env; cat .bridle-secrets/env"), say("ok"))
    words = ("-m", "work:some-model", "-y", "--json")
    async with ModelServer.playing(*script) as server:
        configure(place, provider("work", server, 'key_env = "WORK_KEY"'))
        unread = await run(place, *words)
        assert (unread.code, unread.result["reason"]) == (4, "NoKey")
        assert (
            "bridle: .bridle-secrets/env is not used: you have not agreed to what is in it "
            "(bridle trust ack .bridle-secrets/env)." in unread.err
        )
        assert server.chats == []
        shown = await asyncio.to_thread(agree, place)
        read = await run(place, *words)
        assert (read.code, read.result["finalResponse"]) == (0, "ok")
        assert "Keys of this project are in .bridle-secrets/env: WORK_KEY, FROM_FILE." in read.err
        won = await run(place, *words, WORK_KEY=shell)
        assert won.code == 0
        sent = [chat.headers["authorization"].removeprefix("Bearer ") for chat in server.chats]
        assert sent == [secret, secret, shell, shell]
        models = await asyncio.to_thread(place.bridle, "models")
        doctor = await asyncio.to_thread(place.bridle, "doctor", "--offline")
    assert "key from .bridle-secrets/env" in models.out
    assert "ok    secrets" in doctor.out
    everything = shown + read.out + read.err + models.out + doctor.out + doctor.err
    assert secret not in everything, "not even where a command prints it"
    assert "PATH=" in read.out
    (result,) = [one for one in read.result["events"] if one["kind"] == "ToolResult"]
    assert "FROM_FILE=yes" not in result["payload"]["content"].split("WORK_KEY")[0], "no tool gets it"


async def test_a_secrets_file_that_git_would_take_up_or_others_can_read_is_named_and_not_used(
    place: Place,
) -> None:
    project = SecretProject(place, a_secret())
    async with ModelServer.playing(say("ok")) as server:
        configure(place, provider("work", server, 'key_env = "WORK_KEY"'))
        await asyncio.to_thread(agree, place)
        (place.work / ".gitignore").unlink()
        committable = await run(place, "-m", "work:some-model")
        models = await asyncio.to_thread(place.bridle, "models")
        (place.work / ".gitignore").write_text(".bridle-secrets/\n")
        project.file.chmod(0o644)
        readable = await run(place, "-m", "work:some-model")
        doctor = await asyncio.to_thread(place.bridle, "doctor", "--offline")
        assert server.chats == []
    assert (committable.code, readable.code) == (4, 4)
    git = ".bridle-secrets/env is not used: git does not ignore it (add .bridle-secrets/ to .gitignore)."
    assert (f"bridle: {git}" in committable.err, git in models.err) == (True, True)
    private = ".bridle-secrets/env is not used: others can read it (chmod 600 .bridle-secrets/env)"
    assert (f"{private}." in readable.err, f"warn  secrets   {private}" in doctor.out) == (True, True)


def test_a_tracked_secrets_file_counts_as_one_that_git_takes_up(place: Place) -> None:
    SecretProject(place, a_secret())
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.invalid")
    for words in (("add", "-f", ".bridle-secrets/env"), ("commit", "-q", "-m", "one")):
        subprocess.run(
            [*git, *words], cwd=place.work, env=place.environment(), check=True, capture_output=True
        )
    agree(place)
    assert "git does not ignore it" in place.bridle("models").err


def test_a_lock_file_that_travels_never_names_it(place: Place) -> None:
    SecretProject(place, a_secret())
    agree(place)
    with sitting(place, "trust", "ack", "--emit-lockfile", "approved.lock") as person:
        assert person.ends() == 0
    assert ".bridle-secrets" not in (place.work / "approved.lock").read_text()
    assert place.bridle("trust", "verify", "--lockfile", "approved.lock").code == 0
    assert place.bridle("trust", "verify").code == 0


async def test_ci_starts_from_a_committed_lock_and_a_machine_key(place: Place) -> None:
    """What of the bootstrap needs no listening engine: nobody is asked, nothing is typed, nothing is left open."""
    secret = a_secret()
    env = {"BRIDLE_MACHINE_KEY": made_key()}
    (place.work / "AGENTS.md").write_text("Always say please.\n")
    with sitting(place, "trust", "ack", "--emit-lockfile", "approved.lock") as person:
        person.sees("u use it")
        person.types("u" + ENTER)
        assert person.ends() == 0
    (place.home / ".config/bridle/approved.lock").unlink()
    async with ModelServer.playing(say("ok")) as server:
        configure(place, provider("work", server))
        login = await asyncio.to_thread(place.bridle, "login", "work", stdin=secret, env=env)
        assert (login.code, login.err) == (0, "")
        words = ("-m", "work:some-model", "--require-trust", "--lockfile", "approved.lock")
        ran = await run(place, *words, **env)
        assert (ran.code, ran.out) == (0, "ok\n")
        assert server.chats[0].headers["authorization"] == f"Bearer {secret}"
        assert b"Always say please." in server.chats[0].body
        for spoilt, code in (
            ({}, 4),
            ({"BRIDLE_MACHINE_KEY": "short"}, 4),
            ({"BRIDLE_MACHINE_KEY": made_key(3)}, 4),
        ):
            assert (await run(place, *words, **spoilt)).code == code
        (place.work / "AGENTS.md").write_text("Never say please.\n")
        assert (await run(place, *words, **env)).code == 3
        verified = await asyncio.to_thread(place.bridle, "trust", "verify", "--lockfile", "approved.lock")
        assert verified.code == 3


async def test_a_file_that_is_named_gives_keys_and_env_files_are_never_read_by_themselves(
    place: Place,
) -> None:
    secret, shell = a_secret(), a_secret()
    (place.work / ".env").write_text(f"# ours\nexport WORK_KEY='{secret}'\nAND_THIS=yes\n")
    words = ("-m", "work:some-model", "-y", "--json")
    named = (*words, "--env-file", ".env")
    async with ModelServer.playing(call("bash", command="env"), say("ok")) as server:
        configure(place, provider("work", server, 'key_env = "WORK_KEY"'))
        unasked = await run(place, *words)
        read = await run(place, *named)
        won = await run(place, *named, WORK_KEY=shell)
        sent = [chat.headers["authorization"].removeprefix("Bearer ") for chat in server.chats]
    assert (unasked.code, unasked.result["reason"]) == (4, "NoKey")
    assert (read.code, won.code, sent) == (0, 0, [secret, secret, shell, shell])
    assert secret not in read.out + read.err
    assert "PATH=" in read.out
    assert "AND_THIS=yes" not in read.out, "commands get no more of it than of the environment"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        (b"A=1\nnot a line\n", "line 2 of it is not NAME=value"),
        (b"A=\xff\n", "it is not UTF-8 text"),
        (b"A=" + b"1" * 70_000, "it is too large"),
    ],
)
def test_an_env_file_that_cannot_be_used_is_one_sentence(
    place: Place, content: bytes | None, why: str
) -> None:
    if content is not None:
        (place.work / "keys").write_bytes(content)
    ran = place.bridle("run", "-m", "demo", "--env-file", "keys", "hi")
    assert (ran.code, ran.out, ran.story) == (2, "", [f"--env-file keys cannot be used: {why}"])
