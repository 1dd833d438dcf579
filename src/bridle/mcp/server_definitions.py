"""An MCP server as settings describe it: what is started or where it listens, and what of it is used."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_type_hints

import msgspec

from bridle.base.net.http_routes import is_loopback, parse_url
from bridle.base.text.terminal_text import visible
from bridle.engine.setting_fields import kind_of
from bridle.mcp.mcp_settings import ServerOptions, ServerTable

Transport: TypeAlias = Literal["stdio", "http", "sse"]

VERBS: Final = frozenset(
    {
        "add",
        "allow",
        "approve",
        "forget",
        "import",
        "list",
        "login",
        "logout",
        "logs",
        "parents",
        "remove",
        "restart",
        "secret",
        "serve",
        "show",
        "status",
        "test",
    }
)
"""What stands behind `/mcp:` and `bridle mcp` by itself: no server is called so."""
SIGN_IN_KEYS: Final = ("client_document_url", "oauth_client_id", "oauth_secret_env", "oauth_redirect_uri")
"""Who Bridle is where a person signs in at a server: said by the person's own settings alone."""
_EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104  compared, never listened on
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[^\s:/\\@\x00-\x1f\x7f]{1,64}")


class ServerDefinition(ServerOptions, frozen=True, kw_only=True):
    """One server.

    `part` is its name inside the names of its tools, unlike that of every other server. `folder` is where it starts,
    seen from the session's own. `env` are variables beside those every command has. `connect_s`: how long it may take
    until it is ready; `call_s`: how long a call may; `idle_s`: after so long without a call it is stopped until the
    next. `enabled_tools` are all that are used where they are named. `read_only_trusted`: the person believes it when
    it says that a tool changes nothing. `sha256` is the digest its program must have; empty where settings name none.
    `of_project`: a file of the workspace has a say in it.

    To sign in at it, Bridle is what `client_document_url` says, else what was registered as `oauth_client_id`, whose
    secret may be in a variable of its own; `oauth_redirect_uri` is where browsers come back to, if that is fixed.
    `sampling`: it may ask for answers of the session's model, each of which a person agrees to.
    """

    name: str
    part: str
    transport: Transport
    argv: tuple[str, ...] = ()
    folder: str = ""
    url: str = ""
    of_project: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine, with the files of the session before it, as far as its address tells."""
        if not self.url:
            return True
        try:
            host = parse_url(self.url).host
        except ValueError:  # it is put together later
            return True
        return is_loopback(host) or host in _EVERY_ADDRESS

    def uses(self, tool: str) -> bool:
        """Whether this tool of the server is used."""
        listed = self.enabled_tools is None or tool in self.enabled_tools
        return listed and tool not in self.disabled_tools

    def is_lazy(self, tools: int) -> bool:
        """Whether so many tools are searched for instead of being told to the model."""
        return self.discovery == "lazy" or (self.discovery == "auto" and tools > self.lazy_above)


class BadServer(ValueError):
    """Settings of a server that mean nothing. The text is a clause; `key` is the setting it is about."""

    def __init__(self, problem: str, key: str = "") -> None:
        super().__init__(problem)
        self.key = key


def _bad_value(table: Mapping[str, Any]) -> BadServer | None:
    """Name the first value that its setting does not take. The value itself may be a secret."""
    for key, annotation in get_type_hints(ServerTable, include_extras=True).items():
        kind = kind_of(annotation)
        if key in table and kind.wanted and not kind.accepts(table[key]):
            return BadServer(f"{key} is not {kind.wanted}")
    return None


def decode_server(
    name: str, table: Mapping[str, Any], *, part: str, of_project: bool = False
) -> ServerDefinition:
    """Decode a server of `mcp_servers`, whose values were checked by the settings table. Raises `BadServer`.

    `part` is that of `unique_server_parts`. `of_project`: a file of the workspace has a say in it.
    """
    if _NAME.fullmatch(name) is None or visible(name, newlines=False) != name:
        raise BadServer("its name has blanks, one of :/\\@, characters that are not shown, or more than 64")
    if name in VERBS:
        raise BadServer(f'"{name}" is a command of /mcp, so no server can be called that')
    table = {key: value for key, value in table.items() if value is not None}
    try:
        server = msgspec.convert(table, ServerTable)
    except msgspec.ValidationError as problem:
        raise _bad_value(table) or BadServer(str(problem)) from None
    argv, url = _words(server), server.url or ""
    if bool(argv) == bool(url):
        raise BadServer("it needs either command or url" if not argv else "it has both command and url")
    transport = server.transport or ("stdio" if argv else "http")
    if (transport == "stdio") != bool(argv):
        fits = "a server with a command speaks stdio" if argv else "a server with a url speaks http or sse"
        raise BadServer(fits, "transport")
    of_url, of_command = (
        ("headers", *SIGN_IN_KEYS),
        ("args", "env", "cwd", "sandbox", "network", "idle_s", "sha256"),
    )
    for key in of_url if argv else of_command:
        if key in table:
            raise BadServer(f"it goes with a {'url' if argv else 'command'}", key)
    digest = server.sha256.lower()
    if digest and _SHA256.fullmatch(digest) is None:
        raise BadServer("it is the sha256 of the program: 64 digits and letters from a to f", "sha256")
    if of_project:
        _refuse_looser(server)
    _check_sign_in(server)
    server = msgspec.structs.replace(server, sha256=digest)
    options: dict[str, Any] = {key: getattr(server, key) for key in ServerOptions.__struct_fields__}
    return ServerDefinition(
        **options,
        name=name,
        part=part,
        transport=transport,
        argv=argv,
        folder=server.cwd,
        url=url,
        of_project=of_project,
    )


def launch_hash(definition: ServerDefinition, folder: str) -> str:
    """What is started, or where it listens, as one digest: the same for the same thing in the same folder."""
    launch = (
        definition.transport,
        definition.argv,
        sorted(definition.env.items()),
        definition.folder,
        folder,
        definition.url,
        sorted(definition.headers.items()),
    )
    return sha256(msgspec.json.encode(launch)).hexdigest()


def _words(server: ServerTable) -> tuple[str, ...]:
    """Return the program and its arguments. Text is one word: nothing of it goes through a shell."""
    if not server.command:
        return ()
    words = (server.command,) if isinstance(server.command, str) else server.command
    return (*words, *server.args)


def _refuse_looser(server: ServerTable) -> None:
    """Refuse what only the user's own settings may say, of a server that they alone describe."""
    loose = {"sandbox": "off", "read_only_trusted": True, "sampling": True}
    found = [key for key, value in loose.items() if getattr(server, key) == value]
    for key in (*found, *(key for key in SIGN_IN_KEYS if getattr(server, key))):
        raise BadServer("only a server that your own settings alone describe may have it", key)


