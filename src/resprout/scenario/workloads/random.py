"""Publications without a meaning, every choice drawn: topic, guarantee, keys, attributes, size, pause.

Where asked (`churn`), the client also begins and ends extra subscriptions, at most `EXTRAS_MAX` at a time. They may
overlap with those it has, as a user's may, but never repeat one: the end of a subscription names it by what it says.

`draw_attributes`, `draw_where` and `draw_filter` draw attributes, and filters and conditions that are interesting for
them.
"""

import random
from collections.abc import Sequence
from typing import Final

from resprout.core.guarantee import Guarantee
from resprout.core.names import AttributeValue
from resprout.edge.requests import (
    ClientNews,
    PublishRequest,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)
from resprout.scenario.app import AppWish
from resprout.scenario.model import ClientSpec, RandomOptions, WorkloadSpec
from resprout.scenario.workloads.pace import PacedApp

EXTRAS_MAX: Final = 4

KINDS: Final = ("a", "b", "c")
AMOUNT_MAX: Final = 999


class RandomApp(PacedApp):
    def __init__(self, spec: WorkloadSpec, options: RandomOptions, rng: random.Random, client: ClientSpec) -> None:
        super().__init__(spec, rng)
        self._options = options
        self._lasting = {(s.filter, s.where) for s in client.subscriptions}
        wanted = {s.filter for s in client.subscriptions}
        self._topics = [topic for topic in spec.topics if topic in wanted or not options.subscribed]
        self._extras: dict[tuple[str, str | None], str] = {}  # "asked", "confirmed" or "ending"

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if isinstance(news, SubscriptionConfirmed):
            if (news.filter, news.where) in self._extras:
                self._extras[news.filter, news.where] = "confirmed"
        elif isinstance(news, SubscriptionEnded):
            self._extras.pop((news.filter, news.where), None)
        elif isinstance(news, Refused) and isinstance(news.request, SubscribeRequest):
            self._extras.pop((news.request.filter, news.request.where), None)
        return super().told(news, now_us)

    def pause_us(self) -> int:
        return self.rng.randint(0, 2 * self.spec.interval_us)

    def operation(self, left: int) -> list[AppWish]:
        wishes: list[AppWish] = []
        if self._options.churn and self.rng.random() < self._options.churn:
            wishes += self._churn()
        topic = self.rng.choice(self._topics)
        guarantee = self.draw_guarantee()
        keys = self._keys(topic, guarantee)
        for _ in range(min(left, self._options.burst)):
            payload = self.draw_payload(self._size())
            attributes = draw_attributes(self.rng) if self._options.attributes else {}
            wishes.append(PublishRequest(topic, payload, guarantee, keys, attributes))
        return wishes

    def _keys(self, topic: str, guarantee: Guarantee) -> tuple[str, ...]:
        if not self.spec.keys:
            return ()
        least = 1 if guarantee is Guarantee.TOTAL else 0
        count = self.rng.randint(least, max(least, self._options.keys_max))
        return tuple(sorted({self._key(topic) for _ in range(count)}))

    def _key(self, topic: str) -> str:
        key = f"k{self.rng.randrange(self.spec.keys)}"
        if self._options.foreign_keys and self.rng.random() < self._options.foreign_keys:
            other = self.rng.choice(self.spec.topics)
            return key if other == topic else f"{other}#{key}"
        return key

    def _size(self) -> int:
        least = self._options.payload_min
        return self.spec.payload if least is None else self.rng.randint(least, self.spec.payload)

    def _churn(self) -> list[AppWish]:
        endable = [extra for extra, state in self._extras.items() if state == "confirmed"]
        if endable and (len(self._extras) >= EXTRAS_MAX or self.rng.random() < 0.5):
            extra = self.rng.choice(endable)
            self._extras[extra] = "ending"
            return [UnsubscribeRequest(*extra)]
        where = draw_where(self.rng) if self.rng.random() < self._options.churn_where else None
        extra = (draw_filter(self.rng, self.spec.topics), where)
        if len(self._extras) >= EXTRAS_MAX or extra in self._extras or extra in self._lasting:
            return []
        self._extras[extra] = "asked"
        return [SubscribeRequest(*extra)]


def draw_attributes(rng: random.Random) -> dict[str, AttributeValue]:
    """Each one is missing now and then, because a condition over nothing is the case people get wrong."""
    full: dict[str, AttributeValue] = {
        "amount": rng.randint(0, AMOUNT_MAX),
        "kind": rng.choice(KINDS),
        "ratio": rng.randint(0, 100) / 100,
        "urgent": rng.random() < 0.5,
    }
    return {name: value for name, value in full.items() if rng.random() < 0.9}


def draw_where(rng: random.Random) -> str:
    """A condition that holds for some of `draw_attributes` and not for others."""
    low, high = sorted((rng.randint(0, AMOUNT_MAX), rng.randint(0, AMOUNT_MAX)))
    kind, other = rng.sample(KINDS, 2)
    return rng.choice((
        f"amount > {low}",
        f"amount between {low} and {high}",
        f"amount <= {high} and kind != '{kind}'",
        f"kind = '{kind}'",
        f"kind in ('{kind}', '{other}') or amount >= {high}",
        f"kind like '{kind}%'",
        f"not (kind = '{kind}' or ratio < 0.{rng.randint(1, 9)})",
        "urgent = true",
        f"urgent = false and ratio >= 0.{rng.randint(1, 9)}",
        "ratio is null",
        f"amount is not null and amount != {low}",
    ))  # fmt: skip


def draw_filter(rng: random.Random, topics: Sequence[str]) -> str:
    """One of the topics, exactly or with a wildcard in place of one level or of the rest."""
    levels = rng.choice(topics).split("/")
    shape = rng.random()
    if shape < 0.5:
        return "/".join(levels)
    place = rng.randrange(len(levels))
    if shape < 0.75:
        return "/".join([*levels[:place], "+", *levels[place + 1 :]])
    return "/".join([*levels[:place], "#"])
