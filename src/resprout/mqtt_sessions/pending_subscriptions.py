"""Pending SUBSCRIBE and UNSUBSCRIBE packets of one session, by filter as the client sent it.

Concurrent requests for a filter share one subscription request in the tree. If a filter is subscribed again while it is
being unsubscribed, the request is sent after the unsubscription completes. A SUBSCRIBE whose filter is unsubscribed
before the tree has answered counts as granted. Packets are answered in order.

A packet may name thousands of filters, each of which is a request to the tree. They are sent in portions, in turns with
other connections.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from resprout.mqtt.reasons import Reason

PORTION: Final = 64
"""Maximum number of requests to the tree in one turn of a session."""


class PendingPacket(msgspec.Struct):
    """SUBSCRIBE or UNSUBSCRIBE that is not answered yet."""

    token: int
    filters: tuple[str, ...]
    reasons: list[int | None]
    is_subscribe: bool
    open: int = 0
    """Number of filters without a reason."""


class PendingSubscriptions:
    """Pending requests of one session. `ask` starts a subscription in the tree, `end` ends one, and `answer` is called
    with each packet and its reason codes. `later` calls a function when it is this session's turn again."""

    def __init__(
        self,
        ask: Callable[[str], None],
        end: Callable[[str], None],
        answer: Callable[[PendingPacket, Sequence[int]], None],
        later: Callable[[Callable[[], None]], None],
        is_durable: Callable[[str], bool],
        moved: Callable[[], None],
    ) -> None:
        self._ask = ask
        self._end = end
        self._answer = answer
        self._later = later
        self._is_durable = is_durable
        self._moved = moved
        self._unsent: list[tuple[Callable[[str], None], str]] = []
        """Requests that are not sent to the tree yet: `ask` or `end`, and the filter."""
        self._in_line = False
        self._asked: list[PendingPacket] = []
        self._open: dict[tuple[str, bool], list[tuple[PendingPacket, int]]] = {}
        """Packets without a reason for a filter, each with the place of the filter, by filter and whether they
        subscribe."""
        self._confirmed: dict[str, bool] = {}
        """Whether the tree has confirmed the subscription, by filter."""
        self._ending: dict[str, bool] = {}
        """Whether to subscribe again after the unsubscription completes, by filter being unsubscribed."""
        self._again = 0
        """Number of filters to subscribe again."""
        self._unsettled = 0
        """Number of requests for durable subscriptions that the tree has not answered."""

    def close(self) -> None:
        """Drop the callbacks, which refer to the session that this object belongs to."""
        self._unsent.clear()
        self._ask = self._end = self._answer = self._later = self._moved = _nothing
        self._is_durable = _never

    def __iter__(self) -> Iterator[str]:
        """Iterate over the subscribed filters, confirmed or not, without those being unsubscribed."""
        return iter(self._confirmed)

    @property
    def is_behind(self) -> bool:
        """Whether a message that is published now may miss a subscription that was requested before, or reach one that
        ended before: a request is not sent to the tree, or concerns a durable subscription and is not answered.
        `moved` is called when this may have changed."""
        return bool(self._unsent or self._again or self._unsettled)

    def is_confirmed(self, topic_filter: str) -> bool:
        """Return whether the subscription is confirmed and not being unsubscribed."""
        return self._confirmed.get(topic_filter, False)

    def adopt(self, topic_filter: str) -> None:
        """Subscribe to a filter of a resumed session, without a packet to answer."""
        self._begin(topic_filter)

    def subscribe(self, token: int, filters: Sequence[str]) -> None:
        asked = self._enter(token, filters, True)
        new: list[str] = []
        for place, topic_filter in enumerate(filters):
            if self._confirmed.get(topic_filter, False):
                asked.reasons[place] = Reason.SUCCESS
                continue
            self._wait(asked, place)
            if topic_filter in self._ending:
                self._set_again(topic_filter, True)
            elif topic_filter not in self._confirmed:
                self._confirmed[topic_filter] = False
                new.append(topic_filter)
        self._unsent.extend([(self._ask, topic_filter) for topic_filter in new])
        self._settle()
        self._send()

    def unsubscribe(self, token: int, filters: Sequence[str]) -> None:
        asked = self._enter(token, filters, False)
        old: list[str] = []
        for place, topic_filter in enumerate(filters):
            self._resolve(topic_filter, Reason.SUCCESS, True)
            if topic_filter in self._ending:
                self._set_again(topic_filter, False)
            elif self._confirmed.pop(topic_filter, None) is not None:
                self._ending[topic_filter] = False
                old.append(topic_filter)
            else:
                asked.reasons[place] = Reason.NO_SUBSCRIPTION_EXISTED
                continue
            self._wait(asked, place)
        self._unsent.extend([(self._end, topic_filter) for topic_filter in old])
        self._settle()
        self._send()

    def _enter(self, token: int, filters: Sequence[str], is_subscribe: bool) -> PendingPacket:
        asked = PendingPacket(token, tuple(filters), [None] * len(filters), is_subscribe)
        self._asked.append(asked)
        return asked

    def _set_again(self, topic_filter: str, again: bool) -> None:
        self._again += again - self._ending[topic_filter]
        self._ending[topic_filter] = again

    def _wait(self, asked: PendingPacket, place: int) -> None:
        asked.open += 1
        key = (asked.filters[place], asked.is_subscribe)
        if key not in self._open:
            self._open[key] = []
            self._unsettled += self._is_durable(key[0])
        self._open[key].append((asked, place))

    def confirmed(self, topic_filter: str) -> None:
        if topic_filter in self._ending:
            return  # a request for it that comes later has to wait
        if topic_filter in self._confirmed:
            self._confirmed[topic_filter] = True
        self._resolve(topic_filter, Reason.SUCCESS, True)
        self._settle()
        self._moved()

    def refused(self, topic_filter: str, reason: Reason) -> None:
        if topic_filter in self._ending:
            self.ended(topic_filter)
            return
        self._confirmed.pop(topic_filter, None)
        self._resolve(topic_filter, reason, True)
        self._settle()
        self._moved()

    def ended(self, topic_filter: str) -> None:
        again = self._ending.pop(topic_filter, False)
        self._again -= again
        self._resolve(topic_filter, Reason.SUCCESS, False)
        self._settle()
        if again:
            self._begin(topic_filter)
        self._moved()

    def _begin(self, topic_filter: str) -> None:
        self._confirmed[topic_filter] = False
        self._unsent.append((self._ask, topic_filter))
        self._send()

    def _send(self) -> None:
        """Send a portion of the requests, unless it is this session's turn later anyway."""
        if self._in_line:
            return
        portion = self._unsent[:PORTION]
        del self._unsent[:PORTION]
        for send, topic_filter in portion:
            send(topic_filter)
        if self._unsent:
            self._in_line = True
            self._later(self._turn)

    def _turn(self) -> None:
        self._in_line = False
        self._send()
        self._moved()

    def _resolve(self, topic_filter: str, reason: Reason, is_subscribe: bool) -> None:
        """Answer a filter in all packets that wait for it."""
        waiting = self._open.pop((topic_filter, is_subscribe), None)
        if waiting is None:
            return
        self._unsettled -= self._is_durable(topic_filter)
        for asked, place in waiting:
            asked.reasons[place] = reason
            asked.open -= 1

    def _settle(self) -> None:
        while self._asked and not self._asked[0].open:
            asked = self._asked.pop(0)
            reasons: list[Any] = asked.reasons
            self._answer(asked, tuple(reasons))


def _nothing(*_: object) -> None:
    """Ignore what happens after the end of the session."""


def _never(topic_filter: str) -> bool:
    return False
