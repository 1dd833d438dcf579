"""Export a session as one Markdown or HTML file.

Both are made of passages. In Markdown, text stays Markdown, but without HTML, links and images: loading one would tell
somebody that the page was read. Code in fences stays as it is; fences that do not begin a line are shown as typed,
because viewers disagree about where such code ends. In HTML, text is escaped in one place (`_text`), Markdown is drawn
from spans, and the page forbids itself everything but its own style.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final, Literal, TypeAlias

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.text.markdown import MarkdownStream, StyledSpan, inline_spans
from bridle.base.text.markdown_table import table_of
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.render.call_text import describe_call, diff_text
from bridle.clients.interaction.render.event_rows import EventRow, EventRows, RowKind, gap_text
from bridle.clients.interaction.render.progress_text import child_title, ended_line
from bridle.protocol import events as e

LEFT_OUT: Final = frozenset[RowKind]({
    "start", "command", "delta", "printed", "edit", "output", "agent", "waiting", "setting", "grant", "queue", "diff",
})  # fmt: skip
"""Calls hold their whole output and edits, and the work of a subagent its start and end."""
_ACTIVE = re.compile(r"\\[^\n]|<(?=[A-Za-z/!?])|\](?=[(\[:])|`{3,}|~{3,}")
_FENCE = re.compile(r"(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)")
_TICKS = re.compile(r"`+")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #667; --line: #d8dce2; --own: #eef3fb;
  --code: #f4f5f7; --plus: #116329; --minus: #a40e26; --bad: #a40e26; }
@media (prefers-color-scheme: dark) { :root { --ink: #d6dae0; --paper: #15181c; --faint: #8b929c; --line: #31363d;
  --own: #1d2733; --code: #1e2227; --plus: #6fdd8b; --minus: #ff8e8e; --bad: #ff8e8e; } }
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; }
header, .note, time, summary small { color: var(--faint); }
header p { margin: .2rem 0; }
article { margin: 1.2rem 0; }
.you { background: var(--own); border-radius: .5rem; padding: .7rem 1rem; }
.said { white-space: pre-wrap; }
.said b.heading { font-size: 1.1em; }
.said i.quote { color: var(--faint); }
code, pre, summary { font-family: ui-monospace, monospace; font-size: .9em; }
code, pre { background: var(--code); border-radius: .3rem; }
code { padding: .1em .25em; }
pre { margin: .4rem 0; padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap; }
pre code { padding: 0; background: none; font-size: 1em; }
details { border-left: 3px solid var(--line); padding-left: .7rem; margin: .5rem 0; }
details.bad { border-color: var(--bad); }
details.agent { margin-left: 1.2rem; }
table { border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left; }
.plus { color: var(--plus); } .minus { color: var(--minus); }
img { max-width: 100%; border-radius: .3rem; }
"""
_PLAIN_TAGS = {
    "plain": ("", ""),
    "bold": ("<b>", "</b>"),
    "italic": ("<i>", "</i>"),
    "bold_italic": ("<b><i>", "</i></b>"),
    "code": ("<code>", "</code>"),
    "heading": ('<b class="heading">', "</b>"),
    "bullet": ("", ""),
    "quote": ('<i class="quote">', "</i>"),
    "code_block": ("<pre><code>", "</code></pre>"),
}


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """Text of the user or the model. `images` are addresses of images that the user added."""

    who: Literal["you", "bridle"]
    text: str
    ts_ms: int
    images: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended. `told` is the line that every client shows; `input` is the whole input."""

    what: str
    told: str
    outcome: str
    input: str = ""
    output: str = ""
    diff: str = ""
    ts_ms: int


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An event around the conversation."""

    text: str
    ts_ms: int


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Events whose content has expired."""

    first: int
    last: int
    ts_ms: int


class ChildWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a subagent: its task, its text and calls, and its result."""

    agent: str
    task: str
    inner: tuple[Passage, ...]
    came_to: str
    ts_ms: int


Passage: TypeAlias = Words | Call | Note | Gap | ChildWork


def passages(envelopes: Iterable[e.Envelope]) -> Iterator[Passage]:
    """The session in order. Text of a failed attempt of the model is left out, as the model itself never sees it."""
    found = _Passages()
    for envelope in envelopes:
        yield from found.take(envelope)
    yield from found.rest()


