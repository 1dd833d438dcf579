"""Tokens as a stranger, a thief and a forger would use them."""

import base64
import hashlib
import hmac
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.ids import Ids
from bridle.conformance.fake_clock import FakeClock
from bridle.control.capability_tokens import FAILURES_A_MINUTE, LONGEST_TOKEN, Tokens
from bridle.control.token_files import TokenFile, open_tokens
from bridle.protocol.errors import CommandRefused
from bridle.protocol.tokens import Claims

SECRET = bytes(range(32))


class Folder:
    """One data folder, and the engines that use it."""

    def __init__(self, path):
        self.path = str(path)
        self.clock = FakeClock()
        self.ids = Ids(self.clock.now_ms, os.urandom)
        self.heard = []

    def engine(self, *, machine_key=None):
        return open_tokens(
            TokenFile(self.path, self.clock),
            clock=self.clock,
            ids=self.ids,
            machine_key=machine_key,
            hear=lambda reason, data: self.heard.append((reason, dict(data))),
        )


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "state")


def reason_of(action):
    with pytest.raises(CommandRefused) as refused:
        action()
    return refused.value.reason


def signed(secret, claims):
    body = claims if isinstance(claims, bytes) else msgspec.json.encode(claims)
    parts = body, hmac.new(secret, body, hashlib.sha256).digest()
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.requirement("P5", "G22.1")
def test_a_token_says_what_it_was_issued_for_to_every_engine_of_the_data_folder(folder):
    tokens = folder.engine()
    claims = tokens.new_claims(
        identity_class="human", sessions=("sess_1",), commands=("SendInput",), name="Ana"
    )
    token = tokens.issue(claims)
    assert token.count(".") == 1
    assert tokens.read(token) == claims
    assert folder.engine().read(token) == claims
    assert claims.exp == folder.clock.now_ms() // 1000 + 24 * 3600
    assert not claims.can_mint
    register = TokenFile(folder.path, folder.clock)
    assert os.stat(register.path).st_mode & 0o777 == 0o600
    with open(register.path) as file:
        assert token not in file.read()


@pytest.mark.requirement("P5")
def test_a_secret_has_at_least_32_bytes(folder):
    with pytest.raises(ValueError, match="32 bytes"):
        Tokens([b"short"], clock=folder.clock, ids=folder.ids, register=TokenFile("x", folder.clock))


@pytest.mark.requirement("G22.2", "X11")
def test_only_the_token_an_engine_is_started_with_may_name_no_sessions(folder):
    first, second = folder.engine(), folder.engine()
    own = first.issue_bootstrap()
    assert first.read(own).sessions is msgspec.UNSET
    assert first.read(own).can_mint
    assert reason_of(lambda: second.read(own)) == "TokenInvalid"
    unbound = first.new_claims(identity_class="agent")
    assert reason_of(lambda: first.issue(unbound)) == "MintRefused"
    none = first.read(first.issue(first.new_claims(identity_class="human", sessions=())))
    assert not none.covers_session("sess_1")


@pytest.mark.requirement("G22.15")
def test_a_token_from_a_file_may_name_none_where_the_machine_key_is_the_same(folder, tmp_path):
    key = os.urandom(32)
    desk = folder.engine(machine_key=key)
    token = desk.issue_provisioned(desk.new_claims(identity_class="agent"))
    job = Folder(tmp_path / "job").engine(machine_key=key)
    assert reason_of(lambda: job.read(token)) == "TokenInvalid"
    job.start_with(token)
    assert job.read(token).identity_class == "agent"
    stranger = Folder(tmp_path / "stranger").engine()
    assert reason_of(lambda: stranger.start_with(token)) == "TokenInvalid"


@pytest.mark.requirement("G22.11", "G47.5", "X11")
async def test_a_token_holds_from_its_beginning_to_its_end(folder):
    tokens = folder.engine()
    now_s = folder.clock.now_ms() // 1000
    claims = tokens.new_claims(identity_class="agent", sessions=("sess_1",), nbf=now_s + 60, life_s=120)
    token = tokens.issue(claims)
    assert reason_of(lambda: tokens.read(token)) == "TokenNotYetValid"
    await folder.clock.advance(60)
    assert tokens.read(token) == claims
    await folder.clock.advance(60)
    with pytest.raises(CommandRefused) as refused:
        tokens.read(token)
    assert refused.value.message == (
        "Capability token expired at 2026-05-23T19:02:00.000Z. "
        "Mint a new one: bridle token --session sess_1 --identity-class agent."
    )


