"""An engine with a process that stays, which never comes to look: `python resident_scene.py ADAPTER HOME WORKSPACE`.

"written" is printed once the process has made what it must not. Then everything waits for its end.
"""

import asyncio
import os
import signal
import sys
import time

from bridle.base.processes import Processes
from bridle.config.folders import folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import this_place
from sandbox.killed_scenes import adapter_named

WRITES = "echo up; read -r go < go; echo x > AGENTS.md; echo x > src/CLAUDE.md; exec sleep 600"


async def main(name, home, workspace) -> None:
    env = {"PATH": os.defpath, "HOME": home}
    where = folders(env)

    async def choose():
        return adapter_named(name)

    spawn = SandboxSpawn(
        Processes(adopts_orphans=True),
        place=lambda: this_place(where, env, home=home_of(env)),
        choose=choose,
        notes=f"{where.state}/cut-off",
    )
    up = asyncio.Event()
    os.mkfifo(f"{workspace}/go")
    await spawn(
        ["/bin/sh", "-c", WRITES],
        cwd=workspace,
        env=env,
        policy=SpawnPolicy(mode="workspace-write", workspace=workspace, resident=True),
        call_id="mcp:one",
        on_output=lambda _data: up.set(),
    )
    await up.wait()
    with open(f"{workspace}/go", "w") as go:
        go.write("go\n")
    os.unlink(f"{workspace}/go")
    while not os.path.exists(f"{workspace}/src/CLAUDE.md"):  # nobody looks meanwhile: the loop does not run
        time.sleep(0.001)
    os.write(1, b"written\n")
    signal.pause()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
