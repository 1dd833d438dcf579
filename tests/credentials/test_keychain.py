"""Credentials in a system keychain, which is faked here: an extra that may be missing, and may fail in its own ways."""

import importlib.util

import pytest

from bridle.base.process.installation import install_command
from bridle.conformance.port_checks import check_credential_store
from bridle.credentials.keychain import KeychainStore, system_keychain
from bridle.credentials.records import ApiKey
from bridle.protocol.errors import CredentialError
from credentials.credential_kit import a_secret


class FakeKeychain:
    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class NoKeyringError(Exception):
    """Called as the one of the package."""


class Broken(FakeKeychain):
    def get_password(self, service: str, username: str) -> str | None:
        raise NoKeyringError("a secret could stand here")


@pytest.mark.requirement("G36.2")
def test_it_is_a_credential_store(tmp_path) -> None:
    keychain = FakeKeychain()
    check_credential_store(lambda: KeychainStore(str(tmp_path / "keyring.lock"), lambda: keychain))


def test_a_keychain_that_fails_is_one_sentence_with_the_way_out(tmp_path) -> None:
    store = KeychainStore(str(tmp_path / "keyring.lock"), Broken)
    for use in (lambda: store.get("work"), store.list, lambda: store.delete("work")):
        with pytest.raises(CredentialError) as refusal:
            use()
        assert refusal.value.message == (
            "The system keychain cannot be used: there is none here. "
            "Keep keys in a file: bridle config set credentials.store encrypted"
        )


def test_what_others_put_there_is_refused_and_not_repeated(tmp_path) -> None:
    keychain = FakeKeychain()
    store = KeychainStore(str(tmp_path / "keyring.lock"), lambda: keychain)
    secret = a_secret()
    keychain.entries["bridle", "work"] = secret
    with pytest.raises(CredentialError) as refusal:
        store.get("work")
    assert secret not in str(refusal.value)
    keychain.entries["bridle", "bridle: providers"] = "{}"
    with pytest.raises(CredentialError, match="damaged"):
        store.list()


@pytest.mark.requirement("G36.2")
@pytest.mark.skipif(importlib.util.find_spec("keyring") is not None, reason="the extra is installed here")
def test_without_the_extra_there_is_one_sentence_with_the_command_to_type(tmp_path) -> None:
    with pytest.raises(CredentialError) as refusal:
        KeychainStore(str(tmp_path / "keyring.lock"), system_keychain).put(
            ApiKey(provider="work", secret=a_secret())
        )
    assert refusal.value.message == (
        f"The system keychain needs a package more. Install it: {install_command('keyring')}"
    )
