"""`bridle doctor`: every part by itself, on machines where all is well and where much is broken."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridle._version import __version__
from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.base.process.installation import install_command
from bridle.cli.setup.doctor import TooLong, bounded
from bridle.conformance.servers import JsonServer, ModelServer
from bridle.control.token_files import TokenFile, open_tokens
from bridle.providers.script import say
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran
from serve_kit import serving
from tables import table

KEY = "sk-" + "f00ba4" * 6


def rows(ran: Ran) -> list[tuple[str, str, str]]:
    """Status, part and text of each line; whatever is broken, there is no traceback."""
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[-2] == ""
    return [(line[:4].strip(), line[6:].split()[0], line[6:].split(None, 1)[1]) for line in lines[:-2]]


def states(ran: Ran) -> dict[str, str]:
    return {part: status for status, part, _text in rows(ran)}


def text_of(ran: Ran, wanted: str) -> str:
    (text,) = [text for _status, part, text in rows(ran) if part == wanted]
    return text


async def doctor(place: Place, *words: str, **env: str) -> Ran:
    """The command in a process, while the servers of the test answer."""
    return await asyncio.to_thread(place.bridle, "doctor", *words, env=env)


def test_a_new_machine_has_no_problem_but_the_missing_model(place: Place) -> None:
    ran = place.bridle("doctor", "--offline")
    assert ran.code == 0
    assert states(ran) == {
        "bridle": "ok",
        "model": "skip",
        "store": "skip",
        "keys": "skip",
        "helper": "skip",
        "engine": "skip",
        "sandbox": "warn",
        "config": "ok",
        "git": "ok",
        "disk": "ok",
        "extras": "ok",
        "terminal": "skip",
    }
    assert text_of(ran, "bridle").startswith(f"{__version__}, Python 3.")
    assert re.search(
        r" works.*; network is not limited|^none.*: commands run with your rights", text_of(ran, "sandbox")
    )
    assert ran.out.splitlines()[-1].startswith(
        "0 problems, 1 warning.   config ~/.config/bridle   data ~/.local"
    )
    assert os.listdir(place.home) == []


def test_where_everything_works_every_row_says_what_was_found(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello")
    place.bridle("config", "set", "model", "demo")
    ran = place.bridle("doctor")
    assert ran.code == 0
    assert text_of(ran, "model") == "demo:hello (user config, line 1), a script: no key, no network"
    assert text_of(ran, "config") == "~/.config/bridle/config.toml"
    assert text_of(ran, "disk").endswith(" GB free for ~/.local/share/bridle")
    store = text_of(ran, "store")
    assert store.startswith("1 session, 0.")
    assert store.endswith(" MB, encrypted, integrity of the newest session good")


@pytest.mark.requirement("C1")
@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, ("home/.config/bridle", "home/.local/share/bridle", "home/.local/state/bridle")),
        ({"BRIDLE_HOME": "one"}, ("one/config", "one/data", "one/state")),
        (
            {"XDG_CONFIG_HOME": "c", "XDG_DATA_HOME": "d", "XDG_STATE_HOME": "s"},
            ("c/bridle", "d/bridle", "s/bridle"),
        ),
    ],
    ids=["home", "BRIDLE_HOME", "XDG"],
)
def test_every_path_in_use_is_printed(
    place: Place, tmp_path: Path, env: dict[str, str], wanted: tuple[str, str, str]
) -> None:
    absolute = {name: str(tmp_path / value) for name, value in env.items()}
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text("[ui]\nreader = true\n")
    assert place.bridle("config", "set", "model", "demo", env=absolute).code == 0
    assert place.bridle("run", "hi", env=absolute).code == 0
    paths: dict[str, Any] = place.bridle("doctor", "--offline", "--json", env=absolute).result["paths"]
    config, data, state = (tmp_path / path for path in wanted)
    assert paths == {
        "config": str(config),
        "data": str(data),
        "state": str(state),
        "user_file": str(config / "config.toml"),
        "settings_files": [str(config / "config.toml"), str(place.work / ".bridle/config.toml")],
        "sessions": str(data / "sessions.db"),
        "key": str(data / "sessions.key"),
        "log": str(state / "log"),
    }
    assert all(os.path.exists(path) for path in (paths["user_file"], paths["sessions"], paths["key"]))
    shown = place.bridle("doctor", "--offline", env=absolute).out.splitlines()[-1]
    home = str(place.home)
    for name, path in (("config", config), ("data", data), ("state", state)):
        assert f"{name} {str(path).replace(home, '~')}" in shown


def test_the_rows_for_programs_are_the_same(place: Place) -> None:
    shown = place.bridle("doctor", "--offline")
    found = place.bridle("doctor", "--offline", "--json")
    assert (found.code, found.err) == (0, "")
    result = found.result
    assert [(row["status"], row["part"], row["text"]) for row in result["rows"]] == rows(shown)
    assert (result["ok"], result["problems"], result["warnings"]) == (True, 0, 1)


def test_without_a_model_the_next_step_is_named(place: Place) -> None:
    ran = place.bridle("doctor", env={"OPENAI_API_KEY": KEY})
    assert (ran.code, states(ran)["model"]) == (1, "fail")
    assert "bridle models openai" in text_of(ran, "model")
    assert ran.out.splitlines()[-1].startswith("1 problem, 1 warning.")
    assert KEY not in ran.out


async def test_the_provider_of_the_chosen_model_is_asked_for_its_list_only(place: Place) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        settings = (
            f"providers.work.base_url={server.url}",
            "providers.work.key_env=WORK_KEY",
            "model=work:scripted-large",
        )
        words = [word for setting in settings for word in ("--set", setting)]
        well = await doctor(place, *words, WORK_KEY=KEY)
        unlisted = await doctor(place, *words, "--set", "model=work:gone", WORK_KEY=KEY)
        asked = [f"{request.method} {request.path}" for request in server.requests]
        offline = await doctor(place, "--offline", *words, WORK_KEY=KEY)
        assert len(server.requests) == len(asked)
        without = await doctor(place, *words)
    dead = await doctor(place, *words, WORK_KEY=KEY)
    assert asked == ["GET /v1/models"] * 2
    assert (well.code, states(well)["model"]) == (0, "ok")
    assert text_of(well, "model").startswith("work:scripted-large (--set), lists 2 models in ")
    assert text_of(well, "model").endswith(" s, key from WORK_KEY")
    assert (unlisted.code, states(unlisted)["model"]) == (0, "warn")
    assert (
        text_of(offline, "model") == "work:scripted-large (--set), key from WORK_KEY, not asked (--offline)"
    )
    assert states(offline)["model"] == "skip"
    assert (without.code, text_of(without, "model")) == (
        1,
        "work needs a key and none was found. Set WORK_KEY, or run: bridle login work",
    )
    assert dead.code == 1
    assert text_of(dead, "model").startswith(f"Cannot reach {server.origin}")
    for ran in (well, unlisted, offline, without, dead):
        assert KEY not in ran.out


async def test_a_key_that_is_refused_is_a_problem_without_the_key(place: Place) -> None:
    answers = {"GET /v1/models": {"error": {"message": f"no such key {KEY}"}}}
    async with JsonServer(answers, status={"GET /v1/models": 401}) as server:
        ran = await doctor(
            place,
            "--set",
            f"providers.openai.base_url={server.origin}/v1",
            OPENAI_API_KEY=KEY,
            BRIDLE_MODEL="openai:gpt",
        )
    assert (ran.code, text_of(ran, "model")) == (
        1,
        "openai refused the key from OPENAI_API_KEY (401). Check it, or run: bridle login openai",
    )


def test_settings_that_are_wrong_or_ignored_are_rows_and_the_rest_is_still_looked_at(place: Place) -> None:
    file = place.home / ".config/bridle/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('mode = "yollo"\nmodel = "demo"\n')
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text(
        '[providers.x]\nbase_url = "http://evil\\u001b.example"\n'
    )
    ran = place.bridle("doctor", env={"BRIDLE_MOD": "x"})
    assert ran.code == 1
    config = [(status, text) for status, part, text in rows(ran) if part == "config"]
    assert [status for status, _text in config] == ["fail", "warn", "warn"]
    assert config[0][1].startswith('config.toml line 1: mode = "yollo" is not a mode')
    assert "ignored" in config[1][1]
    assert "BRIDLE_MOD" in config[2][1]
    assert states(ran)["model"] == "ok"
    assert "\x1b" not in ran.out


@pytest.mark.parametrize(
    ("name", "content"),
    [("sessions.db", b"not a database" * 1000), ("sessions.key", b"no key\n"), ("sessions.key", None)],
    ids=["garbage", "bad key", "no key"],
)
def test_a_store_that_cannot_be_read_is_a_problem_of_one_row(
    place: Place, name: str, content: bytes | None
) -> None:
    place.bridle("run", "-m", "demo", "hello")
    file = place.data / name
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    ran = place.bridle("doctor", "--offline")
    assert (ran.code, states(ran)["store"], states(ran)["sandbox"]) == (1, "fail", "warn")


def test_a_log_that_lost_its_end_is_a_problem(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello")
    (tip,) = (place.data / "tips").iterdir()
    place.bridle("run", "-m", "demo", "-c", "again")
    later = tip.read_bytes()
    kept = {path.name: path.read_bytes() for path in place.data.iterdir() if path.is_file()}
    place.bridle("run", "-m", "demo", "-c", "and again")
    assert tip.read_bytes() != later
    for file_name, content in kept.items():
        (place.data / file_name).write_bytes(content)
    ran = place.bridle("doctor", "--offline")
    assert (ran.code, states(ran)["store"]) == (1, "fail")
    assert "damaged" in text_of(ran, "store")


def test_an_event_that_was_changed_is_a_problem(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello")
    with closing(place.database().connect()) as connection:
        connection.execute("update events set payload = cast('{}' as blob) where id = 2")
    ran = place.bridle("doctor", "--offline")
    assert (ran.code, states(ran)["store"]) == (1, "fail")
    assert text_of(ran, "store").endswith(
        "is damaged at event 2: its content was changed. Save what is whole: bridle sessions repair"
    )


def test_a_session_that_runs_is_left_alone(place: Place) -> None:
    model = place.script("say begun\nwait 30\nsay done\n")
    with place.started("run", "--stream-json", "-m", model, "hello") as running:
        running.until("StepStarted")
        locks = {path: path.stat() for path in (place.data / "locks").iterdir()}
        ran = place.bridle("doctor", "--offline")
        assert {path: path.stat() for path in (place.data / "locks").iterdir()} == locks
    assert (ran.code, states(ran)["store"]) == (0, "ok")
    assert text_of(ran, "store").endswith("integrity of the newest session good")


def test_looking_takes_no_lock_and_makes_nothing(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello")
    for folder in ("locks", "tips"):
        (place.data / folder).rename(place.data / f"{folder}.away")
    assert f"{place.data}/tips has nothing" in text_of(place.bridle("doctor", "--offline"), "store")
    assert not (place.data / "locks").exists()
    assert not (place.data / "tips").exists()


def test_a_home_that_is_no_folder_is_a_problem_of_one_row(place: Place) -> None:
    file = place.work / "file"
    file.write_text("")
    ran = place.bridle("doctor", "--offline", env={"HOME": str(file)})
    assert (ran.code, states(ran)["store"]) == (1, "fail")
    assert text_of(ran, "store").endswith(f"{file} is not a folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_home_that_cannot_be_written_is_a_problem_of_one_row(place: Place) -> None:
    place.home.chmod(0o500)
    ran = place.bridle("doctor", "--offline")
    assert (ran.code, states(ran)["store"]) == (1, "fail")


def test_on_a_terminal_its_powers_are_told(place: Place) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 77))
    process = subprocess.Popen(
        [*BRIDLE, "doctor", "--offline"],
        env=place.environment(TERM="xterm-256color"),
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    said = bytearray()
    try:
        while chunk := os.read(ours, 4096):
            said += chunk
    except OSError:
        pass  # Linux says so when the last writer is gone
    finally:
        os.close(ours)
    _, error = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, error) == (0, b"")
    assert "ok    terminal  256 colours, 77 columns, UTF-8" in said.decode().replace("\r", "")


# An engine that listens


def test_an_engine_that_listens_is_asked_how_it_is(place: Place) -> None:
    with serving(place) as served:
        served.ask("GET", "/v1/handshake")
        made = served.ask("POST", "/v1/sessions", {"cwd": str(place.work), "model": "demo"})
        assert made.status == 201
        ran = place.bridle("doctor", "--offline")
        assert (ran.code, states(ran)["engine"]) == (0, "ok")
        assert text_of(ran, "engine") == f"{__version__}, 1 open session"
        os.chmod(served.place.token_file, 0o640)
        ran = place.bridle("doctor", "--offline")
        assert (ran.code, ("fail", "engine") in [row[:2] for row in rows(ran)]) == (1, True)
        os.chmod(served.place.token_file, 0o600)
        served.process.kill()
        served.process.wait(TIMEOUT_S)
        ran = place.bridle("doctor", "--offline")
    assert (ran.code, states(ran)["engine"]) == (0, "warn")
    assert text_of(ran, "engine") == "none answers; what one left is taken over by the next"


def test_what_was_minted_is_counted_and_a_register_that_cannot_be_used_is_a_problem(place: Place) -> None:
    register = TokenFile(str(place.home / ".local/state/bridle"), SystemClock())
    ids = Ids(SystemClock().now_ms, os.urandom)
    tokens = open_tokens(register, clock=SystemClock(), ids=ids, machine_key=None, hear=lambda *_: None)
    for life_s in (600, 600, 0):
        tokens.issue(tokens.new_claims(life_s=life_s, identity_class="human", sessions=("sess_1",)))
    tokens.revoke(tokens.issued[0].claims.jti)
    ran = place.bridle("doctor", "--offline")
    assert (ran.code, text_of(ran, "tokens")) == (0, "1 token good, 1 revoked, 1 expired")
    Path(register.path).write_text("{}")
    ran = place.bridle("doctor", "--offline")
    assert (ran.code, states(ran)["tokens"]) == (1, "fail")


# What stands around a session


def test_providers_that_are_set_up_are_listed_with_where_their_key_comes_from(place: Place) -> None:
    sets = (
        "--set", "providers.work.base_url=http://127.0.0.1:9/v1", "--set", "providers.work.key_env=WORK_KEY",
        "--set", "providers.here.base_url=http://127.0.0.1:9/v1", "--set", "providers.here.local=true",
    )  # fmt: skip
    ran = place.bridle("doctor", "--offline", *sets, env={"OPENAI_API_KEY": KEY})
    found = [(status, text) for status, part, text in rows(ran) if part == "provider"]
    assert found == [
        ("warn", "work: WORK_KEY is not set"),
        ("ok", "here: no key"),
        ("ok", "openai: key from OPENAI_API_KEY"),
    ]
    assert KEY not in ran.out


def test_hooks_that_count_and_hooks_that_do_not_are_told(place: Place) -> None:
    file = place.home / ".config/bridle/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[[hooks]]\nevent = "Stop"\ncommand = "true"\n')
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text('[[hooks]]\nevent = "Stop"\ncommand = "false"\n')
    found = [row for row in rows(place.bridle("doctor", "--offline")) if row[1] == "hooks"]
    assert [status for status, _, _ in found] == ["ok", "warn"]
    assert found[0][2] == "1 hook: bridle hooks"
    assert ".bridle/config.toml" in found[1][2]


def test_git_is_told_with_its_version_missing_or_broken(place: Place, tmp_path: Path) -> None:
    assert text_of(place.bridle("doctor", "--offline"), "git")[0].isdigit()
    programs = tmp_path / "bin"
    programs.mkdir()
    without = place.bridle("doctor", "--offline", env={"PATH": str(programs)})
    assert (without.code, states(without)["git"]) == (0, "warn")
    (programs / "git").write_text("#!/bin/sh\nexit 7\n")
    (programs / "git").chmod(0o755)
    broken = place.bridle("doctor", "--offline", env={"PATH": str(programs)})
    assert (broken.code, states(broken)["git"]) == (1, "fail")
    assert text_of(broken, "git").endswith("(exit 7)")


def test_an_extra_that_the_settings_want_and_that_is_not_there_is_named(place: Place) -> None:
    without = "import sys; sys.modules['opentelemetry'] = None; from bridle.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", without, "doctor", "--offline", "--json"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(OTEL_TRACES_EXPORTER="otlp"),
        timeout=TIMEOUT_S,
        check=False,
    )
    found = [row["text"] for row in json.loads(ran.stdout)["rows"] if row["part"] == "extras"]
    assert found[1] == f"tracing with OpenTelemetry needs a package more: {install_command('otel')}"
    assert "otel" in found[0].partition("; not ")[2]


@table("hang", [lambda: time.sleep(60), lambda: asyncio.run(asyncio.sleep(60))])
def test_a_part_that_does_not_answer_is_left(hang: Any) -> None:
    with pytest.raises(TooLong), bounded(0.05):
        hang()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
