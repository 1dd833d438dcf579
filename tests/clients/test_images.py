"""Images for a prompt: what passes through, what is read, what is refused."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.images import MAX_BYTES, ReadImage, image_block, image_size
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import ImageBlock
from tables import table

PNG = b"\x89PNG\r\n\x1a\n" + b"rest of it"


@pytest.mark.requirement("D15.1")
@table("url", ["https://example.com/cart.png", "http://example.com/x", "data:image/png;base64,AA=="])
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


def _png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")


@table(
    ("data", "size"),
    [
        (_png(1280, 720), (1280, 720)),
        (b"GIF89a" + (300).to_bytes(2, "little") + (20).to_bytes(2, "little"), (300, 20)),
        (
            b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc4\x00\x02\xff\xc0\x00\x11\x08\x00\x14\x01\x2c" + b"\x00" * 20,
            (300, 20),
        ),
        (
            b"RIFF\x00\x00\x00\x00WEBPVP8X" + b"\x00" * 8 + b"\x2b\x01\x00\x13\x00\x00" + b"\x00" * 4,
            (300, 20),
        ),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff", None),
        (b"RIFF\x00\x00\x00\x00WEBP", None),
        (b"no image", None),
    ],
)
def test_an_image_says_how_large_it_is(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(data) == size


@given(
    st.binary(max_size=200),
    st.sampled_from([b"\xff\xd8\xff", b"RIFF0000WEBP", b"GIF89a", b"\x89PNG\r\n\x1a\n", b""]),
)
def test_no_bytes_break_the_reading_of_sizes(data: bytes, lead: bytes) -> None:
    size = image_size(lead + data)
    assert size is None or all(side >= 0 for side in size)


def test_a_label_says_name_and_size_and_what_it_was_before() -> None:
    read = ReadImage(ImageBlock(url="data:"), (1568, 882), (4000, 2250))
    assert read.label("cart.png") == "[image cart.png 1568\u00d7882, scaled from 4000\u00d72250]"
    assert ReadImage(ImageBlock(url="data:")).label("a.gif") == "[image a.gif]"
