"""The way of a publication as spans, and what of it arrives at a collector."""

import sys

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from resprout.cli.main import run
from resprout.core.errors import UsageError
from resprout.core.message import MessageId
from resprout.net.accounts import PassageAnswer
from resprout.net.survey import PublicationWay
from resprout.telemetry import NotTakenError, send, spans_of
from tests.telemetry.collector import collecting

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def passage(broker: str, came_from: str, time: float, **more: object) -> PassageAnswer:
    return PassageAnswer(broker, True, "bank/1", "causal", came_from, time=time, **more)  # type: ignore[arg-type]


WAY = PublicationWay(
    MessageId("teller", 12, "ordered", 7),
    (
        passage(
            "b1", "teller", 100.0, published_here=True, passed_to=("b0",), passed_time=100.001, safe_time=100.25,
            delivered_time=100.5,
        ),
        passage("b0", "b1", 100.002, passed_to=("b2", "b3"), passed_time=100.003),
        passage("b2", "b0", 100.004, readers=("r1", "r2"), given=70, shown_time=100.125),
        passage("b4", "b3", 100.006),
    ),
    ("b3: it does not answer",),
)  # fmt: skip


def exported(way: PublicationWay, traceparent: str | None = None) -> tuple[ReadableSpan, ...]:
    memory = InMemorySpanExporter()
    memory.export(spans_of(way, traceparent))
    return memory.get_finished_spans()


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def above(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def test_a_way_is_one_trace_with_brokers_below_those_from_whom_it_came() -> None:
    root, b1, b0, _, b4 = spans = exported(WAY)
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert len({span_id(span) for span in spans}) == 5
    assert [above(span) for span in spans] == [None, span_id(root), span_id(b1), span_id(b0), span_id(root)]
    assert [span.name for span in spans] == ["publish bank/1", *["relay bank/1"] * 4]
    assert [span.kind for span in spans] == [SpanKind.PRODUCER, *[SpanKind.CONSUMER] * 4]
    assert dict(root.attributes or {}) == {
        "messaging.system": "resprout",
        "messaging.destination.name": "bank/1",
        "messaging.message.id": "teller.12/ordered:7",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.client.id": "teller",
        "resprout.guarantee": "causal",
        "resprout.epoch": 12,
        "resprout.stream": "ordered",
        "resprout.number": 7,
        "resprout.unanswered": ("b3: it does not answer",),
    }
    assert [span.resource.attributes.get("service.instance.id") for span in spans] == [None, "b1", "b0", "b2", "b4"]
    assert (b4.attributes or {})["resprout.came_from"] == "b3"


def test_times_are_those_that_brokers_noted() -> None:
    root, b1, _, b2, b4 = exported(WAY)
    assert (root.start_time, root.end_time) == (100_000_000_000, 100_500_000_000)
    assert [(event.name, event.timestamp) for event in root.events] == [
        ("resprout.safe", 100_250_000_000),
        ("resprout.delivered", 100_500_000_000),
    ]
    assert (b1.start_time, b1.end_time) == (100_000_000_000, 100_001_000_000)
    assert (b2.start_time, b2.end_time) == (100_004_000_000, 100_125_000_000)
    assert dict(b2.events[0].attributes or {}) == {"resprout.readers": ("r1", "r2"), "resprout.given": 70}
    assert b4.start_time == b4.end_time and not b4.events


def test_the_spans_of_one_way_have_the_same_ids_each_time() -> None:
    assert [span.context for span in exported(WAY)] == [span.context for span in exported(WAY)]


def test_spans_join_the_trace_that_a_traceparent_names() -> None:
    spans = exported(WAY, TRACEPARENT)
    assert {span.context.trace_id for span in spans if span.context} == {0x0AF7651916CD43DD8448EB211C80319C}
    assert above(spans[0]) == 0xB7AD6B7169203331 and above(spans[1]) == span_id(spans[0])
    with pytest.raises(UsageError, match="is no traceparent"):
        spans_of(WAY, "00-nonsense")


def test_brokers_that_name_each_other_stand_below_the_publication() -> None:
    circle = (passage("b0", "b1", 1.0), passage("b1", "b0", 2.0), passage("b2", "b1", 3.0))
    root, b0, b1, b2 = exported(PublicationWay(WAY.id, circle))
    assert above(b0) == above(b1) == span_id(root) and above(b2) == span_id(b1)
    assert exported(PublicationWay(WAY.id, ())) == ()


def test_a_collector_is_posted_all_spans_and_who_refuses_them_is_named() -> None:
    with collecting() as collector:
        send(spans_of(WAY), collector.url)
        ((path, body),) = collector.posts
    posted = ExportTraceServiceRequest.FromString(body)
    found = [one for part in posted.resource_spans for scope in part.scope_spans for one in scope.spans]
    assert path == "/v1/traces"
    assert {one.span_id for one in found} == {span_id(span).to_bytes(8) for span in spans_of(WAY)}
    with collecting(404) as collector, pytest.raises(NotTakenError, match="404"):
        send(spans_of(WAY), f"{collector.url}/elsewhere")
    assert [path for path, _ in collector.posts] == ["/elsewhere"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--otlp", "collector:4318"), "'collector:4318' is no address of a collector"),
        (("--otlp", "http://localhost:x"), "is no address of a collector"),
        (("--otlp", "http://localhost:4318", "--traceparent", "x"), "'x' is no traceparent"),
        (("--traceparent", TRACEPARENT), "give --otlp URL"),
    ],
)
def test_what_cannot_be_sent_is_one_line(words: tuple[str, ...], why: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "teller.12/ordered:7", *words]) == 2
    out, err = capfd.readouterr()
    assert out == "" and why in err and err.count("\n") == 1


def test_a_collector_that_is_not_there_is_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def told(*_: object) -> PublicationWay:
        return WAY

    with collecting() as gone:
        url = gone.url
    monkeypatch.setattr("resprout.cli.status._ask_passages", told)
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)  # the exporter's pause before it tries again
    assert run(["trace", "teller.12/ordered:7", "--otlp", url]) == 1
    out, err = capfd.readouterr()
    assert out.startswith("teller.12/ordered:7 on bank/1, causal\n")
    assert err.startswith(f"resprout: {url}/v1/traces did not take the spans: [Errno ") and err.count("\n") == 1


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("resprout.telemetry", "opentelemetry"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert run(["trace", "teller.12/ordered:7", "--otlp", "http://localhost:4318"]) == 2
    assert capfd.readouterr() == ("", "resprout: --otlp needs opentelemetry: pip install 'resprout[otel]'\n")
