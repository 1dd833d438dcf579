"""The encrypted credential file: what it keeps, who opens it, and what it does with everything else."""

import os
import stat
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.conformance.port_checks import check_credential_store
from bridle.credentials import encrypted
from bridle.credentials.encrypted import EncryptedStore
from bridle.credentials.locks import MACHINE_KEY, PASSPHRASE, LockKeys, SealLock, checked
from bridle.credentials.records import ApiKey, SignIn, decoded, encoded
from bridle.protocol.errors import CredentialError
from credentials.credential_kit import Vault, a_secret, made_key
from effort import examples

CHEAP = SealLock(kind="passphrase", salt="00" * 16, memory_kib=32, passes=1, lanes=1)
"""Figures that cost nothing, which a file may have and a new one never does."""


def stored(vault: Vault, **env: str) -> ApiKey:
    key = ApiKey(provider="work", secret=a_secret())
    vault.open(**env).put(key)
    return key


def reason_of(vault: Vault, **env: str) -> str:
    """Why reading is refused. Writing must be refused for the same reason, and change nothing."""
    before = vault.path.read_bytes()
    with pytest.raises(CredentialError) as refusal:
        vault.open(**env).get("work")
    with pytest.raises(CredentialError) as also:
        vault.open(**env).put(ApiKey(provider="other", secret=a_secret()))
    assert also.value.reason == refusal.value.reason
    assert vault.path.read_bytes() == before
    assert refusal.value.exit_code in {2, 4}
    return refusal.value.reason


@pytest.mark.requirement("H13.3")
@pytest.mark.parametrize("env", [{}, {MACHINE_KEY: made_key()}], ids=["automatic", "machine key"])
def test_it_is_a_credential_store(vault: Vault, env: dict[str, str]) -> None:
    check_credential_store(lambda: vault.open(**env))


