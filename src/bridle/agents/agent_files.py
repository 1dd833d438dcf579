"""Agents as files: `agents/NAME.md`, front matter above a prompt. Ours, and those of Claude Code as far as documented.

A file is read whole and within bounds before anybody decides about it; nothing in it is obeyed by reading it. `NAME` is
that of the file unless the front matter says another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from bridle.agents.agent_fields import decode_agent
from bridle.agents.definition import AgentDefinition, AgentOrigin
from bridle.agents.field_reader import FieldProblem
from bridle.base.fs.files import first_entries, read_limited
from bridle.base.fs.paths import is_beneath
from bridle.base.text.front_matter import BadFrontMatter, FrontMatter, has_front_matter, read_front_matter

FOLDER: Final = "agents"
ENDING: Final = ".md"
MAX_FILES: Final = 200
MAX_BYTES: Final = 64 * 1024
_LEFT_OUT: Final = frozenset({"README.md", "AGENTS.md", "CLAUDE.md"})
"""What lies beside agents and is none."""


class AgentProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a file, as a clause that says what to do, and in which of its lines."""

    line: int
    clause: str


class ReadAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says: an agent, or everything that keeps it from being one."""

    agent: AgentDefinition | None = None
    problems: tuple[AgentProblem, ...] = ()
    warnings: tuple[AgentProblem, ...] = ()


class AgentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that wants to be an agent. `stem` is its name without the ending, `data` what was read of it."""

    path: str
    stem: str
    data: bytes
    read: ReadAgent

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


def read_agent(text: str, *, stem: str, origin: AgentOrigin) -> ReadAgent:
    """The agent that a file of this name and text is. Pure."""
    if not has_front_matter(text):
        return _one_problem(
            1, "it must begin with front matter: a line ---, name and description, a line ---"
        )
    try:
        front = read_front_matter(text)
    except BadFrontMatter as bad:
        return _one_problem(bad.line, str(bad))
    found = decode_agent(front.values, name=stem, origin=origin, body=front.body, is_file=True)
    return ReadAgent(
        agent=found.agent, problems=_placed(front, found.problems), warnings=_placed(front, found.warnings)
    )


def _one_problem(line: int, clause: str) -> ReadAgent:
    return ReadAgent(problems=(AgentProblem(line=line, clause=clause),))


def _placed(front: FrontMatter, problems: Iterable[FieldProblem]) -> tuple[AgentProblem, ...]:
    """The problems in the order of the file."""
    places = {"prompt": front.body_line, **front.lines}
    found = (AgentProblem(line=places.get(one.field, 1), clause=one.clause) for one in problems)
    return tuple(sorted(found, key=lambda one: one.line))


def agent_paths(folder: str) -> list[str]:
    """The files of a folder that want to be agents, by name; empty where it is none that can be read. Blocks."""
    try:
        names = [one.name for one in first_entries(folder)]
    except OSError:
        return []
    return [
        os.path.join(folder, one)
        for one in names
        if one.endswith(ENDING) and not one.startswith(".") and one not in _LEFT_OUT
    ]


def find_agent_files(folder: str, origin: AgentOrigin, *, within: str = "") -> Iterator[AgentFile]:
    """The agents in a folder, by name. `within`: nothing is read that leads out of it. Blocks."""
    root = os.path.realpath(within) if within else ""
    for path in agent_paths(folder)[:MAX_FILES]:
        place = msgspec.structs.replace(origin, place=os.path.join(origin.place, os.path.basename(path)))
        yield read_agent_file(path, place, within=root)


def read_agent_file(path: str, origin: AgentOrigin, *, within: str = "") -> AgentFile:
    """One file, whatever it holds. Blocks."""
    stem, data = os.path.basename(path).removesuffix(ENDING), b""
    if within and not is_beneath(os.path.realpath(path), within):
        problem = _one_problem(
            0, "a link that leads out of the project is not read: put the file itself there"
        )
        return AgentFile(path=path, stem=stem, data=data, read=problem)
    try:
        contents = read_limited(path, MAX_BYTES)
        data = contents.data
        if contents.truncated:
            read = _one_problem(0, f"it has more than {MAX_BYTES >> 10} KiB: shorten it")
        else:
            read = read_agent(data.decode(), stem=stem, origin=origin)
    except OSError as failure:
        read = _one_problem(0, f"it cannot be read ({failure.strerror or failure})")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        read = _one_problem(line, "it is not UTF-8 text: save it as that")
    return AgentFile(path=path, stem=stem, data=data, read=read)
