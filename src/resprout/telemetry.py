"""The way of a publication as spans of OpenTelemetry. Needs the extra: `pip install 'resprout[otel]'`.

One trace is made for one publication: a span for itself, and below it one for each broker that remembers it. Everything
is made afterwards from what brokers have told: no broker knows of it, and none sends anything. A broker notes when it
first sent the publication on and first gave it to a reader, so these are events with names, and no span for each copy.

Ids are computed from the publication's, so that sending the same way twice gives one trace and not two. `send` passes
spans to a collector: OTLP over HTTP, by OpenTelemetry's own exporter.
"""

import logging
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from resprout import __version__
from resprout.core.errors import ResproutError, UsageError
from resprout.net.accounts import PassageAnswer
from resprout.net.survey import PublicationWay

SYSTEM: Final = "resprout"
_Moment = float | msgspec.UnsetType
_About = dict[str, AttributeValue]
_Happened = tuple[str, _Moment, _About]
"""An event: its name, when, and what is known of it."""

SECONDS: Final = 5.0
"""With all tries: somebody waits at a terminal."""
TRACES_PATH: Final = "/v1/traces"


def spans_of(way: PublicationWay, traceparent: str | None = None) -> list[ReadableSpan]:
    """The publication first, then brokers in the order of the way; nothing when nobody remembers it.

    `traceparent`: what the publication has as an attribute of this name, in the form of W3C; the spans are then part of
    that trace. UsageError when it is none.
    """
    above = read_traceparent(traceparent) if traceparent is not None else None
    brokers = {one.broker: one for one in way.brokers if isinstance(one.time, float)}
    if not brokers:
        return []
    trace = above.trace_id if above is not None else _number(16, way.name)
    root = _context(trace, way.name)
    contexts = {name: _context(trace, way.name, name) for name in brokers}
    spans = [_span_of_publication(way, list(brokers.values()), root, above)]
    for name, one in brokers.items():
        spans.append(_span_of_broker(way, one, contexts[name], contexts.get(_before(one, brokers), root)))
    return spans


def _span_of_publication(
    way: PublicationWay, brokers: Sequence[PassageAnswer], context: SpanContext, above: SpanContext | None
) -> ReadableSpan:
    """From the first to the last that any broker noted."""
    about: _About = {
        **_message(way, brokers[0]),
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.client.id": way.id.publisher,
        "resprout.guarantee": brokers[0].guarantee,
        "resprout.epoch": way.id.epoch,
        "resprout.stream": way.id.stream,
        "resprout.number": way.id.seq,
    }
    if way.unanswered:
        about["resprout.unanswered"] = way.unanswered
    events: list[_Happened] = []
    for one in brokers:
        events += [("resprout.safe", one.safe_time, {}), ("resprout.delivered", one.delivered_time, {})]
    moments = [at for one in brokers for at in (one.time, one.passed_time, one.shown_time)]
    named = f"publish {brokers[0].topic}"
    return _span(named, SpanKind.PRODUCER, {}, about, events, moments, context, above)


def _span_of_broker(way: PublicationWay, one: PassageAnswer, context: SpanContext, above: SpanContext) -> ReadableSpan:
    """From when it came until it had been sent to the first neighbour, and given to the first reader."""
    about: _About = {
        **_message(way, one),
        "messaging.operation.name": "relay",
        "resprout.broker": one.broker,
        "resprout.came_from": one.came_from,
        "resprout.published_here": one.published_here,
    }
    events: list[_Happened] = [
        ("resprout.passed_on", one.passed_time, {"resprout.passed_to": one.passed_to}),
        ("resprout.given", one.shown_time, {"resprout.readers": one.readers, "resprout.given": one.given}),
    ]
    who: _About = {"service.instance.id": one.broker}
    return _span(f"relay {one.topic}", SpanKind.CONSUMER, who, about, events, [one.time], context, above)


def _span(
    name: str,
    kind: SpanKind,
    who: Mapping[str, AttributeValue],
    about: _About,
    events: Sequence[_Happened],
    moments: Sequence[_Moment],
    context: SpanContext,
    above: SpanContext | None,
) -> ReadableSpan:
    """As long as its moments and events reach. A provider of its own, because each broker is an instance of its own,
    and because the one of the program that calls this has nothing to do with it."""
    known = [(told, _nanoseconds(at), what) for told, at, what in events if isinstance(at, float)]
    reach = [*[_nanoseconds(at) for at in moments if isinstance(at, float)], *[at for _, at, _ in known]]
    # Somebody has asked for it, so it is kept whatever was decided about the trace that it joins.
    provider = TracerProvider(
        ALWAYS_ON, Resource({"service.name": SYSTEM, **who}), shutdown_on_exit=False, id_generator=_ComputedIds(context)
    )
    parent = set_span_in_context(NonRecordingSpan(above), Context()) if above is not None else Context()
    span = provider.get_tracer(__name__, __version__).start_span(name, parent, kind, about, start_time=min(reach))
    if not isinstance(span, ReadableSpan):
        raise UsageError("OpenTelemetry is switched off here: OTEL_SDK_DISABLED")
    for told, at, what in known:
        span.add_event(told, what, at)
    span.end(max(reach))
    return span


class _ComputedIds(IdGenerator):
    def __init__(self, context: SpanContext) -> None:
        self._context = context

    def generate_span_id(self) -> int:
        return self._context.span_id

    def generate_trace_id(self) -> int:
        return self._context.trace_id


def _message(way: PublicationWay, one: PassageAnswer) -> _About:
    """By OpenTelemetry's names for messages."""
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": one.topic,
        "messaging.message.id": way.name,
    }


def _before(one: PassageAnswer, brokers: Mapping[str, PassageAnswer]) -> str:
    """Return the broker that it came from, if that one remembers it too. Return an empty text where brokers name each
    other in a circle: they may, when the brokers through which it came first have forgotten it."""
    if one.published_here or one.came_from not in brokers:
        return ""
    seen: set[str] = set()
    at = brokers[one.came_from]
    while at is not one and at.broker not in seen:
        if at.published_here or at.came_from not in brokers:
            return one.came_from
        seen.add(at.broker)
        at = brokers[at.came_from]
    return "" if at is one else one.came_from


def _nanoseconds(at: float) -> int:
    """Brokers tell microseconds."""
    return round(at * 1e6) * 1000


def _context(trace: int, *parts: str) -> SpanContext:
    return SpanContext(trace, _number(8, f"{trace:032x}", *parts), True, TraceFlags(TraceFlags.SAMPLED))


def _number(size: int, *parts: str) -> int:
    """Of so many bytes; 0 would be no id."""
    return int.from_bytes(blake2b("\0".join(parts).encode(), digest_size=size).digest()) or 1


def read_traceparent(traceparent: str) -> SpanContext:
    """UsageError when it is none."""
    found = get_current_span(TraceContextTextMapPropagator().extract({"traceparent": traceparent})).get_span_context()
    if not found.is_valid:
        raise UsageError(f"{traceparent!r} is no traceparent: one is 00-TRACE-SPAN-FLAGS, in hexadecimal digits")
    return found


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
