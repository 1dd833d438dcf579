"""Call ids as strict vendors take them: letters, digits, `_` and `-`, not too long. Pure.

A conversation may hold ids of another vendor, who was freer.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_STRICT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def strict_id(wire_id: str) -> str:
    """The id itself if it is strict, else one that always stands for it."""
    if _STRICT.match(wire_id):
        return wire_id
    digest = hashlib.sha256(wire_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', wire_id)[:40]}_{digest[:12]}"
