"""Finding skills: the folders that are searched, what lies in each, and what is kept of that between two starts.

A folder's files are read when their signature differs from the one that is kept: sizes, times and inodes. A
start where nothing changed reads no skill and computes no digest. Finding a skill obeys nothing of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from bridle.base.files import first_entries, read_limited, repository_root
from bridle.base.phrases import counted
from bridle.context.skills.skill_index import IndexedFolder, IndexedFolders, signature_of
from bridle.context.skills.skill_records import (
    MAX_BODY_BYTES,
    SKILL_FILE,
    FoundSkills,
    Skill,
    SkillProblem,
    SkillSource,
)

MAX_SKILLS: Final = 2_000
MAX_FILES: Final = 2_000
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_FILES_OF_PLACE: Final = 4_000
MAX_BYTES_OF_PLACE: Final = 64 * 1024 * 1024
"""What is read of all skills of a folder together, where somebody else may have filled it."""
_LEFT_OUT: Final = frozenset({".git"})
"""Not part of a skill, and never read as one."""
_CHUNK: Final = 1024 * 1024


class SkillPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose folders are skills. With `root` a person must agree to each; `inside`: none may lead out of it.

    `shown` is its path as people read it; `bundle` the name of the bundle that it is part of.
    """

    folder: str
    source: SkillSource
    shown: str
    root: str = ""
    inside: bool = False
    bundle: str = ""


def skill_places(
    *, config_folder: str, project: str | None, cwd: str, home: str, listed: Sequence[str]
) -> Iterator[SkillPlace]:
    """The folders that are there, in the order they count: listed ones of the home, the person's own, listed ones of
    the project, and `skills` in `project`, its `.bridle` folder."""
    root = repository_root(cwd)
    absolute = [os.path.join(home, one[2:]) if one.startswith("~/") else one for one in listed]
    for name in absolute:
        folder = name if os.path.isabs(name) else os.path.join(home, name)
        if os.path.isdir(folder):
            yield SkillPlace(folder=folder, source="listed", shown=_short(folder, home), root=home)
    own = os.path.join(config_folder, "skills")
    if os.path.isdir(own):
        yield SkillPlace(folder=own, source="yours", shown=_short(own, home))
    for name in absolute:
        found = None if os.path.isabs(name) else _nearest(name, cwd, root)
        if found is not None and found != os.path.join(home, name):
            yield SkillPlace(
                folder=found, source="project", shown=os.path.relpath(found, cwd), root=root, inside=True
            )
    of_project = os.path.join(project, "skills") if project else ""
    if of_project and os.path.isdir(of_project) and os.path.realpath(of_project) != os.path.realpath(own):
        shown = os.path.relpath(of_project, cwd)
        yield SkillPlace(folder=of_project, source="project", shown=shown, root=root, inside=True)


def _nearest(name: str, cwd: str, root: str) -> str | None:
    folder, above = cwd, os.path.dirname(cwd)
    while True:
        if os.path.isdir(os.path.join(folder, name)):
            return os.path.join(folder, name)
        if folder in (root, above):
            return None
        folder, above = above, os.path.dirname(above)


def _short(path: str, home: str) -> str:
    return f"~/{os.path.relpath(path, home)}" if home and path.startswith(f"{home}/") else path


def find_skills(places: Sequence[SkillPlace], index: Callable[[str], IndexedFolders]) -> FoundSkills:
    """What lies in these places. `index` gives what is kept of one, and keeps what was read anew."""
    skills: list[Skill] = []
    problems: list[SkillProblem] = []
    for place in places:
        kept, within, room = index(place.folder), _within(place), _Room()
        for name, is_link in _names(place, problems):
            try:
                found = _found(place, within, name, is_link, kept, room)
            except _PlaceFull:
                most = f"{MAX_FILES_OF_PLACE:,} files and {MAX_BYTES_OF_PLACE >> 20} MiB"
                problem = f"from {name} on nothing is looked at: its skills together have more than {most}"
                problems.append(SkillProblem(shown=place.shown, line=0, problem=problem))
                break
            if isinstance(found, SkillProblem):
                problems.append(found)
            elif found is not None:
                skills.append(found)
        kept.save()
    return FoundSkills(skills=tuple(skills), problems=tuple(problems))


