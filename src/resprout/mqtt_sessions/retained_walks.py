"""Sends retained messages for new subscriptions, in portions.

One SUBSCRIBE may ask for all retained messages, and its filters may overlap. So the store is searched step by step, in
turns with other connections, and only while the client takes what was found.

A retained message that is replaced before its portion is sent as the later one, which the client may also receive as a
new message.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from resprout.core.message import Message
from resprout.mqtt.records import Subscription

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer
    from resprout.mqtt_sessions.tree_session import TreeSession

STEPS: Final = 1_024
"""Number of visited topics after which the turn of a session ends."""


class RetainedWalks:
    """The subscriptions of one session whose retained messages are not sent yet."""

    def __init__(self, server: "SessionServer") -> None:
        self._server = server
        self._waiting: dict[str, Subscription] = {}
        """Subscriptions by filter, in order. A later one with the same filter replaces the earlier one."""
        self._walk: Iterator[Message | None] | None = None
        """Search for the first of them."""
        self._in_line = False

    def add(self, subscription: Subscription) -> None:
        name = subscription.request.filter
        if self._walk is not None and name == next(iter(self._waiting)):
            self._walk = None  # begin again
        self._waiting.pop(name, None)
        self._waiting[name] = subscription

    def go_on(self, session: "TreeSession") -> None:
        """Send a portion if it is not this session's turn later anyway."""
        if self._waiting and not self._in_line:
            self._send(session)

    def _turn(self, session: "TreeSession") -> None:
        self._in_line = False
        self._send(session)

    def _send(self, session: "TreeSession") -> None:
        driver, steps = session.driver, STEPS
        if driver is None or driver.session is not session or session.is_over:
            return
        while self._waiting and steps and driver.connection.is_writable and driver.machine.retained_room > 0:
            subscription = next(iter(self._waiting.values()))
            if not driver.machine.is_subscribed(subscription):
                self._next()
                continue
            if self._walk is None:
                self._walk = self._server.machine.walk_last_values(subscription.topic_filter)
            steps -= 1
            try:
                message = next(self._walk)
            except StopIteration:
                self._next()
                continue
            if message is not None:
                driver.deliver_retained(message, subscription)
        driver.finish()
        driver.connection.flush()
        if not steps and self._waiting:
            self._in_line = True
            self._server.line.join(partial(self._turn, session))

    def _next(self) -> None:
        self._walk = None
        del self._waiting[next(iter(self._waiting))]
