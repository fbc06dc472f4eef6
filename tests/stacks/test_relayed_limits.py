"""No broker is blamed for what its clients or more distant brokers said: limits hold where the client is.

Attack 9 of issue 27: one client with many interests or durable subscriptions reached a limit at the neighbours of its
broker. They cut that broker off, it was fenced, and fenced again when it returned.
"""

from unittest import mock

import pytest

from resprout.core.contract import LinkUp, Received, Send
from resprout.core.message_fields import NUMBER_MAX, next_number
from resprout.edge.broker import quotas
from resprout.edge.durable_messages import Consume, Consuming, Standing, Terms
from resprout.edge.messages import Publish, Subscribe, SubscribeRefused
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.overlay import waves
from resprout.overlay.messages import Life, Seek, Sought
from resprout.spread import interest
from resprout.stacks.resprout import ResproutOptions, durable_admission, durable_book, subscribing
from resprout.stacks.resprout.durable_state import DurableHeard, DurableKnown, DurableState
from resprout.stacks.resprout.pauses import PausedReader, ReadersPaused
from tests.stacks.test_bounds import Durable
from tests.stacks.test_hostile import broker_with, bundle, closed
from tests.stacks.tree import Tree

CHAIN: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1"}
LIVES = {"b0": 1, "b1": 1, "b2": 1}


def chain(**homes: str) -> Tree:
    tree = Tree(CHAIN, {"p": "b0", "s": "b2", **homes}, seed=5, options=ResproutOptions(faults_tolerated=1))
    tree.start()
    tree.run()
    return tree


def check_all_go_on(tree: Tree) -> None:
    assert tree.incarnations == LIVES and tree.closed == []
    tree.ask("s", SubscribeRequest("news"))
    tree.run()
    tree.ask("p", PublishRequest("news", b"still here"))
    tree.run()
    assert [message.payload for message in tree.delivered["s"]] == [b"still here"]


def test_a_client_with_more_interests_than_a_neighbour_takes_costs_its_broker_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = chain(greedy="b2")
    monkeypatch.setattr(interest, "NEIGHBOUR_INTERESTS_MAX", 4)
    for number in range(10):
        tree.ask("greedy", SubscribeRequest(f"a/{number}"))
    tree.run()
    tree.lose("greedy")
    tree.run()
    check_all_go_on(tree)


def test_the_broker_of_a_client_refuses_interests_beyond_the_limit_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = broker_with(Received("c", Subscribe(1, "a", None)))
    monkeypatch.setattr(interest, "INTERESTS_MAX", 2)
    monkeypatch.setattr(subscribing, "INTERESTS_MAX", 2)

    def refused(id: int, topic: str) -> list[str]:
        effects = broker.step(Received("c", Subscribe(id, topic, None)), 0)
        told = [effect.message for effect in effects if isinstance(effect, Send)]
        return [message.reason for message in told if isinstance(message, SubscribeRefused)]

    assert refused(2, "b") == []
    assert refused(3, "c") == ["b knows 2 interests, the most it may (limit interests)"]
    assert refused(4, "b") == [], "which adds none"


def test_durable_subscriptions_beyond_the_limit_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Durable(group=False)
    for module in (durable_book, durable_admission):
        monkeypatch.setattr(module, "SUBSCRIPTIONS_MAX", 1)
    told = scene.join("k")
    assert [each.standing for each in told if isinstance(each, Consuming)] == [Standing.CONSUMER]
    scene.broker.step(LinkUp("k2", "client", 1, 1 << 20), 0)
    told = scene.hear("k2", Consume("other", Terms("t", None, False), 1))
    (refusal,) = [each for each in told if isinstance(each, Consuming)]
    assert refusal.standing is Standing.REFUSED and "limit durable_subscriptions" in refusal.reason


def test_a_broker_that_tells_of_too_many_durable_subscriptions_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_book, "SUBSCRIPTIONS_MAX", 1)
    monkeypatch.setattr(durable_book, "KNOWN_MAX", 2)
    broker = broker_with()
    for number in range(4):
        state = DurableState(f"d{number}", Terms("t", None, False), 1, Life("far", 1), "")
        effects = broker.step(Received("n", DurableKnown(state)), 0)
        assert closed(effects) == []
        if number >= 2:
            assert Send("n", DurableHeard(f"d{number}", 1, 0)) in effects, "nobody waits for an answer"
    assert list(broker.parts.client_book.durables.states) == ["d0", "d1"]


