"""A person signs in at a server that listens: the flow of the `mcp` package, held in bounds.

That package finds the authorization server, registers, proves the code (PKCE) and checks who issued it; here is who
Bridle is there, which addresses are gone to, and how much is read. Nothing here opens, prints or stores anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, cast
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import create_client_info_from_metadata_url
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl

from bridle.base.net.http_routes import is_loopback, parse_url
from bridle.base.net.oauth_registration import ClientRegistration
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_tokens import is_safe_address
from bridle.mcp.transports import UNPACKED, CappedStream, http_transport, refuse_packed

MOST_ANSWER_BYTES: Final = 256 * 1024
TALK_S: Final = 120.0
"""What the servers may take for all their answers; the person has a time of their own."""
_TIMEOUT_S: Final = 30.0
_NO_TOKEN: Final = "-"  # noqa: S105  it is never sent
_PROBE: Final = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bridle", "version": "0"},
    },
}


class LoginFailed(Exception):
    """It did not work, and why, as the end of a sentence: words of servers may be in it."""


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who Bridle is at an authorization server, by what comes first: a document, a registered client, or else whoever
    it is registered as there and then."""

    document_url: str = ""
    client_id: str = ""
    client_secret: str = ""


class PersonAtBrowser(NamedTuple):
    """`show` gets the address to open and the state that it must come back with; `brought` the code, and who says to
    have given it. Both raise what they like."""

    show: Callable[[str, str], None]
    brought: Callable[[], Awaitable[tuple[str, str | None]]]


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign-in left behind. `lasts_s` is how long the access token holds, where the server says so."""

    registration: ClientRegistration
    access_token: str
    refresh_token: str | None
    lasts_s: int | None

    def __repr__(self) -> str:
        return f"Granted({self.registration!r})"


async def sign_in(
    definition: ServerDefinition,
    env: Mapping[str, str],
    *,
    identity: ClientIdentity,
    known: ClientRegistration | None,
    challenge: str,
    redirect_uri: str,
    person: PersonAtBrowser,
    person_s: float,
) -> Granted:
    """Tokens for what a person allowed in a browser. Raises `LoginFailed`.

    `known` is how it was the last time; `challenge` what the server said when it last let nobody in.
    """
    storage = _Storage(identity, known, redirect_uri)
    transport = _LoginTransport(
        definition, env, wants_more=known.challenge if known else "", challenge=challenge
    )
    login = _Login(definition.url, identity, storage, redirect_uri, person)
    try:
        async with asyncio.timeout(TALK_S + person_s), _client(transport) as client:
            response = await client.send(_probe(definition), auth=login, stream=True)
            await response.aclose()
    except (OAuthFlowError, LoginFailed) as problem:
        said = _without_input(str(problem))
        if not transport.was_challenged:
            raise LoginFailed(f"it asks for no sign-in, and where to sign in was not found: {said}") from None
        raise LoginFailed(said) from None
    except TimeoutError:
        raise LoginFailed("it took too long") from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ValueError) as problem:
        raise LoginFailed(_without_input(str(problem)) or type(problem).__name__) from None
    if response.status_code == 401:
        raise LoginFailed("it does not take the token that was given for it")
    return _granted(login, storage, redirect_uri)


def _without_input(problem: str) -> str:
    """What went wrong, without what was read: that may be a token or a secret."""
    before, found, _input = problem.partition("validation error")
    return (
        f"{before.rstrip(' 0123456789:')}: it is not what the protocol says".lstrip(": ")
        if found
        else problem
    )


class _Login(OAuthClientProvider):
    """The flow, as one of the identities in their order."""

    def __init__(
        self,
        url: str,
        identity: ClientIdentity,
        storage: _Storage,
        redirect_uri: str,
        person: PersonAtBrowser,
    ) -> None:
        super().__init__(
            url,
            OAuthClientMetadata(client_name="Bridle", redirect_uris=[AnyUrl(redirect_uri)]),
            storage,
            redirect_handler=self._show,
            callback_handler=self._brought,
            client_metadata_url=identity.document_url or None,
        )
        self._identity = identity
        self._person = person
        self._state = ""

    async def _perform_authorization(self) -> httpx2.Request:
        """Who Bridle is there is decided once it is known what the server takes, and before anybody is asked."""
        metadata, document = self.context.oauth_metadata, self._identity.document_url
        if document and metadata is not None and metadata.client_id_metadata_document_supported:
            self.context.client_info = create_client_info_from_metadata_url(
                document, redirect_uris=self.context.client_metadata.redirect_uris
            )
        info = self.context.client_info
        if info is not None and info.client_secret and info.token_endpoint_auth_method is None:
            methods = metadata.token_endpoint_auth_methods_supported if metadata is not None else None
            basic = methods is None or "client_secret_basic" in methods
            info.token_endpoint_auth_method = "client_secret_basic" if basic else "client_secret_post"
        return await super()._perform_authorization()

    async def _show(self, address: str) -> None:
        _check_address(address, self.context.server_url)
        self._state = parse_qs(urlsplit(address).query)["state"][-1]
        self._person.show(address, self._state)

    async def _brought(self) -> AuthorizationCodeResult:
        code, issuer = await self._person.brought()
        return AuthorizationCodeResult(code=code, state=self._state, iss=issuer)


class _Storage:
    """What that package asks for while somebody signs in. Nothing is kept beyond it."""

    def __init__(self, identity: ClientIdentity, known: ClientRegistration | None, redirect_uri: str) -> None:
        self.tokens: OAuthToken | None = None
        self._identity = identity
        self._known = known
        self._redirect_uri = redirect_uri

    async def get_tokens(self) -> OAuthToken | None:
        """Only of interest where more is wanted than was granted: what was, is asked for again."""
        known = self._known
        return OAuthToken(access_token=_NO_TOKEN, scope=known.scope) if known and known.challenge else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        identity, known = self._identity, self._known
        if identity.client_id:
            same = known is not None and known.client_id == identity.client_id
            return OAuthClientInformationFull(
                client_id=identity.client_id,
                client_secret=identity.client_secret or None,
                issuer=known.issuer if known is not None and same else None,
            )
        if known is None or identity.document_url or known.redirect_uri != self._redirect_uri:
            return None
        return OAuthClientInformationFull(
            client_id=known.client_id,
            client_secret=known.client_secret or None,
            token_endpoint_auth_method=known.proof,
            issuer=known.issuer,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Where settings say who Bridle is, another one was made up because the server is another."""
        identity, known = self._identity, self._known
        if identity.client_id and client_info.client_id not in (identity.client_id, identity.document_url):
            before = known.issuer if known is not None else "another"
            raise LoginFailed(
                f"its authorization server was {before} and is another now, where your oauth_client_id is not known"
            )


