"""Text about one tool call: its name, its outcome, its output, and why it did not run.

A call *ran*, was *not run*, or its end is *unknown*. A line about a call that did not run never has an exit code or a
duration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import Any, Final, assert_never

from bridle.base.text.phrases import agent_words, counted, shortened
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.render.session_fold import Call, edited_files
from bridle.protocol import display_values as d
from bridle.protocol import events as e
from bridle.protocol.display_values import ShownCommand

LIVE_LINES: Final = 5
"""So many of a command that runs are drawn in place."""

_LINES = 2, 2
_LINES_OF_FAILURE = 3, 11
_LEFT_OUT = r"\n\[… ([0-9]+) bytes left out; [^\n]*\]\n"
_COLOUR = r"\x1b\[([0-9;:]*)m"


def excerpt(result: e.ToolResult, *, more: str = "") -> list[str]:
    """The first and the last lines as they were printed, more of them where it failed.

    Between them stands how many there were, and `more`: where to see them. What only says to the model how it ended is
    left out; a person is told that beside.
    """
    shown = result.shown if isinstance(result.shown, ShownCommand) else None
    lines = output_lines(printed_text(result))
    if lines == [""]:
        return []
    failed = result.outcome != "ok" or (shown is not None and shown.exit_code not in (0, None))
    first, last = _LINES_OF_FAILURE if failed else _LINES
    if len(lines) <= first + last + 1:
        return lines
    total = max(len(lines), shown.lines if shown else 0)
    return [*lines[:first], f"… {counted(total, 'line')}{more}", *lines[-last:]]


def printed_text(result: e.ToolResult) -> str:
    """The output of a command, without notes for the model about its end and about output that was left out."""
    shown = result.shown
    text = _without_end(result.content, shown) if isinstance(shown, ShownCommand) else result.content
    return (
        re.sub(_LEFT_OUT, r"\n… \1 bytes more: /output\n", text) if "truncated" in result.metadata else text
    )


def _without_end(text: str, shown: ShownCommand) -> str:
    """The text without the line that says how it ended; what the sandbox said behind it stays."""
    code = shown.exit_code or 0
    begin = f"[exit code {code}]\n" if code > 0 else "[killed by " if code < 0 else "[no output]\n"
    at = text.rfind(begin)
    if at < 0 or (code == 0 and shown.lines):
        return text
    return text[:at] + text[at:].partition("\n")[2]


def output_lines(text: str) -> list[str]:
    """The lines of an output, whatever ends them; one empty line where there is none."""
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")


def last_lines(text: str) -> list[str]:
    """The end of what a command has printed so far, in plain words."""
    return [plain_line(line) for line in output_lines(text)[-LIVE_LINES:]] if text.strip() else []


def plain_line(line: str) -> str:
    """A line of output without its colours; whatever else a terminal would obey is written out."""
    return visible_line("".join(text for text, _ in coloured_parts(line)))


def coloured_parts(line: str) -> Iterator[tuple[str, str]]:
    """A line in pieces of one look, each with the codes that give it: colours of letters, bold, italic, underlined.

    Codes for other looks are dropped, as some hide text; whatever else a terminal would obey is still in the text.
    """
    at, look = 0, list[str]()
    for code in re.finditer(_COLOUR, line):
        if code.start() > at:
            yield line[at : code.start()], ";".join(look)
        at = code.end()
        look = _changed(look, code[1].replace(":", ";").split(";"))
    if at < len(line):
        yield line[at:], ";".join(look)


def _changed(look: list[str], numbers: list[str]) -> list[str]:
    """The look after one code."""
    look = list(look)
    while numbers:
        number = numbers.pop(0).lstrip("0")
        if number == "":
            look.clear()
        elif number in ("38", "48", "58"):
            taken = 2 if numbers[:1] == ["5"] else 4 if numbers[:1] == ["2"] else 0
            if number == "38" and len(numbers) >= taken > 0:
                look = [*_colourless(look), ";".join((number, *numbers[:taken]))]
            del numbers[:taken]
        elif number == "39":
            look = _colourless(look)
        elif _is_colour(number):
            look = [*_colourless(look), number]
        elif number in ("1", "2", "3", "4") and number not in look:
            look.append(number)
        elif number in ("22", "23", "24"):
            gone = {"22": ("1", "2"), "23": ("3",), "24": ("4",)}[number]
            look = [one for one in look if one not in gone]
    return look


def _is_colour(number: str) -> bool:
    return len(number) == 2 and number[0] in "39" and number[1] in "01234567"


def _colourless(look: list[str]) -> list[str]:
    return [one for one in look if one in ("1", "2", "3", "4")]


COMMAND_WIDTH = 60
REASON_WIDTH = 120

_TERMINAL = "the terminal"
"""Name of the user at the engine's own terminal, whose token has no name."""
_JUDGEMENTS = {"happened": "it happened", "did not happen": "it did not", "undone": "undone"}
_VERBS = {
    "read_file": "read",
    "write_file": "write",
    "edit_file": "edit",
    "apply_patch": "patch",
    "ask_user": "ask",
    "web_fetch": "fetch",
}
_PLAIN = frozenset(" ./:=@%+,_-")
"""Beside letters and digits, characters that a rule takes literally: no wildcard, nothing a shell interprets."""
_ENDED = frozenset({"ok", "error", "timeout"})
_CHANGED_NOTHING = frozenset({
    "TextNotFound", "PatchDoesNotApply", "ChangedSinceRead", "NeverRead", "ChangedSinceApproval",
    "NoWorktree", "AgentNotCallable", "AgentNotForCaller", "DelegationCycle", "DelegationTooDeep",
})  # fmt: skip


