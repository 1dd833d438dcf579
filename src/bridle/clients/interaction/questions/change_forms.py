"""The questions before a git command and before an undo, and the report of a git command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.lookalikes import mark_lookalikes
from bridle.base.text.phrases import age, counted, shortened
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.questions.question_card import Choice, Edit, Form, Row, marked_line
from bridle.protocol.events import GitEnded
from bridle.protocol.questions import (
    ConflictAnswer,
    ConflictQuestion,
    GitAnswer,
    GitQuestion,
    UndoAnswer,
    UndoConflict,
    UndoFile,
    UndoMissed,
    UndoObjects,
    UndoPreview,
    UndoQuestion,
    UndoRepository,
)

OUTPUT_LINES: Final = 12
"""So many lines are shown of what a command said that failed."""
_NAMED: Final = 5


def git_form(asked: GitQuestion) -> Form:
    """Show the message, the files and the commands, then where and with which hooks they run."""
    commits = _commits(asked)
    keep = GitAnswer(choice="keep")
    go = Choice("y", _YES[asked.deed], GitAnswer(choice="go"))
    edit = Choice(
        "e",
        "edit the message" if asked.message else "write one",
        Edit(asked.message, lambda text: GitAnswer(choice="edit", text=text)),
    )
    return Form(
        title=_title(asked),
        body=tuple(_body(asked)),
        context=tuple(_context(asked)),
        choices=(
            *((go,) if asked.message or not commits else ()),
            *((edit,) if commits else ()),
            Choice("n", "no (Enter)", keep),
        ),
        inline=True,
        hint="or say what to change" if commits and asked.message else "",
        refusal=keep,
        in_words=(lambda text: GitAnswer(choice="draft", text=text)) if commits else None,
    )


_YES: Final = {
    "branch": "yes",
    "commit": "commit",
    "publish": "go on",
    "worktree": "yes",
    "stash": "yes",
    "merge": "bring them here",
    "drop": "drop it",
}


def _commits(asked: GitQuestion) -> bool:
    return asked.deed in ("commit", "publish") and bool(asked.files)


def _title(asked: GitQuestion) -> str:
    match asked.deed:
        case "branch":
            return "Make this branch?"
        case "worktree":
            return "Make this worktree?"
        case "stash":
            return "Put what changed aside?"
        case "merge":
            return f"Bring the changes of {marked_line(asked.branch)} into your working tree?"
        case "drop":
            return (
                f"Drop the worktree and the branch {marked_line(asked.branch)} with what was changed there?"
            )
        case "commit" | "publish":
            files = len(asked.files) + asked.more_files
            what = f"Commit {counted(files, 'file')}" if files else "Nothing to commit"
            where = f" on {marked_line(asked.branch)}" if asked.branch and files else ""
            if asked.deed == "commit":
                return f"{what}{where}?"
            then = ", push and open a pull request?" if files else ". Push and open a pull request?"
            return f"{what}{where}{then}"


def _body(asked: GitQuestion) -> Iterator[Row]:
    if _commits(asked):
        lines = asked.message.split("\n") if asked.message else [f"(no message: {asked.no_draft})"]
        yield from (Row(f"    {visible(mark_lookalikes(line, prose=True))}".rstrip()) for line in lines)
        yield Row("")
    yield from (Row(f"  {file.did:<8} {marked_line(file.path)}") for file in asked.files)
    if asked.more_files:
        yield Row(f"  … and {counted(asked.more_files, 'more file')}")
    for command in asked.commands:
        yield Row(f"  $ {marked_line(shlex.join(command))}")


def _context(asked: GitQuestion) -> Iterator[str]:
    if _commits(asked) and asked.new_files:
        more = asked.more_new_files + len(asked.new_files[_NAMED:])
        named = ", ".join(map(marked_line, asked.new_files[:_NAMED])) + (f" and {more} more" if more else "")
        yield f"not in it, because git does not know it: {named}   (!git add FILE)"
    if _commits(asked) and not asked.branch:
        yield "No branch is checked out: without one the commit is hard to find again (/branch NAME)"
    if asked.merges:
        yield "This ends the merge that is under way."
    if _commits(asked) and asked.message and asked.no_draft:
        yield f"No other message: {visible(asked.no_draft)}"
    hooks = ", ".join(
        f"{marked_line(hook.path)}{' (changed since the last commit)' if hook.changed else ''}"
        for hook in asked.hooks
    )
    runs = f" · runs {hooks}" if hooks else ""
    yield f"in {marked_line(asked.cwd)} · as you, outside the sandbox{runs}"


def git_lines(ended: GitEnded) -> Sequence[str]:
    if ended.reason is not None:
        return tuple(_failed(ended))
    return tuple(_succeeded(ended))


def _failed(ended: GitEnded) -> Iterator[str]:
    last = ended.runs[-1] if ended.runs else None
    if last is not None and last.exit_code:
        lines = visible(last.output).rstrip("\n").split("\n")
        if len(lines) > OUTPUT_LINES:
            yield f"    … {counted(len(lines) - OUTPUT_LINES, 'line')} before"
        yield from (f"    {line}" for line in lines[-OUTPUT_LINES:])
    if draft := ended.data.get("draft"):
        yield from (f"    {line}".rstrip() for line in visible(str(draft)).split("\n"))
    yield visible(ended.message)


def _succeeded(ended: GitEnded) -> Iterator[str]:
    data = {name: marked_line(str(value)) for name, value in ended.data.items()}
    branch = data.get("branch", "")
    if commit := data.get("commit"):
        where = f"    on {branch}" if branch else ""
        yield f"commit   {commit} {data.get('subject', '')}{where}"
    match ended.name:
        case "branch":
            yield f"branch   {branch}, checked out"
        case "worktree":
            yield f"worktree {data.get('path', '')} on {branch}    Work there: cd {data.get('path', '')}; bridle"
        case "stash":
            yield f"stashed  {data.get('stash', '')}    Bring it back: !git stash pop"
        case "worktrees":
            yield from visible(str(ended.data.get("told", ""))).splitlines()
            if merged := data.get("merged"):
                yield f"merged   {data.get('files', '')}, not committed yet"
                yield f"         Be rid of the worktree: /worktrees drop {merged}"
            if dropped := data.get("dropped"):
                yield f"dropped  {dropped}"
        case "commit-push-pr":
            existed = " (it was there already)" if data.get("existed") else ""
            yield f"request  {data.get('pull_request', '') or 'opened'}{existed}"
        case _:
            pass


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
    title = shortened(visible_line(" ".join(preview.title.split())), _TITLE_CHARACTERS)
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
