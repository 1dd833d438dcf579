"""The machine key of the environment: three spellings, and nothing else."""

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.credentials.locks import machine_key
from bridle.protocol.errors import CredentialError
from tables import table

keys = st.binary(min_size=32, max_size=32)


@pytest.mark.requirement("G36.4")
@given(keys)
def test_a_key_is_the_same_in_every_spelling(key: bytes) -> None:
    spellings = [
        key.hex(),
        key.hex().upper(),
        base64.b64encode(key).decode(),
        base64.b64encode(key).decode().rstrip("="),
        base64.urlsafe_b64encode(key).decode(),
        base64.b64encode(key).decode() + "\n",
    ]
    if b"\0" not in key:  # no environment can hold it
        spellings.append(os.fsdecode(key))
    assert {machine_key(text) for text in spellings} == {key}


def test_a_printable_key_of_32_characters_is_taken_as_it_is() -> None:
    assert machine_key("0123456789abcdef" * 2) == b"0123456789abcdef" * 2


@pytest.mark.requirement("G36.4")
@table(
    "text",
    [
        "",
        "x",
        "x" * 31,
        "x" * 33,
        "g" * 64,
        "00" * 31,
        "00" * 33,
        "A" * 42,
        "A" * 45,
        "A" * 43 + "B",
        "A" * 42 + "=",
        "A" * 42 + "B",  # bits that no 32 bytes have
        "A" * 42 + "!",
        "é" * 17,
    ],
)
def test_anything_else_is_refused_loudly_and_not_repeated(text: str) -> None:
    with pytest.raises(CredentialError) as refusal:
        machine_key(text)
    assert refusal.value.reason == "BadMachineKey"
    assert refusal.value.data == {}
    assert refusal.value.exit_code == 4


@given(st.text(max_size=100))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    try:
        assert (
            len(machine_key(text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))) == 32
        )
    except CredentialError as refusal:
        assert refusal.reason == "BadMachineKey"
