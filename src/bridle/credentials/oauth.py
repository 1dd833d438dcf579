"""The messages of OAuth 2: what is sent to an authorization server, and what its answers mean. Pure but for `Post`.

Endpoints are data: a provider that people can sign in at has an `OAuthClient` in its settings, and no code.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import quote, urlencode

import msgspec

from bridle.base.net.http import HttpConnections, HttpFault, Timeouts
from bridle.base.net.http_routes import parse_url
from bridle.base.net.oauth_registration import ClientRegistration
from bridle.base.secrets.redact import redact_error
from bridle.base.text.terminal_text import visible
from bridle.credentials.records import SignIn
from bridle.protocol.errors import CredentialError

VERIFIER_BYTES = 48
"""64 characters: between the 43 and 128 that are allowed."""

_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def new_verifier(random: Callable[[int], bytes]) -> str:
    """A secret that only this sign-in knows."""
    return urlsafe(random(VERIFIER_BYTES))


def challenge_of(verifier: str) -> str:
    """What stands for the verifier in the address a browser is sent to. Raises ValueError for one that is none."""
    if not _VERIFIER.fullmatch(verifier):
        raise ValueError("a verifier has 43 to 128 of the characters A-Z a-z 0-9 - . _ ~")
    return urlsafe(hashlib.sha256(verifier.encode("ascii")).digest())


def urlsafe(data: bytes) -> str:
    """Base64 in the alphabet of addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


MAX_CLAUSE = 200
LONGEST_S = 10 * 365 * 86_400
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class FormAnswer(NamedTuple):
    status: int
    body: bytes


class Post(Protocol):
    async def __call__(
        self, address: str, form: Mapping[str, str], headers: Mapping[str, str] = {}, /
    ) -> FormAnswer:
        """Sends a form to an address. Raises `CredentialError("ProviderUnreachable")` when no whole answer came."""
        ...


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to sign in at a provider: as which program, at which addresses.

    With `authorize_url` in a browser, with `device_url` by a code typed on any device. `redirect_uri` is what was
    registered for the program, where the server insists on one; else any free port of this machine is taken.
    """

    client_id: str
    token_url: str
    authorize_url: str = ""
    device_url: str = ""
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()
    parameters: Mapping[str, str] = {}

    def form(self, **fields: str) -> dict[str, str]:
        """The fields of a request by this program; empty ones are left out."""
        return {name: value for name, value in {"client_id": self.client_id, **fields}.items() if value}


class SignInRefused(Exception):
    """The authorization server said no. `code` is its own word for why."""

    def __init__(self, code: str, words: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.words = words

    @property
    def clause(self) -> str:
        """Why, for a person: its code, and what else it said, without secrets."""
        return f"{self.code} ({self.words})" if self.words else self.code


def client_of(provider: str, settings: Mapping[str, Any]) -> OAuthClient:
    """The client of a provider's `oauth` section. Raises `CredentialError("BadConfig")`."""
    try:
        client = msgspec.convert(dict(settings), OAuthClient)
        for address in (client.token_url, client.authorize_url, client.device_url):
            _check_address(address)
        if client.redirect_uri and parse_url(client.redirect_uri).host not in LOOPBACK:
            raise ValueError("redirect_uri is not an address of this machine")
        if not client.authorize_url and not client.device_url:
            raise ValueError("it needs an authorize_url or a device_url")
    except (ValueError, msgspec.ValidationError) as problem:
        where = f"[providers.{provider}.oauth]"
        raise CredentialError("BadConfig", where=where, problem=visible(str(problem))) from None
    return client


def _check_address(address: str) -> None:
    if address:
        url = parse_url(address)
        if not url.secure and url.host not in LOOPBACK:
            raise ValueError("tokens travel over https only")


def authorization_url(client: OAuthClient, *, redirect_uri: str, state: str, challenge: str) -> str:
    fields = client.form(
        response_type="code",
        redirect_uri=redirect_uri,
        scope=" ".join(client.scopes),
        state=state,
        code_challenge=challenge,
        code_challenge_method="S256",
    )
    joint = "&" if "?" in client.authorize_url else "?"
    return f"{client.authorize_url}{joint}{urlencode({**client.parameters, **fields})}"


async def exchange_code(
    client: OAuthClient,
    post: Post,
    *,
    provider: str,
    code: str,
    verifier: str,
    redirect_uri: str,
    now_ms: int,
) -> SignIn:
    """Tokens for the code that the browser brought. Raises `SignInRefused`."""
    form = client.form(
        grant_type="authorization_code", code=code, code_verifier=verifier, redirect_uri=redirect_uri
    )
    return sign_in_of(await post(client.token_url, form), provider=provider, now_ms=now_ms)


