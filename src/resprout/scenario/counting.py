"""Observes one life of a client by counting: no row for what it publishes, is told of it, and is given."""

from collections.abc import Callable

from resprout.core.message import Message
from resprout.edge.requests import (
    ClientNews,
    ClientRequest,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
)  # fmt: skip
from resprout.scenario.app import Applied
from resprout.scenario.observe import ClientRows
from resprout.trace.counts import Counts
from resprout.trace.schema import Row


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
            time_us, message.publisher, message.incarnation, message.seq, message.guarantee, message.hops,
            message.metadata_bytes, len(message.payload),
        )  # fmt: skip

    def applied(self, time_us: int, applied: Applied) -> None:
        """What replicas have in their books is for the judge."""

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
