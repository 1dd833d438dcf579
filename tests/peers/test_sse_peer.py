"""Our SSE vectors against eventsource-parser, the parser most JavaScript clients use."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.base.net.sse import SseFrameBuffer
from bridle.conformance import vectors

HERE = Path(__file__).parent

CR_WAITS = "holds back a CR at the end of the stream in case LF follows; the standard ends the line at once"
NO_ID_WITHOUT_DATA = "forgets the id of a frame that has no data; the standard keeps it in force"
RETRY_AT_ONCE = (
    "tells of a retry time apart from frames, so one without data seems to belong to the next frame"
)

DIFFERENCES = {
    "CR ends lines": CR_WAITS,
    "a CR at the end of a chunk ends its line at once": CR_WAITS,
    "CR and then a chunk that does not start with LF": CR_WAITS,
    "an id in a frame without data takes effect": NO_ID_WITHOUT_DATA,
    "a retry time without data dispatches nothing": RETRY_AT_ONCE,
}
"""Where the package legitimately differs from the standard: case and reason."""


@pytest.fixture(scope="module")
def peer_frames() -> dict[str, list[object]]:
    """What the package makes of every case."""
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "eventsource-parser").is_dir():
        pytest.skip("needs node and the npm packages: run make test-peers")
    cases = [
        {"name": case.name, "chunks": [base64.b64encode(c).decode() for c in vectors.sse_chunks(case.input)]}
        for case in vectors.load("sse-frames")
    ]
    answer = subprocess.run(
        [node, "sse_peer.mjs"], cwd=HERE, input=json.dumps(cases).encode(), capture_output=True, check=True
    )
    return json.loads(answer.stdout)


def our_frames(case: vectors.Case) -> list[object]:
    buffer = SseFrameBuffer()
    chunks = vectors.sse_chunks(case.input)
    return [frame._asdict() for chunk in chunks for frame in buffer.feed(chunk)]


@pytest.mark.peers
@pytest.mark.requirement("H3.1", "H3.2", "H18.8")
def test_eventsource_parser_reads_every_vector_as_we_do(peer_frames: dict[str, list[object]]):
    cases = vectors.load("sse-frames")
    differing = {case.name for case in cases if peer_frames[case.name] != our_frames(case)}
    assert differing == set(DIFFERENCES)
