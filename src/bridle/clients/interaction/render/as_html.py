"""Export a session as one HTML file without scripts or external resources.

Text is escaped in one place (`_text`), and the page forbids itself everything but its own style. Markdown of the model
is drawn from spans, so no mark-up that anybody wrote is ever mark-up here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from bridle.base.clock import iso_ms
from bridle.base.text.markdown import MarkdownStream, StyledSpan, inline_spans
from bridle.base.text.markdown_table import table_of
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.render.as_markdown import gap_words
from bridle.clients.interaction.render.passages import Call, ChildWork, Gap, Note, Passage, Words, passages
from bridle.protocol import events as e

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
        yield f"{_shown(passage)}\n"
    yield "</main>\n</body>\n</html>\n"


def _shown(passage: Passage) -> str:
    match passage:
        case Words(who="you"):
            images = "".join(_image(url) for url in passage.images)
            said = f'<div class="said">{_text(passage.text.strip())}</div>'
            return f'<article class="you"><time>{_when(passage.ts_ms)}</time>{said}{images}</article>'
        case Words():
            return f'<article class="bridle"><div class="said">{_drawn(passage.text.strip())}</div></article>'
        case Call():
            return _call(passage)
        case Note():
            return f'<p class="note">{_text(passage.text)}</p>'
        case Gap():
            return f'<p class="note">{_text(gap_words(passage))}</p>'
        case ChildWork():
            return _work(passage)


def _work(work: ChildWork) -> str:
    """The work of an agent, folded below what it came to."""
    task = f'<p class="note">{_text(" ".join(work.task.split()))}</p>'
    inner = "\n".join(map(_shown, work.inner))
    return f'<details class="agent"><summary>{_text(work.came_to)}</summary>{task}{inner}</details>'


def _call(call: Call) -> str:
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
