"""Saved grants: seven days, one project, one private file that two processes may share and nobody may trust blindly."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.conformance.fake_clock import FakeClock
from bridle.protocol.events import GrantAdded
from bridle.safety.grants import GRANT_LIFE_MS, Grant, SavedGrants
from effort import examples

pytestmark = pytest.mark.requirement("D17.1")

DAY_S = 86_400


def added(pattern: str, number: int = 1, **fields) -> GrantAdded:
    return GrantAdded(grant_id=f"grant_{number}", tool="bash", pattern=pattern, life="saved", **fields)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def saved(tmp_path: Path, clock: FakeClock) -> SavedGrants:
    return SavedGrants(str(tmp_path / "state"), clock.now_ms)


def ids(saved: SavedGrants, root: str = "/shop") -> list[str]:
    return [grant.grant_id for grant in saved.of(root)]


def test_a_grant_is_there_for_a_later_session_of_the_same_project_only(saved, clock, tmp_path) -> None:
    saved.add("/shop", added("npm test", match="key"))
    later = SavedGrants(str(tmp_path / "state"), clock.now_ms)
    assert later.of("/shop") == (
        Grant(
            grant_id="grant_1",
            tool="bash",
            subject="npm test",
            match="key",
            expires_ms=clock.now_ms() + GRANT_LIFE_MS,
        ),
    )
    assert later.of("/shop/web") == later.of("/") == later.of("/shop/") == ()


async def test_a_grant_ends_after_seven_days_also_in_a_session_that_runs(saved, clock) -> None:
    saved.add("/shop", added("make"))
    await clock.advance(7 * DAY_S - 1)
    assert ids(saved) == ["grant_1"]
    await clock.advance(1)
    assert ids(saved) == []
    saved.add("/shop", added("ls", 2))
    assert "make" not in Path(saved.path).read_text(), "what has expired is not kept"


def test_the_file_is_private(saved) -> None:
    saved.add("/shop", added("make"))
    assert stat.S_IMODE(os.stat(saved.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(saved.path)).st_mode) == 0o700


def test_the_same_yes_again_takes_the_place_of_the_first(saved) -> None:
    for number in (1, 2):
        saved.add("/shop", added("make", number))
    assert ids(saved) == ["grant_2"]


def test_a_revoked_grant_is_gone_at_once_for_everybody(saved, clock, tmp_path) -> None:
    running = SavedGrants(str(tmp_path / "state"), clock.now_ms)
    saved.add("/shop", added("make"))
    saved.add("/shop", added("ls", 2))
    assert ids(running) == ["grant_1", "grant_2"]
    assert (saved.revoke("/shop", "grant_1"), saved.revoke("/shop", "grant_1")) == (True, False)
    assert not saved.revoke("/other", "grant_2")
    assert ids(running) == ["grant_2"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"projects": {"/shop": [{"id": 1}]}}',
        b'{"version": 99}',
        b'{"projects": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_no_grant_and_no_crash_and_the_next_yes_begins_anew(saved, content: bytes) -> None:
    folder = Path(saved.path).parent
    folder.mkdir()
    Path(saved.path).write_bytes(content)
    assert (saved.of("/shop"), saved.problem() is not None) == ((), True)
    saved.add("/shop", added("make"))
    assert (ids(saved), saved.problem()) == (["grant_1"], None)
    assert (folder / "grants.json.damaged").read_bytes() == content


def test_a_folder_in_the_place_of_the_file_is_a_problem_and_no_crash(saved) -> None:
    Path(saved.path).mkdir(parents=True)
    assert (saved.of("/shop"), saved.problem() is not None) == ((), True)


def test_no_file_is_no_problem_and_looking_makes_none(saved) -> None:
    assert (saved.of("/shop"), saved.problem(), saved.revoke("/shop", "x")) == ((), None, False)
    assert not os.path.exists(os.path.dirname(saved.path))


@pytest.mark.parametrize(
    "change",
    [{"expires_ms": 10**18}, {"expires_ms": -1}, {"pattern": ""}],
    ids=["forever", "past", "whole tool"],
)
def test_a_grant_nobody_could_have_been_given_does_not_count(saved, change) -> None:
    saved.add("/shop", added("make"))
    file = Path(saved.path)
    content = json.loads(file.read_text())
    content["projects"]["/shop"][0].update(change)
    file.write_text(json.dumps(content))
    assert saved.of("/shop") == ()


ADD = """
import sys
from bridle.protocol.events import GrantAdded
from bridle.safety.grants import SavedGrants
saved = SavedGrants(sys.argv[1], lambda: 1_779_562_800_000)
for number in range(10):
    name = f"{sys.argv[2]}{number}"
    saved.add("/shop", GrantAdded(grant_id=name, tool="bash", pattern=name, life="saved"))
"""


def test_two_processes_lose_no_grant_of_each_other(saved, clock) -> None:
    folder = os.path.dirname(saved.path)
    running = [subprocess.Popen([sys.executable, "-c", ADD, folder, name]) for name in "ab"]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    assert sorted(ids(saved)) == sorted(f"{name}{number}" for name in "ab" for number in range(10))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(st.binary(max_size=80) | st.text(alphabet='{}[]":,12ab', max_size=60).map(str.encode))
def test_any_content_is_read_without_a_crash(saved, content: bytes) -> None:
    os.makedirs(os.path.dirname(saved.path), exist_ok=True)
    Path(saved.path).write_bytes(content)
    assert saved.of("/shop") == ()
