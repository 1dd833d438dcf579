"""The slash commands that the client handles itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.commands.profile_change import USAGE, parse_change
from bridle.clients.interaction.commands.queue_commands import WriteDraft, queue_command
from bridle.clients.interaction.composer.word_completion import closest
from bridle.clients.interaction.render.progress_text import child_title, path_words, plan_rows, plan_title
from bridle.clients.interaction.render.start_info import MODE_WORDS
from bridle.clients.interaction.render.usage import (
    input_tokens,
    money_words,
    paid_words,
    short_number,
    token_words,
)
from bridle.clients.interaction.state.engine_info import EngineInfo
from bridle.clients.interaction.state.view import SessionView
from bridle.protocol.commands import (
    AnyCommand,
    AskAside,
    CancelTurn,
    PromoteGrant,
    RevokeGrant,
    RunSlash,
    SetEffort,
    SetMode,
    SetModel,
)
from bridle.protocol.errors import sentence
from bridle.protocol.events import Mode
from bridle.protocol.messages import Effort, Usage
from bridle.protocol.slash_arguments import (
    LONG_NAMES,
    SlashArgument,
    bare_name,
    in_full,
    schema_arguments,
    usage_words,
)

Local: TypeAlias = Literal[
    "help",
    "keys",
    "stop",
    "clear",
    "resume",
    "sessions",
    "rename",
    "model",
    "effort",
    "mode",
    "plan",
    "permissions",
    "profile",
    "profiles",
    "login",
    "trust",
    "hooks",
    "btw",
    "queue",
    "todos",
    "output",
    "diff",
    "thinking",
    "jobs",
    "agents",
    "context",
    "cost",
    "status",
    "copy",
    "export",
    "doctor",
    "quit",
]
Deed: TypeAlias = Literal[
    "quit",
    "clear",
    "resume",
    "sessions",
    "rename",
    "pin",
    "branch",
    "copy",
    "export",
    "output",
    "model",
    "profile",
    "profiles",
    "change_profile",
    "permissions",
    "verb",
    "diff",
    "context",
    "agents",
    "child",
]

EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
CYCLE: Final[tuple[Mode, ...]] = ("default", "auto", "plan")
"""The modes Shift-Tab goes through; it never leads into `yolo`."""

_COMMANDS: Final[tuple[tuple[Local, tuple[str, ...], str], ...]] = (
    ("help", ("help",), "this list, or one command: /help NAME"),
    ("keys", ("keys",), "what the keys do"),
    ("stop", ("stop", "cancel"), "stop the running turn"),
    ("clear", ("clear", "new"), "a new session; this one stays listed"),
    ("resume", ("resume",), "another session, picked from the list or by its id"),
    ("sessions", ("sessions",), "the sessions of this folder; this one: /sessions pin [off], branch [TURN]"),
    ("rename", ("rename",), "give this session a title: /rename words"),
    ("model", ("model",), "pick a model from a list, or name it: /model provider:model"),
    ("effort", ("effort",), f"how much the model thinks: {' '.join(EFFORTS)}"),
    ("mode", ("mode",), f"what each mode does, or another one: {' '.join(MODES)}"),
    ("plan", ("plan",), "reading only, until another mode is chosen; with words, a plan by an agent"),
    (
        "permissions",
        ("permissions",),
        "what is allowed without asking, to revoke it; /permissions promote NUMBER",
    ),
    ("profile", ("profile",), "the profile in force, with its tools, servers and skills"),
    (
        "profiles",
        ("profiles",),
        "the profiles there are; /profiles:NAME begins a session with one, --in-place",
    ),
    ("login", ("login",), "connect a provider with a key or an account: /login [PROVIDER]"),
    ("trust", ("trust",), "what of this project is trusted; /trust ack asks about what is not"),
    ("hooks", ("hooks",), "the programs that hear of what happens here"),
    ("btw", ("btw",), "ask the model something beside the work: /btw words"),
    ("queue", ("queue",), "what waits for the running turn; edit, hold, release, first or drop NUMBER"),
    ("todos", ("todos",), "the plan of the model, as a checklist"),
    (
        "output",
        ("output",),
        "what the last command printed or edit changed; /output 2 the one before, or CALL",
    ),
    ("diff", ("diff",), "what the last turn changed; /diff TURN, CALL or session; /diff git [path] for git"),
    ("thinking", ("thinking",), "what the model thought last, as far as it told"),
    ("jobs", ("jobs",), "commands that run in the background"),
    (
        "agents",
        ("agents",),
        "who can be sent, who was and what it cost; /agents NAME shows its work, /agents stop NAME ends it",
    ),
    ("context", ("context",), "what the model is sent, and how large it is"),
    ("cost", ("cost",), "what this session has used"),
    ("status", ("status",), "model, mode, what runs, what it cost"),
    ("copy", ("copy",), "the last answer to the clipboard"),
    ("export", ("export",), "this conversation as a Markdown file: /export [path]"),
    ("doctor", ("doctor",), "how to check this installation"),
    ("quit", ("quit", "exit"), "leave"),
)
_ARGUMENTS: Final[Mapping[Local, tuple[SlashArgument, ...]]] = {
    "help": (SlashArgument(name="NAME", about="one command, with what it takes"),),
    "keys": (),
    "stop": (),
    "clear": (),
    "resume": (SlashArgument(name="ID", about="the session, or the beginning of its id"),),
    "sessions": (
        SlashArgument(name="verb", choices=("list", "resume", "pin", "branch", "dismiss", "export")),
        SlashArgument(name="more", about="an id, off, a turn's number or a path"),
    ),
    "rename": (SlashArgument(name="words", about="the title", required=True),),
    "model": (SlashArgument(name="provider:model", about="the model; else a list to pick from"),),
    "effort": (SlashArgument(name="NAME", about="how much the model thinks", choices=EFFORTS),),
    "mode": (SlashArgument(name="NAME", about="the mode", choices=MODES),),
    "plan": (SlashArgument(name="words", about="what to plan; without any, plan mode"),),
    "permissions": (
        SlashArgument(name="verb", choices=("revoke", "promote")),
        SlashArgument(name="NUMBER", about="the one in the list"),
    ),
    "profile": (),
    "profiles": (
        SlashArgument(name="NAME", about="the profile to go on with; else the list"),
        SlashArgument(name="how", examples=("--import", "--no-import", "--in-place")),
    ),
    "login": (SlashArgument(name="PROVIDER", about="whose key or account; else a list to pick from"),),
    "trust": (
        SlashArgument(name="verb", choices=("list", "ack", "diff")),
        SlashArgument(name="FILE", about="one file of the project"),
    ),
    "hooks": (),
    "btw": (SlashArgument(name="words", about="the question", required=True),),
    "queue": (
        SlashArgument(name="verb", choices=("edit", "hold", "release", "first", "drop")),
        SlashArgument(name="NUMBER", about="the one in the list"),
    ),
    "todos": (),
    "output": (SlashArgument(name="which", about="2 for the one before the last, or a call's id"),),
    "diff": (
        SlashArgument(
            name="what", about="a turn's number, a call's id, or one of these", examples=("session", "git")
        ),
        SlashArgument(name="path", about="behind git: only what changed at or below it"),
    ),
    "thinking": (),
    "jobs": (),
    "agents": (
        SlashArgument(name="what", about="stop, or an agent that was sent", examples=("stop",)),
        SlashArgument(name="NAME", about="behind stop: the name of the agent, or the beginning of its id"),
    ),
    "context": (),
    "cost": (),
    "status": (),
    "copy": (),
    "export": (SlashArgument(name="path", about="the file; else one with the session's id"),),
    "doctor": (),
    "quit": (),
}
"""What is written behind each of them. Who stops or leaves may add what they like."""
MAIN_AGENT: Final = "main"
"""What whoever a person talks to is called, where nobody chose one by name."""
_NAME_COLUMNS: Final = 14
_PROVIDER_CHARACTERS: Final = 30
KEYS: Final = (
    "Enter      send; during a turn it waits until the turn ends",
    "Ctrl-S     say it now, during a turn: before what is queued",
    "Ctrl-J     new line, also Alt-Enter or a backslash before Enter",
    "Tab        complete /names and @paths; answer a waiting question",
    "Shift-Tab  next mode: default, auto, plan",
    "Up, Down   earlier prompts",
    "Ctrl-R     search earlier prompts",
    "Ctrl-G     write in your editor, also Ctrl-X Ctrl-E",
    "Ctrl-V     an image from the clipboard; a pasted or dropped path to one works too",
    "Ctrl-O     what the model thought last",
    "Ctrl-L     draw the line again",
    "Ctrl-Z     suspend; fg comes back",
    "Esc        stop the turn, after Esc again to stop",
    "Ctrl-C     stop the turn; twice within 2 s leaves",
    "Ctrl-D     leave",
    "@path      show the model a file",
    "!command   run a command yourself; !!command also shows it to the model",
    "As text    begin with a blank, or with //",
)
"""What the keys do at a terminal, a line each."""


def no_file(_path: str) -> bool:
    """Where nobody can look."""
    return False


class Lines(msgspec.Struct, frozen=True):
    """Something to read; nothing is sent."""

    lines: tuple[str, ...]
    indent: str = "  "


class Do(msgspec.Struct, frozen=True):
    """Something the client does itself."""

    what: Deed
    arguments: str = ""


class SlashContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may need to know: the session, and what the engine said."""

    session: str
    view: SessionView
    info: EngineInfo
    is_file: Callable[[str], bool] = no_file