@pytest.mark.requirement("G36.1", "H6.3")
def test_the_file_is_private_sealed_and_replaced_as_a_whole(vault: Vault) -> None:
    key = stored(vault)
    data = vault.path.read_bytes()
    assert key.secret.encode() not in data
    assert b"work" not in data, "not even the provider's name can be read"
    for path in (vault.path, vault.key_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(vault.path.parent.stat().st_mode) == 0o700
    inode = vault.path.stat().st_ino
    stored(vault)
    assert vault.path.stat().st_ino != inode, "a new file takes the place of the old one"
    assert sorted(os.listdir(vault.path.parent)) == ["creds.enc", "creds.enc.lock"]
    assert vault.path.read_bytes() != data


def test_the_same_content_is_never_sealed_the_same_way(vault: Vault) -> None:
    key = stored(vault)
    seen = set()
    for _ in range(20):
        vault.open().put(key)
        seen.add(vault.path.read_bytes())
    assert len(seen) == 20


def test_looking_makes_nothing(vault: Vault) -> None:
    store = vault.open()
    assert (store.list(), store.get("work"), store.lock_kind()) == ([], None, None)
    assert not vault.path.parent.exists()
    assert not vault.key_path.parent.exists()


@pytest.mark.requirement("G36.4")
def test_a_machine_key_goes_before_a_passphrase_and_both_before_a_key_made_by_itself(vault: Vault) -> None:
    stored(vault, **{MACHINE_KEY: made_key(), PASSPHRASE: a_secret()})
    assert vault.open().lock_kind() == "machine"
    assert not vault.key_path.exists()
    vault.path.unlink()
    stored(vault, **{PASSPHRASE: a_secret()})
    assert vault.open().lock_kind() == "passphrase"
    assert not vault.key_path.exists()
    vault.path.unlink()
    stored(vault)
    assert vault.open().lock_kind() == "automatic"
    assert vault.key_path.exists()


def test_a_passphrase_opens_what_it_locked_from_the_environment_and_typed(vault: Vault) -> None:
    phrase = a_secret()
    key = stored(vault, **{PASSPHRASE: phrase})
    assert vault.open(**{PASSPHRASE: phrase}).get("work") == key
    assert vault.open(typed=phrase).get("work") == key
    header = encrypted.header_of(vault.path.read_bytes()).lock
    assert (header.memory_kib, header.passes) == (64 * 1024, 3)


def test_a_wrong_passphrase_is_refused_and_asked_for_again(vault: Vault) -> None:
    phrase = a_secret()
    key = stored(vault, **{PASSPHRASE: phrase})
    assert reason_of(vault, **{PASSPHRASE: a_secret()}) == "CredentialsWrongKey"
    typed = iter(["wrong", phrase])
    keys = LockKeys(env={}, key_path=str(vault.key_path), ask=lambda: next(typed))
    store = EncryptedStore(str(vault.path), keys)
    with pytest.raises(CredentialError, match="does not open"):
        store.get("work")
    assert store.get("work") == key


@pytest.mark.parametrize(
    ("locked", "opened", "reason"),
    [
        ({MACHINE_KEY: made_key()}, {MACHINE_KEY: made_key(1)}, "CredentialsWrongKey"),
        ({MACHINE_KEY: made_key()}, {}, "CredentialsLocked"),
        ({MACHINE_KEY: made_key()}, {PASSPHRASE: "p"}, "CredentialsLocked"),
        ({MACHINE_KEY: made_key()}, {MACHINE_KEY: "too short"}, "BadMachineKey"),
        ({PASSPHRASE: "p"}, {}, "CredentialsLocked"),
        ({PASSPHRASE: "p"}, {MACHINE_KEY: made_key()}, "CredentialsLocked"),
    ],
)
def test_a_key_that_is_wrong_or_missing_is_refused_loudly_and_nothing_is_written(
    vault: Vault, locked: dict[str, str], opened: dict[str, str], reason: str
) -> None:
    stored(vault, **locked)
    assert reason_of(vault, **opened) == reason
    assert not vault.key_path.exists(), "no new key is made for a file that has another"


def test_a_missing_or_spoilt_automatic_key_is_never_replaced(vault: Vault) -> None:
    key = stored(vault)
    good = vault.key_path.read_bytes()
    vault.key_path.unlink()
    assert reason_of(vault) == "CredentialsLocked"
    assert not vault.key_path.exists()
    vault.key_path.write_bytes(b"not a key")
    assert reason_of(vault) == "CredentialsLocked"
    vault.key_path.write_bytes(os.urandom(32).hex().encode())
    assert reason_of(vault) == "CredentialsWrongKey"
    vault.key_path.write_bytes(good)
    assert vault.open().get("work") == key


def test_a_variable_set_later_neither_locks_out_nor_takes_over(vault: Vault) -> None:
    key = stored(vault)
    later = vault.open(**{PASSPHRASE: a_secret()})
    assert later.get("work") == key
    later.put(ApiKey(provider="other", secret=a_secret()))
    assert later.lock_kind() == "automatic"


def test_the_lock_is_changed_on_demand_and_the_old_key_is_of_no_use_then(vault: Vault) -> None:
    key = stored(vault)
    phrase = a_secret()
    vault.open().relock("passphrase", phrase)
    assert vault.open(typed=phrase).get("work") == key
    assert reason_of(vault) == "CredentialsLocked"
    vault.open(typed=phrase, **{MACHINE_KEY: made_key()}).relock("machine")
    assert vault.open(**{MACHINE_KEY: made_key()}).get("work") == key
    vault.open(**{MACHINE_KEY: made_key()}).relock("automatic")
    assert vault.open().get("work") == key


def test_a_key_file_that_others_can_read_is_used_and_named_once(vault: Vault) -> None:
    key = stored(vault)
    vault.key_path.chmod(0o644)
    store = vault.open()
    assert (store.get("work"), store.get("work")) == (key, key)
    assert vault.notices == [
        f"{vault.key_path} can be read by others. Make it yours alone: chmod 600 {vault.key_path}"
    ]


@pytest.mark.parametrize("env", [{MACHINE_KEY: made_key()}, {}], ids=["machine key", "automatic"])
def test_a_file_with_any_bit_changed_or_any_byte_missing_is_refused(
    vault: Vault, env: dict[str, str]
) -> None:
    stored(vault, **env)
    good = vault.path.read_bytes()
    spoilt = [
        good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :] for at in range(len(good)) for bit in (0, 5)
    ]
    spoilt += [good[:at] + good[at + 1 :] for at in range(len(good))]
    spoilt += [good[:at] for at in range(len(good))]
    spoilt += [good + b"\n", b"\n" + good]
    store = vault.open(**env)
    for data in spoilt:
        vault.path.write_bytes(data)
        with pytest.raises(CredentialError):
            store.get("work")
    vault.path.write_bytes(good)
    assert store.get("work") is not None


