"""What a program may want to know although nothing is asked of it: `resprout.connect(..., on_event=...)`."""

from collections.abc import Callable
from typing import Any

import msgspec

from resprout.edge.messages import EventGap
from resprout.edge.requests import BrokerChanged, PublishingHeld


class DeliveriesMissing(msgspec.Struct, frozen=True):
    """The network could not make good what this client missed. Inboxes of confirmed subscriptions end, and have to be
    asked for again; everything else goes on."""

    reason: str


class PublicationDelayed(msgspec.Struct, frozen=True):
    """A publication, and what follows it, waits for long; told again when the reason changes."""

    id: tuple[Any, ...]
    """That of its receipt."""
    reason: str
    """For people: "waits for b3, which is not heard", or "waits for subscriber log-1 at b2, which has too much unread
    of data/#"."""


class SlowConsumer(msgspec.Struct, frozen=True):
    """The broker ended the session of this client, because it did not read fast enough. Its inboxes raise
    `SlowConsumerError` after what had come."""

    reason: str


class MessagesDropped(msgspec.Struct, frozen=True):
    """More waited for a subscription than it may have (`when_full="drop_oldest"`), or messages cannot be read."""

    subscription: str
    """The name of a durable subscription; empty for others."""
    count: int
    """Messages that were dropped, the oldest ones, since this was told last."""
    reason: str = ""
    """Why, when it is not that too many waited: a broker has spoiled them on their way."""


class EventsMissing(msgspec.Struct, frozen=True):
    """A subscription that begins in the past has passed over a gap (`allow_gaps`): its broker was down."""

    filter: str
    gap: EventGap
    reason: str
    """For people: which events are missing, and why."""


ClientEvent = (
    BrokerChanged
    | DeliveriesMissing
    | EventsMissing
    | MessagesDropped
    | PublicationDelayed
    | PublishingHeld
    | SlowConsumer
)
__all__ = [
    "BrokerChanged", "ClientEvent", "DeliveriesMissing", "EventsMissing", "MessagesDropped", "OnEvent",
    "PublicationDelayed", "PublishingHeld", "SlowConsumer",
]  # fmt: skip

OnEvent = Callable[[ClientEvent], object]
