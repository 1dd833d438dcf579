"""Write the OpenAPI document: `python -m bridle.app.service.openapi_file FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from bridle.app.user.settings import SessionOptions
from bridle.control.openapi import document


def openapi_document() -> bytes:
    return document(SessionOptions)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(openapi_document())
