"""`/memory`: what is remembered, for the person in a session. Changes are made with `bridle memory`, or by asking."""

from __future__ import annotations

import asyncio

from bridle.context.memory.memory_entry import BadMemory
from bridle.context.memory.memory_files import MemoryFiles
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice


async def run_memory_slash(files: MemoryFiles, arguments: str) -> SlashEvent:
    """`/memory` lists, `/memory NAME` shows one. Raises `UnknownMemory`, `BadMemory`."""
    words = arguments.split()
    if words and words[0] in ("list", "show"):
        words = words[1:]
    name = " ".join(words)
    text = await asyncio.to_thread(_one, files, name) if name else await asyncio.to_thread(_all, files)
    return Notice(reason="MemoryShown", message=text, data={"name": name})


def _one(files: MemoryFiles, words: str) -> str:
    folder, name = files.named(words)
    try:
        memory, _ = folder.read(name)
    except (BadMemory, OSError) as problem:
        raise BridleError("BadMemory", name=f"{folder.scope}/{name}", problem=str(problem)) from None
    return f"{folder.file(name)}\n\n{memory.written().rstrip()}"


def _all(files: MemoryFiles) -> str:
    rows = files.rows()
    if not rows:
        return "Nothing is remembered yet. Ask for it in words, or: bridle memory add NAME TEXT"
    number = f"{len(rows)} {'memory' if len(rows) == 1 else 'memories'}"
    lines = [f"{number}; to see one: /memory NAME, to change one: bridle memory"]
    for row in rows:
        about = f"not used: {row.problem}" if row.problem else f"{row.description} ({row.type})"
        lines.append(f"  {row.key}  {about}")
    return "\n".join(lines)
