"""What becomes of paths: the guard and the permission engine together, as a file tool meets them."""

import os
import sys
from pathlib import Path

import pytest

from bridle.base.fs.paths import SessionFolders, session_folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say
from bridle.safety.guards import PathPolicy, guarded
from bridle.safety.permission_policy import Permissions
from safety.corpus.loading import PathCase, PathOutcome, filled, named, path_layout, paths
from tables import table

CASES = paths()
STRICTNESS = ("allowed", "asks", "blocked")
IDS = [f"{case.family}:{named(case.path, seen=number)}" for number, case in enumerate(CASES, 1)]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """One layout for all: nothing is read or written through it."""
    made = Path(os.path.realpath(tmp_path_factory.mktemp("paths")))
    path_layout().make(made)
    return made


async def outcome(calls, root: Path, path: str, access: str) -> PathOutcome:
    """Reading in mode default, writing in mode auto: there the workspace is quiet, so what asks is the path."""
    folders: SessionFolders = session_folders(str(root / "shop"))
    policy = PathPolicy(folders=folders, protected=(str(root / "own"),))
    mode = "default" if access == "read" else "auto"
    permissions = Permissions(folders=folders, mode=lambda: mode)
    tool = "read_file" if access == "read" else "write_file"
    call = calls.make(tool, risk=access, access=access, path=filled(path, root=root, cwd=root / "shop"))
    result = await guarded(policy)(call, calls.proceed)
    if not calls.ran:
        assert result.outcome == "blocked"
        return "blocked"
    verdict = permissions.decide(permissions.query(calls.ran.pop())).verdict
    return {"allow": "allowed", "ask": "asks", "deny": "blocked"}[verdict]


def agrees(found: PathOutcome, expected: PathOutcome, case: PathCase) -> bool:
    if case.or_stricter:
        return STRICTNESS.index(found) >= STRICTNESS.index(expected)
    return found == expected


@pytest.mark.requirement("T3.5", "C11", "D10.4")
@table("case", CASES)
async def test_a_path_ends_as_the_list_says(calls, root, case: PathCase) -> None:
    if case.linux and sys.platform != "linux":
        pytest.skip("only where the file system tells case apart")
    found = [await outcome(calls, root, case.path, access) for access in ("read", "write")]
    assert agrees(found[0], case.read, case), f"read: {found[0]}; {case.why}"
    assert agrees(found[1], case.write, case), f"write: {found[1]}; {case.why}"


@table("case", CASES)
async def test_its_harmless_twin_is_left_alone(calls, root, case: PathCase) -> None:
    found = [await outcome(calls, root, case.twin, access) for access in ("read", "write")]
    assert found == [case.twin_read, case.twin_write], case.twin


def test_the_list_is_as_long_as_promised_and_holds_nothing_twice() -> None:
    assert len(CASES) >= 90
    assert len({case.path for case in CASES}) == len(CASES)


async def tool_outcome(folder: Path, tool: str, **arguments: str) -> str:
    """How a call of a real session ends in which everything else is allowed."""
    async with harness(
        scripted(call(tool, **arguments), say("Done.")), folder=str(folder), mode="yolo"
    ) as session:
        (result,) = of_kind(await session.ask("go"), ToolResult)
    return result.outcome


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_a_second_name_of_a_file_outside_does_not_change_it(tmp_path: Path, tool: str) -> None:
    outside, inside = tmp_path / "outside.txt", tmp_path / "shop" / "inside.txt"
    inside.parent.mkdir()
    outside.write_text("old\n", encoding="utf-8")
    os.link(outside, inside)
    if tool == "write_file":
        await tool_outcome(inside.parent, tool, path="inside.txt", content="new\n")
    else:
        await tool_outcome(inside.parent, tool, path="inside.txt", old_string="old", new_string="new")
    assert outside.read_text(encoding="utf-8") == "old\n"


@pytest.mark.parametrize(("tool", "arguments"), [("read_file", {}), ("write_file", {"content": "x"})])
async def test_a_pipe_nobody_writes_to_ends_the_call_and_not_the_session(tmp_path, tool, arguments) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert await tool_outcome(tmp_path, tool, path="pipe", **arguments) != "ok"


async def test_a_device_without_end_is_not_read(tmp_path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert await tool_outcome(tmp_path, "read_file", path="zero") != "ok"
