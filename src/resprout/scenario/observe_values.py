"""Trace rows about last values: what subscriptions begin with, what clients read, and what became of writes to keys."""

from typing import Any

from resprout.core.message import Message
from resprout.edge.requests import OutcomeAnswered, SubscribeRequest, ValuesAnswered
from resprout.trace import kinds
from resprout.trace.schema import Row


def message_columns(message: Message) -> dict[str, Any]:
    """Return the columns that identify a message, and its topic."""
    return {
        "publisher": message.publisher,
        "incarnation": message.epoch,
        "stream": message.stream,
        "seq": message.seq,
        "topic": message.topic,
    }


def value_row(time_us: int, node: str, message: Message, request: SubscribeRequest) -> Row:
    return Row(
        time_us=time_us,
        node=node,
        kind=kinds.VALUE,
        **message_columns(message),
        filter=request.filter,
        where=request.where,
        tseq=message.tseq,
        payload_bytes=len(message.payload),
    )


def read_row(time_us: int, node: str, news: ValuesAnswered) -> Row:
    found = {
        value.topic: f"{value.revision} {value.publisher} {value.incarnation} {value.seq}" for value in news.values
    }
    place = news.place if news.place >= 0 else None
    detail = "more values follow" if news.more else news.reason or None
    return Row(
        time_us=time_us, node=node, kind=kinds.VALUES_READ, filter=news.filter, tseq=place, attributes=found or None,
        detail=detail,
    )  # fmt: skip


def outcome_row(time_us: int, identity: dict[str, Any], news: OutcomeAnswered) -> Row:
    about = {"applied": "yes" if news.is_applied else "no", "current": str(news.current)}
    place = news.place if news.place >= 0 else None
    node = identity["publisher"]
    return Row(time_us=time_us, node=node, kind=kinds.OUTCOME, **identity, tseq=place, attributes=about)