def short_text(text: str, width: int = COMMAND_WIDTH) -> str:
    """Text on one line of at most `width` characters."""
    return shortened(visible_line(text.strip()), width)


def describe_call(tool: str, given: dict[str, Any]) -> str:
    """A call in a few words: the command itself, or the tool's verb and its path."""
    if tool == "bash":
        command, job = str(given.get("command", "")), str(given.get("job", ""))
        if job:
            return f"{'stop' if given.get('stop') else 'look at'} {short_text(job)}"
        return short_text(command) or tool
    if tool == e.DELEGATE:
        return short_text(f"agent {given.get('agent', '')}: {given.get('task', '')}")
    verb = _VERBS.get(tool, visible_line(tool))
    about = (given.get(name) for name in ("pattern", "path", "question", "url"))
    first = next((one for one in about if isinstance(one, str)), "")
    return f"{verb} {short_text(first)}" if first else verb


def did_not_run(result: e.ToolResult, *, began: bool) -> bool:
    """Return True if the call did nothing: it was refused, was impossible, or could not be started."""
    if result.outcome == "error" and (not began or result.reason in _CHANGED_NOTHING):
        return True
    return result.outcome in ("denied", "blocked") or result.reason == "CannotStart"


def outcome_line(call: Call, reader: str) -> str:
    """The line about a call that has ended; empty where another line reports it."""
    result, what = call.result, describe_call(call.tool, call.input)
    assert result is not None
    if call.has_child:
        return ""
    if result.reason is not None and (judgement := _judgement(result)):
        return f"judged   {what:<30} you said: {judgement}"
    if result.outcome == "unknown":
        return f"unknown  {what:<30} Bridle stopped while it ran"
    if result.outcome == "cancelled":
        return f"stopped  {what}" if call.is_started else f"not run  {what:<30} stopped before it began"
    if did_not_run(result, began=call.is_started):
        return f"not run  {what:<30} {_why_not(call, result, reader)}"
    if result.outcome == "ok" and (call.in_background or result.tool == "todo"):
        return ""
    facts = [*_facts(result), "" if call.is_typed else allowed_text(call, reader)]
    return f"ran      {what:<30} {'   '.join(filter(None, facts))}".rstrip()


def typed_output(call: Call) -> str:
    """All output of a command that the user typed; empty for any other call."""
    return printed_text(call.result) if call.result and call.is_typed and _has_output(call) else ""


def has_excerpt(call: Call) -> bool:
    """Return True if an excerpt of the call's output belongs below its line."""
    return call.tool == "bash" and not call.is_typed and not call.in_background and _has_output(call)


def _has_output(call: Call) -> bool:
    result = call.result
    if result is None or result.outcome not in _ENDED or _judgement(result):
        return False
    return not did_not_run(result, began=call.is_started)


def diff_text(result: e.ToolResult) -> str:
    """The changes of a call in files as one diff; empty where it changed none."""
    files = edited_files(result)
    cut = sum(file.cut for file in files)
    return "".join((*(file.diff for file in files), f"… {counted(cut, 'more file')}\n" if cut else ""))


def allowed_text(call: Call, reader: str) -> str:
    """`allowed by …`: a rule, an option or a user; empty where the call needed no approval."""
    decided = call.allowed
    if decided is None:
        return ""
    if decided.decided_by == "rule":
        return f"allowed by {_shown(decided.origin) or 'rule'} '{_shown(decided.rule)}'"
    if decided.decided_by == "yes":
        return "allowed by --yes"
    if decided.approvals:
        return f"allowed by {' and '.join(map(approver, decided.approvals))}"
    if decided.answered_name or decided.answered_by:
        return f"allowed by {_who(decided.answered_name, reader)}"
    return ""


