"""Read memory files and write `MEMORY.md`. Blocks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterable

from bridle.base.files import read_limited, write_atomic
from bridle.context.memory.memory_choice import ENDING, INDEX, MAX_ENTRY_BYTES, MemoryRow, MemoryScope
from bridle.context.memory.memory_entry import MAX_FILE_BYTES, BadMemory, Memory, is_name, read_memory


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
    """What a file holds, and when it changed."""
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
