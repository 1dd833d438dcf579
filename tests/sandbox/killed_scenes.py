"""An engine that holds one command and waits for its own end: `python killed_scenes.py ADAPTER HOME WORKSPACE`.

The command holds the pipe `alive` open, and so does a process of it that has left its session and cleared its
environment. "up" is printed once both are there. They end by themselves when nobody holds the pipe `hold` any more.
"""

import asyncio
import os
import sys

from bridle.base.process.processes import Processes
from bridle.config.folders import folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.adapters.landlock import Landlock
from bridle.sandbox.adapters.unshare import Unshare, programs
from bridle.sandbox.plain_spawn import find_program
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import this_place

ESCAPES = "exec 9>alive 8<hold; env -i setsid sh -c 'echo up; exec cat <&8' & exec cat <&8"


def adapter_named(name):
    match name:
        case "bubblewrap":
            return Bubblewrap(find_program("bwrap"))
        case "unshare":
            return Unshare(programs())
        case "landlock":
            return Landlock()
        case _:
            return None


async def main(name, home, workspace) -> None:
    env = {"PATH": os.defpath, "HOME": home}
    where = folders(env)

    async def choose():
        return adapter_named(name)

    processes = Processes(adopts_orphans=True)
    spawn = SandboxSpawn(
        processes,
        place=lambda: this_place(where, env, home=home_of(env)),
        choose=choose,
        lists=f"{home}/lists",
    )
    await spawn(
        ["/bin/sh", "-c", ESCAPES],
        cwd=workspace,
        env=env,
        policy=SpawnPolicy(mode="workspace-write", workspace=workspace),
        call_id="call_1",
        on_output=lambda data: os.write(1, data),
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
