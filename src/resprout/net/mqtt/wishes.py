"""The SUBSCRIBE and UNSUBSCRIBE packets of one session that wait for the tree, by the filters as the client wrote them.

A filter is asked for once, whoever asks again meanwhile. One that is to end and is wanted again before it has ended is
asked for when it has. Answers leave in the order of the packets.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from resprout.mqtt.reasons import Reason


class AskedPacket(msgspec.Struct):
    """A SUBSCRIBE or UNSUBSCRIBE that is not answered yet."""

    token: int
    filters: tuple[str, ...]
    reasons: list[int | None]
    is_subscribe: bool


class SubscriptionWishes:
    """`ask` begins a subscription in the tree, `end` ends one; `answer` is given packets whose answer is complete."""

    def __init__(
        self,
        ask: Callable[[str], None],
        end: Callable[[str], None],
        answer: Callable[[AskedPacket, Sequence[int]], None],
    ) -> None:
        self._ask = ask
        self._end = end
        self._answer = answer
        self._asked: deque[AskedPacket] = deque()
        self._stands: dict[str, bool] = {}
        """By filter: whether the tree has confirmed it."""
        self._ending: dict[str, bool] = {}
        """By filter that is to end: whether it is wanted again."""

    def __iter__(self) -> Iterator[str]:
        """Filters that were asked for and are not to end."""
        return iter(self._stands)

    def stands(self, topic_filter: str) -> bool:
        """Whether the tree has confirmed it, and it is not to end."""
        return self._stands.get(topic_filter, False)

    def adopt(self, topic_filter: str) -> None:
        """The session has it from before: nobody waits for its answer."""
        self._begin(topic_filter)

    def subscribe(self, token: int, filters: Sequence[str]) -> None:
        asked = AskedPacket(token, tuple(filters), [None] * len(filters), True)
        self._asked.append(asked)
        for place, topic_filter in enumerate(filters):
            if topic_filter in self._ending:
                self._ending[topic_filter] = True
            elif topic_filter not in self._stands:
                self._begin(topic_filter)
            elif self._stands[topic_filter]:
                asked.reasons[place] = Reason.SUCCESS
        self._settle()

    def unsubscribe(self, token: int, filters: Sequence[str]) -> None:
        asked = AskedPacket(token, tuple(filters), [None] * len(filters), False)
        self._asked.append(asked)
        for place, topic_filter in enumerate(filters):
            if topic_filter in self._ending:
                self._ending[topic_filter] = False
            elif self._stands.pop(topic_filter, None) is not None:
                self._ending[topic_filter] = False
                self._end(topic_filter)
            else:
                asked.reasons[place] = Reason.NO_SUBSCRIPTION_EXISTED
        self._settle()

    def confirmed(self, topic_filter: str) -> None:
        if topic_filter in self._stands:
            self._stands[topic_filter] = True
        self._resolve(topic_filter, Reason.SUCCESS, True)

    def refused(self, topic_filter: str, reason: Reason) -> None:
        self._stands.pop(topic_filter, None)
        self._resolve(topic_filter, reason, True)

    def ended(self, topic_filter: str) -> None:
        again = self._ending.pop(topic_filter, False)
        self._resolve(topic_filter, Reason.SUCCESS, False)
        if again:
            self._begin(topic_filter)

    def _begin(self, topic_filter: str) -> None:
        self._stands[topic_filter] = False
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
            asked = self._asked.popleft()
            reasons: list[Any] = asked.reasons
            self._answer(asked, tuple(reasons))
