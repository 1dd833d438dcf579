"""One memory as a value, and as the text of its file. Pure."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from bridle.base.text.front_matter import (
    BadFrontMatter,
    has_front_matter,
    read_front_matter,
    text_of,
    texts_of,
    with_front_matter,
)
from bridle.context.memory.memory_choice import MemoryScope

MemoryType: TypeAlias = Literal["user", "feedback", "project", "reference"]
TYPES: tuple[MemoryType, ...] = get_args(MemoryType)

MAX_NAME = 64
MAX_DESCRIPTION = 300
MAX_TEXT_BYTES = 16 * 1024
MAX_TAGS = 16
MAX_TAG = 40
MAX_FILE_BYTES = 64 * 1024
"""A larger file is somebody's document and no memory."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class BadMemory(ValueError):
    """What is wrong with a memory, as a clause."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """A note that lasts. `updated` is a date, `others` are fields of its file that mean nothing here and are kept."""

    name: str
    description: str
    type: MemoryType
    updated: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""
    others: dict[str, Any] = {}

    def checked(self) -> Memory:
        """The memory, in bounds. Raises `BadMemory`."""
        if problem := self._problem():
            raise BadMemory(problem)
        return self

    def _problem(self) -> str:
        if not is_name(self.name):
            return f"a name is small letters, digits and single hyphens, at most {MAX_NAME}"
        if not self.description.strip():
            return "it has no description"
        if "\n" in self.description or len(self.description) > MAX_DESCRIPTION:
            return f"the description is one line of at most {MAX_DESCRIPTION} characters"
        if self.type not in TYPES:
            return f'"{self.type}" is none of the types {", ".join(TYPES)}'
        if len(self.text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
            return f"the text is longer than {MAX_TEXT_BYTES // 1024} KiB"
        if len(self.tags) > MAX_TAGS or any(
            not tag or len(tag) > MAX_TAG or "\n" in tag for tag in self.tags
        ):
            return f"there are at most {MAX_TAGS} tags of at most {MAX_TAG} characters"
        try:
            self.written().encode()
        except UnicodeEncodeError:
            return "it has characters that cannot be stored"
        return ""

    def written(self) -> str:
        fields = {
            "name": self.name,
            "description": self.description,
            "tags": self.tags,
            "metadata": {"type": self.type, "updated": self.updated},
            **self.others,
        }
        text = self.text.strip("\n")
        return with_front_matter(fields, f"{text}\n" if text else "")


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


def read_memory(name: str, text: str, *, scope: MemoryScope, changed: str) -> Memory:
    """The memory that a file of this name holds. The file's name counts, whatever stands in it.

    `changed` is the date of the file, for one that says none. Raises `BadMemory`.
    """
    if not has_front_matter(text):
        raise BadMemory("it has no front matter")
    try:
        file = read_front_matter(text)
    except BadFrontMatter as problem:
        raise BadMemory(f"line {problem.line}: {problem}") from None
    fields: dict[str, Any] = dict(file.values)
    given = fields.pop("metadata", {})
    metadata = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    kind = text_of(metadata, "type") or text_of(fields, "type") or scope
    tags = texts_of(fields, "tags") or texts_of(metadata, "tags")
    memory = Memory(
        name=name,
        description=" ".join(text_of(fields, "description").split()),
        type=cast("MemoryType", kind),
        updated=text_of(metadata, "updated") or changed,
        tags=tuple(dict.fromkeys(tags)),
        text=file.body.strip("\n"),
        others={key: value for key, value in fields.items() if key not in _OURS},
    )
    return memory.checked()


_OURS = frozenset({"name", "description", "tags", "type"})
