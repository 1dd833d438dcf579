"""An undo in words: what would change as a diff, what the model is told afterwards, what was cut off. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible
from bridle.protocol.events import UndoApplied
from bridle.undo.undo_plan import Plan, Step
from bridle.undo.undo_preview import Contents, Shown, is_text
from bridle.undo.undo_service import CutOff

MAX_DIFF_LINES = 400


def diff(plan: Plan, *, contents: Contents, shown: Shown, hides: Callable[[str], bool]) -> str:
    """What would change, as a unified diff from what is there now to what comes back. Secrets are not shown.

    `hides` says of an absolute path whether nothing that is in it may be shown.
    """
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
    """Why nothing came of an undo that was agreed to."""
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
    """A text without its secrets. It stays UTF-8 where it was."""
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
