"""Commands of scripts, carried out by a process beside the engine: the same in everything anybody can see."""

from __future__ import annotations

import os
import platform
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle._version import __version__
from bridle.base.engine_place import EnginePlace, connected_socket, socket_address
from bridle.base.hand_over import AGREED, DECLINED, GO, LENGTH_BYTES, STATUS_BYTES
from bridle.base.peer_process import parent_of
from bridle.base.standby import SPARE_MS, wait_before_fork_ms
from bridle.config.folders import folders
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran
from serve_kit import ServingProcess, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nobody stands by elsewhere")

MORE_THAN_A_PIPE_HOLDS = 70_000
LOADED = b"/msgspec/"
"""In the map of every process that has loaded what a command needs."""

SLEEPS, STOPPED = "S", "T"
LOOKS = 100_000


@pytest.fixture
def engine(place: Place) -> Iterator[ServingProcess]:
    with serving(place) as served:
        yield served


class Held:
    """A run that waits for the rest of its prompt, and so for us."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: str) -> None:
        self.process = process
        self._pipe = pipe
        assert process.stdin is not None
        process.stdin.write(b"x" * MORE_THAN_A_PIPE_HOLDS)  # returns when somebody reads it
        process.stdin.flush()
        others = {pid for pid in _processes() if self._pipe in _open_files(pid)} - {os.getpid()}
        self.carried_out_by = next(iter(others - {process.pid}), process.pid)

    @property
    def is_handed_over(self) -> bool:
        return self.carried_out_by != self.process.pid

    def end(self) -> Ran:
        """Gives the rest, and waits for its end."""
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return Ran(self.process.returncode, out.decode(), err.decode())


@contextmanager
def held(
    place: Place,
    *words: str,
    env: Mapping[str, str] | None = None,
    first: Callable[[], Any] | None = None,
    cwd: Path | None = None,
) -> Iterator[Held]:
    model = f"demo:{place.work}/{place.script('say Yes.' + chr(10)).partition(':')[2]}"
    process = subprocess.Popen(
        [*BRIDLE, "run", "-m", model, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd or place.work,
        env=place.environment(**(env or {})),
        preexec_fn=first,
    )
    try:
        assert process.stdin is not None
        yield Held(process, f"pipe:[{os.fstat(process.stdin.fileno()).st_ino}]")
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _open_files(pid: int) -> list[str]:
    try:
        return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _comes_to(state: str, pid: int) -> bool:
    """Whether a process is ever seen in this state, as the kernel calls it. What goes round and round never sleeps."""
    stat = Path(f"/proc/{pid}/stat")
    return any(stat.read_text().rpartition(")")[2].split()[0] == state for _ in range(LOOKS))


def _is_gone(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], TIMEOUT_S)[0])


def _standby(engine: ServingProcess) -> int:
    """The process that stands by: the parent of whoever waits for the next command."""
    home = f"HOME={engine.home.home}\0".encode()
    beside = {pid for pid in _processes() if _is_of(pid, home)} - {engine.process.pid}
    (found,) = [pid for pid in beside if parent_of(pid) not in beside]
    return found


def _is_of(pid: int, home: bytes) -> bool:
    try:
        is_served = b"\0serve\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return is_served and home in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def test_a_command_of_a_script_is_carried_out_by_who_has_all_of_it_loaded(
    place: Place, engine: ServingProcess
) -> None:
    with held(place) as run:
        assert run.is_handed_over
        assert LOADED in Path(f"/proc/{run.carried_out_by}/maps").read_bytes()
        assert LOADED not in Path(f"/proc/{run.process.pid}/maps").read_bytes()
        ended = run.end()
    assert (ended.code, ended.out) == (0, "[scripted] Yes.\n")


def test_a_list_of_sessions_is_the_same_with_and_without(place: Place, engine: ServingProcess) -> None:
    place.bridle("run", "-m", place.script("say Yes.\n"), "hi")
    handed = place.bridle("sessions", "list", "--json")
    alone = place.bridle("sessions", "list", "--json", env={"BRIDLE_NO_ATTACH": "1"})
    assert (handed.code, handed.out, handed.err) == (0, alone.out, "")
    assert "hi" in handed.out


def _fewer_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))


@pytest.mark.parametrize(
    ("words", "env", "first"),
    [
        pytest.param(("--no-attach",), {}, None, id="it is to run alone"),
        pytest.param((), {"BRIDLE_NO_ATTACH": "1"}, None, id="all are to run alone"),
        pytest.param((), {"BRIDLE_MODE": "plan"}, None, id="a setting of its own"),
        pytest.param(("--log-level", "debug"), {}, None, id="a log of its own"),
        pytest.param((), {"PYTHONHASHSEED": "1"}, None, id="a Python of its own"),
        pytest.param((), {}, _fewer_files, id="limits of its own"),
        pytest.param((), {}, lambda: os.nice(3), id="a priority of its own"),
        pytest.param(
            (), {}, lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}), id="a core of its own"
        ),
    ],
)
def test_what_is_not_the_same_elsewhere_runs_in_the_process_that_was_started(
    place: Place,
    engine: ServingProcess,
    words: tuple[str, ...],
    env: dict[str, str],
    first: Callable[[], Any] | None,
) -> None:
    with held(place, *words, env=env, first=first) as run:
        assert not run.is_handed_over
        ended = run.end()
    assert (ended.code, ended.out) == (0, "[scripted] Yes.\n")


def test_folder_mask_and_environment_are_those_of_whoever_hands_over(
    place: Place, engine: ServingProcess
) -> None:
    below = place.work / "below"
    below.mkdir()
    with held(place, "-o", "answer.txt", first=lambda: os.umask(0o027) and None, cwd=below) as run:
        assert run.is_handed_over
        assert run.end().code == 0
    answer = below / "answer.txt"
    assert (answer.read_text(), answer.stat().st_mode & 0o777) == ("[scripted] Yes.\n", 0o640)


def test_words_that_are_no_text_arrive_as_they_are(place: Place, engine: ServingProcess) -> None:
    strange = os.fsdecode(b"gone-\xff.txt")
    ran = place.bridle("run", "-m", "demo", "--prompt-file", strange, "hi")
    alone = place.bridle("run", "-m", "demo", "--prompt-file", strange, "hi", env={"BRIDLE_NO_ATTACH": "1"})
    assert (ran.code, ran.err) == (alone.code, alone.err)
    assert ran.code == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_who_carries_it_out(
    place: Place, engine: ServingProcess, number: signal.Signals
) -> None:
    model = place.script('call bash {"command": "sleep 60"}\n---\nsay Done.\n', "slow.script")
    with place.started("run", "-m", model, "--mode", "yolo", "--stream-json", "go") as run:
        run.until("ToolCallStarted")
        assert LOADED not in Path(f"/proc/{run.process.pid}/maps").read_bytes()
        ended = run.signal(number)
    assert ended.code == (129 if number == signal.SIGHUP else 130)
    assert "stopping…" in ended.err


def test_a_signal_that_is_too_late_for_who_declined_is_not_lost(place: Place) -> None:
    """The other process has ended by then, and it was nothing that it carried out."""
    there = EnginePlace(folders(place.environment()).runtime)
    os.makedirs(there.folder)
    Path(there.token_file).touch()
    with socket.socket(socket.AF_UNIX) as listener, socket_address(there.standby) as address:
        listener.bind(address)
        listener.listen()
        listener.settimeout(TIMEOUT_S)
        with place.started("run", "-m", "demo", "hi") as run:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 20)
                connection.send(AGREED)
                assert connection.recv(1) == GO
                run.process.send_signal(signal.SIGTERM)
                assert connection.recv(1) == bytes((signal.SIGTERM,))
                connection.send((DECLINED << 8).to_bytes(STATUS_BYTES, "big"))
            assert run.end().code == -signal.SIGTERM


def test_what_ignores_being_hung_up_on_is_not_hung_up_on(place: Place, engine: ServingProcess) -> None:
    with held(place, first=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as run:
        assert run.is_handed_over
        run.process.send_signal(signal.SIGHUP)
        os.kill(run.carried_out_by, signal.SIGHUP)
        assert run.end().code == 0


def test_it_pauses_with_whoever_handed_it_over(place: Place, engine: ServingProcess) -> None:
    with held(place) as run:
        other = run.carried_out_by
        run.process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(run.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert _comes_to(STOPPED, other)
        run.process.send_signal(signal.SIGCONT)
        assert run.end().code == 0


def test_it_is_killed_with_whoever_handed_it_over(place: Place, engine: ServingProcess) -> None:
    with held(place) as run:
        other = os.pidfd_open(run.carried_out_by)
        run.process.kill()
        assert _is_gone(other)
        os.close(other)


def test_whoever_handed_it_over_ends_as_it_did(place: Place, engine: ServingProcess) -> None:
    with held(place) as run:
        os.kill(run.carried_out_by, signal.SIGKILL)
        assert run.end().code == -signal.SIGKILL


def test_one_whose_standby_is_killed_says_so(place: Place, engine: ServingProcess) -> None:
    with held(place) as run:
        parent = parent_of(run.carried_out_by)
        assert parent is not None
        os.kill(parent, signal.SIGKILL)
        ended = run.end()
    assert ended.code == 1
    assert ended.err.startswith("bridle: the process that carried this out beside the engine was killed")
    assert place.bridle("run", "-m", "demo", "hi").code == 0  # and the next does without


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nobody_stands_by_without_an_engine(
    place: Place, engine: ServingProcess, number: signal.Signals
) -> None:
    standby = os.pidfd_open(_standby(engine))
    engine.process.send_signal(number)
    engine.process.wait(TIMEOUT_S)
    assert _is_gone(standby)
    os.close(standby)
    assert place.bridle("run", "-m", "demo", "hi").code == 0


def test_a_command_goes_on_when_the_engine_is_ending(place: Place, engine: ServingProcess) -> None:
    with held(place) as run:
        assert engine.stop() == 0
        ended = run.end()
    assert (ended.code, ended.out) == (0, "[scripted] Yes.\n")


def test_nobody_stands_by_where_that_is_not_wanted(place: Place) -> None:
    settings_file = place.home / ".config/bridle/config.toml"
    settings_file.parent.mkdir(parents=True)
    settings_file.write_text("[engine]\nstandby = false\n")
    with serving(place) as engine:
        assert not os.path.exists(engine.place.standby)
        with held(place) as run:
            assert not run.is_handed_over
            assert run.end().code == 0


@pytest.mark.parametrize("words", [("run", "--help"), ("sessions", "list", "--help")])
def test_help_of_a_verb_is_printed(place: Place, engine: ServingProcess, words: tuple[str, ...]) -> None:
    handed = place.bridle(*words)
    alone = place.bridle(*words, env={"BRIDLE_NO_ATTACH": "1"})
    assert (handed.code, handed.out, handed.err) == (0, alone.out, "")
    assert handed.out.startswith("bridle ")


def test_settings_that_are_wrong_are_told_as_ever_and_keep_nobody_from_standing_by(
    place: Place, engine: ServingProcess
) -> None:
    settings_file = place.home / ".config/bridle/config.toml"
    settings_file.parent.mkdir(parents=True, exist_ok=True)
    settings_file.write_text("[ui")
    for _ in range(3):
        handed = place.bridle("run", "--json", "hi")
        alone = place.bridle("run", "--json", "hi", env={"BRIDLE_NO_ATTACH": "1"})
        assert (handed.code, handed.out, handed.err) == (2, alone.out, alone.err)
        assert "BadConfig" in handed.out
    settings_file.unlink()
    with held(place) as run:
        assert run.is_handed_over


def test_a_file_is_that_of_the_process_that_was_started(place: Place, engine: ServingProcess) -> None:
    """`--prompt-file /dev/fd/3 3<words.txt` of a shell."""
    (place.work / "words.txt").write_text("words")
    with (place.work / "words.txt").open() as words:
        done = subprocess.run(
            [*BRIDLE, "run", "-m", "demo", "--prompt-file", f"/dev/fd/{words.fileno()}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=place.work,
            env=place.environment(),
            pass_fds=[words.fileno()],
            timeout=TIMEOUT_S,
            check=False,
        )
    assert (done.returncode, done.stdout[:10]) == (0, b"[scripted]")


def test_times_are_those_of_whoever_hands_over(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hi")
    export = ("sessions", "export", place.only_session(), "--format", "markdown")
    with serving(place, TZ="UTC"):
        said = {place.bridle(*export, env={"TZ": zone}).out for zone in ("AAA-12", "BBB+12")}
    assert len(said) == 2  # it is never the same day in both


def test_everything_goes_with_a_standby_that_is_killed(place: Place, engine: ServingProcess) -> None:
    """The command, whose end nobody would hear of, and the one that waits for the next."""
    with held(place) as run:
        standby = _standby(engine)
        forked = [os.pidfd_open(pid) for pid in (run.carried_out_by, _next_in_line(standby, run))]
        os.kill(standby, signal.SIGKILL)
        assert all(map(_is_gone, forked))
        assert run.process.wait(TIMEOUT_S) == 1
    for pidfd in forked:
        os.close(pidfd)


def _next_in_line(standby: int, busy: Held) -> int:
    """The process that waits for the next command. It is forked in a moment."""
    while True:
        others = {pid for pid in _processes() if parent_of(pid) == standby} - {busy.carried_out_by}
        if others:
            return others.pop()


@contextmanager
def without_room(standby: int, *, more: int) -> Iterator[None]:
    """It can open only so many files more, which is not enough for another process."""
    soft, most = resource.prlimit(standby, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{standby}/fd"))
    resource.prlimit(standby, resource.RLIMIT_NOFILE, (highest + 1 + more, most))
    try:
        yield
    finally:
        resource.prlimit(standby, resource.RLIMIT_NOFILE, (soft, most))


def _standby_row(place: Place) -> tuple[str, str]:
    """What `bridle doctor` says of it."""
    rows = place.bridle("doctor", "--offline", "--json").result["rows"]
    (found,) = [(row["status"], row["text"]) for row in rows if row["part"] == "standby"]
    return found


def _wait_for_room(place: Place) -> None:
    while (found := _standby_row(place))[0] != "ok":
        assert found in {("warn", NO_ROOM_NOW), ("warn", NO_ANSWER)}


BY_THEMSELVES = "bridle run and sessions of scripts run by themselves: "
NO_ROOM_NOW = f"{BY_THEMSELVES}no process could be forked for them just now; it is tried again twice a minute"
NO_ANSWER = f"{BY_THEMSELVES}the process that stands by did not answer within 0.5 s"


@pytest.mark.parametrize(("more", "said"), [(1, NO_ROOM_NOW), (0, NO_ANSWER)])
def test_where_there_is_no_room_for_more_what_has_begun_goes_on_and_it_is_tried_again(
    place: Place, engine: ServingProcess, more: int, said: str
) -> None:
    with ExitStack() as holds:
        run = holds.enter_context(held(place))
        standby = _standby(engine)
        _next_in_line(standby, run)
        assert _comes_to(SLEEPS, standby)  # and has opened all that belongs to that one
        with without_room(standby, more=more):
            last = holds.enter_context(held(place))
            assert last.is_handed_over
            with held(place) as alone:
                assert not alone.is_handed_over
                assert alone.end().code == 0
            assert _standby_row(place) == ("warn", said)
            assert _comes_to(SLEEPS, standby)
        assert (last.end().code, run.end().code) == (0, 0)
    _wait_for_room(place)
    with held(place) as again:
        assert again.is_handed_over


def test_each_try_comes_later_than_the_one_before_and_none_later_than_half_a_minute() -> None:
    waits = [wait_before_fork_ms(failures) for failures in range(50)]
    assert waits[0] == SPARE_MS
    assert all(2 * before == wait or before == wait > 30_000 for before, wait in pairwise(waits))
    assert waits[-1] < 31_000


def test_one_that_waits_for_a_command_and_is_killed_is_replaced(place: Place, engine: ServingProcess) -> None:
    standby = _standby(engine)
    (waits,) = [pid for pid in _processes() if parent_of(pid) == standby]
    os.kill(waits, signal.SIGKILL)
    _wait_for_room(place)
    with held(place) as run:
        assert run.is_handed_over


KILLED = (
    f"{BY_THEMSELVES}the process that stood by was killed, or could not be started; start bridle serve again"
)


def test_it_is_said_how_one_stands_by_again_after_it_was_killed(place: Place, engine: ServingProcess) -> None:
    standby = _standby(engine)
    gone = os.pidfd_open(standby)
    os.kill(standby, signal.SIGKILL)
    assert _is_gone(gone)
    os.close(gone)
    with held(place) as run:
        assert not run.is_handed_over
        assert run.end().code == 0
    assert _standby_row(place) == ("warn", KILLED)


WITHOUT_FORKS = """
import ctypes, errno, os, struct, sys
LOAD, EQUALS, HAS_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
CLONE, CLONE3, OF_THREADS_AND_VFORK = 56, 435, 0x14000
ALLOW, FAIL = 0x7FFF0000, 0x00050000
steps = [
    (LOAD, 0, 0, 0),
    (EQUALS, 4, 0, CLONE3),
    (EQUALS, 0, 2, CLONE),
    (LOAD, 0, 0, 16),
    (HAS_BIT, 0, 2, OF_THREADS_AND_VFORK),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, FAIL | errno.ENOSYS),
    (RETURN, 0, 0, FAIL | errno.EAGAIN),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0
