"""Images for a prompt: an address passes through, a file becomes a `data:` address of reasonable size."""

from __future__ import annotations

import base64
from typing import Literal, TypeAlias

from bridle.base.files import read_limited
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import ImageBlock

Detail: TypeAlias = Literal["auto", "low", "high"]

MAX_BYTES = 8 * 1024 * 1024
MAX_SIDE_PX = 1568
"""Larger sides cost tokens and show a model nothing more."""

_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_block(source: str, *, max_bytes: int = MAX_BYTES, detail: Detail = "auto") -> ImageBlock:
    """Reads an image. Raises `UsageError` for what is none, cannot be read or is too large."""
    if source.startswith(("http://", "https://", "data:image/")):
        return ImageBlock(url=source, detail=detail)
    try:
        contents = read_limited(source, max_bytes)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"The image {source} cannot be read ({reason})") from None
    if contents.truncated:
        raise UsageError(f"The image {source} is larger than {_size(max_bytes)} (multimodal.max_image_bytes)")
    kind = _kind(contents.data)
    if kind is None:
        raise UsageError(f"{source} is not an image Bridle can send (PNG, JPEG, GIF or WebP)")
    data, kind = _downscaled(contents.data, kind)
    return ImageBlock(url=f"data:{kind};base64,{base64.b64encode(data).decode()}", detail=detail)


def _size(limit: int) -> str:
    return f"{limit:,} bytes" if limit % (1024 * 1024) else f"{limit // (1024 * 1024)} MB"


def _kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _KINDS.items() if data.startswith(magic)), None)


def _downscaled(data: bytes, kind: str) -> tuple[bytes, str]:
    """A smaller copy where the `images` extra is installed and the image is large; else the image itself."""
    try:
        from io import BytesIO

        from PIL import Image
    except ImportError:
        return data, kind
    try:
        with Image.open(BytesIO(data)) as image:
            if max(image.size) <= MAX_SIDE_PX:
                return data, kind
            form = "PNG" if kind == "image/png" else "JPEG"
            smaller = image if form == "PNG" else image.convert("RGB")
            smaller.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX))
            out = BytesIO()
            smaller.save(out, form)
    except (OSError, ValueError):
        return data, kind
    return out.getvalue(), f"image/{form.lower()}"
