"""Estimate the number of tokens in a text."""

from __future__ import annotations

from typing import Final

CHARACTERS_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 2_000
"""What an image stands for: vendors scale it down, so its bytes say nothing."""


def estimated_tokens(characters: int) -> int:
    """The tokens of one block with so many characters."""
    return -(-characters // CHARACTERS_PER_TOKEN) + 1
