"""What a network promises beside the guarantee of each publication: how far its order reaches, whether what is owed
comes for certain, and which receipts it gives. It is recorded with a run, and the judges judge by it."""

import enum
from typing import Final

import msgspec

from resprout.core.guarantee import ReceiptLevel


class OrderScope(enum.StrEnum):
    """Among which publications `fifo`, `causal` and `total` hold."""

    ALL_TOPICS = "all topics"
    EACH_TOPIC = "each topic"
    """Publications of different topics have no order with each other. A publication belongs to the topic it is made
    on; a key of another topic, which it may name, binds it to nothing."""


class Reliability(enum.StrEnum):
    """Whether a publication comes to everybody that it is owed to."""

    CERTAIN = "certain"
    PROBABLE = "probable"
    """With a probability that the stack's options decide. The share that came is reported, and nothing that is missing
    is called a violation."""


ALL_RECEIPTS: Final = tuple(receipt.label for receipt in ReceiptLevel)


class Promises(msgspec.Struct, frozen=True):
    order: OrderScope = OrderScope.ALL_TOPICS
    reliability: Reliability = Reliability.CERTAIN
    receipts: tuple[str, ...] = ALL_RECEIPTS
    """Labels of the receipts that are given, in the order of `ReceiptLevel`."""

    def lane(self, topic: str) -> str:
        """Publications with one lane are in order with each other."""
        return topic if self.order is OrderScope.EACH_TOPIC else ""

    @property
    def is_probable(self) -> bool:
        return self.reliability is Reliability.PROBABLE