SlashOutcome: TypeAlias = Lines | Do | WriteDraft | AnyCommand


def carry_out(name: str, arguments: str, now: SlashContext) -> SlashOutcome:
    """What `/name arguments` comes to as things stand."""
    view, session = now.view, now.session
    name, arguments = _spelled(*_in_full(name, arguments, now.info))
    command = _command(name)
    if command not in (None, "stop", "quit") and arguments.strip() and not _ARGUMENTS[command]:
        return Lines((sentence("NoWords", {"name": name, "hint": ""}),))
    match command:
        case "help":
            return Lines(
                _help_of(bare_name(arguments), now.info) if arguments else _help(now.info),
                " " * _NAME_COLUMNS,
            )
        case "keys":
            return Lines(KEYS, " " * 11)
        case "stop":
            return CancelTurn(session=session) if view.running else Lines(("No turn is running.",))
        case "clear" | "resume" if view.running:
            return Lines((busy_words(f"/{name}", view),))
        case "clear" | "resume" | "copy" | "export" | "output" | "quit":
            return Do(command, arguments)
        case "diff":
            lead, _, path = arguments.partition(" ")
            in_git = RunSlash(session=session, name="diff", arguments=path.strip())
            return in_git if lead == "git" else Do("diff", arguments)
        case "sessions":
            return _sessions(arguments, now)
        case "rename":
            return Do("rename", arguments) if arguments else Lines(("Which title? /rename words",))
        case "model":
            return _model(arguments, now)
        case "mode":
            return _mode(arguments, view, session)
        case "plan" if not arguments:
            return SetMode(session=session, mode="plan")
        case "plan":
            return RunSlash(session=session, name="plan", arguments=arguments)
        case "permissions":
            return _permissions(arguments, view, session)
        case "effort":
            return _effort(arguments, view, session)
        case "profile":
            return Do("profile")
        case "profiles":
            return _profiles(arguments, view)
        case "login":
            return _login(arguments)
        case "trust":
            return _trust(arguments)
        case "hooks":
            return Do("verb", "hooks list")
        case "btw":
            if not arguments:
                return Lines(("What? /btw words   Neither they nor the answer join the conversation.",))
            return AskAside(session=session, question=arguments)
        case "queue":
            outcome = queue_command(arguments, view, session, now.is_file)
            return Lines(outcome, " " * 3) if isinstance(outcome, tuple) else outcome
        case "todos":
            return Lines(_todos(view), " " * 4)
        case "thinking":
            thought = visible(view.activity.thought).splitlines()
            return Lines(
                tuple(f"  {line}" for line in thought) or ("Nothing was told of what the model thought.",)
            )
        case "jobs":
            running = tuple(visible(job, newlines=False) for job in view.jobs.values())
            return Lines(running or ("No command runs in the background.",))
        case "agents":
            return _agents(arguments, view, session)
        case "context":
            return Do("context")
        case "cost":
            return Lines(_cost(now), " " * 9)
        case "status":
            return Lines(_status(now), " " * 9)
        case "doctor":
            return Lines(("In a shell: bridle doctor   It looks at the model, the store and this terminal.",))
        case None:
            return RunSlash(session=session, name=name, arguments=arguments)


