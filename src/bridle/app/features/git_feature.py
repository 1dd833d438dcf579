"""Git commands in a session as a feature."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bridle.app.features.child_worktrees import own_trees
from bridle.app.features.model_features import asking_aside, refuse_beyond_budget
from bridle.app.session_parts import SessionParts
from bridle.base.git.git_calls import own_environment, program_on, quiet_variables
from bridle.base.git.git_repository import Repository
from bridle.base.process.processes import Processes
from bridle.base.text.token_estimate import estimated_tokens
from bridle.commands.git_as_person import DRAFT_SYSTEM, draft_request, git_command, show_changes
from bridle.commands.git_work import MAX_OUTPUT_BYTES, DraftMessage, GitNeeds, ProgramEnd
from bridle.engine.journal import masked
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message, Parameters, TextBlock
from bridle.protocol.questions import GitAnswer, GitQuestion
from bridle.sandbox.read_only_git import repository_of

DRAFT_TIMEOUT_S = 60.0
STOP_S = 5.0
"""So long a git that is to stop may tidy up."""
DRAFT_TOKENS = 2_000
"""What a message may have at most; most of it is for a model that thinks first."""


async def run_git_slash(parts: SessionParts, name: str, arguments: str) -> SlashEvent:
    """Carries out `/diff`, or one of the commands that run as the person."""
    if name == "diff":
        return await show_changes(
            arguments, repository=_repository(parts), cwd=parts.opened.cwd, shows=parts.shows_content
        )
    return await git_command(name, arguments, _needs(parts))


def _repository(parts: SessionParts) -> Repository:
    return repository_of(parts.spawn, cwd=parts.opened.cwd, env=parts.opened.env)


def person_environment(process: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that a person runs through a session: theirs, but for Bridle's own variables."""
    theirs = {name: value for name, value in process.items() if not name.upper().startswith("BRIDLE_")}
    return own_environment({**theirs, **session})


def _needs(parts: SessionParts) -> GitNeeds:
    services, opened, journal = parts.services, parts.opened, parts.journal
    env = person_environment(services.env, opened.env)
    options = parts.settings.options

    def program(name: str) -> str | None:
        return program_on(env.get("PATH", os.defpath), name, outside=opened.cwd)

    async def run(argv: tuple[str, ...], cwd: str, text: str) -> ProgramEnd:
        started = (program(argv[0]) or argv[0], *argv[1:])
        return await _run_as_person(services.processes, started, cwd=cwd, env=env, text=text)

    async def run_quietly(argv: tuple[str, ...], cwd: str, text: str) -> ProgramEnd:
        filters = await _repository(parts).configured_filters()
        quiet = {**env, **quiet_variables(env, filters=filters)}
        started = (program(argv[0]) or argv[0], *argv[1:])
        return await _run_as_person(services.processes, started, cwd=cwd, env=quiet, text=text)

    async def ask(question: GitQuestion) -> GitAnswer | None:
        answer = await parts.questions.ask(services.ids.new("git"), question)
        return answer if isinstance(answer, GitAnswer) else None

    return GitNeeds(
        repository=lambda: _repository(parts),
        trees=lambda: own_trees(parts),
        run=run,
        run_quietly=run_quietly,
        keeping=parts.undo().keeping,
        take_back=parts.undo().take_back,
        finds=lambda name: program(name) is not None,
        ask=ask,
        somebody_answers=parts.questions.can_be_answered,
        draft=lambda about: _draft(parts, about),
        mask=lambda text: masked(text, journal.secrets()),
        shows=parts.shows_content,
        emit=journal.emit,
        committed=journal.committed,
        now_ms=services.clock.now_ms,
        home=env.get("HOME", ""),
        agreed=options.yes and options.headless,
        dry_run=options.dry_run,
    )


async def _run_as_person(
    processes: Processes, argv: tuple[str, ...], *, cwd: str, env: Mapping[str, str], text: str
) -> ProgramEnd:
    """Runs a program of the person's to its end, beside the terminal and without one. Cancelling ends it.

    What it leaves running, an agent that signs or a cache of passwords, is left alone.
    """
    said = bytearray()

    def take(chunk: bytes) -> None:
        said.extend(chunk)
        del said[:-MAX_OUTPUT_BYTES]

    process = await processes.start(
        argv, cwd=cwd, env=env, on_output=take, stdin=text.encode(), spares_daemons=True
    )
    try:
        code = await process.wait()
    finally:
        await process.stop(STOP_S)
    return ProgramEnd(code if code >= 0 else 128 - code, bytes(said))


async def _draft(parts: SessionParts, about: DraftMessage) -> str:
    """The message as the model of the session writes it, beside the conversation."""
    chosen = parts.journal.conversation.model
    assert chosen is not None, "a session is created with a model"
    prefix = PrefixSet(
        provider=chosen.provider,
        model=chosen.model,
        system=DRAFT_SYSTEM,
        parameters=Parameters(max_tokens=DRAFT_TOKENS),
    )
    words = draft_request(about.changes, subjects=about.subjects, earlier=about.earlier, wish=about.wish)
    refuse_beyond_budget(parts, prefix, estimated_tokens(len(words) + len(DRAFT_SYSTEM)))
    ask = asking_aside(parts, "draft", DRAFT_TIMEOUT_S)
    return (await ask(prefix, (Message(role="user", content=(TextBlock(text=words),)),))).text
