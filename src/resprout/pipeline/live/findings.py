"""What comes out of the stream: violations, and how far the judge is."""

from collections.abc import Callable
from typing import Final

import msgspec

from resprout.audit.verdict import Anomaly

OUTPUT_SCHEMA: Final = "run string, order int, body binary"
"""One line for each finding of a micro-batch; the body is written by `to_body`."""


class JudgeProgress(msgspec.Struct, frozen=True, tag="standing"):
    """How far the judge is after a micro-batch. One for each micro-batch, behind its violations."""

    rows: int
    """Judged so far."""
    held: int
    """Rows that wait for the watermark."""
    judged_us: int
    """Everything up to this time of the run has been judged."""
    state_bytes: int
    counts: dict[str, int]
    """As `LiveJudge.counts`."""
    found: dict[str, int]
    """Violations so far, by rule."""
    ended: str = ""
    """How the run ended, when it has."""


class Violation(msgspec.Struct, frozen=True, tag="violation"):
    anomaly: Anomaly


Finding = Violation | JudgeProgress

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final[Callable[[bytes], Finding]] = msgspec.msgpack.Decoder(Finding).decode


def to_body(finding: Finding) -> bytes:
    return _encode(finding)


def from_body(body: bytes) -> Finding:
    return _decode(body)
