"""What is kept of the files of a session whose store is the memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from hashlib import sha256

import msgspec

from bridle.engine.undo_records import DAYS_KEPT, ActionRow, CallRow, Contents, Item, Kept, NewCall, State
from bridle.protocol.events import InputAccepted, TurnStarted, text_of
from bridle.sessions.memory_session import Memory, MemorySession

_DAY_MS = 24 * 3600 * 1000


class MemoryUndo:
    """Implements `engine.store_ports.UndoStore`. `refuse_lost` raises once another has the log."""

    def __init__(self, memory: Memory, kept: MemorySession, refuse_lost: Callable[[], None]) -> None:
        self._memory = memory
        self._kept = kept
        self._refuse_lost = refuse_lost

    @contextmanager
    def elsewhere(self) -> Generator[MemoryUndo]:
        yield self

    @contextmanager
    def _changing(self) -> Generator[None]:
        with self._memory.lock:
            self._refuse_lost()
            yield

    # Contents

    def keep(self, contents: Contents, now_ms: int) -> None:
        with self._changing():
            self._memory.contents.update(contents)
            self._memory.awaited.update(dict.fromkeys(contents, now_ms))

    def content(self, digest: bytes) -> bytes | None:
        found = self._memory.contents.get(digest)
        return None if found is None or sha256(found).digest() != digest else found

    def stored(self, digests: Iterable[bytes]) -> set[bytes]:
        return {digest for digest in digests if digest in self._memory.contents}

    def sweeps(self) -> int:
        return self._memory.sweeps

    # Calls

    def next_number(self) -> int:
        return max((call.number for call in self._kept.calls), default=0) + 1

    def begin(self, call: NewCall, contents: Contents) -> None:
        with self._changing():
            self._memory.contents.update(contents)
            about = msgspec.structs.asdict(call)
            self._kept.calls.append(CallRow(**about, open=True, undone=False))

    def begin_whole(self, call: NewCall, contents: Contents, *, sweeps: int) -> bool:
        with self._changing():
            if sweeps != self._memory.sweeps:
                relied_on = call.kept.named() - contents.keys()
                if not relied_on <= self._memory.contents.keys():
                    return False
            self.begin(call, contents)
            return True

    def end(self, number: int, kept: Kept, contents: Contents | None = None) -> None:
        with self._changing():
            if kept.leaves_a_trace:
                self._memory.contents.update(contents or {})
            self._kept.calls = [
                call if call.number != number else msgspec.structs.replace(call, open=False, kept=kept)
                for call in self._kept.calls
                if call.number != number or kept.leaves_a_trace
            ]

    def calls(self) -> list[CallRow]:
        return list(self._kept.calls)

    def calls_nearby(self) -> list[CallRow]:
        with self._memory.lock:
            here = [one for one in self._memory.sessions.values() if one.row.cwd == self._kept.row.cwd]
            with_calls = [one.calls for one in here if one.calls]
            return list(with_calls[-1]) if with_calls else []

    # Undos

    def begin_action(
        self,
        items: Sequence[Item],
        *,
        calls: Sequence[str],
        turn: int | None,
        redo_of: int | None,
        started_ms: int,
    ) -> int:
        with self._changing():
            number = max((action.number for action in self._kept.actions), default=0) + 1
            self._kept.actions.append(
                ActionRow(
                    number=number,
                    calls=tuple(calls),
                    turn=turn,
                    redo_of=redo_of,
                    done=False,
                    reversed=False,
                    started_ms=started_ms,
                    items=tuple(items),
                )
            )
            return number

    def close_action(self, number: int) -> None:
        with self._changing():
            self._kept.actions = [
                action for action in self._kept.actions if action.number != number or action.done
            ]

    def actions(self) -> list[ActionRow]:
        return list(self._kept.actions)

    def title_of(self, turn: int) -> str:
        for record in self._kept.records:
            envelope = record.envelope
            if envelope.turn == turn and not envelope.agent_path and isinstance(envelope.event, TurnStarted):
                begun = self._kept.records[envelope.event.input - 1].envelope.event
                return text_of(begun.content) if isinstance(begun, InputAccepted) else ""
        return ""

    # Age

    def forget_old(self, now_ms: int) -> bool:
        before_ms = now_ms - DAYS_KEPT * _DAY_MS
        with self._memory.lock:
            everyone = list(self._memory.sessions.values())
            if all(call.started_ms >= before_ms for one in everyone for call in one.calls):
                return False
            for one in everyone:
                one.actions = [action for action in one.actions if action.started_ms >= before_ms]
                if all(call.started_ms < before_ms for call in one.calls):
                    one.calls = []
            sweep_contents(self._memory, now_ms)
            return True


def sweep_contents(memory: Memory, now_ms: int) -> None:
    """Drops the contents that no call and no undo names any more; one that is still awaited stays for a day."""
    memory.awaited = {digest: ms for digest, ms in memory.awaited.items() if ms >= now_ms - _DAY_MS}
    needed = set(memory.awaited)

    def need(states: Iterable[State | None]) -> None:
        needed.update(state.sha256 for state in states if state is not None)

    for one in memory.sessions.values():
        for call in one.calls:
            needed |= call.kept.named()
            need(state for change in call.kept.changes for state in (change.before, change.after))
        for action in one.actions:
            need(state for item in action.items for state in (item.before, item.after))
    kept = {digest: data for digest, data in memory.contents.items() if digest in needed}
    if len(kept) < len(memory.contents):
        memory.contents = kept
        memory.sweeps += 1
