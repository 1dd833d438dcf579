"""Where a request's key comes from: the environment, then the store; and what of it must appear nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle.app.user.stored_keys import StoredKeys, key_path, store_path
from bridle.base.clock import SystemClock
from bridle.cli.accounts.login import credentials_row
from bridle.config.folders import Folders, folders
from bridle.credentials.locks import MACHINE_KEY, PASSPHRASE
from bridle.credentials.records import ApiKey, SignIn
from bridle.protocol.errors import CredentialError, ProviderError
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_directory import Models
from credentials.credential_kit import a_secret, made_key


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return folders({"BRIDLE_HOME": str(tmp_path / "bridle")})


def stored_keys(where: Folders, **env: str) -> StoredKeys:
    return StoredKeys(where=where, env=env, clock=SystemClock())


def models_with(where: Folders, **env: str) -> Models:
    return Models(env=env, clock=SystemClock(), stored=stored_keys(where, **env))


def endpoint(models: Models, name: str) -> Endpoint:
    return models.endpoint(name)


@pytest.mark.requirement("G36.8")
@pytest.mark.parametrize(
    ("provider", "variable"), [("openrouter", "OPENROUTER_API_KEY"), ("zai", "ZAI_API_KEY")]
)
def test_the_variables_of_vendors_are_read_and_go_before_what_is_stored(
    where: Folders, provider: str, variable: str
) -> None:
    stored_keys(where).store.put(ApiKey(provider=provider, secret=a_secret()))
    for env, source in (({variable: a_secret()}, variable), ({variable: ""}, "bridle login")):
        models = models_with(where, **env)
        assert models.key_source(endpoint(models, provider)) == source


@pytest.mark.requirement("C10")
def test_settings_and_the_variable_for_the_chosen_model_go_before_what_is_stored(where: Folders) -> None:
    stored_keys(where).store.put(ApiKey(provider="openai", secret=a_secret()))
    models = models_with(where, BRIDLE_API_KEY=a_secret())
    assert models.key_source(endpoint(models, "openai")) == "bridle login"
    models.choose("openai:some-model")
    assert models.key_source(endpoint(models, "openai")) == "BRIDLE_API_KEY"
    models = models.with_settings({"openai": {"api_key": a_secret()}})
    assert models.key_source(endpoint(models, "openai")) == "providers.openai.api_key"


async def test_what_was_found_and_what_opened_it_is_kept_out_of_every_text(where: Folders) -> None:
    phrase, access, renewing = a_secret(), a_secret(), a_secret()
    stored = stored_keys(where, **{PASSPHRASE: phrase})
    stored.store.put(SignIn(provider="openai", access_token=access, refresh_token=renewing))
    models = Models(env={}, clock=SystemClock(), stored=stored)
    assert models.keys_in_use() == {phrase}
    await stored.make_ready("openai", None, lambda: models.connections)
    assert models.keys_in_use() == {phrase, access, renewing}


async def test_who_needs_no_key_is_not_held_up_by_a_store_that_does_not_open(where: Folders) -> None:
    stored_keys(where, **{MACHINE_KEY: made_key()}).store.put(ApiKey(provider="openai", secret=a_secret()))
    models = models_with(where).with_settings(
        {"here": {"base_url": "http://127.0.0.1:9/v1"}, "there": {"base_url": "https://m.example/v1"}}
    )
    with pytest.raises(ProviderError) as local:
        await models.chat("here").models()
    assert local.value.reason == "ProviderUnreachable"
    with pytest.raises(ProviderError) as remote:
        await models.chat("there").models()
    assert remote.value.reason == "CredentialsLocked"
    with pytest.raises(CredentialError):
        models.with_keys()
    await models.close()


def test_a_stored_key_counts_as_a_key_at_hand_also_for_a_provider_of_ones_own(where: Folders) -> None:
    for name in ("work", "groq", "forgotten"):
        stored_keys(where).store.put(ApiKey(provider=name, secret=a_secret()))
    models = models_with(where, OPENAI_API_KEY=a_secret())
    models = models.with_settings({"work": {"base_url": "https://models.example/v1"}})
    assert [one.name for one in models.with_keys()] == ["openai", "groq", "work"]


# What doctor says


def row(where: Folders, **env: str) -> tuple[str, str]:
    return credentials_row(stored_keys(where, **env), where, env)


def test_doctor_says_what_is_stored_and_what_locks_it(where: Folders) -> None:
    assert row(where) == ("skip", "no keys are stored (bridle login)")
    stored_keys(where).store.put(ApiKey(provider="openai", secret=a_secret()))
    made = f"1 provider, encrypted, locked with the key in {key_path(where)}, which Bridle made by itself"
    assert row(where) == ("ok", made)
    assert row(where, **{PASSPHRASE: "p"}) == (
        "warn",
        f"{made}; BRIDLE_PASSPHRASE is set and not used (bridle login --lock passphrase)",
    )
    Path(key_path(where)).chmod(0o640)
    assert row(where) == ("warn", f"{made}, but others can read it: chmod 600 {key_path(where)}")
    key = {MACHINE_KEY: made_key()}
    stored_keys(where, **key).encrypted.relock("machine")
    assert row(where, **key) == ("ok", "1 provider, encrypted, locked with BRIDLE_MACHINE_KEY")
    assert row(where) == (
        "warn",
        "locked with BRIDLE_MACHINE_KEY; BRIDLE_MACHINE_KEY is not set, so stored keys are not found",
    )
    Path(store_path(where)).write_bytes(b"spoilt")
    with pytest.raises(CredentialError):  # doctor turns what a check raises into its row
        row(where)
