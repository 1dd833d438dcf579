"""Recognise paths that a terminal pastes for dropped files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from bridle.clients.interaction.composer.composer import Picture

_LONGEST: Final = 4096
IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How the names of images end that can be sent."""


def is_image_name(path: str) -> bool:
    return path.lower().endswith(IMAGES)


def pictures_in(pasted: str, picture: Callable[[str], Picture | None]) -> Sequence[Picture]:
    """The images a paste names, if it names nothing else; `picture` reads the one at a path."""
    if len(pasted) > _LONGEST or not any(end in pasted.lower() for end in IMAGES):
        return ()
    whole = pasted.strip()
    if is_image_name(whole) and (one := picture(whole)) is not None:  # copied as it stands, with its blanks
        return (one,)
    found: list[Picture] = []
    for path in _paths(pasted):
        one = picture(path) if is_image_name(path) else None
        if one is None:
            return ()
        found.append(one)
    return found


def _paths(pasted: str) -> list[str]:
    try:
        words = shlex.split(pasted)
    except ValueError:  # an apostrophe in a name
        words = [pasted.strip()]
    return [unquote(word.removeprefix("file://")) if word.startswith("file://") else word for word in words]
