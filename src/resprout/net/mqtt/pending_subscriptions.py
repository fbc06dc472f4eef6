"""Pending SUBSCRIBE and UNSUBSCRIBE packets of one session, by filter as the client sent it.

Concurrent requests for a filter share one subscription request in the tree. If a filter is subscribed again while it is
being unsubscribed, the request is sent after the unsubscription completes. Packets are answered in order.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from resprout.mqtt.reasons import Reason


class PendingPacket(msgspec.Struct):
    """SUBSCRIBE or UNSUBSCRIBE that is not answered yet."""

    token: int
    filters: tuple[str, ...]
    reasons: list[int | None]
    is_subscribe: bool


class PendingSubscriptions:
    """Pending requests of one session. `ask` starts a subscription in the tree, `end` ends one, and `answer` is called
    with each packet and its reason codes."""

    def __init__(
        self,
        ask: Callable[[str], None],
        end: Callable[[str], None],
        answer: Callable[[PendingPacket, Sequence[int]], None],
    ) -> None:
        self._ask = ask
        self._end = end
        self._answer = answer
        self._asked: list[PendingPacket] = []
        self._confirmed: dict[str, bool] = {}
        """Whether the tree has confirmed the subscription, by filter."""
        self._ending: dict[str, bool] = {}
        """Whether to subscribe again after the unsubscription completes, by filter being unsubscribed."""

    def __iter__(self) -> Iterator[str]:
        """Iterate over the subscribed filters, confirmed or not, without those being unsubscribed."""
        return iter(self._confirmed)

    def is_confirmed(self, topic_filter: str) -> bool:
        """Return whether the subscription is confirmed and not being unsubscribed."""
        return self._confirmed.get(topic_filter, False)

    def adopt(self, topic_filter: str) -> None:
        """Subscribe to a filter of a resumed session, without a packet to answer."""
        self._begin(topic_filter)

    def subscribe(self, token: int, filters: Sequence[str]) -> None:
        asked = PendingPacket(token, tuple(filters), [None] * len(filters), True)
        self._asked.append(asked)
        for place, topic_filter in enumerate(filters):
            if topic_filter in self._ending:
                self._ending[topic_filter] = True
            elif topic_filter not in self._confirmed:
                self._begin(topic_filter)
            elif self._confirmed[topic_filter]:
                asked.reasons[place] = Reason.SUCCESS
        self._settle()

    def unsubscribe(self, token: int, filters: Sequence[str]) -> None:
        asked = PendingPacket(token, tuple(filters), [None] * len(filters), False)
        self._asked.append(asked)
        for place, topic_filter in enumerate(filters):
            if topic_filter in self._ending:
                self._ending[topic_filter] = False
            elif self._confirmed.pop(topic_filter, None) is not None:
                self._ending[topic_filter] = False
                self._end(topic_filter)
            else:
                asked.reasons[place] = Reason.NO_SUBSCRIPTION_EXISTED
        self._settle()

    def confirmed(self, topic_filter: str) -> None:
        if topic_filter in self._confirmed:
            self._confirmed[topic_filter] = True
        self._resolve(topic_filter, Reason.SUCCESS, True)

    def refused(self, topic_filter: str, reason: Reason) -> None:
        self._confirmed.pop(topic_filter, None)
        self._resolve(topic_filter, reason, True)

    def ended(self, topic_filter: str) -> None:
        again = self._ending.pop(topic_filter, False)
        self._resolve(topic_filter, Reason.SUCCESS, False)
        if again:
            self._begin(topic_filter)

    def _begin(self, topic_filter: str) -> None:
        self._confirmed[topic_filter] = False
        self._ask(topic_filter)

    def _resolve(self, topic_filter: str, reason: Reason, is_subscribe: bool) -> None:
        for asked in self._asked:
            if asked.is_subscribe is is_subscribe:
                for place, wanted in enumerate(asked.filters):
                    if wanted == topic_filter and asked.reasons[place] is None:
                        asked.reasons[place] = reason
        self._settle()

    def _settle(self) -> None:
        while self._asked and None not in self._asked[0].reasons:
            asked = self._asked.pop(0)
            reasons: list[Any] = asked.reasons
            self._answer(asked, tuple(reasons))
