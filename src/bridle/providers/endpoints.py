"""Endpoints: where a model is asked, with which headers, and in which dialect. Data, no I/O.

A vendor is an `Endpoint`; what it does differently is a `Quirks`. Nobody subclasses anything for a vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from bridle.engine.ports import PATIENCE, Patience
from bridle.protocol.events import PrefixSet

WireName: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic"]


class Auth(msgspec.Struct, frozen=True):
    """How the key travels: a header, and the word before the key in it."""

    header: str
    scheme: str = ""


BEARER: Final = Auth("authorization", "Bearer")
X_API_KEY: Final = Auth("x-api-key")
API_KEY: Final = Auth("api-key")

_AZURE_HOSTS: Final = (".openai.azure.com", ".services.ai.azure.com")


class Quirks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a vendor's protocol differs from the one it is named after.

    `effort_words` is how the vendor spells our efforts; without an entry, a chat endpoint is sent none. `calls_in_text`
    reads tool calls that a model writes into its text. `cache_system` marks the system text of a chat for the vendor's
    cache, `omit_cache_hints` leaves every hint out. `budget_models` are patterns of the Anthropic models that are told
    how many tokens to think for; all others choose themselves and are told an effort. `schemaless_models` are patterns
    of the models that are not sent the schema of an answer, because they, or they beside tools, refuse it or call no
    tool any more. `images` says what becomes of images where no model of the endpoint reads any.
    """

    omit_tool_choice: bool = False
    omit_temperature: bool = False
    omit_max_tokens: bool = False
    omit_stream_options: bool = False
    omit_cache_hints: bool = False
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    content_beside_calls: Literal["null", "empty"] = "null"
    effort_words: Mapping[str, str] = {}
    calls_in_text: bool = False
    cache_system: bool = False
    budget_models: tuple[str, ...] = ("*",)
    schemaless_models: tuple[str, ...] = ("*",)
    images: Literal["send", "refuse", "leave_out"] = "send"


LOCAL_PATIENCE: Final = Patience(first_part_s=600)
STANDARD: Final = Quirks()
"""No difference at all."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One provider: an address, where its key is, and its dialect.

    `auth` is inferred from wire and host where it is not given. `title` is what people call the vendor.
    `models` are names known without asking, for a vendor that lists none. `placeholder_key` stands in
    where no key is needed but the header is expected; `start_hint` is the command that starts a local server,
    `context_hint` what makes it serve a longer context, `pull_hint` what brings a model it does not have.
    `lists_prices`: what its models cost stands in its listing. `first_part_s`, `idle_s` and `alive_s` are its
    `Patience` where that is not the usual one of a local or a remote server.
    """

    name: str
    base_url: str
    wire: WireName = "openai_chat"
    title: str = ""
    key_env: str | None = None
    auth: Auth | None = None
    headers: Mapping[str, str] = {}
    quirks: Quirks = STANDARD
    models: tuple[str, ...] = ()
    local: bool = False
    placeholder_key: str | None = None
    start_hint: str = ""
    context_hint: str = ""
    pull_hint: str = ""
    lists_prices: bool = False
    first_part_s: float | None = None
    idle_s: float | None = None
    alive_s: float | None = None

    @property
    def needs_key(self) -> bool:
        """Whether a request without a key makes no sense. A server on this machine may well want none."""
        own_machine = self.key_env is None and _is_loopback(self.base_url)
        return not self.local and not own_machine and self.placeholder_key is None

    @property
    def patience(self) -> Patience:
        """A local model may take minutes to read a long prompt."""
        usual = LOCAL_PATIENCE if self.local else PATIENCE
        return Patience(
            self.first_part_s or usual.first_part_s,
            self.idle_s or usual.idle_s,
            self.alive_s or usual.alive_s,
        )

    @property
    def key_source(self) -> str:
        """Where a person put the key, as an error names it."""
        return self.key_env or f"providers.{self.name}.key_env"

    @property
    def family(self) -> str:
        """Who may read a thought of this endpoint's models again."""
        return f"{self.wire}:{self.name}"

    def url(self, path: str) -> str:
        """The address of an operation. A query in `base_url` stays at the end, and a `/v1` is not doubled."""
        base, _, query = self.base_url.partition("?")
        path, _, own_query = path.partition("?")
        base = base.rstrip("/")
        if base.endswith("/v1"):
            path = path.removeprefix("v1/")
        queries = "&".join(filter(None, (own_query, query)))
        return f"{base}/{path}{'?' if queries else ''}{queries}"

    @property
    def address(self) -> str:
        """Scheme, host and port, as a person reads them. Never a password that stood in the address."""
        scheme, _, rest = self.base_url.partition("://")
        return f"{scheme}://{_host_and_port(rest)}"

    def request_headers(self, key: str | None) -> dict[str, str]:
        """What every request carries. `key` must be usable as a header value (`is_usable_key`)."""
        headers = {"content-type": "application/json", **self.headers}
        sent = key or self.placeholder_key
        if sent:
            auth = self.auth or inferred_auth(self.base_url, self.wire)
            headers[auth.header] = f"{auth.scheme} {sent}".lstrip()
        return headers