class _Passages:
    """The passages of the main agent, and those of each subagent together where it ends."""

    def __init__(self) -> None:
        self._rows = EventRows(left_out=LEFT_OUT)
        self._children: dict[str, list[Passage]] = {}
        self._gap: Gap | None = None

    def take(self, envelope: e.Envelope) -> Iterator[Passage]:
        event, number = envelope.event, envelope.id or 0
        found: list[Passage] = []
        for row in self._rows.take(envelope):
            if row.kind == "gap":
                first = number if self._gap is None else self._gap.first
                self._gap = Gap(first=first, last=number, ts_ms=envelope.ts_ms)
            elif row.kind == "input":
                found += self._take_gap()
            found += _passages_of(row, envelope.ts_ms)
        if isinstance(event, e.ChildStarted):
            self._children[event.invocation] = []
        elif isinstance(event, e.ChildEnded):
            found += self._work(event.invocation)
        if envelope.invocation is None:
            yield from found
        elif envelope.invocation in self._children:
            self._children[envelope.invocation] += found

    def rest(self) -> Iterator[Passage]:
        for invocation in list(self._children):
            yield from self._work(invocation)
        yield from self._take_gap()

    def _take_gap(self) -> Iterator[Gap]:
        if self._gap is not None:
            yield self._gap
            self._gap = None

    def _work(self, invocation: str) -> Iterator[ChildWork]:
        child, inner = self._rows.fold.children.entries.get(invocation), self._children.pop(invocation, None)
        if child is not None and inner is not None:
            yield ChildWork(
                agent=child.label,
                task=child.task,
                inner=tuple(inner),
                came_to=ended_line(child) if child.is_over else f"{child_title(child)}: still at work",
                ts_ms=child.started_ms,
            )


def _passages_of(row: EventRow, ts_ms: int) -> Iterator[Passage]:
    match row.kind:
        case "input":
            yield Words(who="you", text=row.text, ts_ms=ts_ms, images=row.images)
        case "said" | "answer" | "child_said":
            if row.text.strip():
                yield Words(who="bridle", text=row.text, ts_ms=ts_ms)
        case "call" | "told_call":
            yield from _calls_of(row, ts_ms)
        case "gap":
            return
        case _:
            if row.text:
                yield Note(text=row.text, ts_ms=ts_ms)


def _calls_of(row: EventRow, ts_ms: int) -> Iterator[Call]:
    call = row.call
    if call is not None and call.result is not None:
        yield Call(
            what=describe_call(call.tool, call.input),
            told=" ".join(row.text.split()),
            outcome=call.result.outcome,
            input=_whole(call.input),
            output=call.result.content,
            diff=diff_text(call.result),
            ts_ms=ts_ms,
        )


def _whole(given: dict[str, Any]) -> str:
    """The input as text: a command as it is, anything else as JSON."""
    if set(given) == {"command"} and isinstance(given["command"], str):
        return given["command"]
    return msgspec.json.format(msgspec.json.encode(given), indent=2).decode() if given else ""


def _gap_text(gap: Gap) -> str:
    return gap_text(gap.last - gap.first + 1)


def markdown(title: str, facts: Iterable[str], envelopes: Iterable[e.Envelope]) -> Iterator[str]:
    """The page in parts. `facts` are lines about the session that stand below its title."""
    yield f"# {_line(title) or 'A conversation'}\n"
    if told := [f"{_line(fact)}  \n" for fact in facts]:
        yield "\n" + "".join(told)
    for passage in passages(envelopes):
        yield f"\n{_markdown_passage(passage)}\n"


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


def _markdown_passage(passage: Passage) -> str:
    match passage:
        case Words(who="you"):
            quoted = "\n".join(f"> {line}" for line in _quoted(passage.text))
            images = "\n".join("> (an image)" for _ in passage.images)
            return "\n".join(filter(None, ("## You\n", quoted, images)))
        case Words():
            return f"## Bridle\n\n{inert(visible(passage.text).strip())}"
        case Call():
            return _markdown_call(passage)
        case Note():
            return f"*{_line(passage.text).replace('*', chr(92) + '*')}*"
        case Gap():
            return f"*{_gap_text(passage)}*"
        case ChildWork():
            return _markdown_work(passage)


