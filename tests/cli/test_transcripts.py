"""Transcripts as a person asks for them: exported in each form, kept by a setting, switched off for a run."""

import json
from pathlib import Path

import pytest

from cli_kit import Place

pytestmark = pytest.mark.through_engine(quick=False)

SCRIPT = 'call bash {"command": "echo hi"}\n---\nsay done\n---\nsay again\n'


def ran(place: Place, *words: str) -> str:
    done = place.bridle("run", "-y", "-m", place.script(SCRIPT), *words, "say hi")
    assert done.code == 0, done.err
    return place.sessions()[0].id


def kept(place: Place) -> list[Path]:
    return sorted((place.home / ".local/state/bridle").glob("transcripts/*/*"))


@pytest.mark.requirement("C16")
def test_a_session_is_exported_in_every_form_of_transcripts(place: Place) -> None:
    session = ran(place)
    events = place.bridle("sessions", "export", session, "--format", "events").stream
    assert (events[0]["type"], events[-1]["type"]) == ("session.started", "session.ended")
    assert [line["content"] for line in events if line["type"] == "tool.completed"] == ["hi\n"]
    chain = place.bridle("sessions", "export", session, "--format", "chain").stream
    assert [line["seq"] for line in chain] == list(range(1, len(chain) + 1))
    envelopes = place.bridle("sessions", "export", session, "--format", "envelope")
    assert envelopes == place.bridle("sessions", "export", session, "--format", "jsonl")
    assert [line["id"] for line in envelopes.stream] == list(range(1, len(envelopes.stream) + 1))


@pytest.mark.requirement("D18.4", "D18.8")
def test_a_setting_keeps_transcripts_and_an_option_leaves_one_out(place: Place) -> None:
    ran(place)
    assert kept(place) == []
    assert place.bridle("config", "set", "transcript.format", "events").code == 0
    session = ran(place)
    (path,) = kept(place)
    assert path.parts[-2:] == (session, "session.jsonl")
    assert path.read_text() == place.bridle("sessions", "export", session, "--format", "events").out
    ran(place, "--no-transcript")
    assert kept(place) == [path]
    assert place.bridle("sessions", "delete", "-y", session).code == 0
    assert kept(place) == []


def test_a_transcript_that_has_no_place_is_said_also_where_one_turn_is_run(place: Place) -> None:
    assert place.bridle("config", "set", "transcript.format", "events").code == 0
    state = place.home / ".local/state/bridle"
    state.mkdir(parents=True, exist_ok=True)
    (state / "transcripts").write_text("in the way")
    done = place.bridle("run", "-y", "-m", place.script(SCRIPT), "say hi")
    assert done.code == 0
    assert done.err.count("The transcript cannot be written (File exists). The session itself is kept.") == 1


@pytest.mark.requirement("D18.11")
@pytest.mark.parametrize(
    "name",
    ["ses_123", "root_1", "5f0c6a1e-8f4e-4f57-9a53-0d5c1f1d7f11", "thread_abc", "agent:main:main"],
)
def test_an_id_of_another_shape_names_the_session_wherever_an_id_is_asked_for(
    place: Place, name: str
) -> None:
    session = ran(place, "--session", name)
    assert place.bridle("sessions", "show", name).out.startswith(session)
    lines = place.bridle("sessions", "export", "--format", "events", name).out.splitlines()
    assert {json.loads(line)["sessionId"] for line in lines} == {session}
    assert place.bridle("sessions", "pin", name).code == 0
    assert place.bridle("run", "-r", name, "once more").out == "[scripted] again\n"
    assert [row.turns for row in place.sessions()] == [2]
    assert place.bridle("sessions", "delete", "-y", name).code == 0
    assert place.sessions() == []
