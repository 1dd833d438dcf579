"""Verbs that work on a task: a conversation, one run, the demo, and a session of another engine."""

from __future__ import annotations

from bridle.cli.verbs.rows import (
    ADD_DIR,
    LOOK,
    MODES,
    NETWORK,
    PERSONAL_APPROVALS,
    PROJECT_HOOKS,
    RULES,
    SANDBOX_MODES,
    SETTINGS,
    Argument,
    Option,
    Verb,
    dollars,
    positive,
    seconds,
    share,
)

PROMPT = Argument("prompt", "PROMPT", "*")
RESUME = Option("-r, --resume", "continue that session", "ID")
_EFFORTS = ("off", "low", "medium", "high", "max")
_ORPHANS = ("ask", "fail", "mark-unknown")

_CHOICE = (
    Option("-m, --model", "model, as provider:model", "MODEL"),
    Option("-c, --continue", "continue the newest session of this folder", dest="resume_newest"),
)
_SESSION = (
    Option("--session", "continue the session of that name, or begin it", "NAME"),
    Option("--fork", "with -c or -r: continue a copy"),
    Option("-n, --name", "title of the session", "TITLE"),
    Option("-C, --cwd", "work in this folder", "DIR"),
    ADD_DIR,
    Option("-y, --yes, --auto-approve", "approve questions; never lifts a deny, a hook or trust"),
    Option("--mode", "what runs without asking", "MODE", choices=MODES),
    Option("--plan", "the same as --mode plan", dest="mode", constant="plan"),
    Option("--yolo", "the same as --mode yolo", dest="mode", constant="yolo"),
    Option("--strict-permissions", "the same as --mode strict"),
    *RULES,
    *PERSONAL_APPROVALS,
    Option("--persistent-grants", "use and keep approvals of other sessions", constant=True),
    Option(
        "--no-persistent-grants",
        "use and keep only approvals of this one",
        dest="persistent_grants",
        constant=False,
    ),
    Option("-s, --sandbox", "what commands may write", "MODE", choices=SANDBOX_MODES),
    *NETWORK,
    Option("--agent", "agent to talk with: bridle agents list", "AGENT"),
    Option("--agent-mode", "whether it may start subagents", "MODE", choices=("single", "multi")),
    Option("--single-agent", "the same as --agent-mode single", dest="agent_mode", constant="single"),
    Option("--multi-agent", "the same as --agent-mode multi", dest="agent_mode", constant="multi"),
    Option("--main-max-context-tokens", "most tokens of a conversation to send", "N", read=positive),
    Option("--main-compact-at", "share of that at which it is summarised", "SHARE", read=share),
    Option("--sub-max-context-tokens", "the same for subagents", "N", read=positive),
    Option("--sub-compact-at", "the same for subagents", "SHARE", read=share),
    Option("--memory", "use notes of earlier sessions, also in a run", constant=True),
    Option("--no-memory", "use no notes", dest="memory", constant=False),
    Option("--append-system-prompt", "text to add to the system prompt", "TEXT|@FILE"),
    Option("--effort", "how much the model thinks", "LEVEL", choices=_EFFORTS),
    Option("--max-steps, --max-turns", "most model calls in one turn", "N", read=positive),
    Option("--max-cost", "send no request that could cost more than is left", "USD", read=dollars),
    Option("--dry-run", "change nothing; the model hears what would have happened"),
    Option("--no-transcript", "write no transcript file", dest="transcript", constant="off"),
    Option("--env-file", "file with NAME=value lines for the environment", "FILE"),
    Option("--lockfile", "lock file with approvals, for CI", "FILE"),
    Option("--require-trust", "refuse to begin while a file of the project waits for trust"),
    PROJECT_HOOKS,
    Option(
        "--on-orphan",
        "after a crash: how to treat unfinished calls",
        "WHAT",
        choices=_ORPHANS,
        default="fail",
    ),
    *SETTINGS,
    Option("--verbose", "every step in the operational log"),
    Option("--log-level", "what the operational log takes", "LEVELS"),
    Option("--log-to-stderr", "print the operational log as well"),
    Option("--no-attach", "run in this process, also where an engine listens"),
)
SESSION_OPTIONS = (*_CHOICE, RESUME, *_SESSION)
"""Options that open or continue a session."""
RUN_OPTIONS = (
    Option("--prompt-file", "read the prompt from a file; words given as well follow it", "FILE"),
    Option("-i, --image", "image to send", "FILE", repeat=True),
    Option("-o, --output", "write the answer to a file too", "FILE"),
    Option("--output-schema", "print only JSON that fits this schema; asks once more", "FILE"),
    Option("--goal", "work until --check ends with 0 or the answer fits --output-schema"),
    Option("--check", "with --goal: command that tells whether it is reached", "COMMAND"),
    Option("--check-agent", "with --goal and --multi-agent: read-only agent that judges it", "NAME"),
    Option("--rounds", "with --goal: how often the check may fail (goal.rounds, 10)", "N", read=positive),
    Option("--json", "print one object at the end"),
    Option("--stream-json", "print one line per event, run.result last"),
    Option("--output-format", "format of stdout", "FORMAT", choices=("text", "json", "stream-json", "hub")),
    Option("--stream", "print text as it comes, as at a terminal", constant=True),
    Option("--no-stream", "print the answer at its end", dest="stream", constant=False),
    Option("-q, --quiet", "print only the answer, or why there is none"),
    Option("--timeout", "exit with 124 after so many seconds", "S", read=seconds),
    Option("--on-ask", "do not ask here", "WHAT", choices=("deny", "fail", "wait")),
)
"""Options that only a run has."""

