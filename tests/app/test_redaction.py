"""More than a hundred secrets, put together at run time, go through a real session by every way in. None stays."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.base.fs.sealed_file import unsealed
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.conformance.servers import ModelServer
from bridle.protocol.codec import encode_payload
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import ContextAdded, Notice, TextDelta, ToolResult
from bridle.providers.endpoints import Endpoint
from bridle.providers.failures import AskedProvider, refused
from bridle.providers.script import call, fail, say
from bridle.sessions.archive.export import jsonl
from cli_kit import Place
from secret_kit import Planted, planted
from tables import table

SECRETS = planted(5)
FILLER = "an ordinary line of output, as programs print them by the thousand\n" * 700


def traces(one: Planted) -> Iterator[str]:
    """What would give a secret away: every line of it that is more than a heading."""
    for line in one.secret.splitlines():
        if not line.startswith(("-----", "---- ", "PuTTY", "Encryption", "Private")):
            yield line


def survivors(data: bytes, found: list[Planted] = SECRETS) -> list[str]:
    return [one.kind for one in found for trace in traces(one) if trace.encode() in data]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


TEXT = "".join(f"{number}: {one.text}\n" for number, one in enumerate(SECRETS))


def test_there_are_more_than_a_hundred_secrets_and_all_would_be_noticed() -> None:
    assert len({one.secret for one in SECRETS}) > 100
    assert len(survivors(TEXT.encode())) >= len(SECRETS)


@pytest.mark.requirement("G33.2", "G7.8")
async def test_what_tools_print_and_files_hold_reaches_neither_log_nor_model_nor_disk(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    (work / "notes.md").write_text(TEXT)
    (work / "long.md").write_text(FILLER + TEXT + FILLER)
    model = RecordingModel(
        scripted(
            call("bash", command="cat notes.md; cat notes.md >&2"),
            call("bash", command="cat long.md"),
            call("read_file", path="notes.md"),
            call("grep", pattern="^", path="notes.md"),
            say(TEXT, chunk=7),
            say("Done."),
        )
    )
    async with harness(model, folder=str(work), home=str(home), mode="yolo") as session:
        seen = await session.ask("look")
        seen += await session.ask("go on")
        stored = await session.stored()
        exported = b"".join(jsonl(session.engine.store.records(session.id)))
        on_disk = files_of(home)
        ((key,),) = session.engine.store.shelf.reader().execute("select outputs_key from logs").fetchall()
    assert outcomes(seen) == ["ok", "ok", "ok", "ok"]
    results = of_kind(seen, ToolResult)
    assert all("«redacted:" in results[number].content for number in (0, 2, 3))
    assert "".join(event.text for event in of_kind(seen, TextDelta)).count("«redacted:") >= len(SECRETS)
    kept = {
        name: b"".join(unsealed(str(home / name), key, name.rpartition("output-")[2]))
        for name in on_disk
        if "output-" in name
    }
    assert any(len(data) > len(FILLER) and "«redacted:".encode() in data for data in kept.values())
    assert not [name for name, data in kept.items() if data[:60] in on_disk[name]], "it is not encrypted"
    for data in (
        b"".join(map(encode_payload, seen)),
        b"".join(encode_payload(envelope.event) for envelope in stored),
        exported,
        *model.bodies,
        *on_disk.values(),
        *kept.values(),
    ):
        assert survivors(data) == []


@pytest.mark.requirement("G33.2")
async def test_what_a_call_is_given_runs_as_it_is_and_is_stored_masked(tmp_path: Path) -> None:
    tokens = [one for one in SECRETS if one.text == one.secret and "\n" not in one.text]
    assert len(tokens) > 60
    words = " ".join(one.secret for one in tokens)
    named = {"path": "given.txt", "content": words}
    model = RecordingModel(
        scripted(
            call("bash", command=f"printf '%s ' {words} > out"), call("write_file", **named), say("Done.")
        )
    )
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    async with harness(model, folder=str(work), home=str(home), mode="yolo") as session:
        seen = await session.ask("write")
        exported = b"".join(jsonl(session.engine.store.records(session.id)))
        on_disk = files_of(home)
    assert outcomes(seen) == ["ok", "ok"]
    assert (work / "out").read_text().split() == words.split()
    assert (work / "given.txt").read_text() == words
    for data in (exported, *model.bodies, *on_disk.values()):
        assert survivors(data, tokens) == []


@pytest.mark.requirement("G33.2")
async def test_what_hooks_say_is_masked_and_they_are_told_of_masked_results(tmp_path: Path) -> None:
    work, home, told = tmp_path / "work", tmp_path / "home", tmp_path / "told"
    work.mkdir()
    (work / "notes.md").write_text(TEXT)
    programs = home / "config/hooks"
    programs.mkdir(parents=True)
    answers = {
        "SessionStart": {"decision": "allow", "metadata": {"context": TEXT}},
        "PostToolUse": {"decision": "warn", "message": TEXT},
        "AfterModelResponse": {"decision": "warn", "message": TEXT},
    }
    for event, answer in answers.items():
        (tmp_path / event).write_text(json.dumps(answer))
        program = programs / event
        program.write_text(f"#!/bin/sh\ncat >> '{told}'; cat '{tmp_path / event}'\n")
        program.chmod(0o700)
    model = RecordingModel(scripted(call("bash", command="cat notes.md"), say(TEXT, chunk=50), say("Done.")))
    async with harness(model, folder=str(work), home=str(home), mode="yolo") as session:
        seen = await session.ask("look")
        stored = [envelope.event for envelope in await session.stored()]
        exported = b"".join(jsonl(session.engine.store.records(session.id)))
        on_disk = files_of(home)
    assert any("«redacted:".encode() in encode_payload(event) for event in of_kind(stored, ContextAdded))
    assert sum("«redacted:" in event.message for event in of_kind(seen, Notice)) >= 2
    assert told.read_text().count("«redacted:") >= 2 * len(SECRETS)
    for data in (exported, told.read_bytes(), *model.bodies, *on_disk.values()):
        assert survivors(data) == []


@pytest.mark.requirement("T7.1", "T6.4")
@table("status", [400, 401, 429, 500])
def test_no_secret_survives_in_what_a_provider_complains_of(status: int) -> None:
    endpoint = Endpoint(name="work", wire="openai_chat", base_url="http://127.0.0.1:9/v1")
    for one in SECRETS:
        for message in (f"Incorrect key: {one.text}", one.text):
            body = json.dumps({"error": {"message": message}}).encode()
            error = refused(AskedProvider(endpoint, "some-model", None), status=status, body=body)
            assert isinstance(error, ProviderError)
            assert survivors(f"{error} {error.message} {error.data}".encode(), [one]) == [], one.kind


async def test_a_key_in_use_stays_nowhere_though_it_looks_like_nothing(tmp_path: Path) -> None:
    key = "an-unlikely" + "-phrase" + "-of-words"
    place = Place(tmp_path)
    (place.work / "long.md").write_text(f"{FILLER}{key}\n{FILLER}")
    config = place.home / ".config/bridle/config.toml"
    config.parent.mkdir(parents=True)
    answers = (call("bash", command="cat long.md"), say(f"It is {key}.", chunk=5), fail("bad_credentials"))
    async with ModelServer.playing(*answers) as server:
        config.write_text(f'[providers.work]\nbase_url = "{server.origin}/v1"\nkey_env = "WORK_API_KEY"\n')
        env = place.environment(WORK_API_KEY=key)
        words = ("run", "--mode", "yolo", "--json", "-m", "work:some-model", "look")
        ran = await asyncio.to_thread(place.bridle, *words, env=env)
        again = await asyncio.to_thread(place.bridle, *words[:-1], "-c", "again", env=env)
    assert (ran.code, again.code) == (0, 4)
    on_disk = files_of(place.home)
    assert any("output-" in name for name in on_disk)
    for data in (
        ran.out.encode(),
        ran.err.encode(),
        again.out.encode(),
        again.err.encode(),
        *on_disk.values(),
    ):
        assert key.encode() not in data
    assert "«redacted:key»" in ran.out
