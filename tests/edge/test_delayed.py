"""Messages that are delayed, or expire: in the client of a plain subscriber, at the home of a durable subscription, and
at its consumer."""

from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, stow, timed_rows
from resprout.core.contract import Hold
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.timing import DUE, EXPIRES, PRIORITY
from resprout.edge.broker import retries as retries_module
from resprout.edge.broker import timed as timed_module
from resprout.edge.broker.portion import Consumer, Portion
from resprout.edge.broker.retries import EXPIRY_US, Retries
from resprout.edge.broker.retry_queue import RetryQueue
from resprout.edge.broker.session import ENTRY_BYTES, ClientSession
from resprout.edge.broker.timed import TimesCache
from resprout.edge.client.delayed import TOO_MUCH
from resprout.edge.client.machine import ClientOptions
from resprout.edge.client.options import DelayOver
from resprout.edge.durable_messages import RetryTerms, Span
from resprout.edge.messages import Delivery, Subscribe, Subscribed, Taken, Unsubscribed
from resprout.edge.requests import DeliveriesExpired, DeliveriesSkipped, SubscribeRequest, TakeRequest
from resprout.edge.requests import UnsubscribeRequest as EndRequest
from resprout.values.rows import RETAIN_KEY
from resprout_lab.blocks.retention import KeptItem
from tests.edge.puppets import Puppet

S = 1_000_000
EPOCH = 1_800_000_000 * S
"""Time 0 of the machines, in microseconds since 1970."""


def timed(
    first: int, *rows: dict[str, AttributeValue], guarantee: Guarantee = Guarantee.EVENTUAL, keys: tuple[str, ...] = ()
) -> Bundle:
    payloads = pack_payloads([f"{first + at}".encode() for at in range(len(rows))])
    return Bundle("p", 1, first, len(rows), 1, "t", keys, guarantee, pack_attributes(rows), payloads)


def at(seconds: float) -> int:
    return EPOCH + int(seconds * S)


def due(seconds: float) -> dict[str, AttributeValue]:
    return {DUE: at(seconds)}


def expires(seconds: float) -> dict[str, AttributeValue]:
    return {EXPIRES: at(seconds)}


# -- the client of a plain subscriber ----------------------------------------------------------------------------------


def subscriber(takes_at_once: bool = True, **more: Any) -> Puppet:
    return Puppet(ClientOptions(takes_at_once=takes_at_once, epoch_us=EPOCH, **more))


def given(client: Puppet) -> list[str]:
    return [message.payload.decode() for message in client.delivered]


def told(client: Puppet, kind: type) -> list[Any]:
    return [news for news in client.told if isinstance(news, kind)]


def taken(client: Puppet) -> list[int]:
    return [message.deliveries for message in client.sent if isinstance(message, Taken)]


def deliver(client: Puppet, bundle: Bundle) -> list[str]:
    return given(client.hear(Delivery(bundle, 0, 0, None, False, -1)))


def wait(client: Puppet, seconds: float) -> list[str]:
    client.now_us = int(seconds * S)
    return given(client.ring(DelayOver()))


def test_a_client_keeps_delayed_messages_until_their_time() -> None:
    client = subscriber()
    assert deliver(client, timed(1, due(3), {}, due(2))) == ["2"]
    assert client.timers[DelayOver()] == 2 * S
    assert wait(client, 1.9) == []
    assert wait(client, 2) == ["3"]
    assert wait(client, 9) == ["1"]


def test_positions_of_delayed_messages_follow_those_of_what_came_before() -> None:
    client = subscriber()
    deliver(client, timed(1, due(1), {}))
    deliver(client, timed(3, {}))
    client.now_us = S
    assert [message.position for message in client.ring(DelayOver()).delivered] == [2]


def test_a_client_drops_what_has_expired_and_says_which() -> None:
    client = subscriber()
    client.now_us = 5 * S
    assert deliver(client, timed(1, expires(4), expires(6), expires(5), {})) == ["2", "4"]
    assert told(client, DeliveriesExpired) == [
        DeliveriesExpired((Span("p", "eventual", 1, 1, 1), Span("p", "eventual", 1, 3, 3)))
    ]


def test_a_delayed_message_that_expires_before_its_time_is_dropped() -> None:
    client = subscriber()
    assert deliver(client, timed(1, {**due(3), **expires(2)})) == []
    assert wait(client, 3) == []
    assert told(client, DeliveriesExpired) == [DeliveriesExpired((Span("p", "eventual", 1, 1, 1),))]


@pytest.mark.parametrize("guarantee", [Guarantee.CAUSAL, Guarantee.TOTAL])
def test_an_ordered_message_is_not_held_back(guarantee: Guarantee) -> None:
    assert deliver(subscriber(), timed(1, due(3), guarantee=guarantee)) == ["1"]


