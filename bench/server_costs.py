"""What an MCP server costs: a first request that leaves beside it, and connections made again and again."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import subprocess
import termios
import threading
import time
from pathlib import Path
from typing import NamedTuple

from measure import BRIDLE, PYTHON, ROOT, Figure, added, in_turns, plain_env, scratch
from over_http import Server, configure, served

from bridle.base.clock import SystemClock
from bridle.base.process.processes import Processes
from bridle.config.folders import folders
from bridle.engine.ports import SpawnPolicy
from bridle.mcp.server_definitions import decode_server
from bridle.mcp.server_run import LaunchPlace
from bridle.mcp.shared_server import ServerPool
from bridle.sandbox.session_border import machine_spawn

ROUNDS = 11
CYCLES, SETTLED = 300, 100
_SERVER = [PYTHON, "-S", "-E", os.path.join(ROOT, "tests", "mcp_server.py"), json.dumps({"tools": 10})]


class Spent(NamedTuple):
    wall_s: float
    cpu_s: float


def first_request() -> list[Figure]:
    """`bridle` at a terminal with a prompt: exec to the model's server having the request, with and without one."""
    with scratch() as folder, served("say Hello.\n") as server:
        homes = {name: plain_env(os.path.join(folder, name)) for name in ("none", "cold", "kept")}
        for name, env in homes.items():
            configure(env["BRIDLE_HOME"], server.url)
            if name != "none":
                _name_server(env["BRIDLE_HOME"])

        def run(name: str) -> Spent:
            lists = Path(homes[name]["BRIDLE_HOME"], "state", "mcp")
            if name == "cold":
                shutil.rmtree(lists, ignore_errors=True)
            elif name == "kept":
                assert any(lists.rglob("*.json")), "an earlier run kept what it offers"
            return _first_request_s(homes[name], folder, server, waits_for=lists if name == "cold" else None)

        for name in ("none", "cold"):
            _first_request_s(homes[name], folder, server, waits_for=None)
        lists = Path(homes["kept"]["BRIDLE_HOME"], "state", "mcp")
        _first_request_s(homes["kept"], folder, server, waits_for=lists)
        none, cold, kept = in_turns(ROUNDS, lambda: run("none"), lambda: run("cold"), lambda: run("kept"))
    return [
        figure
        for name, found, target in (("cold", cold, 100), ("kept", kept, 25))
        for figure in (
            added(
                f"first request, server {name}",
                [one.wall_s for one in found],
                [one.wall_s for one in none],
                of="one without",
                target=target,
            ),
            added(
                f"the same, own CPU, {name}",
                [one.cpu_s for one in found],
                [one.cpu_s for one in none],
                of="one without, of all threads until then",
            ),
        )
    ]


def _name_server(home: str) -> None:
    path = Path(home, "config", "config.toml")
    path.write_text(f"{path.read_text()}\n[mcp_servers.one]\ncommand = {json.dumps(_SERVER)}\n")


def _first_request_s(env: dict[str, str], cwd: str, server: Server, *, waits_for: Path | None) -> Spent:
    """How long the request took; then the program is ended, once what it is to keep is there."""
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (40, 100))
    begun = time.monotonic()
    process = subprocess.Popen(
        [BRIDLE, "-m", "bench:some-model", "-C", cwd, "--", "hi"],
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=cwd,
        env={**env, "TERM": "xterm-256color", "BENCH_SERVER_KEY": "bench" * 4},
        start_new_session=True,
    )
    os.close(side)
    reading = threading.Thread(target=_read_away, args=(terminal,), daemon=True)
    reading.start()
    try:
        (at_s,) = server.take(1)
        spent_s = _cpu_s(process.pid)
        while waits_for is not None and not any(waits_for.rglob("*.json")):
            assert time.monotonic() < begun + 60, "nothing was kept"
            time.sleep(0.01)
        return Spent(at_s - begun, spent_s)
    finally:
        process.terminate()
        process.wait(20)
        os.close(terminal)


def _cpu_s(pid: int) -> float:
    """What all threads of a process had of the cores, as the kernel counts it."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _read_away(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


def cycles() -> list[Figure]:
    """One process connects to a server and lets it go again, as sessions that come and go do."""
    return asyncio.run(_cycles())


async def _cycles() -> list[Figure]:
    with scratch() as home:
        env = plain_env(home)
        where = folders(env)
        processes = Processes(adopts_orphans=True)
        spawn = machine_spawn(processes, where=where, home=home, env=env)
        definition = decode_server("one", {"command": _SERVER, "sandbox": "off"}, part="one")
        place = LaunchPlace(spawn=spawn, policy=SpawnPolicy(mode="off", workspace=home), cwd=home, env=env)
        pool = ServerPool(where.state, SystemClock())
        sizes: list[float] = []
        try:
            for number in range(CYCLES):
                server = pool.server(definition, place)
                pool.use((server,), _Nobody())
                connection = await server.connected()
                result = await connection.call("t1", {}, _unheard)
                assert result.texts == ("t1 {}",), result
                await server.close()
                pool = ServerPool(where.state, SystemClock())
                sizes += [_resident_mb()] if number + 1 in (SETTLED, CYCLES) else []
        finally:
            await pool.close()
            await processes.close()
            spawn.close()
    how = f"from {SETTLED} to {CYCLES} connections, a call each; {sizes[0]:.0f} MB"
    return [
        Figure(name="server connections, growth", value=sizes[1] - sizes[0], unit="MB", target=2, how=how)
    ]


def _unheard(_done: float, _total: float | None, _message: str) -> None:
    return


class _Nobody:
    def server_changed(self, server: object) -> None:
        return

    def server_made(self, server: object, notice: object) -> None:
        return


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
