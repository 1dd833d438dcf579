"""Server-sent events: what the vectors cannot say (limits, remembered fields, cost)."""

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.sse import LARGEST_RETRY_MS, SseFrame, SseFrameBuffer, SseFrameTooLarge
from tables import table

PIECES = st.sampled_from(
    [
        b"data",
        b"data: ",
        b"data:",
        b"event: e",
        b"id: 1",
        b"id",
        b"retry: 5",
        b":",
        b" ",
        b"x",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"\xc3",
        b"\xa9",
        b"\xff",
        b"\x00",
        "é😀".encode(),
        b"data: y\n\n",
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)


def read(chunks: list[bytes], max_frame_bytes: int = 1000) -> tuple[list[SseFrame], bool]:
    """The frames of a stream, and whether the limit was hit."""
    buffer = SseFrameBuffer(max_frame_bytes)
    frames: list[SseFrame] = []
    for chunk in chunks:
        try:
            frames += buffer.feed(chunk)
        except SseFrameTooLarge as error:
            return frames + error.completed, True
    return frames, False


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(at % (len(stream) + 1) for at in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


def plainly_read(stream: bytes) -> list[SseFrame]:
    """The event-stream rules written down again, as slowly and plainly as possible."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    frames: list[SseFrame] = []
    event, data, last_id, retry = "", "", None, None
    for line in text.split("\n")[:-1]:
        if not line:
            if data:
                frames.append(SseFrame(event or None, data[:-1], last_id, retry))
            event, data, retry = "", "", None
            continue
        name, value = line.split(":", 1) if ":" in line else (line, "")
        value = value.removeprefix(" ")
        if name == "data":
            data += value + "\n"
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and value and all(char in "0123456789" for char in value):
            retry = int(value)
    return frames


@pytest.mark.requirement("H3.1", "H3.2", "T15.1", "P26")
@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=12))
def test_any_stream_cut_anywhere_reads_like_the_rules_written_plainly(stream: bytes, cuts: list[int]):
    assert read(cut(stream, cuts)) == (plainly_read(stream), False)


@pytest.mark.requirement("H3.1")
@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=12), st.integers(0, 30))
def test_whether_the_limit_is_hit_does_not_depend_on_the_cuts(stream: bytes, cuts: list[int], limit: int):
    byte_by_byte = [stream[at : at + 1] for at in range(len(stream))]
    assert read(cut(stream, cuts), limit) == read([stream], limit) == read(byte_by_byte, limit)


@pytest.mark.requirement("P26")
def test_id_and_retry_of_a_frame_without_data_are_remembered():
    buffer = SseFrameBuffer()
    assert buffer.feed(b"id: 7\nretry: 250\n\n") == []
    assert (buffer.last_event_id, buffer.retry) == ("7", 250)
    assert buffer.feed(b"data: x\n\n") == [SseFrame(None, "x", "7", None)]


def test_an_id_takes_effect_only_when_its_frame_ends():
    buffer = SseFrameBuffer()
    buffer.feed(b"id: 7\ndata: x\n")
    assert buffer.last_event_id is None
    buffer.feed(b"\n")
    assert buffer.last_event_id == "7"


def test_a_retry_time_beyond_all_reason_saturates():
    buffer = SseFrameBuffer()
    buffer.feed(b"retry: " + b"9" * 5000 + b"\n")
    assert buffer.retry == LARGEST_RETRY_MS


def test_a_frame_past_the_limit_is_a_typed_error_that_keeps_what_came_before():
    buffer = SseFrameBuffer(max_frame_bytes=20)
    with pytest.raises(SseFrameTooLarge) as caught:
        buffer.feed(b"data: ok\n\ndata: " + b"x" * 30)
    assert caught.value.completed == [SseFrame(None, "ok", None, None)]
    assert caught.value.max_frame_bytes == 20
    with pytest.raises(SseFrameTooLarge):
        buffer.feed(b"\n\n")


def test_many_small_data_lines_count_towards_the_limit():
    buffer = SseFrameBuffer(max_frame_bytes=1000)
    for _ in range(200):
        buffer.feed(b"data\n")
    with pytest.raises(SseFrameTooLarge):
        buffer.feed(b"data\n")


def test_data_lines_and_an_unfinished_line_count_together():
    buffer = SseFrameBuffer(max_frame_bytes=20)
    buffer.feed(b"data: 12345\ndata: 12")
    with pytest.raises(SseFrameTooLarge):
        buffer.feed(b"3")


def test_comments_never_fill_the_buffer():
    buffer = SseFrameBuffer(max_frame_bytes=100)
    for _ in range(1000):
        assert buffer.feed(b": keep-alive\n") == []
    assert buffer.feed(b"data: x\n\n") == [SseFrame(None, "x", None, None)]


def test_a_huge_line_in_tiny_chunks_is_read_in_linear_time():
    buffer = SseFrameBuffer()
    buffer.feed(b"data: ")
    for _ in range(300_000):  # quadratic copying would move some 180 GB here
        buffer.feed(b"abcd")
    [frame] = buffer.feed(b"\n\n")
    assert len(frame.data) == 1_200_000


@pytest.mark.requirement("H16.1")
@table("module", ["net.sse", "net.backoff", "text.markdown", "ids", "clock", "net.jsonrpc"])
def test_each_module_stands_alone(module: str):
    script = f"import sys, bridle.base.{module}; print(*(name for name in sys.modules if 'bridle' in name))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    package = f"bridle.base.{module}".rpartition(".")[0]
    allowed = {"bridle", "bridle._version", "bridle.base", package, f"bridle.base.{module}"}
    assert {name for name in output.decode().split() if not name.startswith("_")} <= allowed