def test_a_last_value_is_delivered_whatever_its_expiry_says() -> None:
    client = subscriber()
    client.now_us = 5 * S
    assert deliver(client, timed(1, expires(4), guarantee=Guarantee.TOTAL, keys=(RETAIN_KEY,))) == ["1"]


def test_a_client_that_knows_no_time_delivers_everything_at_once() -> None:
    client = Puppet(ClientOptions())
    assert deliver(client, timed(1, due(3), expires(-1))) == ["1", "2"]


def test_a_client_delivers_no_delayed_message_of_a_subscription_that_is_over() -> None:
    client = subscriber()
    client.ask(SubscribeRequest("t"))
    id = next(message.id for message in client.sent if isinstance(message, Subscribe))
    client.hear(Subscribed(id))
    deliver(client, timed(1, due(1), due(2)))
    assert wait(client, 1) == ["1"]
    client.ask(EndRequest("t"))
    client.hear(Unsubscribed(id))
    assert wait(client, 2) == []


def test_delayed_messages_beyond_the_room_for_them_are_dropped_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.edge.client.delayed.DELAYED_BYTES", 900)
    client = subscriber()
    deliver(client, timed(1, due(1), due(2), due(3)))
    assert told(client, DeliveriesSkipped) == [DeliveriesSkipped((Span("p", "eventual", 1, 3, 3),), TOO_MUCH)]
    assert wait(client, 9) == ["1", "2"]


def test_messages_that_are_due_in_years_make_room_for_those_that_are_due_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """They filled the room for good: no other delayed message was delivered any more."""
    monkeypatch.setattr("resprout.edge.client.delayed.DELAYED_BYTES", 900)
    client = subscriber()
    deliver(client, timed(1, due(1e9), due(2e9)))
    deliver(client, timed(3, due(2), due(1)))
    assert told(client, DeliveriesSkipped) == [DeliveriesSkipped((Span("p", "eventual", 1, 1, 2),), TOO_MUCH)]
    assert wait(client, 9) == ["4", "3"]


def test_a_large_delayed_message_counts_with_its_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as the average of its bundle, in which a thousand others may be empty."""
    monkeypatch.setattr("resprout.edge.client.delayed.DELAYED_BYTES", 5_000)
    client = subscriber()
    rows = [due(1), *[{} for _ in range(9)]]
    payloads = pack_payloads([bytes(9_000), *[b""] * 9])
    deliver(client, Bundle("p", 1, 1, 10, 1, "t", (), Guarantee.EVENTUAL, pack_attributes(rows), payloads))
    assert told(client, DeliveriesSkipped) == [DeliveriesSkipped((Span("p", "eventual", 1, 1, 1),), TOO_MUCH)]


def test_a_delivery_of_which_nothing_is_due_counts_as_taken_when_all_before_it_are() -> None:
    client = subscriber(takes_at_once=False, take_deliveries=1)
    deliver(client, timed(1, {}))
    deliver(client, timed(2, due(1)))
    deliver(client, timed(3, {}))
    deliver(client, timed(4, expires(-1)))
    assert taken(client) == []
    assert taken(client.ask(TakeRequest(1))) == [2]
    assert taken(client.ask(TakeRequest(1))) == [4]
    assert wait(client, 1) == ["2"]
    assert taken(client.ask(TakeRequest(1))) == [], "the broker heard of it when it came"


def test_delayed_messages_that_the_program_does_not_take_hold_back_the_broker() -> None:
    client = subscriber(takes_at_once=False, untaken_bytes_max=500)
    deliver(client, timed(1, due(1), due(1)))
    wait(client, 1)
    assert client.of(Hold)


# -- the home of a durable subscription --------------------------------------------------------------------------------


class Home:
    def __init__(self, is_shared: bool = True, **policy: Any) -> None:
        self.session = ClientSession("=jobs", 0, 0)
        self.took: list[KeptItem] = []
        took: Any = self.took.append
        retries = Retries(RetryTerms("dead", **policy) if policy else None, epoch_us=EPOCH)
        self.queue = RetryQueue(self.session, is_shared, took, (), retries=retries)
        self._items = 0

    def publish(self, bundle: Bundle) -> None:
        self._items += 1
        self.session.backlog.append(KeptItem(bundle, self._items, None, False))

    def join(self, name: str = "a", window: int = 100) -> None:
        self.queue.join(Consumer(ClientSession(name, 1, 1 << 20), window), ())

    def at(self, seconds: float) -> list[int]:
        """Return the numbers that are handed out."""
        queue = self.queue
        queue.retries.now_us = int(seconds * S)
        queue.fill()
        queue.release_due()
        queue.drop_expired()
        handed: list[int] = []

        def give(consumer: Consumer, portion: Portion) -> None:
            handed.extend([portion.first + offset for offset in portion.offsets])

        queue.hand_out(give)
        return sorted(handed)

    def ack(self, *numbers: int, name: str = "a") -> None:
        for number in numbers:
            self.queue.acknowledge(name, Span("p", "eventual", 1, number, number))


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_durable_subscription_hands_out_delayed_messages_in_their_time(is_shared: bool) -> None:
    home = Home(is_shared)
    home.join()
    home.publish(timed(1, due(2), {}, due(1), due(2)))
    assert home.at(0) == [2]
    assert home.queue.retries.next_us() == S
    assert home.at(0.9) == []
    assert home.at(1) == [3]
    assert home.at(2) == [1, 4]
    home.ack(1, 2, 3)
    assert not home.took
    home.ack(4)
    assert len(home.took) == 1


def test_delayed_messages_of_a_bundle_wait_together_whatever_their_times_are() -> None:
    """With a portion for each time, 1,024 of them were picked from the bundle one by one: 3 s for 300 KB."""
    home = Home()
    home.join(window=2_000)
    home.publish(timed(1, *[due(1 + number / 1_000) for number in range(1_000)]))
    assert home.at(0) == []
    assert len(list(home.queue.portions())) == 1
    assert home.at(1.0995) == [*range(1, 101)]
    assert len(list(home.queue.portions())) == 2
    home.queue.acknowledge("a", Span("p", "eventual", 1, 1, 100))
    assert home.at(1.1) == [101]
    assert home.at(9) == [*range(102, 1_001)]
    home.queue.acknowledge("a", Span("p", "eventual", 1, 101, 1_000))
    assert len(home.took) == 1


def test_delayed_messages_are_acknowledged_rejected_and_purged_one_by_one() -> None:
    home = Home(max_deliver=5)
    home.join()
    home.publish(timed(1, due(1), due(2), due(3), due(4)))
    assert home.at(2) == [1, 2]
    home.queue.nack("a", Span("p", "eventual", 1, 1, 1), 5 * S)
    assert home.at(3) == [3]
    assert home.at(5) == [1, 4]
    home.queue.leave("a")
    home.join("b")
    assert home.at(5) == [1, 2, 3, 4]


def test_the_times_of_a_bundle_are_read_once_for_all_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1,000 durable subscriptions, a bundle of 300 KB took 7 s in one step."""
    read: list[Bundle] = []

    def counted(bundle: Bundle) -> Any:
        read.append(bundle)
        return timed_rows(bundle)

    monkeypatch.setattr(timed_module, "timed_rows", counted)
    times, bundle, homes = TimesCache(), timed(1, due(1), expires(2)), [Home(), Home(), Home()]
    for home in homes:
        home.queue.times = times
        home.publish(bundle)
        home.at(0)
    assert read == [bundle]


