"""Order of a client's requests to the tree, with pending subscriptions played by the test."""

from collections.abc import Callable
from typing import Any

from resprout.mqtt.actions import PublishMessage
from resprout.mqtt_sessions.pending_subscriptions import PendingSubscriptions
from resprout.mqtt_sessions.receipts import AwaitedReceipts
from resprout.mqtt_sessions.request_queue import LENGTH_MAX, WAIT_SECONDS, RequestQueue


class Timers:
    """The part of an event loop that the queue uses."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, work: Callable[[], None]) -> object:
        self.waiting.append((seconds, work))
        return object()


class Client:
    """A queue of which every subscription is durable, and what it has sent to the tree, in order."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.answered: list[tuple[int, ...]] = []
        self.timers = Timers()
        self.awaited = AwaitedReceipts()
        self.pending = PendingSubscriptions(
            lambda topic_filter: self.sent.append(f"subscribe {topic_filter}"),
            lambda topic_filter: self.sent.append(f"unsubscribe {topic_filter}"),
            lambda packet, reasons: self.answered.append(tuple(reasons)),
            lambda turn: turn(),
            lambda topic_filter: True,
            lambda: self.queue.go_on(),
        )
        loop: Any = self.timers
        self.queue = RequestQueue(
            loop, lambda action: self.sent.append(action.topic), lambda: None, self.pending, self.awaited
        )

    def publish(self, topic: str, packet_id: int = 0) -> None:
        self.queue.publish(PublishMessage(1, topic, b"", None, {}, True, packet_id))

    def subscribe(self, topic_filter: str) -> None:
        self.queue.request(lambda: self.pending.subscribe(1, (topic_filter,)), True)

    def unsubscribe(self, topic_filter: str) -> None:
        self.queue.request(lambda: self.pending.unsubscribe(1, (topic_filter,)), False)


def test_publications_wait_for_earlier_subscriptions() -> None:
    client = Client()
    client.publish("1")
    client.subscribe("a")
    client.publish("2")
    client.unsubscribe("a")
    client.publish("3")
    client.subscribe("a")
    client.publish("4")
    assert client.sent == ["1", "subscribe a"]
    client.pending.confirmed("a")
    assert client.sent[2:] == ["2", "unsubscribe a"]
    client.pending.ended("a")
    assert client.sent[4:] == ["3", "subscribe a"]
    client.pending.confirmed("a")
    assert client.sent[6:] == ["4"]
    assert client.answered == [(0,), (0,), (0,)]
    client.publish("5")
    assert client.sent[7:] == ["5"]


def test_publications_do_not_wait_for_ever() -> None:
    client = Client()
    client.subscribe("a")
    client.publish("1", 7)
    client.publish("2")
    assert client.queue.unpublished == {7, 0}
    assert [seconds for seconds, _ in client.timers.waiting] == [WAIT_SECONDS]
    client.timers.waiting.pop()[1]()
    assert client.sent == ["subscribe a", "1", "2"]
    assert client.queue.unpublished == frozenset()
    client.publish("3")
    assert client.timers.waiting, "the next one waits as long"


def test_a_subscription_that_ends_before_it_is_answered_counts_as_granted() -> None:
    client = Client()
    client.pending.subscribe(1, ("a", "b"))
    client.pending.unsubscribe(2, ("a",))
    client.pending.subscribe(3, ("a",))
    client.pending.confirmed("a")
    assert client.answered == [], "it is the answer to the first request"
    client.pending.confirmed("b")
    assert client.answered == [(0, 0)]
    client.pending.ended("a")
    assert client.answered == [(0, 0), (0,)]
    assert client.sent == ["subscribe a", "subscribe b", "unsubscribe a", "subscribe a"]
    client.pending.confirmed("a")
    assert client.answered == [(0, 0), (0,), (0,)]
    assert not client.pending.is_behind


def test_a_refused_subscription_that_ends() -> None:
    client = Client()
    client.pending.subscribe(1, ("a",))
    client.pending.unsubscribe(2, ("a",))
    client.pending.refused("a", 0x80)  # type: ignore[arg-type]
    assert client.answered == [(0,), (0,)]
    assert not client.pending.is_behind


def test_a_subscription_waits_for_earlier_retained_publications() -> None:
    client = Client()
    client.awaited.add("ordered", 1, 5, is_retained=True)
    client.subscribe("a")
    client.publish("1")
    assert client.sent == []
    client.awaited.take_applied("ordered", 1)
    client.queue.go_on()
    assert client.sent == ["subscribe a"]


def test_reading_stops_while_many_requests_wait() -> None:
    client = Client()
    client.subscribe("a")
    for number in range(LENGTH_MAX + 1):
        assert not client.queue.is_long
        client.publish(str(number))
    assert client.queue.is_long
    client.pending.confirmed("a")
    assert not client.queue.is_long
