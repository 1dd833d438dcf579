"""A known secret is taken out of a stream, whichever way the stream is cut, and nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.credentials.helper import Masking, masked

letters = st.text("ab/", max_size=60)
secrets = st.text("ab/", min_size=8, max_size=12)


def streamed(pieces: list[bytes], *secrets: str) -> bytes:
    masking = Masking(secrets)
    return b"".join([*map(masking.feed, pieces), masking.end()])


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({min(place, len(data)) for place in at})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@given(before=letters, secret=secrets, after=letters, at=st.lists(st.integers(0, 140), max_size=20))
def test_the_cuts_make_no_difference_and_the_secret_is_gone(
    before: str, secret: str, after: str, at: list[int]
) -> None:
    data = (before + secret + after).encode()
    whole = streamed([data], secret)
    assert streamed(cut(data, at), secret) == whole
    assert secret.encode() not in whole
    assert b"[redacted]" in whole


@given(data=st.binary(max_size=200), secret=st.text("0123456789", min_size=20, max_size=20))
def test_what_holds_no_secret_passes_unchanged(data: bytes, secret: str) -> None:
    assert streamed([data], secret) == data.replace(secret.encode(), b"[redacted]")


def test_only_what_may_be_the_beginning_of_a_secret_waits() -> None:
    masking = Masking(["secret-value"])
    assert masking.feed(b'data: {"text": "hello"}\n\n') == b'data: {"text": "hello"}\n\n'
    assert masking.feed(b"this is sec") == b"this is "
    assert masking.feed(b"ond") == b"second"
    assert masking.feed(b"secret-value") == b"[redacted]"
    assert masking.end() == b""


def test_a_slash_may_be_written_the_way_json_does_and_short_words_are_no_secrets() -> None:
    assert streamed([b'{"key": "abc\\/def\\/ghi"}'], "abc/def/ghi") == b'{"key": "[redacted]"}'
    assert masked("no such key: abc/def/ghi", ["abc/def/ghi"]) == "no such key: [redacted]"
    assert streamed([b"a key called key"], "key") == b"a key called key"
