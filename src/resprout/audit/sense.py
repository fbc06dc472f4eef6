"""Rows that make no sense at all are refused, in the same words by every judge."""

from resprout.audit.naming import MessageId
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.trace import kinds
from resprout.trace.errors import TraceError
from resprout.trace.schema import Row


def identity_of(number: int, row: Row) -> MessageId:
    """Of the publication that the row is about."""
    if row.publisher is None or row.incarnation is None or row.stream is None or row.seq is None:
        raise TraceError(f"row {number}: a {row.kind} row without publisher, incarnation, stream and seq")
    return (row.publisher, row.incarnation, row.stream, row.seq)


def guarantee_of(number: int, row: Row) -> tuple[str, Guarantee]:
    """The topic and the guarantee of a publish row."""
    if row.topic is None or row.guarantee is None:
        raise TraceError(f"row {number}: a publish row without topic or guarantee")
    if row.node != row.publisher:
        raise TraceError(f"row {number}: {row.node} reports a publication of {row.publisher}")
    try:
        guarantee = Guarantee.parse(row.guarantee)
    except UsageError as error:
        raise TraceError(f"row {number}: {error}") from None
    if guarantee.stream != row.stream:
        raise TraceError(f"row {number}: a {row.guarantee} publication in the {row.stream} stream")
    return row.topic, guarantee


def position_of(number: int, row: Row) -> int:
    """Of a delivery, which must have one. TraceError otherwise."""
    if row.position is None or row.position < 0:
        raise TraceError(f"row {number}: a deliver row without position")
    return row.position


def filter_of(number: int, row: Row) -> str:
    if row.filter is None:
        raise TraceError(f"row {number}: a {row.kind} row without filter")
    return row.filter


def durable_of(number: int, row: Row) -> str:
    """The name of the durable subscription that a row of a consumer is about."""
    name = (row.attributes or {}).get("durable")
    if name is None:
        raise TraceError(f"row {number}: a {row.kind} row without the name of a durable subscription")
    return name


def drops_oldest(row: Row) -> bool:
    """Return whether a row asks for a subscription whose oldest messages may be dropped."""
    return row.kind == kinds.SUBSCRIBE and "drop_oldest" in (row.attributes or {})
