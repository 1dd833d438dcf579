"""Turns as OpenTelemetry spans: what they say, what they never say, and a collector that is there, slow or gone."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bridle._version import __version__
from bridle.app.records.trace_export import endpoint_wanted
from bridle.app.records.turn_spans import traced
from bridle.base.process.installation import install_command
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.features import Feature
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.messages import Usage
from bridle.providers.script import Spend, call, fail, say, wait
from cli_kit import TIMEOUT_S, Place
from tables import table


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """What sends spans has ended with its engine: it would go on in the middle of other tests."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("Otel"):
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()


def tracing() -> tuple[Feature, InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return traced(provider.get_tracer("test")), kept


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def names(kept: InMemorySpanExporter) -> list[str]:
    return sorted(span.name for span in kept.get_finished_spans())


async def test_a_turn_its_requests_and_its_calls_are_spans_of_one_trace() -> None:
    feature, kept = tracing()
    model = scripted(
        (call("bash", command="echo private-words"), Spend(Usage(input_tokens=5, output_tokens=3))),
        (say("private-words"), Spend(Usage(input_tokens=2, output_tokens=1, cache_read_tokens=10))),
    )
    async with harness(model, features=[feature], mode="yolo", sandbox="off") as session:
        events = await session.ask("private-words")
    by_name = {span.name: span for span in kept.get_finished_spans()}
    turn, tool = by_name["invoke_agent bridle"], by_name["execute_tool bash"]
    first, second = [one for one in kept.get_finished_spans() if one.name == "chat scripted"]
    assert told(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "bridle",
        "gen_ai.agent.version": __version__,
        "gen_ai.conversation.id": session.id,
        "gen_ai.provider.name": "demo",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 17,
        "gen_ai.usage.output_tokens": 4,
    }
    assert told(first) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": session.id,
        "gen_ai.request.stream": True,
        "gen_ai.provider.name": "demo",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.response.finish_reasons": ("tool_use",),
    }
    assert told(second)["gen_ai.usage.input_tokens"] == 12, "what came from a cache was read, too"
    (asked,) = [one for event in of_kind(events, e.StepEnded) for one in event.calls]
    assert told(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "bash",
        "gen_ai.tool.call.id": asked.wire_id,
        "gen_ai.tool.type": "function",
    }
    assert turn.parent is None
    for below in (tool, first, second):
        assert below.parent is not None
        assert below.parent.span_id == turn.context.span_id
        assert turn.start_time <= below.start_time <= below.end_time <= turn.end_time  # pyright: ignore
    assert {span.status.is_ok for span in by_name.values()} == {True}
    assert "private-words" not in "".join(span.to_json() for span in kept.get_finished_spans())


async def test_what_goes_wrong_has_its_reason_and_no_words() -> None:
    feature, kept = tracing()
    model = scripted(
        (
            fail("rate_limited", times=1),
            call("bash", command="secret-tool lookup a b"),
            call("Dear, diary…", private="private-words"),
        ),
        fail("bad_credentials"),
        clock=(clock := FakeClock()),
    )
    async with harness(model, features=[feature], clock=clock) as session:
        number = await session.send("go")
        await session.until(e.StepFailed)
        await clock.advance(120)
        await session.turn_of(number)
    spans = kept.get_finished_spans()
    errors = sorted((span.name, told(span).get("error.type", "")) for span in spans)
    assert errors == [
        ("chat scripted", ""),
        ("chat scripted", "BadCredentials"),
        ("chat scripted", "RateLimited"),
        ("execute_tool bash", "NeverAllowed"),
        ("execute_tool unknown", "UnknownTool"),
        ("invoke_agent bridle", "BadCredentials"),
    ]
    assert not any(span.status.description for span in spans)
    told_all = "".join(span.to_json() for span in spans)
    assert "diary" not in told_all
    assert "private-words" not in told_all


async def test_a_turn_that_is_stopped_or_left_ends_its_spans() -> None:
    feature, kept = tracing()
    model = scripted((say("Hm. "), wait(50)), (say("Hm. "), wait(50)), clock=(clock := FakeClock()))
    async with harness(model, features=[feature], clock=clock) as session:
        number = await session.send("one")
        await session.until(e.TextDelta)
        await session.connection.send(c.CancelTurn(session=session.id))
        await session.turn_of(number)
        assert names(kept) == ["chat scripted", "invoke_agent bridle"]
        assert {told(span)["error.type"] for span in kept.get_finished_spans()} == {"cancelled"}
        await session.send("two")
        await session.until(e.TextDelta)
        await session.connection.send(c.EndSession(session=session.id))
    assert len(names(kept)) == 4