def _markdown_work(work: ChildWork) -> str:
    """The work of an agent below a heading of its own. Its words are quotes, so that none of them is a heading."""
    task = "\n".join(f"> {line}" for line in _quoted(work.task))
    inner = (
        "\n".join(f"> {line}" for line in _quoted(one.text))
        if isinstance(one, Words)
        else _markdown_passage(one)
        for one in work.inner
    )
    ended = f"*{_line(work.came_to).replace('*', chr(92) + '*')}*"
    return "\n\n".join((f"### Agent {_line(work.agent)}", task, *inner, ended))


def _markdown_call(call: Call) -> str:
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
    return _inline(visible_line(" ".join(text.split())))


def html(title: str, facts: Iterable[str], envelopes: Iterable[e.Envelope]) -> Iterator[str]:
    """The page in parts. `facts` are lines about the session that stand below its title."""
    named = _text(" ".join(title.split())) or "A conversation"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{named}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{named}</h1>\n"
    )
    yield from (f"<p>{_text(fact)}</p>\n" for fact in facts)
    yield "</header>\n<main>\n"
    for passage in passages(envelopes):
        yield f"{_html_passage(passage)}\n"
    yield "</main>\n</body>\n</html>\n"


def _html_passage(passage: Passage) -> str:
    match passage:
        case Words(who="you"):
            images = "".join(_image(url) for url in passage.images)
            said = f'<div class="said">{_text(passage.text.strip())}</div>'
            return f'<article class="you"><time>{_when(passage.ts_ms)}</time>{said}{images}</article>'
        case Words():
            return f'<article class="bridle"><div class="said">{_drawn(passage.text.strip())}</div></article>'
        case Call():
            return _html_call(passage)
        case Note():
            return f'<p class="note">{_text(passage.text)}</p>'
        case Gap():
            return f'<p class="note">{_text(_gap_text(passage))}</p>'
        case ChildWork():
            return _html_work(passage)


def _html_work(work: ChildWork) -> str:
    """The work of an agent, folded below what it came to."""
    task = f'<p class="note">{_text(" ".join(work.task.split()))}</p>'
    inner = "\n".join(map(_html_passage, work.inner))
    return f'<details class="agent"><summary>{_text(work.came_to)}</summary>{task}{inner}</details>'


def _html_call(call: Call) -> str:
    bad = "" if call.outcome == "ok" else ' class="bad"'
    inside = f"<pre>{_text(call.input)}</pre>" if call.input else ""
    if call.diff:
        inside += f"<pre>{_diff(call.diff)}</pre>"
    elif call.output:
        inside += f"<pre>{_text(call.output)}</pre>"
    return f"<details{bad}><summary>{_text(call.told)}</summary>{inside}</details>"


def _diff(diff: str) -> str:
    return "\n".join(_diff_line(line) for line in diff.split("\n"))


def _diff_line(line: str) -> str:
    style = "plus" if line.startswith("+") else "minus" if line.startswith("-") else ""
    return f'<span class="{style}">{_text(line)}</span>' if style else _text(line)


def _drawn(text: str) -> str:
    stream = MarkdownStream()
    return "".join(_span(span) for span in (*stream.render_chunk(text), *stream.flush()))


def _span(span: StyledSpan) -> str:
    """A link is none here: it stands as it was written."""
    if span.style == "table":
        return _table(span.text)
    if span.style == "link":
        return _text(span.text if span.text == span.target else f"[{span.text}]({span.target})")
    opening, closing = _PLAIN_TAGS[span.style]
    return f"{opening}{_text(span.text)}{closing}"


def _table(text: str) -> str:
    table = table_of(text)
    head, rows = _row("th", table.head), "".join(_row("td", row) for row in table.rows)
    return f"<table>{head}{rows}</table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    drawn = ("".join(map(_span, inline_spans(cell))) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in drawn)}</tr>"


def _image(url: str) -> str:
    """An image that is in the page itself; one from elsewhere would tell somebody that it was looked at."""
    if _IMAGE.fullmatch(url):
        return f'<p><img alt="an image" src="{url}"></p>'
    return '<p class="note">(an image that is kept elsewhere)</p>'


def _text(text: str) -> str:
    """Text as text: nothing in it is mark-up, and nothing in it is invisible."""
    return escape(visible(text), quote=True)


def _when(ts_ms: int) -> str:
    return iso_ms(ts_ms)[:16].replace("T", " ")
