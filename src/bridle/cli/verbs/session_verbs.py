"""Verbs that look back: stored sessions, undo, cost and memory."""

from __future__ import annotations

from bridle.cli.verbs.rows import (
    ADD_DIR,
    DRY_RUN,
    ID,
    JSON,
    NAME,
    OUTPUT,
    SETTINGS,
    WORK_DIR,
    YES,
    Action,
    Argument,
    Option,
    Verb,
    pace,
    place_in_list,
    positive,
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
        Option("--by", "one row for each", "WHAT", choices=("model", "session", "day"), default="model"),
        Option("--session", "one session, from its beginning", "ID"),
        Option("--json", "print JSON: usd is the known part, unknown counts requests without a price"),
        *SETTINGS,
    ),
    examples="""\
bridle cost                       the last seven days, by model
bridle cost --since 4w --by day   four weeks, day by day""",
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

VERBS = (SESSIONS, UNDO, COST, MEMORY)
