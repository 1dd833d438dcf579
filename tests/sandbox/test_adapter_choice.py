"""Which adapter this machine has: found out once, by trying, and remembered only as long as nothing changed."""

import json
import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridle.base.process.processes import CannotStart, Processes
from bridle.sandbox.adapters.adapter import Launch
from bridle.sandbox.adapters.adapter_choice import ORDER, Chooser, ConfiningWay, TriedAdapter, adapter_for
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.plain_spawn import find_program

needs_an_adapter = pytest.mark.skipif(
    all(adapter_for(ConfiningWay(name, "full" if name == "bubblewrap" else "")) is None for name in ORDER),
    reason="nothing on this machine can confine",
)


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    made = Processes()
    yield made
    await made.close()


class NoProcesses(Processes):
    async def start(self, *arguments, **options):
        raise AssertionError("a process was started")


async def test_nothing_starts_before_it_is_needed(tmp_path: Path) -> None:
    chooser = Chooser(NoProcesses(), state=str(tmp_path / "state"))
    assert chooser.known() == ""
    assert not (tmp_path / "state").exists()


@needs_an_adapter
@pytest.mark.requirement("P25")
async def test_the_answer_is_found_once_and_remembered(processes: Processes, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    chooser = Chooser(processes, state=state)
    chosen = await chooser.choose()
    if chosen.way is None:
        pytest.skip(f"nothing holds here: {chosen.attempts}")
    assert chosen.attempts[-1] == TriedAdapter(chosen.way)
    assert chosen.adapter is not None
    assert chosen.adapter.name == chosen.way.name == chooser.known()
    assert os.listdir(state) == ["sandbox.json"]
    assert (tmp_path / "state" / "sandbox.json").stat().st_mode & 0o777 == 0o600

    later = Chooser(NoProcesses(), state=state)
    assert later.known() == chosen.way.name
    again = await later.choose()
    assert (again.way, again.attempts) == (chosen.way, ())


@needs_an_adapter
async def test_what_failed_is_looked_for_again(processes: Processes, tmp_path: Path) -> None:
    chooser = Chooser(processes, state=str(tmp_path))
    first = await chooser.choose()
    chooser.drop()
    assert not (tmp_path / "sandbox.json").exists()
    assert (await chooser.choose()).attempts == first.attempts


@pytest.mark.skipif(find_program("bwrap") is None, reason="bubblewrap is not installed")
async def test_a_moment_without_descriptors_is_no_answer(processes: Processes, tmp_path: Path) -> None:
    probe = await processes.run(["/bin/true"], cwd="/", env={}, timeout_s=10, max_output_bytes=1)
    assert probe.returncode == 0
    usual = await Chooser(processes, state=str(tmp_path / "usual")).choose()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))
    for most in (0, *range(in_use, in_use + 16)):
        chooser = Chooser(processes, state=str(tmp_path / str(most)))
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        try:
            chosen = await chooser.choose()
        except CannotStart as refused:
            assert refused.reason == "no resources"
            assert not (tmp_path / str(most) / "sandbox.json").exists()
        else:
            assert chosen.way == usual.way
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@needs_an_adapter
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o644),
        lambda path: path.write_text("{"),
        lambda path: path.write_text(
            json.dumps({**json.loads(path.read_text()), "circumstances": "another kernel"})
        ),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0})),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "name": "evil"})),
        lambda path: (path.rename(path.with_name("other")), path.symlink_to("other")),
    ],
    ids=["readable by others", "garbage", "other circumstances", "older format", "unknown name", "a link"],
)
async def test_a_spoiled_memory_is_not_believed(processes: Processes, tmp_path: Path, spoil) -> None:
    await Chooser(processes, state=str(tmp_path)).choose()
    spoil(tmp_path / "sandbox.json")
    assert (await Chooser(processes, state=str(tmp_path)).choose()).attempts


@needs_an_adapter
async def test_a_forced_adapter_is_neither_remembered_nor_answered_from_memory(
    processes: Processes, tmp_path: Path
) -> None:
    for name in ORDER:
        chosen = await Chooser(processes, state=str(tmp_path), only=name).choose()
        assert chosen.way is None or chosen.way.name == name
        assert all(attempt.way.name == name for attempt in chosen.attempts)
    assert not (tmp_path / "sandbox.json").exists()


class Holds:
    """An adapter that confines nothing, as a broken one would."""

    name = "broken"

    def variables(self, confinement: Confinement) -> dict[str, str]:
        return {}

    def confined(self, argv, *, cwd: str, confinement: Confinement) -> Launch:
        return Launch(tuple(argv))


async def test_an_adapter_that_does_not_hold_is_found_out(processes: Processes, tmp_path: Path) -> None:
    chooser = Chooser(processes, state=str(tmp_path))
    assert await chooser.try_adapter(Holds()) == "a command could write outside"


async def test_an_adapter_that_cannot_start_is_found_out(processes: Processes, tmp_path: Path) -> None:
    class Missing(Holds):
        def confined(self, argv, *, cwd: str, confinement: Confinement) -> Launch:
            return Launch((str(tmp_path / "no-such-program"),))

    chooser = Chooser(processes, state=str(tmp_path))
    assert await chooser.try_adapter(Missing()) == "it did not start (not found)"


def test_programs_are_those_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planted = tmp_path / "bwrap"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("bwrap") != str(planted)
    assert find_program("sh") in {"/usr/bin/sh", "/bin/sh"}


@pytest.mark.requirement("D16.4")
def test_there_is_an_adapter_for_each_system_and_a_word_where_there_is_none() -> None:
    from bridle.sandbox.adapters.bubblewrap import Bubblewrap
    from bridle.sandbox.adapters.landlock import Landlock
    from bridle.sandbox.adapters.sandbox_exec import SandboxExec
    from bridle.sandbox.adapters.unshare import Unshare
    from bridle.sandbox.plain_spawn import OFF, UNCONFINED

    assert (Bubblewrap.name, Landlock.name, Unshare.name, SandboxExec.name) == ORDER
    assert {OFF, UNCONFINED}.isdisjoint(ORDER)