def next_mode(mode: Mode) -> Mode:
    """The mode after this one; any mode outside the cycle leads back to its beginning."""
    return CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)] if mode in CYCLE else CYCLE[0]


def own_names() -> tuple[str, ...]:
    """The names of the commands that a client carries out itself."""
    return tuple(name for _, spellings, _ in _COMMANDS for name in spellings)


def _in_full(name: str, arguments: str, info: EngineInfo) -> tuple[str, str]:
    """The command that an alias stands for, with the words behind it."""
    lines = {one.name: one.stands_for for one in info.prompts if one.stands_for}
    if not lines or _command(name) is not None:
        return name, arguments
    return in_full(name, arguments, lines)


def names(info: EngineInfo) -> tuple[str, ...]:
    """Every name there is, ours and the engine's."""
    own = own_names()
    profiles = (f"profiles:{name}" for name in info.profiles)
    return tuple(dict.fromkeys((*own, *profiles, *(prompt.name for prompt in info.prompts))))


def completed_names(info: EngineInfo) -> tuple[str, ...]:
    """The names that Tab knows: every one, and the long ones of some."""
    long = (f"{namespace}:{name}" for namespace, listed in LONG_NAMES.items() for name in listed)
    return (*names(info), *long)


def arguments_of(name: str, info: EngineInfo) -> tuple[SlashArgument, ...]:
    """What is written behind this name; nothing where nobody has said it."""
    name, verb = _spelled(name, "")
    command = _command(name)
    if command is not None:
        return _ARGUMENTS[command][1 if verb else 0 :]
    found = next((one for one in info.prompts if one.name == name), None)
    return () if found is None else schema_arguments(found.args_schema)


