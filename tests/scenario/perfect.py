"""A network without brokers: every publication reaches every matching subscriber, all in one order, after one latency.

The least that applications need in order to run, and a reference for what they may assume: it keeps every guarantee.
"""

from resprout.core.bundle import topics_of
from resprout.core.guarantee import ReceiptLevel
from resprout.core.message import Message
from resprout.edge.requests import (
    ClientNews,
    Published,
    PublishRequest,
    ReceiptTurned,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)  # fmt: skip
from resprout.filters.predicate import parse_predicate
from resprout.scenario.app import App, Applied, AppWish, WakeAt
from resprout.scenario.app_runner import AppMaker
from resprout.scenario.model import Scenario
from tests.network import Time


class PerfectNetwork(Time):
    def __init__(self, scenario: Scenario, latency_us: int = 1_000) -> None:
        super().__init__()
        maker = AppMaker(scenario)
        self.apps: dict[str, App] = {client.name: maker.make(client.name) for client in scenario.clients}
        self.latency_us = latency_us
        self.wishes: list[tuple[int, str, AppWish]] = []
        self.deliveries: dict[str, list[Message]] = {name: [] for name in self.apps}
        self.live: dict[str, dict[tuple[str, str | None], None]] = {name: {} for name in self.apps}
        self._counts: dict[tuple[str, str], int] = {}

    def run(self, until_us: int = 10**12, steps_max: int = 200_000) -> None:
        for name, app in self.apps.items():
            self._take(name, app.start(0))
        while self.pass_on(until_us):
            assert self.events < steps_max, "the applications do not come to an end"

    def applied(self, client: str) -> list[Applied]:
        return [wish for _, name, wish in self.wishes if name == client and isinstance(wish, Applied)]

    def published(self, client: str | None = None) -> list[tuple[int, PublishRequest]]:
        return [
            (time_us, wish)
            for time_us, name, wish in self.wishes
            if isinstance(wish, PublishRequest) and client in (None, name)
        ]

    def _take(self, name: str, wishes: "list[AppWish] | tuple[AppWish, ...] | object") -> None:
        assert isinstance(wishes, list | tuple)
        for wish in wishes:
            self.wishes.append((self.now_us, name, wish))
            match wish:
                case WakeAt(at_us):
                    self.after(max(0, at_us - self.now_us), lambda: self._take(name, self.apps[name].woke(self.now_us)))
                case PublishRequest():
                    self._publish(name, wish)
                case SubscribeRequest(filter_, where):
                    self.live[name][filter_, where] = None
                    self._tell(name, SubscriptionConfirmed(filter_, where))
                case UnsubscribeRequest(filter_, where):
                    del self.live[name][filter_, where]
                    self._tell(name, SubscriptionEnded(filter_, where))

    def _tell(self, name: str, news: ClientNews) -> None:
        self.after(self.latency_us, lambda: self._take(name, self.apps[name].told(news, self.now_us)))

    def _publish(self, name: str, request: PublishRequest) -> None:
        stream = request.guarantee.stream
        seq = self._counts.get((name, stream), 0)
        self._counts[name, stream] = seq + 1
        self._tell(name, Published(stream, seq))
        self._tell(name, ReceiptTurned(stream, ReceiptLevel.SAFE, seq, seq))
        message = Message(
            name, 1, seq, request.topic, request.keys, request.guarantee, dict(request.attributes), request.payload, 0
        )
        self.after(self.latency_us, lambda: self._deliver(message))

    def _deliver(self, message: Message) -> None:
        topics = topics_of(message.topic, message.keys)
        for name, app in self.apps.items():
            predicates = [parse_predicate(*subscription) for subscription in self.live[name]]
            if any(p.matches(topic, message.attributes) for p in predicates for topic in topics):
                self.deliveries[name].append(message)
                self._take(name, app.delivered(message, self.now_us))
