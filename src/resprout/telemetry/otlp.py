"""Spans to a collector: OTLP over HTTP, by OpenTelemetry's own exporter."""

import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from resprout.core.errors import ResproutError, UsageError

SECONDS: Final = 5.0
"""With all tries: somebody waits at a terminal."""
TRACES_PATH: Final = "/v1/traces"


class NotTakenError(ResproutError):
    """The collector cannot be reached, or does not want the spans; the text says which."""


def send(spans: Sequence[ReadableSpan], url: str, seconds: float = SECONDS) -> None:
    """`url`: of the collector, or with the path where it takes traces. Headers, certificates and the like are those of
    the environment, as OpenTelemetry names them (OTEL_EXPORTER_OTLP_HEADERS, ...)."""
    endpoint = endpoint_of(url)
    exporter = OTLPSpanExporter(endpoint, timeout=seconds)
    heard = _Heard()
    logger = logging.getLogger(OTLPSpanExporter.__module__)
    logger.addHandler(heard)
    propagated, logger.propagate = logger.propagate, False  # what it logs is told once, in the exception
    try:
        taken = exporter.export(spans) is SpanExportResult.SUCCESS
    finally:
        logger.propagate = propagated
        logger.removeHandler(heard)
        exporter.shutdown()  # type: ignore[no-untyped-call]
    if not taken:
        raise NotTakenError(f"{endpoint} did not take the spans: {heard.first or 'no reason is known'}")


def endpoint_of(url: str) -> str:
    """UsageError when it is no address of a collector."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(f"{url!r} is no address of a collector: one is http://HOST:4318")
    return parts._replace(path=TRACES_PATH).geturl() if parts.path in ("", "/") else url


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        """Later ones only say that it was tried again."""

    def emit(self, record: logging.LogRecord) -> None:
        if not self.first:
            causes = [one for one in record.args or () if isinstance(one, BaseException)]
            said = record.getMessage().partition(" encountered while")[0]  # what follows is that it will be tried again
            self.first = str(_innermost(causes[0])) if causes else said


def _innermost(error: BaseException) -> BaseException:
    """What the system said; around it there are layers of libraries, each with a sentence of its own."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
