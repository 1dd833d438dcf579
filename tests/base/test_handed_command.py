"""What a process has to be for its command to be carried out elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nobody stands by elsewhere")

FILTERED_TWICE = """
import ctypes, struct
from bridle.base.handed_command import _standing_of

allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(allow))
prctl = ctypes.CDLL(None).prctl
prctl(38, 1, 0, 0, 0)
seen = []
for _ in range(2):
    assert prctl(22, 2, program, 0, 0) == 0
    seen.append(_standing_of("self"))
print(seen[0] == seen[1])
"""


def test_one_more_filter_of_system_calls_is_another_standing() -> None:
    """In a container everybody has one already."""
    done = subprocess.run(
        [sys.executable, "-c", FILTERED_TWICE], capture_output=True, text=True, check=False, timeout=40
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
