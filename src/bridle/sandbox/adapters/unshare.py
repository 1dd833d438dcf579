"""Run commands in namespaces made with `unshare`.

The same mounts as bubblewrap makes, by one fixed shell script that gets them as arguments: nothing is ever put into its
text. It runs as root of a user namespace of its own; the command then runs in a second one below it, as the person and
without capabilities, so it cannot undo what the first one set up.

Not covered: there is no system call filter. So a command can trace its own children, make Unix sockets while the
network is denied (those of other programs are out of reach), use the keyring of the kernel and io_uring.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bridle.base.fs.paths import is_beneath, is_beneath_any
from bridle.sandbox.adapters.adapter import CannotConfine, Launch, cache_variables, terminate_inside
from bridle.sandbox.adapters.mount_check import (
    CHECK,
    DEVICES,
    Mount,
    MountNow,
    arguments_of_check,
    make_room,
    mounted_now,
    mounts_of,
)
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.plain_spawn import find_program
from bridle.sandbox.policy_files.git_placeholders import Masks

_SCRIPT = (
    CHECK
    + r"""
set -eu
cannot() { echo "unshare: $*" >&2; exit 125; }
trap '[ $? = 0 ] || exit 125' EXIT
store=/sys
stored=0
store_it() { # what is to stand somewhere else later: folders and files, before anything covers them
  stored=$((stored + 1))
  if [ -d "$1" ]; then mkdir "$store/$stored"; else : >"$store/$stored"; fi
  mount --rbind -- "$1" "$store/$stored"
}
place() { # put number $1 of the store at $2
  if [ -d "$store/$1" ]; then mkdir -p -- "$2"; else mkdir -p -- "${2%/*}"; [ -e "$2" ] || : >"$2"; fi
  mount --rbind -- "$store/$1" "$2"
}
read_only() { mount -o "remount,bind,ro,$2" -- "$1" || cannot "$1 stays writable"; }

mount --make-rprivate /
mount -t tmpfs -o mode=700 tmpfs $store
while [ "$1" != -- ]; do
  case $1 in
    store) store_it "$2"; shift 2 ;;
    bind) mount --rbind -- "$2" "$2"; shift 2 ;;
    place) place "$2" "$3"; shift 3 ;;
    read-only) read_only "$2" "$3"; shift 3 ;;
    empty) mkdir -p -- "$2"; mount -t tmpfs -o "mode=$3,nosuid,nodev" tmpfs "$2"; shift 3 ;;
    links) for n in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do ln -s "/proc/self/${n#*:}" "/dev/${n%%:*}"; done
           mkdir /dev/pts /dev/shm
           if mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /dev/pts 2>/dev/null
           then ln -s pts/ptmx /dev/ptmx; fi
           shift ;;
    proc) mount -t proc -o nosuid,nodev,noexec proc /proc
          echo 1 >/proc/sys/user/max_user_namespaces || cannot "nested namespaces stay open"
          shift ;;
    knobs) # to root, files in /proc/sys and some others are writable without any capability
          for n in sys sysrq-trigger irq bus acpi fs scsi driver mtrr; do
            if [ -e "/proc/$n" ]; then
              mount --bind "/proc/$n" "/proc/$n"
              read_only "/proc/$n" nosuid,nodev,noexec
            fi
          done
          shift ;;
    unstore) umount -l $store || cannot "the way out stays open"; shift ;;
    check) check_mounts "$2" "$3" "$4"; shift 4 ;;
    *) cannot "unknown step $1" ;;
  esac
done
shift
cd -- "$1" || cannot "$1 is out of reach"
user=$2 group=$3 setpriv=$4
shift 4
trap - EXIT
set +e
unshare --user --map-user="$user" --map-group="$group" -- \
  "$setpriv" --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@"
