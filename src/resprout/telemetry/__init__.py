"""The way of a publication as spans of OpenTelemetry. Needs the extra: `pip install 'resprout[otel]'`."""

from resprout.telemetry.otlp import NotTakenError, send
from resprout.telemetry.spans import read_traceparent, spans_of

__all__ = ["NotTakenError", "read_traceparent", "send", "spans_of"]
