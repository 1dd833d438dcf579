"""An undo as it is shown: its preview, its diff, the text for the model. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from bridle.base.secrets.redact import redact
from bridle.base.text.line_diff import line_diff, lines_of
from bridle.base.text.terminal_text import visible
from bridle.engine.undo_records import Lost, Missed, State
from bridle.protocol.events import UndoApplied
from bridle.protocol.questions import (
    UndoConflict,
    UndoDeed,
    UndoFile,
    UndoImpossible,
    UndoMissed,
    UndoObjects,
    UndoPreview,
    UndoRepository,
)
from bridle.undo.repositories import GIT
from bridle.undo.undo_plan import Plan, Step
from bridle.undo.undo_service import SESSION, CutOff

MAX_COMPARED_BYTES = 256 << 10
MAX_LISTED = 40
_FEW_OF_GIT = 4
"""So many files of a repository are told one by one."""
_KNOWN_BY_NAME = ("HEAD", "index", "packed-refs", "config")

Contents = Callable[[Step], tuple[bytes | None, bytes | None]]
Shown = Callable[[str], str]


def preview(plan: Plan, what: str = "", *, contents: Contents, shown: Shown, now_ms: int) -> UndoPreview:
    """What would happen to each file, and what would not. `what` is how the person named it."""
    told = [step for step in plan.of("goes") if not _is_a_detail(step, plan)]
    in_git = _in_repositories(told)
    alone = [step for step in told if not any(step in inside for inside in in_git.values())]
    return UndoPreview(
        redo=plan.is_redo,
        scope=_scope(plan, what),
        turn=plan.turn,
        title=plan.title,
        files=tuple(_file(step, plan, contents, shown) for step in alone[:MAX_LISTED]),
        more_files=max(0, len(alone) - MAX_LISTED),
        repositories=tuple(_repository(steps, folder, shown) for folder, steps in in_git.items()),
        objects=tuple(_objects(lost, shown) for lost in plan.lost),
        done=tuple(shown(step.path) for step in plan.of("already") if plan.continues is not None),
        conflicts=tuple(conflict(step, plan, shown=shown, now_ms=now_ms) for step in plan.of("conflict")),
        impossible=tuple(
            UndoImpossible(path=shown(step.path), did=_deed(step), why=step.why)
            for step in plan.of("impossible")
        ),
        missed=missed(plan.missed),
    )


def conflict(step: Step, plan: Plan, *, shown: Shown, now_ms: int) -> UndoConflict:
    gone = step.item.before is None
    age_ms = None if gone or step.changed_ms is None else max(0, now_ms - step.changed_ms)
    return UndoConflict(
        path=shown(step.path),
        since="undo" if plan.is_redo else "turn" if plan.turn is not None else "calls",
        gone=gone,
        by_turn=step.by_turn,
        age_ms=None if step.by_turn is not None else age_ms,
    )


def missed(what: Iterable[Missed]) -> tuple[UndoMissed, ...]:
    groups: dict[str, list[str]] = {}
    for one in what:
        groups.setdefault(one.why, []).append(one.what)
    return tuple(UndoMissed(why=why, names=tuple(names)) for why, names in groups.items())


def is_text(data: bytes | None) -> bool:
    return data is None or (len(data) <= MAX_COMPARED_BYTES and b"\0" not in data)


def _scope(plan: Plan, what: str) -> Literal["turn", "call", "session", "calls"]:
    if what == SESSION:
        return "session"
    if plan.turn is None:
        return "calls"
    return "call" if len(plan.calls) == 1 and what else "turn"


def _file(step: Step, plan: Plan, contents: Contents, shown: Shown) -> UndoFile:
    target, present = step.item.after, step.item.before
    added, removed = _counts(step, contents)
    file = UndoFile(path=shown(step.path), did=_deed(step), becomes="removed", added=added, removed=removed)
    if target is None:
        return file
    if present is None:
        return msgspec.structs.replace(file, becomes="restored")
    if _only_mode(present, target):
        return msgspec.structs.replace(file, becomes="mode", mode=target.mode)
    return msgspec.structs.replace(file, becomes="changed again" if plan.is_redo else "goes back")


def _in_repositories(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """The files of repositories that are too many to be told one by one, by the folder of the repository."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        before, inside, _ = step.path.partition(f"/{GIT}/")
        if inside:
            found.setdefault(f"{before}/{GIT}", []).append(step)
    return {folder: inside for folder, inside in found.items() if len(inside) > _FEW_OF_GIT}


def _repository(steps: Sequence[Step], folder: str, shown: Shown) -> UndoRepository:
    names = [step.path[len(folder) + 1 :] for step in steps]
    refs = sum(name.startswith("refs/") for name in names)
    known = tuple(name for name in _KNOWN_BY_NAME if name in names)
    return UndoRepository(
        path=shown(folder),
        did="deleted" if all(step.did.after is None for step in steps) else "changed",
        becomes="removed" if all(step.item.after is None for step in steps) else "restored",
        names=known,
        refs=refs,
        others=len(names) - len(known) - refs,
    )


