"""Signing in at servers that lie about where: which addresses are gone to, how much is read, what is believed."""

import gzip
import itertools
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from bridle.base.net.oauth_registration import ClientRegistration
from bridle.mcp.server_definitions import decode_server
from bridle.mcp.server_login import ClientIdentity, LoginFailed, PersonAtBrowser, sign_in
from mcp_sign_in_kit import as_json, guarded
from tables import table

REDIRECT = "http://127.0.0.1:1/callback"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
AUTHORIZATION = "/.well-known/oauth-authorization-server"


class Person:
    """Agrees to everything, in a browser that is asked where it was sent to."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, address: str, state: str) -> None:
        assert parse_qs(urlsplit(address).query)["state"] == [state]
        self.shown.append(address)

    async def brought(self) -> tuple[str, str | None]:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            page = await browser.get(self.shown[-1])
        back = parse_qs(urlsplit(page.headers["location"]).query)
        return back["code"][0], back.get("iss", [None])[0]


async def login(url: str, person: Person | None = None, *, known=None, identity=None, challenge=""):
    person = person or Person()
    return await sign_in(
        decode_server("far", {"url": url}, part="far"),
        {},
        identity=identity or ClientIdentity(),
        known=known,
        challenge=challenge,
        redirect_uri=REDIRECT,
        person=PersonAtBrowser(person.show, person.brought),
        person_s=30,
    )


async def problem_of(url: str, **more) -> str:
    with pytest.raises(LoginFailed) as failure:
        await login(url, **more)
    return str(failure.value)


async def test_what_is_left_behind_says_who_gave_it_and_where_to_renew_it():
    async with guarded() as app:
        granted = await login(app.url)
    assert granted.registration == ClientRegistration(
        issuer=app.origin,
        token_url=f"{app.origin}/token",
        client_id=app.clients[0],
        resource=app.url,
        redirect_uri=REDIRECT,
    )
    assert granted.access_token in app.access
    assert granted.refresh_token in app.renewing
    assert granted.access_token not in repr(granted)
    (path, asked), *_ = app.seen
    assert (path, asked["application_type"], asked["redirect_uris"]) == ("/register", "native", [REDIRECT])


@table(
    "wrong",
    [
        {"token_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://tokens.example/token"},
        {"authorization_endpoint": "http://pages.example/authorize"},
        {"registration_endpoint": "http://register.example/"},
        {"issuer": "https://another.example"},
    ],
)
async def test_metadata_that_leads_somewhere_unsafe_or_names_another_issuer_ends_it(wrong):
    async with guarded(metadata=wrong) as app:
        person = Person()
        with pytest.raises(LoginFailed):
            await login(app.url, person)
        assert not app.access, "no token was given"
        assert all(urlsplit(address).hostname == "127.0.0.1" for address in person.shown)


async def test_a_server_elsewhere_has_no_business_with_this_machine():
    async with guarded() as app:
        known = ClientRegistration(
            issuer="https://auth.example",
            token_url="https://auth.example/token",
            client_id="c",
            challenge=f'Bearer error="insufficient_scope", resource_metadata="{app.origin}{RESOURCE}"',
        )
        problem = await problem_of("https://far.example/mcp", known=known)
        assert "this machine" in problem
        for host in ("169.254.169.254", "[::1]", "0.0.0.0"):
            challenge = f'Bearer error="insufficient_scope", resource_metadata="https://{host}/x"'
            lying = ClientRegistration(issuer="i", token_url="t", client_id="c", challenge=challenge)
            assert "this machine" in await problem_of("https://far.example/mcp", known=lying)
        assert not app.seen


async def test_a_redirect_to_another_place_is_not_followed():
    async with guarded() as app, guarded() as other:
        app.answers[RESOURCE] = (302, {"location": f"{other.origin}{RESOURCE}"}, b"")
        app.answers["/.well-known/oauth-protected-resource"] = app.answers[RESOURCE]
        app.answers[AUTHORIZATION] = (307, {"location": f"{other.origin}{AUTHORIZATION}"}, b"")
        app.answers["/register"] = (308, {"location": f"{other.origin}/register"}, b"")
        await problem_of(app.url)
        assert not other.seen
        assert not other.bearers


async def test_redirects_without_end_come_to_an_end():
    async with guarded() as app:
        asked = itertools.count()

        class Counting(dict):
            def __getitem__(self, path):
                next(asked)
                return 307, {"location": path}, b""

            def __contains__(self, path):
                return path.startswith("/.well-known") or path == "/register"

        app.answers = Counting()
        await problem_of(app.url)
        assert next(asked) < 60


@table("kind", ["application/json", "text/event-stream"])
@table("path", [RESOURCE, AUTHORIZATION, "/register", "/token"])
async def test_an_answer_without_end_is_not_read_to_it(path, kind):
    async with guarded() as app:
        app.answers[path] = (200, {"content-type": kind}, itertools.repeat(b" " * 65536, 100))
        assert "more than 262144 bytes" in await problem_of(app.url)


@table(
    "body", ['{{"access_token": "{}"', '{{"access_token": "{}", "expires_in": "soon"}}', '{{"other": "{}"}}']
)
async def test_what_an_answer_that_means_nothing_holds_is_in_no_error(body):
    token = "at-" + "q7w8" * 6
    async with guarded() as app:
        app.answers["/token"] = (200, {"content-type": "application/json"}, body.format(token).encode())
        problem = await problem_of(app.url)
    assert problem == "Invalid token response: it is not what the protocol says"


@table("path", [RESOURCE, "/token"])
async def test_an_answer_that_grows_when_it_is_unpacked_is_not_unpacked(path):
    small = gzip.compress(b" " * 50_000_000)
    async with guarded() as app:
        app.answers[path] = (200, {"content-type": "application/json", "content-encoding": "gzip"}, small)
        assert "it is packed (gzip)" in await problem_of(app.url)


async def test_a_refusal_without_end_is_not_read_either():
    async with guarded() as app:
        app.answers["/mcp"] = (
            401,
            {"content-type": "text/event-stream"},
            itertools.repeat(b" " * 65536, 100),
        )
        with pytest.raises(LoginFailed):
            await login(app.url)


@table("returned", [{"iss": "https://another.example"}, {"iss": None}])
async def test_a_code_that_another_issuer_gave_is_not_exchanged(returned):
    async with guarded(returned=returned) as app:
        assert "iss" in await problem_of(app.url)
        assert not app.token_forms


async def test_credentials_of_one_issuer_are_never_shown_to_the_next():
    async with guarded() as app, guarded() as other:
        before = (await login(app.url)).registration
        app.issuer = other.origin
        app.access = other.access  # it takes the tokens of the new one
        after = (await login(app.url, known=before)).registration
    assert (before.issuer, after.issuer) == (app.origin, other.origin)
    assert after.client_id == other.clients[0]
    assert before.client_id not in repr(other.seen)


async def test_a_registration_is_used_again_where_the_browser_comes_back_to_the_same_place():
    async with guarded() as app:
        before = (await login(app.url)).registration
        again = (await login(app.url, known=before)).registration
    assert again.client_id == before.client_id
    assert len(app.clients) == 1


async def test_a_client_of_the_settings_proves_itself_and_is_not_made_up_anew_elsewhere():
    secret = "own-" + "secret"
    identity = ClientIdentity(client_id="mine", client_secret=secret)
    async with guarded() as app, guarded() as other:
        before = (await login(app.url, identity=identity)).registration
        app.issuer = other.origin
        problem = await problem_of(app.url, identity=identity, known=before)
    assert (before.client_id, before.proof) == ("mine", "client_secret_basic")
    assert not app.clients
    assert "oauth_client_id is not known" in problem
    assert secret not in repr(other.seen)
    assert "'mine'" not in repr(other.seen)


async def test_a_document_goes_before_a_client_where_the_server_takes_one():
    document = "https://bridle.example/client.json"
    identity = ClientIdentity(document_url=document, client_id="mine")
    async with guarded(metadata={"client_id_metadata_document_supported": True}) as app:
        taken = (await login(app.url, identity=identity)).registration
    async with guarded() as app:
        fallen_back = (await login(app.url, identity=identity)).registration
    assert (taken.client_id, fallen_back.client_id) == (document, "mine")


async def test_more_is_asked_for_beside_what_was_granted_where_the_server_wants_more():
    async with guarded(resource={"scopes_supported": ["read"]}) as app:
        before = (await login(app.url)).registration
        wants = 'Bearer error="insufficient_scope", scope="write"'
        known = ClientRegistration(**{**_fields(before), "challenge": wants})
        after = (await login(app.url, known=known)).registration
    assert (before.scope, after.scope, after.challenge) == ("read", "read write", "")


def _fields(struct) -> dict:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


async def test_a_server_that_refuses_only_some_requests_is_signed_in_at_by_what_it_said():
    async with guarded() as app:
        app.answers["/mcp"] = as_json(200, {})
        challenge = f'Bearer scope="marks", resource_metadata="{app.origin}{RESOURCE}"'
        granted = await login(app.url, challenge=challenge)
    assert granted.registration.scope == "marks"


async def test_a_server_that_asks_for_nothing_and_offers_nothing_is_said_to():
    async with guarded() as app:
        missing = as_json(404, {})
        app.answers.update(dict.fromkeys(("/mcp", RESOURCE, AUTHORIZATION, "/register"), missing))
        app.answers["/.well-known/oauth-protected-resource"] = missing
        assert (await problem_of(app.url)).startswith("it asks for no sign-in")
