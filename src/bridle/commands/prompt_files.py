"""Prompts of people as files: `commands/NAME.md`, said with `/user:NAME` or `/project:NAME`. Nothing in one is run.

A folder below is a part of the name: `git/tidy.md` is `/user:git:tidy`. The text is said as it stands, with what was
written behind the name in the place of `$ARGUMENTS`, or its words in the places of `$1` to `$9`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256

import msgspec

from bridle.base.fs.files import first_entries, read_limited
from bridle.base.fs.paths import is_beneath
from bridle.base.text.front_matter import BadFrontMatter, Value, has_front_matter, read_front_matter, text_of

FOLDER = "commands"
ENDING = ".md"
MAX_FILES = 200
MAX_FOLDERS = 100
MAX_ENTRIES = 1_000
"""So many entries of one folder are looked at."""
MAX_BYTES = 64 * 1024
MAX_DEPTH = 4
MAX_DESCRIPTION = 200

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])(?![0-9A-Za-z_])")
_WANTS_SHELL = re.compile(r"(?:^|\s)!`", re.MULTILINE)


class PromptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt as its file has it. `problem` says, as a clause, why it cannot be said."""

    name: str
    path: str
    data: bytes = b""
    description: str = ""
    hint: str = ""
    body: str = ""
    problem: str = ""

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()

    @property
    def wants_shell(self) -> bool:
        """Whether it has commands in it that other programs would run while they read it."""
        return _WANTS_SHELL.search(self.body) is not None


def find_prompt_files(folder: str, *, within: str = "") -> Iterator[PromptFile]:
    """The prompts below a folder, by name. `within`: nothing is read that leads out of it. Blocks."""
    root = os.path.realpath(within) if within else ""
    paths: list[str] = []
    waiting, looked_at = [folder], 0
    while waiting and looked_at <= MAX_FOLDERS and len(paths) < MAX_FILES:
        where, looked_at = waiting.pop(), looked_at + 1
        try:
            entries = first_entries(where, MAX_ENTRIES)
        except OSError:
            continue
        depth = os.path.relpath(where, folder).count(os.sep) + (where != folder)
        folders = [
            one.path for one in entries if one.is_dir(follow_symlinks=False) and _PART.fullmatch(one.name)
        ]
        waiting += folders[::-1] if depth < MAX_DEPTH else ()
        paths += (one.path for one in entries if one.name.endswith(ENDING) and not one.is_dir())
    for path in paths[:MAX_FILES]:
        parts = os.path.relpath(path, folder).removesuffix(ENDING).split(os.sep)
        if all(map(_PART.fullmatch, parts)) and (not root or is_beneath(os.path.realpath(path), root)):
            yield _read(":".join(parts), path)


def said_with(prompt: PromptFile, arguments: str) -> str:
    """The words of a prompt with what was written behind its name. Pure."""
    words = arguments.split()
    places = 0

    def filled(place: re.Match[str]) -> str:
        nonlocal places
        places += 1
        which = place[1]
        if which == "ARGUMENTS":
            return arguments
        return words[int(which) - 1] if int(which) <= len(words) else ""

    text = _PLACE.sub(filled, prompt.body).strip()
    return text if places or not arguments.strip() else f"{text}\n\n{arguments}"


def _read(name: str, path: str) -> PromptFile:
    try:
        contents = read_limited(path, MAX_BYTES)
        data = contents.data
        values, body = _parted(data.decode())
    except OSError as failure:
        return PromptFile(name=name, path=path, problem=failure.strerror or "it cannot be read")
    except UnicodeDecodeError:
        return PromptFile(name=name, path=path, problem="it is not UTF-8 text")
    except BadFrontMatter as bad:
        return PromptFile(name=name, path=path, problem=f"line {bad.line}: {bad}")
    problem = "it is longer than 64 KiB" if contents.truncated else "" if body.strip() else "it is empty"
    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# ")), "")
    return PromptFile(
        name=name,
        path=path,
        data=data,
        description=" ".join((text_of(values, "description") or first).split())[:MAX_DESCRIPTION],
        hint=" ".join(text_of(values, "argument-hint").split())[:MAX_DESCRIPTION],
        body=body,
        problem=problem,
    )


def _parted(text: str) -> tuple[dict[str, Value], str]:
    if not has_front_matter(text):
        return {}, text
    found = read_front_matter(text)
    return found.values, found.body
