"""The message that a subscriber receives, with its metadata, and the id of a publication.

A message of a durable subscription also knows the inbox that takes its ack.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from resprout.core.bundle import topics_of
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.timing import MESSAGE_ID, due_of, expires_of, published_of


class MessageId(NamedTuple):
    """Identifies a publication in the whole network; `str` gives the form that `resprout trace` accepts."""

    publisher: str
    epoch: int
    """The epoch of the publisher (`connect(epoch=...)`); from the clock where the program set none."""
    stream: str
    """"eventual" for publications with that guarantee, "ordered" for all others."""
    seq: int
    """The number of the publication in its stream, from 1."""

    def __str__(self) -> str:
        return f"{self.publisher}.{self.epoch}/{self.stream}:{self.seq}"


class Message(msgspec.Struct, frozen=True, gc=False):
    """One delivered publication."""

    publisher: str
    epoch: int
    seq: int
    topic: str
    keys: tuple[str, ...]
    guarantee: Guarantee
    attributes: dict[str, AttributeValue]
    payload: bytes
    position: int
    """The place of the message among all that this subscriber received; dense from 0."""
    hops: int = 0
    """Links between brokers that the message crossed."""
    metadata_bytes: int = 0
    """Bytes of ordering metadata on the last link: the share of this message in those of its bundle."""
    tseq: int = -1
    """The place of a `total` message in the one order of totals; -1 for others."""
    redelivered: bool = False
    """Whether a consumer of the durable subscription may have received it before without acknowledging it."""
    deliveries: int = 1
    """How often the durable subscription has handed it out, this time included, as far as its broker knows: a broker
    that dies may take the last count along. Always 1 for other subscriptions."""
    retained: bool = False
    """Whether it is the last value of its topic, given to a new subscription; `position` is -1 then."""
    partition: int = 0
    """Partition of the log that it was read from; `position` is its offset there."""

    @property
    def published_at(self) -> float | None:
        """When it was published, in seconds since 1970, by the clock of its publisher; None if it does not say."""
        return _seconds(published_of(self.attributes))

    @property
    def expires_at(self) -> float | None:
        """When it expires, in seconds since 1970; None: never."""
        return _seconds(expires_of(self.attributes))

    @property
    def deliver_at(self) -> float | None:
        """From when on it is delivered, in seconds since 1970; None: it was not delayed."""
        return _seconds(due_of(self.attributes))

    @property
    def message_id(self) -> str | None:
        """The id that its publisher gave it (`publish(message_id=...)`); None: it has none."""
        value = self.attributes.get(MESSAGE_ID)
        return value if isinstance(value, str) else None

    @property
    def stream(self) -> str:
        return self.guarantee.stream

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that the message names, its own first."""
        return topics_of(self.topic, self.keys) if self.keys else (self.topic,)

    @property
    def id(self) -> MessageId:
        """Equal for the same publication wherever it is seen, and equal to `Receipt.id`."""
        return MessageId(self.publisher, self.epoch, self.stream, self.seq)

    def ack(self) -> None:
        """Acknowledge a message of a durable subscription: it is not delivered again. UsageError for other messages,
        which need no ack."""
        raise UsageError(
            f"message.ack(): {self.id} needs no ack, because its subscription is not durable;"
            " only subscribe(durable=NAME) and subscribe(group=NAME) give messages to acknowledge"
        )


def _seconds(time_us: int) -> float | None:
    return time_us / 1e6 if time_us else None


class AckedInbox(Protocol):
    def ack(self, *messages: "DurableMessage") -> None: ...

    def nack(self, *messages: "DurableMessage", delay: float = 0.0) -> None: ...

    def in_progress(self, *messages: "DurableMessage") -> None: ...

    def term(self, *messages: "DurableMessage", reason: str = "") -> None: ...

    def publish_and_ack(
        self,
        message: "DurableMessage",
        topic: str,
        payload: Any,
        *,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Any: ...


class DurableMessage(Message, frozen=True, gc=True, kw_only=True, eq=False):
    """A message to acknowledge. It equals no other: two deliveries of one publication have the same `id`."""

    inbox: AckedInbox
    """The inbox that delivered it."""

    def ack(self) -> None:
        """Acknowledge it: no consumer of the subscription receives it again. ClosedError, or FencedError, when this
        consumer does not have the subscription any more."""
        self.inbox.ack(self)

    def nack(self, delay: float = 0.0) -> None:
        """Have it delivered again, to any consumer, after `delay` seconds or more. UsageError if the subscription has
        no `redelivery`."""
        self.inbox.nack(self, delay=delay)

    def in_progress(self) -> None:
        """Let `ack_wait` begin anew. UsageError as for `nack`."""
        self.inbox.in_progress(self)

    def term(self, reason: str = "") -> None:
        """Give it up: no consumer receives it again, and it becomes a dead letter. UsageError as for `nack`."""
        self.inbox.term(self, reason=reason)

    def publish_and_ack(
        self,
        topic: str,
        payload: Any,
        *,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Any:
        """Publish what follows from it and acknowledge it, in one step: `await message.publish_and_ack(...)`, without
        `await` in blocking code. See `DurableInbox.publish_and_ack`."""
        return self.inbox.publish_and_ack(self, topic, payload, keys=keys, attributes=attributes)

    def __repr__(self) -> str:
        return f"<durable message {self.id} on {self.topic}>"


def durable_message(message: Message, inbox: AckedInbox) -> DurableMessage:
    return DurableMessage(*msgspec.structs.astuple(message), inbox=inbox)