def choices_for(name: str, at: int, info: EngineInfo) -> tuple[str, ...]:
    """The words that may stand in a place behind a name, for Tab; empty where it could be anything."""
    if _command(name) == "help":
        return names(info) if at == 0 else ()
    arguments = arguments_of(name, info)
    return (*arguments[at].choices, *arguments[at].examples) if at < len(arguments) else ()


def nearest_words(name: str, info: EngineInfo) -> str:
    """What somebody is told about a name they may have meant; empty where none is near."""
    near = closest(name, names(info))
    return f" Close: /{near}" if near else ""


def busy_words(what: str, view: SessionView) -> str:
    """What somebody is told who asks for something while their own turn or command runs."""
    return f"A {'turn' if view.in_turn else 'command'} is running. /stop ends it, then {what} goes on."


def _spelled(name: str, arguments: str) -> tuple[str, str]:
    """`/permissions:revoke 2` is `/permissions revoke 2`, and `/run:stop` is `/stop`; what is git's is the engine's."""
    if not name.startswith("git:"):
        name = bare_name(name)
    lead, colon, verb = name.partition(":")
    spaced = colon and lead in ("permissions", "sessions", "queue", "trust", "profiles")
    return (lead, f"{verb} {arguments}".strip()) if spaced else (name, arguments)