@pytest.mark.parametrize("number", ["term", "edition", "turn"])
def test_a_durable_subscription_at_the_end_of_the_numbers_goes_on(number: str) -> None:
    """A state that leaps was a reason to cut off the broker that passed it on; counters stop at the bound instead."""
    broker = broker_with()
    numbers = {"term": 1, "edition": 0, "turn": 0, number: NUMBER_MAX}
    state = DurableState("d", Terms("t", None, False), home=Life("far", 1), address="", **numbers)  # type: ignore[arg-type]
    assert closed(broker.step(Received("n", DurableKnown(state)), 0)) == []
    assert getattr(broker.parts.client_book.durables.states["d"], number) == NUMBER_MAX == next_number(NUMBER_MAX)


def test_numbers_of_a_publisher_are_no_reason_to_cut_off_the_home_of_a_durable_subscription() -> None:
    """Found beside attack 9: a client counted from 2^60 on, and neighbours refused the watermark of its home."""
    scene = Durable(group=False)
    scene.join("k")
    scene.hear("c", Publish(bundle(NUMBER_MAX, publisher="c")))
    assert scene.handed == [NUMBER_MAX]


def test_searches_of_many_brokers_at_a_time_are_answered_and_nobody_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "SEARCHES_MAX", 3)
    broker = broker_with()
    for number in range(6):
        effects = broker.step(Received("n", Seek(number, (f"x{number}",))), 0)
        assert closed(effects) == []
    answers = [effect.message for effect in effects if isinstance(effect, Send) and effect.peer == "n"]
    assert answers == [Sought(5, (), (0,), False)]


# -- pauses ------------------------------------------------------------------------------------------------------------


def paused(home: str, edition: int, *filters: str) -> ReadersPaused:
    readers = (PausedReader("x", filters, 1, 1),) if filters else ()
    return ReadersPaused(Life(home, 1), edition, readers)


def test_nobody_announces_pauses_in_the_name_of_a_broker_in_another_direction() -> None:
    """Found beside attack 9: any member could pause any topic in the name of another broker, and spoil the editions of
    what that one said."""
    tree = chain()
    b1 = tree.brokers["b1"]
    tree.forge("b2", "b1", paused("b0", NUMBER_MAX, "#"))
    tree.run()
    assert not b1.parts.pauses.seen and not tree.brokers["b0"].parts.pauses.seen
    assert b1.status().refused == {"it said what is for others to say, and was not believed": 1}
    tree.forge("b0", "b1", paused("b0", 1, "news"))
    tree.run()
    assert [pause.broker for pause in b1.parts.pauses.seen] == ["b0"]
    assert tree.incarnations == LIVES and tree.closed == []


def test_what_was_believed_of_a_broker_out_of_view_is_corrected_when_it_comes_into_view() -> None:
    tree = chain()
    pauses, links = tree.brokers["b1"].parts.pauses, tree.brokers["b1"].parts.links
    with mock.patch.object(pauses, "way_to", return_value=None):
        pauses.heard(links["b2"], paused("b0", NUMBER_MAX, "#"))
    assert pauses.seen
    pauses.heard(links["b0"], paused("b0", 1))
    assert not pauses.seen


def test_placements_of_wildcards_that_neighbours_relay_count_and_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were not counted: clients of each broker had 4,096, and every broker looked up all of them. The honest
    client at b0 comes last, and takes none of the first."""
    monkeypatch.setattr(quotas, "DEEP_PLACEMENTS", 32)
    monkeypatch.setattr(quotas, "DEEP_SHARE", 4)
    greedy = {f"g{number}": f"b{number % 3}" for number in range(9)}
    tree = chain(honest="b0", **greedy)
    for bits in range(256):
        topic_filter = "/".join(["+" if bits >> place & 1 else "x" for place in range(8)] + ["+"])
        tree.ask(f"g{bits % 9}", SubscribeRequest(topic_filter))
        tree.run()
    known = [tree.brokers[name].parts.interest.index.deep_placements for name in CHAIN]
    assert 16 <= max(known) < 32, "all brokers together know no more than one may have"
    tree.ask("honest", SubscribeRequest("+/honest/+/+/+/+/+/+/+"))
    tree.run()
    tree.ask("p", PublishRequest("a/honest/1/2/3/4/5/6/7", b"mine"))
    tree.run()
    assert [message.payload for message in tree.delivered["honest"]] == [b"mine"]
