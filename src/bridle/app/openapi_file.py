"""The OpenAPI document of a listening engine. Run `python -m bridle.app.openapi_file FILE` after changing a command, a
query, a route or an option of a session; a test compares the committed copy.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bridle.app.settings import SessionOptions
from bridle.control.openapi import document


def openapi_document() -> bytes:
    return document(SessionOptions)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(openapi_document())
