"""The layer that cuts output to size."""

import asyncio
import contextlib
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.engine.tools import ToolCall, ToolOutput
from bridle.protocol.errors import BridleError
from bridle.tools.output import WHOLE_BYTES, Spill, capped

pytestmark = pytest.mark.requirement("D9.7", "G7.6")


KEY = bytes(range(32))
END_BYTES = WHOLE_BYTES // 2
"""So much of the beginning stays, and of the end."""


def kept_in(folder: Path, **limits: int) -> Spill:
    return Spill(str(folder), lambda: KEY, **limits)


def read(spill: Spill, call_id: str = "call_1") -> str:
    pieces = spill.read(call_id)
    assert pieces is not None
    return b"".join(pieces).decode()


async def run(spill: Spill, pieces, content: str = "", live=None, partial=None) -> ToolOutput:
    async def proceed(call: ToolCall) -> ToolOutput:
        for piece in pieces:
            call.write(piece)
        return ToolOutput(content=content)

    return await capped(spill)(make_call(live, partial), proceed)


def make_call(live=None, partial=None) -> ToolCall:
    def ignore(_text: str) -> None: ...

    async def at_once() -> None: ...

    return ToolCall(
        id="call_1",
        name="bash",
        input={},
        step=1,
        originator="client_1",
        write=live.append if live is not None else ignore,
        passed_gates=at_once,
        partial=partial if partial is not None else [],
    )


async def test_32_kilobytes_pass_whole_and_leave_no_file(tmp_path) -> None:
    live: list[str] = []
    output = await run(kept_in(tmp_path / "s"), ["a" * 10_000, "b" * 22_000], "c" * 768, live)
    assert output == ToolOutput(content="a" * 10_000 + "b" * 22_000 + "c" * 768)
    assert "".join(live) == "a" * 10_000 + "b" * 22_000
    assert not (tmp_path / "s").exists()


async def test_one_byte_more_keeps_the_ends_and_spills_everything_to_a_private_file(tmp_path) -> None:
    spill = kept_in(tmp_path / "s")
    text = "a" * END_BYTES + "!" + "b" * END_BYTES
    output = await run(spill, [text[:20_000], text[20_000:]])
    marker = '[… 1 bytes left out; read_file with path "output:call_1", offset and limit shows them]'
    assert output.content == "a" * END_BYTES + f"\n{marker}\n" + "b" * END_BYTES
    assert output.metadata == {"truncated": True, "output_bytes": WHOLE_BYTES + 1}
    assert read(spill) == text
    (path,) = (tmp_path / "s").iterdir()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o700


async def test_a_long_returned_text_is_cut_like_a_stream(tmp_path) -> None:
    output = await run(kept_in(tmp_path), [], "x" * 100_000)
    assert len(output.content) < WHOLE_BYTES + 200
    assert output.metadata["output_bytes"] == 100_000


async def test_a_spill_that_cannot_be_written_costs_the_middle_and_not_the_call(tmp_path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    output = await run(kept_in(tmp_path / "s" / "deeper"), ["x" * 100_000])
    assert output.ok
    assert "could not be kept" in output.content


async def test_a_flood_is_kept_only_up_to_the_limit(tmp_path) -> None:
    spill = kept_in(tmp_path, max_bytes=50_000)
    output = await run(spill, ["x" * 10_000] * 10)
    assert output.content.split("\n")[1] == (
        f'[… {100_000 - WHOLE_BYTES} bytes left out; read_file with path "output:call_1", offset and limit shows '
        "the first 50000 of all 100000 bytes, the rest was not kept]"
    )
    assert read(spill) == "x" * 50_000


async def test_what_is_kept_cannot_be_read_without_the_key_nor_changed(tmp_path) -> None:
    spill = kept_in(tmp_path)
    await run(spill, ["the password of the day\n" * 5_000])
    (path,) = tmp_path.iterdir()
    sealed = path.read_bytes()
    assert b"password" not in sealed
    with pytest.raises(ValueError, match="not what was written"):
        list(Spill(str(tmp_path), lambda: bytes(32)).read("call_1") or ())
    path.write_bytes(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    with pytest.raises(ValueError, match="not what was written"):
        read(spill)
    path.rename(tmp_path / "output-call_2")
    with pytest.raises(ValueError, match="not what was written"):
        read(spill, "call_2")


async def test_the_oldest_outputs_of_a_session_give_way(tmp_path) -> None:
    spill = kept_in(tmp_path, max_bytes=40_000, max_session_bytes=100_000)
    for number in range(1, 6):
        with contextlib.closing(spill.open(f"call_{number}")) as file:
            file.write(b"x" * 40_000)
        os.utime(tmp_path / f"output-call_{number}", ns=(number, number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output-call_4", "output-call_5"]
    assert spill.read("call_3") is None
    assert read(spill, "call_4") == "x" * 40_000


async def test_an_output_without_a_key_costs_the_middle_and_not_the_call(tmp_path) -> None:
    def no_key() -> bytes:
        raise BridleError("NoSpace", folder="here")

    output = await run(Spill(str(tmp_path), no_key), ["x" * 100_000])
    assert output.ok
    assert "they could not be kept (No space left" in output.content


async def test_memory_stays_small_whatever_is_printed(tmp_path) -> None:
    piece = "x" * 65_536
    tracemalloc.start()
    try:
        output = await run(kept_in(tmp_path), (piece for _ in range(800)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert output.metadata["output_bytes"] == 800 * 65_536
    assert peak < 2_000_000


async def test_a_call_cut_short_leaves_what_it_printed(tmp_path) -> None:
    partial: list[str] = []

    async def proceed(call: ToolCall) -> ToolOutput:
        call.write("begun\n")
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await capped(kept_in(tmp_path))(make_call(partial=partial), proceed)
    assert partial == ["begun\n"]


@pytest.mark.parametrize("call_id", ["../x", "a/b", "", ".", "x" * 200, "a\0b"])
def test_only_a_plain_call_id_names_a_spill(tmp_path, call_id: str) -> None:
    spill = kept_in(tmp_path)
    assert spill.read(call_id) is None
    with pytest.raises(OSError, match="not the id of a call"):
        spill.open(call_id)


@given(
    unit=st.sampled_from(["a", "é", "€", "😀", "xé€😀"]),
    count=st.integers(1, 40_000),
    shift=st.integers(0, 4),
    piece=st.sampled_from([1000, 4099, 16_384, 50_000]),
)
def test_cuts_fall_between_characters(
    tmp_path_factory, unit: str, count: int, shift: int, piece: int
) -> None:
    text = "." * shift + unit * count
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    output = asyncio.run(run(kept_in(tmp_path_factory.getbasetemp() / "cuts"), pieces))
    if len(text.encode()) <= WHOLE_BYTES:
        assert output.content == text
        return
    head, marker, tail = output.content.split("\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert END_BYTES - 4 < len(head.encode()) <= END_BYTES
    assert END_BYTES - 4 < len(tail.encode()) <= END_BYTES
    left_out = int(marker.split()[1])
    assert left_out == len(text.encode()) - len(head.encode()) - len(tail.encode())
