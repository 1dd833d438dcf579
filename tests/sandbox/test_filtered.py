"""Commands with a filtered network: one way out, for the hosts that rules allow, and nothing else in or out."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridle.base.clock import SystemClock
from bridle.base.process.processes import CannotStart, Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.adapter import Adapter
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.adapters.landlock import Landlock, available
from bridle.sandbox.adapters.unshare import Unshare, programs
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.network.proxy import PORT, OutsideNetwork
from bridle.sandbox.plain_spawn import ConfinedProcess
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from web_kit import PUBLIC, Network, Peer, WebServer, answer, saying

BWRAP = shutil.which("bwrap")
PYTHON = os.path.realpath(sys.executable)
GET = f"""{PYTHON} -I -c '
import sys, urllib.request as web
try:
    print(web.urlopen(sys.argv[1], timeout=5).read().decode())
except Exception as error:
    print(error)
'"""
"""A program that heeds the variables for proxies, as most do."""

TAKEN = f"""
import os, socket, sys
server = socket.create_server(("127.0.0.1", {PORT}))
os.set_inheritable(server.fileno(), True)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Desk:
    def __init__(self, adapter: Adapter | None, network: Network, base: Path) -> None:
        self.processes = Processes(adopts_orphans=True)
        self.work, self.home = base / "work", base / "home"
        for folder in (self.work, self.home):
            folder.mkdir()

        async def choose() -> Adapter | None:
            return adapter

        self._spawn = SandboxSpawn(
            self.processes,
            place=lambda: HostContext(home=str(self.home)),
            choose=choose,
            outside=OutsideNetwork(SystemClock(), network.resolve, network.connect),
        )

    async def start(self, script: str, *hosts: str, output: bytearray, **policy: object) -> ConfinedProcess:
        return await self._spawn(
            ["/bin/sh", "-c", script],
            cwd=str(self.work),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C"},
            policy=SpawnPolicy(
                **{
                    "mode": "workspace-write",
                    "workspace": str(self.work),
                    "network": "filtered",
                    "hosts": hosts,
                    **policy,
                }
            ),
            call_id="call_1",
            on_output=output.extend,
        )

    async def run(self, script: str, *hosts: str, **policy: object) -> tuple[ConfinedProcess, str]:
        """The process, and what was printed together with what is said about it."""
        output = bytearray()
        process = await self.start(script, *hosts, output=output, **policy)
        await process.wait()
        printed = output.decode("utf-8", "replace")
        return process, printed + process.blocked(printed)


def adapter_of(name: str) -> Adapter:
    if name == "bubblewrap":
        if BWRAP is None:
            pytest.skip("bubblewrap is not installed")
        return Bubblewrap(BWRAP)
    found = programs()
    if found is None:
        pytest.skip("unshare is not installed")
    return Unshare(found)


@pytest.fixture(params=["bubblewrap", "unshare"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Desk, Network]]:
    async with saying(answer(b"from outside")).listening() as server:
        names = {"example.org": [PUBLIC], "a.example.com": [PUBLIC], "near.example": ["10.0.0.1"]}
        network = Network(server.port, names)
        made = Desk(adapter_of(request.param), network, tmp_path)
        yield made, network
        await made.processes.close()


async def test_an_allowed_host_is_reached_and_that_is_known_afterwards(desk: tuple[Desk, Network]) -> None:
    here, network = desk
    process, said = await here.run(
        f"{GET} http://example.org/; {GET} http://a.example.com/", "example.org", "*.example.com"
    )
    assert said == "from outside\nfrom outside\n"
    assert process.hosts() == {"reached": ["example.org", "a.example.com"], "refused": []}
    assert network.contacted == [PUBLIC, PUBLIC]


async def test_another_host_fails_at_once_and_the_result_names_the_rule_for_it(
    desk: tuple[Desk, Network],
) -> None:
    here, network = desk
    process, said = await here.run(f"{GET} https://example.com/; {GET} http://near.example/", "near.example")
    told = "example.com was not reached; allow it with --allow-host example.com or sandbox.hosts"
    assert f"Tunnel connection failed: 403 {told}" in said
    assert said.endswith(
        f"[sandbox: {told}]\n"
        "[sandbox: near.example was not reached: it leads to a private address, which no rule allows]\n"
    )
    assert process.hosts() == {"reached": [], "refused": ["example.com", "near.example"]}
    assert (network.asked, network.contacted) == (["near.example"], [])


async def test_there_is_no_way_but_through_the_proxy(desk: tuple[Desk, Network]) -> None:
    here, network = desk
    tries = f"""{PYTHON} -I -c '
