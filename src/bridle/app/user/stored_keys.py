"""Stored credentials of providers, and the key of the session log.

Nothing is opened, and nothing of `credentials` imported, where nothing is stored.
"""

from __future__ import annotations

import contextlib
import functools
import os
from asyncio import to_thread
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.base.fs import files
from bridle.base.ids import Ids
from bridle.config.folders import Folders, folders
from bridle.credentials.key_wrap import LocalKeyWrap
from bridle.credentials.locks import LockKeys, LockKind
from bridle.credentials.records import ApiKey, Credential, SignIn, secret_of
from bridle.protocol.errors import BridleError, CredentialError, ProviderError, StoreError
from bridle.sessions.store import SessionStore
from bridle.sessions.store_folder import copied_where_unwritable, locked_key

if TYPE_CHECKING:
    from bridle.base.net.http import HttpConnections
    from bridle.credentials.encrypted import EncryptedStore
    from bridle.credentials.keychain import KeychainStore
    from bridle.credentials.records import BackEnd
    from bridle.credentials.token_renewal import Renewal
    from bridle.sessions.log.log_key import KeyFile

FILE = "creds.enc"
OF_VALUES = "mcp-value:"
"""What stands before the name of a value that settings of MCP servers refer to, among the names of providers."""
KEY_FILE = "machine.key"
"""In another folder than the file it opens: a copy of one of the two opens nothing."""


def store_path(where: Folders) -> str:
    return os.path.join(where.config, FILE)


def key_path(where: Folders) -> str:
    return os.path.join(where.data, KEY_FILE)


_OF_THE_LOG = {
    "CredentialsLocked": "SessionsLocked",
    "CredentialsWrongKey": "SessionsWrongKey",
    "CredentialsDamaged": "StoreBadKey",
}
_OF_KEYS = frozenset({"CredentialsLocked", "CredentialsWrongKey", "BadMachineKey"})
"""What is wrong with a key that opens both."""


def log_key_path(where: Folders) -> str:
    return os.path.join(where.data, "sessions.key")


class LogKey:
    """The wrap of the session log's key (`sessions.log_key.KeyWrap`). What goes wrong is told in the log's words."""

    def __init__(self, path: str, made: Callable[[], LocalKeyWrap]) -> None:
        self._path = path
        self._database_path = os.path.join(os.path.dirname(path), "sessions.db")
        self._made = made
        self._wrap: LocalKeyWrap | None = None

    def wrap(self, key: bytes, *, like: bytes | None = None) -> bytes:
        with self._told() as wrap:
            return wrap.wrap(key, like=like)

    def unwrap(self, data: bytes) -> bytes:
        with self._told() as wrap:
            return wrap.unwrap(data)

    def is_settled(self, data: bytes) -> bool:
        with self._told() as wrap:
            return wrap.is_settled(data)

    def lock_kind(self) -> LockKind | None:
        """How the key is locked; None where there is none, or one from before keys were wrapped. Needs no key."""
        data = self._bytes()
        if data is None:
            return None
        with self._told() as wrap:
            lock = wrap.lock_of(data)
        return None if lock is None else lock.kind

    def unlock(self) -> None:
        """Makes sure that the key can be had, where there is one and it is wrapped. Raises `StoreError`."""
        if self.lock_kind() is not None and (data := self._bytes()) is not None:
            self.unwrap(data)

    def _bytes(self) -> bytes | None:
        try:
            return files.read_limited(self._path, 4096).data
        except FileNotFoundError:
            return None
        except OSError as problem:
            clause = problem.strerror or "it cannot be read"
            raise StoreError(
                "StoreBadKey", path=self._database_path, key_path=self._path, problem=clause
            ) from None

    @contextlib.contextmanager
    def _told(self) -> Generator[LocalKeyWrap]:
        if self._wrap is None:
            self._wrap = self._made()
        try:
            yield self._wrap
        except BridleError as failure:
            if failure.data.get("path") != self._path and failure.reason not in _OF_KEYS:
                raise StoreError(failure.reason, **failure.data) from None  # it is about the store
            reason = _OF_THE_LOG.get(failure.reason, failure.reason)
            about = {**failure.data, "path": self._database_path, "key_path": self._path}
            raise StoreError(reason, **about) from None


_OPENERS = ("BRIDLE_PASSPHRASE", "BRIDLE_MACHINE_KEY")


