"""An undo in words: the preview before it, the conflicts, and what the model is told afterwards. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bridle.base.phrases import age, counted
from bridle.base.visible import visible
from bridle.protocol.events import UndoApplied
from bridle.sessions.undo_git import GIT
from bridle.sessions.undo_plan import Plan, Step
from bridle.sessions.undo_service import CutOff
from bridle.sessions.undo_states import Lost, Missed, State

MAX_COMPARED_BYTES = 256 << 10
MAX_DIFF_LINES = 400
MAX_LISTED = 40
_TITLE_CHARACTERS = 60
_NAME_COLUMNS = 40
_FEW_OF_GIT = 4
"""So many files of a repository are told one by one."""

Contents = Callable[[Step], tuple[bytes | None, bytes | None]]
Shown = Callable[[str], str]

UNDO_CHOICES = ("undo", "show the diff", "keep everything as it is")
REDO_CHOICES = ("redo", "show the diff", "keep everything as it is")
CONFLICT_CHOICES = ("skip it", "overwrite it", "stop")


def headline(plan: Plan, what: str = "") -> str:
    """The first line of a preview, as a question."""
    verb = "Redo" if plan.is_redo else "Undo"
    title = _one_line(plan.title, _TITLE_CHARACTERS)
    if what == "session":
        return f"{verb} everything this session changed?"
    if plan.turn is not None and len(plan.calls) == 1 and what:
        return f'{verb} one call of turn {plan.turn}, "{title}"?'
    if plan.turn is not None:
        return f'{verb} turn {plan.turn} "{title}"?' if title else f"{verb} turn {plan.turn}?"
    return f'{verb} what "{title}" changed?' if title else f"{verb} these changes?"


def preview(plan: Plan, *, contents: Contents, shown: Shown, now_ms: int) -> list[str]:
    """What would happen to each file, and what would not."""
    told = [step for step in plan.of("goes") if not _is_a_detail(step, plan)]
    in_git = _in_repositories(told)
    lines = _listed(
        [_line(step, plan, contents, shown) for step in told if not any(step in s for s in in_git.values())]
    )
    lines += [_repository_line(steps, folder, plan, shown) for folder, steps in in_git.items()]
    lines += [
        f"  {'deleted':<9} {_text(shown(lost.name)):<{_NAME_COLUMNS}} {'':<9} {_objects(lost)} restored"
        for lost in plan.lost
    ]
    if finished := [step for step in plan.of("already") if plan.continues is not None]:
        lines.append(f"  done already: {', '.join(_name(step, shown) for step in finished)}")
    lines += [
        f"  conflict: {conflict(step, plan, shown=shown, now_ms=now_ms)}" for step in plan.of("conflict")
    ]
    lines += [
        f"  cannot be undone: {_deed(step)} {_name(step, shown)} ({step.why})"
        for step in plan.of("impossible")
    ]
    return [*lines, *(f"  cannot be undone: {words}" for words in told_missed(plan.missed))]


def conflict(step: Step, plan: Plan, *, shown: Shown, now_ms: int) -> str:
    """Why a file is not simply put back."""
    since = "this undo" if plan.is_redo else "this turn" if plan.turn is not None else "this"
    if step.by_turn is not None:
        by = f"by turn {step.by_turn}"
    else:
        gone = step.item.before is None
        when = "" if gone or step.changed_ms is None else f", {age(now_ms - step.changed_ms)}"
        by = f"by you{when}"
    verb = "is gone since" if step.item.before is None else "changed after"
    return f"{_name(step, shown)} {verb} {since} ({by})"


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
        old, new = _masked(before), _masked(after)
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


def interrupted(cut_off: CutOff) -> str:
    """What became of an undo that Bridle did not finish."""
    what = "A redo" if cut_off.is_redo else "An undo"
    of = f" of turn {cut_off.turn}" if cut_off.turn is not None else ""
    total = len(cut_off.done) + len(cut_off.open)
    back = f"{len(cut_off.done)} of {total} files {'is' if len(cut_off.done) == 1 else 'are'} done"
    done = f" ({_named(cut_off.done)})" if cut_off.done else ""
    rest = f"; not done: {_named(cut_off.open)}" if cut_off.open else ""
    again = "/redo" if cut_off.is_redo else "/undo"
    return visible(f"{what}{of} was cut off when Bridle stopped: {back}{done}{rest}. {again} finishes it.")


def is_text(data: bytes | None) -> bool:
    return data is None or (len(data) <= MAX_COMPARED_BYTES and b"\0" not in data)


def _line(step: Step, plan: Plan, contents: Contents, shown: Shown) -> str:
    counts = _counts(step, contents)
    fate = _fate(step, plan)
    return f"  {_deed(step):<9} {_name(step, shown):<{_NAME_COLUMNS}} {counts:<9} {fate}".rstrip()


def _in_repositories(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """The files of repositories that are too many to be told one by one, by the folder of the repository."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        before, inside, _ = step.path.partition(f"/{GIT}/")
        if inside:
            found.setdefault(f"{before}/{GIT}", []).append(step)
    return {folder: inside for folder, inside in found.items() if len(inside) > _FEW_OF_GIT}