import socket
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ("93.184.215.14", 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("93.184.215.14", 53)),
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {network.port})),
    (socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700::1111", 80)),
):
    try:
        socket.socket(family, kind).connect(address)
        print("got through", address)
    except OSError as error:
        print("no")
try:
    socket.getaddrinfo("example.org", 443)
    print("found")
except OSError as error:
    print(error)
raise SystemExit(1)
'"""
    _, said = await here.run(tries, "*")
    assert said.count("no\n") == 4
    assert "got through" not in said
    assert "found" not in said
    assert "the only way out is HTTP through the proxy that $HTTPS_PROXY names" in said
    assert network.asked == []


async def test_a_server_of_its_own_is_reached_without_the_proxy(desk: tuple[Desk, Network]) -> None:
    here, _ = desk
    script = f"""echo its own > page
{PYTHON} -I -m http.server --bind 127.0.0.1 8765 >/dev/null 2>&1 &
for n in 1 2 3 4 5 6 7 8 9; do
  {GET} http://localhost:8765/page | grep 'its own' && exit 0
  sleep 0.3
done; exit 1"""
    process, said = await here.run(script)
    assert (process.returncode, said) == (0, "its own\n")
    assert process.hosts() == {"reached": [], "refused": []}


async def test_the_command_is_as_it_would_be_without_the_door_that_was_made_first(
    desk: tuple[Desk, Network],
) -> None:
    here, _ = desk
    script = "env | grep -v INSIDE_BRIDLE | sort; ls /proc/self/fd; grep SigIgn /proc/self/status"
    _, plain = await here.run(script, network="deny")
    _, filtered = await here.run(script)
    more = [line for line in filtered.splitlines() if line not in plain.splitlines()]
    assert sorted(line.partition("=")[0].lower() for line in more) == [
        "all_proxy", "all_proxy", "http_proxy", "http_proxy", "https_proxy", "https_proxy", "no_proxy", "no_proxy",
        "node_use_env_proxy",
    ]  # fmt: skip
    assert f"HTTPS_PROXY=http://127.0.0.1:{PORT}" in more
    assert [line for line in plain.splitlines() if line not in filtered.splitlines()] == []


async def test_everything_ends_with_the_command(tmp_path: Path) -> None:
    adapter = adapter_of("bubblewrap")
    gone = asyncio.Event()
    come = asyncio.Event()

    async def talk(peer: Peer, _path: str) -> None:
        come.set()
        await peer.gone()
        gone.set()

    before = len(os.listdir("/proc/self/fd"))
    async with WebServer(talk).listening() as server:
        here = Desk(adapter, Network(server.port, {"example.org": [PUBLIC]}), tmp_path)
        process = await here.start(f"{GET} http://example.org/", "example.org", output=bytearray())
        async with asyncio.timeout(20):
            await come.wait()
            await process.stop()
            await gone.wait()
        await here.processes.close()
        running = map(repr, asyncio.all_tasks())
        assert [task for task in running if "HostProxy" in task or "_Passage" in task] == []
    await asyncio.sleep(0)  # the server's own sockets
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
async def test_where_the_network_cannot_be_filtered_no_command_runs(tmp_path: Path) -> None:
    for number, adapter in enumerate((Landlock(), None)):
        base = tmp_path / str(number)
        base.mkdir()
        here = Desk(adapter, Network(9), base)
        with pytest.raises(CannotStart) as caught:
            await here.run("touch ran")
        assert caught.value.reason == "no network filter"
        assert os.listdir(here.work) == []
        await here.run("touch ran", mode="off")
        assert os.listdir(here.work) == ["ran"]
        await here.processes.close()


async def test_a_command_without_a_door_does_not_run(tmp_path: Path) -> None:
    """Somebody else listens there already: in a network that is not the command's own this is how it would look."""
    here = Desk(adapter_of("bubblewrap"), Network(9), tmp_path)
    inner = Bubblewrap(BWRAP or "")

    class Crowded:
        name = "bubblewrap"
        variables = staticmethod(inner.variables)

        def confined(self, argv, *, cwd, confinement):
            made = inner.confined(argv, cwd=cwd, confinement=confinement)
            at = made.own_network_at
            first = (PYTHON, "-I", "-c", TAKEN)
            argv = (*made.argv[:at], *first, *made.argv[at:])
            return made._replace(argv=argv, own_network_at=at + len(first))

    async def choose() -> Crowded:
        return Crowded()

    here._spawn = SandboxSpawn(here.processes, place=lambda: HostContext(home=str(here.home)), choose=choose)
    process, said = await here.run("touch ran")
    assert (process.returncode, said) == (125, "sandbox: Address already in use; nothing was run\n")
    assert os.listdir(here.work) == []
    await here.processes.close()
