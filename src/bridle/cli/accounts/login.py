"""`bridle login` and `logout`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence

from bridle.app.user.model_setup import connectable, listed_entries
from bridle.base.text.terminal_text import visible
from bridle.cli.accounts import login_store
from bridle.cli.accounts.connect_provider import chosen_provider, listed_with, pasted_key
from bridle.cli.accounts.first_run import pick
from bridle.cli.accounts.login_account import sign_in
from bridle.cli.accounts.login_desk import LoginDesk
from bridle.cli.console import say, tell, tolerate_characters
from bridle.cli.stdin import typed_line
from bridle.config.settings_writer import set_value
from bridle.credentials.records import Credential
from bridle.protocol.errors import BridleError, UsageError
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_listing import ModelInfo

EXIT_CREDENTIALS = 4


def login(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    tolerate_characters()
    desk = LoginDesk(parsed, env)
    if parsed.list:
        return login_store.list_stored(desk, as_json=parsed.json)
    if parsed.check:
        return asyncio.run(login_store.check_stored(desk, parsed.provider, as_json=parsed.json))
    if parsed.export is not None:
        return login_store.export_stored(desk, parsed.export)
    if parsed.import_file is not None:
        return login_store.import_stored(desk, parsed.import_file)
    if parsed.lock is not None:
        return login_store.lock_stored(desk, parsed.lock)
    endpoint = desk.endpoint(parsed.provider or _chosen(desk))
    return asyncio.run(_connect(desk, endpoint, parsed))


def logout(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    desk = LoginDesk(parsed, env)
    stored = desk.stored
    if parsed.all:
        names = sorted(stored.providers())
    elif parsed.provider:
        names = [parsed.provider]
    else:
        raise UsageError(
            "Of which provider? bridle logout PROVIDER; bridle login --list shows what is stored"
        )
    gone = [name for name in names if not stored.is_empty and stored.store.delete(name)]
    if parsed.provider and not gone:
        raise UsageError(
            f"Nothing is stored for {visible(parsed.provider, newlines=False)}. What is: bridle login --list"
        )
    if not gone:
        say("Nothing is stored.\n")
    for name in gone:
        variable = desk.key_variable(name)
        still = f" {variable} is still set." if variable and env.get(variable) else ""
        say(f"Forgotten: {visible(name, newlines=False)}.{still}\n")
    return 0


async def _connect(desk: LoginDesk, endpoint: Endpoint, parsed: argparse.Namespace) -> int:
    oauth = desk.oauth(endpoint.name)
    try:
        credential: Credential
        if oauth is not None and not (parsed.key or parsed.stdin):
            credential = await sign_in(desk, endpoint, oauth, parsed)
        elif parsed.device or parsed.browser:
            raise UsageError(
                f"{endpoint.name} has no account to sign in with: set providers.{endpoint.name}.oauth, or paste a key"
            )
        else:
            credential = pasted_key(endpoint, account=parsed.account or "")
        listed: Sequence[ModelInfo] = ()
        if not parsed.no_check:
            try:
                listed = await listed_with(desk.models, endpoint, credential)
            except BridleError as failure:
                return _refused(endpoint, failure)
        desk.stored.store.put(credential)
        return _stored(desk, endpoint, listed)
    finally:
        await desk.models.close()


def _refused(endpoint: Endpoint, failure: BridleError) -> int:
    if failure.reason == "BadCredentials":
        tell(f"{endpoint.name} refused it ({failure.data.get('status')}). Nothing was stored.")
        return EXIT_CREDENTIALS
    tell(visible(failure.message))
    tell(
        f"It could not be checked, and nothing was stored. Unchecked: bridle login {endpoint.name} --no-check"
    )
    return failure.exit_code


def _stored(desk: LoginDesk, endpoint: Endpoint, listed: Sequence[ModelInfo]) -> int:
    if endpoint.key_env and desk.env.get(endpoint.key_env, "").strip():
        tell(f"{endpoint.key_env} is set and goes before what is stored.")
    if desk.tiers.get("model") or not desk.is_terminal or not listed:
        return say(f"Stored. Its models: bridle models {endpoint.name}\n")
    say("Stored.\n")
    try:
        entries = tuple(listed_entries(desk.models, endpoint.name, listed))
        model = pick(endpoint.name, entries, typed_line, _say_line)
    except EOFError:
        model = None
    if model is None:
        return 0
    set_value(desk.where, "model", model.model)
    return say(f"Default model: {visible(model.model, newlines=False)}. Change it with /model.\n")


def _chosen(desk: LoginDesk) -> str:
    if not desk.is_terminal:
        raise UsageError("Which provider? bridle login PROVIDER; bridle models lists them")
    try:
        chosen = chosen_provider(connectable(desk.models), desk.env, typed_line, _say_line)
    except EOFError:
        chosen = None
    if chosen is None:
        raise UsageError("No provider was chosen; nothing was stored")
    return chosen


def _say_line(line: str) -> None:
    say(f"{line}\n")
