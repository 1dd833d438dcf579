"""Typed-prefix ULIDs."""

import hashlib
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.ids import CALL, CLI, LOG, SESS, TOK, Ids, is_id, rewritten
from tables import table

ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
NOW_MS = 1_779_562_800_000


def source(*times_ms: int, random_byte: int | None = None) -> Ids:
    """A source whose clock shows these times, one per id."""
    times = iter(times_ms)
    if random_byte is None:
        return Ids(lambda: next(times), os.urandom)
    return Ids(lambda: next(times), lambda size: bytes([random_byte]) * size)


@pytest.mark.requirement("G5.1", "G5.2", "G5.3", "G5.5")
@table("prefix", [SESS, LOG, CALL, TOK, CLI])
def test_a_new_id_has_its_prefix_and_a_ulid(prefix: str):
    made = source(NOW_MS).new(prefix)
    assert re.fullmatch(f"{prefix}_{ULID}", made)
    assert is_id(made, prefix)


@pytest.mark.requirement("G5.1")
def test_the_layout_is_milliseconds_then_random_bits():
    assert source(0, random_byte=0).new(SESS) == "sess_" + "0" * 26
    assert source(2**48 - 1, random_byte=255).new(SESS) == "sess_7" + "Z" * 25
    assert source(1, random_byte=0).new(SESS) == "sess_" + "0000000001" + "0" * 16


@pytest.mark.requirement("G5.1")
@given(st.lists(st.integers(-5, 5).map(lambda step: NOW_MS + step), min_size=2, max_size=30))
def test_ids_of_one_source_always_grow(times_ms: list[int]):
    ids = source(*times_ms)
    made = [ids.new(CALL) for _ in times_ms]
    assert made == sorted(set(made))
    assert all(is_id(one, CALL) for one in made)


@pytest.mark.requirement("G5.1")
def test_a_full_millisecond_carries_into_the_next():
    ids = source(5, 5, random_byte=255)
    assert [ids.new(LOG), ids.new(LOG)] == [
        "log_" + "0000000005" + "Z" * 16,
        "log_" + "0000000006" + "0" * 16,
    ]


def test_the_end_of_all_ids_is_an_error_not_a_repeat():
    ids = source(2**60, 2**60, random_byte=255)
    ids.new(LOG)
    with pytest.raises(OverflowError):
        ids.new(LOG)


@pytest.mark.requirement("G5.1")
@table(
    "text",
    [
        "",
        "sess_",
        "sess_" + "0" * 25,
        "sess_" + "0" * 27,
        "sess_8" + "0" * 25,
        "sess_" + "0" * 25 + "I",
        "sess_" + "0" * 25 + "L",
        "sess_" + "0" * 25 + "O",
        "sess_" + "0" * 25 + "U",
        "sess_" + "0" * 25 + "a",
        "sess_" + "0" * 25 + "\n",
        "sess_" + "0" * 26 + "\n",
        "sess_" + "0" * 25 + "٣",
        "log_" + "0" * 26,
        "SESS_" + "0" * 26,
        "sess-" + "0" * 26,
    ],
)
def test_what_is_not_a_session_id_is_told_apart(text: str):
    assert not is_id(text, SESS)


@pytest.mark.requirement("G5.1")
@given(st.text(st.sampled_from("07ZAIU_ses"), max_size=32))
def test_is_id_agrees_with_the_pattern(text: str):
    assert is_id(text, SESS) == bool(re.fullmatch(f"sess_{ULID}", text))


@pytest.mark.requirement("G5.7")
def test_rewriting_is_the_same_for_everyone():
    old, log = "call_" + "0" * 26, "log_" + "1" * 26
    digest = int.from_bytes(hashlib.sha256((old + log).encode()).digest()[:16], "big")
    made = rewritten(old, log)
    assert made == rewritten(old, log)
    assert is_id(made, CALL)
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    assert sum(alphabet.index(char) << 5 * at for at, char in enumerate(reversed(made[5:]))) == digest


@pytest.mark.requirement("G5.7")
def test_rewriting_differs_by_id_and_by_log():
    ids, logs = ["call_" + char * 26 for char in "012"], ["log_" + char * 26 for char in "345"]
    assert len({rewritten(one, log) for one in ids for log in logs}) == 9


def test_rewriting_what_is_no_id_is_refused():
    with pytest.raises(ValueError, match="not an id"):
        rewritten("nonsense", "log_" + "0" * 26)
