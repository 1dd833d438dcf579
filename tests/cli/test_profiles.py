"""`bridle profiles`: what there is, what one sets, a file to begin with, and what is wrong."""

from __future__ import annotations

import json

import pytest

from cli_kit import Place

OWN = ".config/bridle/profiles"


def put(place: Place, name: str, text: str) -> None:
    path = place.home / OWN / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def put_in_project(place: Place, name: str, text: str) -> None:
    path = place.work / ".bridle" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.requirement("G38.3", "G38.4")
def test_profiles_are_listed_with_whose_they_are_and_which_one_holds(place: Place) -> None:
    put(place, "mine.toml", 'about = "Mine."\nmode = "auto"\n')
    put_in_project(place, "profiles/team.toml", 'about = "Obey me."\n')
    ran = place.bridle("profiles", env={"BRIDLE_PROFILE": "mine"})
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "  careful   shipped  Asks before everything, keeps commands enclosed and offline, remembers no yes.",
        "  default   shipped  The built-in defaults.",
        "* mine      own      Mine.",
        "  t-compat  shipped  Also reads CLAUDE.md, for projects written for other agents.",
        "  team      project  waits for your trust: bridle trust ack .bridle/profiles/team.toml",
    ]
    listed = json.loads(place.bridle("profiles", "list", "--json").out)
    assert [(one["name"], one.get("trusted", True)) for one in listed] == [
        ("careful", True),
        ("default", True),
        ("mine", True),
        ("t-compat", True),
        ("team", False),
    ]


@pytest.mark.requirement("G38.1", "G38.2")
def test_what_a_profile_sets_is_shown_without_its_secrets(place: Place) -> None:
    key = "sk-" + "q" * 30
    put(
        place,
        "mine.toml",
        f'about = "Mine."\ndefault_model = "a:b"\ntool_packs = ["web"]\n[providers.a]\napi_key = "{key}"\n'
        f'[mcp_servers.x]\ncommand = ["x"]\nenv = {{ TOKEN = "{key}" }}\n',
    )
    ran = place.bridle("profiles", "show", "mine")
    assert ran.code == 0
    assert 'model = "a:b"' in ran.out
    assert 'tools.packs = ["web"]' in ran.out
    assert "ignored providers.a.api_key (only your own config.toml may hold a key)" in ran.out
    everything = ran.out + place.bridle("profiles", "show", "mine", "--json").out
    assert key not in everything
    wrong = place.bridle("profiles", "show", "carful")
    assert (wrong.code, wrong.err) == (
        2,
        'bridle: There is no profile "carful" here. Did you mean careful? See: bridle profiles list\n',
    )


def test_a_new_profile_is_a_file_to_fill_in_and_works_at_once(place: Place) -> None:
    made = place.bridle("profiles", "new", "mine")
    assert made.code == 0, made.err
    assert place.bridle("profiles", "check", "mine").out == "1 profile, 0 problems.\n"
    assert (
        place.bridle("run", "--profile", "mine", "-m", place.script("say Hi.\n"), "go").out
        == "[scripted] Hi.\n"
    )
    again = place.bridle("profiles", "new", "mine")
    assert again.code == 2
    assert "already" in again.err
    assert place.bridle("profiles", "new", "../mine").code == 2
    assert place.bridle("profiles", "new", "sharp", "--like", "careful").code == 0
    shown = json.loads(place.bridle("profiles", "show", "sharp", "--json").out)
    assert (shown["settings"]["mode"], shown["scope"]) == ("strict", "own")


@pytest.mark.requirement("G38.5")
def test_what_is_wrong_with_profiles_is_found_before_anything_starts(place: Place) -> None:
    put(place, "good.toml", 'mode = "auto"\nextra = 1\n')
    put(place, "new.toml", "schema_version = 9\n")
    put_in_project(place, "profile.toml", 'mode = "yolo"\n')
    ran = place.bridle("profiles", "check")
    assert ran.code == 2
    assert ran.out.splitlines() == [
        'warning: profile good line 2: there is no setting "extra" (all of them: bridle help settings).',
        "error: profile new line 1: schema_version = 9 is not one this Bridle knows (up to 1).",
        'warning: profile .bridle/profile.toml: ignored mode = "yolo" (only your own config may set this).',
        "6 profiles, 3 problems.",
    ]
    assert place.bridle("profiles", "check", "good").code == 0
    assert len(json.loads(place.bridle("profiles", "check", "--json").out)) == 3


def test_a_session_is_shown_with_the_profile_it_has(place: Place) -> None:
    put(place, "mine.toml", 'mode = "plan"\n')
    assert place.bridle("run", "--profile", "mine", "-m", place.script("say Hi.\n"), "go").code == 0
    shown = place.bridle("sessions", "show", place.only_session()).out
    assert shown.splitlines()[1] == f"in {place.work}, with the profile mine"


@pytest.mark.requirement("G37.4")
def test_a_profile_of_the_project_that_is_chosen_waits_for_trust_with_a_sentence(place: Place) -> None:
    put_in_project(place, "profiles/team.toml", 'mode = "strict"\n')
    ran = place.bridle("run", "--profile", "team", "-m", place.script("say Hi.\n"), "go")
    assert (ran.code, ran.err) == (
        2,
        (
            "bridle: profile team: is of this project and not trusted yet. Look at it and agree: "
            "bridle trust ack .bridle/profiles/team.toml.\n"
        ),
    )
    listed = place.bridle("trust", "list").out
    assert ".bridle/profiles/team.toml" in listed, "it can be agreed to without being chosen"
