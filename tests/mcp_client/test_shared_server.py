"""The life of a server, by the clock of a test: restarts, giving up, waiting an hour, and whom it belongs to."""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from bridle.base.process.processes import CannotStart
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import SpawnPolicy
from bridle.mcp.input_requests import NOBODY, InputReply, InputRequest
from bridle.mcp.server_definitions import decode_server
from bridle.mcp.server_run import LaunchPlace, server_files, server_policy
from bridle.mcp.shared_server import ServerPool, ServerUnavailable
from bridle.protocol.commands import CreateSession, EndSession, SessionOptions
from bridle.protocol.events import ToolResult
from bridle.protocol.queries import CustomQuery
from bridle.providers.script import call, say
from bridle.sandbox.plain_spawn import UNCONFINED
from mcp_kit import PROGRAM, is_running, server, session_with, states, until, until_phase, write_settings

POLICY = SpawnPolicy(mode="workspace-write", workspace="/w")


class EndedProcess:
    """A process that is gone at once."""

    pid = 1

    def when_output_ends(self, ended):
        ended()

    async def wait(self):
        return 1

    async def stop(self, grace_s=0.3):
        pass

    def follow_put_aside(self, tell):
        return lambda: None


class Starts:
    """A spawn whose processes end at once; it keeps when each was started."""

    adapter = "none"

    def __init__(self, clock, refuse=None):
        self.at = []
        self._clock = clock
        self._refuse = refuse

    async def __call__(self, argv, **_how):
        self.at.append(self._clock.monotonic())
        if self._refuse:
            raise CannotStart(argv[0], self._refuse)
        return EndedProcess()


class Watcher:
    """A user of a server that knows how it is."""

    def __init__(self):
        self.seen = []
        self.changed = asyncio.Event()

    def server_changed(self, server):
        self.seen.append(server.state())
        self.changed.set()

    async def until(self, phase):
        while not self.seen or self.seen[-1].phase != phase:
            self.changed.clear()
            await self.changed.wait()
        return self.seen[-1]


def made(tmp_path, refuse=None):
    clock = FakeClock()
    starts, watcher = Starts(clock, refuse), Watcher()
    pool = ServerPool(str(tmp_path), clock)
    definition = decode_server("files", {"command": "x"}, part="files")
    place = LaunchPlace(spawn=starts, policy=POLICY, cwd=str(tmp_path), env={})
    shared = pool.server(definition, place)
    shared.users[watcher] = None
    return clock, starts, watcher, shared


@pytest.mark.requirement("G13.5", "G13.6")
async def test_a_server_that_always_ends_is_started_less_and_less_often_and_then_given_up(tmp_path):
    clock, starts, watcher, shared = made(tmp_path)
    shared.begin()
    for wait_s in (1, 2, 4, 54):
        await watcher.until("down")
        watcher.seen.clear()
        await clock.advance(wait_s)
    state = await watcher.until("given up")

    assert starts.at == [0, 1, 3, 7, 61]
    assert (state.failures, state.problem) == (5, "it ended with exit code 1")
    with pytest.raises(ServerUnavailable):
        await shared.connected()
    await clock.advance(3599)
    shared.begin()
    assert len(starts.at) == 5, "an hour has not passed"
    await clock.advance(1)
    watcher.seen.clear()
    shared.begin()
    await watcher.until("down")
    assert len(starts.at) == 6
    await shared.stop()


async def test_what_cannot_be_started_is_not_tried_again(tmp_path):
    for reason in ("not found", "not executable", "no sandbox"):
        _clock, starts, watcher, shared = made(tmp_path, reason)
        shared.begin()
        state = await watcher.until("given up")
        assert (len(starts.at), state.failures, state.problem) == (1, 1, f"cannot start x: {reason}")


async def test_a_call_waits_for_a_server_no_longer_than_a_connection_may_take(tmp_path):
    clock, _starts, watcher, shared = made(tmp_path)
    waiting = asyncio.ensure_future(shared.connected(0.5))
    await watcher.until("down")
    await clock.advance(0.5)
    with pytest.raises(ServerUnavailable, match="exit code 1"):
        await waiting
    await shared.stop()


class AskedCall:
    """A call whose user would answer."""

    def __init__(self, user):
        self.user = user

    async def answer_input(self, _request):
        return InputReply(action="accept")


async def test_a_request_for_input_is_refused_while_calls_of_several_sessions_are_under_way(tmp_path):
    _clock, _starts, watcher, shared = made(tmp_path)
    request = InputRequest(message="Which?")
    assert await shared.answer_input(request) == NOBODY, "no call is under way"
    ours, theirs = AskedCall(watcher), AskedCall(Watcher())
    await shared.started_call(ours)
    assert (await shared.answer_input(request)).action == "accept"
    await shared.started_call(theirs)
    assert await shared.answer_input(request) == NOBODY
    await shared.ended_call(theirs)
    assert (await shared.answer_input(request)).action == "accept"
    shared.refuse_input()
    assert await shared.answer_input(request) == NOBODY


