"""`bridle sandbox probe`, and many more attempts: every adapter stops what it says it stops, and nothing is harmed."""

import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

import escape_attempts as escapes
from bridle.base.process.processes import CannotStart, Processes
from bridle.sandbox.adapters import landlock
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.adapters.unshare import Unshare, programs
from bridle.sandbox.plain_spawn import ConfinedProcess, EnvOnlySpawn
from bridle.sandbox.probe import (
    CHECKS,
    ProbeWorld,
    checks_for,
    probe_world,
    run_probe,
    run_script,
)
from bridle.sandbox.probe_script import ATTEMPTS
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import own_programs

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="these sandboxes need Linux")


def bubblewrap():
    return Bubblewrap(shutil.which("bwrap") or pytest.skip("bubblewrap is not installed"))


def unshare():
    return Unshare(programs() or pytest.skip("unshare is not installed"))


def with_landlock():
    return landlock.Landlock() if landlock.available() else pytest.skip("this kernel has no Landlock")


adapters = pytest.mark.parametrize(
    "make", [bubblewrap, unshare, with_landlock], ids=lambda made: made.__name__
)


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    started = Processes()
    yield started
    await started.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "worlds").mkdir()
    return str(tmp_path / "worlds")


def held_by(adapter, processes: Processes):
    """Start commands in this sandbox, with a temporary folder of the world's own in place of the machine's."""

    async def choose():
        return adapter

    def start_for(world: ProbeWorld):
        place = msgspec.structs.replace(world.place, temporary=(f"{world.root}/tmp",))
        return SandboxSpawn(processes, place=lambda: place, choose=choose, outside=world.network)

    return start_for


async def outcomes(start_for, folder: str, processes: Processes, **options) -> dict[str, tuple[str, str]]:
    results = await run_probe(start_for, folder=folder, processes=processes, **options)
    assert os.listdir(folder) == [], "something was left behind"
    return {result.name: (result.outcome, result.detail) for result in results}


def named(results, *wanted: str) -> set[str]:
    return {name for name, (outcome, _) in results.items() if outcome in wanted}


@adapters
@pytest.mark.parametrize("network", ["inherit", "filtered", "deny"])
async def test_the_probe_finds_no_leak(processes, folder, make, network) -> None:
    if network == "filtered" and make is with_landlock:
        pytest.skip("Landlock cannot filter the network")
    adapter = make()
    covers = getattr(adapter, "covers", None)
    results = await outcomes(held_by(adapter, processes), folder, processes, network=network, covers=covers)
    assert named(results, "works") == {check.name for check in CHECKS if check.must_work}
    left_out = {check.name for check in checks_for(network) if check.network and network == "inherit"}
    if covers is not None:
        left_out |= {check.name for check in CHECKS if check.part == "read_only"}
    assert named(results, "not covered") == left_out
    if make is with_landlock:  # without namespaces, a process that changes its session gets away
        left_out.add("outlive_session")
    assert named(results, "blocked") | left_out == set(results) - named(results, "works")


async def test_without_a_sandbox_the_probe_finds_every_leak(processes, folder) -> None:
    results = await outcomes(lambda _world: EnvOnlySpawn(processes), folder, processes)
    up_to_the_system = {"trace_process", "read_environment"}
    works = {check.name for check in CHECKS if check.must_work}
    assert named(results, "leaks") | up_to_the_system == {check.name for check in CHECKS} - works
    assert results["write_outside"] == ("leaks", "out/new was made")
    assert results["change_git_config"] == ("leaks", "work/.git/config was changed")
    assert results["read_key"] == ("leaks", "a secret could be read")
    assert results["signal_process"] == ("leaks", "a process outside was ended")
    assert results["outlive_session"] == ("leaks", "a process lives on")


class Careless:
    """Start commands without a sandbox, with the whole environment. `argv` replaces the command or stands before it."""

    adapter = "careless"

    def __init__(self, processes: Processes, *argv: str, appended: bool = False) -> None:
        self._processes = processes
        self._argv = argv
        self._appended = appended

    async def __call__(self, argv: Sequence[str], **options) -> ConfinedProcess:
        kept = {name: options[name] for name in ("cwd", "env", "on_output", "on_error")}
        words = (*self._argv, *argv) if self._appended else self._argv or argv
        started = await self._processes.start(words, **kept)
        return ConfinedProcess(started, self.adapter)