def test_a_file_locked_by_a_passphrase_is_sealed_with_its_figures(vault: Vault) -> None:
    """Somebody who can write the file cannot make the next one weaker, or move its content under other figures."""
    from bridle.credentials.locks import derived

    data = encrypted.seal(b"{}", CHEAP, derived(CHEAP, "p"), os.urandom(12))
    assert encrypted.unseal(data, derived(CHEAP, "p")) == b"{}"
    other = data.replace(b'"passes":1', b'"passes":2')
    with pytest.raises(ValueError, match="not what was written"):
        encrypted.unseal(other, derived(CHEAP, "p"))


@pytest.mark.parametrize(
    "figures",
    [
        {"memory_kib": 4 * 1024 * 1024},
        {"memory_kib": 256 * 1024 + 1},
        {"memory_kib": 0},
        {"memory_kib": -1},
        {"passes": 11},
        {"passes": 0},
        {"lanes": 17},
        {"lanes": 0},
        {"salt": "00"},
        {"salt": "00" * 65},
        {"salt": "zz" * 16},
        {"kind": "machine"},
    ],
)
def test_figures_that_would_stop_a_machine_are_refused_before_they_are_spent(
    vault: Vault, figures: dict[str, object]
) -> None:
    lock = msgspec.structs.replace(CHEAP, **figures)
    with pytest.raises(ValueError, match="its "):
        checked(lock)
    vault.path.parent.mkdir(parents=True)
    vault.path.write_bytes(encrypted.seal(b"{}", lock, bytes(32), bytes(12)))
    assert reason_of(vault, **{PASSPHRASE: "p"}) == "CredentialsDamaged"


def test_a_file_of_a_later_version_is_left_alone(vault: Vault) -> None:
    stored(vault)
    data = vault.path.read_bytes().replace(b'"format":1,', b'"format":2,"more":[],')
    vault.path.write_bytes(data)
    assert reason_of(vault) == "CredentialsNewer"


def test_a_file_that_is_none_of_ours_is_left_alone(vault: Vault) -> None:
    vault.path.parent.mkdir(parents=True)
    for data in (
        b"",
        b"{}\n",
        b"hello",
        b"\n" * 50,
        b"[" * 5000 + b"\n",
        b"\xff\xfe\n" + bytes(60),
        bytes(1 << 21),
    ):
        vault.path.write_bytes(data)
        assert reason_of(vault) == "CredentialsDamaged"


def test_a_fifo_or_a_folder_in_its_place_is_no_trap(vault: Vault) -> None:
    vault.path.parent.mkdir(parents=True)
    os.mkfifo(vault.path)
    with pytest.raises(CredentialError, match="not a regular file"):
        vault.open().get("work")
    vault.path.unlink()
    vault.path.mkdir()
    with pytest.raises(CredentialError):
        vault.open().get("work")


def test_a_folder_that_cannot_be_written_is_said_in_one_sentence(tmp_path) -> None:
    (tmp_path / "config").write_text("a file in the way")
    with pytest.raises(CredentialError, match="cannot be used for stored keys") as refusal:
        Vault(tmp_path).open().put(ApiKey(provider="work", secret=a_secret()))
    assert refusal.value.exit_code == 4


