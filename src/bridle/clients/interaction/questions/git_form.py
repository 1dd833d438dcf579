"""The question before a git command, and its report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.lookalikes import mark_lookalikes
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.questions.question_card import Choice, Edit, Form, Row, marked_line
from bridle.protocol.events import GitEnded
from bridle.protocol.questions import GitAnswer, GitQuestion

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
    """What came of a git command."""
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
