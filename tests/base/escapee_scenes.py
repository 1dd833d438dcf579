"""Engines that adopt orphans, one scene each: `python escapee_scenes.py SCENE FOLDER` prints what it saw as JSON.

In a process of their own, because adopting is for the whole process. Every process they start is `sleep`, or ends soon.
"""

import asyncio
import json
import os
import subprocess
import sys

from bridle.base.process.processes import Processes

ENV = {"PATH": os.defpath}
DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for fd in (0, 1, 2): os.close(fd)
with open(sys.argv[1], "w") as file: file.write(str(os.getpid()))
os.execv("/bin/sleep", ["sleep", "600"])
"""


class Engine:
    def __init__(self) -> None:
        self.processes = Processes(adopts_orphans=True)

    async def start(self, *argv, **options):
        self.output = bytearray()
        self.told = asyncio.Event()

        def on_output(chunk):
            self.output.extend(chunk)
            self.told.set()

        return await self.processes.start(argv, cwd="/", env=ENV, on_output=on_output, **options)

    async def run(self, *argv) -> list[int]:
        """The numbers a command printed, once it is over."""
        process = await self.start(*argv)
        await process.wait()
        return [int(line) for line in self.output.split()]

    async def shell(self, script) -> list[int]:
        return await self.run("bash", "-c", script)

    async def job(self, script):
        """A command that goes on, and the first number it printed."""
        process = await self.start("bash", "-c", script)
        await self.told.wait()
        return process, int(self.output.split()[0])


def is_alive(pid) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return False


def is_there(pid) -> bool:
    """Alive, or dead and not reaped."""
    return os.path.exists(f"/proc/{pid}")


def children() -> set[int]:
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            found.update(map(int, file.read().split()))
    return found


async def own_session(engine, _folder):
    pids = await engine.shell("setsid sleep 600 > /dev/null 2>&1 & echo $!")
    return [is_there(pid) for pid in pids]


async def daemon(engine, folder):
    number = os.path.join(folder, "pid")
    script = f"{sys.executable} -c '{DAEMON}' {number}; while ! [ -s {number} ]; do :; done; cat {number}"
    pids = await engine.shell(script)
    return [is_there(pid) for pid in pids]


async def job_control(engine, _folder):
    pids = await engine.shell("set -m; sleep 600 > /dev/null 2>&1 & echo $!")
    return [is_there(pid) for pid in pids]


async def living_parent(engine, folder):
    """What escaped has a parent in the group that dies only when the group is killed."""
    number = os.path.join(folder, "pid")
    inner = f"setsid sleep 600 & echo $! > {number}; exec sleep 600"
    pids = await engine.shell(
        f"({inner}) > /dev/null 2>&1 & while ! [ -s {number} ]; do :; done; cat {number}"
    )
    return [is_there(pid) for pid in pids]


async def family(engine, folder):
    """The child of what escaped has cleared its environment and left for another session."""
    number = os.path.join(folder, "pid")
    inner = f"env -i setsid sleep 600 & echo $! > {number}; exec sleep 600"
    script = f"setsid bash -c '{inner}' > /dev/null 2>&1 & echo $!; while ! [ -s {number} ]; do :; done; cat {number}"
    pids = await engine.shell(script)
    return [is_there(pid) for pid in pids]


async def running_job(engine, _folder):
    job, helper = await engine.job("setsid sleep 600 > /dev/null 2>&1 & echo $!; exec sleep 600")
    await engine.shell("true")
    during = is_alive(helper)
    await job.stop()
    return [during, is_there(helper)]


async def stopped(engine, _folder):
    job, helper = await engine.job("setsid sleep 600 > /dev/null 2>&1 & echo $!; exec sleep 600")
    await job.stop()
    return [is_there(helper)]


async def strangers(engine, _folder):
    """Processes that the program itself starts, before and after; one leaves an orphan without a mark."""
    before = subprocess.Popen(["sleep", "600"], start_new_session=True)
    await engine.shell("true")
    after = subprocess.Popen(["sleep", "600"], start_new_session=True)
    plain = subprocess.Popen(["sh", "-c", "exit 7"])
    os.waitid(os.P_PID, plain.pid, os.WEXITED | os.WNOWAIT)
    told = subprocess.run(
        ["bash", "-c", "setsid sleep 600 > /dev/null 2>&1 & echo $!"], capture_output=True, env=ENV
    )
    orphan = int(told.stdout)
    await engine.shell("setsid sleep 600 > /dev/null 2>&1 &")
    spared = [before.poll() is None, after.poll() is None, is_alive(orphan), plain.wait()]
    for process in (before, after):
        process.kill()
        process.wait()
    os.kill(orphan, 9)
    return spared


DAEMON_THAT_TELLS = "echo $(setsid sh -c 'echo $$; exec sleep 600 > /dev/null 2>&1' &)"
"""Told by the daemon itself, so it has left the session before the program that started it can end."""


async def persons_own(engine, _folder):
    """A program of the person's: what it leaves in its session ends, a daemon does not, whatever runs next."""
    script = f"sleep 600 > /dev/null 2>&1 & echo $!; {DAEMON_THAT_TELLS}"
    process = await engine.start("bash", "-c", script, spares_daemons=True)
    await process.wait()
    child, daemon = map(int, engine.output.split())
    await engine.shell("setsid sleep 600 > /dev/null 2>&1 &")
    seen = [is_alive(child), is_alive(daemon)]
    os.kill(daemon, 9)
    os.waitpid(daemon, 0)
    return seen


async def dead_orphans(engine, _folder):
    """Orphans that end by themselves, in sessions of their own."""
    for _ in range(3):
        await engine.shell("for i in 1 2 3 4 5 6 7 8; do (setsid true > /dev/null 2>&1 &); done")
    await engine.shell("true")
    return [len(children())]


async def killed(engine, _folder):
    """Tells what runs, then waits for its own end."""
    job, escaped = await engine.job("setsid sleep 600 > /dev/null 2>&1 & echo $!; exec sleep 600")
    print(json.dumps([job.pid, escaped]), flush=True)
    await asyncio.Event().wait()


SCENES = {
    scene.__name__: scene
    for scene in (
        own_session, daemon, job_control, living_parent, family, running_job, stopped, strangers, dead_orphans, killed,
        persons_own,
    )
}  # fmt: skip


async def main(name, folder) -> None:
    engine = Engine()
    seen = await SCENES[name](engine, folder)
    await engine.processes.close()
    print(json.dumps([seen, len(children())]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
