"""The wrapped key: what goes in comes out, nothing of it shows, and whatever is not as it was written is refused."""

from __future__ import annotations

import os
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.fs.files import FileLock
from bridle.credentials.key_wrap import LocalKeyWrap, NewerWrap, Wrap, decoded, encoded, key_id, unwrap, wrap
from bridle.credentials.locks import LANES, MACHINE_KEY, PASSPHRASE, SALT_BYTES, LockKeys, SealLock
from bridle.protocol.errors import CredentialError
from credentials.credential_kit import Vault, made_key
from tables import table

keys_of_32 = st.binary(min_size=32, max_size=32)
AUTOMATIC = SealLock(kind="automatic")
CHEAP = SealLock(kind="passphrase", salt="00" * SALT_BYTES, memory_kib=8 * LANES, passes=1, lanes=1)


def key_wrap(vault: Vault, **env: str) -> LocalKeyWrap:
    """What another process with this environment would wrap with."""
    keys = LockKeys(env=env, key_path=str(vault.key_path))
    store = vault.open(**env)
    return LocalKeyWrap(keys, path="sessions.key", store_lock=store.lock, prove_store=store.unlock)


def trusting(keys: LockKeys, lock: SealLock | None) -> LocalKeyWrap:
    """A wrap that is told how the store is locked, and takes the keys for those of the store."""
    return LocalKeyWrap(keys, path="sessions.key", store_lock=lambda: lock, prove_store=lambda: None)


@given(keys_of_32, keys_of_32)
def test_a_key_comes_out_as_it_went_in_and_never_shows(key: bytes, lock_key: bytes) -> None:
    one = wrap(key, AUTOMATIC, lock_key, os.urandom(32))
    (back,) = decoded(encoded((one,)))
    assert (back, unwrap(back, lock_key)) == (one, key)
    for secret in (key, lock_key):
        assert secret.hex() not in encoded((one,)).decode()


@given(keys_of_32, keys_of_32, keys_of_32, keys_of_32)
def test_another_nonce_or_lock_key_hides_the_key_differently(
    key: bytes, lock_key: bytes, one: bytes, other: bytes
) -> None:
    first, second = wrap(key, AUTOMATIC, lock_key, one), wrap(key, AUTOMATIC, lock_key, other)
    assert (first.wrapped == second.wrapped) == (one == other)
    if other != lock_key:
        assert key_id(other) != key_id(lock_key)
        with pytest.raises(ValueError, match="not what was written"):
            unwrap(first, other)


