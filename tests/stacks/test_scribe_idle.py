"""Topics on which nothing happens cost nothing, and wake up when something does."""

from collections import Counter

import pytest

from resprout.core.contract import Effect, Event, Send
from resprout_lab.scribe.broker import ScribeBroker
from tests.stacks.scribe_runs import ScribePlayed, fault, play, ring

LATE = """
[[workload]]
kind = "random"
topics = ["t0"]
operations = 10
interval = "50ms"
start = "20s"
mix = { total = 1.0 }
"""


def idle_messages(topics: int) -> Counter[str]:
    """Between brokers, in the ten seconds before the late publications."""
    counted: Counter[str] = Counter()
    step = ScribeBroker.step

    def stepped(self: ScribeBroker, event: Event, now_us: int) -> list[Effect]:
        effects = list(step(self, event, now_us))
        if 10_000_000 <= now_us < 20_000_000:
            sent = [effect for effect in effects if isinstance(effect, Send) and effect.peer.startswith("b")]
            counted.update(type(effect.message).__name__ for effect in sent)
        return effects

    names = ", ".join(f'"t{number}"' for number in range(topics))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScribeBroker, "step", stepped)
        play(ring(8, operations=1, topics=names, subscribe=names, more=LATE)).check_clean()
    return counted


def test_what_an_idle_network_says_does_not_depend_on_the_number_of_topics() -> None:
    """It was 79 messages a second for one topic, and 1,168 for a hundred, on eight brokers."""
    few, many = idle_messages(1), idle_messages(40)
    assert few == many
    assert set(few) == {"FindOwner", "OwnerFound", "AskSuccessor", "SuccessorSays"}, "the ring alone"


def after_sleep(brokers: int, *faults: str) -> ScribePlayed:
    """Publications at 3 s, faults at 15 s while all topics sleep, and publications again at 20 s."""
    played = play(ring(brokers, operations=3, topics='"t0"', subscribe='"t0"', more=LATE + "".join(faults)))
    played.check_clean()
    return played


@pytest.mark.parametrize("broker", [f"b{number}" for number in range(6)])
@pytest.mark.parametrize("host", [False, True])
def test_a_broker_that_dies_while_topics_sleep_is_noticed(broker: str, host: bool) -> None:
    """Among them the leader, its successor, and inner members of the tree: nobody waits for a sign of life."""
    played = after_sleep(6, fault("15s", "crash", broker, host=host))
    assert not played.verdict.anomalies
    assert len(played.delivered("c0")) == len(played.delivered("c5"))


def test_a_client_that_subscribes_to_a_sleeping_topic_is_in_its_tree_at_once() -> None:
    wakes = '[[client]]\nname = "late"\nbroker = "b4"\nsubscribe = ["t0"]\n'
    joins = fault("15s", "crash", "late") + fault("16s", "recover", "late")
    played = play(ring(6, operations=3, topics='"t0"', subscribe='"t0"', clients=wakes, more=LATE + joins))
    played.check_clean()
    confirmed = [row.time_us for row in played.rows if row.node == "late" and row.kind == "subscribed"]
    assert confirmed[-1] - 16_000_000 < 500_000


@pytest.mark.parametrize("broker", ["b0", "b2", "b4"])
def test_a_broker_that_is_cut_off_or_frozen_while_topics_sleep_finds_its_way_back(broker: str) -> None:
    cut = fault("12s", "partition", broker) + '[[fault]]\nat = "18s"\nkind = "heal"\n'
    after_sleep(6, cut)
    after_sleep(6, fault("12s", "freeze", broker), fault("18s", "unfreeze", broker))
