"""`bridle mcp login` and `logout` as people type them, against servers on this machine."""

import asyncio
import json
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from cli.test_mcp_verbs import of_project, own
from cli_kit import Place, Ran
from mcp_sign_in_kit import BROWSER, GuardedServer, guarded, signed_in

MARK = ("--call", "mark", "--arguments", '{"word": "a"}')


async def bridle(place: Place, *words: str, stdin: str = "", **env: str) -> Ran:
    return await asyncio.to_thread(place.bridle, *words, stdin=stdin, env=env)


async def login(place: Place, *words: str, **more: str) -> Ran:
    return await bridle(place, "mcp", "login", "far", *words, BROWSER=BROWSER, **more)


def far(place: Place, app: GuardedServer, **more: object) -> None:
    own(place, {"far": {"url": app.url, **more}})


def nowhere(place: Place, secrets: set[str], *texts: str) -> None:
    """The secrets stand in no text, and in no file below the home."""
    assert not [secret for secret in secrets for text in texts if secret in text]
    for path in place.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in data], path


async def test_a_person_signs_in_uses_the_server_signs_in_again_and_is_forgotten(place: Place) -> None:
    async with guarded() as app:
        far(place, app)
        before = await bridle(place, "mcp", "test", "far")
        listed = await bridle(place, "mcp", "list")
        first = await login(place)
        used = await bridle(place, "mcp", "test", "far", *MARK)
        again = await login(place, "--no-check")
        kept = signed_in(place.environment(), app)
        gone = await bridle(place, "mcp", "logout", "far")
        nobody = await bridle(place, "mcp", "logout", "far")
    assert (before.code, before.err) == (
        4,
        'bridle: MCP server "far" needs sign-in: bridle mcp login far\n',
    )
    assert "needs sign-in: bridle mcp login far" in listed.out
    assert (first.code, first.out.splitlines()[-1]) == (0, "Signed in: far. It offers 3 tools.")
    assert f"To sign in at far ({app.origin}), open this page:" in first.out
    assert used.code == 0, used.err
    assert "called      mark: marked a" in used.out
    assert app.calls == ["a"]
    assert (again.code, again.out.splitlines()[-1]) == (0, "Signed in: far.")
    assert len(app.clients) == 1, "it is registered once"
    assert kept is not None
    assert (gone.code, gone.out) == (0, f"Forgotten: far@{app.url}.\n")
    assert nobody.code == 2
    texts = [text for ran in (first, used, again, gone) for text in (ran.out, ran.err)]
    nowhere(place, app.access | app.renewing, *texts)


async def test_only_the_browser_of_this_sign_in_is_believed(place: Place) -> None:
    async with guarded() as app:
        far(place, app)

        def strange() -> tuple[list[int], Ran]:
            """Knocks at the address of the callback with everything but the right words, and then with those."""
            with place.started("mcp", "login", "far", "--no-open", "--no-check") as running:
                assert running.process.stdout is not None
                lines = iter(lambda: running.process.stdout.readline().decode(), "")
                address = next(line.strip() for line in lines if line.startswith("  http"))
                asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
                back = asked["redirect_uri"]
                wrong = [
                    (f"{back}?{urlencode({'code': 'x', 'state': 'made-up'})}", {}),
                    (f"{back}?{urlencode({'code': 'x'})}", {}),
                    (f"{back}?{urlencode({'code': 'x', 'state': asked['state']})}", {"Host": "evil.example"}),
                    (back.replace("/callback", "/elsewhere"), {}),
                ]
                codes = [status(*one) for one in wrong]
                status(address, {})
                return codes, running.end()

        codes, ran = await asyncio.to_thread(strange)
    assert codes == [400, 400, 400, 404]
    assert ran.code == 0, ran.err
    assert signed_in(place.environment(), app) is not None


def status(address: str, headers: dict) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(address, headers=headers), timeout=20) as page:
            return page.status
    except urllib.error.HTTPError as refusal:
        return refusal.code


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"returned": {"error": "access_denied", "code": None}}, "access_denied"),
        ({"returned": {"iss": "https://evil.example"}}, "iss mismatch"),
        ({"answers": {"/token": (400, {}, b'{"error":"invalid_grant"}')}}, "invalid_grant"),
    ],
)
async def test_a_sign_in_that_did_not_work_says_why_and_stores_nothing(
    place: Place, changes: dict, words: str
) -> None:
    async with guarded(**changes) as app:
        far(place, app)
        ran = await login(place)
        kept = signed_in(place.environment(), app)
    assert ran.code == 4
    assert ran.err.startswith("bridle: Signing in at far did not work: ")
    assert words in ran.err
    assert kept is None


async def test_the_secret_of_a_registered_client_comes_from_its_variable_or_the_person(place: Place) -> None:
    secret = "client-" + "secret-" + "words"
    async with guarded() as app:
        far(place, app, oauth_client_id="mine", oauth_secret_env="FAR_SECRET")
        missing = await login(place, "--no-check")
        by_variable = await login(place, "--no-check", FAR_SECRET=secret)
        kept = signed_in(place.environment(), app)
        far(place, app, oauth_client_id="other")
        typed = await bridle(
            place, "mcp", "login", "far", "--no-check", "--secret", stdin=f"{secret}\n", BROWSER=BROWSER
        )
    assert (missing.code, missing.err) == (
        2,
        "bridle: FAR_SECRET is not set: it is to hold the secret of the client\n",
    )
    assert by_variable.code == typed.code == 0, typed.err
    assert kept is not None
    assert kept.registration is not None
    assert (kept.registration.client_id, kept.registration.proof) == ("mine", "client_secret_basic")
    assert not app.clients, "nothing was registered"
    nowhere(place, {secret}, by_variable.out, by_variable.err, typed.out, typed.err)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"command": ["true"]}, "is started here, so there is nowhere to sign in"),
        ({"url": "http://far.example/mcp"}, "is not reached over https"),
        (
            {"url": "https://far.example/mcp", "headers": {"authorization": "x"}},
            "has an Authorization header already",
        ),
        ({"url": "https://far.example/mcp", "disabled": True}, "is not used (disabled)"),
    ],
)
def test_a_server_that_nobody_can_sign_in_at_says_why(place: Place, server: dict, words: str) -> None:
    own(place, {"far": server})
    ran = place.bridle("mcp", "login", "far")
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.requirement("H4.3")
@pytest.mark.parametrize(
    "line",
    [
        'oauth_client_id = "theirs"',
        'client_document_url = "https://evil.example/x"',
        'oauth_redirect_uri = "http://127.0.0.1:9/x"',
        "sampling = true",
    ],
)
def test_a_project_never_says_who_bridle_is_or_lets_a_server_have_the_model(place: Place, line: str) -> None:
    own(place, {"far": {"url": "https://far.example/mcp"}})
    of_project(place, f"[mcp_servers.far]\n{line}\n")
    from cli.test_mcp_verbs import agree

    agree(place, {"config"})
    ran = place.bridle("mcp", "list", "--json")
    (row,) = json.loads(ran.out)
    assert row["state"] == "wrong"
    assert "only a server that your own settings alone describe may have it" in row["why"]


def test_a_tool_is_tried_with_arguments_that_are_json(place: Place) -> None:
    own(place, {"far": {"url": "https://far.example/mcp"}})
    for words in (("--call", "x", "--arguments", "[1]"), ("--arguments", "{}"), ("--defaults",)):
        assert place.bridle("mcp", "test", "far", *words).code == 2
