"""`bridle serve`: an engine as a process of its own, found by clients and never by what it started."""

import configparser
import contextlib
import json
import os
import plistlib
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridle.base.process.peer_process import can_tell_descent
from cli_kit import Place, kill_together
from serve_kit import ServedPlace, in_work, serving

linux = pytest.mark.skipif(not can_tell_descent(), reason="this system does not tell who started a process")

LOOKS_FOR_THE_ENGINE = """
import glob, json, os, socket, sys
place, token, port = json.load(open("known.json"))
found = {}
try:
    found["listed"] = os.listdir(place)
except OSError as problem:
    found["listed"] = type(problem).__name__
try:
    found["token"] = open(place + "/token").read() == token
except OSError as problem:
    found["token"] = type(problem).__name__
def ask(opened, host):
    opened.settimeout(20)
    opened.sendall(f"GET /v1/handshake HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n"
                   f"X-Bridle-Token: {token}\\r\\n\\r\\n".encode())
    said = b""
    while piece := opened.recv(65536):
        said += piece
    return said.split()[1].decode(), json.loads(said.partition(b"\\r\\n\\r\\n")[2]).get("reason")
try:
    opened = socket.socket(socket.AF_UNIX)
    folder = os.open(place, os.O_PATH)  # its path may be too long for an address
    opened.connect(f"/proc/self/fd/{folder}/engine.sock")
    found["socket"] = ask(opened, "localhost")
except OSError as problem:
    found["socket"] = type(problem).__name__
try:
    wanted = socket.AF_INET6 if "mapped" in sys.argv else socket.AF_INET
    opened = socket.socket(wanted)
    opened.connect(("::ffff:127.0.0.1" if "mapped" in sys.argv else "127.0.0.1", port))
    if "unseen" in sys.argv:  # nobody but root can look into it then
        import ctypes
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    found["port"] = ask(opened, f"127.0.0.1:{port}")
except OSError as problem:
    found["port"] = type(problem).__name__
json.dump(found, open(sys.argv[1], "w"))
os.rename(sys.argv[1], sys.argv[1] + ".json")
"""


def tell_place(served: ServedPlace) -> None:
    known = json.dumps([served.place.folder, served.token, served.port])
    in_work(served.home, "known.json", known)


