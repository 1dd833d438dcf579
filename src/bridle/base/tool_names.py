"""Names for tools that others bring: `mcp__SERVER__TOOL`, in the alphabet and length every model API takes.

Rules and hooks match these names, so a server cannot choose one that means another's tool.
"""

import re
from collections.abc import Container
from hashlib import sha256

MAX_CHARACTERS = 64
_HASH_CHARACTERS = 8
_OUTSIDE = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES = re.compile(r"__+")


def mcp_tool_name(server: str, tool: str, taken: Container[str] = ()) -> str:
    """The name of a server's tool. The same two names give the same one; `taken` ones get `_2`, `_3` ….

    Two underscores separate the parts, so a server's own name keeps none; a name of which nothing readable is left is
    told apart by a hash, and so is one that had to be cut.
    """
    server_part = _part(_UNDERSCORES.sub("_", _OUTSIDE.sub("_", server)), server)
    name = f"mcp__{server_part}__{_part(_OUTSIDE.sub('_', tool), tool)}"
    name = _cut(name, f"{server}\0{tool}", MAX_CHARACTERS)
    if name not in taken:
        return name
    number = 2
    while (
        other := _cut(name, f"{server}\0{tool}", MAX_CHARACTERS - len(f"_{number}")) + f"_{number}"
    ) in taken:
        number += 1
    return other


def _part(readable: str, original: str) -> str:
    return readable if readable.strip("_") else f"_{_hash(original)}"


def _cut(name: str, original: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    return f"{name[: limit - _HASH_CHARACTERS - 1]}_{_hash(original)}"


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
