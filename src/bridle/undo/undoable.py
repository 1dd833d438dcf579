"""The layer that makes calls undoable: what the files were on the way in, what they are on the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from bridle.base.fs.files import read_each
from bridle.base.threads import to_the_end
from bridle.engine.known_files import MAX_DIGESTED_BYTES, SEEN, digests, seen_in
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.display_values import ShownCommand
from bridle.protocol.events import DurableEvent, Notice
from bridle.undo.keeper import Begun, Keeper

_MAX_TOLD = 200
"""Of a command that changes more files than this, the model knows what it did to the first ones."""


def undoable(
    make_keeper: Callable[[], Keeper], stopwatch: Stopwatch, emit: Callable[[DurableEvent], object]
) -> ToolLayer:
    """Stands outside `recorded`: what is kept is on the disk with the intent, before the call begins.

    However the call ends, cancelled too, what it changed is stored with the result. The keeper is made for the first
    call that may change files. A repository that lost something is told at once.
    """
    made: list[Keeper] = []

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if not call.mutating or call.definition.side_effect in ("none", "network"):
            return await proceed(call)
        if not made:
            made.append(make_keeper())
        keeper = made[0]
        with stopwatch.measure("undo.before"):
            begun = await _begun(keeper, call)
        try:
            output = await proceed(call)
        finally:
            with stopwatch.measure("undo.after"):
                ran = bool(call.begun)
                await to_the_end(keeper.end(begun, ran=ran))
                for words in keeper.untold():
                    emit(Notice(reason="RepositoryDamaged", message=words))
        changed = keeper.changed()
        output = _with_changed(output, keeper.names(changed)[:_MAX_TOLD])
        there = [change.name for change in changed if change.after is not None]
        return await _with_known(output, there[:_MAX_TOLD])

    return layer


def _with_changed(output: ToolOutput, names: list[str]) -> ToolOutput:
    """The output, by which people also see which files a command changed."""
    if not names:
        return output
    shown = output.shown
    if not isinstance(shown, ShownCommand):
        return output
    return msgspec.structs.replace(output, shown=msgspec.structs.replace(shown, changed=tuple(names)))


async def _with_known(output: ToolOutput, changed: list[str]) -> ToolOutput:
    """The output, by which the model also knows the files its command changed, whatever it named."""
    if not changed:
        return output
    now = await asyncio.to_thread(lambda: digests(read_each(changed, MAX_DIGESTED_BYTES)))
    return msgspec.structs.replace(output, metadata=output.metadata | {SEEN: seen_in(output.metadata) | now})


async def _begun(keeper: Keeper, call: ToolCall) -> Begun:
    """The beginning, stored. Where the call is cancelled meanwhile, it is also over."""
    beginning = asyncio.ensure_future(keeper.begin(call))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        await asyncio.wait((beginning,))
        if beginning.exception() is None:
            await to_the_end(keeper.end(beginning.result(), ran=False))
        raise
