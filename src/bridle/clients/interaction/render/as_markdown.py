"""Export a session as one Markdown file.

What was said stays Markdown, but it brings no HTML, no link and no image: a page that loads something tells somebody
that it was read. Code in fences stays as it is; fences that do not begin a line are shown as they were typed, because
viewers disagree about where such code ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.render.passages import Call, ChildWork, Gap, Note, Passage, Words, passages
from bridle.protocol import events as e

_ACTIVE = re.compile(r"\\[^\n]|<(?=[A-Za-z/!?])|\](?=[(\[:])|`{3,}|~{3,}")
_FENCE = re.compile(r"(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)")
_TICKS = re.compile(r"`+")


def markdown(title: str, facts: Iterable[str], envelopes: Iterable[e.Envelope]) -> Iterator[str]:
    """The page in parts. `facts` are lines about the session that stand below its title."""
    yield f"# {_line(title) or 'A conversation'}\n"
    if told := [f"{_line(fact)}  \n" for fact in facts]:
        yield "\n" + "".join(told)
    for passage in passages(envelopes):
        yield f"\n{_shown(passage)}\n"


def inert(text: str) -> str:
    """Markdown that holds no HTML, no links and no images, and no code block that is still open at its end."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if fence:
            lines.append(line)
            if _closes(line, fence):
                fence = ""
        elif found := _FENCE.fullmatch(line):
            fence = found[1] or found[2]
            lines.append(line)
        else:
            lines.append(_inline(line))
    return "\n".join([*lines, fence] if fence else lines)


def fenced(text: str, language: str = "") -> str:
    """Text as code, in a fence that nothing in it can close."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _shown(passage: Passage) -> str:
    match passage:
        case Words(who="you"):
            quoted = "\n".join(f"> {line}" for line in _quoted(passage.text))
            images = "\n".join("> (an image)" for _ in passage.images)
            return "\n".join(filter(None, ("## You\n", quoted, images)))
        case Words():
            return f"## Bridle\n\n{inert(visible(passage.text).strip())}"
        case Call():
            return _call(passage)
        case Note():
            return f"*{_line(passage.text).replace('*', chr(92) + '*')}*"
        case Gap():
            return f"*{gap_words(passage)}*"
        case ChildWork():
            return _work(passage)


def _work(work: ChildWork) -> str:
    """The work of an agent below a heading of its own. Its words are quotes, so that none of them is a heading."""
    task = "\n".join(f"> {line}" for line in _quoted(work.task))
    inner = (
        "\n".join(f"> {line}" for line in _quoted(one.text)) if isinstance(one, Words) else _shown(one)
        for one in work.inner
    )
    ended = f"*{_line(work.came_to).replace('*', chr(92) + '*')}*"
    return "\n\n".join((f"### Agent {_line(work.agent)}", task, *inner, ended))


def gap_words(gap: Gap) -> str:
    """That something was here."""
    count = gap.last - gap.first + 1
    events = "1 event" if count == 1 else f"{count} events"
    return f"The content of {events} has expired and is not kept any more."


def _call(call: Call) -> str:
    parts = [fenced(visible(call.told))]
    if call.diff:
        parts.append(fenced(visible(call.diff), "diff"))
    elif call.output:
        parts.append(fenced(visible(call.output)))
    return "\n\n".join(parts)


def _quoted(text: str) -> list[str]:
    """A person's words, line by line: in a quote every fence is one that does not begin a line."""
    return [_inline(line) for line in visible(text).strip().split("\n")]


def _inline(line: str) -> str:
    return _ACTIVE.sub(lambda match: _escaped(match[0]), line)


def _escaped(found: str) -> str:
    if found.startswith("\\"):
        return found
    if found == "]":  # what follows would make it a link
        return "]\\"
    return "&lt;" if found == "<" else "".join(f"\\{character}" for character in found)


def _closes(line: str, fence: str) -> bool:
    stripped = line.lstrip(" ")
    ends = stripped.rstrip(" \t")
    return len(line) - len(stripped) <= 3 and len(ends) >= len(fence) and set(ends) == {fence[0]}


def _line(text: str) -> str:
    """Text of somebody on one line, inside mark-up of ours."""
    return _inline(visible(" ".join(text.split()), newlines=False))
