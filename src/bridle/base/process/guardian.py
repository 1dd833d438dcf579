"""A guardian process that ends our child processes if we are killed."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable

from bridle.base.fs import placeholders as stand_ins
from bridle.base.process.escapees import MARK

_EXIT_S = 2.0
_PLACES_AT = 1 << 20
"""Where in the list of a guardian the places begin; the groups never reach so far."""


class Guardian:
    """A tiny shell that outlives us by a moment: when our end of its pipe closes, it ends the groups in its list,
    and what was started with a mark of ours and has escaped from them, or was not in the list yet. Then it takes away
    the stand-ins at the places in its list (`stand_ins`).

    Only we hold the writing end, so the kernel closes it for us even after SIGKILL. The list is a file that it reads
    then and not before: to change it wakes nobody. `gone` is readable once it has died. Raises OSError where none can
    be started.
    """

    _SCRIPT = """
trap '' HUP INT TERM PIPE
read -r until_the_end
{ read -r mark; read -r groups; read -r places; } <&1
[ -n "$mark$groups$places" ] || exit 0
for group in $groups; do kill -s TERM -- "-$group"; done
sleep 0.3 || sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
if [ -n "$mark" ]; then
  for round in 1 2 3; do
    for file in $(grep -lsF -e "$mark." /proc/[0-9]*/environ); do
      file=${file%/environ}
      kill -s KILL "${file#/proc/}"
    done
    sleep 0.1 || exit
  done
fi
[ -z "$places" ] || exec "$@" <&1
"""

    def __init__(self, mark: str, groups: Iterable[int] = (), places: bytes = b"") -> None:
        self._mark = f"{MARK}={mark}" if mark else ""
        self._has_places = ""
        opened: list[int] = []
        try:
            opened.append(_unnamed_file())
            (self._list,) = opened
            self.leave(places)
            self._write(groups)
            opened += os.pipe()
            opened += os.pipe()
            _, reading, self._pipe, self.gone, living = opened
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", self._SCRIPT, "bridle-guardian", *_taking_away()],
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                stdin=reading,
                stdout=self._list,  # which can be read as well; it is one of the three that every program has
                stderr=living,  # nothing is written there while we live, and nobody reads it afterwards
                start_new_session=True,
            )
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        os.close(reading)
        os.close(living)
        self.pid = self._popen.pid

    def tell(self, groups: Iterable[int]) -> bool:
        """Replaces its list of groups; False where it is gone and of no use any more."""
        if self._popen.poll() is not None:
            return False
        try:
            self._write(groups)
        except OSError:
            return False
        return True

    def leave(self, places: bytes) -> None:
        """Replaces the places in its list by what `stand_ins.listed` gives, which may only grow. `tell` it then."""
        if places and _taking_away():
            os.pwrite(self._list, places, _PLACES_AT)
            self._has_places = "places"

    def discard(self) -> None:
        """Ends it before its pipe closes, or it would end the groups that are still wanted."""
        self._popen.kill()
        self._popen.wait()
        self._close()

    def close(self) -> None:
        """For when everything has ended: it leaves at once, and looks for nothing."""
        self._mark = self._has_places = ""
        with contextlib.suppress(OSError):
            self._write(())
        self._close()
        try:
            self._popen.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def _close(self) -> None:
        for fd in (self._pipe, self._list, self.gone):
            os.close(fd)

    def _write(self, groups: Iterable[int]) -> None:
        """Three lines, in one go. What an older list leaves behind them is never read."""
        lines = f"{self._mark}\n{' '.join(map(str, groups))}\n{self._has_places}\n"
        os.pwrite(self._list, lines.encode(), 0)


class ControlGroupKeeper:
    """A tiny shell in a control group, for what has no process namespace that would end with us: when our end of its
    pipe closes, it ends everything else in there, at once and without starting anything.

    `folder` is that of the group which counts processes: nothing new can begin in it then. Raises OSError where none
    can be started.
    """

    _SCRIPT = """
trap '' HUP INT TERM PIPE
read -r folder
read -r until_the_end
echo 0 >"$folder/pids.max"
for round in 1 2 3; do
  while read -r pid; do
    case $pid in 0 | $$) ;; *) kill -s KILL "$pid" ;; esac
  done <"$folder/cgroup.procs"
done
"""

    def __init__(self, folder: str) -> None:
        reading, self._pipe = os.pipe()
        try:
            os.write(self._pipe, os.fsencode(f"{folder}\n"))
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", self._SCRIPT, "bridle-keeper"],
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)
        self.pid = self._popen.pid

    @property
    def is_gone(self) -> bool:
        return self._popen.poll() is not None

    def end(self) -> None:
        self._popen.kill()
        self._popen.wait()
        os.close(self._pipe)


def _taking_away() -> tuple[str, ...]:
    """What takes away the stand-ins in a list that it can read; nothing where this program is no plain Python."""
    if not os.path.basename(sys.executable).startswith("python"):
        return ()
    return sys.executable, "-I", "-S", stand_ins.__file__, str(_PLACES_AT)


def _unnamed_file() -> int:
    """A file without a name, open to read and write, in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("bridle-groups", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