def test_a_subscription_that_drops_the_oldest_drops_delayed_messages_too() -> None:
    """They were not dropped: they grew without a bound, and everything else was dropped in their place."""
    home = Home()
    bundles = [timed(101 + number, due(1_000 - number)) for number in range(100)]
    for bundle in bundles:
        home.publish(bundle)
    home.at(0)
    most = sum([ENTRY_BYTES + bundle.cost for bundle in bundles])
    home.session.owed_bytes = most + 1
    home.queue.drop_oldest(10, most)
    kept = [portion.first for portion in home.queue.portions()]
    assert sorted(kept) == [*range(151, 201)], "the ones that are due first"
    home.publish(timed(201, {}))
    home.publish(timed(202, {}))
    home.queue.fill()
    home.queue.drop_oldest(10, most)
    home.join()
    assert home.at(0) == [201, 202]


def test_expired_messages_are_looked_for_more_rarely_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "EXPIRY_PORTIONS", 2)
    home = Home()
    for number in range(8):
        home.publish(timed(1 + number, expires(1 + number / 10)))
    home.at(0)
    home.at(1)
    assert home.queue.waiting == 7
    home.at(2)
    assert home.queue.waiting == 7, "of eight portions, one look in four seconds"
    home.at(5)
    assert home.queue.waiting == 0


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_durable_subscription_hands_out_nothing_that_has_expired(is_shared: bool) -> None:
    home = Home(is_shared)
    home.publish(timed(1, expires(1), expires(3), {}, {**due(1), **expires(2)}))
    home.at(0)
    home.join()
    assert home.at(2.5) == [2, 3]
    home.ack(2, 3)
    assert len(home.took) == 1, "what has expired is done"


def test_a_message_that_expires_while_nobody_consumes_is_done_soon() -> None:
    home = Home()
    home.publish(timed(1, expires(1), expires(1.5)))
    assert home.at(0) == []
    assert home.queue.retries.next_us() == S
    home.at(1)
    assert home.queue.waiting == 1
    home.at(1 + EXPIRY_US / S)
    assert home.queue.waiting == 0
    assert len(home.took) == 1
    assert home.queue.retries.next_us() == 0


