"""Events that a program is told of although it asked for nothing: `resprout.connect(..., on_event=...)`.

`gap_text` says in words where a journal of events has a gap.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from resprout.edge.messages import EventGap
from resprout.edge.requests import BrokerChanged, PublishingHeld

TellGap = Callable[[str, EventGap], None]
"""Told the journal, and what is missing there."""


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

OnEvent = Callable[[ClientEvent], object]


def gap_text(journal: str, gap: EventGap) -> str:
    """Say in one sentence which events are missing: positions, times and cause."""
    end = f"position {gap.following}{_at(gap.until_us)}"
    where = f"between position {gap.position - 1}{_at(gap.from_us)} and {end}" if gap.position else f"before {end}"
    return f"events {where} are missing in {journal}: {gap.reason}"


def _at(time_us: int) -> str:
    if not time_us:
        return ""
    try:
        time = datetime.fromtimestamp(time_us / 1_000_000, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):  # what a broker says need not be a time
        return ""
    return f" ({time.isoformat(timespec='milliseconds')}Z)"