def test_how_a_server_may_run():
    cases = [
        ({}, {}, "workspace-write", "inherit"),
        ({}, {"mode": "off"}, "workspace-write", "inherit"),
        ({}, {"mode": "read-only"}, "read-only", "inherit"),
        ({"sandbox": "off", "network": "deny"}, {}, "off", "deny"),
        ({"network": "inherit"}, {"network": "deny"}, "workspace-write", "inherit"),
        ({"network": "inherit", "of_project": True}, {"network": "deny"}, "workspace-write", "deny"),
    ]
    wrong = []
    for given, session, mode, network in cases:
        table = {"command": "x", "env": {"A": "1"}, **given}
        project = table.pop("of_project", False)
        definition = decode_server("a", table, part="a", of_project=project)
        policy = server_policy(definition, msgspec.structs.replace(POLICY, scratch="/s", **session))
        found = (policy.mode, policy.network, policy.scratch, policy.variables)
        if found != (mode, network, "", {"A": "1"}):
            wrong.append((given, session, found))
    assert wrong == []


@pytest.mark.requirement("G42.2")
async def test_sessions_of_a_folder_share_a_server_until_the_last_one_leaves(tmp_path):
    started = tmp_path / "started"
    write_settings(str(tmp_path), {"files": server({"started": str(started)})})
    async with harness(scripted(), home=str(tmp_path), sandbox="off") as session:
        await until_phase(session, "files", "up")
        env = {"PATH": os.defpath, "HOME": os.path.join(os.path.dirname(session.folder), "person")}
        model = session.conversation.model
        create = CreateSession(
            cwd=session.folder,
            env=env,
            model=f"{model.provider}:{model.model}",
            config=SessionOptions(sandbox="off"),
        )
        other = await session.connection.send(create)
        await session.connection.send(EndSession(session=session.id))
        asked = CustomQuery(session=other.session, namespace="mcp", verb="servers")
        (state,) = (await session.connection.ask(asked)).payload["servers"]
        (pid,) = map(int, started.read_text().split())
        assert (state["phase"], is_running(pid)) == ("up", True)
        await session.connection.send(EndSession(session=other.session))
        await until(lambda: not is_running(pid))


async def test_a_server_that_nobody_calls_is_stopped_until_somebody_does(tmp_path):
    clock, started = FakeClock(), tmp_path / "started"
    servers = {"files": server({"started": str(started)}, idle_s=60)}
    async with session_with(scripted(), tmp_path, servers, clock=clock) as session:
        await until_phase(session, "files", "up")
        await clock.advance(61)
        await until_phase(session, "files", "waiting")
        (pid,) = map(int, started.read_text().split())
        assert not is_running(pid)
        assert (await states(session))["files"]["tools"] == 15, "its tools are still there"


async def test_a_server_that_is_installed_in_the_temporary_folder_starts(tmp_path):
    with TemporaryDirectory(dir="/tmp") as made:
        script = os.path.join(made, "app", "server.py")
        os.makedirs(f"{made}/app/lib")
        Path(made, "app", "lib", "served.py").write_text(Path(PROGRAM).read_text())
        Path(script).write_text(
            "import runpy\nrunpy.run_path(__file__.replace('server', 'lib/served'), None, '__main__')\n"
        )
        table = server(sandbox="workspace-write")
        table["command"][3] = script
        model = scripted(call("mcp__files__write", path=f"{made}/app/new"), say("Done."))
        write_settings(str(tmp_path), {"files": table})
        async with harness(model, home=str(tmp_path), allow=("mcp__*",)) as session:
            if await session.engine.services.spawn.held_by() in {"", UNCONFINED}:
                pytest.skip("nothing confines commands here")
            (result,) = of_kind(await session.ask("go"), ToolResult)
        assert "Read-only" in result.content


def test_the_files_of_a_server_are_what_its_command_line_names(tmp_path):
    for name in ("venv/bin/serve", "app/server.py", "npm/node_modules/.bin/it", "data/file", "bin/run"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bin" / "tool").symlink_to("../venv/bin/serve")
    cases = {
        ("venv/bin/serve",): {"venv", "venv/bin/serve"},
        ("tool",): {".", "bin/tool", "venv"},
        ("missing", "app/server.py", "--root", "data", "data/file"): {
            "app",
            "app/server.py",
            "data",
            "data/file",
        },
        ("npm/node_modules/.bin/it", "--quiet"): {"npm", "npm/node_modules/.bin/it"},
    }
    for argv, expected in cases.items():
        found = server_files(argv, cwd=str(tmp_path), search_path=str(tmp_path / "bin"))
        assert {os.path.relpath(path, tmp_path) for path in found} == expected, argv


async def test_a_server_writes_where_commands_may_and_nowhere_else(tmp_path):
    outside = tmp_path / "outside"
    model = scripted(
        call("mcp__files__write", path="inside"), call("mcp__files__write", path=str(outside)), say("Done.")
    )
    write_settings(str(tmp_path), {"files": server(sandbox="workspace-write")})
    async with harness(model, home=str(tmp_path), allow=("mcp__*",)) as session:
        if await session.engine.services.spawn.held_by() in {"", UNCONFINED}:
            pytest.skip("nothing confines commands here")
        events = await session.ask("go")
    inside, refused = of_kind(events, ToolResult)
    assert inside.outcome == "ok"
    assert refused.outcome == "error"
    assert not outside.exists()