class _PlaceFull(Exception):
    """A folder holds more than is read of one."""


class _Room:
    """How much more of a place is read."""

    def __init__(self) -> None:
        self._files, self._bytes = MAX_FILES_OF_PLACE, MAX_BYTES_OF_PLACE

    def take(self, files: int, size: int) -> None:
        """Raises `_PlaceFull` where there is no room for so much."""
        self._files -= files
        self._bytes -= size
        if self._files < 0 or self._bytes < 0:
            raise _PlaceFull


class _Within(NamedTuple):
    """What is the same for all folders of a place: where it and its root really are, and its path below that root."""

    folder: str
    root: str
    path: str


def _within(place: SkillPlace) -> _Within:
    path = os.path.relpath(place.folder, place.root) if place.root else ""
    return _Within(os.path.realpath(place.folder), os.path.realpath(place.root) if place.root else "", path)


def _names(place: SkillPlace, problems: list[SkillProblem]) -> list[tuple[str, bool]]:
    """The names in a place, in order, each with whether it is a link."""
    try:
        entries = first_entries(place.folder)
        names = [(one.name, one.is_symlink()) for one in entries if not one.name.startswith(".")]
    except OSError as problem:
        problems.append(SkillProblem(shown=place.shown, line=0, problem=problem.strerror or str(problem)))
        return []
    if len(names) > MAX_SKILLS:
        problem = f"only the first {MAX_SKILLS:,} of its entries are looked at: move some away"
        problems.append(SkillProblem(shown=place.shown, line=0, problem=problem))
    return names[:MAX_SKILLS]