class StoredKeys:
    """The credentials of a caller with this environment. `ask` asks a person for the passphrase, if one can be.

    What opens them is shared with the one of the same caller that it stands `beside`.
    """

    def __init__(
        self,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
        ask: Callable[[], str] | None = None,
        notice: Callable[[str], None] = lambda _text: None,
        back_end: BackEnd = "encrypted",
        beside: StoredKeys | None = None,
    ) -> None:
        self.back_end: BackEnd = back_end
        self._where = where
        self._env = env
        self._clock = clock
        self._ask = ask
        self._notice = notice
        self.shared_keys = beside.shared_keys if beside else functools.cache(self._made_keys)
        """One for every store and the log: nobody types a passphrase twice."""
        self._encrypted: EncryptedStore | None = None
        self._keychain: KeychainStore | None = None
        self._current: dict[str, Credential | None] = {}
        self.secrets = beside.secrets if beside else {env[name] for name in _OPENERS if env.get(name)}
        """What must appear nowhere: what opens the store, and what was found in it."""
        self.log_key = LogKey(log_key_path(where), self._log_wrap)

    def kept_in(self, back_end: BackEnd) -> StoredKeys:
        """The credentials of the same caller, for settings that keep them there."""
        if back_end == self.back_end:
            return self
        return type(self)(
            where=self._where,
            env=self._env,
            clock=self._clock,
            ask=self._ask,
            notice=self._notice,
            back_end=back_end,
            beside=self,
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is surely nothing, without opening anything."""
        return self.back_end == "encrypted" and self._is_file_missing

    @property
    def store(self) -> EncryptedStore | KeychainStore:
        """Where credentials are kept, by the settings."""
        return self.keychain if self.back_end == "keyring" else self.encrypted

    @property
    def encrypted(self) -> EncryptedStore:
        if self._encrypted is None:
            from bridle.credentials.encrypted import EncryptedStore

            self._encrypted = EncryptedStore(
                store_path(self._where), self.shared_keys(), made=self._lock_log_likewise
            )
        return self._encrypted

    @property
    def keychain(self) -> KeychainStore:
        if self._keychain is None:
            from bridle.credentials.keychain import KeychainStore

            self._keychain = KeychainStore(os.path.join(self._where.state, "keyring.lock"))
        return self._keychain

    def relock(self, kind: LockKind, passphrase: str = "") -> None:
        """Locks the file another way, and with it the key of the session log.

        Whatever happens in between, each of the two says by itself how it is locked, and the log opens either way.
        """
        wrap = self._log_wrap()
        with self._locked_log_key() as key_file:
            self.encrypted.relock(
                kind,
                passphrase,
                before=lambda lock: key_file.rewrap(lambda data: wrap.with_lock(data, lock)),
            )
            key_file.settle()

    def _lock_log_likewise(self) -> None:
        """The first credential was stored: the log's key gets the lock of the store, where both can be opened."""
        if not os.path.lexists(log_key_path(self._where)):
            return
        with contextlib.suppress(BridleError, OSError):
            before = self.log_key.lock_kind()
            with self._locked_log_key() as key_file:
                key_file.rewrap(self._log_wrap().followed)
            if self.log_key.lock_kind() != before:
                self._notice("Your sessions have the same lock as your stored keys now.")

    def _locked_log_key(self) -> contextlib.AbstractContextManager[KeyFile]:
        return locked_key(
            self._where.data, now_ms=self._clock.now_ms, notice=self._notice, key_wrap=self.log_key
        )

    def _log_wrap(self) -> LocalKeyWrap:
        return LocalKeyWrap(
            self.shared_keys(),
            path=log_key_path(self._where),
            store_lock=lambda: None if self._is_file_missing else self.encrypted.lock(),
            prove_store=self._open_store,
        )

    def _open_store(self) -> None:
        self.encrypted.unlock()

    @property
    def _is_file_missing(self) -> bool:
        return not os.path.lexists(store_path(self._where))

    def _made_keys(self) -> LockKeys:
        return LockKeys(
            env=self._env,
            key_path=key_path(self._where),
            ask=self._ask,
            notice=self._notice,
            is_needed=self._log_needs_automatic_key,
        )

    def _log_needs_automatic_key(self) -> bool:
        with contextlib.suppress(BridleError):
            return self.log_key.lock_kind() == "automatic"
        return False

    def providers(self) -> frozenset[str]:
        """The providers that have a credential. Raises `CredentialError` where that cannot be seen."""
        return frozenset(name for name in self._names() if not name.startswith(OF_VALUES))

    def value_names(self) -> frozenset[str]:
        """The names of references that a value is stored for. Raises `CredentialError`."""
        return frozenset(name.removeprefix(OF_VALUES) for name in self._names() if name.startswith(OF_VALUES))

    def put_value(self, name: str, secret: str) -> None:
        """Stores what references of this name stand for. Raises `CredentialError`."""
        self.store.put(ApiKey(provider=f"{OF_VALUES}{name}", secret=secret, saved_ms=self._clock.now_ms()))

    def forget_value(self, name: str) -> bool:
        """False where there was none."""
        return not self.is_empty and self.store.delete(f"{OF_VALUES}{name}")

    def _names(self) -> frozenset[str]:
        if self.is_empty:
            return frozenset()
        return frozenset(credential.provider for credential in self.store.list())

    async def make_ready(
        self, provider: str, oauth: Mapping[str, Any] | None, connections: Callable[[], HttpConnections]
    ) -> None:
        """Finds the credential of a provider, and renews a sign-in that ends. Raises `ProviderError`."""
        if self.is_empty:
            self._current[provider] = None
            return
        try:
            found = await self._found(provider)
            if isinstance(found, SignIn):  # a key does not run out
                found = await self._renewal(connections).of_provider(provider, oauth)
        except CredentialError as problem:
            raise ProviderError(problem.reason, **problem.data) from None
        self._current[provider] = found
        self._keep_out(found)

    async def server_sign_in(
        self, name: str, connections: Callable[[], HttpConnections], *, refused: str = ""
    ) -> SignIn | None:
        """The sign-in of that name, renewed where it must be; None where there is none or it has ended.

        `refused` is a token of it that was not taken. Raises `CredentialError`.
        """
        if self.is_empty:
            return None
        found = await self._found(name)
        if not isinstance(found, SignIn) or found.registration is None:
            return None
        try:
            renewal = self._renewal(connections)
            after = await renewal.of_server(name, found.registration, refused=refused)
        except CredentialError as problem:
            if problem.reason == "SignInEnded":
                return None
            raise
        self._keep_out(after)
        return after if isinstance(after, SignIn) else None

    async def keep_challenge(self, sign_in: SignIn, challenge: str) -> None:
        """Remembers what more is wanted than was granted, for the next sign-in. Raises `CredentialError`."""
        known = sign_in.registration
        if known is None or known.challenge == challenge:
            return
        after = msgspec.structs.replace(
            sign_in, registration=msgspec.structs.replace(known, challenge=challenge)
        )
        await to_thread(self.store.exchange, sign_in, after)

    async def _found(self, name: str) -> Credential | None:
        return await to_thread(self.store.get, name)

    def _renewal(self, connections: Callable[[], HttpConnections]) -> Renewal:
        from bridle.credentials.oauth import form_post  # the door of sign-ins
        from bridle.credentials.token_renewal import Renewal

        lock_path = os.path.join(self._where.state, "renewing.lock")
        return Renewal(self.store, lock_path=lock_path, clock=self._clock, post=form_post(connections))

    def key(self, provider: str) -> str | None:
        """What the last `make_ready` found."""
        found = self._current.get(provider)
        if found is None:
            return None
        return secret_of(found)

    async def value(self, name: str) -> str | None:
        """What is stored for references of this name, if anything. Raises `CredentialError`."""
        if self.is_empty:
            return None
        found = await self._found(f"{OF_VALUES}{name}")
        self._keep_out(found)
        return None if found is None else secret_of(found)

    def _keep_out(self, found: Credential | None) -> None:
        if found is not None:
            self.secrets.add(secret_of(found))
        if isinstance(found, SignIn) and found.refresh_token:
            self.secrets.add(found.refresh_token)
        if isinstance(found, SignIn) and found.registration and found.registration.client_secret:
            self.secrets.add(found.registration.client_secret)


def session_store(env: Mapping[str, str], *, folder: str | None = None) -> SessionStore:
    """The stored sessions, to look at; with `folder`, those in a copy. Nothing is created by looking."""
    clock, where = SystemClock(), folders(env)
    stored = StoredKeys(where=where, env=env, clock=clock)
    ids = Ids(clock.now_ms, os.urandom)
    return SessionStore(folder or where.data, ids=ids, clock=clock, key_wrap=stored.log_key)


@contextmanager
def store_to_look(env: Mapping[str, str]) -> Generator[SessionStore]:
    """The stored sessions, for what notes something while it looks.

    Where their disk cannot be written, a copy that nobody else sees and that goes afterwards.
    """
    with (
        copied_where_unwritable(folders(env).data) as folder,
        closing(session_store(env, folder=folder)) as store,
    ):
        yield store
