"""`bridle debug request`: the next request, byte for byte, and nothing else happens."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from bridle.config.folders import folders
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.servers import ModelServer
from bridle.providers.raw_dump import RawDump, RawExchange, read_dump
from bridle.providers.script import fail, say
from bridle.sessions.archive.beside_store import dumps_of
from cli_kit import Place
from credentials.credential_kit import made_key


def settings(place: Place, server: ModelServer, more: str = "") -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'[providers.work]\nbase_url = "{server.origin}/v1"\n{more}\n')


@pytest.mark.requirement("T18.13")
async def test_what_is_printed_is_what_is_sent(place: Place) -> None:
    key = made_key()
    async with ModelServer.playing(say("One."), say("Two.")) as server:
        settings(place, server, f'api_key_env = "WORK_KEY"\nheaders = {{ x-own = "{key}2" }}')
        env = {"WORK_KEY": key}

        async def bridle(*words: str):
            return await asyncio.to_thread(place.bridle, *words, env=env)

        first = await bridle("debug", "request", "-m", "work:m", "hello")
        assert first.code == 0, first.err
        assert not server.chats, "nothing was asked"
        assert not place.data.exists(), "nothing was stored"
        ran = await bridle("run", "-m", "work:m", "hello")
        assert ran.code == 0, ran.err
        assert first.out.encode() == server.chats[0].body
        stored = place.events(place.only_session())
        again = await bridle("debug", "request", "-c", "and now?")
        assert again.code == 0, again.err
        assert place.events(place.only_session()) == stored, "a session that is looked at stays as it is"
        ran = await bridle("run", "-c", "and now?")
        assert ran.code == 0, ran.err
        assert again.out.encode() == server.chats[1].body
    assert key not in first.out + first.err
    assert "authorization: Bearer ********" in first.err
    assert "x-own: ********" in first.err
    assert first.story[0] == f"POST {server.origin}/v1/chat/completions"
    assert first.story[-1].endswith("not sent, nothing was stored")
    assert json.loads(first.out)["model"] == "m"


def test_the_scripted_model_is_asked_over_no_network(place: Place) -> None:
    ran = place.bridle("debug", "request", "-m", "demo", "hi")
    assert ran.code == 0
    assert json.loads(ran.out)["messages"][-1]["content"][0]["text"] == "hi"
    assert ran.story[0] == "demo:hello is asked over no network"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("debug", "request", "--fork", "-m", "demo"), "--fork makes a session"),
        (("debug", "requst"), "requst"),
        (("debug", "request", "-r", "nosuch"), "nosuch"),
    ],
)
def test_mistakes_are_one_sentence(place: Place, words: tuple[str, ...], told: str) -> None:
    ran = place.bridle(*words)
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)
    assert told in ran.story[0]


def test_where_nothing_can_be_shown_both_actions_are_named(place: Place) -> None:
    ran = place.bridle("debug")
    assert ran.code == 4
    lines = ran.err.splitlines()
    assert lines[0].endswith("bridle debug request -m MODEL PROMPT")
    assert lines[1].endswith("bridle debug raw ID")
    assert "no model is configured" in lines[2]


def test_builders_are_told_of_it(place: Place) -> None:
    assert "bridle debug request" in place.bridle("help", "builders").out
    assert place.bridle("help", "debug").out.startswith("bridle debug")


# Raw dumps


@pytest.mark.requirement("G48.4", "G48.5")
async def test_what_went_over_the_wire_is_kept_where_a_person_wants_it(place: Place) -> None:
    key, secret_looking = made_key(), "ghp_" + "a1B2c3" * 6
    async with ModelServer.playing(say(f"It is {secret_looking}."), say(f"Your key is {key}.")) as server:
        settings(place, server, 'api_key_env = "WORK_KEY"\n[debug]\nraw = true')
        env = {"WORK_KEY": key}

        async def bridle(*words: str):
            return await asyncio.to_thread(place.bridle, *words, env=env)

        first = await bridle("run", "-m", "work:m", "violet?")
        assert first.code == 0, first.err
        session = place.only_session()
        assert f"bridle debug raw {session}" in first.err, "it is said"
        again = await bridle("run", "-c", "and now?")
        assert again.code == 0, again.err
        shown = await bridle("debug", "raw")
        assert shown.code == 0, shown.err
        assert shown == await bridle("debug", "raw", session)
    one, two = shown.stream
    assert one["request"].encode() == server.chats[0].body
    assert (one["url"], one["status"]) == (f"{server.origin}/v1/chat/completions", 200)
    assert one["answer"].startswith("data: ")
    assert secret_looking in one["answer"], "what a vendor says is kept as it was"
    assert key not in shown.out, "and the key that Bridle sends is not"
    assert "«redacted:key»" in two["answer"]
    (dump,) = (place.home / ".local/state/bridle/debug").iterdir()
    assert dump.name == f"{session}.jsonl"
    assert (dump.stat().st_mode & 0o777, dump.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    lines = dump.read_bytes().splitlines()
    assert len(lines) == 2
    assert all(isinstance(json.loads(line), str) and b"violet" not in line for line in lines)
    dump.write_bytes(b"\n".join([lines[0], lines[1][:-9]]))
    assert len(place.bridle("debug", "raw").stream) == 1, "what a crash cut off is left out"
    dump.write_bytes(lines[0].replace(lines[0][40:44], b"AAAA") + b"\n")
    damaged = place.bridle("debug", "raw")
    assert (damaged.code, damaged.out) == (1, "")
    assert damaged.story == [f"{dump} line 1 is not what was written."]
    assert place.bridle("sessions", "delete", session, "--yes").code == 0
    assert not dump.exists(), "it goes with its session"


async def test_a_refusal_and_a_server_that_is_gone_are_kept_too(place: Place) -> None:
    async with ModelServer.playing(fail("bad_credentials")) as server:
        settings(place, server, "[debug]\nraw = true")
        ran = await asyncio.to_thread(place.bridle, "run", "-m", "work:m", "hi", "--session", "one")
        assert ran.code == 4, ran.err
    ran = await asyncio.to_thread(place.bridle, "run", "-m", "work:m", "hi", "--session", "one")
    assert ran.code == 5, ran.err
    refused, *unreached = place.bridle("debug", "raw").stream
    assert refused["status"] == 401
    assert refused["answer"]
    assert unreached
    assert all(one["status"] == 0 and one["problem"] for one in unreached)


async def test_nothing_is_kept_by_itself_and_no_project_turns_it_on(place: Place) -> None:
    async with ModelServer.playing(say("One.")) as server:
        settings(place, server)
        (place.work / ".bridle").mkdir()
        (place.work / ".bridle/config.toml").write_text("[debug]\nraw = true\n")
        ran = await asyncio.to_thread(place.bridle, "run", "-m", "work:m", "hi")
        assert ran.code == 0, ran.err
    assert not (place.home / ".local/state/bridle/debug").exists()
    shown = place.bridle("debug", "raw")
    assert (shown.code, shown.out) == (1, "")
    assert "bridle config set debug.raw true" in shown.err


def test_the_file_of_a_dump_is_bounded_and_the_newest_stays(tmp_path: Path) -> None:
    state, key = folders({"BRIDLE_HOME": str(tmp_path)}).state, os.urandom(32)
    heard: list[str] = []
    dump = RawDump(
        dumps_of(state, "sess_1"),
        "sess_1",
        key=lambda: key,
        secrets=tuple,
        clock=FakeClock(),
        hear=heard.append,
        most_bytes=3_000,
    )
    for number in range(20):
        dump.keep(RawExchange(url="u", request=b"x" * 500, status=number))
    kept = [one.status for one in read_dump(dumps_of(state, "sess_1"), "sess_1", key)]
    assert kept == list(range(20 - len(kept), 20))
    assert sum(file.stat().st_size for file in (tmp_path / "state/debug").iterdir()) <= 6_000
    shutil.rmtree(tmp_path / "state/debug")
    (tmp_path / "state/debug").write_text("in the way")
    for _ in range(2):
        dump.keep(RawExchange(url="u", request=b"x"))
    assert len(heard) == 1, "a dump that cannot be written fails nothing"
