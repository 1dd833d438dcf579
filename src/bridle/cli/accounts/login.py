"""`bridle login` and `logout`: connect providers; list, check, export and lock stored credentials."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal

from bridle.app.user.model_setup import connectable, listed_entries
from bridle.app.user.setting_sections import TABLE
from bridle.app.user.stored_keys import StoredKeys, key_path
from bridle.base.clock import SystemClock
from bridle.base.fs import files
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.accounts.first_run import chosen_provider, listed_with, pasted_key, pick
from bridle.cli.accounts.login_account import LoginDesk, sign_in
from bridle.cli.console import aligned, say, say_json, say_line, say_lines, tell, tolerate_characters
from bridle.cli.stdin import hidden_line, new_passphrase, typed_line
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import Folders
from bridle.config.settings_writer import set_value
from bridle.credentials.encrypted import (
    MAX_BYTES,
    NONCE_BYTES,
    EncryptedStore,
    header_of,
    key_id,
    seal,
    unseal,
)
from bridle.credentials.locks import MACHINE_KEY, PASSPHRASE, LockKeys, LockKind, derived
from bridle.credentials.records import ApiKey, Credential, decoded, encoded
from bridle.protocol.errors import BridleError, CredentialError, UsageError
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_directory import LOGIN
from bridle.providers.model_listing import ModelInfo
from bridle.providers.remote import RemoteModel

SERVERS = "mcp:"
"""What the names of sign-ins at MCP servers begin with."""
LOCK_WORDS: dict[LockKind, str] = {
    "automatic": "locked with the key in {key_path}, which Bridle made by itself",
    "machine": f"locked with {MACHINE_KEY}",
    "passphrase": "locked with a passphrase",
}


def lock_words(kind: LockKind, key_path: str) -> str:
    return LOCK_WORDS[kind].format(key_path=key_path)


def list_stored(desk: LoginDesk, *, as_json: bool) -> int:
    stored = desk.stored
    kind = stored.encrypted.lock_kind() if stored.back_end == "encrypted" else None
    credentials = [] if stored.is_empty else stored.store.list()
    if as_json:
        rows = [_row(credential) for credential in credentials]
        return say_json({"credentials": rows, "store": stored.back_end, "lock": kind})
    if not credentials:
        return say("Nothing is stored. Connect a provider: bridle login\n")
    lines = aligned((credential.provider, _about(credential)) for credential in credentials)
    lock = "in the system keychain" if kind is None else lock_words(kind, key_path(desk.where))
    return say_lines([*lines, "", f"{lock[0].upper()}{lock[1:]}. Keys are never shown."])


def _row(credential: Credential) -> dict[str, Any]:
    row: dict[str, Any] = {
        "provider": credential.provider,
        "kind": "key" if isinstance(credential, ApiKey) else "account",
        "account": credential.account,
        "saved_ms": credential.saved_ms,
    }
    if not isinstance(credential, ApiKey):
        row |= {"expires_at_ms": credential.expires_at_ms, "renews": credential.refresh_token is not None}
    return row


def _about(credential: Credential) -> str:
    row = _row(credential)
    day = time.strftime("%Y-%m-%d", time.gmtime(credential.saved_ms / 1000)) if credential.saved_ms else ""
    facts = [f"{row['kind']:<7}", credential.account, f"stored {day}" if day else ""]
    if not isinstance(credential, ApiKey):
        now_ms = SystemClock().now_ms()
        ended = credential.expires_at_ms is not None and credential.expires_at_ms <= now_ms
        facts.append("renews by itself" if row["renews"] else "ended" if ended else "does not renew")
    return "   ".join(filter(None, facts)).rstrip()


async def check_stored(desk: LoginDesk, provider: str | None, *, as_json: bool) -> int:
    """Asks each provider for its list of models, which costs nothing. The exit code is that of the first failure.

    Sign-ins at MCP servers are looked at by `bridle mcp test`.
    """

    stored = await asyncio.to_thread(desk.stored.providers)
    names = sorted(name for name in stored if not name.startswith(SERVERS))
    if provider is not None and provider not in names:
        raise UsageError(f"Nothing is stored for {visible_line(provider)}. What is: bridle login --list")
    rows: list[dict[str, Any]] = []
    code = 0
    try:
        for name in [provider] if provider else names:
            try:
                listed = await _listed(desk, name)
                rows.append({"provider": name, "ok": True, "text": f"lists {counted(listed, 'model')}"})
            except BridleError as failure:
                rows.append({"provider": name, "ok": False, "text": failure.message})
                code = code or failure.exit_code
    finally:
        await desk.models.close()
    if as_json:
        return say_json({"credentials": rows}) or code
    if not rows:
        return say("Nothing is stored. Connect a provider: bridle login\n")
    marks = (("ok  " if row["ok"] else "fail", row["provider"], row["text"]) for row in rows)
    say_lines(aligned(marks, gap="  "))
    return code


async def _listed(desk: LoginDesk, name: str) -> int:
    """How many models a provider lists for what is stored; a key in the environment is not looked at."""
    models, stored = desk.models, desk.stored
    endpoint = models.endpoint(name)
    remote = RemoteModel(
        endpoint,
        lambda: stored.key(name),
        models.connections,
        make_ready=lambda: stored.make_ready(name, desk.oauth(name), lambda: models.connections),
        key_source=lambda: LOGIN,
    )
    return len(await remote.models())


def export_stored(desk: LoginDesk, target: str) -> int:
    """Writes everything into one file, locked with a passphrase: it opens on any machine and shows nothing."""
    if target == "-" and sys.stdout.isatty():
        raise UsageError("What is exported is no text. Send it to a file: bridle login --export FILE")
    if target != "-" and os.path.lexists(target):
        raise UsageError(f"{visible_line(target)} is there already; nothing was written")
    credentials = [] if desk.stored.is_empty else desk.stored.store.list()
    if not credentials:
        raise UsageError("Nothing is stored, so nothing was exported")
    phrase = new_passphrase(desk.env, "A passphrase for the exported file (hidden) › ")
    data = _sealed(credentials, phrase)
    if target == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        try:
            files.write_atomic(target, data)
        except OSError as problem:
            raise UsageError(f"{visible_line(target)} cannot be written ({problem.strerror})") from None
    names = ", ".join(credential.provider for credential in credentials)
    tell(f"Exported: {visible_line(names)}. Only that passphrase opens it: bridle login --import FILE")
    return 0


def _sealed(credentials: list[Credential], phrase: str) -> bytes:
    lock = LockKeys(env={}, key_path="").new_lock("passphrase")
    plain = encoded({credential.provider: credential for credential in credentials})
    return seal(plain, lock, derived(lock, phrase), os.urandom(NONCE_BYTES))


def import_stored(desk: LoginDesk, source: str) -> int:
    """Stores what was exported elsewhere, in place of what the same providers have here."""
    data = _imported_bytes(source)
    credentials = _unsealed(data, source, desk)
    before = desk.stored.providers()
    store = desk.stored.store
    if isinstance(store, EncryptedStore):
        store.put_all(credentials)
    else:
        for credential in credentials:
            store.put(credential)
    replaced = sorted(before & {credential.provider for credential in credentials})
    names = ", ".join(credential.provider for credential in credentials)
    also = f" Replaced: {', '.join(replaced)}." if replaced else ""
    return say(visible_line(f"Stored: {names}.{also}") + "\n")


def _imported_bytes(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        return files.read_limited(source, MAX_BYTES).data
    except OSError as problem:
        raise UsageError(f"{visible_line(source)} cannot be read ({problem.strerror})") from None


def _unsealed(data: bytes, source: str, desk: LoginDesk) -> list[Credential]:
    name = "What came in" if source == "-" else visible_line(source)
    try:
        header = header_of(data)
    except ValueError:
        raise UsageError(f"{name} is no export: bridle login --export FILE makes one") from None
    try:
        if header.lock.kind != "passphrase":
            raise UsageError(f"{name} is a store and no export: bridle login --export FILE makes one")
        phrase = desk.env.get(PASSPHRASE) or (
            hidden_line("Its passphrase (hidden) › ") if sys.stdin.isatty() else ""
        )
        if not phrase:
            raise UsageError(f"A passphrase is needed: set {PASSPHRASE}, or do this at a terminal")
        key = derived(header.lock, phrase)
        if header.key_id != key_id(key):
            raise CredentialError("CredentialsWrongKey", path=name, source="That passphrase")
        return list(decoded(unseal(data, key)).values())
    except ValueError as problem:
        raise CredentialError("CredentialsDamaged", path=name, problem=str(problem)) from None


def lock_stored(desk: LoginDesk, kind: LockKind) -> int:
    """Locks the store another way; the old key has to open it."""
    if desk.stored.back_end != "encrypted":
        raise UsageError("The system keychain has locks of its own")
    if kind == "machine" and not desk.env.get(MACHINE_KEY):
        raise UsageError(f"Set {MACHINE_KEY} first: 32 bytes, as 64 hex digits or base64")
    if not desk.stored.is_empty:
        desk.stored.encrypted.list()  # the old key comes first, so that nobody chooses a new one in vain
    desk.stored.log_key.unlock()
    phrase = new_passphrase(desk.env, "The new passphrase (hidden) › ") if kind == "passphrase" else ""
    desk.stored.relock(kind, phrase)
    words = lock_words(kind, key_path(desk.where))
    also = " Your sessions too." if desk.stored.log_key.lock_kind() is not None else ""
    return say(f"{words[0].upper()}{words[1:]}.{also}\n")


def log_lock_row(stored: StoredKeys, where: Folders, env: Env) -> tuple[bool, str]:
    """For `doctor`: whether the session log cannot be looked at here, and what there is to say of its lock."""
    kind = stored.log_key.lock_kind()
    if kind is None:
        return False, "its key is not wrapped yet"
    if not _has_key(kind, env):
        return (
            True,
            f"{lock_words(kind, key_path(where))}; {_variable(kind)} is not set, so it was not looked at",
        )
    if stored.is_empty or (kept := stored.encrypted.lock_kind()) in (kind, None):
        return False, ""
    return False, f"locked another way than stored keys: bridle login --lock {kept}"


def _has_key(kind: LockKind, env: Env) -> bool:
    return kind == "automatic" or bool(env.get(_variable(kind)))


def _variable(kind: LockKind) -> str:
    return MACHINE_KEY if kind == "machine" else PASSPHRASE


def credentials_row(
    stored: StoredKeys, where: Folders, env: Env
) -> tuple[Literal["ok", "warn", "skip"], str]:
    """What `doctor` says of stored credentials: ok, warn, fail or skip, and one line. Nobody is asked for anything."""
    if stored.is_empty:
        return "skip", "no keys are stored (bridle login)"
    if stored.back_end == "keyring":
        return "ok", f"{counted(len(stored.providers()), 'provider')} in the system keychain"
    kind = stored.encrypted.lock_kind()
    assert kind is not None
    words = lock_words(kind, key_path(where))
    if not _has_key(kind, env):
        return "warn", f"{words}; {_variable(kind)} is not set, so stored keys are not found"
    text = f"{counted(len(stored.providers()), 'provider')}, encrypted, {words}"
    if kind == "automatic":
        if os.stat(key_path(where)).st_mode & 0o077:
            return "warn", f"{text}, but others can read it: chmod 600 {key_path(where)}"
        if unused := next((name for name in (MACHINE_KEY, PASSPHRASE) if env.get(name)), None):
            lock = "machine" if unused == MACHINE_KEY else "passphrase"
            return "warn", f"{text}; {unused} is set and not used (bridle login --lock {lock})"
    return "ok", text


EXIT_CREDENTIALS = 4


def login(parsed: Args, env: Env) -> int:
    tolerate_characters()
    desk = LoginDesk(parsed, env)
    if parsed.list:
        return list_stored(desk, as_json=parsed.json)
    if parsed.check:
        return asyncio.run(check_stored(desk, parsed.provider, as_json=parsed.json))
    if parsed.export is not None:
        return export_stored(desk, parsed.export)
    if parsed.import_file is not None:
        return import_stored(desk, parsed.import_file)
    if parsed.lock is not None:
        return lock_stored(desk, parsed.lock)
    endpoint = desk.endpoint(parsed.provider or _chosen(desk))
    return asyncio.run(_connect(desk, endpoint, parsed))


def logout(parsed: Args, env: Env) -> int:
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
            f"Nothing is stored for {visible_line(parsed.provider)}. What is: bridle login --list"
        )
    if not gone:
        say("Nothing is stored.\n")
    for name in gone:
        variable = desk.key_variable(name)
        still = f" {variable} is still set." if variable and env.get(variable) else ""
        say(f"Forgotten: {visible_line(name)}.{still}\n")
    return 0


async def _connect(desk: LoginDesk, endpoint: Endpoint, parsed: Args) -> int:
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
        model = pick(endpoint.name, entries, typed_line, say_line)
    except EOFError:
        model = None
    if model is None:
        return 0
    set_value(TABLE, desk.where, "model", model.model)
    return say(f"Default model: {visible_line(model.model)}. Change it with /model.\n")


def _chosen(desk: LoginDesk) -> str:
    if not desk.is_terminal:
        raise UsageError("Which provider? bridle login PROVIDER; bridle models lists them")
    try:
        chosen = chosen_provider(connectable(desk.models), desk.env, typed_line, say_line)
    except EOFError:
        chosen = None
    if chosen is None:
        raise UsageError("No provider was chosen; nothing was stored")
    return chosen
