"""The memories of a person and of a project on disk: one file each, `MEMORY.md`, and what is known of them.

They lie in the data folder, never in the workspace. Files may be edited by hand: one that cannot be read is named and
left as it is. Only files that changed are read again. Blocks.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from bridle.base.fs.files import (
    MEMORIES,
    FileLock,
    private_folder,
    read_limited,
    repository_root,
    write_atomic,
)
from bridle.context.memory.memory_choice import (
    ENDING,
    INDEX,
    MAX_ENTRY_BYTES,
    MemoryIndex,
    MemoryRow,
    MemoryScope,
)
from bridle.context.memory.memory_entry import MAX_FILE_BYTES, BadMemory, Memory, is_name, read_memory
from bridle.protocol.errors import BridleError


def read_file(path: str, name: str, scope: MemoryScope) -> tuple[Memory, str]:
    """A memory and the digest of its file. Raises `BadMemory`, `OSError`."""
    if not is_name(name):
        raise BadMemory("its name is not small letters, digits and single hyphens")
    data, changed_s = content_of(path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadMemory("it is not UTF-8 text") from None
    return read_memory(name, text, scope=scope, changed=today(int(changed_s * 1000))), digest_of(data)


def row_of(folder: str, file: str, scope: MemoryScope) -> MemoryRow:
    """What is known of a file, read now."""
    name = file.removesuffix(ENDING)
    try:
        memory, digest = read_file(os.path.join(folder, file), name, scope)
    except BadMemory as bad:
        return MemoryRow(scope, _storable(name), problem=str(bad))
    except OSError as failure:
        return MemoryRow(scope, _storable(name), problem=failure.strerror or "it cannot be read")
    text = memory.text.encode()
    return MemoryRow(
        scope,
        name,
        digest,
        description=memory.description,
        type=memory.type,
        updated=memory.updated,
        tags=memory.tags,
        size=len(text),
        text=text[:MAX_ENTRY_BYTES].decode(errors="ignore"),
    )


def keep_index(folder: str, about: str, rows: Iterable[MemoryRow]) -> None:
    """Writes `MEMORY.md`. Where that does not work, it is made again another time."""
    with contextlib.suppress(OSError):
        path, text = os.path.join(folder, INDEX), _index_text(about, rows).encode()
        if os.path.isdir(folder) and _present(path) != text:
            write_atomic(path, text, durable=False)


def today(now_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(now_ms / 1000))


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _storable(name: str) -> str:
    """A file may have any bytes as its name."""
    return os.fsencode(name).decode("utf-8", "replace")


def content_of(path: str) -> tuple[bytes, float]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise BadMemory("it is no regular file")
        contents = read_limited(fd, MAX_FILE_BYTES)
    finally:
        os.close(fd)
    if contents.truncated:
        raise BadMemory(f"it is longer than {MAX_FILE_BYTES // 1024} KiB")
    return contents.data, status.st_mtime


def _present(path: str) -> bytes | None:
    try:
        return read_limited(path, MAX_FILE_BYTES * 16).data
    except OSError:
        return None


def _index_text(about: str, rows: Iterable[MemoryRow]) -> str:
    """`MEMORY.md`: a line for each memory, and the files that could not be read."""
    lines = [
        f"# Memories of {_storable(about)}",
        "",
        "Written by Bridle from the files beside it; edit those.",
        "",
    ]
    for row in rows:
        if row.problem:
            lines.append(f"- {row.name}{ENDING}: not used, {row.problem}")
        else:
            tags = f", {', '.join(row.tags)}" if row.tags else ""
            lines.append(f"- [{row.name}]({row.name}{ENDING}): {row.description} ({row.type}{tags})")
    return "\n".join(lines) + "\n"


PROJECTS = "projects"
MAX_MEMORIES = 2_000
"""Of one scope. Whoever has more wants another tool."""


class MemoryFolder:
    """The memories of one scope. `about` says whose they are, in the words of `MEMORY.md`. Writers hold the file
    `lock`."""

    def __init__(self, path: str, *, scope: MemoryScope, lock: str, about: str) -> None:
        self.path = path
        self.scope: MemoryScope = scope
        self.lock = lock
        self.about = about
        self._index = MemoryIndex(())
        self._signatures: dict[str, int] = {}

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def file(self, name: str) -> str:
        """The file of a memory. Raises `BadMemory` for what is no name."""
        if not is_name(name):
            raise BadMemory(f'"{name}" is no name of a memory: small letters, digits and single hyphens')
        return os.path.join(self.path, name + ENDING)

    def index(self) -> MemoryIndex:
        """Return the memories by name, those that cannot be read too."""
        signatures = self._listed()
        if signatures != self._signatures:
            old = {row.name + ENDING: row for row in self._index.rows}
            rows = [
                old[file]
                if file in old and self._signatures.get(file) == signature
                else row_of(self.path, file, self.scope)
                for file, signature in sorted(signatures.items())
            ]
            self._index, self._signatures = MemoryIndex(rows), signatures
            keep_index(self.path, self.about, rows)
        return self._index

    def rows(self) -> tuple[MemoryRow, ...]:
        """All of them by name, those that cannot be read too."""
        return self.index().rows

    def read(self, name: str) -> tuple[Memory, str]:
        """A memory and the digest of its file. Raises `BadMemory`, `OSError`."""
        return read_file(self.file(name), name, self.scope)

    def _listed(self) -> dict[str, int]:
        """The files, each with what tells a change of it. Where the index is missing, nothing is as it was."""
        found: dict[str, int] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    file = entry.name
                    if not file.endswith(ENDING) or file.startswith("."):
                        continue
                    try:
                        status = entry.stat()
                    except OSError:
                        found[file] = 0
                    else:
                        found[file] = hash(
                            (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                        )
        except (FileNotFoundError, NotADirectoryError):
            return found
        if found.pop(INDEX, None) is None:
            self._signatures = {}
        return found


class MemoryFiles:
    """The memories a session has: the person's own, and those of its project."""

    def __init__(self, user: MemoryFolder, project: MemoryFolder) -> None:
        self.user = user
        self.project = project
        self.both = (project, user)

    def rows(self) -> tuple[MemoryRow, ...]:
        """All of them, those of the project first."""
        return (*self.project.rows(), *self.user.rows())

    def of(self, scope: MemoryScope) -> MemoryFolder:
        return self.user if scope == "user" else self.project

    def named(self, words: str) -> tuple[MemoryFolder, str]:
        """The folder and the name behind `NAME`, `user/NAME` or `project/NAME`. Raises `UnknownMemory`."""
        scope, slash, name = words.rpartition("/")
        for folder in self.both:
            if (not slash or folder.scope == scope) and is_name(name) and os.path.lexists(folder.file(name)):
                return folder, name
        raise BridleError("UnknownMemory", name=words)


