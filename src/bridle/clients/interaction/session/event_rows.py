"""Render an event as rows: grants, mode changes, diffs, turn results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.commands.slash_table import grant_words
from bridle.clients.interaction.questions.question_card import Row, RowStyle
from bridle.clients.interaction.render.start_info import StartLine, mode_line
from bridle.clients.interaction.render.usage import cost_words
from bridle.clients.interaction.session.effects import SayWords
from bridle.clients.interaction.state.engine_info import EngineInfo
from bridle.clients.interaction.state.view import SessionView, input_words
from bridle.protocol import events as e

_HEADING: Final = "diff --git "
_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed", "@": "faint"}
_MARKS: Final = (
    ("new file mode", "[new file]"),
    ("deleted file mode", "[deleted]"),
    ("rename from", "[renamed]"),
    ("copy from", "[copied]"),
    ("new mode", "[mode changed]"),
    ("Binary files", "[binary]"),
)


def diff_rows(text: str) -> list[Row]:
    """The rows of what git writes, and of words before and behind it. Blanks at the end of a changed line show."""
    rows: list[Row] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith(_HEADING):
            rows.append(Row(_shown(lines[at])))
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if _ends_file(lines[n])), len(lines))
        rows += _file(lines[at:end])
        at = end
    return rows


def _ends_file(line: str) -> bool:
    return not line or line.startswith(_HEADING)


def _file(lines: list[str]) -> Iterator[Row]:
    hunks = next((n for n, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head, body = lines[:hunks], lines[hunks:]
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    counts = f"+{added} -{removed}" if body else ""
    marks = (mark for start, mark in _MARKS if any(line.startswith(start) for line in head))
    yield Row("   ".join(filter(None, (_shown(_name(head)), counts, *marks))), "title")
    for line in body:
        yield Row(_shown(line), _STYLES.get(line[:1], "plain"))


def _name(head: list[str]) -> str:
    """The file's name: as it is now, or as it was where it is gone."""
    names = {line[:4]: line[4:] for line in head if line.startswith(("--- ", "+++ "))}
    for start, prefix in (("+++ ", "b/"), ("--- ", "a/")):
        name = names.get(start, "/dev/null").removesuffix("\t")
        if name != "/dev/null":
            return name.removeprefix('"').removesuffix('"').removeprefix(prefix)
    for line in head:
        if line.startswith("rename to "):
            return line.removeprefix("rename to ")
    both = head[0].removeprefix(_HEADING)
    return both[: len(both) // 2].removeprefix("a/")


def _shown(line: str) -> str:
    if line.startswith(("+", "-")):
        bare = line.rstrip(" \t")
        line = bare + "·" * (len(line) - len(bare))
    return visible(line, newlines=False).replace("\t", "    ")


_INDENT: Final = " " * 9

_QUEUE_WORDS: Final = {"hold": "held", "release": "queued", "first": "next"}


def event_rows(event: e.AnyEvent, view: SessionView) -> Sequence[SayWords | Row | StartLine]:
    """The rows, mostly none: words, lines of a diff, or a choice in columns. `view` has taken the event."""
    match event:
        case e.GrantAdded():
            return (SayWords(f"allowed  {grant_words(event)}", _INDENT),)
        case e.GrantRevoked():
            return (SayWords("revoked  the next such call asks again", _INDENT),)
        case e.ModelChanged(holds="this_turn"):  # a notice says why
            return ()
        case e.ModelChanged(holds=holds):
            later = view.in_turn and holds == "from_next_turn"
            from_when = "from the next turn on" if later else ""
            return (StartLine("model", f"{event.provider}:{event.model}", from_when),)
        case e.ModeChanged(mode=mode):
            return (mode_line(mode),)
        case e.EffortChanged(effort=effort):
            return (StartLine("effort", effort, "from the next turn on" if view.in_turn else ""),)
        case e.InputChanged(change="hold" | "release" | "first" as change, input=number):
            said = view.inputs.get(number)
            words = " ".join(input_words(said.event.content).split()) if said is not None else ""
            return (SayWords(f"{_QUEUE_WORDS[change]:<8} {words}", _INDENT),)
        case e.ContextAdded(source="diff", content=content):
            return (
                *diff_rows(e.text_of(content)),
                Row("The model reads this with your next message.", "faint"),
            )
        case _:
            return ()


def changed_words(count: int) -> str:
    """That files were changed, and where to see and to take back what; empty for none."""
    return f"changed {counted(count, 'file')} · /diff · /undo" if count else ""


def turn_words(ended: e.TurnEnded, view: SessionView, info: EngineInfo) -> str:
    """What a turn came to: its time, its steps, what it used, and how full the context is now."""
    seconds = view.turn_ms / 1000
    took = f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    costs = cost_words(
        view.used_in_turn,
        view.used,
        local=view.used_in_turn.is_local(info.is_local),
        context=view.contents.share(info.window_of(view.asked or view.model)),
        estimated=not view.contents.is_counted,
    )
    return " · ".join((took, counted(ended.steps, "step"), *costs))