@pytest.mark.requirement("G22.9", "G37.3", "G47.5")
def test_a_revoked_token_is_refused_by_every_engine_at_once_and_after_a_restart(folder):
    serving, terminal = folder.engine(), folder.engine()
    claims = terminal.new_claims(identity_class="human", sessions=("sess_1",))
    token = terminal.issue(claims)
    serving.read(token)
    terminal.revoke(claims.jti)
    with pytest.raises(CommandRefused) as refused:
        serving.read(token)
    assert refused.value.message == (
        f"Token {claims.jti} was revoked at 2026-05-23T19:00:00.000Z. Mint a new one via /v1/auth/token."
    )
    assert reason_of(lambda: serving.check(claims)) == "TokenRevoked"
    assert reason_of(lambda: folder.engine().read(token)) == "TokenRevoked"
    assert reason_of(lambda: terminal.revoke("tok_nobody")) == "UnknownToken"
    own = serving.issue_bootstrap()
    held = serving.read(own)
    serving.revoke(held.jti)
    assert reason_of(lambda: serving.read(own)) == "TokenRevoked"
    assert reason_of(lambda: serving.check(held)) == "TokenRevoked"


@pytest.mark.requirement("G22.3", "G22.6", "G25.2")
@pytest.mark.parametrize(
    "changes",
    [
        {"ver": 2},
        {"critical_claims": ["moon_phase"], "moon_phase": "full"},
        {"identity_class": "god"},
        {"jti": "t"},
        {"exp": "soon"},
        {"sessions": None},
    ],
)
def test_claims_this_version_does_not_understand_are_refused_though_the_signature_is_good(folder, changes):
    tokens = folder.engine()
    good = {"ver": 1, "jti": folder.ids.new("tok"), "identity_class": "human", "exp": 2**40, "sessions": []}
    secret = TokenFile(folder.path, folder.clock).secret
    assert tokens.read(signed(secret, good)).exp == 2**40
    assert tokens.read(signed(secret, {**good, "x_vendor": 1})).exp == 2**40
    assert reason_of(lambda: tokens.read(signed(secret, {**good, **changes}))) == "TokenInvalid"


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda body: signed(bytes(32), body)))
def test_what_nobody_here_signed_is_refused_whatever_it_looks_like(text):
    clock = FakeClock()
    register = TokenFile("/nonexistent/state", clock)
    tokens = Tokens([SECRET], clock=clock, ids=Ids(clock.now_ms, os.urandom), register=register)
    assert reason_of(lambda: tokens.read(text)) == "TokenInvalid"


def test_one_token_has_one_spelling(folder):
    tokens = folder.engine()
    token = tokens.issue(tokens.new_claims(identity_class="human", sessions=("sess_1",)))
    body, mac = token.split(".")
    for other in (f"{body}=.{mac}", f"{body}.{mac}=", f"{token}.", f" {token}", f"{body}.{mac[:-1]}", body):
        assert reason_of(lambda other=other: tokens.read(other)) == "TokenInvalid"


async def test_failures_are_counted_logged_without_the_token_and_limited_by_peer(folder):
    tokens = folder.engine()
    good = tokens.issue(tokens.new_claims(identity_class="human", sessions=("sess_1",)))
    for _ in range(FAILURES_A_MINUTE):
        assert reason_of(lambda: tokens.read("wrong.token", peer="10.0.0.9")) == "TokenInvalid"
    assert reason_of(lambda: tokens.read("wrong.token", peer="10.0.0.9")) == "TooManyFailures"
    assert reason_of(lambda: tokens.read("wrong.token", peer="10.0.0.8")) == "TokenInvalid"
    assert tokens.read(good, peer="10.0.0.9").sessions == ("sess_1",)
    assert tokens.refusals == {"TokenInvalid": FAILURES_A_MINUTE + 1, "TooManyFailures": 1}
    assert folder.heard[0] == ("TokenInvalid", {"peer": "10.0.0.9"})
    assert "wrong" not in str(folder.heard)
    await folder.clock.advance(61)
    assert reason_of(lambda: tokens.read("wrong.token", peer="10.0.0.9")) == "TokenInvalid"


