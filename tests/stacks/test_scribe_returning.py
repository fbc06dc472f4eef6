"""Clients of `scribe` that lose their broker: they miss nothing that the logs of their topics still hold."""

import pytest

from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, HeldSubscription, TopicPlace
from resprout.scenario.load import load_scenario
from resprout_lab.scribe.clients import LOOKS_MAX, WAIT_US, ReturningClients
from resprout_lab.scribe.wishes import DIRECTORY
from tests.stacks.scribe_runs import ScribePlayed, fault, play, ring

WILD = """
[[client]]
name = "wild"
broker = "b3"
subscribe = ["a/#"]
"""


NEW_TOPIC = """
[[workload]]
kind = "random"
clients = ["writer"]
topics = ["a/new"]
operations = 60
interval = "100ms"
start = "3100ms"
mix = { total = 1.0 }
"""


def check_nothing_missed(played: ScribePlayed) -> None:
    assert not played.verdict.anomalies, played.verdict.anomalies[:5]
    assert played.result.ended == "quiescent"
    assert not [row for row in played.rows if row.kind == "session_lost"]


@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("broker", ["b0", "b3", "b5"])
def test_clients_of_a_dead_broker_miss_nothing(broker: str, host: bool) -> None:
    """They used to be unsubscribed with an error, and with a silent host to miss 342 of 800 deliveries."""
    dead = fault("3500ms", "crash", broker, host=host)
    topics = '"a/x", "a/y", "b"'
    played = play(ring(7, operations=40, interval="100ms", topics=topics, subscribe=topics, clients=WILD, more=dead))
    check_nothing_missed(played)
    assert len(played.delivered("c3")) == 8 * 40


@pytest.mark.parametrize("kinds", [("leave", ""), ("crash", "recover"), ("freeze", "unfreeze")])
def test_clients_of_a_broker_that_leaves_returns_or_freezes_miss_nothing(kinds: tuple[str, str]) -> None:
    gone = fault("3500ms", kinds[0], "b3") + (fault("8s", kinds[1], "b3") if kinds[1] else "")
    topics = '"a/x", "a/y", "b"'
    played = play(ring(7, operations=60, interval="100ms", topics=topics, subscribe=topics, clients=WILD, more=gone))
    check_nothing_missed(played)


def test_the_scenario_that_comes_with_the_stack_misses_nothing() -> None:
    played = play(load_scenario("scribe"))
    assert not played.verdict.anomalies


def test_what_is_young_is_kept_for_clients_between_two_brokers() -> None:
    """Found by the swarm: a client turns to another broker some seconds after its own fell silent, and more than
    `keep_bytes` had been published and spread by then."""
    dead = fault("3500ms", "crash", "b3", host=True)
    played = play(ring(7, operations=60, interval="100ms", options="keep_bytes = 12000", more=dead))
    check_nothing_missed(played)


def check_only_told(played: ScribePlayed) -> list[str]:
    """Return who was told that messages may be missing, each once."""
    assert played.result.ended == "quiescent"
    assert {anomaly.rule for anomaly in played.verdict.anomalies} == {"lost_told"}
    told = [row.node for row in played.rows if row.kind == "session_lost"]
    assert len(set(told)) == len(told)
    return told


def test_a_client_behind_what_is_kept_is_told_before_it_is_shown_more() -> None:
    """Found by the swarm with `keep_us` 3 s (seed 230000016): a broker skipped what was not kept and delivered what had
    come early in one step. So its clients did not seem to lack anything, and missed 332 messages without a word."""
    dead = fault("3300ms", "crash", "b7", host=True)
    played = play(ring(10, operations=12, interval="100ms", options="keep_us = 1000000", more=dead))
    assert {"c4", "c9"} <= set(check_only_told(played)), "the broker of c9 skipped, that of c4 is below it"


def test_a_filter_that_missed_the_beginning_of_a_new_topic_is_told_once() -> None:
    """Found by the swarm with `keep_us` 3 s (seed 230000010): the client did not know the topic. So each broker served
    it, found that the beginning of the topic was not kept, and sent it on to the next one, for ever."""
    clients = WILD.replace("b3", "b0") + '[[client]]\nname = "writer"\nbroker = "b1"\n'
    dead = fault("3050ms", "crash", "b0", host=True)
    played = play(ring(4, operations=5, options="keep_us = 500000", clients=clients, more=dead + NEW_TOPIC))
    assert sorted(check_only_told(played)) == ["c0", "wild"]


# -- who can go on -----------------------------------------------------------------------------------------------------


class Door:
    """One client with these positions that stands at the door of a broker."""

    def __init__(self, *filters: str, **places: int) -> None:
        self.read: list[str] = []
        self.returning = ReturningClients(self.read.append)
        held = tuple(HeldSubscription(id, filter, None, ()) for id, filter in enumerate(filters))
        known = tuple(TopicPlace(topic.replace("directory", DIRECTORY), position) for topic, position in places.items())
        self.attend = Attend(0, ("old",), (), held, places=known)
        self.session = ClientSession("c", 1, 1 << 20)

    def is_open(self, waited_us: int = 0) -> bool:
        return self.returning.door(self.session, self.attend, waited_us)

    @property
    def places(self) -> dict[str, int] | None:
        return self.returning.take("c")


def test_a_client_waits_until_all_leaders_have_said_what_they_keep() -> None:
    door = Door("t", "u", t=5, u=7)
    assert not door.is_open() and door.read == ["t", "u"]
    door.returning.has_come("t", 9, 5)
    assert not door.is_open()
    door.returning.has_come("u", 7, 0)
    assert door.is_open() and door.places == {"t": 5, "u": 7}


def test_a_client_that_missed_what_is_no_longer_kept_is_told() -> None:
    door = Door("t", t=5)
    assert not door.is_open()
    door.returning.has_come("t", 9, 6)
    assert door.is_open() and door.places is None


def test_a_client_without_a_position_of_its_topic_is_told() -> None:
    door = Door("t", u=5)
    assert door.is_open() and not door.read and door.places is None


def test_a_log_that_knows_less_than_the_client_is_asked_again_and_then_taken_for_another_one() -> None:
    door = Door("t", t=5)
    assert not door.is_open()
    for _ in range(LOOKS_MAX):
        door.returning.has_come("t", 4, 0)
        assert not door.is_open()
    assert door.read == ["t"] * (1 + LOOKS_MAX)
    door.returning.has_come("t", 4, 0)
    assert door.is_open() and door.places is None


def test_a_client_does_not_wait_for_ever_for_a_leader() -> None:
    door = Door("t", t=5)
    assert not door.is_open(WAIT_US - 1)
    assert door.is_open(WAIT_US) and door.places is None


def test_a_filter_with_wildcards_goes_on_with_the_directory_and_the_topics_that_it_knew() -> None:
    door = Door("+", directory=3, t=5)
    assert not door.is_open() and sorted(door.read) == sorted([DIRECTORY, "t"])
    door.returning.has_come(DIRECTORY, 4, 0)
    door.returning.has_come("t", 5, 0)
    assert door.is_open() and door.places == {DIRECTORY: 3, "t": 5}
