"""Help: a page for each verb and one of all options, made from the table of verbs, and pages on other topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bridle._version import __version__
from bridle.app.user.setting_sections import TABLE
from bridle.base.text.spelling import meant_words
from bridle.cli.console import aligned
from bridle.cli.verbs import TALK, VERBS
from bridle.cli.verbs.rows import HELP, Action, Option, Verb
from bridle.clients.interaction.composer.keys import KEYS as KEY_LINES
from bridle.config.settings_report import reference

OVERVIEW = """\
bridle — a coding agent that asks first, remembers everything and can undo it

  bridle [PROMPT]               talk (in this folder)          -c  continue the last session
  bridle run [PROMPT]           one task, then exit            -r  pick a session to resume
  bridle login [PROVIDER]       connect a model                -m  model, as provider:model
  bridle demo                   watch it work, with a script

Look back   sessions  undo  cost  memory
Set up      login  logout  models  config  profiles  plugins  tools  skills  agents
            doctor  completion
Safety      permissions  trust  sandbox  hooks
Share       serve  attach  token  mcp

Common options
  -y, --yes            answer yes to questions in this run      -C, --cwd DIR     work there
  --mode MODE          strict default safe auto yolo plan       --add-dir DIR     also allow this folder
  --json, --stream-json                                         --allow RULE, --deny RULE   e.g. 'bash(npm test*)'
  --max-steps N, --max-cost USD, --timeout S                    --set KEY=VALUE, --config FILE, --profile NAME
  --on-orphan ask|fail|mark-unknown   after a crash: ask you, refuse to continue, or tell the model to check

bridle help VERB     bridle help options     bridle help exit-codes     bridle help env     bridle help settings
bridle help scripts     bridle help keys     bridle help man     the manual page, for ~/.local/share/man/man1/bridle.1
bridle help builders    commands for building on Bridle              bridle help mcp-serve    a tool of other agents
"""

BUILDERS = """\
Commands for building with Bridle or on it.

  bridle redact           copy stdin to stdout without secrets (bridle help redact)
  bridle debug request    the next request of a session, byte for byte and not sent (bridle help debug)
  bridle debug raw        what a session sent to providers and received, if debug.raw keeps it
  bridle conformance      check that a server of sessions behaves like every other (bridle help conformance)
"""

EXIT_CODES = """\
0    done, also when some calls were not allowed but the turn ended normally
1    the run failed: the model gave up, a limit was reached, it went in circles
2    you asked for something impossible: usage, settings, unknown model or session, unusable folder
3    refused by policy: a question with --on-ask fail, an untrusted file with --require-trust, no sandbox where
     one is required, an action of an earlier run that may or may not have happened
4    no or bad credentials
5    provider or network
124  the deadline passed
129  the terminal was closed
130  interrupted
141  the reader of the output went away
"""

ENV = """\
BRIDLE_HOME     all of Bridle's files under this one folder
BRIDLE_MODEL    the model to use when -m is not given, as provider:model
BRIDLE_API_KEY  the key for the provider of that model
BRIDLE_MODE     the mode to use when --mode is not given
BRIDLE_SANDBOX  what commands may write when -s is not given
BRIDLE_PROFILE  the profile to use when --profile is not given
BRIDLE_CONFIG   a settings file on top of the others, as with --config
BRIDLE_MAIN_MAX_CONTEXT_TOKENS, BRIDLE_MAIN_COMPACT_AT_RATIO, BRIDLE_MAIN_SUMMARY_TARGET_TOKENS
                as context.max_tokens, context.compact_at and context.summary_tokens
BRIDLE_SUB_…    the same for subagents, and more: docs/agents.md
BRIDLE_AGENT, BRIDLE_AGENT_MODE   the agent to talk with, and whether it may start subagents
BRIDLE_PLAIN    text that only grows, as with --plain; so does ACCESSIBLE
BRIDLE_LOG      what the operational log takes, as with --log-level; with stderr among it, stderr gets it too
BRIDLE_APPROVED_LOCK  a lock file that counts here, as an absolute path (bridle help trust)
BRIDLE_NO_ATTACH    run in this process, whatever engine listens    BRIDLE_URL, BRIDLE_TOKEN_FILE  for bridle attach
BRIDLE_HUB_TASK, BRIDLE_HUB_RUN, BRIDLE_HUB_AGENT  what a hub calls a run (run --output-format hub)
BRIDLE_PASSPHRASE   what locks the keys that bridle login stores, if you want a passphrase
BRIDLE_MACHINE_KEY  the same, as 32 bytes: as they are, as 64 hex digits or as base64
Also read: the key variables of providers (bridle models --keys), proxy variables, VISUAL, EDITOR, PAGER,
NO_COLOR, FORCE_COLOR, HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME.
An empty value counts as unset; an unknown BRIDLE_ name is reported.
Without an absolute HOME and without BRIDLE_HOME nothing is written anywhere: one sentence, exit 2.
"""

SCRIPTS = """\
A script is what the demo model plays: answers separated by ---, one statement a line.

  # comments begin with #
  say Reading the file first.
  call read_file {"path": "README.md"}
  ---
  think It is short.
  say That is all there is.

  say TEXT          call TOOL {JSON}          wait SECONDS          fail REASON [times=N]
  think TEXT        pace DELTAS_PER_SECOND    chunk CHARACTERS      usage in=N out=N
  yield             stop max_tokens|content_filter|end_turn
