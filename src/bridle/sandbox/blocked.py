"""What the sandbox had to do with a failed command, read from the end of what it printed.

A command only sees that the system said no. Whether that was the sandbox follows from where the path leads: an
ordinary "Permission denied" on an ordinary file is not our doing, and is not explained.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from bridle.base.text.terminal_text import visible
from bridle.sandbox.confinement import Confinement

_TAIL = 8_192
_NEAR = 6
"""How many lines before and after an error may name what it is about."""
_LAST_LINES = 5
_MOST_SHOWN = 160
_MOST_HOST = 80
_MOST_PATH = 4_096

_UNCONFINED = frozenset({"", "off", "env-only"})
_BY_MOUNTS = frozenset({"bubblewrap", "unshare"})
"""They make folders read-only; the others refuse the access, which looks like ordinary permissions."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  compared, never opened
_SHELL_CANNOT_EXECUTE = 126

_Error: TypeAlias = Literal["read-only", "refused", "busy", "missing", "failed", "folder"]
_Standing: TypeAlias = Literal["free", "temporary", "outside", "protected", "hidden", "emptied"]

_ERRORS: tuple[tuple[_Error, str], ...] = (
    ("read-only", r"read-only file system|\bEROFS\b|\[Errno 30\]|\(os error 30\)"),
    ("busy", r"device or resource busy|\bEBUSY\b|\[Errno 16\]|\(os error 16\)"),
    (
        "refused",
        r"permission denied|operation not permitted|\bEACCES\b|\bEPERM\b|\[Errno 13?\]|\(os error 13?\)",
    ),
    (
        "missing",
        r"no such file or directory|\bENOENT\b|\[Errno 2\]|\(os error 2\)|is the docker daemon running",
    ),
    ("folder", r"is a directory|\bEISDIR\b|\[Errno 21\]|\(os error 21\)|file exists|\bEEXIST\b"),
    ("failed", r"unable to open database|invalid cross-device link|\bEXDEV\b|\[Errno 18\]"),
)
_READS = (
    r"^(?:cat|head|tail|less|more|ls|dir|e?grep|rg|ag|find|fd|wc|diff|cmp|file|stat|du|sort|uniq|cut|xxd|od|hexdump"
    r"|strings|md5sum|sha\d+sum|cksum|readlink|tree|bat|jq|tac|nl|source): "
    r"|for reading|cannot open directory|cannot access|cannot stat|can't read|could not read"
    r"|\b(?:scandir|readdir|lstat) '"
)
_MAKES_FOLDER = r"\bmkdir\b"
_REPLACES = r"\b(?:rename|renaming|replace|move)\b"
_QUOTED = r"""\u2018([^\u2019]+)\u2019|\u201c([^\u201d]+)\u201d|'([^']+)'|"([^"]+)"|`([^`']+)[`']"""
_ABSOLUTE = r"(?<![\w.~/-])(?:unix://)?(/[^\s'\"`\u2018\u2019\u201c\u201d:;,()<>\[\]]+)"
_ERROR_NAME = r"E[A-Z0-9]+"
_NAMES_SUBJECT = (
    r"^(?:npm \S+ )?\s*(?:path|dest)\b|cannot create|could not create|failed to (?:create|open|write|remove)"
)
_DASH_CREATES = "cannot create "
"""What dash says before the name of a file, as in `it.sh: 1: cannot create AGENTS.md: Is a directory`."""
_ESCAPES = r"\x1b\[[0-9;?]*[ -/]*[@-~]"