assert prctl(22, 2, struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Becomes a program that can start others and threads, and for whose forks there is no room."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls of the system have other numbers")
def test_an_engine_serves_where_nobody_can_be_forked_to_stand_by(place: Place) -> None:
    with serving(place, through=(sys.executable, "-c", WITHOUT_FORKS)):
        assert _standby_row(place) == ("warn", KILLED)
        assert place.bridle("run", "-m", "demo", "hi").code == 0


def test_one_that_is_stopped_keeps_nothing_open(place: Place, engine: ServingProcess) -> None:
    """Who reads what a command writes is told of its end."""
    standby = _standby(engine)
    stopped = [standby, *(pid for pid in _processes() if parent_of(pid) == standby)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert place.bridle("run", "-m", place.script("say Yes.\n"), "hi").out == "[scripted] Yes.\n"
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


PROBE = """
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
os.chdir(os.path.dirname(sys.argv[1]))
connection.connect(os.path.basename(sys.argv[1]))
try:
    connection.send(bytes(4))
    print("heard" if connection.recv(1) == b"" else "agreed")
except (BrokenPipeError, ConnectionResetError):
    print("refused")
"""
"""Says something that means nothing: who reads that hangs up, and whoever hangs up without reading resets."""


def test_what_a_model_started_hands_nothing_over(place: Place, engine: ServingProcess) -> None:
    """Not even where no sandbox stands around it, and in a session of its own."""
    (place.work / "probe.py").write_text(PROBE)
    probe = [sys.executable, str(place.work / "probe.py"), engine.place.standby]
    outside = subprocess.run(probe, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert outside.stdout == "heard\n"
    command = f"setsid env -i {' '.join(probe)} </dev/null"
    model = place.script(f'call bash {{"command": "{command}"}}\n---\nsay Done.\n', "call.script")
    ran = place.bridle("run", "-m", model, "--mode", "yolo", "-s", "off", "--stream-json", "go")
    (result,) = [event for event in ran.stream if event["eventType"] == "ToolResult"]
    assert "refused" in str(result)


HAND_OVER = """
import sys
from bridle.base.hand_over import hand_over
print(hand_over(sys.argv[1], sys.argv[2], ["sessions", "list"]))
"""


@pytest.mark.parametrize(("version", "code"), [(__version__, "0"), ("another", "None")])
def test_one_of_another_version_carries_its_command_out_itself(
    place: Place, engine: ServingProcess, version: str, code: str
) -> None:
    said = _said([*BRIDLE[:-2], "-c", HAND_OVER, engine.place.folder, version], place)
    assert said.splitlines()[-1] == code


def test_who_does_not_know_the_token_hands_nothing_over(place: Place, engine: ServingProcess) -> None:
    """The border around a program may let it connect to a socket, and not read a file."""
    Path(engine.place.token_file).write_text("another")
    with held(place) as run:
        assert not run.is_handed_over


def test_one_that_says_nothing_holds_nobody_up(place: Place, engine: ServingProcess) -> None:
    with connected_socket(engine.place.standby):
        assert place.bridle("run", "-m", place.script("say Yes.\n"), "hi").out == "[scripted] Yes.\n"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), files=st.integers(0, 6))
