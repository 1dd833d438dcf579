"""Verbs for safety: permissions, trust, the sandbox and hooks."""

from __future__ import annotations

from bridle.cli.verbs.rows import (
    ADD_DIR,
    JSON,
    MODES,
    NETWORK,
    PERSONAL_APPROVALS,
    PROJECT_HOOKS,
    RULES,
    SANDBOX_MODES,
    SETTINGS,
    WORK_DIR,
    Action,
    Argument,
    Option,
    Verb,
)

_ADAPTERS = ("bubblewrap", "landlock", "unshare", "sandbox-exec")

PERMISSIONS = Verb(
    name="permissions",
    module="policy.permissions",
    purpose="see what may run here and why, and revoke approvals",
    default_action="list",
    other_names=("policy",),
    actions=(
        Action(
            "list",
            "the mode, the rules and their files, and the approvals saved for this folder",
            options=(JSON, *SETTINGS),
        ),
        Action(
            "explain",
            "what would happen to a call; nothing runs, no question is asked",
            (Argument("tool", "TOOL", "?"), Argument("input", "JSON", "?")),
            (
                Option("--batch", "read one call per line, print one JSON object per line"),
                JSON,
                Option("--mode", "as in a run", "MODE", choices=MODES),
                *PERSONAL_APPROVALS,
                *RULES,
                ADD_DIR,
                *SETTINGS,
            ),
        ),
        Action("revoke", "revoke a saved approval, also in running sessions", (Argument("grant", "ID|all"),)),
        Action(
            "promote", "make it a rule of your own settings, for every folder", (Argument("grant", "ID"),)
        ),
    ),
    notes="""\
A line of --batch is {"tool": "bash", "input": {"command": "ls"}}; its verdict is allow, ask or deny. explain says
where only your own approval counts. The first that applies decides: 1 guards and hooks, 2 a deny rule, 3 your
approval, 4 the first fitting rule, 5 the agent's default, 6 the mode, 7 you are asked. An allow rule for a command
needs every part of a script to be allowed or harmless; a deny rule needs one part. A saved approval is for exactly
that command or file, in that folder, for 7 days.""",
)
TRUST = Verb(
    name="trust",
    module="policy.trust",
    purpose="approve instruction files, settings and programs of a project before Bridle uses them",
    default_action="list",
    actions=(
        Action(
            "list",
            "what this project brings, and what of it you trust",
            options=(Option("--all", "every project"), JSON),
        ),
        Action(
            "ack",
            "read and approve, one file at a time, at a terminal",
            (Argument("path", "PATH", "*"),),
            (
                Option("--all", "everything, as without PATH"),
                Option(
                    "--emit-lockfile",
                    "write the approvals to a lock file, for CI",
                    "FILE",
                    bare="approved.lock",
                ),
            ),
            other_names=("ack",),
        ),
        Action("diff", "what changed since you approved it", (Argument("path", "PATH"),)),
        Action(
            "verify",
            "exit 3 and a list if anything is new or changed",
            other_names=("verify-ack",),
            options=(Option("--lockfile", "lock file to compare with", "FILE"),),
        ),
        Action("revoke", "revoke an approval", (Argument("what", "PATH|ID|all"),)),
    ),
    notes="""\
An approval is for the content: a changed file asks again. Approvals are kept in approved.lock in your config folder.
A lock file applies only when you name it from outside: --lockfile FILE, or an absolute path in BRIDLE_APPROVED_LOCK.
One that merely lies in the project is ignored. Protect a named one: it decides which files are trusted.""",
)
SANDBOX = Verb(
    name="sandbox",
    module="policy.sandbox",
    purpose="see what confines commands here, and test it",
    default_action="show",
    actions=(
        Action("show", "the sandbox in use, what commands may write, and why", options=(JSON, *SETTINGS)),
        Action(
            "run",
            "run a command as the engine would: bridle sandbox run -- CMD",
            (Argument("command", "CMD", "*"),),
            (
                Option("--mode", "what the command may write", "MODE", choices=SANDBOX_MODES),
                WORK_DIR,
                ADD_DIR,
                *NETWORK,
                *SETTINGS,
            ),
        ),
        Action(
            "probe",
            "try a dozen escapes; exit 1 if one gets through or cannot be tried",
            options=(
                Option("--adapter", "another one than that in use", "NAME", choices=_ADAPTERS),
                JSON,
                *NETWORK,
                *SETTINGS,
            ),
        ),
        Action(
            "give-back",
            "restore a quarantined file (NAME.put-aside-1), shown first",
            (Argument("path", "PATH", "+"),),
        ),
    ),
    notes="""\
run: the command gets piped input, never the terminal. Exit 127: not found. 126: not executable. 3: nothing here can
confine it, and sandbox.required = true or the network is to be filtered. probe attacks only what it made for that: a
scratch home, a workspace, sockets, a process. blocked: stopped. leaks: not stopped. not covered: this sandbox or these
settings do not stop it. not here: this machine has nothing of the kind. not tried: it could not be.

Commands write in the workspace, in --add-dir and sandbox.writable folders and in a private temporary folder. They
can read everything but keys, credentials, sockets and Bridle's own files. sandbox.network = "deny" removes the
network, "filtered" leaves the hosts of sandbox.hosts; with "inherit" no single address can be refused. Strongest
first: bubblewrap, Landlock, unshare; sandbox-exec on macOS. Where none works, Bridle says so and commands run with
your rights; with sandbox.required = true they do not run.""",
)
HOOKS = Verb(
    name="hooks",
    module="policy.hooks",
    purpose="run your own programs at fixed events: they pass, warn, block, ask or change a call",
    default_action="list",
    actions=(
        Action(
            "list", "every hook, its file, and whether it applies", options=(JSON, PROJECT_HOOKS, *SETTINGS)
        ),
        Action(
            "test",
            "run the hooks of that event now; exit 3 if one blocks",
            (Argument("event", "EVENT"),),
            (
                Option("--tool", "tool of the sample call", "NAME"),
                Option("--input", "input of the sample call", "JSON"),
                PROJECT_HOOKS,
                *SETTINGS,
            ),
        ),
    ),
    examples="""\
[[hooks]]                       in your config.toml; or a program named hooks/PreToolUse beside it,
event = "PreToolUse"            hooks/PreToolUse.sh, or any number of them in hooks/PreToolUse.d/
tool = "write_file|edit_file"
command = "check-path"          a list is started as it is; text that needs a shell gets one
                                script = "MODULE:FUNCTION" instead: hooks/MODULE.py, or an importable module""",
    notes="""\
SessionStart SessionEnd UserPromptSubmit BeforeModelRequest AfterModelResponse PreToolUse PostToolUse ToolError
PermissionRequest Stop TurnFailed Compact. A hook reads JSON on stdin, and BRIDLE_TOOL_NAME, BRIDLE_TOOL_INPUT,
BRIDLE_TOOL_OUTPUT, BRIDLE_SESSION_ID (one longer than 100 KB is left out). Exit 0 passes, 2 blocks with stderr as the
reason, anything else is an error; or it prints {"decision": "allow|warn|block|ask", "message": …, "patch": {…}}.
An error blocks before a tool, a prompt or a question, and is noted elsewhere; on_error = "warn" or "block" decides.
A project's hooks need --allow-project-hooks and your trust in each file; so does any file of a project a hook runs.""",
)

VERBS = (PERMISSIONS, TRUST, SANDBOX, HOOKS)