def look_from_a_command(served: ServedPlace, command: str, **config: object) -> dict[str, object]:
    """What a command of a session finds of the engine that runs it; it is even told the token."""
    work = served.home.work
    in_work(served.home, "look.py", LOOKS_FOR_THE_ENGINE)
    tell_place(served)
    model = served.home.script(f"call bash {json.dumps({'command': command})}\n---\nsay Done.\n")
    made = served.ask(
        "POST", "/v1/sessions", {"cwd": str(work), "model": model, "mode": "yolo", "config": config}
    )
    assert made.status == 201, made.body
    turn = served.ask(
        "POST",
        f"/v1/sessions/{made.json['session']}/input?wait=turn",
        {"content": [{"type": "text", "text": "look"}]},
    )
    assert (turn.status, turn.json["stop"]) == (200, "end_turn"), turn.body
    deadline = time.monotonic() + 30
    while not (work / "found.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return json.loads((work / "found.json").read_text())


@pytest.mark.requirement("G21.1")
def test_an_engine_is_served_found_and_ended_with_nothing_left(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        health = served.ask("GET", "/v1/health")
        assert health.json["open_sessions"] == 0
        again = place.bridle("serve")
        assert again.code == 2
        assert str(served.process.pid) in again.err
        started = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - started < 5
        assert os.listdir(served.place.folder) == []


def test_an_engine_ends_by_itself_where_it_was_asked_to(tmp_path: Path) -> None:
    ran = Place(tmp_path).bridle("serve", "--idle-exit", "0.2")
    assert ran.code == 0
    assert ran.story[-1] == "nobody was here for 0.2 s; ending"


def test_an_engine_that_was_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        before = served.token
        served.stop(signal.SIGKILL)
        assert os.path.exists(served.place.socket)
    with serving(place) as served:
        assert served.token != before
        assert served.ask("GET", "/v1/health", token=before).status == 401


@linux
@pytest.mark.parametrize(
    "command",
    [
        "python3 look.py found",
        # twice forked, in a session of its own, with an environment of its own, when its call is still under way
        "(env -i setsid python3 look.py found &); while ! test -e found.json; do sleep 0.1; done",
        "python3 look.py found mapped unseen",
    ],
    ids=["child", "orphan", "unseen"],
)
def test_a_command_of_the_session_is_never_a_client_whatever_token_it_shows(
    tmp_path: Path, command: str
) -> None:
    with serving(Place(tmp_path), "--listen", "127.0.0.1:0") as served:
        found = look_from_a_command(served, command, sandbox="off")
        assert found["socket"] == ["403", "NotAClient"]
        assert found["port"] == ["403", "NotAClient"]
        assert served.ask("GET", "/v1/health").status == 200
        assert served.ask_port("/v1/health").status == 200, "who is none of ours is heard there"
        counted = served.ask("GET", "/v1/metrics").body.decode()
        assert 'bridle_refusals_total{reason="NotAClient"} 2' in counted


@linux
def test_in_the_sandbox_the_place_of_the_engine_is_not_there(tmp_path: Path) -> None:
    place = Place(tmp_path)
    if json.loads(place.bridle("sandbox", "--json").out)["adapter"] != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    with serving(place) as served:
        found = look_from_a_command(served, "python3 look.py found")
        assert found["listed"] in ([], "FileNotFoundError", "PermissionError")
        assert found["token"] in ("FileNotFoundError", "PermissionError")
        assert found["socket"] in ("FileNotFoundError", "PermissionError", "ConnectionRefusedError")


OUTLIVES = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.execve(sys.executable, [sys.executable, sys.argv[1]], {})
"""
"""Leaves the call, its session and everything it was given in its environment."""
OUTLIVED = """
import os, runpy, sys
with open("began", "w") as began:
    began.write(str(os.getpid()))
open("known").read()
sys.argv[1:] = ["found"]
runpy.run_path("look.py")
with open("over", "w") as over:
    over.write("over")
"""


def holds_by(place: Place, adapter: str) -> None:
    """The engine of this place confines by this adapter, as if it was the strongest that works here."""
    if not place.bridle("sandbox", "probe", "--adapter", adapter, "--json").out.startswith("{"):
        pytest.skip(f"{adapter} does not work here")
    place.bridle("sandbox", "run", "--", "true")
    remembered = place.home / ".local/state/bridle/sandbox.json"
    answer = json.loads(remembered.read_text())
    remembered.write_text(json.dumps({**answer, "name": adapter, "variant": ""}))


def add_hook(place: Place, command: str) -> None:
    config = place.home / ".config/bridle"
    config.mkdir(parents=True)
    hook = {"event": "PreToolUse", "command": ["sh", "-c", command], "timeout_ms": 60_000}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in hook.items())
    (config / "config.toml").write_text(f"[[hooks]]\n{lines}")


@linux
def test_a_hook_is_never_a_client_either(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "own.py").write_text(LOOKS_FOR_THE_ENGINE)
    add_hook(place, f"python3 {tmp_path}/own.py found")
    with serving(place, "--listen", "127.0.0.1:0") as served:
        found = look_from_a_command(served, "true")
        assert found["token"] is True, "it has all the rights of the person"
        assert found["socket"] == found["port"] == ["403", "NotAClient"]


@linux
@pytest.mark.parametrize("started_by", ["tool", "hook"])
def test_what_outlived_a_killed_engine_is_no_client_of_the_next(tmp_path: Path, started_by: str) -> None:
    """Nothing holds commands here, the guardian is killed too, and the process has nothing left to be known by."""
    place = Place(tmp_path)
    for name in ("began", "known", "over"):
        os.mkfifo(place.work / name)
    in_work(place, "look.py", LOOKS_FOR_THE_ENGINE)
    for name, text in (("outlives.py", OUTLIVES), ("outlived.py", OUTLIVED)):
        (tmp_path / name).write_text(text)  # a hook of the person's runs nothing of the project's
    command = f"python3 {tmp_path}/outlives.py {tmp_path}/outlived.py; sleep 60"
    script = f"call bash {json.dumps({'command': command if started_by == 'tool' else 'true'})}\n"
    if started_by == "hook":
        add_hook(place, command)
    with serving(place) as killed:
        body = {"cwd": str(place.work), "model": place.script(script), "mode": "yolo"}
        session = killed.ask("POST", "/v1/sessions", {**body, "config": {"sandbox": "off"}}).json["session"]
        said = {"content": [{"type": "text", "text": "go"}]}
        assert killed.ask("POST", f"/v1/sessions/{session}/input", said).status == 202
        pid = int((place.work / "began").read_text())
        kill_together(killed.process)
    try:
        with serving(place, "--listen", "127.0.0.1:0") as served:
            tell_place(served)
            (place.work / "known").write_text("known")
            assert (place.work / "over").read_text() == "over"
            found = json.loads((place.work / "found.json").read_text())
            assert found["token"] is True, "it finds everything a client needs"
            assert found["socket"] == found["port"] == ["403", "NotAClient"]
            assert served.ask("GET", "/v1/health").status == 200
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@linux
@pytest.mark.parametrize("adapter", ["landlock", "unshare"])
def test_in_every_sandbox_a_command_finds_no_way_to_the_engine(tmp_path: Path, adapter: str) -> None:
    place = Place(tmp_path)
    holds_by(place, adapter)
    with serving(place, "--listen", "127.0.0.1:0") as served:
        found = look_from_a_command(served, "python3 look.py found")
        assert found["token"] in ("FileNotFoundError", "PermissionError")
        for way in ("socket", "port"):
            assert found[way] == ["403", "NotAClient"] or isinstance(found[way], str), found
        assert place.events(place.only_session())[0].event.sandbox == adapter


def test_file_tools_do_not_read_the_token(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        script = f"call read_file {json.dumps({'path': served.place.token_file})}\n---\nsay Done.\n"
        body = {"cwd": str(place.work), "model": place.script(script), "mode": "yolo"}
        session = served.ask("POST", "/v1/sessions", body).json["session"]
        said = {"content": [{"type": "text", "text": "read"}]}
        assert served.ask("POST", f"/v1/sessions/{session}/input?wait=turn", said).status == 200
        shown = served.ask("GET", f"/v1/sessions/{session}?events=50").json["events"]
        (result,) = [event["payload"] for event in shown if event["kind"] == "ToolResult"]
        assert result["outcome"] == "blocked"
        assert served.token not in json.dumps(shown)


def test_start_up_says_where_nothing_keeps_commands_from_looking(tmp_path: Path) -> None:
    place = Place(tmp_path)
    config = place.home / ".config/bridle"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[sandbox]\nmode = "off"\n')
    with serving(place) as served:
        assert any("Nothing on this machine keeps commands" in line for line in served.lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "8421"), "--listen takes an address"),
        (("--listen", "0.0.0.0:8421"), "--auth-token-file and --tls-cert and --tls-key must be given too"),
        (("--listen", "127.0.0.1:1", "--no-listen"), "exclude each other"),
        (("--tls-cert", "x"), "belong together"),
    ],
)
def test_what_cannot_be_listened_on_is_named(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = Place(tmp_path).bridle("serve", *words)
    assert ran.code == 2
    assert said in ran.err


ODD_NAME = """a "b" $HOME %h \\ <&> é's.token"""
UNIT_WORDS = ("--auth-channel", "notify", "--listen", "127.0.0.1:8421", "--auth-token-file", ODD_NAME)


def started_words(place: Place) -> list[str]:
    return [sys.executable, "-m", "bridle", "serve", *UNIT_WORDS[:-1], str(place.work / ODD_NAME)]


def test_a_plist_of_launchd_starts_the_same_engine(tmp_path: Path) -> None:
    place = Place(tmp_path)
    told = place.bridle("serve", *UNIT_WORDS, "--print-unit", "launchd")
    assert told.code == 0
    assert plistlib.loads(told.out.encode()) == {
        "Label": "bridle",
        "ProgramArguments": started_words(place),
        "RunAtLoad": True,
        "ExitTimeOut": 10,
    }


def test_a_unit_of_systemd_starts_the_same_engine(tmp_path: Path) -> None:
    place = Place(tmp_path)
    told = place.bridle("serve", *UNIT_WORDS, "--print-unit", "systemd")
    assert told.code == 0
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(told.out)
    assert {name: sorted(unit[name]) for name in unit.sections()} == {
        "Unit": ["Description"],
        "Service": ["ExecStart", "KillMode", "Restart", "TimeoutStopSec"],
        "Install": ["WantedBy"],
    }
    assert systemd_words(unit["Service"]["ExecStart"]) == started_words(place)
    if (systemd := shutil.which("systemd-analyze")) is not None:
        (tmp_path / "bridle.service").write_text(told.out)
        words = [systemd, "verify", "--user", "--man=no", str(tmp_path / "bridle.service")]
        env = {**place.environment(), "XDG_RUNTIME_DIR": str(tmp_path)}
        said = subprocess.run(words, env=env, capture_output=True, text=True, timeout=30, check=False)
        assert [line for line in said.stderr.splitlines() if "bridle" in line] == []


def systemd_words(line: str) -> list[str]:
    """The words of an `ExecStart=` as systemd reads them: quoted, with escapes, and with `%` and `$` doubled."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    assert " ".join(f'"{word}"' for word in words) == line, "nothing stands outside of quotes"
    plain = [re.sub(r"\\(.)", r"\1", word) for word in words]
    assert not [word for word in plain if re.search(r"(?<!%)%(%%)*(?!%)|(?<!\$)\$(\$\$)*(?!\$)", word)]
    return [word.replace("%%", "%").replace("$$", "$") for word in plain]
