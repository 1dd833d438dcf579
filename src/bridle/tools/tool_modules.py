"""Tools as files: `tools/NAME.py`, each with one object `tool`. Read here, never imported: its code runs in a process
of its own, held as commands are, with the very text that a person agreed to.

    tool = {"name": "count", "description": "…", "input_schema": {…}, "execute": lambda given: "7"}
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from bridle.base.fs.files import read_limited
from bridle.base.fs.paths import is_beneath
from bridle.base.text.json_schema import JsonSchema
from bridle.base.text.terminal_text import visible
from bridle.engine.ports import Spawn, SpawnPolicy
from bridle.engine.tools import Tool, ToolContext, ToolOutput

FOLDER: Final = "tools"
ENDING: Final = ".py"
MAX_FILES: Final = 50
MAX_BYTES: Final = 256 * 1024
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
MAX_DESCRIPTION: Final = 4_000
DESCRIBE_S: Final = 10.0
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_LAST_WORDS: Final = 500


class BadModule(Exception):
    """This module is no tool; the words are a clause that says why."""


class ModuleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that wants to be a tool of its own name. `problem` says, as a clause, why it cannot be."""

    name: str
    path: str
    data: bytes = b""
    problem: str = ""

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


class DescribedTool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    input_schema: dict[str, Any]


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    tool: DescribedTool | None = None
    ok: bool = True
    content: str = ""
    problem: str = ""


def find_tool_modules(folder: str, *, within: str = "") -> Iterator[ModuleFile]:
    """The modules in a folder, by name. `within`: nothing is read that leads out of it. Blocks."""
    try:
        names = sorted(one for one in os.listdir(folder) if one.endswith(ENDING) and one[0] not in "._")
    except OSError:
        return
    root = os.path.realpath(within) if within else ""
    for file in names[:MAX_FILES]:
        path, name = os.path.join(folder, file), file.removesuffix(ENDING)
        if _NAME.fullmatch(name) is None:
            yield ModuleFile(name=name, path=path, problem="its name is none for a tool (A-Z a-z 0-9 _ -)")
        elif root and not is_beneath(os.path.realpath(path), root):
            yield ModuleFile(name=name, path=path, problem="a link that leads out of its folder is not read")
        else:
            yield _read(name, path)


def _read(name: str, path: str) -> ModuleFile:
    try:
        contents = read_limited(path, MAX_BYTES)
        contents.data.decode()
    except OSError as failure:
        return ModuleFile(name=name, path=path, problem=f"it cannot be read ({failure.strerror})")
    except UnicodeDecodeError:
        return ModuleFile(name=name, path=path, problem="it is not UTF-8 text")
    if contents.truncated:
        return ModuleFile(name=name, path=path, problem=f"it has more than {MAX_BYTES >> 10} KiB")
    return ModuleFile(name=name, path=path, data=contents.data)


class ModulePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the process of a module runs, and how far it may go."""

    spawn: Spawn
    policy: SpawnPolicy
    cwd: str
    env: Mapping[str, str]
    call_id: str


async def described_tool(module: ModuleFile, place: ModulePlace) -> Tool:
    """The tool of a module, by its own words, which change nothing and reach nobody. Raises `BadModule`."""
    policy = place.policy
    if policy.mode != "off":
        policy = msgspec.structs.replace(policy, mode="read-only", network="deny")
    place = msgspec.structs.replace(place, policy=policy)
    try:
        async with asyncio.timeout(DESCRIBE_S):
            answer = await _asked(module, place, None)
    except TimeoutError:
        raise BadModule(f"it did not say within {DESCRIBE_S:g} s what it is") from None
    found = answer.tool
    if found is None:
        raise BadModule(answer.problem or "it did not say what it is")
    if found.name != module.name:
        raise BadModule(f'its tool is called "{found.name[:64]}": a file has the name of its tool')
    if not found.description.strip() or len(found.description) > MAX_DESCRIPTION:
        raise BadModule(f"its description is empty or has more than {MAX_DESCRIPTION:,} characters")

    async def run(given: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await _call(module, given, context)

    return Tool(
        name=found.name,
        description=found.description.strip(),
        input=JsonSchema(found.input_schema),
        risk="shell",
        run=run,
        side_effect="process",
    )


async def _call(module: ModuleFile, given: dict[str, Any], context: ToolContext) -> ToolOutput:
    place = ModulePlace(
        spawn=context.spawn, policy=context.policy, cwd=context.cwd, env=context.env, call_id=context.call.id
    )
    try:
        answer = await _asked(module, place, given)
    except BadModule as bad:
        return ToolOutput(outcome="error", reason="ToolFailed", content=f"{module.name} failed: {bad}")
    if answer.problem:
        return ToolOutput(
            outcome="error", reason="ToolFailed", content=f"{module.name} failed: {answer.problem}"
        )
    return ToolOutput(outcome="ok" if answer.ok else "error", content=answer.content)


async def _asked(module: ModuleFile, place: ModulePlace, given: dict[str, Any] | None) -> _Answer:
    """Starts a process with the text that was read, and takes its one line. Raises `BadModule`."""
    request = {"path": module.path, "source": module.data.decode(), "input": given}
    out, errors = bytearray(), bytearray()

    def take(piece: bytes) -> None:
        if len(out) <= MAX_ANSWER_BYTES:
            out.extend(piece)

    def take_error(piece: bytes) -> None:
        errors.extend(piece)
        del errors[:-_LAST_WORDS]

    process = await place.spawn(
        _launch(),
        cwd=place.cwd,
        env=place.env,
        policy=place.policy,
        call_id=place.call_id,
        on_output=take,
        on_error=take_error,
        stdin=msgspec.json.encode(request) + b"\n",
    )
    try:
        code = await process.wait()
    finally:
        await process.stop()
    if len(out) > MAX_ANSWER_BYTES:
        raise BadModule(f"its answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(out.splitlines()[-1] if out else b"", type=_Answer)
    words = visible(errors.decode("utf-8", "replace").strip(), newlines=False)
    raise BadModule(f"it ended with exit code {code} and no answer{f' ({words})' if words else ''}")


def _launch() -> list[str]:
    with open(os.path.join(os.path.dirname(__file__), "module_runner.py"), encoding="utf-8") as file:
        runner = file.read()
    return [os.path.realpath(sys.executable), "-I", "-c", runner]