# Collectors


class Collector(HTTPServer):
    """Takes what is sent to it, and answers with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.requests: list[tuple[str, dict[str, str], ExportTraceServiceRequest]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[str]:
        return sorted(
            span.name
            for _, _, request in self.requests
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        )


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(
            (
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                ExportTraceServiceRequest.FromString(body),
            )
        )
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def collector(status: int = 200) -> Iterator[Collector]:
    with Collector(status) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


TURN = ["chat scripted", "invoke_agent bridle"]


async def test_spans_reach_a_collector_that_the_environment_names() -> None:
    with collector() as server:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": server.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue"}
        async with harness(scripted(say("Hi.")), env=env) as session:
            await session.ask("hello")
        assert server.spans == TURN, "what is left is sent when the engine ends"
        path, headers, request = server.requests[0]
        assert (path, headers["x-team"]) == ("/v1/traces", "blue")
        (resource,) = [one.resource for one in request.resource_spans]
        named = {one.key: one.value.string_value for one in resource.attributes}
        assert (named["service.name"], named["service.version"]) == ("bridle", __version__)


async def test_the_settings_name_a_collector_and_a_project_never_does(tmp_path: Path) -> None:
    with collector() as server:
        home, work = tmp_path / "home", tmp_path / "work"
        (home / "config").mkdir(parents=True)
        (work / ".bridle").mkdir(parents=True)
        line = f'[otel]\nendpoint = "{server.url}"\n'
        (work / ".bridle" / "config.toml").write_text(line)
        async with harness(scripted(say("Hi.")), home=str(home), folder=str(work)) as session:
            await session.ask("hello")
        assert server.spans == []
        (home / "config" / "config.toml").write_text(line)
        async with harness(scripted(say("Hi.")), home=str(home), folder=str(work)) as session:
            await session.ask("hello")
        assert server.spans == TURN


@pytest.mark.parametrize("gone", ["closed", "silent"])
async def test_a_collector_that_is_down_is_in_nobodys_way(
    gone: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if gone == "closed":
            silent.close()
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        async with harness(scripted(say("Hi."), say("Ho.")), env=env, home=str(tmp_path / "home")) as session:
            for _ in range(2):
                assert (await session.ask("hello"))[-1].stop == "end_turn"
    assert capfd.readouterr().err == ""


async def test_spans_that_get_lost_are_noted_once(tmp_path: Path) -> None:
    with collector(status=400) as server:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": server.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=" + "k" * 9,
        }
        async with harness(scripted(say("Hi.")), env=env, home=str(tmp_path / "home")) as session:
            await session.ask("hello")
    (log,) = (tmp_path / "home").rglob("bridle-*.log")
    lines = log.read_text()
    assert lines.count("traces not sent") == 1
    assert "k" * 9 not in lines


@table(
    ("setting", "env", "endpoint"),
    [
        (None, {}, None),
        (None, {"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"),
        (None, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, None),
        (None, {"OTEL_TRACES_EXPORTER": "console, otlp"}, "http://localhost:4318/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1/"}, "http://c:1/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:1/own"}, "http://c:1/own"),
        ("http://s:2", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, "http://s:2/v1/traces"),
        ("http://s:2", {"OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_nothing_is_traced_unless_somebody_says_where_to(
    setting: str | None, env: dict[str, str], endpoint: str | None
) -> None:
    assert endpoint_wanted(setting, env) == endpoint


async def test_a_protocol_that_is_not_spoken_is_one_sentence() -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    async with harness(scripted(say("Hi.")), env=env) as session:
        told_of = [one.event for one in await session.stored() if isinstance(one.event, e.Notice)]
        assert "TracesNotSent" in [one.reason for one in told_of]
        assert (await session.ask("hello"))[-1].stop == "end_turn"


def test_without_the_extra_it_is_one_sentence_and_the_run_goes_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    without = "import sys; sys.modules['opentelemetry'] = None; from bridle.cli import main; main()"
    env = place.environment(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", without, "run", "-m", "demo:hello", "hi"],
        capture_output=True,
        cwd=place.work,
        env=env,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    words = f"Tracing with OpenTelemetry needs a package more. Install it: {install_command('otel')}"
    assert (ran.returncode, ran.stderr.decode().count(words)) == (0, 1)