def _command(name: str) -> Local | None:
    return next((command for command, spellings, _ in _COMMANDS if name in spellings), None)


def _model(wanted: str, now: SlashContext) -> SlashOutcome:
    return SetModel(session=now.session, model=wanted) if wanted else Do("model")


def _profiles(arguments: str, view: SessionView) -> SlashOutcome:
    if not arguments:
        return Do("profiles")
    if parse_change(arguments) is None:
        return Lines((f"That means nothing here: {USAGE}",))
    if view.running:
        return Lines((busy_words("/profiles", view),))
    return Do("change_profile", arguments)


def _effort(name: str, view: SessionView, session: str) -> SlashOutcome:
    for effort in EFFORTS:
        if name == effort:
            return SetEffort(session=session, effort=effort)
    if name:
        shown = visible(name, newlines=False)
        return Lines((f'"{shown}" is not an effort ({", ".join(EFFORTS)}).',))
    now = view.effort or "what the model does by itself"
    return Lines((f"effort   {now}    Change it: /effort NAME ({' '.join(EFFORTS)})",))


def _login(provider: str) -> SlashOutcome:
    """A key is typed unseen when it is asked for; what is written here could be read by others."""
    if len(provider) > _PROVIDER_CHARACTERS:
        return Lines(("That is no provider. Which one? /login PROVIDER   Its key is asked for, unseen.",))
    return Do("verb", f"login {provider}".strip())


def _trust(arguments: str) -> SlashOutcome:
    verb, _, path = arguments.partition(" ")
    if verb in ("", "list", "ack", "diff"):
        return Do("verb", f"trust {verb or 'list'} {path}".strip())
    return Lines(("What about it? /trust list, ack [FILE], diff FILE   Taking it back: bridle trust revoke",))


def _mode(name: str, view: SessionView, session: str) -> SlashOutcome:
    for mode in MODES:
        if name == mode:
            return SetMode(session=session, mode=mode)
    if name:
        return Lines((f'"{visible(name, newlines=False)}" is not a mode ({", ".join(MODES)}).',))
    rows = [f"{'>' if mode == view.mode else ' '} {mode:<8} {MODE_WORDS[mode]}" for mode in MODES]
    return Lines((*rows, "Change it: /mode NAME, or Shift-Tab for default, auto, plan"), " " * 11)


def _sessions(arguments: str, now: SlashContext) -> SlashOutcome:
    """The list, or what one may do with this session and with others."""
    verb, _, words = arguments.partition(" ")
    match verb, words.strip():
        case (("" | "list"), ""):
            return Do("sessions")
        case (("resume" | "export"), words):
            return carry_out(verb, words, now)
        case "pin", "" | "off" as words:
            return Do("pin", words)
        case "dismiss", words:
            return Do("verb", f"sessions dismiss {words}".strip())
        case "branch", words if not words or _is_number(words):
            return Do("branch", words)
        case "branch", _:
            return Lines(("After which turn? /sessions branch NUMBER",))
        case _:
            return Lines(
                (
                    "What about them? /sessions list, resume ID, pin [off], branch [TURN], dismiss, export [path]",
                )
            )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _permissions(arguments: str, view: SessionView, session: str) -> SlashOutcome:
    grants = list(view.grants.values())
    verb, _, number = arguments.partition(" ")
    if verb in ("revoke", "promote"):
        at = int(number) if number.strip().isdecimal() else 0
        if not 1 <= at <= len(grants):
            return Lines(("Which one? /permissions lists them with their numbers.",))
        chosen = grants[at - 1].grant_id
        kind = RevokeGrant if verb == "revoke" else PromoteGrant
        return kind(session=session, grant_id=chosen)
    if verb:
        return Lines(("What about them? /permissions, /permissions revoke NUMBER, promote NUMBER",))
    return Do("permissions")


def _todos(view: SessionView) -> tuple[str, ...]:
    if not view.todos:
        return ("The model has made no plan in this session.",)
    return (plan_title(view.todos), *(f"  {row.text}" for row in plan_rows(view.todos, whole=True)))