def _repository_line(steps: Sequence[Step], folder: str, plan: Plan, shown: Shown) -> str:
    names = [step.path[len(folder) + 1 :] for step in steps]
    refs = sum(name.startswith("refs/") for name in names)
    told = [name for name in ("HEAD", "index", "packed-refs", "config") if name in names]
    rest = len(names) - len(told) - refs
    told += [counted(refs, "ref")] if refs else []
    told += [counted(rest, "other file")] if rest else []
    deed = "deleted" if all(step.did.after is None for step in steps) else "changed"
    fate = "removed" if all(step.item.after is None for step in steps) else "restored"
    return f"  {deed:<9} {_text(shown(folder)):<{_NAME_COLUMNS}} {'':<9} {', '.join(told)} {fate}"


def _objects(lost: Lost) -> str:
    packs = sum(name.endswith(".pack") for name in lost.names)
    loose = sum(not name.startswith("pack/") for name in lost.names)
    told = [counted(loose, "object")] if loose else []
    return ", ".join([*told, *([counted(packs, "pack")] if packs or not loose else [])])


def _deed(step: Step) -> str:
    """What the calls did to the file."""
    if step.did.before is None:
        return "created"
    return "deleted" if step.did.after is None else "changed"


def _fate(step: Step, plan: Plan) -> str:
    """What becomes of it."""
    target, present = step.item.after, step.item.before
    if target is None:
        return "removed"
    if present is None:
        return "restored"
    if _only_mode(present, target):
        return f"mode {target.mode:o} again"
    return "changed again" if plan.is_redo else "goes back"


def _only_mode(one: State, other: State) -> bool:
    return one.kind == other.kind and one.sha256 == other.sha256 and one.target == other.target


def _is_a_detail(step: Step, plan: Plan) -> bool:
    """A folder that comes or goes with files in it is told by them."""
    states = [state for state in (step.item.before, step.item.after) if state is not None]
    if any(state.kind != "folder" for state in states) or len(states) == 2:
        return False
    return any(other.path.startswith(f"{step.path}/") for other in plan.steps if other is not step)


def _counts(step: Step, contents: Contents) -> str:
    """Lines the calls added and removed, where both sides are text."""
    before, after = step.did.before, step.did.after
    if before is None or after is None or not (before.sha256 and after.sha256) or _only_mode(before, after):
        return ""
    old, new = contents(step)
    if old is None or new is None or not (is_text(old) and is_text(new)):
        return ""
    changed = [line for line in _unified("", old, new) if not line.startswith(("---", "+++", "@@"))]
    added = sum(line.startswith("+") for line in changed)
    return f"+{added} −{sum(line.startswith('-') for line in changed)}"


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


def _masked(data: bytes | None) -> bytes | None:
    """A text without its secrets. It stays UTF-8 where it was."""
    if data is None or not is_text(data):
        return data
    from bridle.base.redact import redact  # only for this

    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def told_missed(missed: Sequence[Missed]) -> Iterator[str]:
    """What undo does not cover, one line for each reason."""
    groups: dict[str, list[str]] = {}
    for one in missed:
        groups.setdefault(one.why, []).append(visible(one.what, newlines=False))
    for why, names in groups.items():
        listed = _named(names, 3)
        match why:
            case "network":
                yield f"{counted(len(names), 'network call')} ({listed})"
            case "git":
                yield f"what git recorded ({listed}); undo gives back only what is missing there"
            case "objects":
                yield f"objects of git that could not be kept ({listed})"
            case "background":
                yield f"what {counted(len(names), 'background command')} changed later ({listed})"
            case "outside":
                yield f"outside the workspace: {listed}"
            case "skipped":
                yield f"not kept, tools make it again: {listed}"
            case "unseen":
                yield f"Bridle stopped while it ran: {listed}"
            case _:
                yield f"not looked into, the workspace is too large: {listed}"


def _name(step: Step, shown: Shown) -> str:
    return _text(shown(step.path))


def _text(name: str) -> str:
    return visible(name, newlines=False)


def _named(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(visible(name, newlines=False) for name in names[:most]) + more


def _listed(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_LISTED
    return lines if more <= 0 else [*lines[:MAX_LISTED], f"  … and {counted(more, 'more file')}"]


def _one_line(text: str, most: int) -> str:
    line = visible(" ".join(text.split()), newlines=False)
    return line if len(line) <= most else line[: most - 1] + "…"
