"""`memory`: the model keeps, reads and changes notes that last.

A change asks like an edit and can be undone. What does the work is imported when a call comes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from bridle.context.memory.memory_choice import ALWAYS
from bridle.context.memory.memory_entry import BadMemory, Memory, MemoryType
from bridle.context.memory.memory_files import (
    MemoryFiles,
    MemoryFolder,
    holds_secret,
    put_memory,
    remove_memory,
    today,
)
from bridle.engine.known_files import KnownFiles
from bridle.engine.tools import Tool, ToolCall, ToolContext, ToolOutput
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import FileChange, Notice

NAME: Final = "memory"
_MAX_LISTED = 200

ForeseeChange: TypeAlias = Callable[[str, str | None, str | None], tuple[FileChange, ...]]
"""The change from one text to another under a name, as a question shows it; None: there is none."""


class MemoryArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["create", "read", "update", "delete", "list"]
    name: Annotated[str, Meta(description="Small letters, digits and hyphens.")] = ""
    scope: Annotated[
        Literal["project", "user"], Meta(description="This project's, or the person's everywhere.")
    ] = "project"
    type: Literal["user", "feedback", "project", "reference"] | None = None
    description: Annotated[str, Meta(description="One line; its words decide when the note comes back.")] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Words that bring it back at once.")] = ()
    text: Annotated[str, Meta(description="Markdown. In an update, what is left out stays.")] = ""


class PlannedChange(msgspec.Struct, frozen=True):
    """What a call would make of a memory: what it was, what it will be, and the digest of the file it was read from."""

    folder: MemoryFolder
    name: str
    was: str
    before: Memory | None
    after: Memory | None

    @property
    def shown(self) -> str:
        return f"{self.folder.scope}/{self.name}"


class MemoryTool:
    """The tool of one session. `mask` hides secrets in a text, `foresee` makes of a change what a question shows."""

    def __init__(
        self,
        files: Callable[[], MemoryFiles],
        *,
        foresee: ForeseeChange,
        mask: Callable[[str], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._files = files
        self._foresee = foresee
        self._mask = mask
        self._now_ms = now_ms
        self._agreed: dict[str, PlannedChange] = {}

    def tool(self) -> Tool:
        return Tool(
            name=NAME,
            description=(
                "Keep a note beyond this session, or read, change, delete and list notes. For what the person wants "
                "remembered, or what would otherwise be asked again; never secrets, never what the files here say."
            ),
            input=MemoryArgs,
            risk="write",
            run=self._run,
            concurrency="exclusive",
            mutating=lambda args: args.action in ("create", "update", "delete"),
            own_files=self._own_files,
            changes=self._changes,
            for_person=self._for_person,
            safety_notes=("it is read again in later sessions",),
        )

    async def _run(self, args: MemoryArgs, context: ToolContext) -> ToolOutput:
        try:
            if args.action == "list":
                return await asyncio.to_thread(self._list)
            if args.action == "read":
                return await asyncio.to_thread(self._read, args)
            change = self._agreed.pop(context.call.id, None) or await asyncio.to_thread(self._planned, args)
            await asyncio.to_thread(_carry_out, change)
        except (ValueError, OSError, BridleError) as failure:
            return _failed(args, failure)
        return _told(change, context)

    def _changes(
        self, args: MemoryArgs, call: ToolCall, _cwd: str, _known: KnownFiles
    ) -> tuple[FileChange, ...] | ToolOutput:
        try:
            change = self._planned(args)
        except (ValueError, OSError, BridleError) as failure:
            return _failed(args, failure)
        self._agreed = {call.id: change}
        before, after = (one.written() if one is not None else None for one in (change.before, change.after))
        return self._foresee(f"memory {change.shown}", before, after)

    def _own_files(self, args: MemoryArgs) -> tuple[str, ...]:
        try:
            return (os.path.realpath(self._files().of(args.scope).file(args.name)),)
        except ValueError:
            return ()  # the call fails

    def _for_person(self, args: MemoryArgs) -> str:
        """A note that comes into every session, or into every project, tells later runs what nobody asked for there."""
        if args.scope == "user":
            return "it is for every project"
        try:
            before, _ = _present(self._files().of(args.scope), args.name)
        except (ValueError, OSError, BridleError):
            before = None  # the call fails
        tags = (*args.tags, *(before.tags if before is not None else ()))
        return "it is for every session here" if ALWAYS in tags else ""

    def _planned(self, args: MemoryArgs) -> PlannedChange:
        """Raises `BadMemory`, `OSError` and `BridleError` where it cannot be done."""
        folder = self._files().of(args.scope)
        before, was = _present(folder, args.name)
        if args.action == "create" and was:
            raise BadMemory("there is one of this name already; update it")
        if args.action != "create" and before is None:
            raise BridleError("UnknownMemory", name=f"{args.scope}/{args.name}")
        if args.action == "delete":
            return PlannedChange(folder, args.name, was, before, None)
        after = _changed(args, before, self._now_ms()).checked()
        if holds_secret(after, self._mask):
            raise BridleError("SecretInMemory", name=f"{args.scope}/{args.name}")
        return PlannedChange(folder, args.name, was, before, after)

    def _read(self, args: MemoryArgs) -> ToolOutput:
        folder, name = self._files().named(f"{args.scope}/{args.name}")
        memory, _ = folder.read(name)
        return ToolOutput(content=memory.written())

    def _list(self) -> ToolOutput:
        rows = self._files().rows()
        lines = [
            f"{row.key}: not used, {row.problem}"
            if row.problem
            else f"{row.key} ({', '.join((row.type, *row.tags))}): {row.description}"
            for row in rows[:_MAX_LISTED]
        ]
        more = [f"… and {len(rows) - _MAX_LISTED} more"] if len(rows) > _MAX_LISTED else []
        return ToolOutput(content="\n".join((*lines, *more)) or "There are no memories.")


def _present(folder: MemoryFolder, name: str) -> tuple[Memory | None, str]:
    try:
        return folder.read(name)
    except FileNotFoundError:
        return None, ""


def _changed(args: MemoryArgs, before: Memory | None, now_ms: int) -> Memory:
    kind: MemoryType = args.scope
    was = before or Memory(name=args.name, description="", type=kind)
    return msgspec.structs.replace(
        was,
        updated=today(now_ms),
        description=" ".join(args.description.split()) or was.description,
        type=args.type or was.type,
        tags=args.tags or was.tags,
        text=args.text.strip("\n") or was.text,
    )


def _carry_out(change: PlannedChange) -> None:
    if change.after is None:
        remove_memory(change.folder, change.name, was=change.was)
    else:
        put_memory(change.folder, change.after, was=change.was)


def _told(change: PlannedChange, context: ToolContext) -> ToolOutput:
    """The person is told of every change, whoever was asked."""
    reason = "Forgotten" if change.after is None else "Remembered"
    about = change.after or change.before
    data = {"name": change.shown, "description": about.description if about is not None else ""}
    message = sentence(reason, data)
    context.emit(Notice(reason=reason, message=message, data=data))
    return ToolOutput(content=message)


def _failed(args: MemoryArgs, failure: ValueError | OSError | BridleError) -> ToolOutput:
    if isinstance(failure, BridleError):
        return ToolOutput(outcome="error", reason=failure.reason, content=failure.message)
    problem = (failure.strerror if isinstance(failure, OSError) else None) or str(failure)
    name = f"{args.scope}/{args.name}" if args.name else args.scope
    content = sentence("BadMemory", {"name": name, "problem": problem})
    return ToolOutput(outcome="error", reason="BadMemory", content=content)
