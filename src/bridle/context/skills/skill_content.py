"""What is in the folder of a skill, read now: its files and their digests, within bounds, and all of it as one text.

Loaded where a folder changed, or a skill is used: a start where nothing changed needs none of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import Final

import msgspec

from bridle.base.files import first_entries, read_limited
from bridle.base.paths import is_beneath
from bridle.base.phrases import counted
from bridle.context.skills.skill_file import BadSkill, read_skill
from bridle.context.skills.skill_index import IndexedFolder, Room, signature_of
from bridle.context.skills.skill_records import MAX_BODY_BYTES, SKILL_FILE, Skill

MAX_FILES: Final = 2_000
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
_LEFT_OUT: Final = frozenset({".git"})
"""Not part of a skill, and never read as one."""
_CHUNK: Final = 1024 * 1024


class UnusableSkill(ValueError):
    """Why a folder cannot be a skill, and which of its files is to blame."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(problem)
        self.file = file


def _entries(folder: str) -> tuple[list[str], dict[str, os.stat_result]]:
    """Every folder and every file below a folder, by its path in it. Links are not followed. Raises `UnusableSkill`."""
    folders, files, waiting = list[str](), dict[str, os.stat_result](), [""]
    while waiting:
        below = waiting.pop()
        folders.append(below)
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
    return folders, files


def read_folder(folder: str, name: str, room: Room | None) -> IndexedFolder:
    """The skill in a folder, read now. With `room` every file of it is read for its digest.

    What it is known by is looked at before it is read: what changes meanwhile is read again the next time.
    """
    whole = room is not None
    folders, there = (
        ([], {SKILL_FILE: os.lstat(f"{folder}/{SKILL_FILE}")}) if room is None else _fitting(folder, room)
    )
    paths = (*folders, *there)
    signature = signature_of(folder, paths)
    files = _digests(folder, there) if whole else {}
    contents = read_limited(os.path.join(folder, SKILL_FILE), MAX_BODY_BYTES)
    if whole and not contents.truncated and _sha256(contents.data) not in files.values():
        raise UnusableSkill(SKILL_FILE, "it changed while it was read: look again")
    digest = _sha256(reviewed_text(folder, files)) if whole else ""
    found = IndexedFolder(
        signature=signature,
        paths=paths,
        digest=digest,
        files=msgspec.Raw(msgspec.msgpack.encode(files)),
        count=len(files),
        size=_size(there),
    )
    if contents.truncated:
        problem = f"it has more than {MAX_BODY_BYTES:,} bytes: move parts of it into references/"
        return msgspec.structs.replace(found, problem=problem)
    if b"\0" in contents.data:  # a person would be shown nothing of it
        return msgspec.structs.replace(found, problem="it is no text: take the NUL bytes out of it")
    try:
        text = contents.data.decode()
    except UnicodeDecodeError as problem:
        line = contents.data.count(b"\n", 0, problem.start) + 1
        return msgspec.structs.replace(found, line=line, problem="it is not UTF-8 text: save it as that")
    try:
        return msgspec.structs.replace(found, head=read_skill(text, folder=name).head)
    except BadSkill as bad:
        return msgspec.structs.replace(found, line=bad.line, problem=str(bad))


def _fitting(folder: str, room: Room) -> tuple[list[str], dict[str, os.stat_result]]:
    """Every folder and file of a skill for which there is room. Raises `UnusableSkill`, and `PlaceFull` before
    anything is read."""
    try:
        folders, there = _entries(folder)
    except UnusableSkill:
        room.take(MAX_FILES, 0)
        raise
    room.take(len(there), 0)
    _check(folder, there)
    room.take(0, _size(there))
    return folders, there


def _size(there: Mapping[str, os.stat_result]) -> int:
    return sum(status.st_size for status in there.values())


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
    """What stands for each file that was checked."""
    found: dict[str, str] = {}
    for name, status in there.items():
        path = os.path.join(folder, name)
        is_link = stat.S_ISLNK(status.st_mode)
        found[name] = _sha256(b"link " + os.fsencode(os.readlink(path))) if is_link else file_digest(path)
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str) -> str:
    """What stands for the content of a file."""
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
        there = _entries(skill.folder)[1]
        _check(skill.folder, there)
        return _digests(skill.folder, there) == skill.files
    except (OSError, ValueError):
        return False
