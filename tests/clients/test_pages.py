"""A session as a page to keep: everything is there to read, and nothing in it does anything."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.render.session_pages import (
    Call,
    ChildWork,
    Gap,
    Note,
    Words,
    fenced,
    html,
    inert,
    markdown,
    passages,
)
from bridle.protocol import events as e
from bridle.protocol.codec import EXPIRED
from bridle.protocol.display_values import EditedFile, ShownCommand, ShownEdit
from bridle.protocol.messages import ImageBlock, TextBlock
from effort import examples
from hostile_text import HOSTILE
from tables import table

TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "main", "article", "time", "div", "details",
    "summary", "pre", "code", "b", "i", "span", "img", "table", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "src", "alt"}

ACTIVE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</pre></details><script>x</script>",
    "</title><script>x</script>",
    "</style><script>x</script>",
    "<!--><script>x</script>-->",
    "<a href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1))",
    "[x](javascript&#58;alert(1))",
    "![x](https://host.invalid/pixel.png)",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "<https://host.invalid>",
    "\\[x](javascript:alert(1))",
    "\\\\[x](javascript:alert(1))",
    "`a\n` <script>x</script> `",
    "\\`<script>x</script>\\`",
    " ```\n```\n<script>x</script>\n",
    "- a\n  ```\n<script>x</script>\n",
    "> ```\n<script>x</script>\n",
    "~~~\n<script>x</script>\n~~~~~\n<script>y</script>\n```\n",
    "``` a`b\n<script>x</script>\n```",
    "```\n   ```\n<script>x</script>",
    "```\n    ```\n<script>x</script>",
    "1. ```\n```\n<script>x</script>",
    "<iframe src=//host.invalid></iframe>",
    "<?php x ?>",
    "<![CDATA[ <script>x</script> ]]>",
    "\t```\n```\n<script>x</script>",
    "&lt;script&gt;",
)


def _envelopes(*events: e.AnyEvent | tuple[e.AnyEvent, tuple[str, ...]]) -> list[e.Envelope]:
    """Events in order; one with a path is that of an agent that was sent."""
    pairs = [event if isinstance(event, tuple) else (event, ()) for event in events]
    return [
        e.Envelope(
            id=number,
            kind=type(event).__name__,
            session="s",
            originator="",
            ts_ms=1_700_000_000_000,
            event=event,
            agent_path=path,
            invocation="inv" if path else None,
        )
        for number, (event, path) in enumerate(pairs, 1)
    ]


def _session(text: str) -> list[e.Envelope]:
    """The same text wherever somebody else's text can stand."""
    return _envelopes(
        e.InputAccepted(content=(TextBlock(text=text), ImageBlock(url=text))),
        e.TurnStarted(input=1),
        e.StepStarted(step=1, provider="p", model="m"),
        e.TextDelta(text=text),
        e.StepEnded(step=1, stop="tool_use", text_sha256=""),
        e.ToolCallRequested(call_id="c", tool=text, input={"path": text, text: text}, step=1),
        e.ToolResult(
            call_id="c",
            tool=text,
            outcome="ok",
            content=text,
            shown=ShownEdit(files=(EditedFile(path=text, diff=f"+{text}\n-{text}"),)),
        ),
        e.ToolCallRequested(call_id="d", tool="bash", input={"command": text}, step=1),
        e.ToolResult(call_id="d", tool="bash", outcome="error", content=text),
        e.Notice(reason="x", message=text),
        e.ChildStarted(invocation="inv", agent=text, task=text),
        *((event, (text,)) for event in _work_of(text)),
        e.ChildEnded(invocation="inv", agent=text, ok=False, result=text, stopped_by=text),
        e.TurnEnded(stop="error", message=text),
    )


def _work_of(text: str) -> tuple[e.AnyEvent, ...]:
    """What an agent says and does that was sent."""
    return (
        e.InputAccepted(content=(TextBlock(text=f"HANDED OVER {text}"),)),
        e.StepStarted(step=1, provider="p", model="m"),
        e.TextDelta(text=text),
        e.StepEnded(step=1, stop="tool_use", text_sha256=""),
        e.ToolCallRequested(call_id="k", tool="bash", input={"command": text}, step=1),
        e.ToolResult(call_id="k", tool="bash", outcome="error", content=text),
        e.TurnEnded(stop="error", message=text),
    )


