"""A page of the web as the model reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from bridle.base.net.http_dial import HttpFault
from bridle.base.net.web import MAX_BODY_BYTES, RefuseBody, WebAnswer, WebRefused
from bridle.base.net.web_text import NotText, media_type, shown_size, web_text, why_not_text
from bridle.base.text.html_markdown import to_markdown, without_unseen
from bridle.base.threads import in_thread
from bridle.engine.tools import ToolOutput
from bridle.protocol.errors import sentence
from bridle.protocol.events import Evidence

Fetch: TypeAlias = Callable[[str, RefuseBody], Awaitable[WebAnswer]]
"""Gets a page: see `bridle.base.net.web.Web.fetch`, which is the contract. Raises `WebRefused` and `HttpFault`."""

_SHOWN_CHARACTERS = 200


async def read_page(fetch: Fetch, url: str, *, limit: int, raw: bool) -> ToolOutput:
    """Fetch a page and return what the model reads of it: at most `limit` characters, Markdown unless `raw`."""
    try:
        answer = await fetch(url, why_not_text)
        if problem := _problem(answer):
            return _failed(url, problem)
        return await in_thread(partial(_shown, answer, limit, raw=raw))
    except WebRefused as refused:
        return _refused(refused.problem, refused.url)
    except (HttpFault, NotText) as fault:
        return _failed(url, fault.problem)


def _problem(answer: WebAnswer) -> str:
    """Why there is nothing to show, as the end of a sentence; empty when there is."""
    if answer.status // 100 == 3:
        return f"the server answered {answer.status} and no address to go on to"
    return answer.unwanted or ("" if answer.status // 100 == 2 else f"the server answered {answer.status}")


def _shown(answer: WebAnswer, limit: int, *, raw: bool) -> ToolOutput:
    """What the model reads. Not called in the event loop: a long page takes a while."""
    found = web_text(answer.headers, answer.body, MAX_BODY_BYTES)
    title, cut = "", answer.cut or found.cut
    if found.html and not raw:
        title, text, left_out = to_markdown(found.text, answer.url)
        cut = cut or left_out
    else:
        text = without_unseen(found.text)
    notes = [f"more follows: cut after {limit} of {len(text)} characters"] if len(text) > limit else []
    if cut:
        notes.append("the page is longer than what was read")
    if found.damaged:
        notes.append("some bytes were no characters and are shown as \N{REPLACEMENT CHARACTER}")
    kind = media_type(answer.headers) or "no type given"
    head = f"[{answer.url}, {kind}, {shown_size(len(answer.body))}]\n"
    if title and text.partition("\n")[0] != f"# {title}":
        head += f"# {title}\n\n"
    body = text[:limit] if text.strip() else "[the page has no text]"
    return ToolOutput(
        content="".join(
            (head, body, "" if body.endswith("\n") else "\n", *(f"[{note}]\n" for note in notes))
        ),
    )


def _failed(url: str, problem: str) -> ToolOutput:
    shown = url if len(url) <= _SHOWN_CHARACTERS else url[:_SHOWN_CHARACTERS] + "…"
    return ToolOutput(
        outcome="error",
        reason="FetchFailed",
        content=sentence("FetchFailed", {"url": shown, "problem": problem}),
    )


def _refused(problem: str, url: str) -> ToolOutput:
    """The same words as where the address itself was enough to refuse."""
    return ToolOutput(
        outcome="blocked",
        reason="NeverAllowed",
        content=sentence("NeverAllowed", {"problem": problem}),
        evidence=Evidence(
            source="address_guard", rule="address", matched=problem, preview=url[:_SHOWN_CHARACTERS]
        ),
    )
