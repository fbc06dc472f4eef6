"""Requests of one session to the tree, in the order of the client's packets (`RequestQueue`).

Most requests are sent at once. A publication waits until the tree has answered the client's earlier requests for
durable subscriptions, for a limited time, so that exactly those that exist at its place in the order get it. A
subscription waits until the client's earlier retained publications are last values, so that it gets them as such.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from resprout.mqtt.actions import PublishMessage
from resprout.mqtt_sessions.pending_subscriptions import PendingSubscriptions
from resprout.mqtt_sessions.receipts import AwaitedReceipts

LENGTH_MAX: Final = 256
"""Number of waiting requests above which no more packets are read from the client."""

WAIT_SECONDS: Final = 5.0
"""Time after which publications wait no longer, because a subscription may take long while the tree is repaired."""


class _Request(msgspec.Struct):
    """Request to subscribe or unsubscribe."""

    send: Callable[[], None]
    is_subscribe: bool
    earlier: frozenset[tuple[str, int]] | None = None
    """Retained publications that have to be applied first; None until all earlier requests are sent."""


class RequestQueue:
    """Queue of one session. `publish` publishes a message, and `flush` sends what was published."""

    __slots__ = ("_awaited", "_flush", "_loop", "_pending", "_publish", "_timer", "_waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        publish: Callable[[PublishMessage], None],
        flush: Callable[[], None],
        pending: PendingSubscriptions,
        awaited: AwaitedReceipts,
    ) -> None:
        self._loop = loop
        self._publish = publish
        self._flush = flush
        self._pending = pending
        self._awaited = awaited
        self._waiting: deque[PublishMessage | _Request] | None = None
        """None if nothing has waited so far: a deque takes 760 bytes."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_long(self) -> bool:
        return self._waiting is not None and len(self._waiting) > LENGTH_MAX

    @property
    def unpublished(self) -> frozenset[int]:
        """Packet identifiers of the QoS 2 publications that wait."""
        return frozenset([one.packet_id for one in self._waiting or () if isinstance(one, PublishMessage)])

    def publish(self, action: PublishMessage) -> None:
        if self._waiting or self._pending.is_behind:
            self._put(action)
            if self._timer is None:
                self._timer = self._loop.call_later(WAIT_SECONDS, self._wait_no_longer)
        else:
            self._publish(action)

    def request(self, send: Callable[[], None], is_subscribe: bool) -> None:
        """Call `send`, which subscribes or unsubscribes, when it is its turn."""
        self._put(_Request(send, is_subscribe))
        self.go_on()

    def _put(self, request: PublishMessage | _Request) -> None:
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(request)

    def go_on(self) -> None:
        """Send the requests that need not wait any more."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, PublishMessage):
                if self._pending.is_behind:
                    break
                waiting.popleft()
                self._publish(first)
                continue
            self._flush()  # earlier publications of the client come first
            if first.is_subscribe:
                if first.earlier is None:
                    first.earlier = self._awaited.retained
                if self._awaited.has_any(first.earlier):
                    break
            if waiting and waiting[0] is first:  # otherwise `flush` has sent it
                waiting.popleft()
                first.send()
        self._flush()

    def publish_all(self) -> None:
        """Publish all messages that wait, before something that has to follow them."""
        if self._waiting:
            some = [one for one in self._waiting if isinstance(one, PublishMessage)]
            rest = [one for one in self._waiting if not isinstance(one, PublishMessage)]
            self._waiting.clear()
            self._waiting.extend(rest)
            for action in some:
                self._publish(action)

    def _wait_no_longer(self) -> None:
        self._timer = None
        self.publish_all()
        self.go_on()

    def close(self) -> None:
        """Drop what waits, and the callbacks, which refer to the session that this object belongs to."""
        self._waiting = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._publish = self._flush = _nothing


def _nothing(*_: object) -> None:
    """Ignore what happens after the end of the session."""