@given(st.data(), keys_of_32, keys_of_32)
def test_not_a_bit_can_be_changed(data: st.DataObject, key: bytes, lock_key: bytes) -> None:
    one = wrap(key, CHEAP, lock_key, os.urandom(32))
    field = data.draw(st.sampled_from(["nonce", "wrapped", "tag", "lock"]))
    if field == "lock":
        changed = msgspec.structs.replace(one, lock=msgspec.structs.replace(CHEAP, passes=2))
    else:
        value = bytearray.fromhex(getattr(one, field))
        bit = data.draw(st.integers(0, len(value) * 8 - 1))
        value[bit // 8] ^= 1 << bit % 8
        changed = msgspec.structs.replace(one, **{field: value.hex()})
    with pytest.raises(ValueError, match="not what was written"):
        unwrap(changed, lock_key)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_else_is_in_the_file_is_refused_in_one_clause(data: bytes) -> None:
    with pytest.raises(ValueError, match="does not hold a wrapped key"):
        decoded(data)


@pytest.mark.parametrize(
    "text",
    [
        '{"bridle":"wrapped key","format":2,"wraps":[]}',
        '{"bridle":"wrapped key","format":7,"slots":{"a":1}}',
    ],
)
def test_a_newer_file_is_refused_as_that(text: str, vault: Vault) -> None:
    with pytest.raises(NewerWrap):
        decoded(text.encode())
    with pytest.raises(CredentialError) as refused:
        key_wrap(vault).unwrap(text.encode())
    assert refused.value.message == "sessions.key was written by a newer Bridle. Upgrade Bridle."


@table(
    "lock",
    [
        SealLock(kind="passphrase", salt="00" * SALT_BYTES, memory_kib=1 << 40, passes=1, lanes=1),
        SealLock(kind="automatic", salt="00"),
    ],
)
def test_a_lock_that_asks_too_much_is_refused_before_anything_is_spent(lock: SealLock) -> None:
    one = Wrap(lock=lock, key_id="", nonce="", wrapped="", tag="")
    with pytest.raises(ValueError, match="its "):
        decoded(encoded((one,)))


def test_there_is_at_least_one_wrap_and_at_most_two() -> None:
    one = wrap(bytes(32), AUTOMATIC, bytes(32), bytes(32))
    for number, good in ((0, False), (1, True), (2, True), (3, False)):
        data = encoded((one,) * number)
        if good:
            assert len(decoded(data)) == number
        else:
            with pytest.raises(ValueError, match="wrapped key"):
                decoded(data)


def test_only_a_key_of_32_bytes_is_wrapped() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        wrap(b"short", AUTOMATIC, bytes(32), bytes(32))


def test_the_automatic_key_is_made_once_also_where_store_and_log_begin_together(vault: Vault) -> None:
    vault.key_path.parent.mkdir(parents=True)
    other = FileLock(f"{vault.key_path}.lock")
    assert other.acquire()
    storing = threading.Thread(target=lambda: vault.open().relock("automatic"))
    storing.start()
    storing.join(timeout=0.2)
    assert storing.is_alive(), "it waits for whoever makes the key"
    made = os.urandom(32).hex()
    vault.key_path.write_text(made)
    other.release()
    storing.join()
    assert vault.key_path.read_text() == made
    vault.open().unlock()


# Which lock


def test_a_new_key_is_locked_as_the_environment_wants_and_one_that_was_plain_by_the_automatic_key(
    vault: Vault,
) -> None:
    machine = {MACHINE_KEY: made_key()}
    key = os.urandom(32)

    def lock_of(data: bytes) -> str:
        lock = key_wrap(vault).lock_of(data)
        assert lock is not None
        return lock.kind

    assert lock_of(key_wrap(vault, **machine).wrap(key)) == "machine"
    assert lock_of(key_wrap(vault, **machine).wrap(key, like=key.hex().encode())) == "automatic"
    automatic = key_wrap(vault).wrap(key)
    assert lock_of(automatic) == "automatic"
    assert lock_of(key_wrap(vault, **machine).wrap(key, like=automatic)) == "automatic", "never by itself"


def test_where_there_is_a_store_its_lock_is_followed_and_its_lost_key_never_made_anew(vault: Vault) -> None:
    machine = {MACHINE_KEY: made_key()}
    vault.open().relock("automatic")
    key = os.urandom(32)
    data = key_wrap(vault, **machine).wrap(key)
    assert key_wrap(vault).unwrap(data) == key
    vault.key_path.unlink()
    with pytest.raises(CredentialError) as lost:
        key_wrap(vault).wrap(key)
    assert lost.value.reason == "CredentialsLocked"
    assert not vault.key_path.exists()


def test_while_a_lock_is_changed_either_one_opens(vault: Vault) -> None:
    machine = {MACHINE_KEY: made_key()}
    key = os.urandom(32)
    data = key_wrap(vault).wrap(key)
    both = key_wrap(vault, **machine).with_lock(data, SealLock(kind="machine"))
    assert key_wrap(vault).unwrap(both) == key
    vault.key_path.unlink()
    assert key_wrap(vault, **machine).unwrap(both) == key
    assert not key_wrap(vault).is_settled(both)
    with pytest.raises(CredentialError) as neither:
        key_wrap(vault).unwrap(both)
    assert neither.value.reason == "CredentialsLocked"


def test_a_typed_passphrase_is_asked_for_once_for_all_wraps_of_a_file(vault: Vault) -> None:
    typed: list[str] = []

    def ask() -> str:
        typed.append("new")
        return "new"

    keys = LockKeys(env={}, key_path=str(vault.key_path), ask=ask)
    old, new = (msgspec.structs.replace(CHEAP, salt=digit * 2 * SALT_BYTES) for digit in "12")
    writing = LockKeys(env={}, key_path=str(vault.key_path))
    writing.remember(old, "old")
    writing.remember(new, "new")
    made = trusting(writing, old)
    key = os.urandom(32)
    both = made.with_lock(made.wrap(key), new)
    assert trusting(keys, None).unwrap(both) == key
    assert typed == ["new"]


def test_a_wrong_passphrase_is_told_and_forgotten(vault: Vault) -> None:
    writing = LockKeys(env={}, key_path=str(vault.key_path))
    writing.remember(CHEAP, "right")
    data = trusting(writing, CHEAP).wrap(os.urandom(32))
    answers = iter(["wrong", "right"])
    reading = trusting(LockKeys(env={}, key_path=str(vault.key_path), ask=lambda: next(answers)), None)
    with pytest.raises(CredentialError) as refused:
        reading.unwrap(data)
    assert refused.value.reason == "CredentialsWrongKey"
    assert len(reading.unwrap(data)) == 32
    with pytest.raises(CredentialError) as given:
        key_wrap(vault, **{PASSPHRASE: "wrong"}).unwrap(data)
    assert given.value.data["source"] == PASSPHRASE
