"""What is in the folder of a skill, read now: its files and their digests, within bounds, and all of it as one text."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import Final, NamedTuple

from bridle.base.fs.files import first_entries, read_limited
from bridle.base.fs.paths import is_beneath
from bridle.base.text.phrases import counted
from bridle.context.skills.skill_file import BadSkill, read_skill
from bridle.context.skills.skill_records import MAX_BODY_BYTES, SKILL_FILE, Skill, SkillHead

MAX_FILES: Final = 2_000
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_FILES_OF_PLACE: Final = 4_000
MAX_BYTES_OF_PLACE: Final = 64 * 1024 * 1024
"""What is read of all skills of a folder together, where others may have filled it."""
_LEFT_OUT: Final = frozenset({".git"})
"""Not part of a skill, and never read as one."""
_CHUNK: Final = 1024 * 1024


class UnusableSkill(ValueError):
    """Why a folder cannot be a skill, and which of its files is to blame; `line` counts from 1, 0 stands for none."""

    def __init__(self, file: str, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.file = file
        self.line = line


class PlaceFull(Exception):
    """A folder holds more than is read of one."""


class Room:
    """How much more of a place is read."""

    def __init__(self) -> None:
        self._files, self._bytes = MAX_FILES_OF_PLACE, MAX_BYTES_OF_PLACE

    def take(self, files: int, size: int) -> None:
        """Raises `PlaceFull` where there is no room for so much."""
        self._files -= files
        self._bytes -= size
        if self._files < 0 or self._bytes < 0:
            raise PlaceFull


class ReadSkill(NamedTuple):
    """A skill as its folder has it: the digest of its SKILL.md, and where all is read, of each file and of all."""

    head: SkillHead
    text_digest: str
    digest: str
    files: dict[str, str]


def _entries(folder: str) -> dict[str, os.stat_result]:
    """Every file below a folder, by its path in it. Links are not followed. Raises `UnusableSkill`."""
    files, waiting = dict[str, os.stat_result](), [""]
    while waiting:
        below = waiting.pop()
        for entry in first_entries(f"{folder}/{below}", MAX_FILES + 1 + len(_LEFT_OUT)):
            if entry.name in _LEFT_OUT:
                continue
            name = f"{below}/{entry.name}" if below else entry.name
            if not name.isprintable():
                raise UnusableSkill("", "a name in it has characters that do not show: rename that file")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                files[name] = entry.stat(follow_symlinks=False)
            if len(files) + len(waiting) > MAX_FILES:
                raise UnusableSkill(
                    "", f"it has more than {MAX_FILES:,} files: keep only what the skill needs"
                )
    return files


def read_folder(folder: str, name: str, room: Room | None) -> ReadSkill:
    """The skill in a folder. With `room` every file of it is read for its digest. Raises `UnusableSkill`, `PlaceFull`
    and OSError."""
    files = {} if room is None else _digests(folder, _fitting(folder, room))
    contents = read_limited(os.path.join(folder, SKILL_FILE), MAX_BODY_BYTES)
    if contents.truncated:
        problem = f"it has more than {MAX_BODY_BYTES:,} bytes: move parts of it into references/"
        raise UnusableSkill(SKILL_FILE, problem)
    text_digest = _sha256(contents.data)
    if room is not None and text_digest not in files.values():
        raise UnusableSkill(SKILL_FILE, "it changed while it was read: look again")
    if b"\0" in contents.data:  # a person would be shown nothing of it
        raise UnusableSkill(SKILL_FILE, "it is no text: take the NUL bytes out of it")
    try:
        head = read_skill(contents.data.decode(), folder=name).head
    except UnicodeDecodeError as problem:
        line = contents.data.count(b"\n", 0, problem.start) + 1
        raise UnusableSkill(SKILL_FILE, "it is not UTF-8 text: save it as that", line) from None
    except BadSkill as bad:
        raise UnusableSkill(SKILL_FILE, str(bad), bad.line) from None
    digest = _sha256(reviewed_text(folder, files)) if room is not None else ""
    return ReadSkill(head, text_digest, digest, files)


def _fitting(folder: str, room: Room) -> dict[str, os.stat_result]:
    """Every file of a skill for which there is room. Raises `UnusableSkill`, and `PlaceFull` before
    anything is read."""
    try:
        there = _entries(folder)
    except UnusableSkill:
        room.take(MAX_FILES, 0)
        raise
    room.take(len(there), 0)
    _check(folder, there)
    room.take(0, sum(status.st_size for status in there.values()))
    return there


def _check(folder: str, there: Mapping[str, os.stat_result]) -> None:
    """Raises `UnusableSkill` for what is no file, too much, or leads out of the folder."""
    left = MAX_BYTES
    for name, status in there.items():
        if stat.S_ISLNK(status.st_mode):
            if not is_beneath(os.path.realpath(os.path.join(folder, name)), folder):
                raise UnusableSkill(name, "this link leads out of the skill: put the file itself there")
            continue
        if not stat.S_ISREG(status.st_mode):
            raise UnusableSkill(name, "this is no file: take it away")
        left -= status.st_size
        if left < 0 or status.st_size > MAX_FILE_BYTES:
            most = f"{MAX_BYTES >> 20} MiB in all and {MAX_FILE_BYTES >> 20} MiB in a file"
            raise UnusableSkill(name, f"a skill has at most {most}: keep only what it needs")


def _digests(folder: str, there: Mapping[str, os.stat_result]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, status in there.items():
        path = os.path.join(folder, name)
        is_link = stat.S_ISLNK(status.st_mode)
        found[name] = _sha256(b"link " + os.fsencode(os.readlink(path))) if is_link else file_digest(path)
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str) -> str:
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()


MAX_SHOWN_BYTES: Final = 256 * 1024
_MOST_OF_A_FILE: Final = 64 * 1024


def reviewed_text(folder: str, files: dict[str, str]) -> bytes:
    """All of a skill as one text: a list of its files with their digests, then those that are text, SKILL.md first.

    The same files give the same bytes, and others give others: every name and digest stands in the list, whose length
    its first line tells. What is no text, or too long, is told by its digest alone.
    """
    names = sorted(files, key=lambda name: (name != SKILL_FILE, name))
    parts = [f"{counted(len(names), 'file')}, by sha256:".encode()]
    parts += [f"{files[name]}  ".encode() + _plain(name) for name in names]
    left = MAX_SHOWN_BYTES
    for name in names:
        try:
            contents = read_limited(os.path.join(folder, name), _MOST_OF_A_FILE)
        except OSError:
            continue
        data = contents.data
        if contents.truncated or b"\0" in data or len(data) > left:
            parts += [b"", b"== " + _plain(name), b"(not shown: no text, or too long)"]
            continue
        left -= len(data)
        parts += [b"", b"== " + _plain(name), data]
    return b"\n".join(parts)


def _plain(name: str) -> bytes:
    return name.encode("unicode_escape")


def is_as_read(skill: Skill) -> bool:
    """Whether the files of a skill that a person agreed to are still those."""
    if not skill.digest:
        return True
    try:
        there = _entries(skill.folder)
        _check(skill.folder, there)
        return _digests(skill.folder, there) == skill.files
    except (OSError, ValueError):
        return False