def _agents(arguments: str, view: SessionView, session: str) -> SlashOutcome:
    """Who there is, the work of one, or the end of it."""
    verb, _, name = arguments.strip().partition(" ")
    if not verb:
        return Do("agents")
    word = name.strip() if verb == "stop" else arguments.strip()
    child = view.children.named(word)
    if child is None and verb == "stop":
        return Lines((_whom_to_stop(word, view),))
    if child is None:
        return Lines((f"No agent {visible(word, newlines=False)} was sent here. /agents lists them.",))
    if verb != "stop":
        return Do("child", child.invocation)
    if child.is_over:
        return Lines((f"{child_title(child)} is not at work any more: {child.state}.",))
    return CancelTurn(session=session, invocation=child.invocation)


def _whom_to_stop(word: str, view: SessionView) -> str:
    """What there is to stop, for somebody who named nobody or none that was sent."""
    working = ", ".join(visible(one.label, newlines=False) for one in view.children.working)
    if not working:
        return "No agent is at work here. /agents lists those that were sent."
    unknown = f"No agent {visible(word, newlines=False)} was sent here. " if word else ""
    return f"{unknown}Which one? At work: {working}. One ends with /agents stop NAME"


def _cost(now: SlashContext) -> tuple[str, ...]:
    used, by_agent = now.view.used, now.view.used_by_agent
    if used.usage == Usage():
        return ("Nothing used yet.",)
    is_local = used.is_local(now.info.is_local)
    money = money_words(used, used, local=is_local)[0]
    lines = (f"tokens   {' · '.join(token_words(used.usage))}", f"cost     {visible(money, newlines=False)}")
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


def _status(now: SlashContext) -> tuple[str, ...]:
    view = now.view
    state = "a turn is running" if view.in_turn else "a command runs" if view.running else "idle"
    lines = [f"model    {visible(view.model)}", f"mode     {view.mode}", f"now      {state}", *_cost(now)]
    if view.created is not None and view.created.profile != "default":
        lines.insert(1, f"profile  {visible(view.created.profile, newlines=False)}")
    lines += [f"held     {counted(view.held, 'message')}: /queue"] if view.held else []
    return (*lines, *(f"! {visible(event.message)}" for event in view.degraded.values()))


def _help(info: EngineInfo) -> tuple[str, ...]:
    commands = [_entry(spellings[0], f"{does}{_also(spellings[1:])}") for _, spellings, does in _COMMANDS]
    prompts = [
        _entry(prompt.name, prompt.description) for prompt in info.prompts if _command(prompt.name) is None
    ]
    return (*commands, *prompts)


def _help_of(name: str, info: EngineInfo) -> tuple[str, ...]:
    """One command: how it is written, what it does, and what each argument is."""
    name = name.strip().removeprefix("/")
    command = _command(_spelled(name, "")[0])
    own = next((does for one, _, does in _COMMANDS if one == command), None)
    does = own or next((one.description for one in info.prompts if one.name == name), None)
    if does is None:
        shown = visible(name, newlines=False)
        return (f"There is no command /{shown}.{nearest_words(name, info)} /help lists them.",)
    arguments = arguments_of(name, info)
    return (
        visible(usage_words(name, arguments), newlines=False),
        f"  {visible(does, newlines=False)}",
        *(f"  {visible(line, newlines=False)}" for line in map(_argument_words, arguments) if line),
    )


def _argument_words(argument: SlashArgument) -> str:
    known = " ".join((*argument.choices, *argument.examples))
    told = ": ".join(filter(None, (argument.about, known)))
    return f"{argument.name:<{_NAME_COLUMNS - 3}} {told}" if told else ""


def _entry(name: str, does: str) -> str:
    return f"{'/' + name:<{_NAME_COLUMNS - 1}} {does}"


def _also(spellings: tuple[str, ...]) -> str:
    return f"  (also {', '.join('/' + name for name in spellings)})" if spellings else ""
