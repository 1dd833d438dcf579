"""The form of a permission request: a command, a change of files, a subagent, or any other call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from bridle.base.text.line_diff import DiffLine, folded
from bridle.base.text.lookalikes import lookalike_words, mark_lookalikes
from bridle.base.text.phrases import counted, shortened
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.questions.question_card import (
    Choice,
    Form,
    PermissionAnswer,
    Question,
    Row,
    RowStyle,
    marked_line,
)
from bridle.protocol.events import (
    KEY_COVERS,
    CommandPart,
    FileChange,
    Handoff,
    Offer,
    PermissionRequested,
    SessionCreated,
    ToolOfServer,
)

_EDITS: Final = ("write_file", "edit_file", "apply_patch")
_SHOWN: Final = ("path", "content", "old_string", "new_string", "replace_all", "patch")
_HANDED_OVER: Final = (
    *("agent", "task", "context", "context_refs", "relevant_files", "constraints", "expected_output"),
    "return_mode",
)
"""What of a call that sends an agent stands in what that agent is told."""
_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed"}
_PART_CHARACTERS: Final = 40
_PLAIN_EDIT: Final = "it changes files"
_KEYS: Final[dict[Literal["pattern", "tool", "always"], str]] = {"pattern": "p", "tool": "t", "always": "a"}
_NO: Final = "no (Enter)          or type what to do instead"
_ONCE: Final = Choice("y", "yes, once", PermissionAnswer("once"))
_DENY: Final = PermissionAnswer("deny")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a question's words depend on besides the question: where it runs."""

    folder: str
    sandbox: str = ""
    network: str = ""


_NETWORK: Final = {"inherit": "network on", "filtered": "network filtered", "deny": "network off"}


def setting_of(created: SessionCreated | None, folder: str) -> Setting:
    """Where the commands of a session run: its folder, as people write it, and the border around them."""
    border = created if created is not None and created.confined != "off" else None
    return Setting(
        folder=visible_line(folder),
        sandbox="sandbox: none" if border is None else "sandbox on",
        network=_NETWORK["inherit" if border is None else border.network],
    )


def permission_question(request: PermissionRequested, setting: Setting) -> Question:
    """Return the question of a tool call: a command, a change of a file, or any other call."""
    command = request.input.get("command")
    if request.tool == "bash" and isinstance(command, str):
        form = _command(request, command, setting)
    elif request.handoff is not None:
        form = _sent(request, request.handoff)
    elif request.changes or request.tool in _EDITS:
        form = _edit(request)
    else:
        form = _call(request)
    people = f"needs the yes of {request.keys} different people" if request.keys > 1 else ""
    note = lookalike_words("\n".join((form.title, *(row.text + row.about for row in form.body))))
    if more := tuple(filter(None, (people, note))):
        form = msgspec.structs.replace(form, context=(*form.context, *more))
    return Question(id=request.call_id, digest=request.digest, form=form)


def _form(title: str, *choices: Choice, refuse: str = _NO, **shown: Any) -> Form:
    """Return a form whose last choice is `n`; any other text denies the call with that note."""
    return Form(
        title=title,
        choices=(*choices, Choice("n", refuse, _DENY)),
        refusal=_DENY,
        in_words=_deny,
        **shown,
    )


def _deny(note: str) -> PermissionAnswer:
    return PermissionAnswer("deny", note)


def _command(request: PermissionRequested, command: str, setting: Setting) -> Form:
    workdir = request.input.get("workdir", ".")
    where = setting.folder if workdir in (".", "") else f"{setting.folder}/{marked_line(str(workdir))}"
    escalate = request.input.get("escalate")
    every = "Every shell command without asking until the session ends? Type all"
    return _form(
        "Run this command?",
        _ONCE,
        *_lasting(request.offers, "p", "pattern", command),
        *_lasting(request.offers, "a", "always", command),
        *(
            Choice("t", "", PermissionAnswer("tool"), confirm=every)
            for offer in request.offers
            if offer.answer == "tool"
        ),
        why=marked_line(request.because),
        body=(*(Row(line) for line in _lines(command)), *_tree(request.parts)),
        context=(
            " · ".join(
                filter(None, (f"in {where}", *(() if escalate else (setting.sandbox, setting.network))))
            ),
            f"outside the sandbox, because: {marked_line(str(escalate))}" if escalate else "",
            _others(request.input, "command", "workdir", "escalate"),
        ),
    )


def _tree(parts: Sequence[CommandPart]) -> Iterable[Row]:
    """What a command consists of, and what each part does. The command itself stands above it, whole."""
    if len(parts) < 2 and not any(part.does for part in parts):
        return
    texts = [shortened(marked_line(part.text), _PART_CHARACTERS) for part in parts]
    width = max(map(len, texts)) + 5
    for number, (text, part) in enumerate(zip(texts, parts, strict=True), 1):
        branch = "└" if number == len(parts) else "├"
        does = marked_line(part.does)
        yield Row(f"{branch} {text:<{width if does else 0}}", about=does)


