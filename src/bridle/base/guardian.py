"""Ends what we started when we cannot do it ourselves any more: killed, or out of memory."""

import contextlib
import os
import subprocess
from collections.abc import Iterable

from bridle.base.escapees import MARK

_EXIT_S = 2.0


class Guardian:
    """A tiny shell that outlives us by a moment: when our end of its pipe closes, it ends the groups in its list,
    and what was started with a mark of ours and has escaped from them, or was not in the list yet.

    Only we hold the writing end, so the kernel closes it for us even after SIGKILL. The list is a file that it reads
    then and not before: to change it wakes nobody. Raises OSError where none can be started.
    """

    _SCRIPT = """
trap '' HUP INT TERM
read -r until_the_end
{ read -r mark; read -r groups; } <&1
[ -n "$mark$groups" ] || exit 0
for group in $groups; do kill -s TERM -- "-$group"; done
sleep 0.3 || sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
[ -n "$mark" ] || exit 0
for round in 1 2 3; do
  for file in $(grep -lsF -e "$mark." /proc/[0-9]*/environ); do
    file=${file%/environ}
    kill -s KILL "${file#/proc/}"
  done
  sleep 0.1 || exit
done
"""

    def __init__(self, mark: str, groups: Iterable[int] = ()) -> None:
        self._mark = f"{MARK}={mark}" if mark else ""
        opened: list[int] = []
        try:
            opened.append(_unnamed_file())
            (self._list,) = opened
            self._write(groups)
            opened += os.pipe()
            _, reading, self._pipe = opened
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", self._SCRIPT, "bridle-guardian"],
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                stdin=reading,
                stdout=self._list,  # which can be read as well; it is one of the three that every program has
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        os.close(reading)
        self.pid = self._popen.pid

    def tell(self, groups: Iterable[int]) -> bool:
        """Replaces its list; False where it is gone and of no use any more."""
        if self._popen.poll() is not None:
            return False
        try:
            self._write(groups)
        except OSError:
            return False
        return True

    def discard(self) -> None:
        """Ends it before its pipe closes, or it would end the groups that are still wanted."""
        self._popen.kill()
        self._popen.wait()
        os.close(self._pipe)
        os.close(self._list)

    def close(self) -> None:
        """For when everything has ended: it leaves at once, and looks for nothing."""
        self._mark = ""
        with contextlib.suppress(OSError):
            self._write(())
        os.close(self._pipe)
        os.close(self._list)
        try:
            self._popen.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def _write(self, groups: Iterable[int]) -> None:
        """Two lines, in one go. What an older list leaves behind them is never read."""
        os.pwrite(self._list, f"{self._mark}\n{' '.join(map(str, groups))}\n".encode(), 0)


def _unnamed_file() -> int:
    """A file without a name, open to read and write, in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("bridle-groups", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
