"""Images for a prompt: an address passes through, a file becomes a `data:` address of reasonable size."""

from __future__ import annotations

import base64
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.files import read_limited
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


class ReadImage(msgspec.Struct, frozen=True):
    """An image as it is sent, with its width and height, and those it had before it was made smaller."""

    block: ImageBlock
    size: tuple[int, int] | None = None
    scaled_from: tuple[int, int] | None = None

    def label(self, name: str) -> str:
        """What stands for it where it cannot be seen."""
        scaled = f", scaled from {_by(self.scaled_from)}" if self.scaled_from else ""
        return f"[image {name}{' ' + _by(self.size) if self.size else ''}{scaled}]"


def image_block(source: str, *, max_bytes: int = MAX_BYTES, detail: Detail = "auto") -> ImageBlock:
    """Reads an image. Raises `UsageError` for what is none, cannot be read or is too large."""
    if source.startswith(("http://", "https://", "data:image/")):
        return ImageBlock(url=source, detail=detail)
    return read_image(source, max_bytes=max_bytes, detail=detail).block


def read_image(source: str, *, max_bytes: int = MAX_BYTES, detail: Detail = "auto") -> ReadImage:
    """Reads an image from a file. Raises `UsageError` for what is none, cannot be read or is too large."""
    try:
        contents = read_limited(source, max_bytes)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise UsageError(f"The image {source} cannot be read ({reason})") from None
    if contents.truncated:
        raise UsageError(f"The image {source} is larger than {_size(max_bytes)} (multimodal.max_image_bytes)")
    return image_of(contents.data, source, detail=detail)


def image_of(contents: bytes, source: str, *, detail: Detail = "auto") -> ReadImage:
    """An image from its bytes, smaller where it is large. Raises `UsageError` for what is none."""
    kind = _kind(contents)
    if kind is None:
        raise UsageError(f"{source} is not an image Bridle can send (PNG, JPEG, GIF or WebP)")
    data, kind = _downscaled(contents, kind)
    block = ImageBlock(url=f"data:{kind};base64,{base64.b64encode(data).decode()}", detail=detail)
    before, after = image_size(contents), image_size(data)
    return ReadImage(block, after, before if before != after else None)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height as the file says them; None where it does not, or not where it should."""
    match _kind(data):
        case "image/png" if len(data) >= 24:
            return _number(data, 16, 4), _number(data, 20, 4)
        case "image/gif" if len(data) >= 10:
            return _number(data, 6, 2, "little"), _number(data, 8, 2, "little")
        case "image/webp":
            return _webp_size(data)
        case "image/jpeg":
            return _jpeg_size(data)
        case _:
            return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8X":
            return _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1
        case b"VP8L":
            bits = _number(data, 21, 4, "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _number(data, 26, 2, "little") & 0x3FFF, _number(data, 28, 2, "little") & 0x3FFF
        case _:
            return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Goes from marker to marker until one that begins a frame; C4, C8 and CC only look like one."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _number(data, at + 7, 2), _number(data, at + 5, 2)
        at += 2 + _number(data, at + 2, 2)
    return None


def _number(data: bytes, at: int, length: int, order: Literal["big", "little"] = "big") -> int:
    return int.from_bytes(data[at : at + length], order)


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}\u00d7{size[1]}"


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
