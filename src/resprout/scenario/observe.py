"""Rows of the trace: for what a client asks and gets, and for the notes of machines; or counts in their place."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_keys
from resprout.core.message import Message
from resprout.edge.requests import (
    BrokerChanged,
    ClientNews,
    ClientRequest,
    DeliveriesExpired,
    DeliveriesSkipped,
    OutcomeAnswered,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    SubscriptionRestarted,
    UnsubscribeRequest,
    ValuesAnswered,
    ValuesRequest,
)
from resprout.scenario.app import Applied, PageRead
from resprout.scenario.observe_logs import page_rows
from resprout.scenario.observe_values import message_columns, outcome_row, read_row, value_row
from resprout.trace import kinds
from resprout.trace.schema import COLUMNS, Row, texts
from resprout.trace.summary import Counts

_WORDS = {guarantee: (guarantee.label, guarantee.stream) for guarantee in Guarantee}
"""Looked up for every delivery."""

_NOTABLE = frozenset(COLUMNS) - {"time_us", "node", "kind"}


class ClientRows:
    """Makes the rows of one life of a client."""

    def __init__(self, name: str, incarnation: int, drops: bool = False) -> None:
        """`drops`: its broker may drop the oldest messages that it does not read."""
        self.name = name
        self._incarnation = incarnation
        self._policy = {"drop_oldest": "yes"} if drops else None

    def published(self, time_us: int, request: PublishRequest, news: Published) -> Row:
        return Row(
            time_us=time_us,
            node=self.name,
            kind=kinds.PUBLISH,
            **self._identity(news.stream, news.seq),
            topic=request.topic,
            keys=check_keys(request.keys),
            guarantee=request.guarantee.label,
            attributes=texts(request.attributes),
            payload_bytes=len(request.payload),
        )

    def delivered(self, time_us: int, message: Message) -> Row:
        label, stream = _WORDS[message.guarantee]
        return Row(
            time_us=time_us,
            node=self.name,
            kind=kinds.DELIVER,
            publisher=message.publisher,
            incarnation=message.epoch,
            stream=stream,
            seq=message.seq,
            topic=message.topic,
            keys=message.keys,
            guarantee=label,
            position=message.position,
            tseq=message.tseq if message.tseq >= 0 else None,
            hops=message.hops,
            metadata_bytes=message.metadata_bytes,
            payload_bytes=len(message.payload),
        )

    def given_value(self, time_us: int, message: Message, request: SubscribeRequest) -> Row:
        """Of the last value of a topic, for a subscription that begins with it."""
        return value_row(time_us, self.name, message, request)

    def applied(self, time_us: int, applied: Applied) -> Row:
        message = applied.message
        return Row(
            time_us=time_us,
            node=self.name,
            kind=kinds.APPLIED,
            **message_columns(message),
            keys=message.keys,
            guarantee=message.guarantee.label,
            position=message.position,
            attributes=applied.attributes,
        )

    def asked(self, time_us: int, request: ClientRequest) -> Iterator[Row]:
        """Of a request for or against a subscription; a publication has its row when it has its number."""
        match request:
            case SubscribeRequest():
                about = {**(self._policy or {}), **({"retained": "yes"} if request.retained else {})} or None
                asked = {"filter": request.filter, "where": request.where, "attributes": about}
                yield self._row(time_us, kinds.SUBSCRIBE, **asked)
            case ValuesRequest():
                yield self._row(time_us, kinds.VALUES_ASKED, filter=request.filter)
            case UnsubscribeRequest():
                yield self._row(time_us, kinds.UNSUBSCRIBE, filter=request.filter, where=request.where)

    def told(self, time_us: int, news: Any) -> Iterator[Row]:
        """Of an answer; one row for each publication that it speaks of. What only people want to know is a note."""
        match news:
            case SubscriptionConfirmed():
                yield self._row(time_us, kinds.SUBSCRIBED, filter=news.filter, where=news.where)
            case SubscriptionEnded():
                yield self._row(time_us, kinds.UNSUBSCRIBED, filter=news.filter, where=news.where)
            case ReceiptTurned():
                for seq in range(news.first, news.last + 1):
                    identity = self._identity(news.stream, seq)
                    yield self._row(time_us, kinds.RECEIPT, **identity, receipt=news.receipt.label)
            case DeliveriesSkipped() | DeliveriesExpired():
                kind = kinds.DROPPED if isinstance(news, DeliveriesSkipped) else kinds.EXPIRED
                for span in news.spans:
                    origin = {"publisher": span.publisher, "incarnation": span.incarnation, "stream": span.stream}
                    for seq in range(span.first, span.last + 1):
                        yield self._row(time_us, kind, **origin, seq=seq)
            case Refused():
                yield from self._refused(time_us, news)
            case SubscriptionRestarted():
                yield self._row(time_us, kinds.VALUES_AGAIN, filter=news.filter, where=news.where)
            case ValuesAnswered():
                yield read_row(time_us, self.name, news)
            case OutcomeAnswered():
                yield outcome_row(time_us, self._identity(Guarantee.TOTAL.stream, news.seq), news)
            case BrokerChanged():
                yield self._row(time_us, kinds.NOTE, detail=f"{news.name} serves this client now")
            case SessionLost():
                if news.superseded:
                    yield self._row(time_us, kinds.NOTE, detail=f"session lost: {news.reason}")
                    yield self._row(time_us, kinds.LEAVE)
                else:
                    yield self._row(time_us, kinds.SESSION_LOST, detail=news.reason)

    def _refused(self, time_us: int, news: Refused) -> Iterator[Row]:
        request = news.request
        outcome: dict[str, Any] = {"detail": news.reason}
        if not news.definite:
            outcome["receipt"] = "failed"
        kind = kinds.REFUSED if news.definite else kinds.RECEIPT
        if news.stream:
            for seq in range(news.first, news.last + 1):
                yield self._row(time_us, kind, **self._identity(news.stream, seq), **outcome)
        elif isinstance(request, PublishRequest):
            yield self._row(time_us, kind, topic=request.topic, guarantee=request.guarantee.label, **outcome)
        elif isinstance(request, SubscribeRequest | UnsubscribeRequest):
            yield self._row(time_us, kind, filter=request.filter, where=request.where, **outcome)
        else:
            yield self._row(time_us, kind, **outcome)

    def _identity(self, stream: str, seq: int) -> dict[str, Any]:
        return {"publisher": self.name, "incarnation": self._incarnation, "stream": stream, "seq": seq}

    def _row(self, time_us: int, kind: str, **columns: Any) -> Row:
        return Row(time_us=time_us, node=self.name, kind=kind, **columns)


class RowObserver:
    """Observes one life of a client by writing a row for everything."""

    def __init__(self, rows: ClientRows, record: Callable[[Row], None]) -> None:
        self._rows = rows
        self._record = record

    def published(self, time_us: int, request: PublishRequest, news: Published) -> None:
        self._record(self._rows.published(time_us, request, news))

    def delivered(self, time_us: int, message: Message) -> None:
        self._record(self._rows.delivered(time_us, message))

    def given_value(self, time_us: int, message: Message, request: SubscribeRequest) -> None:
        self._record(self._rows.given_value(time_us, message, request))

    def applied(self, time_us: int, applied: Applied) -> None:
        self._record(self._rows.applied(time_us, applied))

    def read(self, time_us: int, page: PageRead) -> None:
        for row in page_rows(time_us, self._rows.name, page):
            self._record(row)

    def asked(self, time_us: int, request: ClientRequest) -> None:
        for row in self._rows.asked(time_us, request):
            self._record(row)

    def told(self, time_us: int, news: Any) -> None:
        for row in self._rows.told(time_us, news):
            self._record(row)


def note_row(time_us: int, node: str, kind: str, columns: Mapping[str, Any]) -> Row:
    """Of a note that a machine wrote. Its columns are those of the trace; what else it says goes into the detail."""
    known: dict[str, Any] = {name: value for name, value in columns.items() if name in _NOTABLE}
    if kind in (kinds.DEAD_LETTER, kinds.FOLLOW_UP):
        known["attributes"] = texts(known["attributes"])
    others = [f"{name} {value}" for name, value in columns.items() if name not in _NOTABLE]
    if others:
        known["detail"] = ", ".join([*filter(None, [known.get("detail")]), *others])
    return Row(time_us=time_us, node=node, kind=kind, **known)


class ClientCounts:
    """What is rare, and for people, is a row all the same."""

    def __init__(self, name: str, incarnation: int, counts: Counts, record: Callable[[Row], None]) -> None:
        self._name = name
        self._incarnation = incarnation
        self._counts = counts
        self._record = record
        self._rows = ClientRows(name, incarnation)

    def published(self, time_us: int, request: PublishRequest, news: Published) -> None:
        identity = (self._name, self._incarnation, news.stream, news.seq)
        self._counts.published(time_us, identity, request.guarantee)

    def delivered(self, time_us: int, message: Message) -> None:
        self._counts.delivered(
            time_us, message.publisher, message.epoch, message.seq, message.guarantee, message.hops,
            message.metadata_bytes, len(message.payload),
        )  # fmt: skip

    def given_value(self, time_us: int, message: Message, request: SubscribeRequest) -> None:
        """Last values that subscriptions begin with are for the judge."""

    def applied(self, time_us: int, applied: Applied) -> None:
        """What replicas have in their books is for the judge."""

    def read(self, time_us: int, page: PageRead) -> None:
        """Record a page that a client has read from a log."""

    def asked(self, time_us: int, request: ClientRequest) -> None:
        if isinstance(request, SubscribeRequest):
            self._counts.subscribed(self._name)

    def told(self, time_us: int, news: ClientNews) -> None:
        if isinstance(news, ReceiptTurned):
            for seq in range(news.first, news.last + 1):
                self._counts.receipt(time_us, (self._name, self._incarnation, news.stream, seq), news.receipt.label)
        elif isinstance(news, Refused) and news.stream:
            for seq in range(news.first, news.last + 1):
                identity = (self._name, self._incarnation, news.stream, seq)
                if news.definite:
                    self._counts.refused(identity)
                else:
                    self._counts.receipt(time_us, identity, "failed")
        elif not isinstance(news, SubscriptionConfirmed | SubscriptionEnded):
            for row in self._rows.told(time_us, news):
                self._record(row)