def _is_loopback(base_url: str) -> bool:
    host = _host_and_port(base_url.partition("://")[2]).rpartition(":")[0].strip("[]")
    return host in ("127.0.0.1", "localhost", "::1")


def inferred_auth(base_url: str, wire: WireName = "openai_chat") -> Auth:
    """`x-api-key` over Anthropic's wire, `api-key` for Azure's hosts, `Authorization: Bearer` for everybody else."""
    if wire == "anthropic":
        return X_API_KEY
    host = _host_and_port(base_url.partition("://")[2]).partition(":")[0].lower().rstrip(".")
    return API_KEY if host.endswith(_AZURE_HOSTS) else BEARER


def is_usable_key(key: str) -> bool:
    """Whether a key can stand in a header: visible ASCII, nothing that begins another line."""
    return key.isascii() and key.isprintable() and " " not in key and bool(key)


def _host_and_port(after_scheme: str) -> str:
    authority = after_scheme.replace("?", "/").replace("#", "/").partition("/")[0]
    return authority.rpartition("@")[2]


NAME: Final = "answer"
"""Some vendors want to know what the schema is called."""
_NOTES: Final = frozenset({"title", "description", "default", "examples"})
_HELD: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"}
)
_NAMES_ONLY: Final = frozenset({"$schema", "$id"})
"""Which schema it is says nothing about the answer."""


def sent_schema(prefix: PrefixSet, quirks: Quirks) -> dict[str, Any] | None:
    """The schema that goes with a request; None where the model takes none, or none that is no object."""
    schema = prefix.parameters.answer_schema
    if schema is None or schema.get("type") != "object":
        return None
    if any(fnmatchcase(prefix.model, pattern) for pattern in quirks.schemaless_models):
        return None
    return {name: value for name, value in schema.items() if name not in _NAMES_ONLY}


def is_closed(schema: object, *, optional: bool) -> bool:
    """Whether a vendor can hold a model to every word of a schema: objects that name all they may have, and nothing
    about sizes, patterns or other schemas. With `optional` an object may leave properties out.
    """
    if not isinstance(schema, Mapping):
        return False
    node = cast("Mapping[str, Any]", schema)
    if not node.keys() <= _HELD | _NOTES or not (node.keys() & {"type", "enum", "const", "anyOf"}):
        return False
    properties = node.get("properties", {})
    if node.get("type") == "object" or properties:
        if node.get("additionalProperties") is not False or not isinstance(properties, Mapping):
            return False
        names = cast("Mapping[str, Any]", properties)
        if not optional and set(node.get("required", ())) != set(names):
            return False
        if not all(is_closed(one, optional=optional) for one in names.values()):
            return False
    if node.get("type") == "array" and not is_closed(node.get("items"), optional=optional):
        return False
    return all(is_closed(one, optional=optional) for one in node.get("anyOf", ()))
