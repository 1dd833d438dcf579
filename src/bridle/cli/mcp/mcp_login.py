"""`bridle mcp login` and `logout`: sign in at a remote server."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

from bridle.base.clock import SystemClock
from bridle.base.net.http_dial import TimeLimit
from bridle.base.net.http_routes import parse_url
from bridle.base.process.installation import install_command
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.accounts.login_account import LoginDesk, pasted_line
from bridle.cli.console import say, tell, tolerate_characters
from bridle.cli.mcp.mcp_servers import FolderServers, ServerRow, folder_servers
from bridle.cli.mcp.mcp_trial import launched_server, tried_server
from bridle.cli.stdin import hidden_line
from bridle.cli.verbs.rows import Args, Env
from bridle.config.problems import shown
from bridle.credentials.callback import CallbackListener
from bridle.credentials.oauth import SignInRefused, clause, seconds_of
from bridle.credentials.records import SignIn
from bridle.credentials.sign_in import BROWSER_S, brought_by_browser
from bridle.mcp.server_definitions import (
    ServerDefinition,
    is_client_document,
    launch_hash,
)
from bridle.mcp.server_tokens import PREFIX, SignInMarks, is_safe_address, sign_in_name, takes_tokens
from bridle.protocol.errors import BridleError, CredentialError, UsageError

if TYPE_CHECKING:
    from bridle.base.net.oauth_registration import ClientRegistration
    from bridle.mcp.server_login import ClientIdentity, Granted, PersonAtBrowser

EXIT_FAILED = 1


def mcp_login(parsed: Args, env: Env) -> int:
    tolerate_characters()
    desk = LoginDesk(parsed, env)
    if parsed.action == "logout":
        return _logout(desk, parsed.name)
    here = folder_servers(parsed, env)
    row = here.row(parsed.name, env)
    written = _used(here, row)
    definition = _signable(written, asyncio.run(launched_server(written, desk.env, desk.stored)))
    marks, launch = SignInMarks(here.where.state), launch_hash(written, here.cwd)
    stored_as = sign_in_name(written, definition)
    stored = asyncio.run(_signed_in(desk, definition, stored_as, parsed, marks.read(launch) or ""))
    desk.stored.store.put(stored)
    name = visible_line(row.name)
    if parsed.no_check:
        marks.drop(launch)
        return say(f"Signed in: {name}.\n")
    found = tried_server(parsed, here, row, env)
    if isinstance(found, int):
        return found
    if not found.ok:
        tell(visible_line(f"Signed in: {row.name}. But it cannot be used: {found.problem}"))
        return EXIT_FAILED
    return say(f"Signed in: {name}. It offers {counted(len(found.tools), 'tool')}.\n")


def _used(here: FolderServers, row: ServerRow) -> ServerDefinition:
    """The server as it is written, where it is used. Raises `UsageError`."""
    name = visible_line(row.name)
    if row.state != "used":
        raise UsageError(f'MCP server "{name}" is not used ({row.state}). See: bridle mcp show {name}')
    return here.definition(row.name)


def _signable(written: ServerDefinition, definition: ServerDefinition) -> ServerDefinition:
    """The server, where it can be signed in at. Raises `UsageError`."""
    name = visible_line(written.name)
    if definition.transport == "stdio":
        raise UsageError(f'MCP server "{name}" is started here, so there is nowhere to sign in')
    if not is_safe_address(definition.url):
        raise UsageError(
            f'MCP server "{name}" is not reached over https, and tokens travel over nothing else'
        )
    if not takes_tokens(definition):
        raise UsageError(f'MCP server "{name}" has an Authorization header already. Take one of the two')
    return definition


async def _signed_in(
    desk: LoginDesk,
    definition: ServerDefinition,
    stored_as: str,
    parsed: Args,
    challenge: str,
) -> SignIn:
    """The tokens of a sign-in that a person has just made. Raises `BridleError`."""
    try:
        from bridle.mcp.server_login import LoginFailed, sign_in
    except ImportError:
        raise BridleError(
            "ExtraMissing", what="Signing in at MCP servers", install=install_command("mcp")
        ) from None
    before = None if desk.stored.is_empty else desk.stored.store.get(stored_as)
    known = before.registration if isinstance(before, SignIn) else None
    identity = _identity(desk, definition, parsed, known)
    async with await _listening(definition, known) as callback:
        try:
            person = _at_browser(desk, definition, parsed, callback)
            granted = await sign_in(
                definition,
                desk.env,
                identity=identity,
                known=known,
                challenge=challenge,
                redirect_uri=callback.uri,
                person=person,
                person_s=BROWSER_S,
            )
        except LoginFailed as problem:
            raise CredentialError(
                "SignInFailed", provider=definition.name, problem=clause(str(problem), 400)
            ) from None
    return _record(definition.name, stored_as, granted)


def _at_browser(
    desk: LoginDesk, definition: ServerDefinition, parsed: Args, callback: CallbackListener
) -> PersonAtBrowser:
    from bridle.mcp.server_login import LoginFailed, PersonAtBrowser

    can_paste = sys.stdin.isatty() and not parsed.secret
    origin = parse_url(definition.url).origin

    def show(address: str, state: str) -> None:
        callback.expect(state)
        place = f"{visible_line(definition.name)} ({origin})"
        desk.show_page(place, address, opens=not parsed.no_open, can_paste=can_paste)

    async def brought() -> tuple[str, str | None]:
        try:
            async with TimeLimit(SystemClock(), BROWSER_S):
                return await brought_by_browser(callback, pasted_line if can_paste else None)
        except SignInRefused as refusal:
            raise LoginFailed(refusal.clause) from None
        except TimeoutError:
            raise LoginFailed(
                f"nothing came back from the browser within {BROWSER_S / 60:.0f} minutes"
            ) from None

    return PersonAtBrowser(show, brought)


def _identity(
    desk: LoginDesk,
    definition: ServerDefinition,
    parsed: Args,
    known: ClientRegistration | None,
) -> ClientIdentity:
    """Who Bridle is there, as settings say. A secret comes from its variable, from the person, or from before."""
    from bridle.mcp.server_login import ClientIdentity

    document = definition.client_document_url or desk.tiers.get("mcp.client_document_url") or ""
    if document and not is_client_document(document):
        raise UsageError("mcp.client_document_url is no https address with a path")
    client_id = definition.oauth_client_id
    if parsed.secret and not client_id:
        raise UsageError(
            f"The secret belongs to a client: set mcp_servers.{shown(definition.name)}.oauth_client_id first"
        )
    secret = ""
    if parsed.secret:
        asked = (
            hidden_line("Secret of the client (hidden) › ") if sys.stdin.isatty() else sys.stdin.readline()
        )
        secret = asked.strip()
    elif definition.oauth_secret_env:
        secret = desk.env.get(definition.oauth_secret_env, "")
        if not secret:
            raise UsageError(
                f"{definition.oauth_secret_env} is not set: it is to hold the secret of the client"
            )
    elif known is not None and client_id and known.client_id == client_id:
        secret = known.client_secret
    return ClientIdentity(document_url=document, client_id=client_id, client_secret=secret)


async def _listening(definition: ServerDefinition, known: ClientRegistration | None) -> CallbackListener:
    """Where the browser comes back to: where it came back to before, if that is free, for a server may insist on it."""
    if definition.oauth_redirect_uri or known is None or not known.redirect_uri:
        return CallbackListener(redirect_uri=definition.oauth_redirect_uri)
    again = CallbackListener(redirect_uri=known.redirect_uri)
    return again if await again.is_free() else CallbackListener()


def _record(server: str, stored_as: str, granted: Granted) -> SignIn:
    if not re.fullmatch(r"[\x21-\x7e]{1,100000}", granted.access_token):
        problem = "its token cannot be sent"
        raise CredentialError("SignInFailed", provider=server, problem=problem)
    now_ms, lasts_s = SystemClock().now_ms(), seconds_of(granted.lasts_s)
    return SignIn(
        provider=stored_as,
        access_token=granted.access_token,
        refresh_token=granted.refresh_token,
        expires_at_ms=None if lasts_s is None else now_ms + lasts_s * 1000,
        saved_ms=now_ms,
        registration=granted.registration,
    )


def _logout(desk: LoginDesk, name: str) -> int:
    """Forgets every sign-in of that name, at whatever address."""
    stored = desk.stored
    found = [one for one in sorted(stored.providers()) if one.startswith(f"{PREFIX}{name}@")]
    gone = [one for one in found if stored.store.delete(one)]
    if not gone:
        raise UsageError(f'Nobody is signed in at "{shown(name)}". What is stored: bridle login --list')
    for one in gone:
        say(visible_line(f"Forgotten: {one.removeprefix(PREFIX)}.") + "\n")
    return 0
