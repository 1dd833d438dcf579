"""Where a person's secrets are: what the sandbox hides from commands, no call reads without asking them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.app.explaining import standing
from bridle.safety.paths import session_folders
from bridle.safety.sandbox.private_places import PrivatePlaces, secret_places
from cli_kit import Place

PLACES = [
    ".netrc", ".pgpass", ".bash_history", ".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".pip/pip.conf",
    ".config/pip/pip.conf", ".wgetrc", ".viminfo", ".dbshell", ".rediscli_history", ".sqlite_history",
    ".python_history", ".node_repl_history", ".lesshst", ".config/gh/hosts.yml", "code/other/.env",
    ".mozilla/firefox/x/logins.json",
]  # fmt: skip
SECRET = "correct horse"


def put(place: Place, name: str) -> Path:
    path = place.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SECRET)
    return path


def explained(place: Place, calls: list[tuple[str, dict[str, str]]], *options: str) -> list[str]:
    lines = "".join(json.dumps({"tool": tool, "input": given}) + "\n" for tool, given in calls)
    ran = place.bridle("permissions", "explain", "--batch", *options, stdin=lines)
    assert ran.code == 0, ran.err
    return [answer["verdict"] + (" person" if answer.get("for_person") else "") for answer in ran.stream]


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        ("default", "ask person"),
        ("auto", "ask person"),
        ("strict", "ask person"),
        ("plan", "deny"),
        ("yolo", "allow"),
    ],
)
def test_a_secret_place_is_for_a_person_in_every_mode_but_yolo(place: Place, mode: str, verdict: str) -> None:
    calls: list[tuple[str, dict[str, str]]] = []
    for name in PLACES:
        path = str(put(place, name))
        calls += [("read_file", {"path": path}), ("bash", {"command": f"cat {path}"})]
    calls += [
        ("ls", {"path": str(place.home / ".ssh")}),
        ("grep", {"pattern": "x", "path": str(place.home / ".ssh")}),
    ]
    calls += [("bash", {"command": "cat ~/.netrc"}), ("bash", {"command": f"grep -r horse {place.home}"})]
    found = explained(place, calls, "--mode", mode)
    assert {str(call): got for call, got in zip(calls, found, strict=True) if got != verdict} == {}


@pytest.mark.parametrize(
    "options", [("--mode", "auto"), ("-y",), ("--mode", "auto", "-y"), ("--allow", "read_file")]
)
def test_a_run_hands_no_secret_place_to_the_model(place: Place, options: tuple[str, ...]) -> None:
    names = PLACES[:4]
    calls = "".join(f"call read_file {json.dumps({'path': str(put(place, name))})}\n" for name in names)
    ran = place.bridle("run", *options, "--stream-json", "-m", place.script(f"{calls}---\nsay done\n"), "go")
    assert SECRET not in ran.out
    results = [line["event"]["payload"] for line in ran.stream if line.get("eventType") == "ToolResult"]
    assert [result["reason"] for result in results] == ["NoApprover"] * len(names)
    assert f"--allow 'read_file({place.home}/.netrc)'" in results[0]["content"]


def test_a_rule_of_your_own_that_names_a_secret_place_is_your_word(place: Place) -> None:
    path = str(put(place, ".netrc"))
    calls: list[tuple[str, dict[str, str]]] = [("read_file", {"path": path})]
    assert explained(place, calls, "--allow", f"read_file({path})") == ["allow"]
    for broad in ("read_file", "*", f"read_file({place.home}/**)", "read_file(/**)"):
        assert explained(place, calls, "--mode", "auto", "--allow", broad) == ["ask person"]


def test_a_secret_file_of_this_folder_is_what_it_was(place: Place) -> None:
    (place.work / ".env").write_text("A=1")
    calls: list[tuple[str, dict[str, str]]] = [
        ("read_file", {"path": ".env"}),
        ("bash", {"command": "cat .env"}),
    ]
    assert explained(place, calls) == ["ask", "ask"]
    assert explained(place, calls, "--mode", "auto") == ["allow", "allow"]


def test_a_search_or_a_listing_shows_names_of_secret_places_and_no_content(place: Place) -> None:
    seen = standing(place.environment(), cwd=str(place.work)).gates.sight
    shown = {
        name: (seen.shows_name(path), seen.shows_content(path))
        for name in PLACES
        if (path := str(put(place, name)))
    }
    assert shown == dict.fromkeys(PLACES, (True, False))
    assert seen.shows_content(str(place.home / "notes"))


def test_a_hard_link_counts_as_each_of_its_names(place: Place) -> None:
    os.link(put(place, ".netrc"), place.work / "notes")
    os.link(put(place, ".ssh/id_ed25519"), place.work / "more")
    (place.work / ".env").write_text("A=1")
    os.link(place.work / ".env", place.work / "settings")
    (place.work / "plain").write_text("x")
    os.link(place.work / "plain", place.work / "second")
    reads: list[tuple[str, dict[str, str]]] = [
        ("read_file", {"path": name}) for name in ("notes", "more", "settings", "second")
    ]
    reads += [("bash", {"command": f"cat {name}"}) for name in ("notes", "more", "settings", "second")]
    assert explained(place, reads) == ["ask person", "ask person", "ask", "allow"] * 2
    assert explained(place, reads, "--mode", "auto") == ["ask person", "ask person", "allow", "allow"] * 2
    writes: list[tuple[str, dict[str, str]]] = [("bash", {"command": "echo x >> settings"})]
    assert explained(place, writes, "--mode", "yolo") == ["deny"]


def test_a_hard_link_to_what_later_runs_obey_is_that(place: Place) -> None:
    (place.work / ".git" / "hooks").mkdir(parents=True)
    (place.work / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    os.link(place.work / ".git" / "hooks" / "pre-commit", place.work / "script")
    writes: list[tuple[str, dict[str, str]]] = [
        ("write_file", {"path": "script", "content": "x"}),
        ("bash", {"command": "echo x >> script"}),
    ]
    assert explained(place, writes, "--mode", "yolo") == ["ask person", "ask person"]


def test_bridles_own_folders_stay_closed_in_every_mode(place: Place) -> None:
    calls: list[tuple[str, dict[str, str]]] = [
        ("read_file", {"path": str(place.home / folder / "bridle" / "anything")})
        for folder in (".config", ".local/share", ".local/state")
    ]
    assert explained(place, calls, "--mode", "yolo") == ["deny"] * 3


def places_of(home: Path, env: Mapping[str, str], work: Path) -> PrivatePlaces:
    return PrivatePlaces(str(home), env, session_folders(str(work)))


@pytest.mark.requirement("T16.1")
def test_what_the_sandbox_hides_and_what_asks_are_one_list(place: Place) -> None:
    for name in PLACES:
        put(place, name)
    env = place.environment(NETRC=str(put(place, "elsewhere/netrc")))
    hidden = list(secret_places(str(place.home), env))
    assert [path for path in hidden if not places_of(place.home, env, place.work).hold(path)] == []
    in_home = [str(place.home / name) for name in PLACES if name != "code/other/.env"]
    assert [path for path in in_home if not any(path == h or path.startswith(h + "/") for h in hidden)] == []


def test_where_the_workspace_is_the_home_its_secret_places_still_count(tmp_path: Path) -> None:
    home = tmp_path.resolve() / "home"
    (home / "code").mkdir(parents=True)
    env = {"HOME": str(home)}
    assert places_of(home, env, home).hold(f"{home}/.ssh/id_rsa")
    assert not places_of(home, env, home).hold(f"{home}/code/a.py")
    assert not places_of(home, env, home / "code").hold(f"{home}/code/.netrc")
    opened = home / ".password-store"
    opened.mkdir()
    assert not places_of(home, env, opened).hold(f"{opened}/x.gpg")


@given(st.lists(st.sampled_from(["a", ".ssh", "..", ".config", "gh", ".netrc", "x"]), min_size=1, max_size=5))
def test_every_name_below_a_place_is_in_it(names: list[str]) -> None:
    """Whatever follows the name of a place, resolved, the answer is whether it lies in one."""
    path = os.path.normpath("/home/ana/" + "/".join(names))
    held = PrivatePlaces("/home/ana", {}, session_folders("/nowhere")).hold(path)
    expected = any(
        path == f"/home/ana/{place}" or path.startswith(f"/home/ana/{place}/")
        for place in (".ssh", ".netrc", ".config/gh")
    )
    assert held == expected
