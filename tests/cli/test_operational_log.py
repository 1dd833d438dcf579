"""The operational log at the command line: asked for with options, found where doctor says it is."""

from __future__ import annotations

import json

import pytest

from cli_kit import Place


def logged(place: Place) -> list[dict[str, object]]:
    folder = place.home / ".local/state/bridle/log"
    found = sorted(folder.iterdir()) if folder.exists() else []
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


@pytest.mark.requirement("G48.1")
@pytest.mark.requirement("G48.2")
def test_levels_are_given_by_component_and_lines_go_to_stderr_too(place: Place):
    model = place.script("say hello\n")
    assert place.bridle("run", "-s", "off", "-m", model, "x").code == 0
    assert logged(place) == [], "from info on, and nothing went wrong"

    ran = place.bridle("run", "--log-level", "engine=debug", "--log-to-stderr", "-m", model, "x")
    assert ran.code == 0
    lines = logged(place)
    assert {line["component"] for line in lines} == {"engine"}
    assert [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")] == lines

    assert place.bridle("run", "--verbose", "-m", model, "x").code == 0
    assert {line["component"] for line in logged(place)} == {"engine", "multiplex", "provider.demo"}

    everything = "engine,multiplex,provider.*,transport.*,mcpclient,mcpserver,skill,hook,auth"
    named = ",".join(f"{component}=off" for component in everything.split(","))
    before = logged(place)
    assert place.bridle("run", "--log-level", named, "-m", model, "x").code == 0
    assert logged(place) == before

    wrong = place.bridle("run", "-m", model, "x", env={"BRIDLE_LOG": "loud"})
    assert wrong.code == 2
    assert '"loud" is no level. There are debug, info, warning, error, off' in wrong.err


def test_a_store_that_cannot_be_opened_is_noted(place: Place):
    model = place.script("say hello\n")
    assert place.bridle("run", "-s", "off", "-m", model, "x").code == 0
    (place.data / "sessions.db").write_bytes(b"something else" * 1_000)
    assert place.bridle("run", "-s", "off", "-m", model, "x").code == 1
    (line,) = logged(place)
    assert (line["level"], line["component"], line["reason"]) == ("error", "store", "StoreDamaged")


def test_doctor_says_where_it_is(place: Place):
    found = json.loads(place.bridle("doctor", "--offline", "--json").out)
    assert found["paths"]["log"] == str(place.home / ".local/state/bridle/log")
    assert "log ~/.local/state/bridle/log" in place.bridle("doctor", "--offline").out
