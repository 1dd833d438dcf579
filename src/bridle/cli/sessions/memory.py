"""`bridle memory`: list, show, edit and delete memories."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from bridle.base.clock import SystemClock
from bridle.base.fs.files import read_limited
from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import aligned, say, say_json, say_lines, tell
from bridle.cli.terminal_services import editor_of, has_terminal, open_editor
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.context.memory.memory_choice import MemoryRow
from bridle.context.memory.memory_entry import MAX_DESCRIPTION, MAX_FILE_BYTES, BadMemory, Memory, read_memory
from bridle.context.memory.memory_files import (
    MemoryFiles,
    MemoryFolder,
    digest_in,
    holds_secret,
    memory_files,
    put_memory,
    remove_memory,
    today,
)
from bridle.protocol.errors import BridleError, UsageError

_NO_TEXT = 'A memory needs a text: bridle memory add NAME "what to remember", or - and text on stdin'


def memory(parsed: Args, env: Env) -> int:
    where = folders(env)
    files = memory_files(where.data, where.state, os.getcwd())
    try:
        match parsed.action:
            case "list":
                return _list(files, as_json=parsed.json)
            case "show":
                return _show(files, parsed)
            case "add":
                return _add(files, parsed)
            case "edit":
                return _edit(files, parsed.name, env)
            case "remove":
                return _remove(files, parsed.name)
            case _:
                return _path(files, parsed)
    except BadMemory as bad:
        raise BridleError("BadMemory", name=getattr(parsed, "name", ""), problem=str(bad)) from None
    except OSError as failure:
        problem = failure.strerror or str(failure)
        raise BridleError("BadMemory", name=getattr(parsed, "name", "folder"), problem=problem) from None


def _list(files: MemoryFiles, *, as_json: bool) -> int:
    rows = files.rows()
    if as_json:
        return say_json([_listing(files, row) for row in rows])
    if not rows:
        return say("Nothing is remembered yet. How to: bridle help memory\n")
    return say_lines(aligned((row.key, _about(row)) for row in rows))


def _about(row: MemoryRow) -> str:
    if row.problem:
        return f"not used: {row.problem}"
    tags = f"; {', '.join(row.tags)}" if row.tags else ""
    return f"{row.description} ({row.type}, {row.updated}{tags})"


def _listing(files: MemoryFiles, row: MemoryRow) -> dict[str, object]:
    """One memory as programs read it. `problem` is empty for one that counts."""
    names = ("scope", "name", "type", "description", "tags", "updated", "problem")
    path = os.path.join(files.of(row.scope).path, f"{row.name}.md")
    return {**{name: getattr(row, name) for name in names}, "path": path}


def _show(files: MemoryFiles, parsed: Args) -> int:
    folder, name = files.named(parsed.name)
    try:
        found, _ = folder.read(name)
    except BadMemory as bad:
        problem = f"{bad}. Fix the file: bridle memory edit {folder.scope}/{name}"
        raise BridleError("BadMemory", name=parsed.name, problem=problem) from None
    if parsed.json:
        return say_json({"scope": folder.scope, "path": folder.file(name), **msgspec.to_builtins(found)})
    return say(found.written())


def _add(files: MemoryFiles, parsed: Args) -> int:
    folder = files.of(parsed.scope)
    text = _given_text(parsed.text)
    first = next((line.strip("# ") for line in text.splitlines() if line.strip("# ")), "")
    added = Memory(
        name=parsed.name,
        description=" ".join((parsed.description or first)[:MAX_DESCRIPTION].split()),
        type=parsed.type or parsed.scope,
        updated=today(SystemClock().now_ms()),
        tags=tuple(parsed.tag),
        text=text,
    ).checked()
    if digest_in(folder, added.name):
        raise UsageError(
            f"There is a memory {parsed.scope}/{added.name} already. Change it: bridle memory edit {added.name}"
        )
    return _kept(folder, added, was="")


def _given_text(words: list[str]) -> str:
    if words and words != ["-"]:
        if not " ".join(words).strip():
            raise UsageError(_NO_TEXT)
        return " ".join(words)
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(_NO_TEXT)
    data = read_limited(sys.stdin.fileno(), MAX_FILE_BYTES).data
    text = data.decode("utf-8", "replace").strip("\n")
    if not text.strip():
        raise UsageError(_NO_TEXT)
    return text


def _edit(files: MemoryFiles, words: str, env: Env) -> int:
    """The memory in the person's editor, as a copy: what cannot be kept changes nothing, and is not lost."""
    import tempfile

    folder, name = files.named(words)
    if not has_terminal():
        raise UsageError(f"An editor needs a terminal. The file is {visible_line(folder.file(name))}")
    command, was = editor_of(env), digest_in(folder, name)
    with open(folder.file(name), "rb") as file:
        before = file.read()
    with tempfile.NamedTemporaryFile(suffix=f"-{name}.md", delete=False) as copy:
        copy.write(before)
    ended = asyncio.run(open_editor(command, copy.name, env))
    with open(copy.name, "rb") as file:
        after = file.read()
    if ended or after == before:
        os.unlink(copy.name)
        if not ended:
            return say("Nothing changed.\n")
        tell(f"The editor {command[0]} ended with exit code {ended}. {folder.scope}/{name} is unchanged.")
        return 1
    try:
        changed = read_memory(name, after.decode("utf-8", "replace"), scope=folder.scope, changed="")
        code = _kept(folder, msgspec.structs.replace(changed, updated=today(SystemClock().now_ms())), was=was)
    except (BadMemory, BridleError) as refused:
        problem = refused.message if isinstance(refused, BridleError) else f"It was not kept: {refused}."
        raise UsageError(f"{problem} Your text is in {copy.name}") from None
    os.unlink(copy.name)
    return code


def _kept(folder: MemoryFolder, changed: Memory, *, was: str) -> int:
    name = f"{folder.scope}/{changed.name}"
    if holds_secret(changed, redact):
        raise BridleError("SecretInMemory", name=name)
    put_memory(folder, changed, was=was)
    return say(f"remembered: {name}: {visible_line(changed.description)}\n")


def _remove(files: MemoryFiles, words: str) -> int:
    folder, name = files.named(words)
    remove_memory(folder, name, was=digest_in(folder, name))
    return say(f"forgotten: {folder.scope}/{name}\n")


def _path(files: MemoryFiles, parsed: Args) -> int:
    if parsed.name:
        folder, name = files.named(parsed.name)
        return say(f"{folder.file(name)}\n")
    if parsed.json:
        return say_json({folder.scope: folder.path for folder in files.both})
    return say("".join(f"{folder.scope:<8} {folder.path}\n" for folder in files.both))
