"""Scripts made at random are run for real when they are called read-only: then nothing may have changed.

What is generated circles around a marker: a file that would appear, a file that would change, a connection that would
arrive. Most scripts try to reach it through quoting, options, substitutions and redirections; those that are seen
through are not run, those that are believed are.
"""

import contextlib
import hashlib
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings

from bridle.shell.command_facts import ScriptContext, Understanding
from bridle.shell.understanding import understand
from effort import examples
from safety.corpus.loading import DAILY_FILES, SYSTEM_PATH, daily
from safety.corpus.scripts import assignments, scripts, soups

BASH = shutil.which("bash", path=SYSTEM_PATH)
GIT = shutil.which("git", path=SYSTEM_PATH)
SCRIPTS_PER_RUN = 250
"""Made and judged; about one in five is believed and run."""
SOUPS_PER_RUN = 200
SCRIPT_TIMEOUT_S = 5.0
QUIETLY = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.DEVNULL,
    "stderr": subprocess.DEVNULL,
    "timeout": 20,
}
"""No pipe is left that something in the background could keep open."""

pytestmark = pytest.mark.skipif(BASH is None or GIT is None, reason="needs bash and git")


class World:
    """A scratch folder with a repository and a program nobody should start, and a port nobody should call."""

    def __init__(self, root: Path, listener: socket.socket) -> None:
        self.root = Path(os.path.realpath(root))
        self.folder = self.root / "work"
        self.home = self.root / "home"
        self.listener = listener
        self.port = listener.getsockname()[1]
        self._wrap = _confinement(self.root)
        self.restore()

    def restore(self) -> None:
        for folder in (self.home, self.folder):
            shutil.rmtree(folder, ignore_errors=True)
        self.home.mkdir()
        (self.folder / "sub").mkdir(parents=True)
        (self.folder / "keep").write_text("b 2\na 1\ntouch marker\n", encoding="utf-8")
        (self.folder / "sub/keep.py").write_text("x = 1\n", encoding="utf-8")
        (self.folder / "keep.json").write_text('{"a": [1, 2]}\n', encoding="utf-8")
        evil = self.folder / "evil"
        evil.write_text(f"#!/bin/sh\necho x > {self.folder}/marker\n", encoding="utf-8")
        evil.chmod(0o755)
        for line in (
            "init -q",
            "add -A",
            "-c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -qm x",
        ):
            subprocess.run([GIT, *line.split()], cwd=self.folder, env=self.env, check=True, **QUIETLY)
        (self.folder / "keep").write_text("b 2\na 1\ntouch marker\nc\n", encoding="utf-8")

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": SYSTEM_PATH, "HOME": str(self.home), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}

    def is_believed(self, script: str) -> bool:
        surroundings = ScriptContext(cwd=str(self.folder), home=str(self.home), search_path=SYSTEM_PATH)
        return understand(script, surroundings).read_only

    def run(self, script: str) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*self._wrap, BASH, "-c", script],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SCRIPT_TIMEOUT_S,
                start_new_session=True,
            )

    def state(self) -> dict[str, tuple[int, int, str]]:
        """Every file with its kind, time and content. Git's index is left out: looking at a repository refreshes it."""
        found: dict[str, tuple[int, int, str]] = {}
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                if name == "index" and folder.endswith("/.git"):
                    continue
                status = os.lstat(path)
                regular = stat.S_ISREG(status.st_mode)
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest() if regular else ""
                touched = 0 if name == ".git" else status.st_mtime_ns
                found[path] = (status.st_mode, touched, content)
        return found

    def was_called(self) -> bool:
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return False
        connection.close()
        return True


def _confinement(root: Path) -> list[str]:
    """What goes before a command so that a mistake stays in the scratch folder. Without it nothing is run at all."""
    bubblewrap = shutil.which("bwrap", path=SYSTEM_PATH)
    if bubblewrap:
        bound = ["--ro-bind", "/", "/", "--bind", str(root), str(root), "--dev", "/dev", "--proc", "/proc"]
        confined = [bubblewrap, "--die-with-parent", "--unshare-pid", *bound]
        if subprocess.run([*confined, "true"], check=False, **QUIETLY).returncode == 0:
            return confined
    pytest.skip("needs bubblewrap that works: scripts that are believed are run for real")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[World]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield World(tmp_path_factory.mktemp("reality"), listener)


def check(world: World, script: str) -> bool:
    """Runs a script that is believed to be harmless. Whether it was; if not, the world is made anew."""
    before = world.state()
    world.run(script)
    harmless = world.state() == before and not world.was_called()
    if not harmless:
        world.restore()
    return harmless


