"""Where a person's secrets are: what the sandbox hides from commands, no call reads without asking them."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.app.queries.explain import standing
from bridle.base.fs.other_projects import MAX_PROJECTS, MAX_SECRETS, OtherProjects, is_environment_file
from bridle.base.fs.paths import session_folders
from bridle.base.fs.private_places import PrivatePlaces, secret_places
from bridle.config.folders import folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.confinement import confinement_of
from bridle.sandbox.session_border import this_place
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


# Files that a command finds for itself

SEEKING = [
    *('f=$(find .. -name .netrc); cat "$f"', 'cat "$(find .. -name .netrc)"', "f=$(find .. -name '.netr?'); cat $f"),
    *('find .. -name .env | while read f; do cat "$f"; done', 'cat "$(find .. -path \'*/.ssh/*\')"'),
    *('while read f; do cat "$f"; done < <(find .. -name id_rsa)', 'f=`locate .netrc`; cat "$f"'),
    *('f=$(ls -a ../other | grep env); cat "../other/$f"', 'x=.net; cat "$(find .. -name ${x}rc)"'),
    *('mapfile -t a < <(find .. -name .netrc); cat "${a[0]}"', 'cd ..; f=$(find . -name .netrc); cat "$f"'),
    *('python3 -c "print(open(\'$(find .. -name .netrc)\').read())"', 'cp "$(find .. -name .netrc)" x'),
    *('cat "$(echo ~/.netrc)"', "tar cf x.tar $(find .. -name id_rsa)", 'f=$(find / -name shadow); cat "$f"'),
    *('cat "$(rg --files --hidden -g .env ..)"', 'cat "$(fd -H .netrc ..)"'),
]  # fmt: skip
NOT_SEEKING = [
    *("find .. -name .netrc", "find .. -name '*.py' | xargs wc -l", 'f=$(find src -name a.py); cat "$f"', "ls -la .."),
    *('f=$(find .. -name package.json); cat "$f"', 'cat "$(find .. -name pyproject.toml | head -1)"'),
    *('f=$(find . -name .env); cat "$f"', 'cat "$(ls | head -1)"', 'head -5 "$(git ls-files | head -1)"'),
    *('x=$(grep -rn token src); echo "$x"', 'echo "$(find .. -name .netrc)"'),
]  # fmt: skip


def test_a_command_that_finds_secrets_elsewhere_for_a_program_asks_a_person(place: Place) -> None:
    calls: list[tuple[str, dict[str, str]]] = [("bash", {"command": command}) for command in SEEKING]
    got = dict(zip(SEEKING, explained(place, calls, "--mode", "auto"), strict=True))
    assert {command: verdict for command, verdict in got.items() if verdict != "ask person"} == {}


def test_a_command_that_finds_other_files_asks_nobody_in_auto(place: Place) -> None:
    (place.work / "src").mkdir()
    (place.work / "src/a.py").write_text("x")
    (place.work / ".env").write_text("A=1")
    calls: list[tuple[str, dict[str, str]]] = [("bash", {"command": command}) for command in NOT_SEEKING]
    got = dict(zip(NOT_SEEKING, explained(place, calls, "--mode", "auto"), strict=True))
    assert {command: verdict for command, verdict in got.items() if verdict != "allow"} == {}


# Environment files of other projects

OTHERS = [
    "../other/.env",
    "../other/.env.local",
    "../prod.env",
    "app/.env",
    "code/shop/.env.production",
    "Projects/x/.env",
]
READABLE = ["../other/.env.example", "../other/README", "app/main.py", "code/deep/er/.env"]
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def put_others(place: Place) -> dict[str, Path]:
    """Of both lists, by the names they have there; those beside the workspace are not in the home."""
    return {name: put(place, name) for name in (*OTHERS, *READABLE)}


def hidden(place: Place, work: Path | None = None) -> list[str]:
    """The environment files that a sandbox around commands in this workspace hides."""
    env = place.environment()
    here = this_place(folders(env), env, home=home_of(env), others=OtherProjects(str(place.home)))
    policy = SpawnPolicy(mode="workspace-write", workspace=str(work or place.work))
    return [
        path for path in confinement_of(policy, here).hidden if is_environment_file(os.path.basename(path))
    ]


@pytest.fixture
def in_sight(repository: Path) -> Iterator[Place]:
    """Not in the temporary folder, of which a command sees nothing anyway."""
    if str(repository).startswith(("/tmp/", "/var/tmp/")):
        pytest.skip("this checkout lies in the temporary folder itself")
    parent = repository / ".pytest_cache"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as made:
        place = Place(Path(made))
        subprocess.run(["git", "init", "-q", str(place.work)], check=True, env=place.environment())
        yield place


@needs_bubblewrap
def test_a_command_cannot_read_the_environment_files_of_other_projects(in_sight: Place) -> None:
    place = in_sight
    found = put_others(place)
    (place.work / ".env").write_text(SECRET)
    (place.work / "read.py").write_text(
        "import sys\nfor name in sys.argv[1:]:\n    print(open(name).read())\n"
    )
    for name in OTHERS:
        ran = place.bridle("sandbox", "run", "--", "python3", "read.py", str(found[name]))
        assert (ran.code, SECRET in ran.out) == (1, False), name
        assert "is hidden from commands: it may hold secrets" in ran.err
    ran = place.bridle(
        "sandbox", "run", "--", "python3", "read.py", ".env", *(str(found[name]) for name in READABLE)
    )
    assert (ran.code, ran.out.count(SECRET)) == (0, 1 + len(READABLE)), ran.err


def test_every_environment_file_that_a_sandbox_hides_asks_a_person(place: Place) -> None:
    found = put_others(place)
    paths = hidden(place)
    assert sorted(paths) == sorted(os.path.realpath(found[name]) for name in OTHERS)
    calls: list[tuple[str, dict[str, str]]] = []
    for path in paths:
        calls += [("read_file", {"path": path}), ("bash", {"command": f"cat {path}"})]
        calls += [("bash", {"command": f"python3 x.py {path}"}), ("bash", {"command": f"cp {path} here"})]
    above = [os.path.dirname(os.path.dirname(path)) for path in paths]
    calls += [("bash", {"command": f"tar cf x.tar {folder}"}) for folder in above]
    calls += [("bash", {"command": f"grep -r x {folder}"}) for folder in above]
    assert set(explained(place, calls, "--mode", "auto")) == {"ask person"}


def test_a_second_name_of_another_projects_environment_file_counts_as_it(place: Place) -> None:
    os.link(put(place, "../other/.env"), place.work / "settings")
    calls: list[tuple[str, dict[str, str]]] = [("read_file", {"path": "settings"})]
    assert explained(place, calls, "--mode", "auto") == ["ask person"]


def test_what_is_in_the_same_repository_or_was_opened_is_no_other_project(place: Place) -> None:
    top = place.home / "code" / "mono"
    for name in (".env", "api/.env", "app/.env"):
        put(place, f"code/mono/{name}")
    subprocess.run(["git", "init", "-q", str(top)], check=True, env=place.environment())
    assert hidden(place, top / "app") == []
    policy = SpawnPolicy(mode="workspace-write", workspace=str(place.work), writable=(str(top),))
    env = place.environment()
    here = this_place(folders(env), env, home=home_of(env), others=OtherProjects(str(place.home)))
    assert [path for path in confinement_of(policy, here).hidden if ".env" in path] == []


def test_where_a_link_leads_is_hidden(place: Place) -> None:
    target = put(place, "vault/shop-variables")
    (place.home / "app").mkdir()
    (place.home / "app/.env").symlink_to(target)
    assert hidden(place) == []
    env = place.environment()
    here = this_place(folders(env), env, home=home_of(env), others=OtherProjects(str(place.home)))
    policy = SpawnPolicy(mode="workspace-write", workspace=str(place.work))
    assert os.path.realpath(target) in confinement_of(policy, here).hidden


def test_a_link_in_another_project_takes_nothing_away_that_commands_need(place: Place) -> None:
    for number, target in enumerate(
        ("/dev/null", "/usr", "/usr/bin/env", "/", "..", "../..", "/proc/self/environ")
    ):
        (place.home / f"code/p{number}").mkdir(parents=True)
        (place.home / f"code/p{number}/.env").symlink_to(target)
    env = place.environment()
    here = this_place(folders(env), env, home=home_of(env))
    policy = SpawnPolicy(mode="workspace-write", workspace=str(place.work))
    alone = confinement_of(policy, here).hidden
    with_others = this_place(folders(env), env, home=home_of(env), others=OtherProjects(str(place.home)))
    assert confinement_of(policy, with_others).hidden == alone


def test_an_environment_file_that_came_since_is_noticed(tmp_path: Path) -> None:
    """However many projects there are: at once in a new one, in one of many after some commands."""
    root = tmp_path.resolve()
    home = root / "home"
    for number in range(50):
        (home / f"code/p{number}").mkdir(parents=True)
    others = OtherProjects(str(home))
    own = (str(home / "code/p0"),)
    assert others.secrets(own) == ()
    (home / "code/new").mkdir()
    (home / "code/new/.env").write_text(SECRET)
    assert others.secrets(own) == (str(home / "code/new/.env"),)
    (home / "code/new/.env").unlink()
    (home / "code/p30/.env").write_text(SECRET)
    looks = [others.secrets(own) for _ in range(8)]
    assert looks[-1] == (str(home / "code/p30/.env"),)


def test_a_look_for_other_projects_has_an_end(tmp_path: Path) -> None:
    home = tmp_path.resolve() / "home"
    for number in range(MAX_PROJECTS + 20):
        (home / f"code/p{number:03}").mkdir(parents=True)
        (home / f"code/p{number:03}/.env").write_text(SECRET)
    others = OtherProjects(str(home))
    found = [others.secrets((str(home / "code/p000"),)) for _ in range(5)][-1]
    assert len(found) == MAX_SECRETS
    assert str(home / "code/p000/.env") not in found
    assert OtherProjects(str(home)).secrets((str(home),)) == ()
    assert OtherProjects("/").secrets(("/",)) == ()