def test_a_delayed_message_that_expires_before_its_time_is_done_without_being_handed_out() -> None:
    home = Home()
    home.join()
    home.publish(timed(1, {**due(5), **expires(2)}))
    assert home.at(0) == []
    assert home.at(2) == []
    assert len(home.took) == 1


def test_a_rejected_message_that_has_expired_does_not_come_back() -> None:
    home = Home(max_deliver=5)
    home.join()
    home.publish(timed(1, expires(2), {}))
    assert home.at(0) == [1, 2]
    home.queue.nack("a", Span("p", "eventual", 1, 1, 2), 3 * S)
    assert home.at(3) == [2]


def test_keys_of_delayed_messages_lock_nothing() -> None:
    home = Home(max_deliver=5)
    home.join("a", window=1)
    home.join("b", window=5)
    home.publish(timed(1, due(5), {}, keys=("k",)))
    assert home.at(0) == [2]
    assert home.at(5) == [1]


def test_a_purge_drops_delayed_messages() -> None:
    home = Home()
    home.publish(timed(1, due(5), {}))
    home.at(0)
    assert home.queue.purge() == 2
    home.join()
    assert home.at(5) == []


def test_attributes_that_are_no_times_are_ignored() -> None:
    home = Home()
    home.join()
    home.publish(timed(1, {DUE: "soon"}, {EXPIRES: True}, {DUE: -5}, {EXPIRES: 0}, {DUE: 1.5}))
    assert home.at(0) == [1, 2, 3, 4, 5]


class Store:
    """One place on a disk."""

    used, places, trouble = 0, 0, ""

    def put(self, content: bytes) -> bytes:
        return content

    def get(self, place: bytes) -> bytes:
        return place

    def forget(self, place: bytes) -> None:
        """It keeps nothing."""


def test_a_bundle_on_disk_knows_whether_it_has_times() -> None:
    for bundle, rows in ((timed(1, due(5)), [due(5)]), (timed(1, {"a": 1}), None)):
        stowed = stow(bundle, Store())
        assert stowed is not None
        assert timed_rows(stowed) == rows
    assert timed_rows(Bundle("p", 1, 1, 1, 1, "t", (), Guarantee.EVENTUAL, DUE.encode(), b"")) is None, "unreadable"


# -- priorities --------------------------------------------------------------------------------------------------------


def urgent(*priorities: AttributeValue) -> list[dict[str, AttributeValue]]:
    return [{PRIORITY: priority} for priority in priorities]


def test_a_group_hands_out_urgent_messages_first() -> None:
    home = Home()
    home.publish(timed(1, *urgent(0, 3, 9, 3, 0)))
    home.publish(timed(6, {}, *urgent(12)))
    home.at(0)
    home.join(window=1)
    order: list[int] = []
    while handed := home.at(0):
        order += handed
        home.ack(*handed)
    assert order == [3, 7, 2, 4, 1, 5, 6]
    assert len(home.took) == 2


def test_an_urgent_message_that_comes_back_goes_first_again() -> None:
    home = Home(max_deliver=5)
    home.join("a", window=1)
    home.publish(timed(1, *urgent(5)))
    assert home.at(0) == [1]
    home.publish(timed(2, *urgent(4, 5)))
    home.queue.leave("a")
    home.join("b", window=1)
    order: list[int] = []
    while handed := home.at(0):
        order += handed
        home.ack(*handed, name="b")
    assert order == [1, 3, 2]


def test_messages_with_keys_and_subscriptions_without_a_group_have_no_priorities() -> None:
    for home, keys in ((Home(), ("k",)), (Home(is_shared=False), ())):
        home.join(window=1)
        home.publish(timed(1, *urgent(1, 9), keys=keys))
        home.publish(timed(3, *urgent(9), keys=keys))
        order: list[int] = []
        while handed := home.at(0):
            order += handed
            home.ack(*handed)
        assert order == [1, 2, 3]


def test_of_too_many_messages_the_oldest_of_the_lowest_priority_are_dropped() -> None:
    home = Home()
    home.publish(timed(1, *urgent(5, 0, 9, 0, 5)))
    home.at(0)
    home.queue.drop_oldest(2, 1 << 30)
    home.join()
    assert home.at(0) == [3, 5]
    home.queue.acknowledge("a", Span("p", "eventual", 1, 1, 5))
    assert home.queue.waiting == 0


def test_expired_messages_are_dropped_at_every_priority() -> None:
    home = Home()
    home.publish(timed(1, *[{**row, **expires(1)} for row in urgent(0, 5)], *urgent(5, 0)))
    home.at(0)
    home.at(1)
    assert home.queue.waiting == 2
    assert home.queue.purge() == 2