def memory_files(data: str, state: str, cwd: str) -> MemoryFiles:
    """Where the memories of a session in this folder are. Nothing is made, and nothing is read."""
    folder, kept = os.path.join(data, MEMORIES), os.path.join(state, MEMORIES)
    root = os.path.realpath(repository_root(os.path.realpath(cwd)))
    key = project_key(root)
    user = MemoryFolder(folder, scope="user", lock=os.path.join(kept, "user.lock"), about="the person")
    project = MemoryFolder(
        os.path.join(folder, PROJECTS, key),
        scope="project",
        lock=os.path.join(kept, f"project-{key}.lock"),
        about=root,
    )
    return MemoryFiles(user, project)


def project_key(root: str) -> str:
    """The name of a project's folder: something to recognise it by, and what tells it from every other."""
    word = "".join(
        sign if sign.isascii() and sign.isalnum() else "-" for sign in os.path.basename(root).lower()
    )
    return f"{word[:32].strip('-') or 'root'}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def holds_secret(memory: Memory, mask: Callable[[str], str]) -> bool:
    """Whether some of it looks like a secret, which memory never keeps: as it will be written, as it was given, and
    as what stands there is read by those who take base64, hex or an address apart."""
    given = msgspec.json.decode(msgspec.json.encode(memory))
    texts = [memory.written(), *_texts(given)]
    return any(mask(text) != text for one in texts for text in (one, *_decoded(one)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in cast("dict[str, Any]", value).items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _texts(one)


def _decoded(text: str) -> Iterator[str]:
    """What the long words of a text stand for where they are written in one of the usual ways."""
    import base64

    if "%" in text:
        yield unquote(text, errors="replace")
    for word in re.findall(r"[A-Za-z0-9+/_-]{16,}", text):
        plain = word.replace("-", "+").replace("_", "/")
        whole = plain[: len(plain) - (len(plain) % 4 == 1)]
        yield base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("utf-8", "replace")
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", word):
            yield bytes.fromhex(word).decode("utf-8", "replace")


_WAIT_S = 5.0


def put_memory(folder: MemoryFolder, memory: Memory, *, was: str) -> None:
    """Writes a memory in the place of the content `was`; empty: there is none yet.

    Raises `BadMemory`, `OSError`, and `BridleError` with `ChangedSinceApproval` where it is not so.
    """
    data = memory.checked().written().encode()
    with _alone(folder, memory.name, was):
        if not was and len(folder.rows()) >= MAX_MEMORIES:
            raise BadMemory(f"there are {MAX_MEMORIES:,} memories here already")
        write_atomic(folder.file(memory.name), data)
    folder.index()


def remove_memory(folder: MemoryFolder, name: str, *, was: str) -> None:
    """Takes away a memory that has the content `was`. Raises as `put_memory` does."""
    with _alone(folder, name, was):
        os.unlink(folder.file(name))
    folder.index()


def digest_in(folder: MemoryFolder, name: str) -> str:
    """Which content a memory has; empty where there is none."""
    try:
        return digest_of(content_of(folder.file(name))[0])
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def _alone(folder: MemoryFolder, name: str, was: str) -> Generator[None]:
    private_folder(folder.path)
    private_folder(os.path.dirname(folder.lock))
    lock = FileLock(folder.lock)
    if not lock.acquire(timeout_s=_WAIT_S):
        raise OSError(errno.EBUSY, "another Bridle is writing there", folder.path)
    try:
        if digest_in(folder, name) != was:
            raise BridleError("ChangedSinceApproval", path=folder.file(name))
        yield
    finally:
        lock.release()
