"""Settings of MCP servers."""

from typing import Annotated, Literal

import msgspec

from bridle.engine.setting_fields import (
    About,
    Address,
    Command,
    Count,
    EnvironmentName,
    FilledAddress,
    Number,
    TextTable,
    Wanted,
)


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server that are used as they are written."""

    env: Annotated[TextTable, About("Variables for the server.", private=True)] = {}
    headers: Annotated[TextTable, About("Headers added to every request.", private=True)] = {}
    sha256: Annotated[str, About("The sha256 its program must have to be started.")] = ""
    discovery: Annotated[
        Literal["eager", "lazy", "auto"],
        Wanted("a way of discovery"),
        About(
            "Whether the model is told of its tools (eager) or searches for them (lazy); auto goes by their number."
        ),
    ] = "auto"
    lazy_above: Annotated[Count, About("The number of tools above which auto is lazy; 20.")] = 20
    connect_s: Annotated[Number, About("How long it may take until it is ready; 30.")] = 30.0
    call_s: Annotated[Number, About("How long a call may take; 120. Progress gives it more.")] = 120.0
    idle_s: Annotated[Number, About("It is stopped after so long without a call; 1800.")] = 1800.0
    enabled_tools: Annotated[tuple[str, ...] | None, About("The only tools of it that are used.")] = None
    disabled_tools: Annotated[tuple[str, ...], About("Tools of it that are not used.")] = ()
    sandbox: Annotated[
        Literal["workspace-write", "read-only", "off"],
        Wanted("a sandbox mode of a server"),
        About("What it may write: workspace-write by default, read-only, or off."),
    ] = "workspace-write"
    network: Annotated[
        Literal["inherit", "filtered", "deny"] | None,
        Wanted("a network choice"),
        About("Whether it reaches the network; as commands do by default."),
    ] = None
    read_only_trusted: Annotated[
        bool,
        About(
            "Whether you believe it when it says that a tool changes nothing: such tools run without a question."
        ),
    ] = False
    sampling: Annotated[bool, About("Whether it may ask your model; each is a question to you.")] = False
    client_document_url: Annotated[
        Address,
        About(
            "Where a document says who Bridle is when you sign in at it, in place of mcp.client_document_url."
        ),
    ] = ""
    oauth_client_id: Annotated[str, About("The client id of Bridle for signing in at it.")] = ""
    oauth_secret_env: Annotated[
        EnvironmentName,
        About("The variable with the secret of oauth_client_id; else: bridle mcp login NAME --secret."),
    ] = ""
    oauth_redirect_uri: Annotated[
        Address, About("Where browsers come back to on this machine, if what was registered says so.")
    ] = ""


class ServerTable(ServerOptions, frozen=True, kw_only=True):
    command: Annotated[Command | None, About("The command that starts the server.")] = None
    args: Annotated[tuple[str, ...], About("More words for the command. ${NAME} is filled in.")] = ()
    cwd: Annotated[str, About("Where it starts, seen from the folder of the session.")] = ""
    url: Annotated[FilledAddress | None, About("Where a server that is already running listens.")] = None
    transport: Annotated[
        Literal["stdio", "http", "sse"] | None,
        Wanted("a transport"),
        About("The transport: stdio for a command, http or sse for a url."),
    ] = None
    disabled: Annotated[bool, About("Leave this server out.")] = False


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    client_document_url: Annotated[Address | None, About("The document that says who Bridle is.")] = None
    sampling_requests: Annotated[Count, About("How many such answers servers get in a session.")] = 10
    sampling_tokens: Annotated[Count, About("How many tokens such answers may take in a session.")] = 20_000
    start_s: Annotated[Number, About("How long a run waits for servers before its first request.")] = 5
