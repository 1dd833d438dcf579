"""Transcripts kept as files: written from the log between turns, continued by later runs, never in the way."""

import json
import os
import stat
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.app.composition import session_transcript
from bridle.app.user.stored_keys import session_store
from bridle.clients.dotted_events import chain_lines, events_lines
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol import events as e
from bridle.providers.script import call, say
from bridle.sessions.archive.beside_store import forget_beside, transcripts_of
from bridle.sessions.archive.export import clean, jsonl
from bridle.sessions.archive.stored_archive import StoredArchive
from bridle.sessions.archive.transcript_file import FILE_NAMES, Format
from bridle.sessions.store import SessionStore
from effort import examples
from secret_kit import tokens
from sessions.session_kit import new_store, put
from sessions.telling import stories, tell

FORMATS: tuple[Format, ...] = ("events", "envelope", "chain")


def file_of(home: str, session: str, form: Format = "events") -> Path:
    return Path(transcripts_of(folders({"BRIDLE_HOME": home}).state, session)) / FILE_NAMES[form]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def exported(store: SessionStore, session: str, form: Format) -> bytes:
    """The transcript as `bridle sessions export` writes it."""
    records = store.records(session)
    match form:
        case "events":
            return b"".join(events_lines(clean(records)))
        case "chain":
            return b"".join(chain_lines(clean(records)))
        case "envelope":
            return b"".join(jsonl(records))


