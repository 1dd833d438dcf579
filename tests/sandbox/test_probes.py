"""The probes: that they find what a sandbox lets through, that ours let nothing through, and that nothing is harmed."""

import inspect
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.base.processes import CannotStart, Processes
from bridle.conformance.fake_clock import FakeClock
from bridle.engine.ports import Process, SpawnPolicy
from bridle.sandbox import attempts
from bridle.sandbox.adapters import Adapter
from bridle.sandbox.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.landlock import Landlock, available
from bridle.sandbox.plain_spawn import ConfinedProcess, EnvOnlySpawn
from bridle.sandbox.probe_world import TEMPORARY, ProbeWorld, probe_world
from bridle.sandbox.probes import (
    PROBES,
    PROXY_PROBES,
    Probe,
    Result,
    StartFor,
    StartProbe,
    probes_for,
    run_probes,
)
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.warm_sandbox import CommandPlace, WarmSandbox, WarmSandboxes

BWRAP = shutil.which("bwrap")
BEYOND = {
    "environment", "processes", "leftovers", "privileges", "kernel", "terminal", "modes", "claims", "hosts",
}  # fmt: skip
NETWORK = {probe.name for probe in PROBES if probe.network}
HELD_BY_THE_ENGINE = {"read_environment", "read_descriptors", "open_terminal"}
"""What no command gets even without a sandbox: its environment is cleaned, and it has no terminal."""
UP_TO_THE_SYSTEM = {
    "trace_process",
    "read_process_memory",
    "reach_out",
    "make_vsock",
    "reach_abstract_socket",
}
"""What some systems refuse or do not have by themselves."""


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    started = Processes()
    yield started
    await started.close()


@pytest.fixture
def folder(repository: Path) -> Iterator[str]:
    """Not in the temporary folder, where a command would not see the world at all."""
    if str(repository).startswith(("/tmp/", "/var/tmp/")):
        pytest.skip("this checkout lies in the temporary folder itself")
    parent = repository / ".pytest_cache"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as made:
        yield made


def held_by(adapter: Adapter, processes: Processes) -> StartFor:
    async def choose() -> Adapter:
        return adapter

    return lambda world: SandboxSpawn(
        processes, place=lambda: world.place, choose=choose, outside=world.network
    )


class AlwaysWarm(WarmSandboxes):
    """One waits for every command."""

    def __init__(self, spawn: SandboxSpawn) -> None:
        super().__init__(spawn.wait_for_command, FakeClock())
        self.start = spawn.wait_for_command

    async def take(self, at: CommandPlace) -> WarmSandbox | None:
        return await self.start(at)


def held_warm(adapter: Adapter, processes: Processes) -> StartFor:
    """As `held_by`, where a sandbox waits for each command, which runs in that very one."""

    async def choose() -> Adapter:
        return adapter

    def start_for(world: ProbeWorld) -> StartProbe:
        spawn = SandboxSpawn(
            processes,
            place=lambda: world.place,
            choose=choose,
            outside=world.network,
            away=os.path.join(world.paths.root, "masks"),
        )

        async def start(argv: Sequence[str], *, on_error: object, **how: Any) -> Process:
            process = await spawn(argv, warm=AlwaysWarm(spawn), **how)
            assert b"bridle-waiting" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
            return process

        return start

    return start_for


async def outcomes(
    start_for: StartFor, folder: str, processes: Processes, **options: object
) -> dict[str, Result]:
    results = [
        result
        async for result in run_probes(start_for, folder=folder, processes=processes, **options)  # pyright: ignore[reportArgumentType]
    ]
    assert os.listdir(folder) == [], "something was left behind"
    return {result.name: result for result in results}


def names(results: Mapping[str, Result], *wanted: str) -> set[str]:
    return {name for name, result in results.items() if result.outcome in wanted}


needs_bubblewrap = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")


@needs_bubblewrap
@pytest.mark.parametrize("held", [held_by, held_warm])
async def test_bubblewrap_lets_nothing_through(
    processes: Processes, folder: str, held: Callable[[Adapter, Processes], StartFor]
) -> None:
    results = await outcomes(held(Bubblewrap(BWRAP or ""), processes), folder, processes)
    assert {name: result for name, result in results.items() if result.is_problem} == {}
    must_work = {probe.name for probe in PROBES if probe.must_work}
    assert names(results, "works") == must_work
    assert names(results, "not covered") == set()
    untried = names(results, "not here")
    assert untried <= {"make_vsock", "read_shared_memory", "reach_out"}
    assert names(results, "blocked") == {probe.name for probe in PROBES} - must_work - untried


@needs_bubblewrap
async def test_where_the_network_is_not_limited_its_probes_are_not_tried(
    processes: Processes, folder: str
) -> None:
    some = [probe for probe in PROBES if probe.network or probe.part == "emptied"]
    results = await outcomes(
        held_by(Bubblewrap(BWRAP or ""), processes), folder, processes, network="inherit", probes=some
    )
    assert names(results, "not covered") == NETWORK
    assert names(results, "blocked") == {probe.name for probe in some} - NETWORK
    assert results["reach_tcp"].detail == 'the network is not limited (sandbox.network = "inherit")'