@pytest.mark.requirement("H13.5")
def test_no_error_and_no_text_of_a_record_holds_a_secret(vault: Vault) -> None:
    secret = a_secret()
    records = (
        ApiKey(provider="work", secret=secret),
        SignIn(provider="work", access_token=secret, refresh_token=secret),
    )
    for record in records:
        assert secret not in repr(record) + str(record) + f"{record}" + repr([record])
    with pytest.raises(ValueError, match="does not hold") as problem:
        decoded(b'{"work": {"kind": "api_key", "secret": "%s"}}' % secret.encode())
    assert secret not in str(problem.value)
    assert problem.value.__cause__ is None
    for env in ({MACHINE_KEY: secret}, {PASSPHRASE: secret}):
        stored(vault) if not vault.path.exists() else None
        vault.open().relock("automatic")
        vault.path.write_bytes(vault.path.read_bytes()[:-1])
        with pytest.raises(CredentialError) as refusal:
            vault.open(**env).get("work")
        assert secret not in str(refusal.value) + repr(refusal.value.data)
        vault.path.unlink()


def test_a_record_under_another_providers_name_is_refused() -> None:
    moved = encoded({"a": ApiKey(provider="b", secret=a_secret())})
    with pytest.raises(ValueError, match="another provider"):
        decoded(moved)


names = st.text(min_size=1, max_size=20)
texts = st.text(max_size=80)
numbers = st.none() | st.integers(0, 2**53)
records = st.one_of(
    st.builds(ApiKey, provider=names, secret=texts, account=texts, saved_ms=st.integers(0, 2**53)),
    st.builds(
        SignIn, provider=names, access_token=texts, refresh_token=st.none() | texts, expires_at_ms=numbers
    ),
)


@settings(max_examples=examples(60))
@given(
    records=st.lists(records, max_size=5),
    key=st.binary(min_size=32, max_size=32),
    nonce=st.binary(min_size=12, max_size=12),
)
def test_what_is_sealed_comes_back(records, key: bytes, nonce: bytes) -> None:
    kept = {record.provider: record for record in records}
    data = encrypted.seal(encoded(kept), SealLock(kind="machine"), key, nonce)
    assert decoded(encrypted.unseal(data, key)) == kept
    assert encrypted.header_of(data).lock == SealLock(kind="machine")


@settings(max_examples=examples(200))
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (encrypted.header_of, lambda data: encrypted.unseal(data, bytes(32)), decoded):
        try:
            read(data)
        except ValueError as problem:
            assert len(str(problem)) < 80


WRITER = """
import sys
from bridle.credentials.encrypted import EncryptedStore
from bridle.credentials.locks import LockKeys
from bridle.credentials.records import ApiKey
path, key_path, name = sys.argv[1:]
for number in range(15):
    EncryptedStore(path, LockKeys(env={}, key_path=key_path)).put(ApiKey(provider=f"{name}{number}", secret="x" * 8))
"""


def test_processes_that_write_at_once_lose_nothing(vault: Vault) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(vault.path), str(vault.key_path), name], stderr=subprocess.PIPE
        )
        for name in "abcd"
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, b"")
    assert {record.provider for record in vault.open().list()} == {
        f"{name}{at}" for name in "abcd" for at in range(15)
    }


def test_a_key_is_tried_without_reading_what_it_opens(vault: Vault) -> None:
    vault.open().unlock()
    vault.open(**{PASSPHRASE: "right"}).put(ApiKey(provider="openai", secret=a_secret()))
    vault.open(**{PASSPHRASE: "right"}).unlock()
    with pytest.raises(CredentialError) as wrong:
        vault.open(**{PASSPHRASE: "wrong"}).unlock()
    assert wrong.value.reason == "CredentialsWrongKey"