Longer arguments go below the call, indented: `key: value`, or `key: <<END` and lines up to END.
Agents: call delegate_agent {"agent": "review", "task": "…"}, and at the end, below a line `=== review`, its answers.
Play it: bridle run -m demo:FILE "anything"
"""

_TOPICS = {"builders": BUILDERS, "exit-codes": EXIT_CODES, "env": ENV, "scripts": SCRIPTS}
_MADE = ("keys", "options", "settings", "man")
"""Pages that are longer than a screen, or made from tables of other packages."""


def pages(verbs: Mapping[str, Verb] = VERBS) -> dict[str, str]:
    """Return the help pages of one screen by name. The overview has the empty name."""
    made = {"": OVERVIEW}
    for verb in verbs.values():
        if verb.name != TALK:
            made[verb.name] = _page(verb, verb, [action for action in verb.actions if not action.page])
        for page in dict.fromkeys(action.page for action in verb.actions if action.page):
            actions = [action for action in verb.actions if action.page == page]
            made[page] = _page(verb, actions[0], actions)
    return {**made, **_TOPICS}


def topics(verbs: Mapping[str, Verb] = VERBS) -> list[str]:
    """Return the name of every page but the overview."""
    return [*filter(None, pages(verbs)), *_MADE]


def page(words: Sequence[str], verbs: Mapping[str, Verb] = VERBS) -> tuple[str, int]:
    """Return a page and exit code 0, or a sentence and 2 if there is no such page."""
    name = words[0] if words else ""
    action = verbs[name].action(words[1]) if name in verbs and len(words) > 1 else None
    topic = (action.page if action else "") or name
    known = pages(verbs)
    if topic in known:
        return known[topic], 0
    match topic:
        case "man":
            return man_page(verbs), 0
        case "keys":
            return "\n".join(KEY_LINES) + "\n", 0
        case "options":
            return option_page(verbs), 0
        case "settings":
            return "\n".join(reference(TABLE)) + "\n", 0
        case _:
            names = topics(verbs)
            said = f'There is no help page "{topic}".{meant_words(topic, names)} Pages: {", ".join(names)}'
            return said, 2


def _page(verb: Verb, row: Action, actions: Sequence[Action]) -> str:
    """Return purpose, examples, actions, options and notes, each part after an empty line."""
    usage = row.usage if row is verb else f"{verb.name} {row.usage}"
    parts = [[f"bridle {usage} — {row.purpose}"]]
    if row.examples:
        parts.append([f"  {line}" for line in row.examples.splitlines()])
    if actions:
        parts.append(_columns([(action.usage, action.purpose) for action in actions]))
    options = [*row_options(row, actions)]
    if options:
        parts.append(["Options", *_columns(options)])
    if row.notes:
        parts.append(row.notes.splitlines())
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def row_options(row: Action, actions: Sequence[Action]) -> Iterator[tuple[str, str]]:
    """Yield every option of a verb and its actions with its help, which names the actions that take it."""
    found: dict[tuple[str, str], list[str]] = {}
    for place in actions or [row]:
        if place.options_page:
            yield f"{place.name}:", f"see bridle help {place.options_page}"
            continue
        for option in place.options:
            found.setdefault((option.usage, option.line), []).append(place.name)
    for (usage, line), names in found.items():
        yield usage, line if len(names) == len(actions or [row]) else f"{', '.join(names)}: {line}"


def option_page(verbs: Mapping[str, Verb] = VERBS) -> str:
    """Return every option of a conversation and of a run."""
    talk, run = _session_options(verbs)
    lines = ["Options of bridle and bridle run", "", *_columns(talk), "", "Options of bridle run only", ""]
    return "\n".join([*lines, *_columns(run)]) + "\n"


def _session_options(verbs: Mapping[str, Verb]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the options of a conversation, and those that only a run has."""
    talk = (*verbs[TALK].options, HELP)
    names = {option.names for option in talk}
    only_run = [option for option in verbs["run"].options if option.names not in names]
    return _listed(talk), _listed(only_run)


def _listed(options: Iterable[Option]) -> list[tuple[str, str]]:
    return [(option.usage, option.line) for option in options]


def _columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {line}" for line in aligned(rows, gap="  ")]


def man_page(verbs: Mapping[str, Verb] = VERBS) -> str:
    known = pages(verbs)
    overview, *rest = known.pop("").splitlines()
    name, _, does = overview.partition(" — ")
    talk, run = _session_options(verbs)
    lines = [
        f'.TH BRIDLE 1 "" "Bridle {__version__}" ""',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(does)}",
        ".SH SYNOPSIS",
        *_as_it_stands(rest),
        ".SH OPTIONS",
        *_tagged(talk),
        ".SH OPTIONS OF A RUN",
        *_tagged(run),
    ]
    for topic, text in known.items():
        lines += [f".SH {_escaped(topic.upper())}", *_as_it_stands(text.splitlines())]
    return "\n".join(lines) + "\n"


def _tagged(options: Iterable[tuple[str, str]]) -> Iterator[str]:
    for spelling, does in options:
        yield from (".TP", f"\\fB{_escaped(spelling)}\\fR", _escaped(does))


def _as_it_stands(lines: list[str]) -> Iterator[str]:
    yield ".nf"
    yield from map(_escaped, lines)
    yield ".fi"


def _escaped(line: str) -> str:
    """Text that troff prints as it is: no command, no escape, no typographic dash."""
    text = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith(".") else text