class _LoginTransport(httpx2.AsyncBaseTransport):
    """Every request of a sign-in: to addresses that may be gone to, with answers of a size that is read.

    The first one, to the server itself, is there to be refused. Where more was wanted than was granted, it is answered
    with what the server said then, `wants_more`; a server that refuses other requests only, with its `challenge`.
    `was_challenged` says whether anybody said anything.
    """

    def __init__(
        self, definition: ServerDefinition, env: Mapping[str, str], *, wants_more: str, challenge: str
    ) -> None:
        self.was_challenged = False
        self._wants_more = wants_more
        self._url = definition.url
        self._env = env
        self._challenge = challenge
        self._asked = False
        self._inner: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._asked:
            return await self._sent(request)
        self._asked = True
        if self._wants_more:
            self.was_challenged = True
            return _refusal(request, 403, self._wants_more)
        response = await self._sent(request)
        if response.status_code == 401:
            self.was_challenged = True
            return response
        await cast("httpx2.AsyncByteStream", response.stream).aclose()
        self.was_challenged = bool(self._challenge)
        return _refusal(request, 401, self._challenge)

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        address = str(request.url)
        _check_address(address, self._url)
        url = parse_url(address)
        if url.origin not in self._inner:
            self._inner[url.origin] = http_transport(url, self._env)
        response = await self._inner[url.origin].handle_async_request(request)
        await refuse_packed(response)
        response.stream = CappedStream(cast("httpx2.AsyncByteStream", response.stream), MOST_ANSWER_BYTES)
        return response

    async def aclose(self) -> None:
        for transport in self._inner.values():
            await transport.aclose()


def _refusal(request: httpx2.Request, status: int, challenge: str) -> httpx2.Response:
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    return httpx2.Response(status, headers=headers, request=request)


def _client(transport: _LoginTransport) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=transport, headers=UNPACKED, timeout=httpx2.Timeout(_TIMEOUT_S), trust_env=False
    )


def _probe(definition: ServerDefinition) -> httpx2.Request:
    """What a session would send first."""
    headers = {**definition.headers, "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}
    if definition.transport == "sse":
        return httpx2.Request("GET", definition.url, headers={**headers, "Accept": "text/event-stream"})
    headers["Accept"] = "application/json, text/event-stream"
    return httpx2.Request("POST", definition.url, headers=headers, json=_PROBE)


def _check_address(address: str, server: str) -> None:
    """Raises `LoginFailed` for one that a server elsewhere has no business with."""
    try:
        url = parse_url(address)
    except ValueError as problem:
        raise LoginFailed(f"it leads to an address that means nothing: {problem}") from None
    if not is_safe_address(address):
        raise LoginFailed(f"it leads to {url.origin}, and tokens travel over https only")
    if not is_loopback(parse_url(server).host) and _is_of_this_machine(url.host):
        raise LoginFailed(f"it leads to {url.origin}, which is this machine and not the server's")


def _is_of_this_machine(host: str) -> bool:
    """By its spelling alone: this machine, or what only this machine can reach."""
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified


def _granted(login: _Login, storage: _Storage, redirect_uri: str) -> Granted:
    context, tokens = login.context, storage.tokens
    metadata, info = context.oauth_metadata, context.client_info
    if tokens is None or info is None:
        raise LoginFailed("no token was given")
    origin = context.get_authorization_base_url(context.server_url)
    token_url = str(metadata.token_endpoint) if metadata is not None else urljoin(origin, "/token")
    proof = info.token_endpoint_auth_method if info.client_secret else "none"
    names_resource = context.should_include_resource_param(context.protocol_version)
    return Granted(
        registration=ClientRegistration(
            issuer=str(metadata.issuer) if metadata is not None else origin,
            token_url=token_url,
            client_id=info.client_id,
            client_secret=info.client_secret or "",
            proof=proof if proof in ("client_secret_basic", "client_secret_post") else "none",
            resource=context.get_resource_url() if names_resource else "",
            scope=tokens.scope or "",
            redirect_uri=redirect_uri,
        ),
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token,
        lasts_s=tokens.expires_in,
    )
