"""`bridle redact`: copy stdin to stdout without secrets."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Mapping

from bridle.base.secrets.redact import StreamRedactor
from bridle.base.secrets.secret_shapes import kinds
from bridle.cli.console import say, unwritten

_READ_BYTES = 64 * 1024


def redact_verb(parsed: argparse.Namespace, _env: Mapping[str, str]) -> int:
    if parsed.kinds:
        width = max(map(len, kinds()))
        return say("".join(f"{kind:<{width}}   {about}\n" for kind, about in kinds().items()))
    return _filter(sys.stdin.fileno())


def _filter(source: int) -> int:
    """Copies `source` to stdout. Bytes that are no text pass unchanged; every read is passed on at once."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    stream = StreamRedactor()
    while data := os.read(source, _READ_BYTES):
        if failed := _written(stream.feed(decode(data))):
            return failed
    return _written(stream.feed(decode(b"", True)) + stream.flush())


def _written(text: str) -> int:
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except OSError as problem:
        return unwritten(problem)
    return 0
