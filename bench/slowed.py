"""`slowed.py TIMES PROGRAM ARG…`: a Python program whose threads wait that much longer where they wait for a time.

For a tool that makes everything else as slow: how much the program does within such a time stays what it is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def _waits_longer(times: float) -> Callable[..., bool]:
    wait_for = threading.Condition.wait_for

    def longer(
        condition: threading.Condition, reached: Callable[[], bool], timeout: float | None = None
    ) -> bool:
        return wait_for(condition, reached, None if timeout is None else timeout * times)

    return longer


if __name__ == "__main__":
    times = float(sys.argv[1])
    threading.Condition.wait_for = _waits_longer(times)
    sys.setswitchinterval(sys.getswitchinterval() * times)
    del sys.argv[:2]
    with open(sys.argv[0], encoding="utf-8") as program:
        exec(compile(program.read(), sys.argv[0], "exec"))
