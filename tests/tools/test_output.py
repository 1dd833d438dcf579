"""The layer that cuts output to size."""

import asyncio
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.engine.tools import ToolCall, ToolOutput
from bridle.tools.output import HEAD_BYTES, TAIL_BYTES, WHOLE_BYTES, Spill, capped

pytestmark = pytest.mark.requirement("D9.7", "G7.6")


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
    output = await run(Spill(str(tmp_path / "s")), ["a" * 10_000, "b" * 22_000], "c" * 768, live)
    assert output == ToolOutput(content="a" * 10_000 + "b" * 22_000 + "c" * 768)
    assert "".join(live) == "a" * 10_000 + "b" * 22_000
    assert not (tmp_path / "s").exists()


async def test_one_byte_more_keeps_the_ends_and_spills_everything_to_a_private_file(tmp_path) -> None:
    spill = Spill(str(tmp_path / "s"))
    text = "a" * HEAD_BYTES + "!" + "b" * TAIL_BYTES
    output = await run(spill, [text[:20_000], text[20_000:]])
    marker = '[… 1 bytes left out; read_file with path "output:call_1", offset and limit shows them]'
    assert output.content == "a" * HEAD_BYTES + f"\n{marker}\n" + "b" * TAIL_BYTES
    assert output.metadata == {"truncated": True, "output_bytes": WHOLE_BYTES + 1}
    path = spill.path_of("call_1")
    assert path is not None
    assert Path(path).read_text() == text
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o700


async def test_a_long_returned_text_is_cut_like_a_stream(tmp_path) -> None:
    output = await run(Spill(str(tmp_path)), [], "x" * 100_000)
    assert len(output.content) < WHOLE_BYTES + 200
    assert output.metadata["output_bytes"] == 100_000


async def test_a_spill_that_cannot_be_written_costs_the_middle_and_not_the_call(tmp_path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    output = await run(Spill(str(tmp_path / "s" / "deeper")), ["x" * 100_000])
    assert output.ok
    assert "could not be kept" in output.content


async def test_a_flood_is_kept_only_up_to_the_limit(tmp_path) -> None:
    spill = Spill(str(tmp_path), max_bytes=50_000)
    output = await run(spill, ["x" * 10_000] * 10)
    assert "only the beginning was kept" in output.content
    assert os.stat(spill.path_of("call_1") or "").st_size == 50_000


async def test_memory_stays_small_whatever_is_printed(tmp_path) -> None:
    piece = "x" * 65_536
    tracemalloc.start()
    try:
        output = await run(Spill(str(tmp_path)), (piece for _ in range(800)))
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
        await capped(Spill(str(tmp_path)))(make_call(partial=partial), proceed)
    assert partial == ["begun\n"]


@pytest.mark.parametrize("call_id", ["../x", "a/b", "", ".", "x" * 200, "a\0b"])
def test_only_a_plain_call_id_names_a_spill(tmp_path, call_id: str) -> None:
    spill = Spill(str(tmp_path))
    assert spill.path_of(call_id) is None
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
    output = asyncio.run(run(Spill(str(tmp_path_factory.getbasetemp() / "cuts")), pieces))
    if len(text.encode()) <= WHOLE_BYTES:
        assert output.content == text
        return
    head, marker, tail = output.content.split("\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert HEAD_BYTES - 4 < len(head.encode()) <= HEAD_BYTES
    assert TAIL_BYTES - 4 < len(tail.encode()) <= TAIL_BYTES
    left_out = int(marker.split()[1])
    assert left_out == len(text.encode()) - len(head.encode()) - len(tail.encode())
