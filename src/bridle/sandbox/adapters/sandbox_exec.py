"""Run commands in the macOS sandbox.

A profile is a list of rules of which the last that fits decides, so rules go from shallow paths to deep ones. Paths are
quoted strings in it: a quote or a backslash in a name cannot end the string.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from bridle.base.fs.files import private_folder
from bridle.sandbox.adapters.adapter import CannotConfine, Launch, cache_variables
from bridle.sandbox.confinement import Confinement

PROGRAM = "/usr/bin/sandbox-exec"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper", "/dev/stdout", "/dev/stderr")
_SOCKETS_OF_SYSTEM = ("/private/var/run/mDNSResponder", "/private/var/run/syslog")
"""Name lookups go through the first of these."""


class SandboxExec:
    """Confines with `sandbox-exec`. Temporary folders keep their names: TMPDIR leads to the scratch folder instead."""

    name = "sandbox-exec"

    def variables(self, confinement: Confinement) -> Mapping[str, str]:
        caches = cache_variables(confinement.caches)
        return caches if not confinement.scratch else {"TMPDIR": confinement.scratch, **caches}

    def confined(self, argv: Sequence[str], *, cwd: str, confinement: Confinement) -> Launch:
        del cwd  # the process is started there
        if confinement.scratch:
            private_folder(confinement.scratch)
        return Launch(argv=(PROGRAM, "-p", profile(confinement), *argv))


def profile(confinement: Confinement) -> str:
    """The profile's text. Raises `CannotConfine` for a path that cannot be written in one."""
    return "\n".join(_lines(confinement)) + "\n"


def _lines(confinement: Confinement) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    yield "(deny file-write*)"
    yield f"(allow file-write* {' '.join(f'(literal {_quoted(path)})' for path in _DEVICES)})"
    yield '(allow file-write* (regex #"^/dev/ttys[0-9]+$"))'
    for path, lines in sorted(_by_path(confinement), key=lambda entry: entry[0].rstrip("/").split("/")):
        del path
        yield from lines
    yield from _network(confinement)
    # What acts for a process that asks it to, outside of any sandbox.
    yield "(deny appleevent-send)"
    yield "(deny process-info* (target others))"
    yield "(deny signal (target others))"
    yield "(allow signal (target same-sandbox))"


def _by_path(confinement: Confinement) -> Iterator[tuple[str, list[str]]]:
    for path in (*confinement.writable, *filter(None, [confinement.scratch])):
        below = f"(subpath {_quoted(path)})"
        yield path, [f"(allow file-read* {below})", f"(allow file-write* {below})"]
    for path in confinement.shown:
        yield path, [f"(allow file-read* (subpath {_quoted(path)}))"]
    missing = (*confinement.absent, *(path for path, _ in confinement.filled))
    for path in (*confinement.read_only, *missing):
        yield path, [f"(deny file-write* (subpath {_quoted(path)}))"]
    for path in confinement.held:
        yield path, [f"(deny file-write-unlink (literal {_quoted(path)}))"]
    for path in (*confinement.hidden, *confinement.emptied, *confinement.temporary):
        below = f"(subpath {_quoted(path)})"
        passed = f"(allow file-read-metadata (literal {_quoted(path)}))"
        yield path, [f"(deny file-read* {below})", f"(deny file-write* {below})", passed]


def _network(confinement: Confinement) -> Iterator[str]:
    if confinement.network != "inherit":
        yield "(deny network*)"
        return
    for path in (*confinement.hidden, *confinement.emptied, *confinement.temporary):
        yield f"(deny network-outbound (remote unix-socket (subpath {_quoted(path)})))"
    for path in _SOCKETS_OF_SYSTEM:
        yield f"(allow network-outbound (remote unix-socket (path-literal {_quoted(path)})))"


def _quoted(path: str) -> str:
    if not os.path.isabs(path) or any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise CannotConfine("a folder's name has characters that no sandbox profile can have")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise CannotConfine("a folder's name has characters that no sandbox profile can have") from None
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
