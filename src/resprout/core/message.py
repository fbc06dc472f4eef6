"""What a subscriber's code is given: one message with everything that is known about it."""

from typing import Any

import msgspec

from resprout.core.bundle import topics_of
from resprout.core.guarantee import Guarantee
from resprout.core.names import AttributeValue


class Message(msgspec.Struct, frozen=True, gc=False):
    """One delivered publication."""

    publisher: str
    incarnation: int
    seq: int
    topic: str
    keys: tuple[str, ...]
    guarantee: Guarantee
    attributes: dict[str, AttributeValue]
    payload: bytes
    position: int
    """Dense from 0 per subscriber: its place in what this subscriber was given."""
    hops: int = 0
    """Links between brokers that it crossed."""
    metadata_bytes: int = 0
    """Bytes that were spent on its order on the last link, its share of the bundle's."""
    tseq: int = -1
    """Of a total: its place in the one order of totals, as the network claims it; -1 for others."""
    redelivered: bool = False
    """Of a durable subscription: somebody may have been given it before, and not have acknowledged it."""

    @property
    def stream(self) -> str:
        return self.guarantee.stream

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic it names, its own first."""
        return topics_of(self.topic, self.keys) if self.keys else (self.topic,)

    @property
    def id(self) -> tuple[Any, ...]:
        """What makes it the same publication wherever it is seen."""
        return (self.publisher, self.incarnation, self.stream, self.seq)
