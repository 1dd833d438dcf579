"""The verb `mcp`: servers whose tools sessions use, and Bridle as a server for other agents."""

from __future__ import annotations

from bridle.cli.verbs.rows import (
    DRY_RUN,
    ID,
    JSON,
    NAME,
    SETTINGS,
    WORK_DIR,
    Action,
    Argument,
    Option,
    Verb,
    positive,
)

_SERVER = Argument("name", "SERVER")
_SERVE_PAGE = "mcp-serve"

_CLIENT = (
    Action(
        "list", "the servers of this folder, their files, and whether each is used", options=(JSON, *SETTINGS)
    ),
    Action("show", "one server: its command or address, its tools, its log", (_SERVER,), (JSON, *SETTINGS)),
    Action(
        "test",
        "start or reach it as a session would, and list what it offers",
        (_SERVER,),
        (
            Option("--call", "call a tool as well", "TOOL"),
            Option("--arguments", "arguments of that call", "JSON"),
            Option("--defaults", "answer its forms with their own defaults"),
            JSON,
            *SETTINGS,
        ),
        module="mcp.mcp_trial:mcp_test",
    ),
    Action(
        "login",
        "sign in to a remote server, in a browser",
        (_SERVER,),
        (
            Option("--no-open", "only print the address"),
            Option("--no-check", "do not reach it afterwards"),
            Option("--secret", "type or pipe the secret of oauth_client_id"),
            *SETTINGS,
        ),
        module="mcp.mcp_login",
    ),
    Action("logout", "forget that", (_SERVER,), module="mcp.mcp_login"),
    Action(
        "add",
        "write a server into your own settings: NAME -- CMD ARGS, or NAME URL",
        (NAME, Argument("words", "CMD|URL", "*")),
        (Option("--transport", "transport of a URL", "KIND", choices=("http", "sse")),),
        module="mcp.mcp_edit",
    ),
    Action("remove", "take it out of your own settings", (_SERVER,), module="mcp.mcp_edit"),
    Action(
        "import",
        "take over servers of Claude, Cursor, VS Code and Codex",
        (Argument("file", "FILE", "?"),),
        (DRY_RUN, Option("--yes", "do not ask"), JSON),
        module="mcp.mcp_edit:mcp_import",
    ),
    Action(
        "secret",
        "store the value of ${NAME} in env, headers, args and url; typed or piped",
        (NAME,),
        (Option("--remove", "forget it"),),
        module="mcp.mcp_edit:mcp_secret",
    ),
    Action(
        "restart",
        "restart it in the sessions of the engine that listens",
        (_SERVER,),
        module="mcp.mcp_servers:mcp_restart",
    ),
    Action(
        "logs",
        "the end of what it wrote to stderr",
        (_SERVER,),
        (Option("-n, --lines", "number of lines, 100 by default", "N", read=positive, default=100),),
    ),
    Action(
        "approve",
        "approve what it launches and says of its tools now, at a terminal",
        (_SERVER,),
        SETTINGS,
        module="mcp.mcp_trial:mcp_approve",
    ),
)
_SERVE = (
    Action(
        name="serve",
        purpose="speak MCP over stdin and stdout until stdin ends; another program starts this",
        module="mcp.mcp_serve",
        page=_SERVE_PAGE,
        options=(WORK_DIR,),
        examples="""\
claude mcp add bridle -- bridle mcp serve
codex mcp add bridle -- bridle mcp serve""",
        notes="""\
Bridle as a tool of other agents; servers that Bridle uses: bridle help mcp. Another agent can begin sessions, run
tasks, refuse calls and cancel. It never approves, sees only sessions it began or its token names, and gets no more
than your own settings give. A new program waits at its first call until you allow it; one whose file changed is
new. BRIDLE_TOKEN in its environment binds it to the sessions of a token. You are told of every session it begins,
and how to attach. If mcp_server.attach_command says how to show you one, --auto-attach does that for the sessions
of this program, such as ["tmux", "new-window", "bridle attach {session}"]. With bridle serve running, sessions live
there; over HTTP the same tools are at /mcp, with the token as bearer.""",
    ),
    Action(
        "parents",
        "the programs that asked to use Bridle, and your answers",
        module="mcp.mcp_serve:mcp_allow",
        page=_SERVE_PAGE,
        options=(JSON,),
    ),
    Action(
        "allow",
        "let one in, at a terminal that it did not open",
        (ID,),
        (Option("--auto-attach", "show its sessions at once"),),
        module="mcp.mcp_serve:mcp_allow",
        page=_SERVE_PAGE,
    ),
    Action("forget", "it has to ask again", (ID,), module="mcp.mcp_serve:mcp_allow", page=_SERVE_PAGE),
)

MCP = Verb(
    name="mcp",
    module="mcp.mcp_servers",
    purpose="manage MCP servers whose tools sessions use. Bridle as a server: bridle help mcp-serve",
    default_action="list",
    actions=(*_SERVE, *_CLIENT),
    notes="""\
The keys of a remote server go into its headers: bridle config edit. What a server launches and says of its tools is
pinned at its first use. A change waits for your approval, in a session (/mcp:approve NAME) or here.""",
)

VERBS = (MCP,)