async def test_a_secret_in_the_environment_is_found(processes, folder) -> None:
    results = await outcomes(lambda _world: Careless(processes), folder, processes)
    assert results["read_environment"] == ("leaks", "a secret could be read")


async def test_a_proxy_that_passes_metadata_on_is_found(processes, folder) -> None:
    """The proxy answers 502 where it tried to reach a host and could not."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(5)

        def answer() -> None:
            client, _ = proxy.accept()
            with client:
                client.recv(4096)
                client.sendall(b"HTTP/1.1 502 not reached\r\n\r\n")

        serving = threading.Thread(target=answer)
        serving.start()
        port = proxy.getsockname()[1]
        script = f'export HTTPS_PROXY=http://127.0.0.1:{port}; exec "$@"'
        results = await outcomes(
            lambda _world: Careless(processes, "/bin/sh", "-c", script, "-", appended=True),
            folder,
            processes,
            network="filtered",
        )
        serving.join()
    assert results["reach_metadata"] == ("leaks", "it was passed on: HTTP/1.1 502 not reached")


async def test_a_check_that_was_not_made_is_not_called_blocked(processes, folder) -> None:
    """An answer of a check stands; without one the result is unknown and a problem."""
    answer = r"""printf '%s\n' '["write_outside", "refused", "a\nb\u001b[1m"]' other; echo broken pipe >&2; exit 3"""
    cases = {
        answer: {"write_outside": ("blocked", "a b⟨ESC⟩[1m"), "read_key": ("not tried", "broken pipe")},
        "exit 3": {"write_outside": ("not tried", "it ended with 3")},
        "kill -s KILL $$": {"write_outside": ("not tried", "it ended with -9")},
        """echo '["work_in_workspace", "refused", "Read-only"]'""": {
            "work_in_workspace": ("broken", "Read-only")
        },
        """echo '["work_with_git", "not here", "no git"]'""": {"work_with_git": ("not here", "no git")},
    }

    async def refuse(argv, **_options):
        raise CannotStart(argv[0], "no sandbox")

    for script, expected in cases.items():
        results = await outcomes(
            lambda _world, script=script: Careless(processes, "/bin/sh", "-c", script), folder, processes
        )
        assert {name: results[name] for name in expected} == expected, script
    results = await run_probe(lambda _world: refuse, folder=folder, processes=processes)
    assert all(result.outcome == "not tried" and result.is_problem for result in results)


def test_every_check_has_an_attempt() -> None:
    assert {check.name for check in checks_for("filtered")} == set(ATTEMPTS)


# The attempts beyond the dozen


class Targets:
    """What the other attempts attack, in the folders of a world."""

    def __init__(self, world: ProbeWorld) -> None:
        self.world = world
        self._open = ExitStack()
        root, home = Path(world.root), Path(world.home)
        texts = {
            home / ".aws/credentials": world.token,
            home / ".bashrc": "",
            home / ".cache/pip/wheel": "of another project\n",
            root / "out/victim": "as it was\n",
            root / "tmp/secret": world.token,
            root / "work/mine": "mine\n",
        }
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (root / "work/src").mkdir()
        with open(root / "work/.git/config", "a") as settings:
            settings.write("[extensions]\n\tworktreeConfig = true\n")
        shared = (
            self._open.enter_context(TemporaryDirectory(dir="/dev/shm", prefix="bridle-probe-")) + "/secret"
        )
        Path(shared).write_text(world.token)
        sockets = {"desktop_socket": root / "run/s", "engine_socket": Path(world.own["runtime"]) / "s"}
        sockets["plain_socket"] = root / "out/s"
        self._doors = {name: self._listen(path) for name, path in sockets.items()}
        abstract = f"bridle-probe-{os.urandom(8).hex()}"
        self._doors["abstract_socket"] = self._listen(None, abstract)
        datagrams = self._datagrams = self._open.enter_context(
            closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        )
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        world.env["XDG_RUNTIME_DIR"] = f"{root}/run"
        world.place = msgspec.structs.replace(world.place, env=world.env)
        self.facts = {
            **{name: str(path) for name, path in sockets.items()},
            "abstract_socket": abstract,
            "udp_port": str(datagrams.getsockname()[1]),
            "shared": shared,
            "temporary": f"{root}/tmp",
            "source": str(Path(own_programs()[0]).parent),
        }
        self._before = self._seen()

    def close(self) -> None:
        self._open.close()

    def harm(self) -> list[str]:
        """Return every file that is not as it was, and every socket that was reached."""
        now = self._seen()
        changed = [path for path in {*now, *self._before} if now.get(path) != self._before.get(path)]
        reached = [name for name, door in self._doors.items() if self._was_reached(door.accept)]
        sent = ["udp_port"] if self._was_reached(lambda: self._datagrams.recv(64)) else []
        return sorted(changed) + reached + sent

    def _seen(self) -> dict[str, tuple[int, bytes]]:
        world = self.world
        roots = [f"{world.root}/{name}" for name in ("home", "out", "tmp", "run")]
        protected = (
            ".git/config",
            ".git/hooks",
            ".git/commondir",
            ".git/config.worktree",
            "AGENTS.md",
            *escapes.PLANTED,
        )
        found: dict[str, tuple[int, bytes]] = {}
        for root in (*roots, *(f"{world.work}/{name}" for name in protected)):
            for path in (Path(root), *sorted(Path(root).rglob("*"))):
                if path.exists():
                    content = path.read_bytes() if path.is_file() else b""
                    found[os.path.relpath(path, world.root)] = (path.stat().st_mode, content)
        return found

    def _listen(self, path: Path | None, abstract: str = "") -> socket.socket:
        door = self._open.enter_context(closing(socket.socket(socket.AF_UNIX)))
        if path is None:
            door.bind("\0" + abstract)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(path.parent, os.O_RDONLY)
            door.bind(f"/proc/self/fd/{folder}/{path.name}")
            os.close(folder)
        door.listen()
        door.setblocking(False)
        return door

    @staticmethod
    def _was_reached(take: Callable[[], object]) -> bool:
        try:
            taken = take()
        except BlockingIOError:
            return False
        if isinstance(taken, tuple):
            taken[0].close()
        return True


async def attempt_all(names, folder, processes, start_for) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Make these attempts in one command. Return the answers, and the harm that was done."""
    async with probe_world(folder, processes) as world:
        with closing(Targets(world)) as targets:
            readable = (os.path.dirname(escapes.__file__),)
            facts = {**world.facts, **targets.facts}
            answers = await run_script(
                escapes.__file__,
                names,
                world,
                start_for(world),
                facts=facts,
                network="deny",
                programs=readable,
            )
            return answers, targets.harm()


