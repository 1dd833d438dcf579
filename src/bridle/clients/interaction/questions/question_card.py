"""The text of a question and of each answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from bridle.base.text.line_diff import DiffLine, folded
from bridle.base.text.lookalikes import lookalike_words, mark_lookalikes
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.protocol.commands import PermissionChoice
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
from bridle.protocol.questions import AnyQuestion

RowStyle: TypeAlias = Literal["plain", "title", "added", "removed", "faint", "own"]

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


class Row(msgspec.Struct, frozen=True):
    """One line on the screen, unstyled but for its role. `about` stands behind it, or below where there is no room."""

    text: str
    style: RowStyle = "plain"
    about: str = ""


class Choice(msgspec.Struct, frozen=True):
    """A key and what it does. One without words works but is not listed."""

    key: str
    answer: PermissionChoice
    words: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is put to a person. `body` is what they decide about, each line whole; `id` is a call or a question.

    `about` is the question itself; None where it is about a call. `inline` lists the choices in one line; `whole` is
    what `v` prints beyond the body. A question without choices takes any words for an answer; `options` are then
    suggestions, picked by number. With a `glimpse` only so many lines of the body are shown at first, and `v` shows the
    rest. `answer_rows` are the choices as they are drawn, where a list of them would not do; `whole_key` is what takes
    the place of `v`. `words`: what is none of the keys says no, and why; otherwise the question is asked again,
    and only behind the `noted_key` more may be written. `invocation` is whose question it is, None the main agent's.
    """

    id: str
    about: AnyQuestion | None = None
    digest: str = ""
    title: str
    why: str = ""
    body: tuple[Row, ...] = ()
    context: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    options: tuple[str, ...] = ()
    inline: bool = False
    whole: tuple[Row, ...] = ()
    last_words: str = ""
    confirm: str = ""
    glimpse: int = 0
    answer_rows: tuple[str, ...] = ()
    whole_key: Literal["v", "d"] = "v"
    words: bool = True
    noted_key: str = ""
    invocation: str | None = None

    def put_by(self, path: Sequence[str], invocation: str | None) -> Question:
        """The same, of an agent that was sent: its path stands in front."""
        if not path:
            return self
        title = " → ".join((*map(_line, path), self.title))
        return msgspec.structs.replace(self, title=title, invocation=invocation)


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
        folder=visible(folder, newlines=False),
        sandbox="sandbox: none" if border is None else "sandbox on",
        network=_NETWORK["inherit" if border is None else border.network],
    )


# Building questions


def permission_question(request: PermissionRequested, setting: Setting) -> Question:
    """The question of a tool call: a command, a change of a file, or any other call."""
    command = request.input.get("command")
    if request.tool == "bash" and isinstance(command, str):
        question = _command(request, command, setting)
    elif request.handoff is not None:
        question = _sent(request, request.handoff)
    elif request.changes or request.tool in _EDITS:
        question = _edit(request)
    else:
        question = _call(request)
    if request.keys > 1:
        people = f"needs the yes of {request.keys} different people"
        question = msgspec.structs.replace(question, context=(*question.context, people))
    note = lookalike_words("\n".join((question.title, *(row.text + row.about for row in question.body))))
    return msgspec.structs.replace(question, context=(*question.context, note)) if note else question


def _command(request: PermissionRequested, command: str, setting: Setting) -> Question:
    workdir = request.input.get("workdir", ".")
    where = setting.folder if workdir in (".", "") else f"{setting.folder}/{_line(str(workdir))}"
    escalate = request.input.get("escalate")
    return Question(
        id=request.call_id,
        digest=request.digest,
        title="Run this command?",
        why=_line(request.because),
        body=(*(Row(line) for line in _lines(command)), *_tree(request.parts)),
        context=(
            " · ".join(
                filter(None, (f"in {where}", *(() if escalate else (setting.sandbox, setting.network))))
            ),
            f"outside the sandbox, because: {_line(str(escalate))}" if escalate else "",
            _others(request.input, "command", "workdir", "escalate"),
        ),
        choices=(
            Choice("y", "once", "yes, once"),
            *_lasting(request.offers, "p", "pattern", command),
            *_lasting(request.offers, "a", "always", command),
            *(Choice("t", "tool") for offer in request.offers if offer.answer == "tool"),
            Choice("n", "deny", _NO),
        ),
        confirm="Every shell command without asking until the session ends? Type all",
    )


def _tree(parts: Sequence[CommandPart]) -> Iterable[Row]:
    """What a command consists of, and what each part does. The command itself stands above it, whole."""
    if len(parts) < 2 and not any(part.does for part in parts):
        return
    texts = [_shortened(_line(part.text)) for part in parts]
    width = max(map(len, texts)) + 5
    for number, (text, part) in enumerate(zip(texts, parts, strict=True), 1):
        branch = "└" if number == len(parts) else "├"
        does = _line(part.does)
        yield Row(f"{branch} {text:<{width if does else 0}}", about=does)


def _shortened(text: str) -> str:
    return text if len(text) <= _PART_CHARACTERS else text[: _PART_CHARACTERS - 1] + "…"