exit $?
"""
)

TEMPORARY = "/tmp"  # noqa: S108  it is the command's own
_KEPT_FLAGS = frozenset({"nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"})
"""What a mount has of these it must keep, or the kernel refuses to make it read-only."""


_REAL = frozenset({"writable", "read-only", "shown"})
"""Kinds of mounts that show what is there."""


class UnsharePrograms(NamedTuple):
    unshare: str
    setpriv: str


def programs() -> UnsharePrograms | None:
    """What is needed, if it is there."""
    unshare, setpriv, mount = (find_program(name) for name in ("unshare", "setpriv", "mount"))
    return UnsharePrograms(unshare, setpriv) if unshare and setpriv and mount else None


class Unshare:
    name = "unshare"

    def __init__(self, found: UnsharePrograms) -> None:
        self._programs = found

    def variables(self, confinement: Confinement) -> Mapping[str, str]:
        return {"TMPDIR": TEMPORARY, **cache_variables(confinement.caches)}

    def confined(self, argv: Sequence[str], *, cwd: str, confinement: Confinement) -> Launch:
        mounts = mounts_of(confinement, masks="read-only")  # which the check inside knows from another
        make_room(mounts, confinement)
        try:
            masks = Masks(confinement.absent, confinement.filled)
        except OSError as error:
            raise CannotConfine(f"{error.filename} could not be protected ({error.strerror})") from error
        try:
            steps = list(_steps(mounts, confinement, mounted_now()))
        except BaseException:
            masks.release()
            raise
        namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--ipc", "--uts", "--cgroup"]
        if confinement.network != "inherit":
            namespaces.append("--net")
        enclosing = (self._programs.unshare, *namespaces, "--fork", "--kill-child", "--")
        ids = (str(os.getuid()), str(os.getgid()))
        return Launch(
            argv=(
                *(*enclosing, "/bin/sh", "-c", _SCRIPT),
                *("bridle-sandbox", *steps, "--", cwd, *ids, self._programs.setpriv, *argv),
            ),
            own_network_at=None if confinement.network == "inherit" else len(enclosing),
            ended=masks.release,
            terminate=terminate_inside,
            dying_with_us=(self._programs.setpriv, "--pdeathsig", "KILL", "--"),
        )


def _steps(every: Sequence[Mount], confinement: Confinement, now: Sequence[MountNow]) -> Iterator[str]:
    root, *mounts = every
    outside = {mount.path: ",".join(sorted(mount.flags & _KEPT_FLAGS)) for mount in now}
    blank = [mount.path for mount in mounts if mount.kind not in _REAL]
    moved = [mount.path for mount in mounts if _is_moved(mount, blank)]
    if confinement.scratch:
        moved.append(confinement.scratch)
    moved += [f"/dev/{name}" for name in DEVICES]
    for path in moved:
        yield from ("store", path)
    number = {path: str(index) for index, path in enumerate(moved, start=1)}

    open_as_they_are = [mount.path for mount in mounts if mount.kind == "writable"]
    for path in open_as_they_are:
        if path not in number:
            yield from ("bind", path)
    if root.kind == "read-only":
        covered = (*blank, *open_as_they_are, "/dev", "/proc", "/sys")
        for path, flags in outside.items():
            if not is_beneath_any(path, covered):
                yield from ("read-only", path, flags)
    for mount in mounts:
        yield from _step(mount, number, confinement)
    yield from ("empty", "/dev", "755")
    for name in DEVICES:
        yield from ("place", number[f"/dev/{name}"], f"/dev/{name}")
    yield from ("links", "proc")
    if os.getuid() == 0:
        yield "knobs"
    for mount in mounts:
        if mount.kind in {"hidden", "empty", "room"} and mount.is_folder:
            yield from ("read-only", mount.path, "nosuid,nodev")
    yield "unstore"
    if root.kind == "read-only":  # the store stood before these until now
        for path, flags in outside.items():
            if is_beneath(path, "/sys"):
                yield from ("read-only", path, flags)
    yield from ("check", *arguments_of_check(every, confinement, now))


def _is_moved(mount: Mount, blank: Sequence[str]) -> bool:
    """Whether something covers it, so that it must be put back."""
    return mount.kind in _REAL and any(path != mount.path and is_beneath(mount.path, path) for path in blank)


def _step(mount: Mount, number: Mapping[str, str], confinement: Confinement) -> Iterator[str]:
    path = mount.path
    match mount.kind:
        case "writable":
            if path in number:
                yield from ("place", number[path], path)
        case "read-only" | "shown" | "masked":
            yield from ("place", number[path], path) if path in number else ("bind", path)
            yield from ("read-only", path, "nosuid,nodev")
        case "hidden" if not mount.is_folder:
            yield from ("place", number["/dev/null"], path)
            yield from ("read-only", path, "nosuid,nodev")
        case "hidden":
            yield from ("empty", path, "111" if mount.crossed else "000")
        case "temporary" if confinement.scratch:
            yield from ("place", number[confinement.scratch], path)
        case "temporary":
            yield from ("empty", path, "1777")
        case "empty" | "room":
            yield from ("empty", path, "755")