def _lasting(
    offers: Sequence[Offer], key: str, answer: Literal["pattern", "always"], command: str
) -> Iterable[Choice]:
    """The choice for an answer that is remembered, in words that say what and for how long."""
    mine = [offer for offer in offers if offer.answer == answer]
    if mine:
        what = ", ".join(_what(offer, command) for offer in mine)
        yield Choice(key, f"{what}, {_how_long(mine[0])}", PermissionAnswer(answer))


def _what(offer: Offer, command: str = "") -> str:
    pattern = marked_line(offer.pattern)
    if offer.match == "key":
        return f"{pattern} {KEY_COVERS}"
    return "this exact command" if command and offer.pattern == command else pattern


def _how_long(offer: Offer) -> str:
    return f"here, for {offer.days} days" if offer.days else "until the session ends"


def _edit(request: PermissionRequested) -> Form:
    """A change of files, as the engine worked it out, or as the model asked for it where that is unknown."""
    given = request.input
    if request.changes and not any(change.cut for change in request.changes):
        title, body, whole = _changes(request.changes)
    else:
        title, body, whole = _unworked(given)
    return _form(
        title,
        Choice("y", "yes", PermissionAnswer("once")),
        *_briefly(request.offers),
        refuse="no (Enter)",
        why="" if request.because == _PLAIN_EDIT else marked_line(request.because),
        body=tuple(body),
        context=(_others(given, *_SHOWN),),
        inline=True,
        whole=tuple(whole),
        hint="or say what to change",
    )


def _briefly(offers: Sequence[Offer]) -> Iterable[Choice]:
    """What is remembered of an edit, short enough for one line."""
    by_answer = {answer: [offer for offer in offers if offer.answer == answer] for answer in _KEYS}
    for answer, key in _KEYS.items():
        mine = by_answer[answer]
        if not mine:
            continue
        what = ", ".join(_what(offer) for offer in mine)
        words = {
            "pattern": f"{what} this session",
            "tool": "all edits this session",
            "always": f"{what}, {mine[0].days} days",
        }
        yield Choice(key, words[answer], PermissionAnswer(answer))


def _call(request: PermissionRequested) -> Form:
    path = request.input.get("path")
    tool = marked_line(request.tool)
    named = marked_line(path) if isinstance(path, str) else ""
    return _form(
        _call_title(request, tool, named),
        _ONCE,
        *_lasting(request.offers, "p", "pattern", ""),
        *_lasting(request.offers, "a", "always", ""),
        *(
            Choice("t", f"every {tool} call, until the session ends", PermissionAnswer("tool"))
            for offer in request.offers
            if offer.answer == "tool"
        ),
        why=marked_line(request.because),
        body=tuple(_arguments(request.input)),
        context=() if request.of_server is None else tuple(_server_words(request.of_server)),
    )


def _sent(request: PermissionRequested, handoff: Handoff) -> Form:
    """A subagent to start: its model, its tools, and everything it is told."""
    with_whom = f"{marked_line(handoff.agent)} with {marked_line(handoff.provider)}"
    remembered = {offer.answer: offer for offer in request.offers}
    lasting = {
        "pattern": f"{with_whom}, until the session ends",
        "tool": "every agent, until the session ends",
        "always": f"{with_whom}, here, for {remembered['always'].days} days"
        if "always" in remembered
        else "",
    }
    return _form(
        f"Send the agent {marked_line(handoff.agent)}?",
        _ONCE,
        *(
            Choice(key, lasting[answer], PermissionAnswer(answer))
            for answer, key in _KEYS.items()
            if answer in remembered
        ),
        why=marked_line(request.because),
        body=(
            Row(f"provider  {marked_line(handoff.provider)}"),
            Row(f"model     {marked_line(handoff.model)}"),
            Row(f"tools     {', '.join(map(marked_line, handoff.tools)) or 'none'}"),
            Row("It is told this, and nothing else:"),
            *(Row(f"  {line}") for line in _lines(handoff.text, prose=True)),
        ),
        context=(_others(request.input, *_HANDED_OVER),),
    )


def _call_title(request: PermissionRequested, tool: str, named: str) -> str:
    if (of := request.of_server) is not None:
        return f"Allow {marked_line(of.tool)} of the server {marked_line(of.server)}?"
    return f"Allow {tool}: {named}?" if named else f"Allow {tool}?"


