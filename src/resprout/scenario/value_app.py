"""A simulated client that retains values, writes keys of buckets, and reads both.

Each operation publishes on one topic. A `total` is retained; on a topic below `$kv/` it is a write to that key, and may
say at which revision it expects the key: the one that the client knows, an older one, or none. The client asks what
became of each write. Other guarantees publish plainly on the same topics. Before an operation the client may read a
topic, or all that match a filter, and begin or end a subscription that begins with last values.
"""

import random
from collections.abc import Sequence

from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.edge.requests import (
    ClientNews,
    OutcomeAnswered,
    OutcomeRequest,
    Published,
    PublishRequest,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
    ValuesAnswered,
    ValuesRequest,
)
from resprout.scenario.app import AppWish, PacedApp
from resprout.scenario.model import ClientSpec, ValueOptions, WorkloadSpec
from resprout.values.rows import DELETES, EXPECTED, KV_PREFIX, RETAIN_KEY

EXTRAS_MAX = 3
"""Subscriptions that a client begins and ends."""
KNOWN_MAX = 4
"""Revisions of a key that a client remembers."""


class ValueApp(PacedApp):
    def __init__(self, spec: WorkloadSpec, options: ValueOptions, rng: random.Random, client: ClientSpec) -> None:
        super().__init__(spec, rng)
        self._options = options
        self._lasting = {s.filter for s in client.subscriptions}
        self._revisions: dict[str, list[int]] = {}
        """By key, the revisions that the client has seen last; 0 for none."""
        self._publishing: list[bool] = []
        """Of the publications that have no number yet, in their order: whether they write a key."""
        self._writes: dict[int, str] = {}
        """By number, the topics of writes whose outcome is outstanding."""
        self._asked: list[str] = []
        """Topics of publications that have no number yet."""
        self._extras: dict[str, str] = {}
        """By filter: "asked", "confirmed" or "ending"."""

    @property
    def done(self) -> bool:
        return super().done and not self._publishing and not self._writes

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        wishes: list[AppWish] = []
        match news:
            case Published() if self._publishing:
                topic = self._asked.pop(0)
                if self._publishing.pop(0):
                    self._writes[news.seq] = topic
                    wishes.append(OutcomeRequest(news.seq))
            case OutcomeAnswered():
                topic = self._writes.pop(news.seq, "")
                self._learn(topic, news.current)
            case ValuesAnswered():
                for value in news.values:
                    self._learn(value.topic, value.revision)
                if not news.values and not news.reason:
                    self._learn(news.filter, 0)
            case SubscriptionConfirmed() if news.filter in self._extras:
                self._extras[news.filter] = "confirmed"
            case SubscriptionEnded():
                self._extras.pop(news.filter, None)
            case Refused(stream=Guarantee.TOTAL.stream):
                for seq in range(news.first, news.last + 1):
                    self._writes.pop(seq, None)
            case Refused(request=SubscribeRequest() as request):
                self._extras.pop(request.filter, None)
        return [*wishes, *super().told(news, now_us)]

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        if message.tseq >= 0:
            self._learn(message.topic, message.tseq)
        return []

    def _learn(self, topic: str, revision: int) -> None:
        self._revisions[topic] = [*self._revisions.get(topic, [])[1 - KNOWN_MAX :], revision]

    def pause_us(self) -> int:
        return self.rng.randint(0, 2 * self.spec.interval_us)

    def operation(self, left: int) -> list[AppWish]:
        rng, options = self.rng, self._options
        topic = rng.choice(self.spec.topics)
        wishes: list[AppWish] = []
        if rng.random() < options.churn:
            wishes += self._churn(topic)
        if rng.random() < options.reads:
            wishes.append(ValuesRequest(rng.choice((topic, topic, _wide(topic))), payloads=rng.random() < 0.8))
        for _ in range(min(left, options.burst)):
            wishes.append(self._publication(topic, self.draw_guarantee()))
        return wishes

    def _publication(self, topic: str, guarantee: Guarantee) -> PublishRequest:
        rng, options = self.rng, self._options
        is_retained, is_key = guarantee is Guarantee.TOTAL, topic.startswith(KV_PREFIX)
        attributes: dict[str, AttributeValue] = {}
        payload = self.draw_payload(max(1, self.spec.payload))
        if is_retained and rng.random() < options.removals:
            payload = b""
            if is_key:
                attributes[DELETES] = True
        if is_retained and is_key and rng.random() < options.conditions:
            known = self._revisions.get(topic, [0])
            attributes[EXPECTED] = known[-1] if rng.random() < 0.7 else rng.choice((0, *known))
        self._publishing.append(is_retained and is_key)
        self._asked.append(topic)
        return PublishRequest(topic, payload, guarantee, (RETAIN_KEY,) if is_retained else (), attributes)

    def _churn(self, topic: str) -> list[AppWish]:
        rng = self.rng
        endable = [filter for filter, state in self._extras.items() if state == "confirmed"]
        if endable and (len(self._extras) >= EXTRAS_MAX or rng.random() < 0.5):
            filter = rng.choice(endable)
            self._extras[filter] = "ending"
            return [UnsubscribeRequest(filter)]
        filter = rng.choice((topic, topic, _wide(topic)))
        if len(self._extras) >= EXTRAS_MAX or filter in self._extras or filter in self._lasting:
            return []
        self._extras[filter] = "asked"
        return [SubscribeRequest(filter, None, retained=True)]


def _wide(topic: str) -> str:
    """Return a filter that matches the topic and its neighbours."""
    return f"{topic.rpartition('/')[0]}/#" if "/" in topic else topic