@needs_bubblewrap
async def test_a_filtered_network_lets_through_what_rules_allow_and_nothing_else(
    processes: Processes, folder: str
) -> None:
    some = [probe for probe in probes_for("filtered") if probe.network or probe in PROXY_PROBES]
    results = await outcomes(
        held_by(Bubblewrap(BWRAP or ""), processes), folder, processes, network="filtered", probes=some
    )
    assert names(results, "works") == {"reach_allowed_host", "reach_own_server"}
    assert names(results, "not tried") <= {"make_vsock", "reach_out"}
    assert names(results, "leaks", "broken", "not covered") == set()


@needs_bubblewrap
async def test_a_proxy_that_judges_nothing_is_found_out(processes: Processes, folder: str) -> None:
    """As if every host were allowed and every name led to where it may: the probes must see it."""

    async def choose() -> Adapter:
        return Bubblewrap(BWRAP or "")

    class Gullible:
        def __init__(self, world: ProbeWorld) -> None:
            outside = world.network

            async def resolve(host: str) -> list[str]:
                await outside.resolve(host)
                return ["93.184.215.14"]

            self._spawn = SandboxSpawn(
                processes, place=lambda: world.place, choose=choose, outside=outside._replace(resolve=resolve)
            )

        async def __call__(self, argv: Sequence[str], *, policy: SpawnPolicy, **options: object):
            policy = msgspec.structs.replace(policy, hosts=("*", "*:22"))
            return await self._spawn(argv, policy=policy, **options)

    by_name = {"ask_for_other_host", "ask_for_other_port", "ask_for_private_host", "ask_for_mapped_host"}
    some = [probe for probe in PROXY_PROBES if probe.name in by_name]
    results = await outcomes(Gullible, folder, processes, network="filtered", probes=some)
    assert names(results, "leaks") == by_name


@pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
async def test_landlock_lets_nothing_through_that_it_says_it_holds(processes: Processes, folder: str) -> None:
    adapter = Landlock()
    results = await outcomes(held_by(adapter, processes), folder, processes, covers=adapter.covers)
    parts = {probe.name: probe.part for probe in PROBES}
    assert {parts[name] for name in names(results, "not covered")} <= {
        "read_only", "absent", "held", "filled", "unwanted", "kept", "modes",
    }  # fmt: skip
    # Without a namespace of its own, a process that moves to another session gets away.
    assert {name for name, result in results.items() if result.is_problem} <= {"outlive"}
    assert len(names(results, "blocked")) >= 40


async def test_without_a_sandbox_the_probes_get_through(processes: Processes, folder: str) -> None:
    """Or they would show nothing. They only reach what was made for them."""
    before = Path(TEMPORARY).stat().st_mode
    tried = [probe for probe in PROBES if probe.part not in {"privileges", "kernel", "claims"}]
    results = await outcomes(lambda _world: EnvOnlySpawn(processes), folder, processes, probes=tried)
    held = {probe.name for probe in tried if probe.must_work} | HELD_BY_THE_ENGINE
    assert names(results, "blocked", "works") - UP_TO_THE_SYSTEM == held
    assert names(results, "leaks") | UP_TO_THE_SYSTEM >= {probe.name for probe in tried} - held
    assert results["write_outside"].detail == "out/new was made"
    assert results["delete_outside"].detail == "out/victim was removed"
    assert results["read_key"].detail == "a secret could be read"
    assert results["end_process"].detail == "a process outside was ended"
    assert results["outlive"].detail == "a process lives on"
    assert Path(TEMPORARY).stat().st_mode == before


class Careless:
    """Starts commands with everything it has: no border, its whole environment."""

    adapter = "careless"

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        stdin: bytes | None = None,
    ) -> ConfinedProcess:
        del policy, call_id
        fds = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and _is_inheritable(fd)]
        started = await self._processes.start(
            argv,
            cwd=cwd,
            env=env,
            on_output=on_output,
            on_error=on_error,
            stdin=stdin,
            pass_fds=fds,
        )
        return ConfinedProcess(started, self.adapter)


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
async def test_a_careless_engine_is_found_out(processes: Processes, folder: str) -> None:
    careless = [probe for probe in PROBES if probe.name in {"read_environment", "read_descriptors"}]
    results = await outcomes(lambda _world: Careless(processes), folder, processes, probes=careless)
    assert results["read_environment"].detail == "a secret could be read"
    assert "id_probe" in results["read_descriptors"].detail
    assert names(results, "leaks") == {"read_environment", "read_descriptors"}


