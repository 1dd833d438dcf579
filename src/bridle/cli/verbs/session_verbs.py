"""Verbs that work in a session or look back at sessions: talk, run, demo, attach, sessions, undo, cost, memory."""

from __future__ import annotations

from bridle.cli.verbs.rows import (
    ADD_DIR,
    DRY_RUN,
    ID,
    JSON,
    LOOK,
    MODES,
    NAME,
    NETWORK,
    OUTPUT,
    PERSONAL_APPROVALS,
    PROJECT_HOOKS,
    RULES,
    SANDBOX_MODES,
    SETTINGS,
    WORK_DIR,
    YES,
    Action,
    Argument,
    Option,
    Verb,
    dollars,
    pace,
    place_in_list,
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
    Option(
        "--main-max-context-tokens",
        "most tokens of a conversation to send",
        "N",
        read=positive,
        setting="context.max_tokens",
    ),
    Option(
        "--main-compact-at",
        "share of that at which it is summarised",
        "SHARE",
        read=share,
        setting="context.compact_at",
    ),
    Option(
        "--sub-max-context-tokens",
        "the same for subagents",
        "N",
        read=positive,
        setting="context.child.max_tokens",
    ),
    Option(
        "--sub-compact-at", "the same for subagents", "SHARE", read=share, setting="context.child.compact_at"
    ),
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
    module="run.talk:talk_verb",
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
    module="stdin:redact_verb",
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
    module="run.attach",
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


_ALL = Option("--all", "sessions of every folder")
_FILE = Argument("file", "FILE")
_FORMATS = ("jsonl", "envelope", "events", "chain", "markdown", "md", "html")
_NOTE_TYPES = ("user", "feedback", "project", "reference")

SESSIONS = Verb(
    name="sessions",
    module="sessions.sessions",
    purpose="look at, search, copy and delete stored sessions. They are encrypted and stay on this machine.",
    default_action="list",
    actions=(
        Action(
            "list",
            "list the sessions of this folder, newest first, 30 at once",
            options=(
                _ALL,
                Option("--limit", "at most N rows (search: 20)", "N", read=positive),
                Option(
                    "--after", "the rows after PLACE, as the list gave it out", "PLACE", read=place_in_list
                ),
                JSON,
            ),
        ),
        Action(
            "show",
            "show what happened; with --json one object: the session and its events",
            (ID,),
            (JSON, Option("--tree", "the subagents, each below its parent")),
        ),
        Action(
            "replay",
            "play it again as it went; nothing is run",
            (ID,),
            (
                Option("--pace", "N times as fast", "N", read=pace),
                Option("--step", "wait for Enter at each step"),
            ),
        ),
        Action(
            "search",
            'find sessions by what was said; "two words" in quotes stand together',
            (Argument("words", "WORDS", "+"),),
            (
                _ALL,
                Option("--limit", "at most N rows (search: 20)", "N", read=positive, default=20),
                JSON,
            ),
        ),
        Action(
            "export",
            "write one as jsonl (as stored), markdown, html, or a transcript: events, chain",
            (Argument("id", "ID", "?"),),
            (
                Option("--format", "format of the file", "FORMAT", choices=_FORMATS),
                OUTPUT,
                Option("--force", "overwrite the file"),
                Option("--session", "the same as ID", "ID", dest="id_option"),
                JSON,
            ),
        ),
        Action(
            "diff",
            "show what one session changed, or what two changed differently",
            (ID, Argument("other", "ID", "?")),
            (Option("--stat", "files only, without lines"), JSON),
        ),
        Action(
            "branch",
            "begin a new session as that one was at the end of a turn",
            (ID,),
            (
                Option("--at", "number of the turn; the last one by default", "TURN", read=positive),
                Option("-n, --name", "title of the branch", "TITLE"),
                JSON,
            ),
        ),
        Action(
            "import",
            "read an exported jsonl for this folder, or a backup as it was; - is stdin",
            (_FILE,),
            (WORK_DIR, JSON),
        ),
        Action("rename", "give it another title; without TITLE: none", (ID, Argument("title", "TITLE", "*"))),
        Action("pin", "keep it for ever (★)", (ID,), (Option("--off", "not any more"),)),
        Action("dismiss", "end the notices of sessions that expire soon", (Argument("id", "ID", "*"),)),
        Action("delete", "delete sessions", (Argument("id", "ID", "+"),), (YES,)),
        Action("prune", "delete content older than sessions.retention_days now", options=(DRY_RUN,)),
        Action(
            "repair",
            "check every event, save the intact ones, and keep the damaged file",
            options=(Option("--check", "only look"), JSON),
        ),
        Action(
            "backup",
            "copy everything, encrypted, with its key in FILE.key; sessions may be running",
            (_FILE,),
            (JSON,),
        ),
        Action("rekey", "encrypt everything with a new key"),
    ),
    notes="""\
ID is any unique beginning of the id, the exact title, or a name given with --session. Continue a session: bridle -r
ID, the newest: bridle -c, a copy of it: --fork. The content is kept for 30 days after the last use; titles, costs
and the chain stay. Change that: bridle config set sessions.retention_days 90""",
)
UNDO = Verb(
    name="undo",
    module="sessions.undo",
    purpose="restore files that file tools or commands changed",
    arguments=(Argument("what", "TURN|CALL|SESSION", "?"),),
    options=(
        Option("--redo", "undo the last undo"),
        DRY_RUN,
        Option(
            "-y, --yes", "do not ask; stop at a file that changed since, unless --conflicts says otherwise"
        ),
        Option("--conflicts", "for files that changed since", "WHAT", choices=("skip", "overwrite", "stop")),
        Option("--session", "session of the turn, the call or the undo", "ID"),
        WORK_DIR,
        ADD_DIR,
    ),
    examples="""\
bridle undo                  in the newest session here, the last turn that changed something; asks first
bridle undo 4                turn 4 of it
bridle undo call_01J8…       one call
bridle undo 01J8ZQ           everything a session changed; any name of it works""",
    notes="""\
A file is restored only while it is as the turn left it. With --conflicts overwrite the undo keeps it for --redo. What
cannot be undone is listed: network calls, what git recorded, files that are too large to keep, folders that tools make
again (node_modules, .venv), and everything outside the workspace. Copies are kept encrypted, for 30 days after a
session's last change. In a session: /undo, /redo""",
)
COST = Verb(
    name="cost",
    module="sessions.cost",
    purpose="show what the stored sessions cost",
    options=(
        Option("--since", "from when on, such as 12h, 4w or all; 7d by default", "TIME"),
        Option(
            "--by",
            "one row for each",
            "WHAT",
            choices=("model", "session", "day", "purpose"),
            default="model",
        ),
        Option("--session", "one session, from its beginning", "ID"),
        Option("--json", "print JSON: usd is the known part, unknown counts requests without a price"),
        *SETTINGS,
    ),
    examples="""\
bridle cost                       the last seven days, by model
bridle cost --since 4w --by day   four weeks, day by day
bridle cost --by purpose          main turns, subagents, summaries, side questions""",
    notes="""\
Prices are those of the moment of the request. A model without a known price is unknown; one on this machine is local.
Set a limit: --max-cost USD for one session, or bridle config set budget.usd_per_session 5 for each.""",
)
MEMORY = Verb(
    name="memory",
    module="sessions.memory",
    purpose="notes that outlast a session, one Markdown file each; fitting ones go with your message",
    default_action="list",
    actions=(
        Action("list", "list the notes for this project and for you, and unusable files", options=(JSON,)),
        Action("show", "show a note", (NAME,), (JSON,)),
        Action(
            "add",
            "add a note for this project; with - the text comes from stdin",
            (NAME, Argument("text", "TEXT|-", "*")),
            (
                Option("-d, --description", "what it is about; the first line by default", "LINE"),
                Option(
                    "--scope", "whose note it is", "SCOPE", choices=("project", "user"), default="project"
                ),
                Option("--type", "kind of note", "TYPE", choices=_NOTE_TYPES),
                Option("--tag", "word that brings the note back; always: each time", "WORD", repeat=True),
            ),
        ),
        Action("edit", "edit it in VISUAL or EDITOR", (NAME,)),
        Action("remove", "delete it", (NAME,)),
        Action(
            "path",
            "print where the files are; edit them as you like",
            (Argument("name", "NAME", "?"),),
            (JSON,),
        ),
    ),
    notes="""\
NAME is lowercase letters, digits and hyphens; project/NAME and user/NAME tell two of one name apart. A tag, the
name or two words of the description bring a note back. The model keeps notes with the memory tool, which asks like
an edit; /undo removes one, /memory lists them. Notes are data for the model and no instructions. Secrets are never
kept. A run without a terminal has no memory unless you say --memory or memory.headless = true. None at all:
--no-memory, or memory.enabled = false""",
)

VERBS = (TALK, RUN, DEMO, REDACT, ATTACH, SESSIONS, UNDO, COST, MEMORY)
