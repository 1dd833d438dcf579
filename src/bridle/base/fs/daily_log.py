"""An operational log in JSON lines, one file per day.

Nobody waits for it and nothing fails because of it: a line that cannot be written is dropped. Several processes write
to the same file, each line with one call. Text is redacted and cut; contents do not belong here.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, get_args

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.base.fs import files
from bridle.base.secrets.redact import redact

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[str, ...] = (*get_args(LogLevel), "off")
MOST_BYTES = 4 << 20
"""When a file has so many, the day goes on in another."""
MOST_FILES = 20
DAYS_KEPT = 14
_DAY_MS = 24 * 3600 * 1000
_TEXT_CHARACTERS = 500
_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Levels(msgspec.Struct, frozen=True):
    """From which level on a component's lines are written: the longest name that fits decides."""

    usual: str = "info"
    of_components: tuple[tuple[str, str], ...] = ()

    def writes(self, level: LogLevel, component: str) -> bool:
        fitting = [
            (name, least)
            for name, least in self.of_components
            if component == name or component.startswith(f"{name}.")
        ]
        least = max(fitting, key=lambda found: len(found[0]))[1] if fitting else self.usual
        return LEVELS.index(level) >= LEVELS.index(least)


def parse_levels(text: str, components: Iterable[str]) -> Levels:
    """`debug`, `engine=debug,provider.*=off`, or both kinds. Raises ValueError with the end of a sentence."""
    known = frozenset(components)
    usual, found = "info", dict[str, str]()
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, given, level = (word.strip() for word in part.rpartition("="))
        name, level = name.removesuffix(".*"), "warning" if level == "warn" else level
        if level not in LEVELS:
            raise ValueError(f'"{level}" is no level. There are {", ".join(LEVELS)}')
        if not given:
            usual = level
        elif name.partition(".")[0] not in known:
            raise ValueError(f'there is no component "{name}". There are {", ".join(sorted(known))}')
        else:
            found[name] = level
    return Levels(usual, tuple(found.items()))


class DailyLog:
    """Writes to `folder`/NAME-YYYYMMDD.log, from any thread.

    `secrets` are values that never appear; `echo` gets every line too. A file with `most_bytes` gives way to another;
    of more than `most_files` the oldest go.
    """

    def __init__(
        self,
        folder: str,
        name: str,
        *,
        clock: Clock,
        levels: Levels,
        secrets: Callable[[], Iterable[str]] = tuple,
        echo: Callable[[str], None] | None = None,
        most_bytes: int = MOST_BYTES,
        most_files: int = MOST_FILES,
    ) -> None:
        self._folder = folder
        self._name = name
        self._clock = clock
        self._levels = levels
        self._secrets = secrets
        self._echo = echo
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._fd = -1
        self._path = ""
        self._one_at_a_time = threading.Lock()

    def write(self, level: LogLevel, component: str, msg: str, **fields: str | float | bool | None) -> None:
        """One line, if lines of this level and component are wanted."""
        if not self._levels.writes(level, component):
            return
        now_ms = self._clock.now_ms()
        about = {name: self._clean(value) for name, value in fields.items() if value is not None}
        entry = {
            "ts": iso_ms(now_ms),
            "level": level,
            "component": self._clean(component),
            "msg": self._clean(msg),
            **about,
        }
        line = msgspec.json.encode(entry) + b"\n"
        if self._echo is not None:
            self._echo(line.decode().rstrip())
        with self._one_at_a_time, contextlib.suppress(OSError):
            self._open(now_ms, len(line))
            os.write(self._fd, line)

    def close(self) -> None:
        with self._one_at_a_time:
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _clean(self, value: str | float | bool) -> str | float | bool:
        if not isinstance(value, str):
            return value
        for secret in self._secrets():
            value = value.replace(secret, "«redacted:key»")
        value = redact(value).encode("utf-8", "backslashreplace").decode()
        return value if len(value) <= _TEXT_CHARACTERS else value[: _TEXT_CHARACTERS - 1] + "…"

    def _open(self, now_ms: int, more_bytes: int) -> None:
        """The file of the day is open and has room, or the next one is."""
        path = os.path.join(self._folder, f"{self._name}-{iso_ms(now_ms)[:10].replace('-', '')}.log")
        while not (path == self._path and self._is_current() and self._has_room(more_bytes)):
            if path == self._path and self._is_current():
                self._put_away(path)
            self._close()
            files.private_folder(self._folder)
            begins = not os.path.lexists(path)
            self._fd, self._path = os.open(path, _OPEN, 0o600), path
            if begins:
                self._remove_old(now_ms)

    def _has_room(self, more_bytes: int) -> bool:
        size = os.fstat(self._fd).st_size
        return size == 0 or size + more_bytes <= self._most_bytes

    def _is_current(self) -> bool:
        """Whether what is open is what has the name: somebody else may have put it away."""
        try:
            return self._fd >= 0 and os.path.samestat(os.fstat(self._fd), os.lstat(self._path))
        except OSError:
            return False

    def _put_away(self, path: str) -> None:
        """Gives a full file the next number."""
        stem = path.removesuffix(".log")
        number = 1
        while os.path.lexists(f"{stem}.{number}.log"):
            number += 1
        os.rename(path, f"{stem}.{number}.log")

    def _remove_old(self, now_ms: int) -> None:
        oldest = f"{self._name}-{iso_ms(now_ms - DAYS_KEPT * _DAY_MS)[:10].replace('-', '')}"
        ours = [
            name
            for name in os.listdir(self._folder)
            if name.startswith(f"{self._name}-") and name.endswith(".log")
        ]
        ours.sort(key=_age)
        spare = len(ours) - self._most_files
        for at, name in enumerate(ours):
            if name < oldest or at < spare:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._folder, name))


def _age(name: str) -> tuple[str, float]:
    """By day, then by number; the file without one is the last of its day."""
    day, _, number = name.removesuffix(".log").partition(".")
    return day, int(number) if number.isdecimal() else float("inf")