TALK = Verb(
    name="talk",
    module="talk.talk:talk_verb",
    purpose="talk with an agent in this folder",
    arguments=(PROMPT,),
    options=(
        *_CHOICE,
        Option("-r, --resume", "continue that session; without ID: choose one", "ID", bare=""),
        *_SESSION,
        *LOOK,
    ),
    defaults={"on_ask": None, "on_orphan": "ask"},
)
RUN = Verb(
    name="run",
    module="run.run",
    purpose="do one task, then exit. The answer goes to stdout, progress to stderr.",
    other_names=("exec",),
    arguments=(PROMPT,),
    options=(*SESSION_OPTIONS, *LOOK, *RUN_OPTIONS),
    examples="""\
bridle run -m openai:MODEL "fix the test"   a model of a provider; bridle models lists usable ones
bridle run -m demo:my.script "try this"     the scripted model with your script; -m demo has its own
git diff | bridle run -m demo -             prompt from stdin; @FILE, /init, /review and /skills:NAME work
bridle run -y /commit                       commit the changes with a drafted message; --dry-run prints it
bridle run --goal --check 'npm test' "…"    work until the command ends with 0
bridle run -r 01J8ZQ "and now the docs"     continue a session by any unique part of its beginning
bridle run --session nightly "check it"     a job that repeats""",
    notes="""\
At a terminal a run asks like a conversation. Elsewhere, or with --on-ask deny, calls that would ask are not run,
and the model is told why. Approve them with -y, --mode auto or --allow. -y and yolo never let a command leave the
sandbox or change a policy file such as .git/hooks. After --max-cost the run ends with exit code 1. --output-format
hub is for hubs.""",
)
DEMO = Verb(
    name="demo",
    module="run.demo",
    purpose="watch a scripted model repair a small project in a scratch folder: no key, no network",
    notes="""\
Only the model is a script. The engine, the tools and the log are real, and the session is kept: bridle sessions shows
it. Your own folder is not touched.""",
)
REDACT = Verb(
    name="redact",
    module="run.redact:redact_verb",
    purpose="copy stdin to stdout without secrets, as it comes",
    options=(Option("--kinds", "list every kind of secret that is known, one per line"),),
    examples="make deploy 2>&1 | bridle redact > deploy.log",
    notes="""\
A secret becomes «redacted:KIND»; the name it is assigned to stays. Bytes that are not text pass unchanged.
Everything a session stores or shows is redacted in the same way. Secrets are recognised by their shape: not every
one is found.""",
)
ATTACH = Verb(
    name="attach",
    module="talk.attach",
    purpose="join a session that runs in another engine: watch, answer, send messages",
    arguments=(Argument("target", "ID|URL", "?"),),
    options=(
        Option("--watch", "only watch; ask nothing here, and Ctrl-C leaves the session as it is"),
        Option("--session", "session of an engine on another machine", "ID"),
        Option("--token-file", "token for that engine; it says what you may do", "FILE"),
        Option("--ca-file", "certificate authority of that engine", "FILE"),
        *LOOK,
    ),
    examples="""\
bridle attach                                    the newest running session, of this folder if there is one
bridle attach 01J8ZQ                             that session; a stored one is opened
bridle attach https://host:8421 --token-file F   an engine on another machine""",
    notes="""\
Ctrl-D leaves the session running; during a turn l does. A token for one session leads to it without --session. bridle
and bridle run find the engine of bridle serve by themselves, unless a key is only in their environment. --no-attach or
BRIDLE_NO_ATTACH=1 keeps them on their own. BRIDLE_URL and BRIDLE_TOKEN_FILE replace the address and --token-file.""",
)

VERBS = (TALK, RUN, DEMO, REDACT, ATTACH)
