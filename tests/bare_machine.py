"""Machines on which a sandbox is installed and does not work: made with bubblewrap, they end with whoever made them.

On a bare machine no user namespace can be made, as in most containers. On a breaking one, `bwrap` and `unshare` work
until a file appears. Without Landlock its system calls are unknown there, as to an older kernel.
"""

import os
import platform
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli_kit import Place, Ran

_AROUND = (
    "bwrap", "--unshare-user", "--unshare-pid", "--die-with-parent", "--bind", "/", "/", "--dev", "/dev",
    "--proc", "/proc",
)  # fmt: skip
_BARE = (*_AROUND, "--disable-userns")
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_UNKNOWN, _FINE = 0x00050000 | 38, 0x7FFF0000
_LANDLOCK_CREATE_RULESET = 444

needs_a_bare_machine = pytest.mark.skipif(
    shutil.which("bwrap") is None
    or subprocess.run([*_BARE, "true"], capture_output=True, check=False).returncode != 0,
    reason="this system lets nobody make a machine without namespaces",
)


def on_a_bare_machine(place: Place, *words: str, landlock: bool) -> Ran:
    """Runs `bridle WORDS…` there, with the home and the folder of `place`, to its end."""
    return _run(place, _BARE, words, landlock=landlock)


def on_a_breaking_machine(
    place: Place, *words: str, landlock: bool, sign: Path, then: str = "echo bwrap: broken >&2; exit 1"
) -> Ran:
    """The same where, from the moment `sign` exists, `bwrap` and `unshare` only do what is said in `then`."""
    around = list(_AROUND)
    for name in ("bwrap", "unshare"):
        program = shutil.which(name, path="/usr/bin:/bin")
        assert program is not None
        real, wrapper = place.home.parent / f"real-{name}", place.home.parent / name
        shutil.copy(program, real)
        wrapper.write_text(f'#!/bin/sh\nif [ -e "{sign}" ]; then {then}; fi\nexec "{real}" "$@"\n')
        wrapper.chmod(0o755)
        around += ["--ro-bind", str(wrapper), program]
    return _run(place, around, words, landlock=landlock)


def _run(place: Place, around: Sequence[str], words: Sequence[str], *, landlock: bool) -> Ran:
    fd = os.memfd_create("filter")
    os.write(fd, _filter(b"" if landlock else _refusing(_LANDLOCK_CREATE_RULESET)))
    os.lseek(fd, 0, os.SEEK_SET)
    try:
        return place.bridle(*words, around=(*around, "--seccomp", str(fd)), pass_fds=(fd,))
    finally:
        os.close(fd)


def has_landlock() -> bool:
    from bridle.sandbox.adapters import landlock

    return platform.system() == "Linux" and landlock.available() > 0


def _filter(refusing: bytes) -> bytes:
    return struct.pack("=HBBI", _LOAD, 0, 0, 0) + refusing + struct.pack("=HBBI", _RETURN, 0, 0, _FINE)


def _refusing(number: int) -> bytes:
    return struct.pack("=HBBI", _IF_EQUAL, 0, 1, number) + struct.pack("=HBBI", _RETURN, 0, 0, _UNKNOWN)