@pytest.mark.requirement("D18.4")
async def test_a_session_has_its_transcript_between_turns_and_only_its_owner_reads_it(tmp_path: Path):
    model = scripted(call("bash", command="echo hi"), say("done"), say("again"))
    async with harness(model, mode="auto", home=str(tmp_path), sets=("transcript.format=events",)) as session:
        await session.ask("say hi")
        await session.ask("and again")
        path = file_of(session.home, session.id)
    lines = lines_of(path)
    assert (lines[0]["type"], lines[-1]["type"]) == ("session.started", "session.ended")
    assert [line["text"] for line in lines if line["type"] == "user.message"] == ["say hi", "and again"]
    assert [line["eventId"] for line in lines] == sorted(line["eventId"] for line in lines)
    assert path.parts[-3:] == ("transcripts", session.id, "session.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["session.jsonl"]


@pytest.mark.requirement("D18.5", "D18.6")
async def test_agents_that_were_sent_are_in_the_transcript_of_their_session(tmp_path: Path):
    model = scripted(
        call("delegate_agent", agent="review", task="Look."),
        say("done"),
        agents={"review": (say("No faults."),)},
    )
    options = {"agent_mode": "multi", "sets": ("transcript.format=events",)}
    async with harness(model, home=str(tmp_path), **options) as session:
        await session.ask("have it reviewed")
        path = file_of(session.home, session.id)
    lines = lines_of(path)
    assert path.parts[-3:] == ("transcripts", session.id, "session.jsonl")
    assert [line["eventId"] for line in lines] == sorted(line["eventId"] for line in lines)
    assert {line["rootSessionId"] for line in lines} == {session.id}
    said = [(line.get("agent"), line["text"]) for line in lines if line["type"] == "model.text"]
    assert said == [("review", "[scripted] No faults."), (None, "[scripted] done")]
    assert [line["text"] for line in lines if line["type"] == "user.message"] == ["have it reviewed"]


async def test_without_the_setting_there_is_no_transcript(tmp_path: Path):
    async with harness(scripted(say("hi")), home=str(tmp_path)) as session:
        await session.ask("hello")
        path = file_of(session.home, session.id)
    assert not path.parent.parent.exists()


@pytest.mark.requirement("D18.8")
async def test_a_transcript_can_be_switched_off_for_a_run_whatever_settings_say(tmp_path: Path):
    model, on = scripted(say("hi")), ("transcript.format=events",)
    async with harness(model, home=str(tmp_path), sets=on, transcript="off") as session:
        await session.ask("hello")
        path = file_of(session.home, session.id)
    assert not path.parent.parent.exists()


@pytest.mark.requirement("T18.9", "C16")
@pytest.mark.parametrize("form", FORMATS)
async def test_a_later_run_goes_on_with_the_same_transcript_and_it_is_what_the_log_tells(
    tmp_path: Path, form: Format
):
    (tmp_path / "work").mkdir()
    place: dict[str, Any] = {
        "home": str(tmp_path / "home"),
        "folder": str(tmp_path / "work"),
        "sets": (f"transcript.format={form}",),
    }
    async with harness(scripted(say("one")), **place) as session:
        await session.ask("first")
    path = file_of(session.home, session.id, form)
    before = path.read_bytes()
    more = scripted(say("one"), say("two"))
    async with harness(more, **place, resume=session.id) as again:
        await again.ask("second")
    after = path.read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    with closing(session_store({"BRIDLE_HOME": session.home})) as store:
        assert after == exported(store, session.id, form)
    if form == "chain":
        lines = lines_of(path)
        assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
        assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
        about = json.loads((path.parent / "session.json").read_bytes())
        assert (about["lastSeq"], about["lastUuid"]) == (lines[-1]["seq"], lines[-1]["uuid"])


async def test_a_transcript_that_cannot_be_written_is_said_once_and_the_session_goes_on(tmp_path: Path):
    state = Path(folders({"BRIDLE_HOME": str(tmp_path)}).state)
    state.mkdir(parents=True)
    (state / "transcripts").write_text("in the way")
    model, sets = scripted(say("one"), say("two"), say("three")), ("transcript.format=events",)
    async with harness(model, home=str(tmp_path), sets=sets) as session:
        for prompt in ("a", "b"):
            events = await session.ask(prompt)
            assert of_kind(events, e.TurnEnded)[0].stop == "end_turn"
        (state / "transcripts").unlink()
        await session.ask("c")
        stored = [envelope.event for envelope in await session.stored()]
    (said,) = [notice for notice in of_kind(stored, e.Notice) if notice.reason == "TranscriptNotWritten"]
    assert said.message == ("The transcript cannot be written (File exists). The session itself is kept.")
    asked = [line["text"] for line in lines_of(file_of(session.home, session.id)) if "text" in line]
    assert {"a", "b", "c"} <= set(asked)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_was_cut_or_taken_away_is_written_anew(tmp_path: Path, form: Format):
    with (
        closing(new_store(tmp_path / "data")) as store,
        closing(store.create("/work", profile="default")) as log,
    ):
        put(log, e.SessionCreated(log=log.log, cwd="/work"), e.TurnEnded(stop="end_turn"))
        path = tmp_path / "kept" / FILE_NAMES[form]
        assert session_transcript(log, str(path.parent), form).catch_up() is None
        path.write_bytes(path.read_bytes()[:-9])
        kept = session_transcript(log, str(path.parent), form)
        assert kept.catch_up() is None
        assert path.read_bytes() == exported(store, log.session, form)
        path.unlink()
        put(log, e.TurnEnded(stop="end_turn"))
        assert kept.catch_up() == "No such file or directory"
        assert kept.catch_up() is None
        assert path.read_bytes() == exported(store, log.session, form)


def test_a_link_in_place_of_the_file_is_replaced_and_never_followed(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    with (
        closing(new_store(tmp_path / "data")) as store,
        closing(store.create("/work", profile="default")) as log,
    ):
        put(log, e.SessionCreated(log=log.log, cwd="/work"))
        path = tmp_path / "kept" / FILE_NAMES["events"]
        path.parent.mkdir()
        path.symlink_to(outside)
        kept = session_transcript(log, str(path.parent), "events")
        assert kept.catch_up() is None
        assert not path.is_symlink()
        path.unlink()
        path.symlink_to(outside)
        put(log, e.SessionEnded(cause="user"))
        assert kept.catch_up() is not None
    assert outside.read_text() == "untouched"


@pytest.mark.requirement("C16")
@pytest.mark.parametrize("form", FORMATS)
def test_secrets_are_looked_for_once_more_on_the_way_into_every_form(tmp_path: Path, form: Format):
    """What stood in the log before its shape was known."""
    secrets = tokens()
    with (
        closing(new_store(tmp_path / "data")) as store,
        closing(store.create("/work", profile="default")) as log,
    ):
        for number, secret in enumerate(secrets, 1):
            put(log, e.StepStarted(step=number, provider="w", model="s"), e.TextDelta(text=secret.text))
            put(log, e.StepEnded(step=number, stop="end_turn", text_sha256="0"))
        kept = session_transcript(log, str(tmp_path / "kept"), form)
        assert kept.catch_up() is None
        written = Path(kept.path).read_text()
    assert [secret.kind for secret in secrets if secret.secret in written] == []
    assert written.count("«redacted:") >= len(secrets)


@given(story=stories, form=st.sampled_from(FORMATS), cuts=st.lists(st.booleans(), min_size=4, max_size=4))
@settings(max_examples=examples(25), deadline=None)
def test_however_often_it_is_caught_up_with_it_ends_as_the_log_tells_it(
    story: list[Any], form: Format, cuts: list[bool]
):
    """Turn by turn, in runs that begin anew where `cuts` says so."""
    with tempfile.TemporaryDirectory() as scratch, closing(new_store(Path(scratch) / "data")) as store:
        folder = os.path.join(scratch, "kept")
        with closing(store.create("/work", profile="default")) as log:
            kept = session_transcript(log, folder, form)
            for turn, cut in zip(story, cuts, strict=False):
                tell(log, [turn])
                kept = session_transcript(log, folder, form) if cut else kept
                assert kept.catch_up() is None
            assert Path(kept.path).read_bytes() == exported(store, log.session, form)


async def test_what_was_transcribed_goes_with_the_session_and_with_its_content(tmp_path: Path):
    where, sets = folders({"BRIDLE_HOME": str(tmp_path)}), ("transcript.format=chain",)
    async with harness(scripted(say("one")), home=str(tmp_path), sets=sets) as first:
        await first.ask("hello")
    async with harness(scripted(say("one")), home=str(tmp_path), sets=sets) as second:
        await second.ask("hello")
    assert file_of(str(tmp_path), first.id, "chain").exists()
    with closing(session_store({"BRIDLE_HOME": str(tmp_path)})) as store:
        StoredArchive(store).delete(first.id, beside=forget_beside(where.state))
        assert not file_of(str(tmp_path), first.id, "chain").parent.exists()
        StoredArchive(store).expire(lambda _profile: 30, beside=forget_beside(where.state))
        assert file_of(str(tmp_path), second.id, "chain").exists()
        StoredArchive(store).expire(lambda _profile: 0, beside=forget_beside(where.state))
    assert not file_of(str(tmp_path), second.id, "chain").parent.exists()