@pytest.mark.timeout(120)
@settings(
    max_examples=examples(SCRIPTS_PER_RUN),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=scripts())
def test_a_script_called_read_only_changes_nothing(world: World, script: str) -> None:
    script = script.replace("@PORT@", str(world.port))
    if not world.is_believed(script):
        event("seen through")
        return
    event("believed and run")
    assert check(world, script), script


@pytest.mark.timeout(180)
def test_a_day_of_commands_that_ask_nobody_changes_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        fresh = World(tmp_path, listener)
        for name, text in DAILY_FILES.items():
            path = fresh.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        commands = [case.command for case in daily() if case.quiet and fresh.is_believed(case.command)]
        assert len(commands) >= 195
        before = fresh.state()
        for command in commands:
            fresh.run(command)
        here = str(fresh.folder)  # npm keeps a diary in the home folder
        changed = {
            path for path, was in fresh.state().items() if path.startswith(here) and before.get(path) != was
        }
        assert (changed, fresh.was_called()) == (set(), False)


class Recorder:
    """A shell in which no program exists: each one that would start is written down with its words."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self._wrap = _confinement(self.root)
        self.log = self.root / "log"
        self.folder = self.root / "empty"
        self.env = {
            "PATH": str(self.root / "nowhere"),
            "HOME": str(self.root),
            "LC_ALL": "C.UTF-8",
            "LOG": str(self.log),
            "BASH_FUNC_command_not_found_handle%%": _WRITE_DOWN,
        }

    def started(self, script: str) -> list[list[str]]:
        for folder in (self.folder, self.log):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*self._wrap, BASH, "-c", f"{script}\n"],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SCRIPT_TIMEOUT_S,
            )
        written = "".join(os.fsdecode(file.read_bytes()) for file in sorted(self.log.iterdir()))
        return [entry.split("\0")[:-1] for entry in written.split("\x01\0") if entry]


_WRITE_DOWN = """() { builtin printf '%s\\0' "$@" $'\\001' >> "$LOG/$BASHPID"; return 127; }"""
"""One file per process, so that the two sides of a pipe do not mix."""


def was_seen(started: list[str], found: Understanding) -> bool:
    """Whether a command that started is among the parts; an unknown word stands for any number of words.

    A part without words that may run something stands for anything: a person is asked about it.
    """
    for part in found.parts:
        if not part.words and part.command_class != "read_only":
            return True
        known = all(word is not None and not set("*?[") & set(word) for word in part.words)
        if part.words == tuple(started) or (not known and part.words[:1] in ((None,), (started[0],))):
            return True
        if part.words and part.words[0] is not None and set("*?[~") & set(part.words[0]):
            return True
    return False


@pytest.fixture(scope="module")
def recorder(tmp_path_factory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("recorder"))


@pytest.mark.timeout(120)
@settings(max_examples=examples(SOUPS_PER_RUN), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=soups())
def test_every_command_a_shell_starts_was_seen(recorder: Recorder, script: str) -> None:
    here = ScriptContext(cwd=str(recorder.folder), home=str(recorder.root), search_path=SYSTEM_PATH)
    found = understand(script, here)
    if found.command_class == "unparseable":
        event("not understood")
        return
    event("understood")
    unseen = [words for words in recorder.started(script) if not was_seen(words, found)]
    assert unseen == [], f"{script!r} seen as {[part.words for part in found.parts]}"


@pytest.mark.timeout(120)
@settings(max_examples=examples(SOUPS_PER_RUN), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=assignments())
def test_what_a_variable_is_said_to_hold_is_what_programs_are_given(recorder: Recorder, script: str) -> None:
    here = ScriptContext(cwd=str(recorder.folder), home=str(recorder.root), search_path=SYSTEM_PATH)
    found = understand(script, here)
    if found.command_class == "unparseable" and not found.parts:
        event("not understood")
        return
    event("known" if any(None not in part.words for part in found.parts) else "unknown")
    unseen = [words for words in recorder.started(script) if not was_seen(words, found)]
    assert unseen == [], f"{script!r} seen as {[part.words for part in found.parts]}"


@pytest.mark.parametrize(
    "script",
    [
        "touch marker",
        "echo x > keep",
        "./evil",
        ": < /dev/tcp/127.0.0.1/@PORT@",
        "touch -c keep",
        "mkdir marker",
    ],
)
def test_the_check_itself_sees_a_change(tmp_path, script: str) -> None:
    """Without this, the test above could pass by seeing nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        fresh = World(tmp_path, listener)
        assert check(fresh, "ls; git status; cat keep")
        assert not check(fresh, script.replace("@PORT@", str(fresh.port)))
