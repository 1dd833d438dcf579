"""`bash`: one shell command, its output streamed as it comes."""

from __future__ import annotations

import codecs
import os
import signal
from typing import Annotated

import msgspec
from msgspec import Meta

from bridle.base.processes import CannotStart
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput
from bridle.protocol.errors import sentence

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000

_SHELLS = ("/bin/bash", "/usr/bin/bash")
_FALLBACK_SHELL = "/bin/sh"


class BashArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(min_length=1, description="Run with bash -c; stdin is empty.")]
    workdir: Annotated[str, Meta(description="Folder to start in, relative to the workspace.")] = "."
    timeout_ms: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_MS, description="Stopped after this long.")] = (
        DEFAULT_TIMEOUT_MS
    )


class _Decoded:
    """Bytes in, text out; a character split between two reads stays whole."""

    def __init__(self, context: ToolContext) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._write = context.write
        self.any = False
        self.ends_line = True

    def feed(self, data: bytes) -> None:
        self._pass_on(self._decode(data))

    def end(self) -> None:
        self._pass_on(self._decode(b"", final=True))

    def _pass_on(self, text: str) -> None:
        if text:
            self.any = True
            self.ends_line = text.endswith("\n")
            self._write(text)


async def bash(args: BashArgs, context: ToolContext) -> ToolOutput:
    output = _Decoded(context)
    try:
        process = await context.spawn(
            [_shell(context), "-c", args.command],
            cwd=context.call.resolved(args.workdir),
            env=context.env,
            policy=context.policy,
            call_id=context.call.id,
            on_output=output.feed,
        )
    except CannotStart as problem:
        return ToolOutput(
            outcome="error",
            reason="CannotStart",
            content=sentence("CannotStart", {"problem": problem.reason}),
            metadata={"sandbox": context.spawn.adapter},
        )
    try:
        exit_code = await process.wait()
    finally:
        await process.stop()  # the whole group, also when we are cancelled or out of time
        output.end()
    return ToolOutput(
        content=_trailer(exit_code, output),
        metadata={"exit_code": exit_code, "sandbox": context.spawn.adapter},
    )


def _shell(context: ToolContext) -> str:
    known = next((path for path in _SHELLS if os.access(path, os.X_OK)), None)
    if known is not None:
        return known
    import shutil  # slow to import and hardly ever needed

    return shutil.which("bash", path=context.env.get("PATH")) or _FALLBACK_SHELL


def _trailer(exit_code: int, output: _Decoded) -> str:
    """What the model must know beyond the output itself."""
    if exit_code == 0:
        return "" if output.any else "[no output]\n"
    before = "" if output.ends_line else "\n"
    if exit_code > 0:
        return f"{before}[exit code {exit_code}]\n"
    return f"{before}[killed by {_signal_name(-exit_code)}]\n"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _subjects(args: BashArgs) -> tuple[Subject, ...]:
    # The folder comes first: looked up by its value, it must not be taken for a command of the same spelling.
    return (
        Subject(kind="path", access="read", value=args.workdir),
        Subject(kind="command", access="run", value=args.command),
    )


def _timeout_s(args: BashArgs) -> float:
    return args.timeout_ms / 1000


BASH = Tool(
    name="bash",
    description=(
        "Run a shell command in the workspace and return what it prints, stdout and stderr together. Every "
        "call starts anew: no folder or variable is kept. Whatever still runs in the background at its end "
        "is stopped. 120 s unless timeout_ms says otherwise, 600 s at most."
    ),
    args=BashArgs,
    risk="shell",
    run=bash,
    concurrency="exclusive",
    subjects=_subjects,
    timeout_s=_timeout_s,
    side_effect="process",
    safety_notes=("runs with the rights the sandbox leaves it",),
)
