"""The mark of a call that no process takes off: through forks, new programs and emptied environments."""

import subprocess
import sys

import pytest

from bridle.base.process.peer_process import can_tell_descent

pytestmark = pytest.mark.skipif(not can_tell_descent(), reason="a limit of Linux")

ENGINE = """
import os, subprocess, sys
from bridle.base.process.own_process import is_of_a_call, mark_what_we_start
before = subprocess.Popen(["sleep", "30"])
mark_what_we_start()
mark_what_we_start()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, env={}, start_new_session=True)
said = child.stdout.readline()
print(said.decode().strip(), is_of_a_call(child.pid), is_of_a_call(before.pid), is_of_a_call(os.getpid()))
for one in (before, child):
    one.kill()
    one.wait()
"""
LOWERS = "import resource, time; resource.setrlimit(10, (3, 3)); print('lowered', flush=True); time.sleep(30)"
RAISES = """
import os, resource, time
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
try:
    resource.setrlimit(10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("raised", flush=True)
except (ValueError, OSError):
    print("refused", flush=True)
time.sleep(30)
"""


INSIDE = """
import subprocess, sys
from bridle.base.process.own_process import mark_what_we_start
mark_what_we_start()
sys.exit(subprocess.run([sys.executable, "-c", *sys.argv[1:]]).returncode)
"""


def told_by(child: str, *, inside: tuple[str, ...] = ()) -> str:
    """What an engine finds of a child that says a word, of one from before its mark, and of itself."""
    words = [sys.executable, "-c", *inside, ENGINE, child]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def test_who_lowers_it_further_is_known_all_the_same() -> None:
    assert told_by(LOWERS) == "lowered True False False"


def test_nobody_but_root_takes_it_off() -> None:
    assert told_by(RAISES) == "refused True False False"


def test_an_engine_in_a_call_knows_its_own_calls_from_those_beside_it() -> None:
    assert told_by(LOWERS, inside=(INSIDE,)) == "lowered True False False"
