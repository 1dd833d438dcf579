"""An MCP server that lets in whoever has a token, and the authorization server that gives them, on this machine."""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.net.oauth_registration import ClientRegistration
from bridle.config.folders import folders
from bridle.credentials.records import SignIn

OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)
BROWSER = str(Path(__file__).with_name("agreeing_browser.py"))


class GuardedServer:
    """Both on one port, as one ASGI application. `seen` is every request to the authorization server, as (path, form).

    `metadata` and `resource` change what the two say of themselves; `answers` replaces what a path answers, with
    (status, headers, body). `issuer` names another authorization server. `open_to` are methods that need no token.
    """

    def __init__(self, kind="http") -> None:
        self.calls: list[str] = []
        self.access: set[str] = set()
        self.renewing: set[str] = set()
        self.codes: dict[str, dict] = {}
        self.clients: list[str] = []
        self.seen: list[tuple[str, dict]] = []
        self.bearers: list[str] = []
        self.metadata: dict = {}
        self.resource: dict = {}
        self.answers: dict[str, tuple] = {}
        self.issuer = ""
        self.origin = ""
        self.lasts_s = 3600
        self.challenge = ""
        self.returned: dict = {}
        self.wanted_scope = ""
        server = MCPServer("guarded")

        @server.tool()
        def mark(word: str) -> str:
            """Marks."""
            self.calls.append(word)
            return f"marked {word}"

        make = server.streamable_http_app if kind == "http" else server.sse_app
        self._inner = make(transport_security=OPEN)
        self.path = "/mcp" if kind == "http" else "/sse"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"

    def grant(self, **more) -> dict:
        """New tokens, as an answer has them."""
        access, renewing = "access-" + os.urandom(12).hex(), "renew-" + os.urandom(12).hex()
        self.access.add(access)
        self.renewing.add(renewing)
        return {
            "access_token": access,
            "token_type": "Bearer",
            "refresh_token": renewing,
            "expires_in": self.lasts_s,
            **more,
        }

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        path = scope["path"]
        if path in self.answers:
            await answer(send, *self.answers[path])
        elif path.startswith((self.path, "/messages")):
            await self._guarded(scope, receive, send)
        else:
            await answer(send, *self._authorization(path, scope, await body_of(receive)))

    async def _guarded(self, scope, receive, send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        token = headers.get("authorization", "").removeprefix("Bearer ")
        self.bearers.append(token)
        if token not in self.access:
            where = f"{self.origin}/.well-known/oauth-protected-resource{self.path}"
            said = self.challenge or f'Bearer resource_metadata="{where}"'
            await answer(send, 401, {"www-authenticate": said}, b'{"error":"invalid_token"}')
        elif self.wanted_scope and headers.get("mcp-method") == "tools/call":
            said = f'Bearer error="insufficient_scope", scope="{self.wanted_scope}"'
            await answer(send, 403, {"www-authenticate": said}, b"{}")
        else:
            await self._inner(scope, receive, send)

    def _authorization(self, path: str, scope, body: bytes) -> tuple:
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        if path.startswith("/.well-known/oauth-protected-resource"):
            issuer = self.issuer or self.origin
            return as_json(200, {"resource": self.url, "authorization_servers": [issuer], **self.resource})
        match path:
            case "/.well-known/oauth-authorization-server":
                return as_json(
                    200,
                    {
                        "issuer": self.origin,
                        "authorization_endpoint": f"{self.origin}/authorize",
                        "token_endpoint": f"{self.origin}/token",
                        "registration_endpoint": f"{self.origin}/register",
                        "authorization_response_iss_parameter_supported": True,
                        "code_challenge_methods_supported": ["S256"],
                        **self.metadata,
                    },
                )
            case "/register":
                given = json.loads(body)
                self.seen.append((path, given))
                self.clients.append("client-" + os.urandom(6).hex())
                return as_json(201, {**given, "client_id": self.clients[-1]})
            case "/authorize":
                self.seen.append((path, query))
                code = os.urandom(12).hex()
                self.codes[code] = query
                back = {"code": code, "state": query["state"], "iss": self.origin, **self.returned}
                back = {name: value for name, value in back.items() if value is not None}
                return 302, {"location": f"{query['redirect_uri']}?{urlencode(back)}"}, b""
            case "/token":
                form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
                self.seen.append((path, form))
                return self._token(form)
            case _:
                return as_json(404, {"error": "not_found"})

    def _token(self, form: dict) -> tuple:
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.renewing:
                return as_json(400, {"error": "invalid_grant"})
            self.renewing.discard(form["refresh_token"])
            return as_json(200, self.grant())
        began = self.codes.pop(form["code"], None)
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proven = began and base64.urlsafe_b64encode(proof).rstrip(b"=").decode() == began["code_challenge"]
        if not proven or began["redirect_uri"] != form["redirect_uri"]:
            return as_json(400, {"error": "invalid_grant"})
        granted = {"scope": began["scope"]} if "scope" in began else {}
        return as_json(200, self.grant(**granted))

    @property
    def token_forms(self) -> list[dict]:
        return [form for path, form in self.seen if path == "/token"]


async def body_of(receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def as_json(status: int, data: dict) -> tuple:
    return status, {"content-type": "application/json"}, json.dumps(data).encode()


async def answer(send, status: int, headers: dict, body) -> None:
    """`body` is bytes, or many of them."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return
    with contextlib.suppress(Exception):
        for piece in body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})


@contextlib.asynccontextmanager
async def guarded(kind="http", **changes):
    """Such a server, while entered."""
    app = GuardedServer(kind)
    for name, value in changes.items():
        setattr(app, name, value)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="on")
    )
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    app.origin = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield app
    finally:
        server.should_exit = server.force_exit = True
        await running


def stored_keys(env: dict) -> StoredKeys:
    """Where a caller with this environment keeps credentials."""
    return StoredKeys(where=folders(env), env=env, clock=SystemClock())


def sign_in(env: dict, app: GuardedServer, name="far", *, ends_in_s: float = 3600, stored_as="") -> SignIn:
    """What `bridle mcp login` in another terminal leaves behind."""
    tokens, now_ms = app.grant(), SystemClock().now_ms()
    record = SignIn(
        provider=stored_as or f"mcp:{name}@{app.url}",
        access_token=tokens["access_token"],
        refresh_token=tokens["refresh_token"],
        expires_at_ms=now_ms + int(ends_in_s * 1000),
        saved_ms=now_ms,
        registration=ClientRegistration(
            issuer=app.origin, token_url=f"{app.origin}/token", client_id="known", resource=app.url
        ),
    )
    stored_keys(env).store.put(record)
    return record


def signed_in(env: dict, app: GuardedServer, name="far") -> SignIn | None:
    found = None if stored_keys(env).is_empty else stored_keys(env).store.get(f"mcp:{name}@{app.url}")
    assert found is None or isinstance(found, SignIn)
    return found
