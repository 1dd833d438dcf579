"""`bridle redact`: text goes through as it comes, secrets do not, and what is no text is left alone."""

import os
import subprocess

import pytest

from bridle.base.secrets.redact import redact
from bridle.base.secrets.secret_shapes import kinds
from cli_kit import BRIDLE, TIMEOUT_S, Place
from secret_kit import planted


def filtered(place: Place, data: bytes) -> bytes:
    done = subprocess.run(
        [*BRIDLE, "redact"],
        input=data,
        capture_output=True,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.requirement("G33.2")
def test_a_hundred_secrets_go_in_and_none_comes_out(place: Place) -> None:
    found = planted(21)
    text = "".join(f"line {number}: {one.text}\nnext\n" for number, one in enumerate(found))
    out = filtered(place, text.encode()).decode()
    assert [one.kind for one in found if one.secret in out] == []
    assert out == redact(text)
    assert out.count("next\n") == len(found)


def test_bytes_that_are_no_text_pass_unchanged(place: Place) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    data = bytes(range(256)) * 600 + token.encode() + b"\xff\xfe\x00 caf\xc3\xa9 \xf0\x9f\x94\x91\xc3"
    assert filtered(place, data) == data.replace(token.encode(), "«redacted:github-token»".encode())


def test_a_line_comes_out_before_the_next_goes_in(place: Place) -> None:
    with subprocess.Popen(
        [*BRIDLE, "redact"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.environment()
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for line in ("first, with the word token", "https://me:hunter22@example.org/", "an sk", "Bearer"):
            running.stdin.write(f"{line}\n".encode())
            running.stdin.flush()
            assert running.stdout.readline().decode() == redact(f"{line}\n")
        running.stdin.close()
        assert running.wait(TIMEOUT_S) == 0


def test_a_reader_that_has_enough_is_no_error(place: Place) -> None:
    source = place.work / "much.txt"
    source.write_text("a line of text\n" * 200_000)
    bridle = " ".join(f"'{word}'" for word in BRIDLE)
    done = subprocess.run(
        ["/bin/sh", "-c", f"{bridle} redact < much.txt | head -1"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a line of text\n", b"")


def test_nothing_in_gives_nothing_out(place: Place) -> None:
    assert filtered(place, b"") == b""


def test_the_kinds_are_listed_with_a_line_each(place: Place) -> None:
    listed = place.bridle("redact", "--kinds")
    assert (listed.code, listed.err) == (0, "")
    assert [line.split(maxsplit=1) for line in listed.out.splitlines()] == [
        [kind, about] for kind, about in kinds().items()
    ]


def test_nothing_is_made_in_the_home(place: Place) -> None:
    filtered(place, b"some text\n")
    assert os.listdir(place.home) == []


def test_a_word_that_means_nothing_is_refused(place: Place) -> None:
    ran = place.bridle("redact", "--kimds")
    assert ran.code == 2
    assert "Did you mean --kinds?" in ran.err
