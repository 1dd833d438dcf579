"""The question before an undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.phrases import age, counted
from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.questions.question_card import Choice, Form, Row
from bridle.protocol.questions import (
    ConflictAnswer,
    ConflictQuestion,
    UndoAnswer,
    UndoConflict,
    UndoFile,
    UndoMissed,
    UndoObjects,
    UndoPreview,
    UndoQuestion,
    UndoRepository,
)


def undo_form(asked: UndoQuestion) -> Form:
    keep = UndoAnswer(choice="keep")
    return Form(
        title=undo_headline(asked.preview),
        body=tuple(map(Row, undo_lines(asked.preview))),
        choices=(
            Choice("y", "redo" if asked.preview.redo else "undo", UndoAnswer(choice="go")),
            Choice("d", "diff", UndoAnswer(choice="diff")),
            Choice("n", "", keep),
        ),
        inline=True,
        hint="Enter keep",
        refusal=keep,
    )


def conflict_form(asked: ConflictQuestion) -> Form:
    """Ask about one file. A redo cannot bring back the version it overwrites."""
    kept = "not kept" if asked.conflict.since == "undo" else "kept for /redo"
    stop = ConflictAnswer(choice="stop")
    return Form(
        title=f"{conflict_words(asked.conflict)}.",
        choices=(
            Choice("s", "skip it", ConflictAnswer(choice="skip")),
            Choice("o", f"overwrite (your version is {kept})", ConflictAnswer(choice="overwrite")),
            Choice("n", "", stop),
        ),
        inline=True,
        hint="Enter stop",
        refusal=stop,
    )


_TITLE_CHARACTERS: Final = 60
_NAME_COLUMNS: Final = 40


def undo_headline(preview: UndoPreview) -> str:
    """The first line, as a question."""
    verb = "Redo" if preview.redo else "Undo"
    title = _one_line(preview.title, _TITLE_CHARACTERS)
    match preview.scope:
        case "session":
            return f"{verb} everything this session changed?"
        case "call":
            return f'{verb} one call of turn {preview.turn}, "{title}"?'
        case "turn":
            return f'{verb} turn {preview.turn} "{title}"?' if title else f"{verb} turn {preview.turn}?"
        case "calls":
            return f'{verb} what "{title}" changed?' if title else f"{verb} these changes?"


def undo_lines(preview: UndoPreview) -> list[str]:
    """What would happen to each file, and what would not."""
    lines = [_row(file.did, file.path, _counts(file), _fate(file)) for file in preview.files]
    if preview.more_files:
        lines.append(f"  … and {counted(preview.more_files, 'more file')}")
    lines += [_row(one.did, one.path, "", f"{_inside(one)} {one.becomes}") for one in preview.repositories]
    lines += [_row("deleted", one.path, "", f"{_objects(one)} restored") for one in preview.objects]
    if preview.done:
        lines.append(f"  done already: {', '.join(map(visible_line, preview.done))}")
    lines += [f"  conflict: {conflict_words(one)}" for one in preview.conflicts]
    lines += [
        f"  cannot be undone: {one.did} {visible_line(one.path)} ({one.why})" for one in preview.impossible
    ]
    return [*lines, *(f"  cannot be undone: {words}" for words in missed_words(preview.missed))]


def conflict_words(conflict: UndoConflict) -> str:
    """Why a file is not simply put back."""
    since = {"undo": "this undo", "turn": "this turn", "calls": "this"}[conflict.since]
    if conflict.by_turn is not None:
        by = f"by turn {conflict.by_turn}"
    else:
        by = "by you" if conflict.age_ms is None else f"by you, {age(conflict.age_ms)}"
    return f"{visible_line(conflict.path)} {'is gone since' if conflict.gone else 'changed after'} {since} ({by})"


def missed_words(missed: Sequence[UndoMissed]) -> Iterator[str]:
    """What undo does not cover, one line for each reason."""
    for one in missed:
        listed = _named(one.names, 3)
        match one.why:
            case "network":
                yield f"{counted(len(one.names), 'network call')} ({listed})"
            case "git":
                yield f"what git recorded ({listed}); undo gives back only what is missing there"
            case "objects":
                yield f"objects of git that could not be kept ({listed})"
            case "background":
                yield f"what {counted(len(one.names), 'background command')} changed later ({listed})"
            case "outside":
                yield f"outside the workspace: {listed}"
            case "skipped":
                yield f"not kept, tools make it again: {listed}"
            case "unseen":
                yield f"Bridle stopped while it ran: {listed}"
            case _:
                yield f"not looked into, the workspace is too large: {listed}"


def _row(did: str, path: str, counts: str, fate: str) -> str:
    return f"  {did:<9} {visible_line(path):<{_NAME_COLUMNS}} {counts:<9} {fate}".rstrip()


def _counts(file: UndoFile) -> str:
    return "" if file.added is None else f"+{file.added} \u2212{file.removed}"


def _fate(file: UndoFile) -> str:
    return f"mode {file.mode:o} again" if file.becomes == "mode" else file.becomes


def _inside(repository: UndoRepository) -> str:
    told = list(repository.names)
    told += [counted(repository.refs, "ref")] if repository.refs else []
    told += [counted(repository.others, "other file")] if repository.others else []
    return ", ".join(told)


def _objects(objects: UndoObjects) -> str:
    told = [counted(objects.loose, "object")] if objects.loose else []
    return ", ".join(
        [*told, *([counted(objects.packs, "pack")] if objects.packs or not objects.loose else [])]
    )


def _named(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(visible_line, names[:most])) + more


def _one_line(text: str, most: int) -> str:
    line = visible_line(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"