def _objects(lost: Lost, shown: Shown) -> UndoObjects:
    return UndoObjects(
        path=shown(lost.name),
        loose=sum(not name.startswith("pack/") for name in lost.names),
        packs=sum(name.endswith(".pack") for name in lost.names),
    )


def _deed(step: Step) -> UndoDeed:
    if step.did.before is None:
        return "created"
    return "deleted" if step.did.after is None else "changed"


def _only_mode(one: State, other: State) -> bool:
    return one.kind == other.kind and one.sha256 == other.sha256 and one.target == other.target


def _is_a_detail(step: Step, plan: Plan) -> bool:
    """A folder that comes or goes with files in it is told by them."""
    states = [state for state in (step.item.before, step.item.after) if state is not None]
    if any(state.kind != "folder" for state in states) or len(states) == 2:
        return False
    return any(other.path.startswith(f"{step.path}/") for other in plan.steps if other is not step)


def _counts(step: Step, contents: Contents) -> tuple[int | None, int | None]:
    before, after = step.did.before, step.did.after
    if before is None or after is None or not (before.sha256 and after.sha256) or _only_mode(before, after):
        return None, None
    old, new = contents(step)
    if old is None or new is None or not (is_text(old) and is_text(new)):
        return None, None
    diff = line_diff(*(lines_of(data.decode("utf-8", "replace")) for data in (old, new)))
    return diff.added, diff.removed


MAX_DIFF_LINES = 400


def diff(plan: Plan, *, contents: Contents, shown: Shown, hides: Callable[[str], bool]) -> str:
    """Return a unified diff from what is there now to what comes back, without secrets and without files that
    `hides` names."""
    parts: list[str] = []
    for step in plan.of("goes"):
        name = _name(step, shown)
        if hides(step.path):
            parts.append(f"{name}: secret-looking, not shown")
            continue
        before, after = contents(step)
        old, new = masked(before), masked(after)
        if old == new and before != after:
            parts.append(f"{name}: what changes is secret-looking, not shown")
            continue
        parts += _unified(name, old, new) if plan.is_redo else _unified(name, new, old)
    lines = "\n".join(parts).split("\n")
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"… {len(lines) - MAX_DIFF_LINES} more lines"]
    return "\n".join(lines)


def for_the_model(applied: UndoApplied, plan: Plan) -> str:
    """One message at the tail of the conversation: the files are not what the model last saw."""
    what = f"turn {plan.turn}" if plan.turn is not None else "earlier calls"
    verb = "did again" if applied.redone else "undid"
    state = "as they were after it" if applied.redone else "as they were before it"
    lines = [f"I {verb} what {what} changed. These files are {state}: {_named(applied.paths)}."]
    if applied.left:
        lines.append(f"These stayed as they are: {_named(applied.left)}.")
    lines.append("Read them again before you change them.")
    return " ".join(lines)


def not_done(plan: Plan, *, undo: str = "/undo", redo: str = "/redo") -> str:
    if not plan.of("goes"):
        return "Nothing was changed."
    again = redo if plan.is_redo else undo
    return f"Nothing was changed: the files are no longer what was shown. Look again: {again}"


def interrupted(cut_off: CutOff, *, undo: str = "/undo", redo: str = "/redo") -> str:
    """What became of an undo that Bridle did not finish."""
    what = "A redo" if cut_off.is_redo else "An undo"
    of = f" of turn {cut_off.turn}" if cut_off.turn is not None else ""
    total = len(cut_off.done) + len(cut_off.open)
    back = f"{len(cut_off.done)} of {total} files {'is' if len(cut_off.done) == 1 else 'are'} done"
    done = f" ({_named(cut_off.done)})" if cut_off.done else ""
    rest = f"; not done: {_named(cut_off.open)}" if cut_off.open else ""
    again = redo if cut_off.is_redo else undo
    return visible(f"{what}{of} was cut off when Bridle stopped: {back}{done}{rest}. {again} finishes it.")


def _unified(name: str, old: bytes | None, new: bytes | None) -> list[str]:
    if not (is_text(old) and is_text(new)):
        return [f"{name}: no text, or too large to compare"]
    from difflib import unified_diff  # slow to import and only for this

    before, after = ((data or b"").decode("utf-8", "replace").splitlines() for data in (old, new))
    source, target = (
        (f"a/{name}" if old is not None else "/dev/null"),
        (f"b/{name}" if new is not None else "/dev/null"),
    )
    return list(unified_diff(before, after, source, target, lineterm="", n=3))


def masked(data: bytes | None) -> bytes | None:
    if data is None or not is_text(data):
        return data
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _name(step: Step, shown: Shown) -> str:
    return _text(shown(step.path))


def _text(name: str) -> str:
    return visible(name, newlines=False)


def _named(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(visible(name, newlines=False) for name in names[:most]) + more
