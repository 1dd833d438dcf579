"""The chain is a format: what it computes today it must compute in ten years."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from bridle.sessions.log import chain
from tables import table

PLACE = (1, None, None)


def test_the_first_link_hangs_on_the_log_id() -> None:
    assert chain.origin("log_A") != chain.origin("log_B")
    assert chain.origin("log_A") == sha256(b"bridle log log_A").digest()


def test_the_digest_covers_salt_and_payload() -> None:
    assert chain.digest(b"salt", b"payload") == sha256(b"saltpayload").digest()


def test_a_link_has_a_fixed_value() -> None:
    link = chain.link(bytes(32), 7, "TextDelta", 1_700_000_000_000, "cli_X", (3, '["a"]', None), bytes(32))
    assert link.hex() == "d412388cde2c03d12bd078515617ab7f413733f557f9031bc2212b0ca8b714ff"


@table(
    "other",
    [
        (b"\1" * 32, 1, "Kind", 5, "who", PLACE, b"d" * 32),
        (bytes(32), 2, "Kind", 5, "who", PLACE, b"d" * 32),
        (bytes(32), 1, "Kin", 5, "dwho", PLACE, b"d" * 32),
        (bytes(32), 1, "Kind", 6, "who", PLACE, b"d" * 32),
        (bytes(32), 1, "Kind", 5, "wh", PLACE, b"d" * 32),
        (bytes(32), 1, "Kind", 5, "who", (None, None, None), b"d" * 32),
        (bytes(32), 1, "Kind", 5, "who", (1, '["a"]', None), b"d" * 32),
        (bytes(32), 1, "Kind", 5, "who", (1, None, '["a"]'), b"d" * 32),
        (bytes(32), 1, "Kind", 5, "who", PLACE, b"e" * 32),
    ],
)
def test_every_field_changes_the_link(other) -> None:
    assert chain.link(*other) != chain.link(bytes(32), 1, "Kind", 5, "who", PLACE, b"d" * 32)


@given(st.text(), st.text(), st.text(), st.text())
def test_fields_never_run_into_each_other(kind, originator, other_kind, other_originator) -> None:
    first = chain.link(bytes(32), 1, kind, 5, originator, PLACE, bytes(32))
    second = chain.link(bytes(32), 1, other_kind, 5, other_originator, PLACE, bytes(32))
    assert (first == second) == ((kind, originator) == (other_kind, other_originator))