def _found(
    place: SkillPlace, within: _Within, name: str, is_link: bool, kept: IndexedFolders, room: _Room
) -> Skill | SkillProblem | None:
    """The skill in a folder of this name; None where there is no SKILL.md, so that it is something else. Raises
    `_PlaceFull`."""
    real, shown = f"{within.folder}/{name}", f"{place.shown}/{name}"
    if is_link:
        real = os.path.realpath(real)
    indexed = kept.get(name, real)
    if indexed is None and not os.path.lexists(f"{real}/{SKILL_FILE}"):
        return None
    if place.inside and not _is_beneath(real, within.root):
        return SkillProblem(shown=shown, line=0, problem="a link that leads out of the project is not read")
    try:
        if indexed is None:
            indexed = _read(real, name, room if place.root else None)
            kept.put(name, indexed)
        elif indexed.files:
            room.take(len(indexed.files), indexed.size)
    except _Unusable as problem:
        return SkillProblem(shown=os.path.join(shown, problem.file), line=0, problem=str(problem))
    except OSError as problem:
        return SkillProblem(
            shown=os.path.join(shown, SKILL_FILE), line=0, problem=problem.strerror or str(problem)
        )
    if indexed.head is None:
        return SkillProblem(shown=os.path.join(shown, SKILL_FILE), line=indexed.line, problem=indexed.problem)
    head = indexed.head
    if place.bundle:
        head = msgspec.structs.replace(head, name=f"{place.bundle}:{head.name}")
    return Skill(
        head=head,
        source=place.source,
        folder=real,
        shown=shown,
        root=place.root,
        path=f"{within.path}/{name}" if place.root else "",
        digest=indexed.digest,
        files=indexed.files,
        signature=indexed.signature,
    )


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _Unusable(ValueError):
    """Why a folder cannot be a skill, and which of its files is to blame."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(problem)
        self.file = file


def _entries(folder: str) -> tuple[list[str], dict[str, os.stat_result]]:
    """Every folder and every file below a folder, by its path in it. Links are not followed. Raises `_Unusable`."""
    folders, files, waiting = list[str](), dict[str, os.stat_result](), [""]
    while waiting:
        below = waiting.pop()
        folders.append(below)
        for entry in first_entries(f"{folder}/{below}", MAX_FILES + 1 + len(_LEFT_OUT)):
            if entry.name in _LEFT_OUT:
                continue
            name = f"{below}/{entry.name}" if below else entry.name
            if not name.isprintable():
                raise _Unusable("", "a name in it has characters that do not show: rename that file")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                files[name] = entry.stat(follow_symlinks=False)
            if len(files) + len(waiting) > MAX_FILES:
                raise _Unusable("", f"it has more than {MAX_FILES:,} files: keep only what the skill needs")
    return folders, files


def _read(folder: str, name: str, room: _Room | None) -> IndexedFolder:
    """The skill in a folder, read now. With `room` every file of it is read for its digest.

    What it is known by is looked at before it is read: what changes meanwhile is read again the next time.
    """
    from bridle.context.skills.skill_file import BadSkill, read_skill

    whole = room is not None
    folders, there = (
        ([], {SKILL_FILE: os.lstat(f"{folder}/{SKILL_FILE}")}) if room is None else _fitting(folder, room)
    )
    paths = (*folders, *there)
    signature = signature_of(folder, paths)
    files = _digests(folder, there) if whole else {}
    contents = read_limited(os.path.join(folder, SKILL_FILE), MAX_BODY_BYTES)
    if whole and not contents.truncated and _sha256(contents.data) not in files.values():
        raise _Unusable(SKILL_FILE, "it changed while it was read: look again")
    digest = _sha256(reviewed_text(folder, files)) if whole else ""
    found = IndexedFolder(signature=signature, paths=paths, digest=digest, files=files, size=_size(there))
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


def _fitting(folder: str, room: _Room) -> tuple[list[str], dict[str, os.stat_result]]:
    """Every folder and file of a skill for which there is room. Raises `_Unusable`, and `_PlaceFull` before anything
    is read."""
    try:
        folders, there = _entries(folder)
    except _Unusable:
        room.take(MAX_FILES, 0)
        raise
    room.take(len(there), 0)
    _check(folder, there)
    room.take(0, _size(there))
    return folders, there


def _size(there: Mapping[str, os.stat_result]) -> int:
    return sum(status.st_size for status in there.values())


def _check(folder: str, there: Mapping[str, os.stat_result]) -> None:
    """Raises `_Unusable` for what is no file, too much, or leads out of the folder."""
    left = MAX_BYTES
    for name, status in there.items():
        if stat.S_ISLNK(status.st_mode):
            if not _is_beneath(os.path.realpath(os.path.join(folder, name)), folder):
                raise _Unusable(name, "this link leads out of the skill: put the file itself there")
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _Unusable(name, "this is no file: take it away")
        left -= status.st_size
        if left < 0 or status.st_size > MAX_FILE_BYTES:
            most = f"{MAX_BYTES >> 20} MiB in all and {MAX_FILE_BYTES >> 20} MiB in a file"
            raise _Unusable(name, f"a skill has at most {most}: keep only what it needs")


def _digests(folder: str, there: Mapping[str, os.stat_result]) -> dict[str, str]:
    """What stands for each file that was checked."""
    found: dict[str, str] = {}
    for name, status in there.items():
        path = os.path.join(folder, name)
        is_link = stat.S_ISLNK(status.st_mode)
        found[name] = _sha256(b"link " + os.fsencode(os.readlink(path))) if is_link else file_digest(path)
    return found


def _sha256(data: bytes) -> str:
    import hashlib  # a start that reads no skill needs none of it

    return hashlib.sha256(data).hexdigest()


def file_digest(path: str) -> str:
    """What stands for the content of a file."""
    import hashlib

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
