"""Counts the rows of one life of a client as they come: how far it is, and what still has no outcome."""

from resprout.core.guarantee import ReceiptLevel
from resprout.trace import kinds
from resprout.trace.schema import Row


class Tally:
    def __init__(self, last_receipt: str = ReceiptLevel.DELIVERED.label) -> None:
        """`last_receipt`: the last one that the network gives, empty where it gives none: nothing more is told of a
        publication after it."""
        self._outcomes = (last_receipt, "failed")
        self._has_outcomes = bool(last_receipt)
        self.rows = 0
        self.published = 0
        self.delivered = 0
        self._publications: set[tuple[str | None, int | None]] = set()
        """Neither told the last receipt or `failed` nor refused, by stream and number."""
        self._subscriptions: set[tuple[str | None, str | None]] = set()
        """Asked for, or asked to end, and not yet answered."""

    @property
    def unconfirmed(self) -> int:
        """Subscriptions that were asked for, or asked to end, and not yet answered."""
        return len(self._subscriptions)

    @property
    def pending(self) -> int:
        return len(self._publications) + len(self._subscriptions)

    def count(self, row: Row) -> None:
        self.rows += 1
        match row.kind:
            case kinds.DELIVER:
                self.delivered += 1
            case kinds.PUBLISH:
                self.published += 1
                if self._has_outcomes:
                    self._publications.add((row.stream, row.seq))
            case kinds.RECEIPT if row.receipt in self._outcomes:
                self._publications.discard((row.stream, row.seq))
            case kinds.REFUSED:
                self._publications.discard((row.stream, row.seq))
                self._subscriptions.discard((row.filter, row.where))
            case kinds.SUBSCRIBE | kinds.UNSUBSCRIBE | kinds.CONSUME:
                self._subscriptions.add((row.filter, row.where))
            case kinds.SUBSCRIBED | kinds.UNSUBSCRIBED | kinds.CONSUMING:
                self._subscriptions.discard((row.filter, row.where))
            case kinds.CONSUME_OVER:
                self._subscriptions.clear()
