"""What a command finds around it where nothing can enclose it."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.process.processes import Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.plain_spawn import ALLOWED_NAMES, EnvOnlySpawn, allowed_environment


def test_only_known_harmless_names_pass() -> None:
    env = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "TMPDIR": "/t",
        "XDG_CACHE_HOME": "/c",
        "OPENAI_API_KEY": "k",
        "LC_SECRET": "s",
        "XDG_RUNTIME_DIR": "/run",
        "SSH_AUTH_SOCK": "/s",
        "BRIDLE_TOKEN": "t",
        "path": "/evil",
        "BASH_ENV": "/x",
        "LD_PRELOAD": "/y",
        "MY_FLAG": "1",
    }
    harmless = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "TMPDIR": "/t", "XDG_CACHE_HOME": "/c"}
    assert allowed_environment(env) == harmless
    assert allowed_environment(env, ["MY_FLAG", "BRIDLE_TOKEN"]) == harmless | {"MY_FLAG": "1"}


NAMES = st.sampled_from([*ALLOWED_NAMES, "BRIDLE_HOME", "Bridle_x", "WORK_API_KEY", "LC_X"]) | st.text(
    max_size=5
)


@given(st.dictionaries(NAMES, st.text(max_size=3)), st.lists(NAMES, max_size=4))
def test_nothing_unnamed_and_nothing_of_ours_ever_passes(env, also) -> None:
    passed = allowed_environment(env, also)
    assert passed.items() <= env.items()
    assert set(passed) <= ALLOWED_NAMES | set(also)
    assert not any(name.upper().startswith("BRIDLE_") for name in passed)


@pytest.mark.requirement("D16.6", "D16.7")
async def test_the_adapter_names_itself_and_cleans_the_environment(tmp_path) -> None:
    processes = Processes()
    try:
        spawn = EnvOnlySpawn(processes, also=["MY_FLAG"])
        assert spawn.adapter == "env-only"
        seen = bytearray()
        process = await spawn(
            ["/bin/sh", "-c", "echo $MY_FLAG-$WORK_KEY; tr '\\0' '\\n' </proc/$$/environ || env"],
            cwd=str(tmp_path),
            env={"PATH": os.environ["PATH"], "MY_FLAG": "flag", "WORK_KEY": "secret"},
            policy=SpawnPolicy(mode="workspace-write", workspace=str(tmp_path)),
            call_id="call_1",
            on_output=seen.extend,
        )
        assert await process.wait() == 0
    finally:
        await processes.close()
    assert seen.startswith(b"flag-\n")
    assert b"secret" not in seen
