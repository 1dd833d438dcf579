"""Slash commands for the work of a session: queue, output, changes, subagents, cost, export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.commands.command_table import SlashCommand, SlashContext, do, is_number, say
from bridle.clients.interaction.composer.parse import Words, parse
from bridle.clients.interaction.effects import (
    CopyText,
    Do,
    Effect,
    Leave,
    OpenDiff,
    OpenText,
    SayWords,
    SessionHost,
    WriteDraft,
)
from bridle.clients.interaction.engine_info import PATIENCE_S, short_id
from bridle.clients.interaction.render.call_text import printed_text
from bridle.clients.interaction.render.event_rows import (
    NOT_IN_TRANSCRIPTS,
    EventRows,
    RowKind,
    input_words,
    nested_lines,
)
from bridle.clients.interaction.render.progress_text import (
    child_title,
    path_words,
    plan_rows,
    plan_title,
    tree_lines,
)
from bridle.clients.interaction.render.session_fold import edited_files
from bridle.clients.interaction.render.session_pages import html, markdown
from bridle.clients.interaction.render.usage import (
    input_tokens,
    instruction_rows,
    money_words,
    paid_words,
    short_number,
    token_words,
)
from bridle.clients.interaction.view import SessionView
from bridle.protocol.commands import AskAside, CancelTurn, ChangeInput, RunSlash
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import ChildEnded, ChildStarted, Envelope, InputChange, ToolResult
from bridle.protocol.inbox import PendingInput
from bridle.protocol.messages import ImageBlock, InputBlock, Usage
from bridle.protocol.queries import (
    AgentEntry,
    AgentList,
    CustomQuery,
    ListAgents,
    ListChanges,
    ReadOutput,
)
from bridle.protocol.slash_arguments import SlashArgument

MAIN_AGENT: Final = "main"
"""The name of the agent that the user talks to, where none was chosen."""


def _btw(now: SlashContext, question: str) -> Sequence[Effect]:
    if not question:
        return say("What? /btw words   Neither they nor the answer join the conversation.")
    return (AskAside(session=now.session, question=question),)


# The queue

_CHANGES: Final[dict[str, InputChange]] = {
    "hold": "hold",
    "release": "release",
    "first": "first",
    "drop": "drop",
}
_HOW: Final = "/queue edit N, hold N, release N, first N, drop N"


def _queue(now: SlashContext, arguments: str) -> Sequence[Effect]:
    """List what waits, change it, or take a message back as a draft."""
    verb, _, rest = arguments.partition(" ")
    if not verb:
        return say(*queue_lines(now.view), indent=" " * 3)
    number, _, words = rest.strip().partition(" ")
    if verb != "edit" and verb not in _CHANGES:
        return say(f"What about them? {_HOW}", indent=" " * 3)
    waiting = list(now.view.inputs.values())
    if not (is_number(number) and 1 <= int(number) <= len(waiting)):
        which = f"Which one? /queue lists them with their numbers, then /queue {verb} NUMBER"
        return say(which, indent=" " * 3)
    chosen = waiting[int(number) - 1]
    if verb != "edit":
        return (ChangeInput(session=now.session, input=chosen.id, change=_CHANGES[verb]),)
    if not words.strip():
        return (WriteDraft(f"/queue edit {number} {input_words(chosen.event.content)}"),)
    content = _edited(chosen, words.strip(), now.is_file)
    return (ChangeInput(session=now.session, input=chosen.id, change="edit", content=content),)


def queue_lines(view: SessionView) -> tuple[str, ...]:
    """What waits, in the order it will be said, each with the number that commands take."""
    rows = [f"{number:<2} {_row(one)}" for number, one in enumerate(view.inputs.values(), 1)]
    return (*rows, _HOW) if rows else ("Nothing is queued.",)


def _row(one: PendingInput) -> str:
    state = "held     " if one.held else "now      " if one.event.mode == "steer" else ""
    return state + " ".join(input_words(one.event.content).split())


def _edited(old: PendingInput, words: str, is_file: Callable[[str], bool]) -> tuple[InputBlock, ...]:
    """The new words, as typing them would send them, with the images the message had."""
    read = parse(f" {words}", is_file)
    images = tuple(block for block in old.event.content if isinstance(block, ImageBlock))
    return (*(read.content if isinstance(read, Words) else ()), *images)


# What was done


def _todos(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    todos = now.view.todos
    if not todos:
        return say("The model has made no plan in this session.", indent=" " * 4)
    rows = (f"  {row.text}" for row in plan_rows(todos, whole=True))
    return say(plan_title(todos), *rows, indent=" " * 4)


async def _read_past(host: SessionHost) -> AsyncIterator[Envelope]:
    """Read everything that happened until now."""
    last = host.view.last_id
    async for envelope in host.connection.events(host.session):
        yield envelope
        if envelope.id is not None and envelope.id >= last:
            break


async def open_output(host: SessionHost, which: str) -> None:
    """Open what a command printed: the last one, the last but so many, or the one of a call."""
    results = [
        envelope.event
        async for envelope in _read_past(host)
        if isinstance(envelope.event, ToolResult)
        and (envelope.event.tool == "bash" or edited_files(envelope.event))
    ]
    wanted = which.removeprefix("output:")
    if wanted and not wanted.isdecimal():
        results = [result for result in results if result.call_id.startswith(wanted)]
    back = int(wanted) if wanted.isdecimal() else 1
    if not 1 <= back <= len(results):
        words = "No such output. /output shows that of the last command, /output 2 that of the one before."
        host.perform(SayWords(words))
    elif files := edited_files(results[-back]):
        host.perform(OpenDiff("", files))
    elif not results[-back].content.strip():
        host.perform(SayWords("That command printed nothing."))
    else:
        host.perform(OpenText(await _read_output(host, results[-back])))


async def _read_output(host: SessionHost, result: ToolResult) -> str:
    """Read all that a command printed, as far as it was kept."""
    parts: list[str] = []
    at: int | None = 0 if "truncated" in result.metadata else None
    while at is not None:
        query = ReadOutput(session=host.session, call_id=result.call_id, offset=at)
        part = await host.connection.ask(query)
        at = part.next_offset
        parts += [] if part.text is None else [part.text]
    return "".join(parts) or printed_text(result)


def _diff(now: SlashContext, what: str) -> Sequence[Effect]:
    lead, _, path = what.partition(" ")
    if lead == "git":
        return (RunSlash(session=now.session, name="diff", arguments=path.strip()),)
    return (Do(open_diff, what),)


async def open_diff(host: SessionHost, what: str) -> None:
    """Open what a turn, a call or the session changed in files."""
    changes = await host.connection.ask(ListChanges(session=host.session, what=what))
    if not changes.files and not changes.hidden:
        here = "That" if what else "This session"
        words = f"{here} changed no files that undo knows of. The repository itself: /diff git"
        host.perform(SayWords(words))
        return
    count = counted(len(changes.files) + len(changes.hidden) + changes.more_files, "file")
    turn, title = f"Turn {changes.turn}" if changes.turn else "This", changes.title
    if what == "session":
        turn, title = "This session", ""
    named = f' "{visible_line(title)}"' if title else ""
    notes = [f"{one}: secret-looking, not shown" for one in changes.hidden]
    notes += [f"… {counted(changes.more_files, 'more file')}"] if changes.more_files else []
    host.perform(OpenDiff(f"{turn}{named} changed {count}", changes.files, tuple(notes)))


def _thinking(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    thought = visible(now.view.activity.thought).splitlines()
    return say(
        *(f"  {line}" for line in thought) if thought else ("Nothing was told of what the model thought.",)
    )


def _jobs(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    running = tuple(visible_line(job) for job in now.view.jobs.values())
    return say(*running or ("No command runs in the background.",))


# Subagents


def _agents(now: SlashContext, arguments: str) -> Sequence[Effect]:
    """List the agents, show the work of one, or stop it."""
    verb, _, name = arguments.strip().partition(" ")
    if not verb:
        return (Do(show_agents),)
    word = name.strip() if verb == "stop" else arguments.strip()
    child = now.view.children.named(word)
    if child is None and verb == "stop":
        return say(_whom_to_stop(word, now.view))
    if child is None:
        return say(f"No agent {visible_line(word)} was sent here. /agents lists them.")
    if verb != "stop":
        return (Do(open_child, child.invocation),)
    if child.is_over:
        return say(f"{child_title(child)} is not at work any more: {child.state}.")
    return (CancelTurn(session=now.session, invocation=child.invocation),)


def _whom_to_stop(word: str, view: SessionView) -> str:
    """What there is to stop, for somebody who named nobody or none that was sent."""
    working = ", ".join(visible_line(one.label) for one in view.children.working)
    if not working:
        return "No agent is at work here. /agents lists those that were sent."
    unknown = f"No agent {visible_line(word)} was sent here. " if word else ""
    return f"{unknown}Which one? At work: {working}. One ends with /agents stop NAME"


async def show_agents(host: SessionHost, _arguments: str) -> None:
    """Show the agents there are, and the tree of those that were sent."""
    for row in agent_rows(await host.connection.ask(ListAgents(session=host.session))):
        host.perform(row)
    if lines := tree_lines(host.view.children):
        host.perform(SayWords("Sent in this session:"))
        for line in lines:
            host.perform(SayWords(f"  {line}", " " * 6))
        host.perform(SayWords("Its work: /agents NAME   Its end: /agents stop NAME"))
    else:
        host.perform(SayWords("Nobody was sent in this session."))


async def open_child(host: SessionHost, invocation: str) -> None:
    """Open everything that one subagent did and said."""
    rows, lines = EventRows(left_out=NOT_IN_TRANSCRIPTS | frozenset[RowKind]({"gap"})), list[str]()
    async for envelope in _read_past(host):
        told = [line for row in rows.take(envelope) for line in nested_lines(row)]
        event = envelope.event
        about = event.invocation if isinstance(event, ChildStarted | ChildEnded) else None
        if invocation in (envelope.invocation, about):
            lines += told
    host.perform(OpenText("\n".join(lines)))


def agent_rows(found: AgentList) -> list[SayWords]:
    """One line for each, the one that is talked with first; those that nobody trusts yet, and mistakes, last."""
    shown = sorted((one for one in found.agents if not one.hidden), key=_rank)
    widest = max((len(_name(one)) for one in shown), default=0)
    beside = " " * (widest + 4)
    lines = (f"{'>' if one.chosen else ' '} {_name(one):<{widest}}  {_about(one)}" for one in shown)
    mistakes = (f"! {visible_line(problem)}" for problem in found.problems)
    return [*(SayWords(line, beside) for line in lines), *(SayWords(line, "  ") for line in mistakes)]


def _rank(agent: AgentEntry) -> int:
    return 0 if agent.chosen else 1 if agent.trusted else 2


def _name(agent: AgentEntry) -> str:
    return visible_line(agent.name)


def _about(agent: AgentEntry) -> str:
    place = visible_line(agent.place)
    source = agent.source if agent.source == "builtin" or not place else f"{agent.source}, {place}"
    if not agent.trusted:
        return f"not trusted yet: bridle trust ack {place}"
    does = [
        *(("you talk with it",) if agent.chosen else ("to talk with",) if agent.selectable else ()),
        *(("can be sent",) if agent.callable else ()),
    ]
    described = visible_line(agent.description)
    return f"{described} ({', '.join((*does, source))})"


# Where the session stands


async def show_context(host: SessionHost, _arguments: str) -> None:
    """Show what the model is sent; of the instruction files, what the engine says where it answers."""
    query = CustomQuery(namespace="instructions", verb="files", session=host.session)
    try:
        async with asyncio.timeout(PATIENCE_S):
            files = instruction_rows((await host.connection.ask(query)).payload)
    except (BridleError, TimeoutError):
        files = None
    for line in host.view.contents.lines(host.info.window_of(host.view.model), files):
        host.perform(SayWords(line, " " * 4))


def _cost(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return say(*_cost_lines(now), indent=" " * 9)


def _cost_lines(now: SlashContext) -> tuple[str, ...]:
    used, by_agent = now.view.used, now.view.used_by_agent
    if used.usage == Usage():
        return ("Nothing used yet.",)
    is_local = used.is_local(now.info.is_local)
    money = money_words(used, used, local=is_local)[0]
    lines = (f"tokens   {' · '.join(token_words(used.usage))}", f"cost     {visible_line(money)}")
    if not any(by_agent):
        return lines
    main = now.view.created.agent if now.view.created is not None else None
    shares = (
        f"{path_words(path) or path_words((main or MAIN_AGENT,))} "
        f"{short_number(input_tokens(tally.usage) + tally.usage.output_tokens)} tokens"
        f"{'' if is_local else f', {paid_words(tally.usd)}'}"
        for path, tally in by_agent.items()
    )
    return (*lines, f"agents   {' · '.join(shares)}")


def _status(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    view = now.view
    state = "a turn is running" if view.in_turn else "a command runs" if view.running else "idle"
    lines = [
        f"model    {visible(view.model)}",
        f"mode     {view.mode}",
        f"now      {state}",
        *_cost_lines(now),
    ]
    if view.created is not None and view.created.profile != "default":
        lines.insert(1, f"profile  {visible_line(view.created.profile)}")
    lines += [f"held     {counted(view.held, 'message')}: /queue"] if view.held else []
    lines += [f"! {visible(event.message)}" for event in view.degraded.values()]
    return say(*lines, indent=" " * 9)


def _copy(now: SlashContext, _arguments: str) -> Sequence[Effect]:
    answer = now.view.answer
    return (CopyText(answer),) if answer else (SayWords("There is no answer yet."),)


async def export(host: SessionHost, path: str) -> None:
    save = host.services.save
    if save is None:
        raise CommandRefused("NotSupported", what="/export")
    past = [envelope async for envelope in _read_past(host)]
    name = path or f"bridle-{await short_id(host.connection, host.session)}.md"
    written = save(name, transcript(host.view.title, past, path=name))
    host.perform(SayWords(f"Written: {visible_line(written)}"))


def transcript(title: str, envelopes: Iterable[Envelope], *, path: str = "") -> str:
    """The events as text, in the form that the ending of `path` names."""
    if path.lower().endswith((".html", ".htm")):
        return "".join(html(title, (), envelopes))
    return "".join(markdown(title, (), envelopes))


def _doctor(_now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return say("In a shell: bridle doctor   It looks at the model, the store and this terminal.")


def _quit(_now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return (Leave(),)


WORK_COMMANDS: Final = (
    SlashCommand(
        "btw",
        "ask the model something beside the work: /btw words",
        _btw,
        (SlashArgument(name="words", about="the question", required=True),),
    ),
    SlashCommand(
        "queue",
        "what waits for the running turn; edit, hold, release, first or drop NUMBER",
        _queue,
        (
            SlashArgument(name="verb", choices=("edit", "hold", "release", "first", "drop")),
            SlashArgument(name="NUMBER", about="the one in the list"),
        ),
        with_verbs=True,
        after_sending=True,
    ),
    SlashCommand("todos", "the plan of the model, as a checklist", _todos),
    SlashCommand(
        "output",
        "what the last command printed or edit changed; /output 2 the one before, or CALL",
        do(open_output),
        (SlashArgument(name="which", about="2 for the one before the last, or a call's id"),),
    ),
    SlashCommand(
        "diff",
        "what the last turn changed; /diff TURN, CALL or session; /diff git [path] for git",
        _diff,
        (
            SlashArgument(
                name="what",
                about="a turn's number, a call's id, or one of these",
                examples=("session", "git"),
            ),
            SlashArgument(name="path", about="behind git: only what changed at or below it"),
        ),
    ),
    SlashCommand("thinking", "what the model thought last, as far as it told", _thinking),
    SlashCommand("jobs", "commands that run in the background", _jobs),
    SlashCommand(
        "agents",
        "who can be sent, who was and what it cost; /agents NAME shows its work, /agents stop NAME ends it",
        _agents,
        (
            SlashArgument(name="what", about="stop, or an agent that was sent", examples=("stop",)),
            SlashArgument(
                name="NAME", about="behind stop: the name of the agent, or the beginning of its id"
            ),
        ),
    ),
    SlashCommand("context", "what the model is sent, and how large it is", do(show_context)),
    SlashCommand("cost", "what this session has used", _cost),
    SlashCommand("status", "model, mode, what runs, what it cost", _status),
    SlashCommand("copy", "the last answer to the clipboard", _copy),
    SlashCommand(
        "export",
        "this conversation as a Markdown file: /export [path]",
        do(export),
        (SlashArgument(name="path", about="the file; else one with the session's id"),),
    ),
    SlashCommand("doctor", "how to check this installation", _doctor),
    SlashCommand("quit", "leave", _quit, aliases=("exit",), takes_any=True),
)