async def refresh(client: OAuthClient, post: Post, before: SignIn, *, now_ms: int) -> SignIn:
    """New tokens for the old refresh token, which may be used up by it. Raises `SignInRefused`.

    A sign-in that has a registration is renewed as what was registered, wherever `client` leads.
    """
    if before.registration is not None:
        answer = await _renewed_as_registered(before.registration, post, before.refresh_token or "")
    else:
        form = client.form(grant_type="refresh_token", refresh_token=before.refresh_token or "")
        answer = await post(client.token_url, form)
    after = sign_in_of(answer, provider=before.provider, now_ms=now_ms)
    return msgspec.structs.replace(
        after,
        refresh_token=after.refresh_token or before.refresh_token,
        account=before.account,
        registration=before.registration,
    )


async def _renewed_as_registered(known: ClientRegistration, post: Post, refresh_token: str) -> FormAnswer:
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": known.client_id}
    if known.resource:
        form["resource"] = known.resource
    match known.proof:
        case "client_secret_basic":
            pair = f"{quote(known.client_id, safe='')}:{quote(known.client_secret, safe='')}"
            proof = base64.b64encode(pair.encode()).decode("ascii")
            return await post(known.token_url, form, {"authorization": f"Basic {proof}"})
        case "client_secret_post":
            return await post(known.token_url, {**form, "client_secret": known.client_secret})
        case "none":
            return await post(known.token_url, form)


def registered_client(known: ClientRegistration) -> OAuthClient:
    return OAuthClient(client_id=known.client_id, token_url=known.token_url)


def sign_in_of(answer: FormAnswer, *, provider: str, now_ms: int) -> SignIn:
    """The tokens in an answer. Raises `SignInRefused` when there are none."""
    found = fields_of(answer)
    token, kind = found.get("access_token"), found.get("token_type", "bearer")
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]{1,100000}", token):
        raise SignInRefused("its answer holds no token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise SignInRefused("its tokens are of a kind that Bridle cannot use")
    renewing = found.get("refresh_token")
    lasts_s = seconds_of(found.get("expires_in"))
    return SignIn(
        provider=provider,
        access_token=token,
        refresh_token=renewing if isinstance(renewing, str) and renewing else None,
        expires_at_ms=None if lasts_s is None else now_ms + lasts_s * 1000,
        saved_ms=now_ms,
    )


def fields_of(answer: FormAnswer) -> dict[str, Any]:
    """The JSON object of a good answer. Raises `SignInRefused` for any other, with the server's code if it has one."""
    try:
        decoded: Any = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        decoded = None
    found = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    code = found.get("error")
    if isinstance(code, str) and code:
        raise SignInRefused(clause(code, 60), clause(found.get("error_description")))
    if answer.status != 200 or not found:
        raise SignInRefused(
            f"it answered with status {answer.status}"
            if answer.status != 200
            else "its answer cannot be read"
        )
    return found


def seconds_of(value: object) -> int | None:
    """A span in whole seconds, as number or text; None for anything that is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value):
        value = int(value)
    if isinstance(value, (int, float)) and 0 < value <= LONGEST_S:
        return int(value) or None
    return None


def clause(value: object, most: int = MAX_CLAUSE) -> str:
    """Words of a server as part of a sentence: one line, visible, without secrets."""
    if not isinstance(value, str):
        return ""
    words = redact_error(visible(" ".join(value[: 4 * most].split()), newlines=False)).rstrip(".")
    return words if len(words) <= most else words[: most - 1] + "…"


MAX_ANSWER_BYTES = 256 * 1024


def form_post(connections: Callable[[], HttpConnections]) -> Post:
    """A `Post` over these connections. Redirects are not followed: a form with a secret goes where it was sent."""

    async def post(address: str, form: Mapping[str, str], more: Mapping[str, str] = {}, /) -> FormAnswer:
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json", **more}
        timeouts = Timeouts(connect_s=10, write_s=10, first_byte_s=30, idle_s=30)
        try:
            body = urlencode(form).encode()
            async with await connections().post_stream(
                address, headers=headers, body=body, timeouts=timeouts
            ) as response:
                return FormAnswer(response.status, await response.read(MAX_ANSWER_BYTES))
        except HttpFault as fault:
            raise CredentialError(
                "ProviderUnreachable", address=fault.origin, problem=fault.problem, hint=""
            ) from None

    return post
