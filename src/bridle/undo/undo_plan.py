"""What an undo would do to each file, and whether it may: compared with what the calls left behind. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.engine.undo_records import ActionRow, CallRow, Change, Item, Lost, Missed, State
from bridle.undo.file_states import merged, same

Fate: TypeAlias = Literal["goes", "already", "conflict", "impossible"]


class Present(msgspec.Struct, frozen=True):
    """What stands at a path now, and when it last changed; None where nothing does or it cannot be told."""

    state: State | None
    changed_ms: int | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One path of a plan. `item` leads from what is there now to what shall be; `did` is what the calls did.

    `goes`: it is as the calls left it. `already`: it is as it shall be. `conflict`: it is neither, `by_turn` says which
    later turn made it so, None means somebody else. `impossible`: it cannot be put back, `why` ends a sentence.
    """

    item: Item
    did: Change
    fate: Fate
    why: str = ""
    by_turn: int | None = None
    changed_ms: int | None = None

    @property
    def path(self) -> str:
        return self.item.name


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An undo or redo before anybody agreed to it. `steps` by path; `missed` is what no undo covers."""

    calls: tuple[str, ...]
    turn: int | None
    title: str
    steps: tuple[Step, ...]
    missed: tuple[Missed, ...] = ()
    lost: tuple[Lost, ...] = ()
    """Objects that repositories miss. They are given back and never taken away again."""
    redo_of: int | None = None
    continues: int | None = None
    """An undo of these calls, or a redo, that was cut off before: this one finishes it."""

    @property
    def is_redo(self) -> bool:
        return self.redo_of is not None

    @property
    def does_something(self) -> bool:
        return bool(self.of("goes") or self.of("conflict") or self.lost or self.continues is not None)

    def of(self, fate: Fate) -> list[Step]:
        return [step for step in self.steps if step.fate == fate]


def last_unit(rows: Sequence[CallRow]) -> list[CallRow]:
    """The calls an undo without a name means: the last turn that changed something, or the last command of a person."""
    open_rows = [row for row in rows if row.kept.has_changes and not row.undone]
    if not open_rows:
        return []
    turn = open_rows[-1].turn
    if turn is None:
        return open_rows[-1:]
    return [row for row in rows if row.turn == turn and not row.undone]


def undo_steps(
    rows: Sequence[CallRow],
    later: Iterable[CallRow],
    look: Callable[[str], Present],
    cut_off: Mapping[str, Item],
) -> list[Step]:
    """The way back from what `rows` did. `later` are calls after them; `cut_off` what an earlier attempt began with."""
    changes, between = merged(rows)
    by_later = _last_writers(later)
    steps: list[Step] = []
    for path, change in sorted(changes.items()):
        present = look(path)
        step = _step(change, present, target=change.before, left=change.after)
        if step.fate == "goes" and path in between:
            step = msgspec.structs.replace(step, fate="conflict")
        elif step.fate == "conflict":
            step = msgspec.structs.replace(step, by_turn=by_later.get(path))
        elif step.fate == "already" and path in cut_off:
            step = msgspec.structs.replace(step, item=cut_off[path])
        steps.append(step)
    return steps


def redo_steps(action: ActionRow, look: Callable[[str], Present]) -> list[Step]:
    """The way back from an undo: each path as it was before it."""
    steps: list[Step] = []
    for item in sorted(action.items, key=lambda item: item.path):
        did = Change(item.path, item.after, item.before)
        steps.append(_step(did, look(item.name), target=item.before, left=item.after))
    return steps


def _step(change: Change, present: Present, *, target: State | None, left: State | None) -> Step:
    item = Item(change.path, present.state, target)
    known = Step(item=item, did=change, fate="goes", changed_ms=present.changed_ms)
    if not (_is_known(target) and _is_known(left)):
        return msgspec.structs.replace(known, fate="impossible", why=_too_large(target, left))
    if same(present.state, target):
        return msgspec.structs.replace(known, fate="already")
    if same(present.state, left):
        return known
    if not _is_known(present.state):
        return msgspec.structs.replace(
            known, fate="impossible", why="it changed and is too large to keep now"
        )
    return msgspec.structs.replace(known, fate="conflict")


def _is_known(state: State | None) -> bool:
    return state is None or state.known


def _too_large(target: State | None, left: State | None) -> str:
    unknown = target if not _is_known(target) else left
    assert unknown is not None
    if unknown.kind != "file":
        return "it is no file"
    return f"{max(1, round(unknown.size / 1e6))} MB, not kept"


def _last_writers(rows: Iterable[CallRow]) -> dict[str, int | None]:
    return {change.name: row.turn for row in rows for change in row.kept.changes}


def missed_by(rows: Sequence[CallRow]) -> tuple[Missed, ...]:
    """What the calls did, or may have done, that undo does not cover; each thing once."""
    return tuple(dict.fromkeys(missed for row in rows for missed in row.kept.missed))


def lost_by(rows: Sequence[CallRow]) -> list[Lost]:
    """The objects that repositories lost, each once."""
    found: dict[bytes, dict[str, None]] = {}
    for lost in (lost for row in rows for lost in row.kept.lost):
        found.setdefault(lost.objects, {}).update(dict.fromkeys(lost.names))
    return [Lost(objects, tuple(names)) for objects, names in found.items()]
