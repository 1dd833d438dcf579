"""Runs confined commands as whoever starts it: reads a plan as JSON from stdin, writes what happened as JSON.

A process of its own, so that a test can see what an ordinary user would, also where root runs the tests.
"""

import asyncio
import json
import sys

from bridle.base.process.processes import Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.adapter import Adapter
from bridle.sandbox.adapters.adapter_start import start
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import HostContext, confinement_of
from bridle.sandbox.policy_files.policy_check import PolicyCheck
from bridle.sandbox.policy_files.quarantine import put_right


def adapter_of(plan: dict) -> Adapter:
    if plan["adapter"] == "bubblewrap":
        return Bubblewrap(plan["program"], variant=plan.get("variant", "full"))
    from bridle.sandbox.adapters.unshare import Unshare, programs

    return Unshare(programs())


async def run(plan: dict) -> list[dict]:
    processes = Processes()
    adapter = adapter_of(plan)
    place = HostContext(
        home=plan["home"],
        own=tuple(plan["own"]),
        caches=plan["caches"],
        env=plan["place_env"],
        temporary=tuple(plan["temporary"]),
    )
    results: list[dict] = []
    running = []
    try:
        for step in plan["steps"]:
            policy = SpawnPolicy(**{**plan["policy"], **step.get("policy", {})})
            cwd = step.get("cwd", plan["policy"]["workspace"])
            confinement = confinement_of(policy, place, cwd)
            output = bytearray()
            ready = asyncio.Event()

            def read(chunk: bytes, output: bytearray = output, ready: asyncio.Event = ready) -> None:
                output.extend(chunk)
                ready.set()

            env = {**plan["env"], **adapter.variables(confinement)}
            check, token = PolicyCheck(confinement.folders), object()
            check.begin(token, policy, confinement.held)
            launch = adapter.confined(step["argv"], cwd=cwd, confinement=confinement)
            process = await start(processes, launch, cwd=cwd, env=env, on_output=read)
            if step.get("background"):
                await ready.wait()
                running.append((process, launch))
                results.append({"code": None, "output": output.decode("utf-8", "replace"), "tampered": []})
                continue
            code = await process.wait()
            launch.ended()
            tampered = list(put_right(confinement))
            check.end(token)
            results.append(
                {
                    "code": code,
                    "output": output.decode("utf-8", "replace"),
                    "tampered": tampered,
                }
            )
        for process, launch in running:
            if plan.get("gently"):
                launch.terminate(process.pid)
                results.append({"code": await process.wait(), "output": "", "tampered": []})
            await process.stop()
            launch.ended()
    finally:
        await processes.close()
    return results


if __name__ == "__main__":
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