_HOST = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:]+\]?)"
_UNREACHED = (
    r"could not resolve|couldn't resolve|could not translate host|temporary failure in name resolution"
    r"|name or service not known|failed to lookup address|nodename nor servname|no such host"
    r"|\bEAI_AGAIN\b|\bENOTFOUND\b|UnknownHostException|network is unreachable|\bENETUNREACH\b|\[Errno 101\]"
    r"|no route to host|failed to connect to|couldn't connect to server|connection refused|\bECONNREFUSED\b"
    r"|\bconnect (?:EACCES|EPERM)\b|failed to establish a new connection"
)
_SOCKET_REFUSED = r"\bsocket\b|\bsocket\.py\b|\bconnect\b|getaddrinfo|\burlopen\b"
_NAMED_HOST = (
    rf"could(?: not|n't) resolve (?:host|proxy|hostname)(?: name)?:? [\"']?{_HOST}",
    rf"translate host name \"{_HOST}\"",
    rf"(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|ECONNREFUSED|EACCES|EPERM) {_HOST}",
    rf"(?:failed to connect to|connection to server at) \"?{_HOST}",
    rf"dial (?:tcp|udp):? (?:lookup )?{_HOST}",
    rf"UnknownHostException: {_HOST}",
    rf"/dev/(?:tcp|udp)/{_HOST}/",
    rf"[a-z]+://(?:[^\s/@]*@)?{_HOST}",
    rf"host(?:name)?[=:] ?[\"']{_HOST}",
    rf"address: '{_HOST}'",
    rf": {_HOST}: (?:temporary failure|name or service)",
)
_ABILITIES: tuple[tuple[str, str], ...] = (
    (r"\"no new privileges\" flag", "becoming another user"),
    (
        r"ptrace\b.*operation not permitted|PTRACE_\w+.*operation not permitted|could not trace the inferior",
        "tracing other programs",
    ),
    (
        r"unshare failed|new namespace failed|no permissions to create (?:a )?new namespace|no usable sandbox",
        "making a sandbox of its own",
    ),
)

_ESCALATE = 'If it is needed, retry with escalate: "why"'


def explain_blocked(
    *,
    adapter: str,
    exit_code: int,
    output: str,
    confinement: Confinement,
    cwd: str,
    resolve: Callable[[str], str] = os.path.realpath,
) -> str | None:
    """One line for the model, in brackets: what was blocked and how it can be had. None: the sandbox is not the cause.

    `output` is the end of what the command printed; it is data of a stranger, and nothing of it is repeated but a path
    or a host, written out safely. Of a command that succeeded only plain evidence at the very end counts: in a pipeline
    the failure of one part is often lost. `resolve` follows links, without reading any file.
    """
    if adapter in _UNCONFINED:
        return None
    scene = _Scene(adapter, exit_code, confinement, resolve(cwd), resolve)
    lines = _pattern(_ESCAPES).sub("", output[-_TAIL:]).splitlines()
    first = max(len(lines) - _LAST_LINES, 0) if exit_code == 0 else 0
    for index in reversed(range(first, len(lines))):
        near = [*lines[index + 1 : index + 1 + _NEAR], *reversed(lines[max(index - _NEAR, 0) : index])]
        told = _of_line(lines[index], near, scene)
        if told is not None:
            return f"[sandbox: {told}]"
    return None


class _Scene(NamedTuple):
    adapter: str
    exit_code: int
    confinement: Confinement
    cwd: str
    resolve: Callable[[str], str]


class _Match(NamedTuple):
    error: _Error
    start: int
    end: int


def _of_line(line: str, near: list[str], scene: _Scene) -> str | None:
    found = _error_in(line)
    if found is not None:
        told = _of_path(found, line, near, scene)
        if told is not None:
            return told
    if scene.exit_code == 0:
        return None
    if scene.confinement.network != "inherit" and _is_unreached(found, line, near):
        return _unreached(_host_in([line, *near]), _WHY_UNREACHED[scene.confinement.network])
    for pattern, ability in _ABILITIES:
        if _pattern(pattern).search(line):
            return f"{ability} is not possible for commands here. {_ESCALATE}"
    return None


def _error_in(line: str) -> _Match | None:
    for error, pattern in _ERRORS:
        if match := _pattern(pattern).search(line):
            return _Match(error, match.start(), match.end())
    return None


