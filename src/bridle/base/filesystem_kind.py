"""The kind of filesystem a path is on. Linux only; elsewhere nothing is known."""

from __future__ import annotations

import os
import re

NETWORK = frozenset(
    {
        "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
        "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs",
        "fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.nfs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs",
        "fuse.sshfs",
    }
)  # fmt: skip
"""Kinds whose locks or shared memory cannot be relied on between machines."""

_ESCAPE = re.compile(r"\\([0-7]{3})")
_MOUNTS = "/proc/self/mountinfo"


def network_filesystem(path: str) -> str | None:
    """The kind of network filesystem that holds `path`, which need not exist yet; None for a local or unknown one."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            kind = kind_of(os.path.realpath(path), file.read())
    except OSError:
        return None
    return kind if kind in NETWORK else None


def kind_of(path: str, mountinfo: str) -> str | None:
    """The kind of the filesystem that an absolute, resolved path is on, by the text of a mountinfo file."""
    best, found = -1, None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5 or not after:
            continue
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
        # of two at one place the later one covers the earlier
        if len(point) >= best and (path == point or path.startswith(point.rstrip("/") + "/")):
            best, found = len(point), after.split(" ", 1)[0]
    return found
