"""Verbs that set Bridle up, serve it to other programs, and help to build on it."""

from __future__ import annotations

import sys

from bridle.cli.verbs.rows import (
    DESCRIPTION,
    JSON,
    NAME,
    SETTINGS,
    Action,
    Argument,
    Option,
    Verb,
    seconds,
)
from bridle.cli.verbs.session_verbs import PROMPT, SESSION_OPTIONS

_KEY = Argument("key", "KEY")
_OWN = Option("--own", "in your config folder instead of the project")
_DIGEST = Option("--digest", "approve exactly this content, where no terminal is", "SHA256")
_TRANSPORTS = ("all", "inproc", "rest-unix", "rest-tcp", "ws-unix", "ws-tcp")
_COMPLETED = ("bash", "zsh", "fish", "sessions", "profiles", "models", "skills", "agents", "servers")

TOOLS = Verb(
    name="tools",
    module="setup.tools",
    purpose="list the tools that the model may call",
    other_names=("list-tools",),
    arguments=(Argument("action", "list", "?", ("list",)),),
    options=(JSON, *SETTINGS),
    notes="""\
risk         the worst a call can do; rules and modes go by it
concurrency  parallel-safe calls of one step run together, exclusive ones alone, serial ones in order
changes      what a call may change: nothing, the workspace, anything a process can
source       where the tool comes from""",
)
SKILLS = Verb(
    name="skills",
    module="setup.skills",
    purpose="instructions for a kind of task, which the model knows by name and reads when it needs one",
    default_action="list",
    actions=(
        Action(
            "list",
            "the skills offered here, where each comes from, and unusable ones",
            options=(JSON, *SETTINGS),
        ),
        Action(
            "show",
            "one skill: what the model reads, and the files beside it",
            (Argument("name", "SKILL"),),
            (JSON, *SETTINGS),
        ),
        Action(
            "check",
            "check folders and name file and line of mistakes; exit 1 for errors",
            (Argument("path", "PATH", "*"),),
            (JSON,),
        ),
        Action("new", "create a folder to begin with, in .bridle/skills", (NAME,), (DESCRIPTION, _OWN, JSON)),
    ),
    notes="""\
Looked for in this order, the last wins: skills of Bridle, folders of your home in skills.folders, skills/ in your
config folder, folders of the project in skills.folders, .bridle/skills. A skill of a project or a listed folder
applies once you approved all of its files (bridle trust ack). In a conversation: /skills, /skills:NAME,
/skills:reload. More: docs/skills.md""",
)
AGENTS = Verb(
    name="agents",
    module="setup.agents",
    purpose="agents: a prompt, tools and permissions, never more than those of the session",
    default_action="list",
    other_names=("list-agents",),
    actions=(
        Action(
            "list",
            "the agents here, where each comes from, and untrusted ones; * is the one in use",
            options=(JSON, *SETTINGS),
        ),
        Action(
            "show", "one agent: its tools, rules and prompt", (Argument("name", "AGENT"),), (JSON, *SETTINGS)
        ),
        Action(
            "check",
            "check files and name every line to change; exit 1 for errors",
            (Argument("path", "FILE", "*"),),
            (JSON, *SETTINGS),
        ),
        Action("new", "create a file to begin with, in .bridle/agents", (NAME,), (DESCRIPTION, _OWN, JSON)),
        Action(
            "use", "talk with this agent in this project from now on", (Argument("name", "AGENT"),), (JSON,)
        ),
        Action("forget", "not any more", options=(JSON,)),
    ),
    examples="""\
bridle --agent review            talk with that agent; bridle config set agent NAME does so everywhere
bridle run --multi-agent "…"     let it start subagents; --single-agent is the default""",
    notes="""\
A name belongs to the first that has it: agents of Bridle, [agents.NAME] of your settings, agents/ in your config
folder, plugins and bundles (as PLUGIN__NAME), then .bridle/agents and folders of the project in agents.folders
(.claude/agents). A file of a project applies once you approved it (bridle trust ack). More: docs/agents.md""",
)
CONFIG = Verb(
    name="config",
    module="setup.config",
    purpose="show and change settings",
    default_action="show",
    actions=(
        Action(
            "show",
            "every setting that applies",
            options=(Option("--origin", "where each comes from"), JSON, *SETTINGS),
        ),
        Action("get", "one value; exit 1 if it is not set", (_KEY,), SETTINGS),
        Action(
            "set",
            "write your own file and say which; VALUE as in TOML, or plain words",
            (_KEY, Argument("value", "VALUE")),
        ),
        Action("unset", "take it out of your own file", (_KEY,)),
        Action(
            "validate", "list every mistake, with file and line; exit 2 for errors", options=(JSON, *SETTINGS)
        ),
        Action("path", "print the path of your own file"),
        Action(
            "edit",
            "edit your own file in VISUAL or EDITOR, then check it",
            options=(
                Option("--project", "the project's file, .bridle/config.toml"),
                Option("--local", "your file for this project, .bridle/config.local.toml"),
            ),
        ),
    ),
    notes="""\
From low to high: defaults, profile, your own file, .bridle/config.toml, .bridle/config.local.toml, --config,
environment, --set. A file inside a project may only tighten. All keys: bridle help settings""",
)
PROFILES = Verb(
    name="profiles",
    module="setup.profile_verbs:profiles",
    purpose="bundles of settings to begin a session with: a model, text, tools, servers, rules, a budget",
    default_action="list",
    actions=(
        Action("list", "all profiles and their files; * is the one that applies here", options=(JSON,)),
        Action(
            "show",
            "what one sets, its file, and its mistakes; NAME or FILE",
            (Argument("name", "PROFILE"),),
            (JSON,),
        ),
        Action(
            "new",
            "create a file of your own to fill in",
            (NAME,),
            (Option("--like", "copy this one", "PROFILE"),),
        ),
        Action(
            "check",
            "list the mistakes of one, or of all; exit 2 if there are any",
            (Argument("name", "PROFILE", "?"),),
            (JSON,),
        ),
    ),
    examples="""\
schema_version = 1                     default_model, prompt_header, context_sources, tool_packs, skill_packs,
model = "work:large"                   mcp_servers = [{ name, cmd, args, sha256, discovery }], allow_project_hooks and
tools.packs = ["read", "web"]          permissions = "FILE.toml" (rules in a file of their own) are understood too""",
    notes="""\
Choose one with --profile NAME or FILE, BRIDLE_PROFILE, or profile = "NAME" in your config.toml. Your own file goes
before it. In a conversation: /profile shows the current one, /profiles the others; /profiles:NAME begins a session
with one and can take a summary of the last turns along; --in-place changes the current session.

default and careful come with Bridle. Yours are NAME.toml in profiles/ beside your config.toml, and go before those.
A project's are in .bridle/profiles/; .bridle/profile.toml is the one it wants where you chose none. Nothing of
these applies before you approved that very file (bridle trust), and then never a looser mode, sandbox or budget
than yours. A server that is started needs its sha256. An unknown key is named and left out.""",
)
PLUGINS = Verb(
    name="plugins",
    module="setup.plugin_verbs:plugins",
    purpose="plugins (Python packages, listed in plugins.enabled) and bundles (folders of files)",
    default_action="list",
    actions=(
        Action(
            "list",
            "all plugins and bundles",
            options=(Option("--why", "each thing they add, and where it comes from"), JSON, *SETTINGS),
        ),
        Action("new", "create a package with a working plugin", (NAME, Argument("folder", "DIR", "?"))),
        Action(
            "add",
            "add a bundle (skills, slash commands, hooks, MCP servers) from a folder or git",
            (Argument("source", "DIR|URL"),),
            (Option("--ref", "branch, tag or commit of a git URL", "REF"), _DIGEST),
        ),
        Action("update", "fetch it again from where it came; asks if something changed", (NAME,), (_DIGEST,)),
        Action("remove", "remove it with everything it added", (NAME,)),
        Action("verify", "compare each bundle with your approval; exit 3 if one differs", options=(JSON,)),
    ),
    notes="""\
A URL is https, ssh or file. A bundle is copied, and nothing of it runs while it is added. Bridle shows everything it
would add, and only you approve it, at a terminal: -y does not. What changed since then does not apply. A bundle is a
folder with bridle-bundle.toml, or a Claude plugin (.claude-plugin/plugin.json). Its Python is never imported, and its
hooks run like the commands of a session.""",
)
SERVE = Verb(
    name="serve",
    module="setup.serve",
    purpose="run an engine that stays. Clients come and go; sessions, questions and commands stay.",
    options=(
        Option("--listen", "also listen on this address", "HOST:PORT"),
        Option("--no-listen", "only the socket, whatever engine.listen says"),
        Option("--auth-token-file", "token that a network client presents (bridle token mint)", "FILE"),
        Option("--tls-cert", "certificate for the network", "FILE"),
        Option("--tls-key", "its key", "FILE"),
        Option(
            "--auth-channel", "also show the code of a new token on the desktop", "KIND", choices=("notify",)
        ),
        Option("--idle-exit", "exit after S seconds without clients and sessions", "S", read=seconds),
        Option(
            "--print-unit",
            "print a unit that starts it when you log in",
            "KIND",
            choices=("systemd", "launchd"),
            bare="launchd" if sys.platform == "darwin" else "systemd",
        ),
    ),
    examples="""\
bridle serve                            on a private Unix socket, for your own programs
bridle serve --listen 127.0.0.1:8421    also for a browser, an editor or curl on this machine
bridle serve --listen 0.0.0.0:8421 --auth-token-file F --tls-cert C --tls-key K   for the network""",
    notes="""\
Every request needs a token, on the socket too. Your own programs find one beside the socket; it is new each time and
ends with the engine. A process that a tool, a hook or a server started is never a client. One engine listens for each
set of sessions. Ctrl-C or SIGTERM ends its sessions and exits with 0. engine.share = true lets others attach to what
runs at a terminal. If packages are missing, Bridle says what installs them.""",
)
DOCTOR = Verb(
    name="doctor",
    module="setup.doctor",
    purpose="check that everything works here",
    options=(Option("--offline", "do not ask the provider of the chosen model"), JSON, *SETTINGS),
    notes="""\
ok: works. warn: works with less. fail: does not work. skip: not checked. Exit 0 without a fail, else 1. The
provider of the chosen model is asked for its list of models, which costs nothing. An engine that listens is asked
for its state. A part that does not answer within 20 s fails; the others are checked. The last line names the
folders in use. Nothing is changed.""",
)
DEBUG = Verb(
    name="debug",
    module="setup.debug",
    purpose="show requests to models",
    default_action="request",
    actions=(
        Action(
            "request",
            "print the next request, byte for byte; nothing is sent or stored",
            (PROMPT,),
            SESSION_OPTIONS,
            defaults={"on_ask": "deny"},
            options_page="options",
        ),
        Action(
            "raw",
            "print what a session sent and received, one exchange per line of JSON",
            (Argument("id", "ID", "?"),),
        ),
    ),
    examples="""\
bridle debug request "fix the test"            the first request of a new session here
bridle debug request -c "and now the docs"     the next one of the newest session of this folder; -r ID of that one
bridle debug request -m openai:MODEL hi | jq   the body alone: it goes to stdout, address and headers to stderr""",
    notes="""\
Keys and headers that settings add are shown as ********. Nothing is asked: untrusted instruction files are left out.
Hooks do not run, files after @ are not read, and a conversation that would be summarised first is shown as it is.

raw needs the setting debug.raw, which keeps exchanges encrypted for as long as the session's content. Only the keys
that Bridle sends are taken out: a copy contains everything that was said.""",
)
CONFORMANCE = Verb(
    name="conformance",
    module="setup.conformance",
    purpose="check that a server of sessions behaves like every other, over any transport",
    options=(
        Option("--self", "our own server, in a scratch home"),
        Option("--against", "another server, by requests and by WebSocket", "URL"),
        Option("--transport", "only this transport, with --self", "NAME", choices=_TRANSPORTS, default="all"),
        Option("--token-file", "token of a user; three are needed for everything", "FILE", repeat=True),
        Option("--agent-token-file", "token of an agent", "FILE", repeat=True),
        Option("--ca-file", "certificate authority, with https://", "FILE"),
        Option("-C, --cwd", "folder of that server for sessions; this one by default", "DIR"),
        Option("--models", "prefix of conformance-say, -ask and -hold there; demo: by default", "PREFIX"),
        JSON,
        Option("--badge", "write what shields.io draws", "FILE"),
    ),
    examples="""\
bridle conformance --self --transport ws-unix
bridle conformance --against http://127.0.0.1:8421 --token-file F --cwd /tmp/scratch
bridle conformance --against unix:///run/server.sock --token-file F --json --badge badge.json""",
    notes="""\
Over requests a token is one client. One line for each scenario: passed, failed or left out, and why. Exit 0: it
conforms. 1: something failed. 2: usage. The server and its folder are used for real: sessions are made there, and a
command runs that writes a small file.""",
)
COMPLETION = Verb(
    name="completion",
    module="completion",
    purpose="print a script that completes commands, options and their values in bash, zsh or fish",
    arguments=(Argument("shell", "SHELL", choices=_COMPLETED),),
    examples="""\
bash    in ~/.bashrc:                     eval "$(bridle completion bash)"
zsh     in ~/.zshrc, after compinit:      eval "$(bridle completion zsh)"
fish    bridle completion fish > ~/.config/fish/completions/bridle.fish""",
    notes="Names that change are asked for when Tab is pressed: bridle completion models, sessions, profiles …",
)

VERBS = (TOOLS, SKILLS, AGENTS, CONFIG, PROFILES, PLUGINS, SERVE, DOCTOR, DEBUG, CONFORMANCE, COMPLETION)
