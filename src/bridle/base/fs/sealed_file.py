"""An encrypted file, written once and read in pieces.

    "bridle sealed 1\\n" ‖ salt (16 bytes)
    then for each 64 KB, and for what is left at the end: AES-256-GCM(piece)

Every file has a key of its own, made of the given key and its salt; the nonce is the number of the piece. So no piece
can be changed, moved or brought in from another file. A file that ends early reads as far as it goes: whoever wrote it
may have been stopped. `label` says what the file is of; it opens under no other.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Generator
from typing import TYPE_CHECKING

from bridle.base.fs.files import write_all

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PIECE_BYTES = 64 * 1024
_HEAD = b"bridle sealed 1\n"
_SALT_BYTES = 16
_TAG_BYTES = 16
_NONCE_BYTES = 12


class SealedWriter:
    """Writes to an open, empty file, which belongs to it from here on. Every method raises OSError."""

    def __init__(self, fd: int, key: bytes, label: str) -> None:
        self._fd = fd
        salt = os.urandom(_SALT_BYTES)
        self._cipher = _cipher(key, salt)
        self._label = label.encode()
        self._number = 0
        self._waiting = bytearray()
        write_all(self._fd, _HEAD + salt)

    def write(self, data: bytes) -> None:
        """Takes more; up to a piece of it waits in memory."""
        self._waiting += data
        while len(self._waiting) >= PIECE_BYTES:
            self._seal(bytes(self._waiting[:PIECE_BYTES]))
            del self._waiting[:PIECE_BYTES]

    def close(self) -> None:
        """Writes what waits. The file is closed even where that fails."""
        try:
            if self._waiting:
                self._seal(bytes(self._waiting))
        finally:
            os.close(self._fd)

    def _seal(self, piece: bytes) -> None:
        write_all(self._fd, self._cipher.encrypt(_nonce(self._number), piece, self._label))
        self._number += 1


def unsealed(path: str, key: bytes, label: str) -> Generator[bytes]:
    """The pieces of a file, which is open while they are read. A link is not followed.

    Raises OSError, and ValueError with one clause where a piece is not what was written.
    """
    from cryptography.exceptions import InvalidTag

    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        head = file.read(len(_HEAD) + _SALT_BYTES)
        if len(head) < len(_HEAD) + _SALT_BYTES or not head.startswith(_HEAD):
            raise ValueError("it is not one of ours")
        cipher = _cipher(key, head[len(_HEAD) :])
        number = 0
        while len(sealed := file.read(PIECE_BYTES + _TAG_BYTES)) > _TAG_BYTES:
            try:
                yield cipher.decrypt(_nonce(number), sealed, label.encode())
            except InvalidTag:
                raise ValueError("it is not what was written") from None
            number += 1


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # ten milliseconds, for those who need it

    return AESGCM(hmac.new(key, b"bridle sealed file\0" + salt, hashlib.sha256).digest())


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_BYTES, "big")
