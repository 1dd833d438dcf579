"""Where traces go: a collector that speaks OTLP over HTTP, for those who name one. Nothing is loaded before that.

Spans wait in a queue of bounded length, a thread sends them: a collector that is slow, or not there, costs spans and
nobody's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bridle._version import __version__
from bridle.base.process.installation import install_command
from bridle.base.threads import in_thread
from bridle.engine.features import Feature
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

FEATURE = "otel"
USUAL = "http://localhost:4318"
"""Where a collector listens of which only is known that there is one."""
PATH = "/v1/traces"
FLUSH_S = 1.0
"""So long an engine that ends waits for the spans that are left."""
SEND_S = 5
_PROTOCOL = "http/protobuf"


def endpoint_wanted(setting: str | None, env: Mapping[str, str]) -> str | None:
    """The whole address that spans go to; None where nobody wants them anywhere. What the settings say goes first."""
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if setting:
        return setting.rstrip("/") + PATH
    exporters = {one.strip() for one in env.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    if exporters and "otlp" not in exporters:
        return None
    if own := env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return own
    if base := env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or (USUAL if exporters else ""):
        return base.rstrip("/") + PATH
    return None


class TraceExport:
    """The way to each collector that a session of this process names. `hear` is told that spans could not be sent."""

    def __init__(self, env: Mapping[str, str], *, hear: Callable[[str], None]) -> None:
        self._env = env
        self._hear = hear
        self._providers: dict[str, TracerProvider] = {}
        self._exporters: list[SpanExporter] = []

    def feature(self, setting: str | None) -> Feature | None:
        """What traces a session; None where nobody wants that. Where it cannot be done the session says so."""
        endpoint = endpoint_wanted(setting, self._env)
        if endpoint is None:
            return None
        protocol = self._first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        if not setting and protocol not in ("", _PROTOCOL):
            return _told("TracesNotSent", protocol=protocol)
        try:
            from bridle.app.records.turn_spans import traced

            if endpoint not in self._providers:
                self._providers[endpoint] = self._opened(endpoint)
        except ImportError:
            install = install_command("otel")
            return _told("ExtraMissing", what="Tracing with OpenTelemetry", install=install)
        return traced(self._providers[endpoint].get_tracer("bridle"), name=FEATURE)

    def _first(self, *names: str) -> str:
        return next(filter(None, (self._env.get(name, "").strip() for name in names)), "")

    def _opened(self, endpoint: str) -> TracerProvider:
        import logging

        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.util.re import parse_env_headers

        def hear(what: str) -> None:
            self._hear(what)

        class Exporter(OTLPSpanExporter):
            """Says when spans begin to get lost, once until they arrive again."""

            fails = False

            def export(self, spans: Any) -> SpanExportResult:
                result = super().export(spans)
                failed = result is not SpanExportResult.SUCCESS
                if failed and not self.fails:
                    hear("traces not sent")
                self.fails = failed
                return result

        logs = logging.getLogger("opentelemetry")  # it would write to the screen of whoever sits there
        logs.addHandler(logging.NullHandler())
        logs.propagate = False
        headers = self._first("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
        named = self._first("OTEL_SERVICE_NAME") or "bridle"
        provider = TracerProvider(
            resource=Resource.create({"service.name": named, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        exporter = Exporter(
            endpoint=endpoint, headers=parse_env_headers(headers, liberal=True), timeout=SEND_S
        )
        self._exporters.append(exporter)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return provider

    async def close(self) -> None:
        """Sends what is left, for `FLUSH_S` at most."""
        ending = [in_thread(provider.shutdown) for provider in self._providers.values()]
        if ending:
            _, late = await asyncio.wait(ending, timeout=FLUSH_S)
            for exporter in self._exporters if late else ():
                exporter.shutdown()  # what did not arrive by now is not tried again
        self._hear = _nobody


def _nobody(_what: str) -> None:
    """Whoever would have heard it is gone."""


def _told(reason: str, **data: str) -> Feature:
    notice = Notice(reason=reason, message=sentence(reason, data), data=dict(data))
    return Feature(name=FEATURE, notices=lambda: (notice,))
