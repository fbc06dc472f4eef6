"""Retained messages of new subscriptions are searched and sent in portions."""

import itertools
from collections.abc import Callable

from resprout.filters.topic_tree import TopicTree
from resprout.mqtt.packets import Publish
from resprout.mqtt_sessions.pending_subscriptions import PORTION, PendingSubscriptions
from tests.mqtt.peer import mqtt_peer
from tests.mqtt.stage import mqtt_broker
from tests.net.stage import run, until

TOPICS = 300
LEVELS = "abcde"
FILTERS = ["/".join(levels) + "/#" for levels in itertools.product(*[(level, "+") for level in LEVELS])]


def test_overlapping_filters_get_each_retained_message_but_few_at_a_time() -> None:
    async def work() -> None:
        settings = {"sys_seconds": 0}
        async with (
            mqtt_broker(settings=settings) as broker,
            mqtt_peer(broker.address) as one,
            mqtt_peer(broker.address) as other,
        ):
            await one.connect("one")
            for number in range(TOPICS):
                one.say(Publish(f"{'/'.join(LEVELS)}/{number}", bytes(2_000), retain=True))
            await until(lambda: broker.server.broker.books.machine.value_count[0] == TOPICS)
            await other.connect("other")
            assert set((await other.subscribe(*FILTERS, qos=0)).reasons) == {0}
            assert await one.publish("x", b"", 1) in (0, 0x10), "others are served meanwhile"
            driver = broker.server.sessions["other"].driver
            assert driver is not None and driver.machine.state is not None
            left = TOPICS * len(FILTERS)
            while left:
                message = await other.hear_a(Publish)
                assert message.retain
                assert driver.machine.state.outgoing.retained_waiting <= 256
                left -= 1

    run(work())


def test_a_filter_that_visits_many_topics_and_finds_none_costs_a_bounded_number_of_steps_in_a_turn() -> None:
    tree: TopicTree[int] = TopicTree()
    for number in range(5_000):
        tree.put(f"a/{number}/x", number)
    visited = list(tree.walk("a/+/y"))
    assert 5_000 <= len(visited) <= 10_010
    assert not any(visited)


def test_a_walk_goes_on_while_the_tree_changes() -> None:
    tree: TopicTree[int] = TopicTree()
    for number in range(100):
        tree.put(f"a/{number}", number)
    walk = tree.walk("a/#")
    found = [next(walk) for _ in range(50)]
    for number in range(0, 100, 2):
        tree.remove(f"a/{number}")
        tree.put(f"b/{number}", number)
    found += list(walk)
    assert {number for number in found if number is not None and number % 2} == set(range(1, 100, 2))


def test_a_packet_with_thousands_of_filters_is_asked_of_the_tree_in_portions() -> None:
    asked: list[str] = []
    answered: list[tuple[int, ...]] = []
    turns: list[Callable[[], None]] = []
    pending = PendingSubscriptions(
        asked.append,
        lambda topic_filter: pending.ended(topic_filter),
        lambda packet, reasons: answered.append(tuple(reasons)),
        turns.append,
        lambda topic_filter: False,
        lambda: None,
    )
    filters = [f"f/{number}" for number in range(5 * PORTION)]
    pending.subscribe(1, filters)
    pending.unsubscribe(2, filters[::2])
    for portion in range(1, 6):
        assert len(asked) == portion * PORTION
        assert len(turns) == 1, "one turn at a time"
        turns.pop()()
    while turns:
        turns.pop()()
    assert asked == filters
    for topic_filter in filters:
        pending.confirmed(topic_filter)
    assert answered == [(0,) * len(filters), (0,) * len(filters[::2])]
    assert [topic_filter for topic_filter in filters if pending.is_confirmed(topic_filter)] == filters[1::2]