def test_a_register_that_cannot_be_read_lets_nobody_in(folder):
    tokens = folder.engine()
    token = tokens.issue(tokens.new_claims(identity_class="human", sessions=("sess_1",)))
    path = TokenFile(folder.path, folder.clock).path
    os.chmod(path, 0o644)
    os.utime(path, ns=(1, 1))
    assert reason_of(lambda: tokens.read(token)) == "TokensUnusable"
    os.chmod(path, 0o600)
    tokens.read(token)
    with open(path, "w") as file:
        file.write("{}")
    assert reason_of(lambda: tokens.read(token)) == "TokensUnusable"
    os.remove(path)
    assert reason_of(lambda: folder.engine().read(token)) == "TokenInvalid"


def test_a_state_folder_that_cannot_be_written_is_one_sentence(folder, tmp_path):
    (tmp_path / "state").write_text("a file where the folder should be")
    assert reason_of(folder.engine) == "TokensUnusable"


@pytest.mark.parametrize("replaced", [False, True])
def test_without_the_register_it_began_with_an_engine_admits_nobody(folder, replaced):
    engine = folder.engine()
    claims = engine.new_claims(identity_class="human", sessions=("sess_1",))
    token, own = engine.issue(claims), engine.issue_bootstrap()
    engine.revoke(claims.jti)
    os.unlink(os.path.join(folder.path, "tokens.json"))
    if replaced:
        folder.engine()
    assert reason_of(lambda: engine.read(token)) == "TokensUnusable"
    assert reason_of(lambda: engine.read(own)) == "TokensUnusable"
    assert reason_of(lambda: engine.issue(claims)) == "TokensUnusable"


def test_nothing_is_accepted_after_the_end(folder):
    tokens = folder.engine()
    token = tokens.issue(tokens.new_claims(identity_class="human", sessions=("sess_1",)))
    tokens.close()
    assert reason_of(lambda: tokens.read(token)) == "TokenInvalid"


def test_claims_without_a_name_are_written_as_before():
    assert b"name" not in msgspec.json.encode(Claims(ver=1, jti="t", identity_class="human", exp=1))


def test_one_short_secret_among_good_ones_is_refused(folder):
    good, short = os.urandom(32), os.urandom(31)
    register = TokenFile(folder.path, folder.clock)
    for secrets in ((short,), (good, short), ()):
        with pytest.raises(ValueError, match="32 bytes"):
            Tokens(secrets, clock=folder.clock, ids=folder.ids, register=register)
    Tokens((good,), clock=folder.clock, ids=folder.ids, register=register)


def test_a_token_an_engine_is_started_with_is_on_the_register_once(folder, tmp_path):
    tokens = folder.engine(machine_key=b"k" * 32)
    token = tokens.issue_provisioned(tokens.new_claims(identity_class="human"))
    for _ in range(2):
        tokens.start_with(token)
    assert [one.claims.jti for one in tokens.issued] == [tokens.read(token).jti]
    elsewhere = Folder(tmp_path / "elsewhere").engine(machine_key=b"k" * 32)
    jti = elsewhere.start_with(token).jti
    assert [one.claims.jti for one in elsewhere.issued] == [jti], "so that it can be revoked there"
    elsewhere.revoke(jti)
    assert reason_of(lambda: elsewhere.read(token)) == "TokenRevoked"


def test_what_is_longer_than_any_token_is_not_even_looked_at(folder):
    tokens = folder.engine()
    secret = base64.b64decode(msgspec.json.decode(Path(folder.path, "tokens.json").read_bytes())["secret"])
    sessions = tuple(f"sess_{number}" for number in range(9_000))
    claims = msgspec.structs.replace(tokens.new_claims(identity_class="human"), sessions=sessions)
    long = signed(secret, claims)
    assert len(long) > LONGEST_TOKEN
    assert reason_of(lambda: tokens.read(long)) == "TokenInvalid"
    assert tokens.read(signed(secret, msgspec.structs.replace(claims, sessions=sessions[:9]))).sessions
    assert reason_of(lambda: tokens.read("nodot")) == "TokenInvalid"


async def test_who_failed_too_often_is_told_how_long_to_wait(folder):
    tokens = folder.engine()
    for _ in range(FAILURES_A_MINUTE):
        reason_of(lambda: tokens.read("wrong.token", peer="a"))
    await folder.clock.advance(20)
    with pytest.raises(CommandRefused) as refused:
        tokens.read("wrong.token", peer="a")
    assert refused.value.data["retry_after_s"] == 40
    await folder.clock.advance(40)
    assert reason_of(lambda: tokens.read("wrong.token", peer="a")) == "TokenInvalid"