def test_what_is_no_command_is_not_agreed_to(engine: ServingProcess, data: bytes, files: int) -> None:
    with connected_socket(engine.place.standby) as connection:
        connection.settimeout(TIMEOUT_S)
        framed = len(data).to_bytes(LENGTH_BYTES, "big") + data
        try:
            socket.send_fds(connection, [framed], [0] * files)
            connection.shutdown(socket.SHUT_WR)
            said = connection.recv(1)
        except (ConnectionResetError, BrokenPipeError):
            said = b""
    assert said != AGREED


def test_who_stands_by_has_loaded_what_commands_load(place: Place, engine: ServingProcess) -> None:
    """By what such commands import in a process of their own."""
    code = (
        "import importlib, sys, bridle.cli.lazy_imports, bridle.cli.serve, bridle.cli.verbs\n"
        "from bridle.cli.command_standby import PRELOADED\n"
        "for name in PRELOADED: importlib.import_module(name)\n"
        "print('\\n'.join(sys.modules))"
    )
    loaded = set(_said([sys.executable, "-c", code], place).split())
    place.bridle("run", "-m", "demo", "hi")
    for words in (("run", "-m", "demo", "hi"), ("sessions", "list")):
        said = _said([sys.executable, "-X", "importtime", "-m", "bridle", *words], place)
        needed = {
            line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")
        }
        ours = {name for name in needed if name.startswith("bridle.")}
        assert ours - loaded == set()


def _said(argv: list[str], place: Place) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        cwd=place.work,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr
