"""`credentials.helper = "always"`: where the key is while a turn runs, and what happens when its process ends."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridle.app.user.setting_sections import TABLE
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.config.workspace import answer as may_a_workspace_set
from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.credentials.records import ApiKey
from bridle.providers.script import answer, call, say
from cli_kit import Place, Running, kill_together

pytestmark = [
    pytest.mark.real_program,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

SETTINGS = """\
model = "work:some-model"
[providers.work]
base_url = "{url}"
key_env = "WORK_SERVICE_KEY"
[credentials]
helper = "{helper}"
"""


class Holding(ModelServer):
    """Holds its answers back from the second request on."""

    held: asyncio.Queue[int]
    go: asyncio.Event

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if len(self.chats) > 1:
            self.held.put_nowait(len(self.chats))
            await self.go.wait()
        return await super().answer(request, reply)


@pytest.fixture
def secret(place: Place) -> str:
    """A key that is stored, and that no other process has seen."""
    made = "k" + os.urandom(30).hex()
    env = place.environment()
    StoredKeys(where=folders(env), env=env, clock=SystemClock()).store.put(
        ApiKey(provider="work", secret=made)
    )
    return made


def holding(secret: str) -> Holding:
    """A model that repeats the key, and whose tool prints its environment."""
    server = Holding.playing(answer(say(f"{secret}?"), call("bash", command="env")), say("Done."))
    assert isinstance(server, Holding)
    server.held, server.go = asyncio.Queue(), asyncio.Event()
    return server


def configure(place: Place, server: ModelServer, helper: str) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(SETTINGS.format(url=server.url, helper=helper))


def is_in_memory(pid: int, words: bytes) -> bool:
    """Whether a process has these bytes anywhere it can write to."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            start, end = (int(part, 16) for part in place.split("-"))
            memory.seek(start)
            try:
                if words in memory.read(end - start):
                    return True
            except OSError:  # what the kernel keeps for itself
                continue
    return False


def descendants(pid: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            yield int(folder.name)
            yield from descendants(int(folder.name))


def words_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def helper_of(pid: int) -> int:
    (found,) = (child for child in descendants(pid) if b"bridle.credentials.helper" in words_of(child))
    return found


async def until_held(server: Holding, running: Running) -> None:
    """Waits for a request that the server holds; a run that ends before fails the test at once."""
    held = asyncio.ensure_future(server.held.get())
    over = asyncio.ensure_future(asyncio.to_thread(running.process.wait))
    await asyncio.wait({held, over}, return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    if not held.done():
        ran = await asyncio.to_thread(running.end)
        raise AssertionError(f"the run ended with {ran.code}: {ran.err}{ran.out}")


async def ended(running: Running) -> str:
    ran = await asyncio.to_thread(running.end)
    assert ran.code == 0, ran.err
    return ran.out + ran.err


@pytest.mark.requirement("G36.5")
@pytest.mark.parametrize("helper", ["always", "never"])
async def test_with_a_helper_the_key_is_nowhere_and_without_one_only_in_the_memory_of_the_engine(
    place: Place, secret: str, helper: str
) -> None:
    piece = secret[9:41].encode()
    async with asyncio.timeout(50), holding(secret) as server:
        configure(place, server, helper)
        with place.started("run", "--yes", "--json", "What is here?") as running:
            await until_held(server, running)
            pid = running.process.pid
            processes = [pid, *descendants(pid)]
            assert is_in_memory(pid, b"What is here?"), "the search finds what is there"
            assert is_in_memory(pid, piece) == (helper == "never")
            if helper == "always":
                assert is_in_memory(helper_of(pid), piece)
            for process in processes:
                assert piece not in words_of(process)
                assert piece not in Path(f"/proc/{process}/environ").read_bytes()
            server.go.set()
            said = await ended(running)
        assert {request.headers["authorization"] for request in server.chats} == {f"Bearer {secret}"}
    exported = await asyncio.to_thread(place.bridle, "sessions", "export", place.only_session())
    assert ("[redacted]?" if helper == "always" else "»?") in exported.out
    for text in (said, exported.out, exported.err):
        assert piece.decode() not in text
    for file in (file for file in place.home.rglob("*") if file.is_file()):
        assert piece not in file.read_bytes(), file


@pytest.mark.parametrize("guarded", [True, False])
async def test_the_helper_is_gone_when_the_engine_is_killed(place: Place, secret: str, guarded: bool) -> None:
    async with asyncio.timeout(50), holding(secret) as server:
        configure(place, server, "always")
        with place.started("run", "--yes", "--json", "What is here?") as running:
            await until_held(server, running)
            alive = os.pidfd_open(helper_of(running.process.pid))
            if guarded:
                running.process.kill()
            else:
                kill_together(running.process)
            gone, _, _ = await asyncio.to_thread(select.select, [alive], [], [], 1.0)
            os.close(alive)
            assert gone


async def test_a_helper_that_ends_again_and_again_ends_the_run_with_its_own_reason(
    place: Place, secret: str
) -> None:
    async with asyncio.timeout(50), holding(secret) as server:
        configure(place, server, "always")
        with place.started("run", "--yes", "--json", "What is here?") as running:
            for _ in range(2):
                await until_held(server, running)
                os.kill(helper_of(running.process.pid), signal.SIGKILL)
            ran = await asyncio.to_thread(running.end)
    assert (ran.code, ran.result["reason"]) == (4, "CredentialHelperFailed")
    assert ran.result["error"]["message"].startswith(
        "The process that holds the key of work failed: it ended, twice within a minute."
    )


async def test_a_run_goes_on_when_its_helper_ends_once(place: Place, secret: str) -> None:
    async with asyncio.timeout(50), holding(secret) as server:
        configure(place, server, "always")
        with place.started("run", "--yes", "What is here?") as running:
            await until_held(server, running)
            os.kill(helper_of(running.process.pid), signal.SIGKILL)
            server.go.set()
            assert (await ended(running)).startswith("Done.\n")
        assert len(server.chats) == 3


async def test_a_key_of_the_environment_is_used_too_and_reaches_no_other_process(place: Place) -> None:
    secret = "k" + os.urandom(30).hex()
    async with (
        asyncio.timeout(50),
        ModelServer.playing(answer(call("bash", command="env")), say("Done.")) as server,
    ):
        configure(place, server, "always")
        env = {"WORK_SERVICE_KEY": secret}
        ran = await asyncio.to_thread(place.bridle, "run", "--yes", "Look around", env=env)
        assert ran.code == 0
        first, second = server.chats
    assert first.headers["authorization"] == f"Bearer {secret}"
    assert "PATH=" in second.body.decode()
    assert secret not in second.body.decode()


def test_no_workspace_can_set_it() -> None:
    for value in ("always", "serve", "never"):
        assert may_a_workspace_set(TABLE, ("credentials", "helper"), value, {}) == "never"
