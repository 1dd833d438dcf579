"""Slash commands from prompt files as a feature."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Iterator

from bridle.app.session_parts import SessionParts
from bridle.base.fs.files import repository_root
from bridle.base.text.terminal_text import visible
from bridle.commands.prompt_files import PromptFile, find_prompt_files, said_with
from bridle.config.bundles import bundle_name, counting_bundles
from bridle.engine.features import Feature
from bridle.engine.slash_command import DescribedSlash, SaidPrompt, SessionPrompts
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Notice
from bridle.protocol.questions import TrustAnswer
from bridle.protocol.slash_arguments import SlashArgument
from bridle.safety.trust.trust_items import TrustItem
from bridle.safety.trust.trust_questions import ReviewedText

NOT_TRUSTED = "a prompt of this project; you are shown it before it is said for the first time"


def user_prompts(parts: SessionParts, folder: str) -> Feature:
    """The prompts of the person's own folder."""
    return _feature(parts, "user", lambda: find_prompt_files(folder))


def project_prompts(parts: SessionParts, folders: tuple[str, ...]) -> Feature:
    """The prompts of the project's folders, of which each is trusted by its content."""
    root = repository_root(os.path.realpath(parts.opened.cwd))
    return _feature(parts, "project", lambda: _first_of_each(folders, root), root=root)


def bundle_prompts(parts: SessionParts, folder: str) -> Feature:
    """The prompts of a bundle, for as long as it is as the person agreed to it."""

    def find() -> Iterator[PromptFile]:
        for bundle in counting_bundles(parts.services.where.data, (folder,)):
            yield from _first_of_each((os.path.join(folder, one) for one in bundle.commands), folder)

    return _feature(parts, bundle_name(folder), find)


def _first_of_each(folders: Iterable[str], within: str) -> Iterator[PromptFile]:
    seen: set[str] = set()
    for folder in folders:
        for one in find_prompt_files(folder, within=within):
            if one.name not in seen:
                seen.add(one.name)
                yield one


def _feature(
    parts: SessionParts, namespace: str, find: Callable[[], Iterator[PromptFile]], *, root: str = ""
) -> Feature:
    """`find` reads what is there now. With `root` a person agrees to each before it is said."""
    approvals = parts.opened.approvals

    def names() -> list[DescribedSlash]:
        return [
            _told(
                namespace,
                one,
                NOT_TRUSTED if root and not trusted_prompt(one, root).is_trusted(approvals) else "",
            )
            for one in find()
        ]

    def say(name: str, words: str) -> SaidPrompt | None:
        lead, _, own = name.partition(":")
        if lead != namespace or not own:
            return None
        prompt = next((one for one in find() if one.name == own), None)
        if prompt is None:
            known = ", ".join(f"/{namespace}:{one.name}" for one in find()) or "none"
            raise BridleError("UnknownPrompt", name=visible(name, newlines=False)[:100], known=known)
        if prompt.problem:
            raise BridleError("BadPrompt", path=prompt.path, problem=prompt.problem)
        item = trusted_prompt(prompt, root) if root else None
        asks = item is not None and not item.is_trusted(approvals)
        if prompt.wants_shell:
            data = {"name": name}
            notice = Notice(
                reason="PromptRunsNothing", message=sentence("PromptRunsNothing", data), data=data
            )
            parts.journal.emit(notice)
        return SaidPrompt(
            text=said_with(prompt, words.strip()),
            agree=functools.partial(_agree, parts, item) if item is not None and asks else None,
        )

    return Feature(name=namespace, prompts=SessionPrompts(names=names, say=say, of_people=namespace))


def trusted_prompt(prompt: PromptFile, root: str) -> TrustItem:
    """A prompt of a project as what a person agrees to."""
    path = os.path.relpath(prompt.path, root)
    text = prompt.data.decode("utf-8", "replace")
    return TrustItem(
        kind="command",
        root=root,
        path=path,
        shown=path,
        digest=prompt.sha256,
        data=prompt.data,
        reviewed=ReviewedText(shown=path, text=text, kind="command", when="you say its name"),
    )


def prompt_items(folders: Iterable[str], root: str) -> Iterator[TrustItem]:
    """Every prompt of a project that could be said, for `bridle trust`."""
    for folder in folders:
        for one in find_prompt_files(folder, within=root):
            if not one.problem:
                yield trusted_prompt(one, root)


def _told(namespace: str, prompt: PromptFile, instead: str) -> DescribedSlash:
    about = instead or visible(prompt.description, newlines=False)
    hint = "" if instead else visible(prompt.hint, newlines=False)
    return DescribedSlash(
        name=f"{namespace}:{prompt.name}",
        does=about if not prompt.problem else f"cannot be said: {prompt.problem}",
        arguments=(SlashArgument(name="words", about=hint or "what is written behind it"),),
    )


async def _agree(parts: SessionParts, item: TrustItem) -> None:
    """Shows a person the prompt. Raises `PromptNotTrusted` where they do not want it said."""
    approvals = parts.opened.approvals
    question = item.question(approvals, parts.services.clock.now_ms())
    answer = await parts.questions.ask(f"trust-{item.digest[:16]}", question)
    if not isinstance(answer, TrustAnswer) or not answer.use:
        raise BridleError("PromptNotTrusted", path=item.path)
    await asyncio.to_thread(functools.partial(item.approve, approvals))