def _page(text: str) -> str:
    return "".join(html(text, [text], _session(text)))


def _markdown(text: str) -> str:
    return "".join(markdown(text, [text], _session(text)))


class _Reader(HTMLParser):
    """What a browser would make of a page: every element and attribute, and all text outside of style."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.others: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self._open.pop() == tag, f"{tag} closes something else"

    def handle_data(self, data) -> None:
        if "style" not in self._open:
            self.text.append(data)

    def handle_comment(self, data) -> None:
        self.others.append(data)

    def handle_pi(self, data) -> None:
        self.others.append(data)

    def unknown_decl(self, data) -> None:
        self.others.append(data)


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader._open == []
    return reader


def _check_inert_html(page: str) -> _Reader:
    reader = _read(page)
    assert {tag for tag, _ in reader.tags} <= TAGS
    assert {name for _, attributes in reader.tags for name in attributes} <= ATTRIBUTES
    assert [
        attributes["src"]
        for tag, attributes in reader.tags
        if tag == "img" and not attributes["src"].startswith("data:image/")
    ] == []
    assert reader.others == []
    # outside of text nothing could load or run, whatever reads it
    assert not re.search(r"<[^>]*(?:\son\w+\s*=|href|javascript:|url\(|https?:)", page, re.IGNORECASE)
    assert "<script" not in page.lower()
    return reader


@table("text", [*ACTIVE, HOSTILE])
def test_nothing_anybody_wrote_is_active_in_the_page(text) -> None:
    reader = _check_inert_html(_page(text))
    shown = "".join(reader.text)
    assert visible(text.strip()).split("\n")[0] in shown


@settings(max_examples=examples(150), deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(ACTIVE)).map("\n".join)))
def test_no_text_ever_becomes_markup(text) -> None:
    _check_inert_html(_page(text))


def test_the_page_needs_nothing_else_and_fits_light_and_dark() -> None:
    page = _page("hello")
    policy = next(
        a["content"] for tag, a in _read(page).tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"https?://|//[a-z]|@import|url\(", page)


def test_an_image_is_shown_only_when_it_is_in_the_page_itself() -> None:
    inside = "data:image/png;base64,iVBORw0KGgo="
    for url, shown in [
        (inside, True),
        ("https://host.invalid/a.png", False),
        ("data:image/svg+xml;base64,PHN2Zz4=", False),
        ("data:text/html;base64,PHN2Zz4=", False),
        (inside + '" onload="x', False),
        (inside + "\n", False),
    ]:
        page = "".join(html("t", [], _envelopes(e.InputAccepted(content=(ImageBlock(url=url),)))))
        assert (inside in page) == shown, url
        _check_inert_html(page)


# Markdown


def _rendered(text: str) -> str:
    """As a viewer that lets HTML through would show it."""
    viewer = (
        pytest.importorskip("markdown_it")
        .MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
    )
    return viewer.render(text)


def _check_inert_markdown(text: str) -> None:
    reader = _Reader()
    reader.feed(_rendered(text))
    reader.close()
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {
        "script",
        "img",
        "a",
        "iframe",
        "svg",
        "object",
        "embed",
        "form",
        "input",
        "link",
        "style",
        "base",
    }, tags
    assert reader.others == []
    assert {name for _, attributes in reader.tags for name in attributes} <= {"class", "start", "style"}


@table("text", ACTIVE)
def test_no_viewer_finds_anything_active_in_the_markdown(text) -> None:
    _check_inert_markdown(inert(text))
    _check_inert_markdown(_markdown(text))


_PIECES = st.sampled_from(
    [*ACTIVE, "<script>x</script>", "```", "~~~", "``", "`", "````", "\n", "\n\n", " ", "   ", "    ", "\t", "\\", "[",
     "](", "x", "- ", "> ", "1. ", "<", ">", "!", ")", "[a]: b", "|", "***", "---", "#"]
)  # fmt: skip


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(_PIECES, max_size=14).map("".join))
@example("`````\n```\n<script>x</script>\n`````")
def test_no_text_ever_becomes_active_in_markdown(text) -> None:
    _check_inert_markdown(inert(text))


@settings(max_examples=examples(100), deadline=None)
@given(st.text(st.sampled_from("`~\nx <>")))
def test_nothing_closes_the_fence_around_it(text) -> None:
    assert _rendered(fenced(text) + "\n\nafter").count("<p>after</p>") == 1


def test_code_in_fences_stays_as_it_was() -> None:
    said = "Use this:\n\n```python\nx: list[int] = [<a>]\n```\n\nand `b`."
    assert inert(said) == said


def test_an_open_fence_ends_with_what_was_said() -> None:
    assert inert("```\ncode") == "```\ncode\n```"


# Passages


def test_a_session_is_told_in_passages() -> None:
    told = list(passages(_envelopes(
        e.InputAccepted(content=(TextBlock(text="fix it"),)),
        e.StepStarted(step=1, provider="p", model="m"),
        e.TextDelta(text="lost"),
        e.StepFailed(step=1, attempt=1, reason="Overloaded", message="p is overloaded."),
        e.TextDelta(text="On it."),
        e.StepEnded(step=1, stop="tool_use", text_sha256=""),
        e.ToolCallRequested(call_id="c", tool="bash", input={"command": "make"}, step=1),
        e.ToolResult(call_id="c", tool="bash", outcome="ok", content="fine", shown=ShownCommand(exit_code=0)),
        e.TurnEnded(stop="cancelled"),
    )))  # fmt: skip
    at = 1_700_000_000_000
    assert told == [
        Words(who="you", text="fix it", ts_ms=at),
        Note(text="p is overloaded.", ts_ms=at),
        Words(who="bridle", text="On it.", ts_ms=at),
        Call(what="make", told="ran make exit 0", outcome="ok", input="make", output="fine", ts_ms=at),
        Note(text="ended: cancelled", ts_ms=at),
    ]


def test_what_has_expired_is_said_to_be_gone_in_every_format() -> None:
    gone = e.UnknownEvent(kind="TextDelta", raw=EXPIRED)
    events = [*_envelopes(gone, gone, gone)]
    (gap,) = passages(events)
    assert gap == Gap(first=1, last=3, ts_ms=1_700_000_000_000)
    words = "The content of 3 events has expired"
    assert words in "".join(markdown("t", [], events))
    assert words in "".join(html("t", [], events))


@pytest.mark.requirement("D13.34")
def test_the_work_of_an_agent_stands_together_and_none_of_its_words_are_the_main_agents() -> None:
    child = ("review",)
    session = _envelopes(
        e.InputAccepted(content=(TextBlock(text="have it reviewed"),)),
        e.ChildStarted(invocation="inv", agent="review", task="Look at a.txt."),
        *((event, child) for event in _work_of("## Bridle")),
        e.TextDelta(text="Meanwhile."),
        e.StepEnded(step=1, stop="end_turn", text_sha256=""),
        e.ChildEnded(invocation="inv", agent="review", ok=True, result="No faults.", steps=2),
        e.TextDelta(text="It is fine."),
        e.StepEnded(step=1, stop="end_turn", text_sha256=""),
    )
    _, meanwhile, work, said = passages(session)
    assert (meanwhile.text, said.text) == ("Meanwhile.", "It is fine.")
    assert isinstance(work, ChildWork)
    assert (work.agent, work.task, work.came_to) == ("review", "Look at a.txt.", "agent review: 2 steps")
    assert [type(one) for one in work.inner] == [Words, Call, Note]
    page = "".join(markdown("t", [], session))
    assert page.count("\n\n## Bridle\n\n") == 2, "what a child says is no heading"
    assert "> ## Bridle" in page
    assert "HANDED OVER" not in page
    shown = "".join(html("t", [], session))
    assert '<details class="agent"><summary>agent review: 2 steps</summary>' in shown
    assert "HANDED OVER" not in shown


def test_an_agent_whose_end_nobody_saw_is_in_the_page_too() -> None:
    session = _envelopes(
        e.ChildStarted(invocation="inv", agent="review", task="Look."), (e.TextDelta(text="Hm"), ("review",))
    )
    (work,) = passages(session)
    assert isinstance(work, ChildWork)
    assert work.came_to == "agent review: still at work"
