"""Verbs for access: models with their keys, accounts and tokens, and permissions, trust, the sandbox and hooks."""

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

_PROVIDER = Argument("provider", "PROVIDER", "?")
_LOCKS = ("passphrase", "machine", "automatic")
_SESSION = Option("--session", "session that it is for", "ID", repeat=True)

LOGIN = Verb(
    name="login",
    module="accounts.login",
    purpose="connect a model: store a key or sign in to an account, encrypted on this machine",
    arguments=(_PROVIDER,),
    options=(
        Option("--key", "paste a key, also where an account is possible", one_of="way"),
        Option("--device", "sign in to an account by a code that you type on any device", one_of="way"),
        Option("--browser", "sign in to an account in a browser", one_of="way"),
        Option("--list", "list stored credentials and their lock; keys are never shown", one_of="way"),
        Option("--check", "ask each provider for its list of models, which costs nothing", one_of="way"),
        Option("--export", "write everything to a file locked by a passphrase", "FILE", one_of="way"),
        Option("--import", "read such a file", "FILE", dest="import_file", one_of="way"),
        Option("--lock", "change the lock of the store", "KIND", choices=_LOCKS, one_of="way"),
        Option("--stdin", "read the key from stdin, as a pipe is anyway"),
        Option("--no-check", "store a key without trying it"),
        Option("--no-open", "print the address and open no browser"),
        Option("--account", "name of the account", "NAME"),
        JSON,
        *SETTINGS,
    ),
    examples="""\
bridle login                       choose a provider, then paste its key; nothing of it is shown
bridle login openai < key.txt      the key comes from stdin; it is never a word of a command
bridle login work --device         an account instead of a key
bridle logout PROVIDER             forget it""",
    notes="""\
A key in the environment goes before a stored one. An account needs providers.NAME.oauth with client_id, token_url
and authorize_url or device_url. BRIDLE_PASSPHRASE or BRIDLE_MACHINE_KEY lock a new store; without them a key is
made for you alone (chmod 600). credentials.store = "keyring" uses the system keychain; if its package is missing,
Bridle says what installs it.""",
)
LOGOUT = Verb(
    name="logout",
    module="accounts.login:logout",
    purpose="forget a stored key or account",
    arguments=(_PROVIDER,),
    options=(Option("--all", "forget everything"), *SETTINGS),
)
MODELS = Verb(
    name="models",
    module="accounts.models",
    purpose="list models, their abilities and prices, and which can be used now",
    arguments=(Argument("filter", "PROVIDER", "?"),),
    options=(
        Option("--keys", "the environment variables a key may be in, and whether one is"),
        Option("--refresh", "ask the provider again; without a name, every provider with a key"),
        JSON,
        *SETTINGS,
    ),
    examples="""\
bridle models                  every provider and why it can or cannot be used; models on this machine
bridle models openai           what that provider lists; it is asked at most once a day, and only it
bridle models openai:mini      the same, only names that contain "mini"
bridle models sonnet           every model known without asking that contains "sonnet\"""",
    notes="""\
✓ can be used now, * is the default. Choose one: bridle config set model PROVIDER:MODEL. Without a name nothing outside
this machine is asked. A list costs nothing; no key is ever shown. Prices are dollars per million tokens, from the
provider's list or a snapshot that comes with Bridle. Your own value goes first:
bridle config set 'models."PROVIDER:MODEL".price_in' 3, also price_out, context_tokens, tools, images.
Your own provider: bridle config set providers.NAME.base_url URL, and providers.NAME.key_env VARIABLE.""",
)
TOKEN = Verb(
    name="token",
    module="accounts.token",
    purpose="let others into a session: with which permissions, for how long, under which name",
    default_action="list",
    actions=(
        Action(
            "mint",
            "make a token; bridle token OPTIONS does the same",
            options=(
                _SESSION,
                Option(
                    "--identity-class",
                    "whose it is; an agent never approves",
                    "CLASS",
                    choices=("human", "agent"),
                    default="human",
                ),
                Option("--watch", "it may only watch"),
                Option("--approve", "it may watch and answer questions, and no more"),
                Option(
                    "--for", "how long it is valid, such as 30m, 2h or 7d", "TIME", default="24h", dest="life"
                ),
                Option("--name", "name shown with every answer; without it the token is yours", "NAME"),
                Option("--out", "write it to a new file (mode 0400)", "FILE"),
                Option("--print", "print it even if stdout is no terminal"),
                Option("--ci", "a token for the engine of a job; names no session"),
            ),
        ),
        Action("list", "list tokens, their owners and until when they are valid", options=(JSON,)),
        Action("revoke", "refuse it from now on, also in running engines", (Argument("jti", "TOKEN_ID"),)),
        Action("audit", "what was minted, revoked, refused and answered", options=(_SESSION, JSON)),
    ),
    examples="""\
bridle token mint --session ID --approve --name Ana --for 2h   answers the questions of that session, and no more
bridle token mint --session ID --watch --out FILE              watches; the token goes into a new file
bridle token --session ID --identity-class agent               another program
bridle token mint --ci --out ci-token.json                     what the engine of a job is started with""",
    notes="""\
A user mints a token at a terminal. It is valid for 24 h by default and works with every bridle serve of the same
data folder. --name also tells users apart where a rule wants two of them. An engine takes a --ci token only from
the file it is started with, and where both have the same BRIDLE_MACHINE_KEY.""",
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

VERBS = (LOGIN, LOGOUT, MODELS, TOKEN, PERMISSIONS, TRUST, SANDBOX, HOOKS)
