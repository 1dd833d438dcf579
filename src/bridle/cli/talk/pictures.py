"""Attach images from a dropped path or the clipboard."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import read_output
from bridle.base.text.terminal_text import visible
from bridle.clients.images import MAX_BYTES, image_of, read_image
from bridle.clients.interaction.composer.composer import Picture
from bridle.clients.interaction.composer.pasted_paths import is_image_name
from bridle.config.tiers import Tiers
from bridle.protocol.errors import UsageError

CLIPBOARD_S: Final = 5.0
_FAR_AWAY: Final = "bridle cannot read this clipboard; use @path"


def picture_at(path: str, tiers: Tiers) -> Picture | None:
    """The image in a file; None where there is none. Raises `UsageError` for one that cannot be sent."""
    if not is_image_name(path) or not os.path.isfile(path):
        return None
    limit, detail = tiers.get("multimodal.max_image_bytes"), tiers.get("multimodal.detail")
    read = read_image(path, max_bytes=limit, detail=detail)
    return Picture(read.label(visible(os.path.basename(path), newlines=False)), read.block)


async def picture_on_clipboard(env: Mapping[str, str]) -> Picture:
    """The image on the person's clipboard. Raises `UsageError` where there is none or none can be read."""
    program = _clipboard_program(env)
    try:
        code, data = await read_output(program, env=env, timeout_s=CLIPBOARD_S, max_bytes=MAX_BYTES)
    except CannotStart:
        raise UsageError(f"{_FAR_AWAY} ({program[0]} could not be started)") from None
    if code or not data:
        raise UsageError("There is no image on the clipboard. A file: @path, or drop it here")
    if len(data) > MAX_BYTES:
        raise UsageError(f"The image on the clipboard is larger than {MAX_BYTES // (1024 * 1024)} MB")
    read = image_of(data, "What is on the clipboard")
    return Picture(read.label("clipboard"), read.block)


def _clipboard_program(env: Mapping[str, str]) -> list[str]:
    """The program that gives an image. At the other end of a connection there is no clipboard of ours."""
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        raise UsageError(_FAR_AWAY)
    if sys.platform == "darwin":
        wanted, package = ["pngpaste", "-"], "pngpaste"
    elif env.get("WAYLAND_DISPLAY"):
        wanted, package = ["wl-paste", "--no-newline", "--type", "image/png"], "wl-clipboard"
    elif env.get("DISPLAY"):
        wanted, package = ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"], "xclip"
    else:
        raise UsageError(_FAR_AWAY)
    if shutil.which(wanted[0], path=env.get("PATH")) is None:
        raise UsageError(f"{_FAR_AWAY}, or install {package}")
    return wanted
