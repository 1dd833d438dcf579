"""Reasons, handshake, claims and the exported schema."""

import json
import re
import string
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.protocol import schema
from bridle.protocol.errors import (
    SENTENCES,
    BridleError,
    CommandRefused,
    ProviderError,
    exit_code_of,
    sentence,
)
from bridle.protocol.handshake import PROTOCOL_VERSION, check_version, handshake
from bridle.protocol.tokens import read_claims
from tables import table


def claims(**changes):
    fields = {"ver": 1, "jti": "tok_" + "0" * 26, "identity_class": "agent", "exp": 10, **changes}
    return json.dumps(fields).encode()


@pytest.mark.requirement("G47.1")
def test_every_reason_has_one_sentence_and_a_documented_exit_code():
    for reason, known in SENTENCES.items():
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", reason)
        assert known.text
        assert known.exit_code in {1, 2, 3, 4, 5, 124}


@pytest.mark.requirement("G47.1", "G47.3", "G47.4", "G47.11")
@table(
    ("reason", "data", "text"),
    [
        ("TurnInProgress", {"originator": "cli_1", "ts": "now"}, "started by cli_1 at now"),
        (
            "PermissionTimeout",
            {"tool": "bash", "timeout_s": 60},
            "Permission for bash not answered within 60s. Tool call cancelled.",
        ),
        ("PermissionDenied", {"tool": "bash", "client": "you"}, "Permission denied for bash by you."),
        ("HandshakeRequired", {}, "before any command"),
        ("RateLimited", {"provider": "p", "retry_after_s": 20}, "Retrying in 20s"),
        (
            "HandshakeVersionMismatch",
            {"client_version": "1", "server_version": "2", "older": "it"},
            "Upgrade it.",
        ),
    ],
)
def test_sentences_are_filled_from_data(reason, data, text):
    assert text in sentence(reason, data)


def test_a_missing_value_stays_visible_and_never_raises():
    assert sentence("UnknownTool", {}) == 'There is no tool "<tool>". Tools: <known>.'


def test_a_plugins_own_reason_brings_its_own_message():
    assert BridleError("Custom:acme:full", message="The tank is full.").message == "The tank is full."
    assert exit_code_of("Custom:acme:full") == 1
    assert exit_code_of(None) == 1


def test_a_provider_error_says_whether_and_when_to_try_again():
    error = ProviderError("RateLimited", retryable=True, retry_after_s=2.5, provider="work")
    assert error.retryable
    assert "Retrying in 2.5s" in error.message


def test_the_handshake_lists_versions_kinds_and_only_features_that_exist():
    hello = handshake(features=("ws", "rest"))
    assert hello.protocol_version == "0.2.0"
    assert (hello.canonical_form_version, hello.schema_version_session_log) == (1, 1)
    assert (hello.schema_version_token_claim, hello.schema_version_profile) == (1, 1)
    assert {"SendInput", "CancelTurn", "AnswerPermission"} <= set(hello.command_kinds)
    assert {"TextDelta", "TurnEnded", "HookError"} <= set(hello.event_kinds)
    assert set(hello.features) - set(handshake().features) == {"rest", "ws"}


@table(
    ("theirs", "ours", "fits"),
    [
        ("0.1.0", "0.1.9", True),
        ("0.2.0", "0.1.0", False),
        ("1.0.0", "1.7.2", True),
        ("2.0.0", "1.7.2", False),
        ("1.0.0-rc1", "1.0.0", True),
        ("one", "0.1.0", False),
        ("", "0.1.0", False),
    ],
)
def test_versions_fit_by_minor_before_one_and_by_major_after(theirs, ours, fits):
    if fits:
        check_version(theirs, ours)
        return
    with pytest.raises(CommandRefused) as refused:
        check_version(theirs, ours)
    assert refused.value.reason == "HandshakeVersionMismatch"


@given(st.text(string.printable))
def test_any_version_text_fits_or_is_refused(theirs):
    try:
        check_version(theirs, PROTOCOL_VERSION)
    except CommandRefused as refused:
        assert refused.reason == "HandshakeVersionMismatch"


def test_absent_sessions_mean_all_and_an_empty_list_means_none():
    everything = read_claims(claims())
    nothing = read_claims(claims(sessions=[], commands=[]))
    one = read_claims(claims(sessions=["sess_1"], commands=["SendInput"]))
    assert everything.covers_session("sess_1")
    assert everything.covers_command("SendInput")
    assert not nothing.covers_session("sess_1")
    assert not nothing.covers_command("SendInput")
    assert one.covers_session("sess_1")
    assert not one.covers_session("sess_2")
    assert not one.covers_command("CancelTurn")
    assert not everything.can_mint


@table(
    "raw",
    [
        claims(ver=2),
        claims(critical_claims=["moon_phase"]),
        claims(critical_claims="sessions"),
        claims(identity_class="god"),
        claims(exp="soon"),
        b"[]",
        b"{",
        b'{"ver":1}',
    ],
)
def test_claims_that_are_not_understood_are_refused(raw):
    with pytest.raises(CommandRefused) as refused:
        read_claims(raw)
    assert refused.value.reason == "TokenInvalid"


def test_unknown_claims_that_are_not_critical_are_ignored():
    assert read_claims(claims(x_vendor=1, critical_claims=["sessions", "exp"], sessions=[])).exp == 10


def test_the_exported_schema_is_the_one_of_the_types(repository):
    folder = Path(repository) / "docs" / "schema"
    written = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert written == schema.documents(), "run: .venv/bin/python -m bridle.protocol.schema docs/schema"


def test_the_schema_is_json_and_names_every_definition_it_uses():
    for text in schema.documents().values():
        document = msgspec.json.decode(text)
        used = set(re.findall(r'"#/\$defs/([^"]+)"', text.decode()))
        assert used <= set(document["$defs"])


@pytest.mark.requirement("G25.5")
@pytest.mark.parametrize(
    "name", ["commands", "events", "handshake", "queries", "query-answers", "token-claims"]
)
def test_names_that_begin_with_x_or_an_underscore_are_left_to_others(repository: Path, name: str) -> None:
    """`x_` belongs to vendors, `_` is never on the wire: nothing of ours has such a name."""

    def names(schema: object) -> Iterator[str]:
        if isinstance(schema, dict):
            yield from schema.get("properties", {})
            for one in schema.values():
                yield from names(one)
        elif isinstance(schema, list):
            for one in schema:
                yield from names(one)

    schema = json.loads((repository / f"docs/schema/{name}.json").read_text("utf-8"))
    ours = set(names(schema))
    assert len(ours) > 2
    assert not [one for one in ours if one.startswith(("x_", "_"))]