GAPS = {
    bubblewrap: set(),
    unshare: {"reach any socket", "make a VM socket", "use io_uring", "use kernel keys", "use BPF"},
    with_landlock: {*escapes.GIT, *escapes.PLANTED, *escapes.MODES},
}
"""What an adapter says it cannot stop (`adapter_choice.GAPS`, `Landlock.covers`)."""


@adapters
async def test_no_attempt_gets_through(processes, folder, make) -> None:
    adapter = make()
    tried = [name for name in escapes.ATTEMPTS if name not in GAPS[make]]
    answers, harm = await attempt_all(tried, folder, processes, held_by(adapter, processes))
    assert harm == []
    got = {name: answer for name, answer in answers.items() if answer[0] not in {"refused", "not here"}}
    for name in (
        *escapes.PLANTED,
        "send a datagram",
        "write among temporary files",
    ):  # these are judged by the harm
        got.pop(name, None)
    assert {name: text for name, (outcome, text) in got.items() if outcome != "got" or text} == {}
    assert {name for name, (outcome, _) in answers.items() if outcome == "not here"} <= {"make a VM socket"}
    done = {name for name in got if name in escapes.FILES | escapes.MODES | escapes.GIT | escapes.SOCKETS}
    assert done == set(), "they return nothing, and must have been refused"


async def test_without_a_sandbox_the_attempts_get_through(processes, folder) -> None:
    """Or they would show nothing. They only reach what was made for them."""
    tried = {name for name in escapes.ATTEMPTS if name not in {**escapes.POWERS, **escapes.ABILITIES}}
    answers, harm = await attempt_all(
        [name for name in escapes.ATTEMPTS if name in tried],
        folder,
        processes,
        lambda _world: EnvOnlySpawn(processes),
    )
    up_to_the_system = {"read the memory of a process", "make a VM socket"}
    refused = {name: text for name, (outcome, text) in answers.items() if outcome != "got"}
    assert set(refused) <= up_to_the_system, refused
    assert {
        "out/victim",
        "out/n",
        "work/src/AGENTS.md",
        "work/.git/config",
        "plain_socket",
        "udp_port",
    } <= set(harm)