def approver(by: e.Approval) -> str:
    return _shown(by.name) or _TERMINAL


def grant_words(grant: e.GrantAdded) -> str:
    """The calls that a grant allows, and for how long."""
    tool, pattern = _shown(grant.tool), _shown(grant.pattern)
    what = f"{tool}({pattern})" if pattern else f"every {tool} call"
    if grant.tool == e.DELEGATE:
        what = f"agent {agent_words(pattern)}" if pattern else "every agent"
    arguments = f" {e.KEY_COVERS}" if grant.match == "key" else ""
    until = "until the session ends" if grant.life == "session" else "here, also in later sessions"
    return f"{what}{arguments}, {until}"


def _who(name: str, reader: str) -> str:
    return "you" if name == reader else _shown(name) or _TERMINAL


def _why_not(call: Call, result: e.ToolResult, reader: str) -> str:
    decided = call.denied
    match result.reason:
        case "NoApprover":
            if decided and decided.note:
                return f"nobody is here to ask: {_shown(decided.note)}"
            return f"nobody is here to ask. Let it: {_allowing_options(call)}"
        case "PermissionTimeout":
            waited_s = result.shown.waited_s if isinstance(result.shown, d.ShownWait) else 60
            return f"nobody answered in {waited_s:g} s (no one was attached)"
        case "PermissionDenied":
            said = f"{_who(decided.answered_name, reader) if decided else 'you'} said no"
            return f'{said}: "{visible(decided.note)}"' if decided and decided.note else said
        case "RuleDenied" if decided:
            rule = _shown(decided.rule)
            pattern = rule.partition("(")[2].removesuffix(")") or rule
            return f'rule deny "{pattern}" ({_shown(decided.origin) or "rule"})'
        case "HookBlocked" if result.evidence:
            return _shown(f"hook {result.evidence.rule}: {result.evidence.matched}")
        case _:
            return visible(result.content.partition("\n")[0])


def _allowing_options(call: Call) -> str:
    """The options of `bridle run` that allow such a call: `-y`, and a rule for this call if one can name it."""
    edits = call.tool in ("write_file", "edit_file", "apply_patch")
    about = call.input.get("command" if call.tool == "bash" else "path")
    if not isinstance(about, str) or not about:
        rule = "edit" if edits else "" if call.tool == "bash" else call.tool
    else:
        is_plain = all(character.isalnum() or character in _PLAIN for character in about)
        rule = (
            f"{'edit' if edits else call.tool}({about})" if len(about) <= COMMAND_WIDTH and is_plain else ""
        )
    return f"-y, or --allow {quote(_shown(rule))}" if rule else "-y"


def _facts(result: e.ToolResult) -> list[str]:
    facts = [] if result.shown is None else _shown_facts(result.shown)
    if result.outcome == "timeout":
        facts.append("stopped: it took too long")
    elif result.outcome == "error" and not facts:
        facts.append(short_text(result.content.strip().partition("\n")[0], REASON_WIDTH))
    if result.duration_ms is not None and result.duration_ms >= 100:
        facts.append(f"{result.duration_ms / 1000:.1f} s")
    return facts


def _shown_facts(shown: d.AnyShown) -> list[str]:
    match shown:
        case d.ShownCommand(exit_code=code, blocked=blocked):
            exited = [] if code is None else [f"exit {code}"]
            return [*exited, "the sandbox blocked something"] if blocked else exited
        case d.ShownEdit(files=files):
            removed = [file.removed for file in files if file.removed is not None]
            less = f" -{sum(removed)}" if removed else ""  # unknown for files that could not be compared
            return [f"+{sum(file.added for file in files)}{less}"]
        case d.ShownRead():
            return [counted(shown.last_line - shown.first_line + 1, "line")]
        case d.ShownServerResult(pictures=pictures):
            return [counted(pictures, "picture")] if pictures else []
        case d.ShownChild(steps=steps, usd=usd, ended=ended):
            cost = (f"${usd:.2f}",) if usd >= 0.005 else ()
            return [counted(steps, "step"), *cost] if ended else ["in the background"]
        case d.ShownSearch() | d.ShownJudgement() | d.ShownWait():
            return []
        case _:
            assert_never(shown)


def _judgement(result: e.ToolResult) -> str:
    """The user's answer about a call whose end was not seen; empty where no one was asked."""
    if not isinstance(result.shown, d.ShownJudgement) or not result.shown.by:
        return ""
    return _JUDGEMENTS.get(result.shown.judgement, "it is not known")


def _shown(text: str | None) -> str:
    return visible_line(text or "")
