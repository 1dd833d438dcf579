"""A sealed file gives back what was written, as far as it goes, and nothing else."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.fs.sealed_file import PIECE_BYTES, SealedWriter, unsealed

KEY = bytes(range(32))
HEAD = 32
SEALED = PIECE_BYTES + 16


def written(path: Path, *pieces: bytes) -> Path:
    file = SealedWriter(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), KEY, "call_1")
    for piece in pieces:
        file.write(piece)
    file.close()
    return path


def read(path: Path, key: bytes = KEY, label: str = "call_1") -> bytes:
    return b"".join(unsealed(str(path), key, label))


@given(st.lists(st.integers(0, 150_000), max_size=5), st.binary(min_size=1, max_size=3))
def test_what_was_written_comes_back_however_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], unit: bytes
) -> None:
    pieces = [unit * (size // len(unit)) for size in sizes]
    path = written(tmp_path_factory.getbasetemp() / "cut", *pieces)
    assert read(path) == b"".join(pieces)


def test_a_file_that_ends_early_reads_as_far_as_its_last_whole_piece(tmp_path: Path) -> None:
    path = written(tmp_path / "a", b"x" * (2 * PIECE_BYTES + 5))
    for size, pieces in ((HEAD, 0), (HEAD + SEALED, 1), (HEAD + 2 * SEALED, 2), (HEAD + 2 * SEALED + 9, 2)):
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes()[:size])
        assert read(copy) == b"x" * (pieces * PIECE_BYTES)


@pytest.mark.parametrize("at", [20, HEAD, HEAD + SEALED - 1, HEAD + SEALED + 7])
def test_one_changed_bit_is_found(tmp_path: Path, at: int) -> None:
    path = written(tmp_path / "a", b"x" * (PIECE_BYTES + 100))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="it is not what was written"):
        read(path)


def test_pieces_cannot_change_places_nor_files_nor_labels(tmp_path: Path) -> None:
    path = written(tmp_path / "a", b"x" * PIECE_BYTES, b"y" * PIECE_BYTES)
    other = written(tmp_path / "b", b"x" * PIECE_BYTES, b"y" * PIECE_BYTES)
    data, others = path.read_bytes(), other.read_bytes()
    assert data != others
    first, second = data[HEAD : HEAD + SEALED], data[HEAD + SEALED :]
    for spoiled in (data[:HEAD] + second + first, data[:HEAD] + others[HEAD:]):
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match="it is not what was written"):
            read(path)
    for key, label in ((bytes(32), "call_1"), (KEY, "call_2")):
        with pytest.raises(ValueError, match="it is not what was written"):
            read(other, key, label)


def test_another_file_is_none_of_ours_and_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("some text")
    with pytest.raises(ValueError, match="it is not one of ours"):
        read(tmp_path / "plain")
    (tmp_path / "link").symlink_to(written(tmp_path / "a", b"x"))
    with pytest.raises(OSError, match="symbolic links"):
        read(tmp_path / "link")
