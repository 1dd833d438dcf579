"""What engines do once a day is done by one of them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bridle.app.user.stored_keys import session_store
from bridle.base.clock import SystemClock
from bridle.base.fs.files import FileLock
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.providers.script import say

DAY_MS = 24 * 3600 * 1000


class Later(SystemClock):
    """Some days from now."""

    def __init__(self, days: int) -> None:
        self._days = days

    def now_ms(self) -> int:
        return super().now_ms() + self._days * DAY_MS


async def talk(home: Path, *, day: int) -> str:
    async with harness(scripted(say("hello")), home=str(home), clock=Later(day), sandbox="off") as session:
        await session.ask("hi")
        return session.id


def is_expired(home: Path, session: str) -> bool:
    with closing(session_store({"BRIDLE_HOME": str(home)})) as store:
        return store.find(session).expired_ms is not None


async def test_of_engines_that_begin_at_once_one_lets_old_content_go_and_the_others_leave_it_to_that_one(
    tmp_path: Path,
) -> None:
    old = await talk(tmp_path, day=0)
    with FileLock(f"{folders({'BRIDLE_HOME': str(tmp_path)}).data}/swept.lock") as at_it:
        assert at_it.acquire()
        await talk(tmp_path, day=400)
        assert not is_expired(tmp_path, old)
    await talk(tmp_path, day=400)
    assert is_expired(tmp_path, old)
