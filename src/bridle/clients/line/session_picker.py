"""The list of sessions at a terminal: drawn below what is there, gone when somebody has chosen."""

from __future__ import annotations

import asyncio

from bridle.base.clock import Clock, SystemClock, Timer
from bridle.clients.interaction.composer.keys import Key
from bridle.clients.interaction.composer.picker import (
    Deed,
    Gone,
    Picked,
    Picker,
    picker_lines,
    press,
    relisted,
    unwarned,
)
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.interaction.session.opening import ChangeSession
from bridle.clients.line.footer import HINT_S
from bridle.clients.line.page import Ink, Page, Prompt
from bridle.clients.line.terminal import Terminal
from bridle.protocol.errors import BridleError


async def pick(
    picker: Picker, terminal: Terminal, clock: Clock | None = None, *, do: ChangeSession | None = None
) -> str | None:
    """The id of the session a person chose, or None if they left. A fork of one is chosen by making it.

    Where nobody can choose, the list is printed and the answer is None, at once. Where nothing can be redrawn, it is
    printed again after each change.
    """
    clock = clock or SystemClock()
    page = Page(
        terminal.write,
        columns=lambda: terminal.columns,
        rows=lambda: terminal.rows,
        moves=terminal.look.moves,
    )
    if not terminal.interactive:
        page.lines([[Ink(line)] for line in picker_lines(picker, columns=terminal.columns)])
        return None
    pressed: asyncio.Queue[list[Key] | None] = asyncio.Queue()
    warning: Timer | None = None

    def draw() -> None:
        page.prompt(picker_prompt(picker, columns=terminal.columns, rows=terminal.rows))

    def forget_warning() -> None:
        nonlocal picker
        picker = unwarned(picker)
        draw()

    async def chosen_with(keys: list[Key]) -> Picked | Gone | None:
        """What keys come to, one after the other: what one of them does is done before the next counts."""
        nonlocal picker
        for key in keys:
            picker, choice = press(picker, key)
            match choice:
                case Picked() | Gone():
                    return choice
                case Deed() as deed if do is not None:
                    try:
                        sessions = await do(deed)
                    except BridleError as failure:
                        picker = relisted(picker, picker.sessions, failure.message)
                        continue
                    picker = relisted(picker, sessions)
                    if deed.what == "fork":
                        return Picked(sessions[0].id)
                case _:
                    pass
        return None

    with terminal.raw(), terminal.listening(pressed.put_nowait, lambda: pressed.put_nowait(None)):
        draw()
        try:
            while (keys := await pressed.get()) is not None:
                choice = await chosen_with(keys)
                if warning is not None:
                    warning.cancel()
                if choice is not None:
                    return choice.id if isinstance(choice, Picked) else None
                if picker.warned:
                    warning = clock.call_later(HINT_S, forget_warning)
                draw()
            return None
        finally:
            if warning is not None:
                warning.cancel()
            page.leave()


def picker_prompt(picker: Picker, *, columns: int, rows: int) -> Prompt:
    """The list above the line that filters it."""
    lines = tuple(picker_lines(picker, columns=max(columns - 1, 0), rows=rows))
    return Prompt(lead=MARK, cells=tuple(picker.filter), at=len(picker.filter), hints=lines)