# Paths


def _of_path(found: _Match, line: str, near: list[str], scene: _Scene) -> str | None:
    candidates = list(_candidates(line, found))
    if not candidates:
        subjects = [other for other in near if _pattern(_NAMES_SUBJECT).search(other)]
        candidates = [path for other in subjects for path in _candidates(other, None)]
    for named in candidates:
        path = _resolved(named, scene)
        told = path and _explained(found.error, path, line, scene)
        if told:
            return told
    elsewhere = all(not os.path.isabs(named) for named in candidates)
    if found.error == "read-only" and elsewhere and scene.exit_code != 0:
        return _outside("a file", scene)  # the command had gone to another folder, or did not say which file
    if found.error == "busy" and _pattern(_REPLACES).search(line) and scene.adapter in _BY_MOUNTS:
        return _protected("a file")
    return None


def _candidates(line: str, found: _Match | None) -> Iterator[str]:
    """What may be the path that a line is about, likeliest first: after the error, then nearest before it."""
    places = [(match.start(), _only_group(match)) for match in _pattern(_QUOTED).finditer(line)]
    bare = _pattern(_QUOTED).sub(lambda match: " " * len(match[0]), line)
    places += [(match.start(), match[1]) for match in _pattern(_ABSOLUTE).finditer(bare)]
    if found is not None:
        places += _segments(line[: found.start])
    places.sort(reverse=True)
    split = found.end if found is not None else 0
    ordered = [path for at, path in places if at >= split] + [path for at, path in places if at < split]
    for path in ordered:
        trimmed = path.rstrip(".")
        if trimmed and len(trimmed) <= _MOST_PATH and not re.fullmatch(_ERROR_NAME, trimmed):
            yield trimmed