def _check_sign_in(server: ServerTable) -> None:
    if server.client_document_url and not is_client_document(server.client_document_url):
        raise BadServer("it is no https address with a path", "client_document_url")
    if server.oauth_redirect_uri and not _is_redirect(server.oauth_redirect_uri):
        raise BadServer("it is no address of this machine with a port", "oauth_redirect_uri")
    if server.oauth_secret_env and not server.oauth_client_id:
        raise BadServer("it goes with oauth_client_id", "oauth_secret_env")


def is_client_document(address: str) -> bool:
    """Whether it can be where a document says who a client is."""
    try:
        url = parse_url(address)
    except ValueError:
        return False
    return url.secure and url.target.partition("?")[0] != "/"


def _is_redirect(address: str) -> bool:
    try:
        url = parse_url(address)
    except ValueError:
        return False
    return not url.secure and is_loopback(url.host) and f":{url.port}" in address


_REFERENCE = re.compile(r"\$?\$\{([^}]*)\}")
_WORDS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NEVER = "BRIDLE_"
"""Nobody else's business: among them is what opens the credential store."""


class BadReference(ValueError):
    """What is no reference, or has no value. The text is the end of a sentence, without any value."""


class MissingValue(BadReference):
    """A name that nobody gave a value."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} has no value: set that variable, or store one with: bridle mcp secret {name}"
        )
        self.name = name


class ReferenceValues(Protocol):
    """Where values of references come from."""

    async def find(self, names: Collection[str], *, of_project: bool) -> Mapping[str, str]:
        """The values there are of these. `of_project`: a file of the workspace named them, so that it gets what its
        commands see and nothing else. Raises `BridleError` where stored ones cannot be looked at."""
        ...


class FilledLaunch(NamedTuple):
    """A definition as it is launched, and the values in it that no log may hold."""

    definition: ServerDefinition
    secrets: tuple[str, ...]


def reference_names(definition: ServerDefinition) -> tuple[str, ...]:
    """The names that its values refer to, in their order, each once. Raises `BadReference`."""
    return tuple(dict.fromkeys(name for text in _texts(definition) for name, _default in _references(text)))


async def filled_launch(definition: ServerDefinition, values: ReferenceValues | None) -> FilledLaunch:
    """The definition with what its references stand for. Raises `BadReference`, and what `find` raises."""
    names = reference_names(definition)
    found: Mapping[str, str] = {}
    if names and values is not None:
        found = await values.find(names, of_project=definition.of_project)
    try:
        launched = _filled(definition, found)
    except MissingValue as missing:
        if not definition.of_project:
            raise
        raise BadReference(
            f"{missing.name} has no value here: a server of a project gets what commands see. "
            "Name it in your own settings, where it may have more"
        ) from None
    return FilledLaunch(launched, (*launched.env.values(), *launched.headers.values(), *found.values()))


def _filled(definition: ServerDefinition, found: Mapping[str, str]) -> ServerDefinition:
    program, *words = definition.argv or ("",)
    return msgspec.structs.replace(
        definition,
        argv=(program, *(fill(word, found) for word in words)) if definition.argv else (),
        env={name: fill(value, found) for name, value in definition.env.items()},
        url=_address(definition.url, found),
        headers={name: _header(name, fill(value, found)) for name, value in definition.headers.items()},
    )


def fill(text: str, found: Mapping[str, str]) -> str:
    """The text with every reference filled. Raises `BadReference` for one that has neither value nor default."""
    if "${" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        name, default = _parts(match[1])
        if name in found:
            return found[name]
        if default is None:
            raise MissingValue(name)
        return default

    return _REFERENCE.sub(value, text)


def _address(url: str, found: Mapping[str, str]) -> str:
    address = fill(url, found)
    if address != url and not address.startswith(("http://", "https://")):
        raise BadReference("its url is no address that begins with http:// or https:// once it is filled")
    return address


def _header(name: str, value: str) -> str:
    if not value.isprintable():
        raise BadReference(f"its header {name} has a line break or another character no header can have")
    return value


def _texts(definition: ServerDefinition) -> Iterator[str]:
    yield from definition.argv[1:]
    yield from definition.env.values()
    yield definition.url
    yield from definition.headers.values()


def _references(text: str) -> Iterator[tuple[str, str | None]]:
    if "${" in text:
        for match in _REFERENCE.finditer(text):
            if not match[0].startswith("$$"):
                yield _parts(match[1])


def _parts(words: str) -> tuple[str, str | None]:
    """The name and what holds where it has no value."""
    match = _WORDS.fullmatch(words)
    if match is None:
        raise BadReference("${…} takes the name of a variable, or NAME:-otherwise; a plain ${ is written $${")
    if match[1].upper().startswith(_NEVER):
        raise BadReference(f"{match[1]} is Bridle's own, and no server gets it")
    return match[1], match[2]
