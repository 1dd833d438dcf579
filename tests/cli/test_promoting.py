"""`/permissions` at a terminal: what was allowed, and making it a rule for good."""

from __future__ import annotations

import json

import pytest

from cli.test_talk import has_read_the_question, leaves
from cli_kit import Place
from cli_terminal import sitting


def explained(place: Place, command: str) -> dict[str, object]:
    asked = json.dumps({"command": command})
    return place.bridle("permissions", "explain", "bash", asked, "--json").result


@pytest.mark.requirement("G45.17")
@pytest.mark.parametrize("spelling", ["/permissions:promote 1", "/permissions promote 1"])
def test_what_was_allowed_is_listed_and_can_become_a_rule(place: Place, spelling: str) -> None:
    model = place.script('call bash {"command": "touch one.txt"}\n---\nsay Done.\n')
    with sitting(place, "-m", model, "make that file") as person:
        person.sees(
            "Run this command?", "touch one.txt", "p  touch with harmless arguments inside this folder"
        )
        has_read_the_question(person)
        person.types("p\r")
        person.sees("allowed  bash(touch", "Done.", "2 steps")
        person.types("/permissions\r")
        person.sees(
            "1  bash(touch) with harmless arguments inside this folder, until the session ends", "Esc back"
        )
        person.types("\x1b")
        person.waits(lambda: "Esc back" not in person.text, "the list gone")
        person.types(f"{spelling}\r")
        person.sees(
            "bash(touch) with harmless arguments inside this folder is a rule now, in",
            "from the next session on.",
        )
        leaves(person)
    config = place.home / ".config/bridle/config.toml"
    assert "touch" in config.read_text(encoding="utf-8")
    found = explained(place, "touch two.txt")
    assert (found["verdict"], found["step_name"]) == ("allow", "a rule")
    assert str(found["origin"]).startswith("user config, line ")
    others = ("mkdir two", "touch ../two", "touch two; ls", "touch .git/hooks/x")
    assert {command: explained(place, command)["verdict"] for command in others} == dict.fromkeys(
        others, "ask"
    )