def _only_group(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _segments(before: str) -> Iterator[tuple[int, str]]:
    """The parts of `program: file: Error` that may be a file; the first part is the program."""
    at = 0
    for index, part in enumerate(before.split(": ")):
        named = part.strip().removeprefix(_DASH_CREATES)
        word = named.rpartition(" ")[2].strip("'\"`\u2018\u2019")
        is_whole = word == named
        if index and word and (is_whole or "/" in word or word.startswith(".")):
            yield at, word
        at += len(part) + 2


def _resolved(named: str, scene: _Scene) -> str | None:
    try:
        return scene.resolve(os.path.join(scene.cwd, named))
    except (OSError, ValueError):  # too long, or no name a file can have
        return None


def _explained(error: _Error, path: str, line: str, scene: _Scene) -> str | None:
    standing, shown = _standing(path, scene.confinement), _shown_path(path, scene.cwd)
    match error, standing:
        case ("refused" | "missing" | "read-only", "hidden"):
            return f"{shown} is hidden from commands: it may hold secrets. {_ESCALATE}"
        case (_, "emptied"):
            return f"{shown} cannot be reached: the sockets of other programs are hidden from commands. {_ESCALATE}"
        case ("read-only", "protected"):
            return _protected(shown)
        case ("folder", "protected") if path in scene.confinement.absent:
            return _protected(shown)  # a mask stands there
        case ("refused", "protected") if not _pattern(_READS).search(line):
            return _protected(shown)
        case ("busy", _) if _must_stay(path, scene.confinement):
            return _protected(shown)
        case ("read-only", "outside" | "temporary") | ("failed", "outside"):
            return _outside(shown, scene)
        case ("refused", "temporary") if _is_refused_write(line, scene):
            return f"writing {shown} was blocked: the temporary folder of commands is $TMPDIR. Write there instead"
        case ("missing", "outside") if _pattern(_MAKES_FOLDER).search(line):
            return _outside(shown, scene)  # node says so when a folder cannot be made
        case ("refused", "outside") if _is_refused_write(line, scene):
            return _outside(shown, scene)
        case _:
            return None


def _is_refused_write(line: str, scene: _Scene) -> bool:
    """Whether an access that was refused outside may have been a write that the sandbox refused."""
    if scene.adapter in _BY_MOUNTS or scene.exit_code in (0, _SHELL_CANNOT_EXECUTE):
        return False
    return not _pattern(_READS).search(line)


def _standing(path: str, confinement: Confinement) -> _Standing:
    """What the deepest entry above a path says; of two for the same path, the stricter."""
    scratch = (confinement.scratch,) if confinement.scratch else ()
    kinds: tuple[tuple[_Standing, Iterable[str]], ...] = (
        ("temporary", confinement.temporary),
        ("free", (_SHARED_MEMORY, *scratch, *confinement.writable, *confinement.held)),
        ("outside", confinement.shown),
        ("emptied", confinement.emptied),
        ("hidden", confinement.hidden),
        ("protected", (*confinement.read_only, *confinement.absent)),
    )
    standing: _Standing = "outside"
    depth = 0
    for kind, folders in kinds:
        for folder in folders:
            if _is_beneath(path, folder) and len(folder) >= depth:
                standing, depth = kind, len(folder)
    return standing


def _must_stay(path: str, confinement: Confinement) -> bool:
    """Whether moving or removing a path would move something that has to keep its place."""
    return any(
        _is_beneath(fixed, path)
        for fixed in (*confinement.read_only, *confinement.absent, *confinement.held, *confinement.hidden)
    )


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# The network


def _is_unreached(found: _Match | None, line: str, near: list[str]) -> bool:
    if _pattern(_UNREACHED).search(line):
        return True
    if found is None or found.error != "refused":
        return False
    return any(_pattern(_SOCKET_REFUSED).search(text) for text in (line, *near))


def _host_in(lines: list[str]) -> str:
    for line in lines:
        for pattern in _NAMED_HOST:
            if (match := _pattern(pattern).search(line)) and len(match[1]) <= _MOST_HOST:
                return match[1]
    return ""


def _unreached(host: str, why: str) -> str:
    if host in {"localhost", "::1", "[::1]"} or host.startswith("127."):
        return f"{host} of this machine cannot be reached: {why}"
    return f"reaching {host or 'the network'} was blocked: {why}"


_OTHERWISE = f'{_ESCALATE}; the person may also set sandbox.network = "inherit"'
_WHY_UNREACHED = {
    "deny": f"commands have no network here. {_OTHERWISE}",
    "filtered": (
        "commands have a network of their own, and the only way out is HTTP through the proxy that $HTTPS_PROXY names. "
        f"{_OTHERWISE}"
    ),
}


# Words


def _outside(shown: str, scene: _Scene) -> str:
    if _standing(scene.cwd, scene.confinement) != "free":
        return f"writing {shown} was blocked: commands may only read here. {_ESCALATE}"
    return (
        f"writing {shown} was blocked: outside the workspace. {_ESCALATE}; "
        "the person may also allow the folder with sandbox.writable"
    )


def _protected(shown: str) -> str:
    instead = "Use write_file or edit_file, which ask the person"
    if shown == ".git/config":
        instead = "Plain settings, such as git remote add, work as a command of their own"
    return (
        f"changing {shown} was blocked: commands cannot change policy files. "
        f'{instead}; or retry with escalate: "why"'
    )


def _shown_path(path: str, cwd: str) -> str:
    """The path as one word that cannot be taken for anything else."""
    shown = path.removeprefix(cwd + "/") if cwd != "/" else path
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[: _MOST_SHOWN // 2]}…{shown[-_MOST_SHOWN // 2 :]}"
    shown = visible(shown, newlines=False)
    plain = re.fullmatch(r"[\w./@+~=,:%…-]+", shown)
    return shown if plain else json.dumps(shown, ensure_ascii=False)


@functools.cache
def _pattern(expression: str) -> re.Pattern[str]:
    """Compiled when first needed: most commands fail for reasons of their own, or not at all."""
    return re.compile(expression, re.IGNORECASE)