def _server_words(of: ToolOfServer) -> Iterable[str]:
    """What a server says of its tool, and whether anybody believes it."""
    said = [
        words
        for value, words in (
            (of.read_only is True, "it changes nothing"),
            (of.read_only is False, "it changes things"),
            (of.destructive is True, "it may destroy things"),
            (of.destructive is False, "it only adds"),
            (of.idempotent is True, "twice is as once"),
            (of.open_world is True, "it reaches outside"),
            (of.open_world is False, "it stays inside"),
        )
        if value
    ]
    if of.title:
        yield f"the server calls it: {marked_line(of.title)}"
    if said:
        yield f"the server says: {', '.join(said)}{'' if of.believed else ' (not checked)'}"


def _lines(text: str, *, prose: bool = False) -> list[str]:
    return visible(mark_lookalikes(text, prose=prose)).replace("\t", "    ").split("\n")


def _arguments(given: dict[str, Any]) -> Iterable[Row]:
    """Every argument whole: what is approved is what is seen."""
    for name, value in given.items():
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *rest = _lines(shown)
        yield Row(f"{marked_line(name)}: {first}")
        yield from (Row(f"  {line}") for line in rest)


def _others(given: dict[str, Any], *known: str) -> str:
    """Arguments that have no place of their own in a question: nothing is approved unseen."""
    rest = {name: value for name, value in given.items() if name not in known}
    return " · ".join(row.text for row in _arguments(rest))


def _changes(changes: Sequence[FileChange]) -> tuple[str, list[Row], list[Row]]:
    """Title, the changes, and the whole new text where the change is only a part of it."""
    if len(changes) == 1:
        (change,) = changes
        return f"{_deed(change)}?   {_counts(change)}".rstrip(), _change_rows(change), _whole(change)
    added, removed = (sum(getattr(change, name) for change in changes) for name in ("added", "removed"))
    rows: list[Row] = []
    for change in changes:
        rows += [Row(f"{_deed(change)}   {_counts(change)}".rstrip(), "title"), *_change_rows(change)]
    return f"Change {len(changes)} files?   +{added} \u2212{removed}", rows, []


def _deed(change: FileChange) -> str:
    path = marked_line(change.path)
    match change.kind:
        case "create":
            return f"Create {path}"
        case "delete":
            return f"Delete {path}"
        case "move":
            return f"Move {marked_line(change.moved_from or '')} to {path}"
        case "change":
            return f"Change {path}"


def _counts(change: FileChange) -> str:
    match change.kind:
        case "create":
            return f"+{change.added}"
        case "delete":
            return f"\u2212{change.removed}"
        case _:
            return f"+{change.added} \u2212{change.removed}"


def _change_rows(change: FileChange) -> list[Row]:
    if change.kind in ("create", "delete"):
        return [_diff_row(line) for line in change.lines]
    if not change.lines and change.kind == "change":
        same = "only the end of the file" if change.only_ends else "nothing"
        return [Row(f"    …    {same} changes", "faint")]
    return [_diff_row(line) for line in folded(change.lines)]


def _whole(change: FileChange) -> list[Row]:
    """The new text, where all of it is known and some of it is not shown."""
    if change.kind != "change" or any(line.mark == "…" for line in change.lines) or not change.lines:
        return []
    return [Row(f"{line.number:5}    {_text(line.text)}") for line in change.lines if line.mark != "-"]


def _diff_row(line: DiffLine) -> Row:
    if line.mark == "…":
        return Row(f"    …    {counted(line.number, 'line')} unchanged", "faint")
    return Row(f"{line.number:5}  {line.mark} {_text(line.text)}", _STYLES.get(line.mark, "plain"))


def _text(line: str) -> str:
    return visible_line(mark_lookalikes(line, prose=True)).replace("\t", "    ")


def _unworked(given: dict[str, Any]) -> tuple[str, list[Row], list[Row]]:
    """A change nobody could work out beforehand: what was asked for, all of it."""
    shown = marked_line(str(given.get("path", "")))
    match given:
        case {"content": str(content)}:
            new = _file_lines(content)
            added = [Row(f"{number:5}  + {line}", "added") for number, line in enumerate(new, 1)]
            return f"Write {shown}?   {counted(len(new), 'line')}, the whole file", added, []
        case {"old_string": str(old), "new_string": str(new_text)}:
            gone, come = _file_lines(old), _file_lines(new_text)
            rows = [Row(f"       - {line}", "removed") for line in gone]
            rows += [Row(f"       + {line}", "added") for line in come]
            everywhere = "   wherever it occurs" if given.get("replace_all") is True else ""
            return f"Change {shown}?   +{len(come)} \u2212{len(gone)}{everywhere}", rows, []
        case {"patch": str(patch)}:
            return "Change files?", [Row(line, _STYLES.get(line[:1], "plain")) for line in _lines(patch)], []
        case _:
            return f"Change {shown}?", list(_arguments(given)), []


def _file_lines(text: str) -> list[str]:
    lines = _lines(text, prose=True)
    return lines[:-1] if lines[-1] == "" else lines
