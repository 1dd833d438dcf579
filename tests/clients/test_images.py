"""Images for a prompt: what passes through, what is read, what is refused."""

import base64
from pathlib import Path

import pytest

from bridle.clients.images import MAX_BYTES, image_block
from bridle.protocol.errors import UsageError

PNG = b"\x89PNG\r\n\x1a\n" + b"rest of it"


@pytest.mark.requirement("D15.1")
@pytest.mark.parametrize(
    "url", ["https://example.com/cart.png", "http://example.com/x", "data:image/png;base64,AA=="]
)
def test_an_address_passes_through(url: str) -> None:
    block = image_block(url)
    assert (block.url, block.detail) == (url, "auto")


@pytest.mark.requirement("D15.1")
@pytest.mark.parametrize(
    ("begins", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
    ],
)
def test_a_file_becomes_an_address_with_its_bytes(tmp_path: Path, begins: bytes, kind: str) -> None:
    path = tmp_path / "cart"
    path.write_bytes(begins)
    assert image_block(str(path)).url == f"data:{kind};base64," + base64.b64encode(begins).decode()


@pytest.mark.requirement("D15.1")
def test_a_file_of_the_largest_size_is_taken_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(PNG.ljust(MAX_BYTES, b"x"))
    assert image_block(str(path)).url.startswith("data:image/png;base64,")
    path.write_bytes(PNG.ljust(MAX_BYTES + 1, b"x"))
    with pytest.raises(UsageError, match="is larger than 8 MB"):
        image_block(str(path))


@pytest.mark.parametrize("name", ["nowhere.png", "."])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        image_block(str(tmp_path / name))


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("just words")
    with pytest.raises(UsageError, match="is not an image Bridle can send"):
        image_block(str(path))


def test_the_limit_and_the_detail_are_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "cart.png"
    path.write_bytes(PNG)
    assert image_block(str(path), max_bytes=len(PNG), detail="low").detail == "low"
    assert image_block("https://example.com/x.png", detail="high").detail == "high"
    with pytest.raises(UsageError, match=r"is larger than 17 bytes \(multimodal\.max_image_bytes\)"):
        image_block(str(path), max_bytes=len(PNG) - 1)