class Pretends:
    """Runs something else instead of the probe."""

    adapter = "pretends"

    def __init__(self, processes: Processes, *argv: str) -> None:
        self._processes = processes
        self._argv = argv

    async def __call__(self, argv: Sequence[str], **options: object) -> ConfinedProcess:
        kept = {name: options[name] for name in ("cwd", "env", "on_output", "on_error")}
        started = await self._processes.start(self._argv, **kept)  # pyright: ignore[reportArgumentType]
        return ConfinedProcess(started, self.adapter)


@pytest.mark.parametrize(
    ("argv", "outcome", "detail"),
    [
        (("/bin/sh", "-c", "echo broken pipe of mine >&2; exit 3"), "not tried", "broken pipe of mine"),
        (("/bin/sh", "-c", "exit 3"), "not tried", "it ended with 3"),
        (("/bin/sh", "-c", "kill -s SYS $$"), "blocked", "killed by the system call filter"),
        (("/bin/sh", "-c", "kill -s KILL $$"), "not tried", "it ended with -9"),
        (("/bin/sh", "-c", "echo hello"), "not tried", "it gave no answer"),
        (
            ("/bin/sh", "-c", """echo '{"untried": "no such thing here"}'"""),
            "not tried",
            "no such thing here",
        ),
        (("/usr/bin/printf", "%s", '{"refused": "a\\nb\\u001b[1m"}'), "blocked", "a b⟨ESC⟩[1m"),
        (("/bin/sh", "-c", """echo '{"got": "something"}'"""), "blocked", "nothing came of it"),
        (("/nothing/here",), "not tried", "cannot start /nothing/here: not found"),
    ],
)
async def test_a_probe_that_went_wrong_is_not_called_blocked(
    processes: Processes, folder: str, argv: tuple[str, ...], outcome: str, detail: str
) -> None:
    probe = next(probe for probe in PROBES if probe.name == "write_outside")
    results = await outcomes(
        lambda _world: Pretends(processes, *argv),
        folder,
        processes,
        probes=[probe],
    )
    assert (results[probe.name].outcome, results[probe.name].detail) == (outcome, detail)


async def test_what_must_work_and_does_not_is_a_problem(processes: Processes, folder: str) -> None:
    probe = next(probe for probe in PROBES if probe.must_work)
    answer = """echo '{"refused": "Read-only file system"}'"""
    results = await outcomes(
        lambda _world: Pretends(processes, "/bin/sh", "-c", answer),
        folder,
        processes,
        probes=[probe],
    )
    assert results[probe.name].outcome == "broken"
    assert results[probe.name].is_problem


async def test_a_world_is_taken_away_with_everything_planted(processes: Processes, folder: str) -> None:
    async with probe_world(folder, processes) as world:
        facts = world.facts
        planted = [world.paths.root, facts["temporary"], *filter(None, [facts["shared"]])]
        assert all(map(os.path.exists, planted))
        assert world.changes() == []
        assert world.token not in "".join(facts.values())
    assert not any(map(os.path.exists, planted))


def test_every_probe_has_its_attempt_and_every_attempt_its_probe() -> None:
    functions = {
        name
        for name, value in inspect.getmembers(attempts, inspect.isfunction)
        if not name.startswith("_") and name != "main" and value.__module__ == attempts.__name__
    }
    every = probes_for("filtered")
    listed = [probe.name for probe in every]
    assert sorted(listed) == sorted(functions)
    assert len(set(listed)) == len(listed) >= 30
    assert len({probe.tries for probe in every}) == len(every)
    assert {probe.part for probe in every} <= BEYOND | set(Confinement.__struct_fields__)


def test_attempts_need_nothing_of_ours() -> None:
    text = inspect.getsource(attempts)
    assert "bridle" not in text.replace(".bridle", "").replace("Bridle", "")
    assert len(text.encode()) < 100_000, "it is handed over as one argument"


async def test_a_part_an_adapter_does_not_hold_is_said_and_not_tried(
    processes: Processes, folder: str
) -> None:
    """Only parts of a confinement can be left out: secrets in the environment are everybody's business."""
    some = [
        Probe(name="read_environment", tries=part, part=part)
        for part in ("writable", "read_only", "modes", "environment", "leftovers", "kernel")
    ]
    results = [
        result
        async for result in run_probes(
            lambda _world: EnvOnlySpawn(processes),
            folder=folder,
            processes=processes,
            covers={"writable"},
            probes=some,
        )
    ]
    left_out = {result.part for result in results if result.outcome == "not covered"}
    assert left_out == {"read_only", "modes"}
    assert {result.detail for result in results if result.part in left_out} == {
        "this kind of sandbox cannot stop it"
    }


async def test_what_could_not_be_tried_is_a_problem(processes: Processes, folder: str) -> None:
    async def start(argv: Sequence[str], **_more: object) -> ConfinedProcess:
        raise CannotStart(argv[0], "no sandbox")

    some = [probe for probe in PROBES if probe.name == "write_outside"]
    results = await outcomes(lambda _world: start, folder, processes, probes=some)
    assert results["write_outside"].outcome == "not tried"
    assert results["write_outside"].is_problem
