"""An authorization server on loopback, as strict as the RFCs: single-use codes and refresh tokens, PKCE checked."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from bridle.conformance.servers import LoopbackServer, Received, ReplyWriter
from bridle.credentials.oauth import OAuthClient

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class AuthorizationServer(LoopbackServer):
    """`device_answers` are what the polls get, in order: an error's code, or None for the tokens."""

    def __init__(self, *, device_answers: list[str | None] | None = None, lasts_s: Any = 3600) -> None:
        super().__init__()
        self.device_answers = list(device_answers or [])
        self.device: dict[str, Any] = {}
        """What differs from the usual answer to the first request of a device."""
        self.lasts_s = lasts_s
        self.rotates = True
        self.denies = False
        self.access: set[str] = set()
        """Tokens that are good now."""
        self.renewing: set[str] = set()
        self.codes: dict[str, tuple[str, str]] = {}
        self.device_code = "device-" + os.urandom(8).hex()

    def client(self, **changes: Any) -> OAuthClient:
        fields = {
            "client_id": "bridle-test",
            "token_url": f"{self.origin}/token",
            "authorize_url": f"{self.origin}/authorize",
            "device_url": f"{self.origin}/device",
            "scopes": ("models", "offline"),
        }
        return OAuthClient(**{**fields, **changes})

    @property
    def forms(self) -> list[dict[str, str]]:
        return [form_of(request) for request in self.requests if request.method == "POST"]

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        path, _, query = request.path.partition("?")
        match (request.method, path):
            case ("GET", "/authorize"):
                return await reply.raw(302, {"location": self._authorized(query)}, b"")
            case ("POST", "/device"):
                assert form_of(request)["client_id"] == "bridle-test"
                begun = {
                    "device_code": self.device_code,
                    "user_code": "WDJB-MJHT",
                    "verification_uri": f"{self.origin}/activate",
                    "expires_in": 900,
                }
                return await reply.whole(200, {**begun, **self.device})
            case ("POST", "/token"):
                status, answer = self._token(form_of(request))
                return await reply.whole(status, answer)
            case _:
                return await reply.whole(404, {"error": "not_found"})

    def _authorized(self, query: str) -> str:
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        assert fields["response_type"] == "code"
        assert fields["code_challenge_method"] == "S256"
        state = {"state": fields["state"]}
        if self.denies:
            refusal = {"error": "access_denied", "error_description": "The person said no."}
            return f"{fields['redirect_uri']}?{urlencode({**refusal, **state})}"
        code = os.urandom(16).hex()
        self.codes[code] = (fields["code_challenge"], fields["redirect_uri"])
        return f"{fields['redirect_uri']}?{urlencode({'code': code, **state})}"

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        match form.get("grant_type"):
            case "authorization_code":
                challenge, redirect_uri = self.codes.pop(form.get("code", ""), ("", ""))
                proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                proven = base64.urlsafe_b64encode(proof).rstrip(b"=").decode() == challenge
                if not proven or form.get("redirect_uri") != redirect_uri:
                    return 400, {"error": "invalid_grant"}
                return 200, self._tokens()
            case "refresh_token":
                given = form.get("refresh_token", "")
                if given not in self.renewing:
                    return 400, {"error": "invalid_grant", "error_description": f"token={given} is not known"}
                if self.rotates:
                    self.renewing.discard(given)
                return 200, self._tokens()
            case grant if grant == DEVICE_GRANT:
                assert form["device_code"] == self.device_code
                answer = self.device_answers.pop(0) if self.device_answers else None
                return (400, {"error": answer}) if answer else (200, self._tokens())
            case _:
                return 400, {"error": "unsupported_grant_type"}

    def _tokens(self) -> dict[str, Any]:
        access, renewing = "access-" + os.urandom(12).hex(), "renew-" + os.urandom(12).hex()
        self.access.add(access)
        self.renewing.add(renewing)
        answer = {"access_token": access, "token_type": "Bearer", "refresh_token": renewing}
        if not self.rotates:
            del answer["refresh_token"]
        return {**answer, **({"expires_in": self.lasts_s} if self.lasts_s is not None else {})}


def form_of(request: Received) -> dict[str, str]:
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


def facts_of_call(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
