"""`bridle serve`: an engine as a process of its own, found by clients and never by what it started."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from bridle.base.peer_process import can_tell_descent
from cli_kit import Place
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


def look_from_a_command(served: ServedPlace, command: str, **config: object) -> dict[str, object]:
    """What a command of a session finds of the engine that runs it; it is even told the token."""
    work = served.home.work
    in_work(served.home, "look.py", LOOKS_FOR_THE_ENGINE)
    in_work(served.home, "known.json", json.dumps([served.place.folder, served.token, served.port]))
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


def test_a_unit_starts_the_same_engine(tmp_path: Path) -> None:
    place = Place(tmp_path)
    unit = place.bridle("serve", "--listen", "127.0.0.1:8421", "--print-unit", "systemd")
    assert unit.code == 0
    assert '"-m" "bridle" "serve" "--listen" "127.0.0.1:8421"' in unit.out
    plist = place.bridle("serve", "--no-listen", "--print-unit", "launchd")
    assert "<string>--no-listen</string>" in plist.out