def _lasting(
    offers: Sequence[Offer], key: str, answer: Literal["pattern", "always"], command: str
) -> Iterable[Choice]:
    """The choice for an answer that is remembered, in words that say what and for how long."""
    mine = [offer for offer in offers if offer.answer == answer]
    if mine:
        what = ", ".join(_what(offer, command) for offer in mine)
        yield Choice(key, answer, f"{what}, {_how_long(mine[0])}")


def _what(offer: Offer, command: str = "") -> str:
    pattern = _line(offer.pattern)
    if offer.match == "key":
        return f"{pattern} {KEY_COVERS}"
    return "this exact command" if command and offer.pattern == command else pattern


def _how_long(offer: Offer) -> str:
    return f"here, for {offer.days} days" if offer.days else "until the session ends"


def _edit(request: PermissionRequested) -> Question:
    """A change of files, as the engine worked it out, or as it was asked for where nobody could tell."""
    given = request.input
    if request.changes and not any(change.cut for change in request.changes):
        title, body, whole = _changes(request.changes)
    else:
        title, body, whole = _unworked(given)
    return Question(
        id=request.call_id,
        digest=request.digest,
        title=title,
        why="" if request.because == _PLAIN_EDIT else _line(request.because),
        body=tuple(body),
        context=(_others(given, *_SHOWN),),
        choices=(
            Choice("y", "once", "yes"),
            *_briefly(request.offers),
            Choice("n", "deny", "no (Enter)"),
        ),
        inline=True,
        whole=tuple(whole),
        last_words="or say what to change",
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
        yield Choice(key, answer, words[answer])


def _call(request: PermissionRequested) -> Question:
    path = request.input.get("path")
    tool = _line(request.tool)
    named = _line(path) if isinstance(path, str) else ""
    return Question(
        id=request.call_id,
        digest=request.digest,
        title=_call_title(request, tool, named),
        why=_line(request.because),
        body=tuple(_arguments(request.input)),
        context=() if request.of_server is None else tuple(_server_words(request.of_server)),
        choices=(
            Choice("y", "once", "yes, once"),
            *_lasting(request.offers, "p", "pattern", ""),
            *_lasting(request.offers, "a", "always", ""),
            *(
                Choice("t", "tool", f"every {tool} call, until the session ends")
                for offer in request.offers
                if offer.answer == "tool"
            ),
            Choice("n", "deny", _NO),
        ),
    )


def _sent(request: PermissionRequested, handoff: Handoff) -> Question:
    """Another agent that would be sent: who, with which model, which tools, and all that it would be told."""
    with_whom = f"{_line(handoff.agent)} with {_line(handoff.provider)}"
    remembered = {offer.answer: offer for offer in request.offers}
    lasting = {
        "pattern": f"{with_whom}, until the session ends",
        "tool": "every agent, until the session ends",
        "always": f"{with_whom}, here, for {remembered['always'].days} days"
        if "always" in remembered
        else "",
    }
    return Question(
        id=request.call_id,
        digest=request.digest,
        title=f"Send the agent {_line(handoff.agent)}?",
        why=_line(request.because),
        body=(
            Row(f"provider  {_line(handoff.provider)}"),
            Row(f"model     {_line(handoff.model)}"),
            Row(f"tools     {', '.join(map(_line, handoff.tools)) or 'none'}"),
            Row("It is told this, and nothing else:"),
            *(Row(f"  {line}") for line in _lines(handoff.text, prose=True)),
        ),
        context=(_others(request.input, *_HANDED_OVER),),
        choices=(
            Choice("y", "once", "yes, once"),
            *(Choice(key, answer, lasting[answer]) for answer, key in _KEYS.items() if answer in remembered),
            Choice("n", "deny", _NO),
        ),
    )


def _call_title(request: PermissionRequested, tool: str, named: str) -> str:
    if (of := request.of_server) is not None:
        return f"Allow {_line(of.tool)} of the server {_line(of.server)}?"
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
        yield f"the server calls it: {_line(of.title)}"
    if said:
        yield f"the server says: {', '.join(said)}{'' if of.believed else ' (not checked)'}"


def _line(text: str) -> str:
    """What a person decides about, on one line: nothing obeyed, nothing hidden, nothing that looks like another."""
    return visible(mark_lookalikes(text), newlines=False)


def _lines(text: str, *, prose: bool = False) -> list[str]:
    return visible(mark_lookalikes(text, prose=prose)).replace("\t", "    ").split("\n")


def _arguments(given: dict[str, Any]) -> Iterable[Row]:
    """Every argument whole: what is approved is what is seen."""
    for name, value in given.items():
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *rest = _lines(shown)
        yield Row(f"{_line(name)}: {first}")
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
    path = _line(change.path)
    match change.kind:
        case "create":
            return f"Create {path}"
        case "delete":
            return f"Delete {path}"
        case "move":
            return f"Move {_line(change.moved_from or '')} to {path}"
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
    return visible(mark_lookalikes(line, prose=True), newlines=False).replace("\t", "    ")


def _unworked(given: dict[str, Any]) -> tuple[str, list[Row], list[Row]]:
    """A change nobody could work out beforehand: what was asked for, all of it."""
    shown = _line(str(given.get("path", "")))
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
