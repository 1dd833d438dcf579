"""Where a link of an answer leads, as an address a terminal or a page may open. Pure.

A model wrote it, perhaps from what somebody else wrote: only the web and files of the session's folder are ever opened.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

_WEB: Final = re.compile(r"(https?)://([A-Za-z0-9.-]+(?::[0-9]{1,5})?)(?=[/?#]|\Z)([!-~]*)")
_FILE: Final = re.compile(r"(?:\./)?([A-Za-z0-9_@+,. -][^\x00-\x1f\x7f:\\?#]*)(?:(?::[0-9]+)+|#L[0-9L-]+)?")
_SAFE: Final = "/?#[]!$&()*+,;=:@%~-._"
MAX_CHARACTERS: Final = 2000


def address_of(target: str, folder: str = "") -> str:
    """The address to open, of characters no terminal obeys; empty where the target is not to be opened.

    `folder` is where relative paths begin; without one they are not opened.
    """
    if len(target) > MAX_CHARACTERS:
        return ""
    if web := _WEB.fullmatch(target):
        return f"{web[1]}://{web[2].lower()}{quote(web[3], safe=_SAFE)}"
    file = _FILE.fullmatch(target)
    if file is None or not folder.startswith("/") or ".." in file[1].split("/"):
        return ""
    return "file://" + quote("/".join((folder.rstrip("/"), file[1])))


def host_of(address: str) -> str:
    """Where an address of the web leads; empty for a file."""
    return address.split("/")[2] if address.startswith("http") else ""
