"""A question to a person: what it shows, and in which words each answer says what it remembers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from bridle.base.lookalikes import lookalike_words, mark_lookalikes
from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.protocol.commands import Answer
from bridle.protocol.events import KEY_COVERS, CommandPart, Offer, PermissionRequested, QuestionAsked

RowStyle: TypeAlias = Literal["plain", "title", "added", "removed", "faint"]

_CONTEXT_LINES: Final = 3
_COMPARED_LINES: Final = 2_000
_EDITS: Final = ("write_file", "edit_file")
_SHOWN: Final = ("path", "content", "old_string", "new_string", "replace_all")
_PART_CHARACTERS: Final = 40
_PLAIN_EDIT: Final = "it changes files"
_KEYS: Final[dict[Literal["pattern", "tool", "always"], str]] = {"pattern": "p", "tool": "t", "always": "a"}
_NO: Final = "no (Enter)          or type what to do instead"


class Row(msgspec.Struct, frozen=True):
    """One line on the screen, unstyled but for its role."""

    text: str
    style: RowStyle = "plain"


class Choice(msgspec.Struct, frozen=True):
    """A key and what it does. One without words works but is not listed."""

    key: str
    answer: Answer
    words: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is put to a person. `body` is what they decide about, each line whole; `id` is a call or a question.

    `inline` lists the choices in one line; `whole` is what `v` prints beyond the body. A question without choices
    takes any words for an answer; `options` are then suggestions, picked by number. With a `glimpse` only so many lines
    of the body are shown at first, and `v` shows the rest. `answer_rows` are the choices as they are drawn, where a
    list of them would not do; `whole_key` is what takes the place of `v`.
    """

    id: str
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


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a question's words depend on besides the question: where it runs, and the file as it is now."""

    folder: str
    sandbox: str = ""
    network: str = ""
    before: Callable[[str], str | None] | None = None


# Building questions


def permission_question(request: PermissionRequested, setting: Setting) -> Question:
    """The question of a tool call: a command, a change of a file, or any other call."""
    command = request.input.get("command")
    path = request.input.get("path")
    if request.tool == "bash" and isinstance(command, str):
        question = _command(request, command, setting)
    elif request.tool in _EDITS and isinstance(path, str):
        question = _edit(request, path, setting)
    else:
        question = _call(request)
    note = lookalike_words("\n".join((question.title, *(row.text for row in question.body))))
    return msgspec.structs.replace(question, context=(*question.context, note)) if note else question


def open_question(asked: QuestionAsked) -> Question:
    """A question the model asks in words."""
    marked = mark_lookalikes(asked.question, prose=True)
    lines = [Row(visible(line)) for line in marked.splitlines()] or [Row("")]
    return Question(
        id=asked.question_id,
        title=lines[0].text,
        body=tuple(lines[1:]),
        options=tuple(_line(choice) for choice in asked.choices),
    )


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
        yield Row(f"{branch} {text:<{width}}{_line(part.does)}".rstrip())


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


def _edit(request: PermissionRequested, path: str, setting: Setting) -> Question:
    shown = _line(path)
    title, body, whole = _change(request.input, path, shown, setting)
    return Question(
        id=request.call_id,
        digest=request.digest,
        title=title,
        why="" if request.because == _PLAIN_EDIT else _line(request.because),
        body=tuple(body),
        context=(_others(request.input, *_SHOWN),),
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
        title=f"Allow {tool}: {named}?" if named else f"Allow {tool}?",
        why=_line(request.because),
        body=tuple(_arguments(request.input)),
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


def _change(
    given: dict[str, Any], path: str, shown: str, setting: Setting
) -> tuple[str, list[Row], list[Row]]:
    """Title, the change, and the whole new text where the change is only a part of it."""
    match given:
        case {"content": str(content)}:
            return _written(content, path, shown, setting)
        case {"old_string": str(old), "new_string": str(new)}:
            everywhere = given.get("replace_all") is True
            return _replaced(old, new, path, shown, setting, everywhere=everywhere)
        case _:
            return f"Change {shown}?", list(_arguments(given)), []


def _written(content: str, path: str, shown: str, setting: Setting) -> tuple[str, list[Row], list[Row]]:
    """A file written as a whole, compared with what is there."""
    new = _file_lines(content)
    added = [Row(f"{number:5}  + {line}", "added") for number, line in enumerate(new, 1)]
    if setting.before is None:
        return f"Write {shown}?   {counted(len(new), 'line')}, the whole file", added, []
    old_text = setting.before(path)
    if old_text is None:
        return f"Create {shown}?   +{len(new)}", added, []
    rows = _compared(_file_lines(old_text), new)
    if not any(row.style in ("added", "removed") for row in rows):
        same = "nothing" if old_text == content else "only the end of the file"
        rows = [Row(f"    …    {same} changes", "faint")]
    whole = [Row(f"{number:5}    {line}") for number, line in enumerate(new, 1)]
    return _changed(shown, rows), rows, whole


def _replaced(
    old: str, new: str, path: str, shown: str, setting: Setting, *, everywhere: bool
) -> tuple[str, list[Row], list[Row]]:
    """Text put in the place of other text: in the file where it is found there as it stands, else by itself."""
    text = setting.before(path) if setting.before is not None else None
    if text is not None and (text.count(old) == 1 or (everywhere and old in text)):
        return _written(text.replace(old, new), path, shown, setting)
    rows = [Row(f"       - {line}", "removed") for line in _file_lines(old)]
    rows += [Row(f"       + {line}", "added") for line in _file_lines(new)]
    return _changed(shown, rows) + ("   wherever it occurs" if everywhere else ""), rows, []


def _changed(shown: str, rows: Sequence[Row]) -> str:
    plus = sum(row.style == "added" for row in rows)
    minus = sum(row.style == "removed" for row in rows)
    return f"Change {shown}?   +{plus} \u2212{minus}"


def _file_lines(text: str) -> list[str]:
    lines = _lines(text, prose=True)
    return lines[:-1] if lines[-1] == "" else lines


def _compared(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """The change as numbered lines with three lines around it; what is left out between them is said."""
    rows: list[Row] = []
    last = 0
    for group in _groups(old, new):
        rows += _left_out(group[0][3] - last)
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows += [Row(f"{at + 1:5}    {new[at]}") for at in range(new_from, new_to)]
            else:
                rows += [Row(f"{at + 1:5}  - {old[at]}", "removed") for at in range(old_from, old_to)]
                rows += [Row(f"{at + 1:5}  + {new[at]}", "added") for at in range(new_from, new_to)]
            last = new_to
    return [*rows, *_left_out(len(new) - last)]


def _left_out(count: int) -> list[Row]:
    return [Row(f"    …    {counted(count, 'line')} unchanged", "faint")] if count else []


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterable[Sequence[tuple[str, int, int, int, int]]]:
    from difflib import SequenceMatcher  # only when a change is shown

    if max(len(old), len(new)) > _COMPARED_LINES:
        return ((("replace", 0, len(old), 0, len(new)),),)
    return SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES)
