"""`bridle run` and `bridle attach` as clients of an engine that runs already."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from bridle.base.net.engine_place import EnginePlace
from bridle.config.folders import folders
from cli_kit import BRIDLE, TIMEOUT_S, Place
from cli_terminal import sitting
from serve_kit import PlaceWithEngine, ServedPlace, serving

SCRIPT = """\
call write_file {"path": "made.txt", "content": "made"}
---
call bash {"command": "cat made.txt"}
---
say It says made.
"""


def asked(served: ServedPlace, kind: str) -> int:
    """How often the engine was asked for this."""
    told = served.ask("GET", "/v1/metrics").body.decode()
    for line in told.splitlines():
        if line.startswith(f'bridle_requests_total{{kind="{kind}"}}'):
            return int(line.split()[-1])
    return 0


def kinds(place: Place, session: str) -> list[str]:
    """The kinds of the events of a session, but for text, which comes in pieces of any size."""
    return [one.kind for one in place.events(session) if one.kind not in ("TextDelta", "TurnTiming")]


@pytest.mark.requirement("G41.1")
def test_a_run_through_the_engine_is_the_same_run(tmp_path: Path) -> None:
    alone = Place(_made(tmp_path, "alone"))
    words = ("run", "-m", alone.script(SCRIPT), "--mode", "auto", "--json", "go")
    before = alone.bridle(*words)
    served_place = Place(_made(tmp_path, "served"))
    served_place.script(SCRIPT)
    with serving(served_place) as served:
        through = served_place.bridle(*words)
        assert asked(served, "SendInput") == 1, "it went through the engine"
        assert served.ask("GET", "/v1/health").json["open_sessions"] == 0, "its session ended with it"
    assert (through.code, before.code) == (0, 0)
    assert through.result["finalResponse"] == before.result["finalResponse"]
    assert (served_place.work / "made.txt").read_text() == (alone.work / "made.txt").read_text()
    assert kinds(served_place, served_place.only_session()) == kinds(alone, alone.only_session())
    text = ("run", "-m", "demo:it.script", "--mode", "auto", "go")
    with serving(served_place):
        told = served_place.bridle(*text)
    again = alone.bridle(*text)
    assert (told.out, [line.split()[0] for line in told.story]) == (
        again.out,
        [line.split()[0] for line in again.story],
    )


def test_what_runs_a_second_time_runs_through_an_engine(tmp_path: Path) -> None:
    """What the tests with the mark `through_engine` stand on."""
    place = PlaceWithEngine(tmp_path)
    try:
        assert place.bridle("run", "-m", place.script("say Hi.\n"), "hi").out == "[scripted] Hi.\n"
        assert asked(ServedPlace(place), "SendInput") == 1
    finally:
        place.close()


def test_a_script_is_named_in_the_folder_of_who_names_it_and_read_each_time(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.work / "below").mkdir()
    with serving(place) as served:
        for words in ("One.", "Two."):
            (place.work / "below/it.script").write_text(f"say {words}\n")
            ran = place.bridle("run", "-m", "demo:it.script", "hi", cwd=place.work / "below")
            assert ran.out == f"[scripted] {words}\n"
        body = {"cwd": str(place.work / "below"), "model": "demo:it.script"}
        assert served.ask("POST", "/v1/sessions", body).status == 201
        assert asked(served, "SendInput") == 2


def test_what_is_no_text_runs_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    folder = place.work / os.fsdecode(b"fo\xfflder")
    folder.mkdir()
    alone = place.bridle("run", "-m", "demo", "hi", cwd=folder)
    with serving(place):
        through = place.bridle("run", "-m", "demo", "hi", cwd=folder)
    assert (alone.code, alone) == (2, through)


def test_what_fails_in_the_engine_has_the_sentence_and_the_code_it_has_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    words = ("run", "-m", "nobody:model", "go")
    alone = place.bridle(*words)
    with serving(place):
        through = place.bridle(*words)
    assert (through.code, through.err) == (alone.code, alone.err)


def test_a_run_is_kept_from_the_engine_by_a_word(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        assert place.bridle("run", "-m", "demo", "--no-attach", "hi").code == 0
        assert place.bridle("run", "-m", "demo", "hi", env={"BRIDLE_NO_ATTACH": "1"}).code == 0
        assert asked(served, "SendInput") == 0


def test_what_cannot_travel_runs_alone_and_says_so_when_asked(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        for env in ({"BRIDLE_MODE": "safe"}, {"BRIDLE_MODEL": "demo"}):
            ran = place.bridle("run", "-m", "demo", "--verbose", "hi", env=env)
            assert ran.code == 0
            assert "runs in this process" in ran.err
        config = place.home / ".config/bridle"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(
            '[providers.work]\nwire = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = "WORK_KEY"\n'
        )
        words = ("run", "-m", "work:some", "--verbose", "--timeout", "0.5", "hi")
        assert "a key is in this environment" in place.bridle(*words, env={"WORK_KEY": "x"}).err
        assert asked(served, "SendInput") == 0


def test_a_socket_that_nobody_answers_at_is_no_obstacle(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        served.stop(signal.SIGKILL)
        assert place.bridle("run", "-m", "demo", "hi").code == 0


@pytest.mark.requirement("X8", "C23")
@pytest.mark.parametrize("token", [False, True], ids=["named", "the-one-of-a-token"])
def test_a_session_can_be_watched_from_elsewhere(tmp_path: Path, *, token: bool) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        alias = "ticket-4711"
        body = {"cwd": str(place.work), "model": place.script("say Seen from afar.\n"), "aliases": [alias]}
        session = served.ask("POST", "/v1/sessions", body).json["session"]
        said = {"content": [{"type": "text", "text": "hi"}]}
        served.ask("POST", f"/v1/sessions/{session}/input?wait=turn", said)
        which = [alias]
        if token:
            which = ["--token-file", str(tmp_path / "token")]
            with sitting(
                place, "token", "mint", "--session", session, "--watch", "--out", which[1]
            ) as person:
                assert person.ends() == 0
        watching = subprocess.Popen(
            [*BRIDLE, "attach", "--watch", *which],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place.work,
            env=place.environment(),
        )
        try:
            assert watching.stdout is not None
            seen = b""
            while b"Seen from afar." not in seen:
                line = watching.stdout.readline()
                assert line, seen
                seen += line
            served.ask("DELETE", f"/v1/sessions/{session}")
            assert watching.wait(TIMEOUT_S) == 0
        finally:
            watching.kill()
            watching.communicate(timeout=TIMEOUT_S)


def test_attach_says_what_is_missing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    nobody = place.bridle("attach", "--watch")
    assert nobody.code == 2
    assert "bridle serve" in nobody.err
    assert "for a terminal" in place.bridle("attach").err
    assert "--token-file" in place.bridle("attach", "--watch", "https://host.example:1").err
    token = place.work / "token"
    token.write_text("nonsense")
    token.chmod(0o400)
    away = place.bridle("attach", "--watch", "http://127.0.0.1:1", "--token-file", str(token))
    assert "No engine answers at http://127.0.0.1:1 (Connection refused). Start one: bridle serve" in away.err


def _made(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


@pytest.mark.requirement("G41.1")
def test_what_runs_at_a_terminal_is_shared_where_the_settings_say_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    config = place.home / ".config/bridle"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[engine]\nshare = true\n")
    with sitting(place, "-m", "demo") as person:
        person.sees("Type what you want.")
        found = EnginePlace(folders(place.environment()).runtime)
        assert found.found() is not None
        ran = place.bridle("run", "-m", "demo", "hi")
        assert ran.code == 0
        person.types("\x04")
        assert person.ends() == 0
    assert found.found() is None


@pytest.mark.requirement("G41.2")
def test_a_person_attaches_to_what_runs_and_leaves_it_running(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served:
        body = {"cwd": str(place.work), "model": place.script("say First.\n---\nsay Second.\n")}
        session = served.ask("POST", "/v1/sessions", body).json["session"]
        said = {"content": [{"type": "text", "text": "hi"}]}
        served.ask("POST", f"/v1/sessions/{session}/input?wait=turn", said)
        with sitting(place, "attach") as person:
            person.sees("First.")
            person.types("more\r")
            person.sees("Second.")
            person.types("\x04")
            assert person.ends() == 0
        assert served.ask("GET", "/v1/health").json["open_sessions"] == 1


WAITS = 'call bash {"command": "sleep 60"}\n---\nsay Not reached.\n'


def test_an_engine_that_ends_lets_its_terminals_go(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place) as served, sitting(place, "-m", place.script(WAITS), "wait") as person:
        person.sees("running sleep 60")
        assert served.stop() == 0
        assert person.ends(within_s=10) == 0
        assert "reconnecting" not in person.text
        assert 'Saved as "wait".  Come back: bridle -c' in person.text


def test_a_run_takes_leave_of_an_engine_that_ended(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with (
        serving(place) as served,
        place.started("run", "-m", place.script(WAITS), "--stream-json", "wait") as run,
    ):
        run.until("ToolCallStarted")
        assert served.stop() == 0
        ran = run.end()
        assert ran.code == 130
        assert "reconnecting" not in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("back", [True, False], ids=["back", "gone"])
def test_a_terminal_says_that_its_engine_was_killed(tmp_path: Path, *, back: bool) -> None:
    place = Place(tmp_path)
    with serving(place) as served, sitting(place, "-m", place.script(WAITS), "wait") as person:
        person.sees("running sleep 60")
        served.stop(signal.SIGKILL)
        person.sees("! engine lost, reconnecting, gives up in", within_s=10)
        if back:
            with serving(place):
                person.waits(lambda: "engine lost" not in person.text, "that the engine is back")
                person.types("\x04")
                assert person.ends() == 0
        else:
            person.types("\x04l")
            assert person.ends() == 0
        assert 'Saved as "wait".  Come back: bridle -c' in person.text


def test_what_somebody_else_says_has_their_name(tmp_path: Path) -> None:
    place = Place(tmp_path)
    script = place.script("say One.\n---\nsay Two.\n")
    with serving(place), sitting(place, "-m", script, "first") as person:
        person.sees("1 step")
        with sitting(place, "attach") as other:
            other.sees("Type what you want")
            other.types("second\r")
            person.sees("Two.", "terminal: second")
            other.types("\x04")
            assert other.ends() == 0
        person.types("\x04")
        assert person.ends() == 0


def test_who_comes_back_to_another_engine_is_who_they_were(tmp_path: Path) -> None:
    place = Place(tmp_path)
    script = place.script("say One.\n---\nsay Two.\n")
    with serving(place) as served, sitting(place, "-m", script, "first") as person:
        person.sees("1 step")
        served.stop(signal.SIGKILL)
        person.sees("! engine lost, reconnecting, gives up in", within_s=10)
        person.types("second\r")
        with serving(place):
            person.sees("Two.")
            person.waits(lambda: person.text.count("1 step") == 2, "the second end")
            person.types("\x04")
            assert person.ends() == 0, "nothing runs, so nothing is asked"
        assert "cli_" not in person.text, "what they said is theirs"


def test_a_terminal_that_goes_away_leaves_its_turn_running(tmp_path: Path) -> None:
    place = Place(tmp_path)
    model = place.script('say Wait.\ncall bash {"command": "echo on; read line < go"}\n---\nsay Over.\n')
    os.mkfifo(place.work / "go")
    with serving(place):
        with sitting(place, "-y", "-m", model, "start it") as person:
            person.sees("running echo on")
            person.hangs_up()
            assert person.process.wait(TIMEOUT_S) == 128 + signal.SIGHUP
        with sitting(place, "attach") as person:
            person.sees('Back in "start it"', "running echo on")
            (place.work / "go").write_text("on\n")
            person.sees("Over.")
