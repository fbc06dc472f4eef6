"""When a durable subscription delivers a message again, and when it gives the message up.

    inbox = await client.subscribe("jobs/#", group="workers", redelivery=Redelivery(max_deliver=5, ack_wait=30.0))
    async for job in inbox:
        try:
            work(job)
        except TemporaryError:
            job.nack(delay=10.0)

`Settling` is the half of a durable inbox that says what becomes of a message which is not acknowledged.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from resprout.client.arguments import check_count, check_kind, wrong
from resprout.core.errors import UsageError
from resprout.core.limits import REASON_BYTES, check_topic
from resprout.core.message import DurableMessage
from resprout.core.message_fields import NUMBER_MAX, TIME_MAX
from resprout.edge.durable_messages import RetryTerms, Settlement

ACK_WAIT_MIN: Final = 0.1
DELAY_MAX: Final = 365 * 86_400.0
"""Seconds: one year."""


class Redelivery(msgspec.Struct, frozen=True, kw_only=True):
    """How a durable subscription treats messages that are not acknowledged. All its consumers name the same."""

    max_deliver: int | None = None
    """A message that was delivered so often without an ack becomes a dead letter; None: it never does."""
    ack_wait: float | None = None
    """Seconds within which a consumer acknowledges a message, 0.1 or more; then it is delivered again. None: as long as
    the consumer is connected."""
    dead_letter: str | None = None
    """Topic of the dead letters; None: `dead/NAME`, with the name of the subscription."""


def retry_terms(redelivery: Any, name: str) -> RetryTerms | None:
    """Return the terms of a subscription of this name. UsageError for a wrong value."""
    check_kind(redelivery, "redelivery", Redelivery, "a resprout.Redelivery, or None")
    if redelivery is None:
        return None
    if redelivery.max_deliver is not None:
        check_count(redelivery.max_deliver, "max_deliver", 1, NUMBER_MAX)
    topic = f"dead/{name}" if redelivery.dead_letter is None else check_topic(redelivery.dead_letter)
    wait_us = 0 if redelivery.ack_wait is None else _microseconds(redelivery.ack_wait, "ack_wait", ACK_WAIT_MIN)
    return RetryTerms(topic, redelivery.max_deliver or 0, wait_us)


class Settling:
    """A part of `DurableInbox`, which has what is said here."""

    name: str
    redelivers: bool
    """Whether the subscription was made with a `Redelivery`."""

    def _settle(self, settlement: Settlement, messages: Sequence[DurableMessage], delay_us: int, reason: str) -> None:
        raise NotImplementedError

    def nack(self, *messages: DurableMessage, delay: float = 0.0) -> None:
        """Have messages delivered again, to any consumer, after `delay` seconds or more. It counts as a delivery.
        UsageError if the subscription has no `redelivery`; other errors as for `ack`."""
        delay_us = check_delay(delay)
        check_redelivers(self)
        self._settle(Settlement.NACK, messages, delay_us, "")

    def in_progress(self, *messages: DurableMessage) -> None:
        """Let `ack_wait` begin anew for messages. Errors as for `nack`."""
        check_redelivers(self)
        self._settle(Settlement.IN_PROGRESS, messages, 0, "")

    def term(self, *messages: DurableMessage, reason: str = "") -> None:
        """Give messages up: no consumer receives them again, and they become dead letters. Errors as for `nack`."""
        check_reason(reason)
        check_redelivers(self)
        self._settle(Settlement.TERM, messages, 0, reason)


def check_redelivers(inbox: Settling) -> None:
    """UsageError if messages of the inbox can only be acknowledged."""
    if not inbox.redelivers:
        raise UsageError(
            f"{inbox.name!r} was subscribed to without redelivery=, so its messages can only be acknowledged"
        )


def check_delay(delay: Any) -> int:
    """Return the delay of a message in microseconds."""
    return _microseconds(delay, "delay", 0.0)


def check_reason(reason: Any) -> None:
    if not isinstance(reason, str) or len(reason.encode("utf-8", "surrogatepass")) > REASON_BYTES:
        raise wrong("reason", reason, f"a text of at most {REASON_BYTES} bytes")


def _microseconds(seconds: Any, argument: str, least: float) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= DELAY_MAX:
        raise wrong(argument, seconds, f"seconds, from {least:g} to {DELAY_MAX:g}")
    return min(int(seconds * 1e6), TIME_MAX)
